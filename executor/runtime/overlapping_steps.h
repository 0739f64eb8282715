// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/task_loop.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

namespace planloom::runtime {

/// The steps of a rank whose Program spans steps (program::Program::spansSteps). They are entered as soon as the one
/// before is over but for what stays open. A stop request is known once steps are agreed on, by when ranks may be
/// openSteps further than the last of these: all of them end behind those. So a step is entered only when that cannot
/// be before it. Thread contract: one thread.
class OverlappingSteps final : private StepHooks {
public:
    /// ExecutorOptions::afterStep.
    using AfterStep = std::function<Status(const run::StepMetrics &, bool &stop)>;
    /// What it is given must outlive it.
    OverlappingSteps(RankParts &parts, RankCommunication &communication, TaskLoop &loop, const ExecutorOptions &options,
                     AfterStep afterStep);

    /// Collective. Errors: those of TaskLoop::runUntilDone, of settling what is under way, and of AfterStep.
    Status run();
    [[nodiscard]] std::int64_t stepsDone() const { return m_stepsDone; }

private:
    /// A step that is not reported yet: this rank has left it, all ranks have agreed on it, or neither.
    struct Unreported {
        std::optional<std::int64_t> left; ///< when
        bool agreed = false;
        run::StepMetrics metrics;
    };

    Status beforeTask() override;
    void stepsAgreed() override;
    Status agreeOnTheRest();
    void report();
    void enterSteps(std::int64_t firstStep);
    void admit();
    [[nodiscard]] std::int64_t endOfSteps() const;
    [[nodiscard]] bool pausesAfter(std::int64_t step) const;
    [[nodiscard]] std::int64_t pauseAfter(std::int64_t step) const;

    RankParts &m_parts;
    RankCommunication &m_communication;
    TaskLoop &m_loop;
    const ExecutorOptions &m_options;
    AfterStep m_afterStep;
    std::deque<Unreported> m_unreported; ///< from step m_first on
    run::StepMetrics m_reported;         ///< the last ones
    std::int64_t m_first = 0;            ///< step that is not reported
    std::int64_t m_stepsDone = 0;
    std::int64_t m_left = 0;       ///< steps before this one are left
    std::int64_t m_pause = 0;      ///< no step from this one on is entered before all communication has ended
    std::int64_t m_agreeEvery = 1; ///< steps
    std::int64_t m_agreed = 0;     ///< steps before this one are agreed on
    bool m_stop = false;           ///< the last agreement says so
    std::int64_t m_lastLeft = 0;   ///< when the step before m_first was left
};

} // namespace planloom::runtime

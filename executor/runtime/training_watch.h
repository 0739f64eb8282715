// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/run/settings.h"
#include "executor/runtime/checkpointing.h"
#include "executor/runtime/drain.h"

#include <limits>
#include <memory>

namespace planloom::runtime {

/// Work between the steps of a run: validation, early stop, checkpoints. Every rank has one and all decide
/// alike, as they see the same figures. Thread contract: the thread of the executor.
class TrainingWatch {
public:
    /// Collective. Restores the checkpoint that the request names. Errors: those of restoreHeld and
    /// Checkpointing::create.
    static Result<std::unique_ptr<TrainingWatch>> create(RankExecutor &executor, const run::Request &request,
                                                         const plan::Plan &plan, const Feed &feed,
                                                         const std::string &runDir, Drain &drain);
    /// Whether there is something to do after @p step where steps overlap: a validation or a checkpoint is due, or one
    /// is in the making and the ranks have to agree on it, for which a step in @p period is enough.
    [[nodiscard]] bool pausesAfter(std::int64_t step, std::int64_t period) const;
    /// Collective.
    Status afterStep(const run::StepMetrics &result, bool &stop);
    /// Collective, after the last step: that one is kept, too.
    Status finish();
    [[nodiscard]] bool stoppedEarly() const { return m_stoppedEarly; }
    /// What it knows beside what the executor holds, for checkpoints and for the watch of another executor.
    [[nodiscard]] std::map<std::string, std::string> notes() const;
    void goOnWith(std::map<std::string, std::string> notes);

private:
    TrainingWatch(RankExecutor &executor, const run::Request &request, Drain &drain)
        : m_executor(executor),
          m_request(request),
          m_drain(drain)
    {
    }
    Status begin(const plan::Plan &plan, const Feed &feed, const std::string &runDir);
    Status validate(std::int64_t step, bool &stop);

    RankExecutor &m_executor;
    const run::Request &m_request;
    Drain &m_drain;
    std::unique_ptr<Checkpointing> m_checkpoints;            ///< none: not asked for
    double m_best = std::numeric_limits<double>::infinity(); ///< held-out loss
    std::int64_t m_waited = 0;                               ///< validations since the best one
    bool m_stoppedEarly = false;
};

} // namespace planloom::runtime

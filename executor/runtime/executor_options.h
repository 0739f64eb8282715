// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/training.h"
#include "engine/program/program.h"
#include "engine/run/metrics.h"
#include "engine/run/series.h"
#include "executor/device/device.h"
#include "executor/runtime/kernel_marks.h"
#include "executor/runtime/version_link.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <string>

namespace planloom::runtime {

class ServedParameters;

/// How a rank runs its Program.
struct ExecutorOptions {
    std::int64_t steps = 1;     ///< the run's, those before firstStep included
    std::int64_t firstStep = 0; ///< where a resumed run goes on
    std::int64_t until = -1; ///< step before which this executor ends, if the run goes on by another; -1: it does not
    bool measures = false;   ///< the operators of its first steps (OperatorTimes)
    std::int64_t updatesFrom = 0; ///< step at which the optimizer begins: behind others that are trained otherwise
    std::int64_t seed = 1;
    plan::Optimizer optimizer;
    /// Squared norms of the residuals of an iteration of ADMM (admm::residualNames()); an error ends the run.
    std::function<Status(std::int64_t step, std::span<const float> squares)> onResiduals;
    std::string modelFolder;                                      ///< where parameters that come from files lie
    std::chrono::nanoseconds deadline = std::chrono::seconds(60); ///< no communication may stand still for longer
    device::Device *device = nullptr;                             ///< borrowed; nullptr: this machine's processors
    ServedParameters *served = nullptr; ///< borrowed: of parameter servers, where the plan has any
    KernelMarks *marks = nullptr;       ///< borrowed: told which task the device's commands belong to
    VersionLink *link = nullptr;        ///< borrowed; where the Program has a parameter server
    bool sharesCores = false; ///< this machine has more ranks than cores: one that waits leaves its core to others
    const std::atomic<bool> *stop = nullptr; ///< set by any thread, on any rank: all ranks stop after the same step
    std::function<void(const run::StepMetrics &)> onStep; ///< on the executing thread; must not block
    /// This rank's part of a step's loss, once a step, in order: of a rank that counts the loss of a replica its
    /// samples' mean times their share of the global batch; must not block.
    std::function<void(std::int64_t step, double part)> onOwnLoss;
    /// On the first rank of the team of each table, once a step, in order: what all members have looked up; must not
    /// block.
    std::function<void(TableId table, std::int64_t step, const run::RowCounts &counts)> onRows;
    /// On every rank after each step, when nothing is under way: may communicate, evaluate and copy held tensors. True
    /// in `stop`, on every rank: the run ends after this step. An error ends the run.
    std::function<Status(const run::StepMetrics &, bool &stop)> afterStep;
    /// Where steps overlap, afterStep is called after those alone of which this says so: all communication then ends
    /// first. Where rows of tables are exchanged a step later (program::Table::delays), it says before which calls of
    /// afterStep they are exchanged at once; empty: before all. Asked in order, on every rank; all answer alike. Empty:
    /// after none.
    std::function<bool(std::int64_t step)> pausesAfter;

    /// Behind its last step.
    [[nodiscard]] std::int64_t end() const { return until < 0 ? steps : std::min(until, steps); }
    /// Of the optimizer in @p step.
    [[nodiscard]] double learningRate(std::int64_t step) const
    {
        return optimizer.learningRate
            * plan::learningRateFactor(optimizer.schedule, step - updatesFrom, steps - updatesFrom);
    }
};

} // namespace planloom::runtime

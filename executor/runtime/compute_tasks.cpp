// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/compute_tasks.h"

namespace planloom::runtime {

Status ComputeTasks::run(const program::Task &task, std::int64_t step, PassHooks &hooks)
{
    if (const auto *snapshot = task.as<program::Snapshot>()) {
        m_communication.averaging().takeSnapshot(*snapshot);
        return {};
    }
    if (const auto *merge = task.as<program::Merge>()) {
        m_communication.averaging().merge(*merge, step);
        return {};
    }
    if (const auto *rows = task.as<program::RowWork>()) {
        m_communication.rows().work(*rows, {step - m_options.updatesFrom, m_options.learningRate(step)});
        return {};
    }
    StageReplica &stage = m_parts.stage(task.body);
    if (const auto *update = task.as<program::Update>()) {
        if (update->bucket.valid()) {
            updateSummed(stage, update->bucket);
            return {};
        }
        const double own = step < update->sumsBefore ? 1 : m_parts.ownScale(task.body, update->inside);
        stage.updater.update({step - m_options.updatesFrom,
                              m_options.learningRate(step),
                              m_communication.agreements().gradientScale(),
                              own,
                              update->phase,
                              {},
                              update->part});
        return {};
    }
    const auto *run = task.as<program::Compute>();
    const std::span calls(m_parts.program.pooledCalls);
    const Part part{run->firstOp, run->lastOp, run->opens, run->closes,
                    run->isPooled() ? calls.subspan(static_cast<std::size_t>(run->firstCall),
                                                    static_cast<std::size_t>(run->lastCall - run->firstCall))
                                    : std::span<const program::PooledCall>()};
    switch (run->pass) {
    case program::Pass::Forward: return stage.runner->forward(task.microBatch, step, part, hooks);
    case program::Pass::Recompute: stage.runner->recompute(task.microBatch, part, hooks); break;
    case program::Pass::Backward: stage.runner->backward(task.microBatch, part, hooks); break;
    case program::Pass::WeightGradient: stage.runner->weightGradient(task.microBatch, part, hooks); break;
    }
    return {};
}

void ComputeTasks::updateSummed(StageReplica &stage, BucketId bucket)
{
    if (const std::optional<std::int64_t> step = stage.updater.takeSummed(bucket))
        stage.updater.update(
            {.step = *step - m_options.updatesFrom, .learningRate = m_options.learningRate(*step), .bucket = bucket});
}

void ComputeTasks::settleSums()
{
    for (StageReplica &stage : m_parts.stages)
        for (const BucketId bucket : stage.updater.ownUpdates())
            updateSummed(stage, bucket);
}

} // namespace planloom::runtime

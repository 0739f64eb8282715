// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/evaluation.h"

#include "engine/base/backoff.h"
#include "executor/runtime/clock.h"

#include <algorithm>

namespace planloom::runtime {

Result<run::Validation> Evaluator::run()
{
    const program::Body &own = m_parts.program.body(m_parts.own().bodies.front());
    std::int64_t microBatchSize = 0;
    for (const program::Body &body : m_parts.program.bodies) {
        if (body.stage == own.stage && countsLoss(body)) // ranks that share a slice count once
            microBatchSize += body.slices[0].size;
    }
    run::Validation evaluation;
    evaluation.samples = m_parts.stages.front().runner->heldOut();
    double weight = 0;
    double right = 0;
    double rows = 0;
    for (std::int64_t first = 0; first < evaluation.samples; first += microBatchSize) {
        const Result<Scores> scores = scoreOnce(first);
        if (!scores)
            return scores.error();
        // One small sum a micro-batch: counts stay exact in single precision, and no stage runs ahead.
        float sums[4] = {static_cast<float>(scores->loss), static_cast<float>(scores->weight),
                         static_cast<float>(scores->right), static_cast<float>(scores->rows)};
        Result<comm::Request> request = m_parts.comm.allReduce(m_parts.comm.world(), sums, std::size(sums));
        if (!request)
            return request.error();
        if (const Status status = m_parts.comm.wait(*request, m_parts.deadline, "the other ranks' evaluation"); !status)
            return status.error();
        evaluation.loss += static_cast<double>(sums[0]);
        weight += static_cast<double>(sums[1]);
        right += static_cast<double>(sums[2]);
        rows += static_cast<double>(sums[3]);
    }
    evaluation.loss /= weight; // NaN: nothing held out counts
    evaluation.accuracy = right / rows;
    return evaluation;
}

Result<Scores> Evaluator::scoreOnce(std::int64_t first)
{
    Scores all;
    if (const Status rows = m_rows.lookUpHeldOut(first, m_collectives); !rows)
        return rows.error();
    for (const BodyId body : m_parts.own().bodies) { // in the order of the pipeline
        m_scoring = body;
        if (const Status status = exchangeOnce(false, body); !status)
            return status.error();
        StageReplica &stage = m_parts.stage(body);
        const Result<Scores> scores = stage.scorer.score(*stage.runner, first, *this);
        if (!scores || !m_status)
            return scores ? m_status.error() : scores.error();
        all.loss += scores->loss;
        all.weight += scores->weight;
        all.right += scores->right;
        all.rows += scores->rows;
        if (const Status status = exchangeOnce(true, body); !status)
            return status.error();
    }
    return all;
}

/// The activations of micro-batch 0 from the previous stage, or to the next.
Status Evaluator::exchangeOnce(bool sends, BodyId body)
{
    const std::vector<TaskId> &tasks = m_parts.own().tasks;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const program::Task &task = m_parts.program.task(tasks[i]);
        const auto *transfer = task.as<program::Transfer>();
        const bool moves =
            transfer != nullptr ? transfer->sends == sends : !sends && task.as<program::Copy>() != nullptr;
        if (!moves || task.pass() != program::Pass::Forward || task.microBatch != 0 || task.body != body)
            continue;
        if (const Status status = m_transfers.start(i); !status)
            return status;
        const std::int64_t begin = monotonicNanoseconds();
        Backoff backoff;
        for (Result<bool> done = false; !*done;) {
            done = m_transfers.test(i);
            if (!done)
                return done.error();
            if (!*done && monotonicNanoseconds() - begin > m_parts.deadline.count())
                return failed("rank " + std::to_string(m_parts.rank.value) + " waits in vain for " + program::idOf(task)
                              + " of an evaluation; look at the other ranks' messages");
            if (!*done)
                backoff.pause();
        }
        if (const Status status = m_parts.drain(task.lane); !status)
            return status;
    }
    return {};
}

bool Evaluator::communicate(std::int32_t op, const Communication &what)
{
    m_status = m_collectives.boxNow(m_scoring, op, what);
    return static_cast<bool>(m_status);
}

} // namespace planloom::runtime

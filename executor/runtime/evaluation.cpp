// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/rank_executor.h"

#include <algorithm>

namespace planloom::runtime {

using trace::Kind;

Result<Evaluation> RankExecutor::evaluate()
{
    const program::Body &own = m_program.bodies[static_cast<std::size_t>(m_program.ranks[m_rank.index()].bodies.front())];
    std::int64_t microBatchSize = 0;
    for (const program::Body &body : m_program.bodies) {
        const bool firstOfReplica = std::all_of(body.coordinates.begin() + (body.coordinates.empty() ? 0 : 1), body.coordinates.end(), [](int at) { return at == 0; });
        if (body.stage == own.stage && firstOfReplica) // those that share a slice count once
            microBatchSize += body.slices[0].size;
    }
    Evaluation evaluation;
    evaluation.samples = m_bodies.front()->heldOut();
    double weight = 0;
    double right = 0;
    double rows = 0;
    for (std::int64_t first = 0; first < evaluation.samples; first += microBatchSize) {
        const Result<Scores> scores = scoreOnce(first);
        if (!scores)
            return scores.error();
        // One small sum a micro-batch: counts stay exact in single precision, and no stage runs ahead.
        float sums[4] = {static_cast<float>(scores->loss), static_cast<float>(scores->weight), static_cast<float>(scores->right), static_cast<float>(scores->rows)};
        Result<comm::Request> request = m_comm.allReduce(m_comm.world(), sums, std::size(sums));
        if (!request)
            return request.error();
        if (const Status status = m_comm.wait(*request, m_options.deadline, "the other ranks' evaluation"); !status)
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

Result<Scores> RankExecutor::scoreOnce(std::int64_t first)
{
    Scores all;
    for (m_scoring = 0; m_scoring < m_bodies.size(); ++m_scoring) { // in the order of the pipeline
        const auto body = static_cast<std::int32_t>(m_scoring);
        if (const Status status = exchangeOnce(Kind::Receive, body); !status)
            return status.error();
        const Scores scores = m_bodies[m_scoring]->score(first, *this);
        all.loss += scores.loss;
        all.weight += scores.weight;
        all.right += scores.right;
        all.rows += scores.rows;
        if (const Status status = exchangeOnce(Kind::Send, body); !status)
            return status.error();
    }
    return all;
}

/// The activations of micro-batch 0 from the previous stage, or to the next.
Status RankExecutor::exchangeOnce(Kind kind, std::int32_t body)
{
    for (std::size_t i = 0; i < m_tasks.size(); ++i) {
        const program::Task &task = m_program.task(m_tasks[i].id);
        if (task.kind != kind || task.pass != program::Pass::Forward || task.microBatch != 0 || m_tasks[i].body != body)
            continue;
        startTransfers(static_cast<std::int32_t>(i));
        m_lastProgress = now();
        while (m_failure && !finished(static_cast<std::int32_t>(i))) {
            if (const Status status = waitWhileIdle(); !status)
                return status;
        }
    }
    return m_failure;
}

} // namespace planloom::runtime

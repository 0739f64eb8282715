// SPDX-License-Identifier: Apache-2.0
#include "engine/program/program.h"
#include "engine/simulate/simulate.h"
#include "executor/agent/run.h"

#include <fmt/format.h>

namespace planloom::agent {

Result<Prediction> predict(const std::string &planJson)
{
    const auto document = plan::documentFromJson(planJson);
    if (!document)
        return document.error();
    const auto program = program::compile(document->plan, document->subject, {.bodies = false});
    if (!program)
        return program.error();
    const auto &cluster = *document->subject.cluster;
    const auto simulation = simulate::simulate(*program, cluster, {.trace = false, .memory = false});
    if (!simulation)
        return simulation.error();
    constexpr std::size_t kMostRanks = 128; // processes that one machine can be asked to hold
    if (program->ranks.size() > kMostRanks)
        return unsupported(fmt::format("the plan needs {} workers, more than the {} that an agent starts on one machine", program->ranks.size(), kMostRanks));
    Prediction prediction;
    prediction.iterationSeconds = simulation->report.iterationSeconds;
    for (const auto &rank : program->ranks)
        prediction.peakBytes.push_back(rank.arenaBytes);
    prediction.ranks = program::rankInfos(*program, cluster);
    prediction.tasks = program::taskInfos(*program);
    prediction.globalBatch = document->plan.globalBatch;
    prediction.modelName = document->plan.modelName;
    return prediction;
}

} // namespace planloom::agent

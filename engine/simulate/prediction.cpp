// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/prediction.h"

#include "engine/compile/compile.h"
#include "engine/plan/fingerprint.h"
#include "engine/program/kernel_rows.h"
#include "engine/simulate/simulate.h"

#include <algorithm>

namespace planloom::simulate {
namespace {

/// Per rank of the program; what has no device, as a parameter server of ADMM, is on the first machine.
std::vector<std::int32_t> nodesOf(const program::Program &program, const cluster::Cluster &cluster, std::size_t ranks)
{
    std::vector<std::int32_t> nodes(ranks);
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank)
        nodes[rank] = cluster.devices()[program.ranks[rank].device.index()].node.value;
    if (!program.sampled)
        return nodes;
    const auto &machineOf = program.sampled->machineOf;
    for (std::size_t role = 0; role < machineOf.size(); ++role) {
        const std::int32_t rank = program::rankOfRole(program.sampled->job, static_cast<std::int32_t>(role));
        nodes[static_cast<std::size_t>(rank)] = machineOf[role];
    }
    return nodes;
}

std::vector<std::int64_t> arenasOf(const program::Program &program)
{
    std::vector<std::int64_t> bytes;
    for (const program::Rank &rank : program.ranks)
        bytes.push_back(rank.arenaBytes);
    return bytes;
}

} // namespace

Result<Prediction> predict(const plan::Document &document, bool kernels)
{
    const auto program = compile::compilePlan(document.plan, document.subject, {.bodies = kernels});
    if (!program)
        return program.error();
    const auto &cluster = *document.subject.cluster;
    const auto simulation = simulate(*program, cluster, {.trace = false, .memory = false});
    if (!simulation)
        return simulation.error();
    Prediction prediction;
    prediction.iterationSeconds = simulation->report.iterationSeconds;
    prediction.periodSteps = program->periodSteps;
    prediction.peakBytes = arenasOf(*program);
    prediction.tables = program::traceTables(*program, cluster);
    if (const auto later = plan::continuationOf(document.plan)) {
        const auto behind = compile::compilePlan(*later, document.subject, {.bodies = false});
        if (!behind)
            return behind.error();
        const auto seconds = iterationSeconds(*behind);
        if (!seconds)
            return seconds.error();
        prediction.later = {document.plan.then->after, *seconds, arenasOf(*behind)};
    }
    if (kernels)
        program::addKernelRows(*program, prediction.tables);
    if (program->server) {
        // Versions are as far apart as those who wait happen to come: a round has a message or two of every rank.
        prediction.periodSteps = 2 * (program->server->delay + static_cast<std::int32_t>(program->ranks.size()));
    }
    prediction.nodes = nodesOf(*program, cluster, prediction.tables.ranks.size());
    prediction.samplesPerIteration =
        program->server ? simulation->report.samplesPerIteration() : static_cast<double>(document.plan.globalBatch);
    prediction.work = plan::modelWork(document);
    prediction.modelName = document.plan.modelName;
    prediction.plan = plan::fingerprint(document);
    return prediction;
}

} // namespace planloom::simulate

// SPDX-License-Identifier: Apache-2.0
#include "engine/export/decisions.h"

#include <fmt/format.h>

namespace planloom::exporting {
namespace {

std::string tensorName(const program::Program &program, const program::Rank &rank, TensorId tensor)
{
    const graph::Graph &graph = program.body(rank.bodies.front()).training.graph;
    return tensor.index() < graph.tensors().size() ? graph.tensor(tensor).name : std::to_string(tensor.value);
}

} // namespace

std::string decisionLog(const program::Program &program, const cluster::Cluster &cluster)
{
    std::string text =
        "device\tseconds\ttensor\tmicro_batch\tbytes\tstaleness\tcost\tchain_cost\tscore\tratio\taction\n";
    for (const program::Rank &rank : program.ranks)
        for (const program::MemoryDecision &line : rank.decisions) {
            const memory::Decision &made = line.what;
            text += fmt::format("{}\t{:.9f}\t{}\t{}\t{}\t{:.9f}\t{:.9f}\t{:.9f}\t{:.6g}\t{:.6g}\t{}\n",
                                cluster.device(rank.device).name, made.seconds, tensorName(program, rank, line.tensor),
                                line.microBatch, made.bytes, made.staleness, made.cost, made.chainCost, made.score,
                                made.ratio, made.action == memory::Decision::Action::Swap ? "swap" : "recompute");
        }
    return text;
}

} // namespace planloom::exporting

// SPDX-License-Identifier: Apache-2.0
#include "engine/export/decisions.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>

namespace planloom::exporting {
namespace {

constexpr const char *kHeadings =
    "device\tseconds\ttensor\tmicro_batch\tbytes\tstaleness\tcost\tchain_cost\tscore\tratio\taction\n";

std::string tensorName(const program::Program &program, const program::Rank &rank, TensorId tensor)
{
    const graph::Graph &graph = program.body(rank.bodies.front()).training.graph;
    return tensor.index() < graph.tensors().size() ? graph.tensor(tensor).name : std::to_string(tensor.value);
}

const char *nameOf(memory::Decision::Action action)
{
    using Action = memory::Decision::Action;
    switch (action) {
    case Action::Recompute: return "recompute";
    case Action::Swap: return "swap";
    case Action::Drop: return "drop";
    }
    return "unknown";
}

std::string lineOf(const program::Program &program, const cluster::Cluster &cluster, const program::Rank &rank,
                   const program::MemoryDecision &line)
{
    const memory::Decision &made = line.what;
    return fmt::format("{}\t{:.9f}\t{}\t{}\t{}\t{:.9f}\t{:.9f}\t{:.9f}\t{:.6g}\t{:.6g}\t{}\n",
                       cluster.device(rank.device).name, made.seconds, tensorName(program, rank, line.tensor),
                       line.microBatch < 0 ? "-" : std::to_string(line.microBatch), made.bytes, made.staleness,
                       made.cost, made.chainCost, made.score, made.ratio, nameOf(made.action));
}

} // namespace

std::string decisionLog(const program::Program &program, const cluster::Cluster &cluster)
{
    std::string text = kHeadings;
    for (const program::Rank &rank : program.ranks)
        for (const program::MemoryDecision &line : rank.decisions)
            text += lineOf(program, cluster, rank, line);
    return text;
}

ExecutedDecisions executedDecisions(const program::Program &program, const cluster::Cluster &cluster,
                                    const trace::Trace &trace)
{
    std::vector<std::unordered_map<std::string, TaskId>> byId(program.ranks.size());
    for (std::size_t r = 0; r < program.ranks.size(); ++r)
        for (const TaskId task : program.ranks[r].tasks)
            byId[r][program::idOf(program.task(task))] = task;
    std::map<std::int32_t, std::vector<std::map<TaskId, int>>> steps; // per rank: how often a task ran
    for (const trace::Record &record : trace.records) {
        const trace::TaskInfo *info = trace.task(record.task);
        const auto rank = static_cast<std::size_t>(record.rank);
        if (info == nullptr || trace.lane(record.lane).work == trace::Work::Device || rank >= byId.size())
            continue;
        if (const auto found = byId[rank].find(info->id); found != byId[rank].end())
            ++steps.try_emplace(record.step, program.ranks.size()).first->second[rank][found->second];
    }
    ExecutedDecisions executed;
    executed.text = std::string("step\t") + kHeadings;
    for (auto &[step, ran] : steps) {
        bool differs = false;
        for (std::size_t r = 0; r < program.ranks.size(); ++r)
            for (const program::MemoryDecision &decision : program.ranks[r].decisions) {
                const auto found = ran[r].find(decision.task);
                const int times = found == ran[r].end() ? 0 : found->second;
                differs = differs || times != 1;
                for (int time = 0; time < times; ++time)
                    executed.text += fmt::format("{}\t", step) + lineOf(program, cluster, program.ranks[r], decision);
            }
        executed.steps.push_back(step);
        if (differs)
            executed.differing.push_back(step);
    }
    return executed;
}

} // namespace planloom::exporting

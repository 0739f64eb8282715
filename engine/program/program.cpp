// SPDX-License-Identifier: Apache-2.0
#include "engine/program/program.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::program {
namespace {

/// The letters of a task id between stage and micro-batch.
const char *code(const Task &task)
{
    const bool forward = task.pass == Pass::Forward;
    switch (task.kind) {
    case trace::Kind::Forward: return "F";
    case trace::Kind::Backward: return "B";
    case trace::Kind::Recompute: return "R";
    case trace::Kind::WeightGradient: return "W";
    case trace::Kind::Send: return forward ? "SF" : "SB";
    case trace::Kind::Receive: return forward ? "RF" : "RB";
    case trace::Kind::AllReduce: return "AR";
    case trace::Kind::AllGather: return "AG";
    case trace::Kind::ReduceScatter: return "RS";
    case trace::Kind::AllToAll: return "AA";
    case trace::Kind::Optimizer: return "O";
    case trace::Kind::Load: return "L";
    case trace::Kind::Other: break;
    }
    return "X";
}

const char *code(Pass pass)
{
    switch (pass) {
    case Pass::Forward: return "F";
    case Pass::Backward: return "B";
    case Pass::Recompute: return "R";
    case Pass::WeightGradient: return "W";
    }
    return "X";
}

} // namespace

std::size_t Team::position(RankId rank) const
{
    return static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

const char *name(Area area)
{
    switch (area) {
    case Area::Persistent: return "persistent";
    case Area::Inbox: return "inbox";
    case Area::Frame: return "frame";
    case Area::Outbox: return "outbox";
    case Area::GradientInbox: return "gradient inbox";
    case Area::GradientOutbox: return "gradient outbox";
    case Area::Workspace: return "workspace";
    case Area::WeightFrame: return "weight frame";
    case Area::WeightStash: return "weight stash";
    }
    return "?";
}

std::span<const TaskId> Program::dependenciesOf(const Task &task) const
{
    return std::span(dependencies).subspan(static_cast<std::size_t>(task.firstDependency),
                                           static_cast<std::size_t>(task.lastDependency - task.firstDependency));
}

std::string idOf(const Task &task)
{
    // Written piece by piece: a trace has an id for each of a hundred thousand tasks, and parsing a format is most of the work.
    std::string id = "s";
    const auto add = [&id](std::int32_t number) {
        const fmt::format_int digits(number);
        id.append(digits.data(), digits.size());
    };
    add(task.stage.value);
    id += '.';
    const bool boxing = task.team >= 0 && task.bucket < 0;
    id += boxing ? code(task.pass) : code(task);
    if (task.bucket < 0 && task.microBatch < 0)
        return id;
    id += task.bucket >= 0 ? ".b" : ".m";
    add(task.bucket >= 0 ? task.bucket : task.microBatch);
    if (task.part == 0)
        return id;
    id += '.';
    if (boxing)
        id += code(task);
    add(task.part);
    return id;
}

std::vector<trace::TaskInfo> taskInfos(const Program &program)
{
    std::vector<trace::TaskInfo> infos;
    infos.reserve(program.tasks.size());
    for (const Task &task : program.tasks)
        infos.push_back({idOf(task), task.kind, static_cast<std::int16_t>(task.stage.value), task.microBatch});
    return infos;
}

std::vector<trace::RankInfo> rankInfos(const Program &program, const cluster::Cluster &cluster)
{
    std::vector<trace::RankInfo> infos;
    infos.reserve(program.ranks.size());
    for (const Rank &rank : program.ranks)
        infos.push_back({cluster.device(rank.device).name});
    return infos;
}

} // namespace planloom::program

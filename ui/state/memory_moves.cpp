// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/memory_moves.h"

#include "engine/cost/host_link.h"
#include "engine/memory/walk.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

namespace planloom::ui {
namespace {

/// Operators of the model by name.
std::unordered_map<std::string, OpId> operatorsOf(const graph::Graph &graph)
{
    std::unordered_map<std::string, OpId> byName;
    for (const graph::Op &op : graph.ops())
        byName.emplace(op.name, op.id);
    return byName;
}

std::string idOf(const program::Program &program, TaskId task)
{
    return task.valid() ? program::idOf(program.task(task)) : std::string();
}

memory::CopyTimes copyTimesOf(const program::Program &program, const program::Rank &rank,
                              const plan::Document &document)
{
    const StageId stage = program.body(rank.bodies.front()).stage;
    const cost::HostLink link =
        cost::hostLink(document.subject.cluster->typeOf(rank.device), document.subject.profile.get());
    return memory::limitsOf(document.plan.stages[stage.index()].memory, {}, link.bandwidth).copies;
}

/// When each task of the Program first starts in a trace, nanoseconds; -1: never.
std::vector<std::int64_t> startsIn(const trace::Trace &trace, std::size_t tasks)
{
    std::vector<std::int64_t> starts(tasks, -1);
    for (const trace::Record &record : trace.records)
        if (record.task >= 0 && static_cast<std::size_t>(record.task) < tasks) {
            std::int64_t &start = starts[static_cast<std::size_t>(record.task)];
            start = start < 0 ? record.start : std::min(start, record.start);
        }
    return starts;
}

void addDecision(MemoryMoves &moves, const program::Program &program, const program::MemoryDecision &made,
                 std::size_t tensor, const memory::CopyTimes &copies, const std::vector<std::int64_t> &starts)
{
    const TaskId when = made.room.valid() ? made.room : made.task;
    const memory::Decision &what = made.what;
    const double trip = copies.roundTrip(what.bytes);
    const bool isCounted = what.ratio > 0 && std::isfinite(what.ratio); // the ratio is of the trip
    moves.decisions.push_back({tensor, what, idOf(program, made.task), idOf(program, made.room),
                               when.valid() ? std::max<std::int64_t>(starts[when.index()], 0) : 0, trip,
                               isCounted ? trip / what.ratio : what.cost});
}

/// As the simulator counts them: a run has the pool at its highest while it lasts.
void addPools(MemoryMoves &moves, const program::Program &program, const trace::Trace &trace)
{
    std::vector<std::size_t> ofRank(program.ranks.size(), program.ranks.size());
    for (const trace::Record &record : trace.records) {
        const auto *run =
            record.task < 0 ? nullptr : program.tasks[static_cast<std::size_t>(record.task)].as<program::Compute>();
        if (run == nullptr || !run->isPooled())
            continue;
        std::size_t &pool = ofRank[static_cast<std::size_t>(record.rank)];
        if (pool == program.ranks.size()) {
            pool = moves.pools.size();
            moves.pools.push_back({program.ranks[static_cast<std::size_t>(record.rank)].device, {}});
        }
        const program::PooledCall *calls = program.pooledCalls.data();
        const std::int64_t after = calls[run->lastCall - 1].usedAfter;
        std::int64_t most = after;
        for (std::int32_t call = run->firstCall; call < run->lastCall; ++call)
            most = std::max(most, calls[call].used);
        moves.pools[pool].levels.push_back({record.start, most});
        moves.pools[pool].levels.push_back({record.start + record.duration, after});
    }
}

/// A step at a time.
void addStalls(MemoryMoves &moves, const program::Program &program, const trace::Trace &trace)
{
    std::vector<std::vector<trace::Record>> steps(static_cast<std::size_t>(std::max(trace.rounds.steps, 1)));
    for (const trace::Record &record : trace.records)
        if (record.step >= 0 && static_cast<std::size_t>(record.step) < steps.size())
            steps[static_cast<std::size_t>(record.step)].push_back(record);
    for (const std::vector<trace::Record> &records : steps)
        for (const simulate::CopyStall &stall : simulate::copyStalls(program, records))
            moves.stalls.push_back({program.ranks[stall.rank.index()].device, stall.begin, stall.end,
                                    program::idOf(program.task(stall.copy))});
    std::stable_sort(moves.stalls.begin(), moves.stalls.end(),
                     [](const auto &a, const auto &b) { return a.device < b.device; });
}

} // namespace

std::int64_t MemoryMoves::Pool::at(std::int64_t time) const
{
    const auto later = std::upper_bound(levels.begin(), levels.end(), time,
                                        [](std::int64_t t, const PoolLevel &level) { return t < level.time; });
    return later == levels.begin() ? 0 : std::prev(later)->bytes;
}

const MemoryMoves::Pool *MemoryMoves::poolOf(DeviceId device) const
{
    const auto found =
        std::find_if(pools.begin(), pools.end(), [=](const Pool &pool) { return pool.device == device; });
    return found == pools.end() ? nullptr : &*found;
}

std::shared_ptr<const MemoryMoves> memoryMoves(const program::Program &program, const plan::Document &document,
                                               const trace::Trace &trace)
{
    if (program.pooledCalls.empty())
        return nullptr;
    MemoryMoves moves;
    const plan::Subject &subject = document.subject;
    const std::unordered_map<std::string, OpId> operators = operatorsOf(*subject.graph);
    std::map<std::pair<std::size_t, std::pair<TensorId, std::int32_t>>, std::size_t> numbers;
    for (simulate::TensorStays &each : simulate::tensorStays(program, trace.records)) {
        const program::Rank &rank = program.ranks[each.rank.index()];
        const program::MovedTensor &moved = rank.moved[each.moved];
        const graph::Graph &graph = program.body(rank.bodies.front()).training.graph;
        MemoryMoves::Tensor tensor;
        tensor.device = rank.device;
        tensor.name = QString::number(moved.tensor.value);
        if (moved.tensor.index() < graph.tensors().size()) {
            const graph::Tensor &named = graph.tensor(moved.tensor);
            tensor.name = QString::fromStdString(named.name);
            if (named.producer.valid()) {
                const std::string &op = graph.op(named.producer).name;
                tensor.op = QString::fromStdString(op);
                if (const auto known = operators.find(op); known != operators.end()) {
                    const std::size_t layer = subject.layers().layerOf(known->second);
                    tensor.layers = {layer, layer + 1};
                }
            }
        }
        tensor.microBatch = moved.microBatch;
        tensor.bytes = moved.bytes;
        tensor.made = idOf(program, moved.made);
        tensor.stays = std::move(each.stays);
        numbers[{each.rank.index(), {moved.tensor, moved.microBatch}}] = moves.tensors.size();
        moves.tensors.push_back(std::move(tensor));
    }
    const std::vector<std::int64_t> starts = startsIn(trace, program.tasks.size());
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
        const program::Rank &rank = program.ranks[r];
        if (rank.decisions.empty())
            continue;
        const memory::CopyTimes copies = copyTimesOf(program, rank, document);
        for (const program::MemoryDecision &decision : rank.decisions)
            addDecision(moves, program, decision, numbers.at({r, {decision.tensor, decision.microBatch}}), copies,
                        starts);
    }
    addPools(moves, program, trace);
    addStalls(moves, program, trace);
    moves.end = trace.end();
    return std::make_shared<const MemoryMoves>(std::move(moves));
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/memory_moves.h"

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

} // namespace

std::shared_ptr<const MemoryMoves> memoryMoves(const program::Program &program, const plan::Subject &subject,
                                               const trace::Trace &trace)
{
    MemoryMoves moves;
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
    if (moves.tensors.empty())
        return nullptr;
    for (std::size_t r = 0; r < program.ranks.size(); ++r)
        for (const program::MemoryDecision &decision : program.ranks[r].decisions)
            moves.decisions.push_back({numbers.at({r, {decision.tensor, decision.microBatch}}), decision.what,
                                       idOf(program, decision.task), idOf(program, decision.room)});
    moves.end = trace.end();
    return std::make_shared<const MemoryMoves>(std::move(moves));
}

} // namespace planloom::ui

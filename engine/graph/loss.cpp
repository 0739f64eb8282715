// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/loss.h"

#include "engine/graph/gradients/differentiate.h"
#include "engine/graph/operators/operators.h"

#include <algorithm>

namespace planloom::graph {
namespace {

/// Whether output 0 holds the elements of input 0, in another order or type at most.
bool rearranges(const Op &op)
{
    return op.traits().storage == Storage::View || op.type == "Transpose" || op.type == "Cast" || op.type == "Identity";
}

/// Which tensors @p ends are computed from, themselves included.
std::vector<bool> reaching(const Graph &graph, const std::vector<TensorId> &ends)
{
    std::vector<bool> reaches(graph.tensors().size(), false);
    for (const TensorId end : ends)
        if (end.valid())
            reaches[end.index()] = true;
    for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) {
        const bool any =
            std::any_of(op->outputs.begin(), op->outputs.end(), [&](TensorId id) { return reaches[id.index()]; });
        for (const TensorId input : op->inputs)
            if (any && input.valid())
                reaches[input.index()] = true;
    }
    return reaches;
}

/// Which tensors are combined with a parameter, also a few operators later.
std::vector<bool> meetingParameters(const Graph &graph)
{
    std::vector<bool> meets(graph.tensors().size(), false);
    for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) {
        const auto trained = [&](TensorId id) { return id.valid() && graph.tensor(id).role == TensorRole::Parameter; };
        const bool any = std::any_of(op->inputs.begin(), op->inputs.end(), trained)
            || std::any_of(op->outputs.begin(), op->outputs.end(), [&](TensorId id) { return meets[id.index()]; });
        for (const TensorId input : op->inputs)
            if (any && input.valid())
                meets[input.index()] = true;
    }
    return meets;
}

/// The tensor that @p id is a rearrangement of: a model's output, if one comes first.
TensorId origin(const Graph &graph, TensorId id)
{
    while (id.valid()) {
        const OpId producer = graph.tensor(id).producer;
        const auto outputs = graph.outputs();
        if (!producer.valid() || !rearranges(graph.op(producer))
            || std::find(outputs.begin(), outputs.end(), id) != outputs.end())
            return id;
        id = graph.op(producer).inputs[0];
    }
    return id;
}

TensorId inputBehind(const Graph &graph, const Op &op, std::size_t argument)
{
    if (argument >= op.inputs.size())
        return {};
    const TensorId id = origin(graph, op.inputs[argument]);
    return id.valid() && graph.tensor(id).role == TensorRole::Input ? id : TensorId();
}

Target targetOf(const Graph &graph, TensorId input, const std::vector<LossTerm> &terms)
{
    const DType type = graph.tensor(input).type;
    Target target{input, type == DType::I64 ? Target::Use::Labels : Target::Use::Values};
    if (type == DType::Bool)
        target.use = Target::Use::Mask;
    for (const LossTerm &term : terms) {
        const Op &op = graph.op(term.op);
        if (term.target != input)
            continue;
        if (op.type == "SigmoidCrossEntropyLoss")
            target.use = Target::Use::Probabilities;
        if (target.use == Target::Use::Labels) {
            const Shape &logits = graph.tensor(op.inputs[0]).shape;
            target.classes = logits[logits.rank() - 1].size;
            target.ignored = op.integer("ignore_index", target.ignored);
        }
    }
    return target;
}

} // namespace

Status checkTrainable(const Graph &graph)
{
    if (isLayerProfile(graph))
        return unsupported("a layer profile can be planned and simulated only; train the model itself");
    if (!graph.loss().valid())
        return unsupported("the model has no loss, so it cannot be trained; choose one with --loss, or export the "
                           "model with its loss as a scalar output");
    for (const Op &op : graph.ops()) {
        if (op.type.row() == nullptr)
            return unsupported("operator '" + op.name + "' (" + op.type
                               + ") is not known, so the model cannot be trained; export it with other operators");
        if (op.traits().planOnly)
            return unsupported("operator '" + op.name + "' (" + op.type
                               + ") is planned and simulated only; train the model with its fused form");
    }
    const auto last = static_cast<std::int64_t>(graph.ops().size());
    const auto training = differentiate(graph, OpId(0), OpId(last), {}, {});
    return training ? Status() : Status(training.error());
}

std::vector<LossTerm> lossTerms(const Graph &graph)
{
    const std::vector<bool> reaches = reaching(graph, {graph.loss()});
    std::vector<LossTerm> terms;
    for (const Op &op : graph.ops())
        if (op.traits().loss && reaches[op.outputs[0].index()])
            terms.push_back({op.id, origin(graph, op.inputs[0]), inputBehind(graph, op, 1), inputBehind(graph, op, 2)});
    return terms;
}

std::vector<Target> targetsOf(const Graph &graph)
{
    const std::vector<LossTerm> terms = lossTerms(graph);
    std::vector<TensorId> results;
    for (const LossTerm &term : terms)
        results.push_back(term.output);
    const std::vector<bool> reaches = reaching(graph, {graph.loss()});
    const std::vector<bool> given = reaching(graph, results);
    const std::vector<bool> meets = meetingParameters(graph);
    std::vector<Target> targets;
    for (const TensorId input : graph.withRole(TensorRole::Input))
        if (reaches[input.index()] && !meets[input.index()] && !given[input.index()])
            targets.push_back(targetOf(graph, input, terms));
    return targets;
}

} // namespace planloom::graph

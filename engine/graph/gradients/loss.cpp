// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/gradients/loss.h"

#include "engine/graph/gradients/differentiate.h"
#include "engine/graph/operators/operators.h"

#include <algorithm>
#include <cstring>

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

const Op *producerOf(const Graph &graph, TensorId id)
{
    const OpId producer = id.valid() ? graph.tensor(id).producer : OpId();
    return producer.valid() ? &graph.op(producer) : nullptr;
}

/// Whether @p exponent is the constant 2.
bool isTwo(const Tensor &exponent)
{
    if (exponent.init.kind != Initializer::Kind::Data || exponent.shape.elements(1) != 1)
        return false;
    const std::byte *data = exponent.init.data->data();
    switch (exponent.type) {
    case DType::F32: {
        float value = 0;
        std::memcpy(&value, data, sizeof value);
        return value == 2;
    }
    case DType::F64: {
        double value = 0;
        std::memcpy(&value, data, sizeof value);
        return value == 2;
    }
    case DType::I64: {
        std::int64_t value = 0;
        std::memcpy(&value, data, sizeof value);
        return value == 2;
    }
    default: return false;
    }
}

/// The difference whose square or size @p op computes; nullptr: it computes something else.
const Op *differenceOf(const Graph &graph, const Op &op, std::string &type)
{
    const bool square =
        (op.type == "Pow" && isTwo(graph.tensor(op.inputs[1]))) || (op.type == "Mul" && op.inputs[0] == op.inputs[1]);
    if (!square && op.type != "Abs")
        return nullptr;
    type = square ? "MeanSquaredErrorLoss" : "MeanAbsoluteErrorLoss";
    const Op *difference = producerOf(graph, op.inputs[0]);
    return difference != nullptr && difference->type == "Sub" ? difference : nullptr;
}

/// Takes a loss apart.
class Terms {
public:
    explicit Terms(const Graph &graph) : m_graph(graph), m_seen(graph.tensors().size())
    {
        m_open.push_back(graph.loss());
    }

    LossTerms take()
    {
        while (!m_open.empty()) {
            const TensorId id = m_open.back();
            m_open.pop_back();
            if (!id.valid() || m_seen[id.index()] || isFixed(id))
                continue;
            m_seen[id.index()] = true;
            const Op *op = producerOf(m_graph, id);
            m_found.whole = op != nullptr && takeApart(*op) && m_found.whole;
        }
        return std::move(m_found);
    }

private:
    [[nodiscard]] bool isFixed(TensorId id) const { return m_graph.tensor(id).role == TensorRole::Constant; }

    /// False: the operator's result is no known term.
    bool takeApart(const Op &op)
    {
        if (op.traits().loss) {
            m_found.terms.push_back({op.type.name(), op.id, origin(m_graph, op.inputs[0]), inputBehind(m_graph, op, 1),
                                     inputBehind(m_graph, op, 2)});
            return true;
        }
        const bool sums =
            op.type == "Add" || op.type == "Sub" || op.type == "AddN" || op.type == "Neg" || rearranges(op);
        const bool scales = (op.type == "Mul" || op.type == "Div") && op.inputs[1].valid()
            && (isFixed(op.inputs[0]) || isFixed(op.inputs[1]));
        if ((sums || scales) && m_graph.tensor(op.outputs[0]).shape.elements(1) == 1) {
            m_open.insert(m_open.end(), op.inputs.begin(), op.inputs.end());
            return true;
        }
        return op.type == "ReduceMean" && takeMean(op);
    }

    bool takeMean(const Op &mean)
    {
        const Op *function = producerOf(m_graph, mean.inputs[0]);
        std::string type;
        const Op *difference = function != nullptr ? differenceOf(m_graph, *function, type) : nullptr;
        if (difference == nullptr || difference->inputs.size() != 2)
            return false;
        for (const std::size_t target : {std::size_t{1}, std::size_t{0}})
            if (const TensorId input = inputBehind(m_graph, *difference, target); input.valid()) {
                m_found.terms.push_back({type, mean.id, origin(m_graph, difference->inputs[1 - target]), input, {}});
                return true;
            }
        return false;
    }

    const Graph &m_graph;
    std::vector<bool> m_seen;
    std::vector<TensorId> m_open;
    LossTerms m_found;
};

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
        if (term.type == "SigmoidCrossEntropyLoss")
            target.use = Target::Use::Probabilities;
        if (target.use == Target::Use::Labels && op.traits().loss) {
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

LossTerms lossTerms(const Graph &graph) { return Terms(graph).take(); }

std::vector<Target> targetsOf(const Graph &graph)
{
    const std::vector<LossTerm> terms = lossTerms(graph).terms;
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

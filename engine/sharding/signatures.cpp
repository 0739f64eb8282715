// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/signatures.h"
#include "engine/graph/operators/operators.h"
#include "engine/sharding/signature_rules.h"

#include <algorithm>
#include <numeric>

namespace planloom::sharding {
namespace {

bool isFloat(graph::DType type)
{
    using graph::DType;
    return type == DType::F32 || type == DType::F16 || type == DType::BF16 || type == DType::F64;
}

Sbp fromAxis(int axis, const std::vector<std::int64_t> &segments)
{
    if (axis >= 0)
        return split(axis, segments);
    return axis == kSum ? partial() : broadcast();
}

} // namespace

OpAtHand atHand(const graph::Graph &graph, const graph::Op &op, int parts)
{
    OpAtHand at{op, {}, {}, parts};
    for (const TensorId input : op.inputs)
        at.inputs.push_back(input.valid() ? &graph.tensor(input) : nullptr);
    for (const TensorId output : op.outputs)
        at.outputs.push_back(&graph.tensor(output));
    return at;
}

bool canLie(const graph::Tensor &tensor, const Sbp &sbp, int parts)
{
    if (isPartial(sbp))
        return isFloat(tensor.type);
    if (!isSplit(sbp))
        return true;
    if (sbp.axis < 0 || static_cast<std::size_t>(sbp.axis) >= tensor.shape.rank())
        return false;
    const std::int64_t size = tensor.shape[static_cast<std::size_t>(sbp.axis)].size;
    const auto divides = [parts](std::int64_t segment) { return segment >= parts && segment % parts == 0; };
    if (sbp.segments.empty())
        return divides(size);
    return std::accumulate(sbp.segments.begin(), sbp.segments.end(), std::int64_t{0}) == size
        && std::all_of(sbp.segments.begin(), sbp.segments.end(), divides);
}

std::string whyNot(const graph::Tensor &tensor, const Sbp &sbp, int parts)
{
    if (canLie(tensor, sbp, parts))
        return {};
    const std::string what = "tensor '" + tensor.name + "' of shape " + tensor.shape.text();
    if (isPartial(sbp))
        return what + " holds " + graph::name(tensor.type) + " and cannot be a partial sum";
    if (sbp.axis < 0 || static_cast<std::size_t>(sbp.axis) >= tensor.shape.rank())
        return what + " has no axis " + std::to_string(sbp.axis);
    const std::int64_t size = tensor.shape[static_cast<std::size_t>(sbp.axis)].size;
    const std::string where = what + ", axis " + std::to_string(sbp.axis);
    std::vector<std::int64_t> segments = sbp.segments;
    if (segments.empty())
        segments.push_back(size);
    if (std::accumulate(segments.begin(), segments.end(), std::int64_t{0}) != size)
        return where + ": the segments do not add up to " + std::to_string(size);
    for (const std::int64_t segment : segments)
        if (segment < parts || segment % parts != 0)
            return where + ": a size of " + std::to_string(segment) + " does not divide by " + std::to_string(parts);
    return {};
}

graph::Shape localShape(const graph::Shape &shape, const Sbp &sbp, int parts)
{
    if (!isSplit(sbp))
        return shape;
    std::vector<graph::Dim> dims = shape.dims();
    dims[static_cast<std::size_t>(sbp.axis)].size /= parts;
    return graph::Shape(std::move(dims));
}

Proposals::Proposals(const OpAtHand &at) : m_at(at)
{
    m_found.push_back({std::vector<Sbp>(at.inputs.size()), std::vector<Sbp>(at.outputs.size())});
}

void Proposals::add(Signature signature)
{
    signature.inputs.resize(m_at.inputs.size());
    signature.outputs.resize(m_at.outputs.size());
    for (std::size_t i = 0; i < m_at.inputs.size(); ++i) {
        if (m_at.inputs[i] == nullptr)
            signature.inputs[i] = broadcast();
        else if (!canLie(*m_at.inputs[i], signature.inputs[i], m_at.parts))
            return;
    }
    for (std::size_t i = 0; i < m_at.outputs.size(); ++i)
        if (!canLie(*m_at.outputs[i], signature.outputs[i], m_at.parts))
            return;
    if (std::find(m_found.begin(), m_found.end(), signature) == m_found.end())
        m_found.push_back(std::move(signature));
}

std::vector<std::vector<std::int64_t>> Proposals::incomingSegments(const std::vector<int> &inputs) const
{
    std::vector<std::vector<std::int64_t>> all;
    for (std::size_t i = 0; i < inputs.size() && i < m_at.have.size(); ++i)
        if (inputs[i] >= 0 && isSplit(m_at.have[i]) && m_at.have[i].axis == inputs[i] && !m_at.have[i].segments.empty())
            all.push_back(m_at.have[i].segments);
    return all;
}

void Proposals::addRow(const std::vector<int> &inputs, const std::vector<int> &outputs,
                       const std::vector<std::int64_t> &segments)
{
    Signature signature;
    for (const int axis : inputs)
        signature.inputs.push_back(fromAxis(axis, segments));
    for (const int axis : outputs)
        signature.outputs.push_back(fromAxis(axis, segments));
    add(std::move(signature));
}

void Proposals::plainRow(const std::vector<int> &inputs, const std::vector<int> &outputs)
{
    addRow(inputs, outputs, {});
}

void Proposals::row(std::vector<int> inputs, std::vector<int> outputs)
{
    for (const auto &segments : incomingSegments(inputs))
        addRow(inputs, outputs, segments);
    addRow(inputs, outputs, {});
}

void Proposals::linear()
{
    plainRow(std::vector<int>(m_at.inputs.size(), kSum), std::vector<int>(m_at.outputs.size(), kSum));
}

const SignatureRule *findRule(const graph::OpType &type)
{
    static const graph::OperatorTable<SignatureRule> kRules = [] {
        graph::OperatorTable<SignatureRule> all;
        for (const auto family : {elementwiseRules, matrixRules, layerRules, shapingRules, reductionRules,
                                  indexingRules, sparseRules, boxingRules})
            for (const SignatureRule &rule : family())
                all.add(rule);
        return all;
    }();
    const SignatureRule *own = kRules.find(type);
    return own != nullptr ? own : ruleByTraits(type.traits());
}

bool hasSignatures(const graph::OpType &type) { return findRule(type) != nullptr; }

std::vector<Signature> signatures(const OpAtHand &at)
{
    Proposals proposals(at);
    const SignatureRule *rule = findRule(at.op.type);
    if (rule && rule->propose)
        rule->propose(at, proposals);
    return proposals.take();
}

graph::Attributes localAttributes(const OpAtHand &at, const Signature &signature)
{
    graph::Attributes attributes = at.op.attributes;
    const SignatureRule *rule = findRule(at.op.type);
    if (rule && rule->localize)
        rule->localize(at, signature, attributes);
    return attributes;
}

int axisOf(const OpAtHand &at, std::int64_t fallback, std::size_t rank)
{
    const std::int64_t axis = at.op.integer("axis", fallback);
    return static_cast<int>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

int aligned(const graph::Shape &shape, std::size_t axis, const graph::Shape &whole)
{
    if (axis + shape.rank() < whole.rank())
        return kAll;
    const std::size_t own = axis + shape.rank() - whole.rank();
    return shape[own] == whole[axis] ? static_cast<int>(own) : kAll;
}

void localizeShape(const OpAtHand &at, const Signature &signature, graph::Attributes &attributes)
{
    const graph::Shape shape = localShape(at.outputs[0]->shape, signature.outputs[0], at.parts);
    std::vector<std::int64_t> sizes;
    std::int64_t batchAxis = -1;
    for (std::size_t i = 0; i < shape.rank(); ++i) {
        sizes.push_back(shape[i].size);
        if (shape[i].batch)
            batchAxis = static_cast<std::int64_t>(i);
    }
    attributes["shape"] = std::move(sizes);
    attributes["batch_axis"] = batchAxis;
}

} // namespace planloom::sharding

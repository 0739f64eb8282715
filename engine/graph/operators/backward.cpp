// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/operators/backward.h"

#include "engine/graph/operators/operators.h"

#include <cstring>

namespace planloom::graph {

bool Backward::wants(std::size_t i) const
{
    if (!hasInput(i) || !m_wanted[m_op->inputs[i].index()])
        return false;
    const Gradient *rule = gradientOf(m_op->type);
    return rule && rule->reaches(i);
}

void Backward::begin(const Op &op)
{
    m_op = &op;
    m_stem = "grad/" + op.name;
    m_emitted = 0;
    m_outputGradients.clear();
    for (const TensorId output : op.outputs)
        m_outputGradients.push_back(total(output));
}

TensorId Backward::emit(const OpType &type, std::vector<TensorId> inputs, Attributes attributes)
{
    return emit(type, std::move(inputs), std::move(attributes), 1).front();
}

std::vector<TensorId> Backward::emit(const OpType &type, std::vector<TensorId> inputs, Attributes attributes,
                                     std::size_t outputs)
{
    const std::string name = m_stem + "/" + type + (m_emitted == 0 ? "" : "_" + std::to_string(m_emitted));
    ++m_emitted;
    std::vector<TensorId> made;
    for (std::size_t i = 0; i < outputs; ++i) {
        made.push_back(m_builder.activation(name + ":" + std::to_string(i)));
        m_given[made.back()] = false;
    }
    m_builder.addOp(type, name, m_op ? m_op->scope : std::string(), std::move(inputs), made, std::move(attributes));
    return made;
}

TensorId Backward::scalar(float value)
{
    std::vector<std::byte> data(sizeof value);
    std::memcpy(data.data(), &value, sizeof value);
    return m_builder.constant(m_stem + "/constant_" + std::to_string(m_emitted++), DType::F32, Shape(),
                              std::move(data));
}

TensorId Backward::sumTo(std::size_t i, TensorId gradient)
{
    if (input(i).shape == output().shape)
        return gradient;
    return emit("ReduceSumTo", {gradient}, shapeAttributes(input(i).shape));
}

void Backward::give(std::size_t i, TensorId gradient)
{
    const TensorId target = m_op->inputs[i];
    Contributions &to = m_contributions[target.index()];
    to.parts.push_back(gradient);
    const auto made = m_given.find(gradient);
    if (made == m_given.end() || made->second)
        return; // serves elsewhere already and keeps that name
    made->second = true;
    const bool only = m_expected[target.index()] == 1 && !to.fed.valid();
    m_builder.rename(gradient, gradientName(target) + (only ? "" : "#" + std::to_string(to.parts.size())));
}

Attributes Backward::shapeAttributes(const Shape &shape)
{
    std::vector<std::int64_t> sizes;
    std::int64_t batchAxis = -1;
    for (std::size_t i = 0; i < shape.rank(); ++i) {
        if (shape[i].batch && batchAxis >= 0)
            refuse("shape " + shape.text() + " carries the batch twice");
        if (shape[i].batch)
            batchAxis = static_cast<std::int64_t>(i);
        sizes.push_back(shape[i].size);
    }
    return {{"shape", std::move(sizes)}, {"batch_axis", batchAxis}};
}

void Backward::refuse(const std::string &reason)
{
    if (m_refusal.empty())
        m_refusal = reason;
}

TensorId Backward::feed(TensorId tensor)
{
    Contributions &to = m_contributions[tensor.index()];
    if (!to.fed.valid()) {
        const Tensor &value = m_original.tensor(tensor);
        to.fed = m_builder.input(gradientName(tensor), value.type, value.shape);
    }
    return to.fed;
}

TensorId Backward::total(TensorId tensor, bool own)
{
    Contributions &from = m_contributions[tensor.index()];
    if (from.total.valid())
        return from.total;
    std::vector<TensorId> parts = from.parts;
    if (from.fed.valid())
        parts.insert(parts.begin(), from.fed);
    if (parts.empty())
        return {};
    from.total = parts.front();
    const std::string name = gradientName(tensor) + (from.fed.valid() ? "#sum" : "");
    if (parts.size() > 1) {
        from.total = m_builder.activation(name);
        m_builder.addOp("AddN", name, m_op ? m_op->scope : std::string(), std::move(parts), {from.total}, {});
        return from.total;
    }
    const bool shared = m_builder.tensor(from.total).name != name;
    if (own && shared) {
        const TensorId copy = m_builder.activation(name);
        m_builder.addOp("Identity", name, m_op ? m_op->scope : std::string(), {from.total}, {copy}, {});
        from.total = copy;
    }
    return from.total;
}

} // namespace planloom::graph

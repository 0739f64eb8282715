// SPDX-License-Identifier: Apache-2.0
#include "engine/import/patterns.h"

#include "engine/graph/operators.h"
#include "engine/import/patterns_match.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace planloom::import {

using graph::Graph;
using graph::Op;
using graph::Tensor;
using graph::TensorRole;

const Op *PatternGraph::source(TensorId id) const
{
    const OpId producer = id.valid() ? m_graph.tensor(id).producer : OpId();
    return producer.valid() ? &m_graph.op(producer) : nullptr;
}

const Op *PatternGraph::source(TensorId id, std::string_view type) const
{
    const Op *op = source(id);
    return op && op->type == type && op->outputs[0] == id ? op : nullptr;
}

std::optional<double> PatternGraph::number(TensorId id) const
{
    if (!id.valid())
        return {};
    const Tensor &tensor = m_graph.tensor(id);
    const bool single = tensor.role == TensorRole::Constant && tensor.type == graph::DType::F32 && tensor.shape.rank() <= 1;
    if (!single || !tensor.init.data || tensor.init.data->size() != sizeof(float))
        return {};
    float value = 0;
    std::memcpy(&value, tensor.init.data->data(), sizeof value);
    return static_cast<double>(value);
}

bool PatternGraph::isNumber(TensorId id, double value) const
{
    const auto found = number(id);
    return found && nearly(*found, value);
}

bool PatternGraph::closed(const Pattern &pattern) const
{
    const auto outputs = m_graph.outputs();
    for (const OpId id : pattern.ops)
        for (const TensorId made : m_graph.op(id).outputs) {
            if (made == pattern.output)
                continue;
            if (made == m_graph.loss() || std::find(outputs.begin(), outputs.end(), made) != outputs.end())
                return false;
            for (const OpId reader : m_graph.consumers(made))
                if (!pattern.ops.contains(reader))
                    return false;
        }
    return true;
}

bool nearly(double a, double b) { return std::abs(a - b) <= 1e-3 * std::abs(b); }

namespace {

std::vector<Pattern> findPatterns(const Graph &graph)
{
    using Match = std::optional<Pattern> (*)(const PatternGraph &, const Op &);
    static const std::map<std::string, Match, std::less<>> matches = {
        {"Erf", matchGelu}, {"Tanh", matchGelu}, {"Sigmoid", matchSilu}, {"Sqrt", matchNormalization}, {"Softmax", matchAttention}};
    const PatternGraph in(graph);
    std::vector<Pattern> found;
    std::set<OpId> taken;
    for (const Op &op : graph.ops()) {
        const auto match = matches.find(op.type);
        if (match == matches.end())
            continue;
        auto pattern = match->second(in, op);
        if (!pattern || std::any_of(pattern->ops.begin(), pattern->ops.end(), [&](OpId id) { return taken.contains(id); }))
            continue;
        taken.insert(pattern->ops.begin(), pattern->ops.end());
        found.push_back(*std::move(pattern));
    }
    return found;
}

/// A graph written again with some of its parts replaced.
class PatternWriter {
public:
    explicit PatternWriter(const Graph &from) : m_from(from), m_builder(from.name()), m_to(from.tensors().size())
    {
        for (const Op &op : from.ops())
            m_names.insert(op.name);
    }

    Result<Graph> write(const std::vector<Pattern> &patterns)
    {
        std::set<OpId> gone;
        std::map<OpId, const Pattern *> last;
        for (const Pattern &pattern : patterns) {
            gone.insert(pattern.ops.begin(), pattern.ops.end());
            last[m_from.tensor(pattern.output).producer] = &pattern;
        }
        for (const Tensor &tensor : m_from.tensors()) {
            const bool inside = tensor.producer.valid() && gone.contains(tensor.producer);
            if (!inside || last.contains(tensor.producer))
                m_to[tensor.id.index()] = copy(tensor);
        }
        for (const Op &op : m_from.ops()) {
            if (const auto found = last.find(op.id); found != last.end())
                fused(op, *found->second);
            else if (!gone.contains(op.id))
                m_builder.addOp(op.type, op.name, op.scope, mapped(op.inputs), mapped(op.outputs), op.attributes);
        }
        for (const TensorId output : m_from.outputs())
            m_builder.output(m_to[output.index()]);
        if (m_from.loss().valid())
            m_builder.loss(m_to[m_from.loss().index()]);
        return std::move(m_builder).build();
    }

private:
    TensorId copy(const Tensor &tensor)
    {
        switch (tensor.role) {
        case TensorRole::Input: return m_builder.input(tensor.name, tensor.type, tensor.shape);
        case TensorRole::Parameter: return m_builder.parameter(tensor.name, tensor.shape, tensor.init, tensor.type);
        case TensorRole::State: return m_builder.state(tensor.name, tensor.shape, tensor.init, tensor.type);
        case TensorRole::Constant: return constant(tensor);
        case TensorRole::Activation: break;
        }
        return m_builder.activation(tensor.name, tensor.type, tensor.shape, true);
    }

    TensorId constant(const Tensor &tensor)
    {
        return m_builder.constant(tensor.name, tensor.type, tensor.shape, tensor.init.data ? *tensor.init.data : std::vector<std::byte>());
    }

    [[nodiscard]] std::vector<TensorId> mapped(const std::vector<TensorId> &ids) const
    {
        std::vector<TensorId> made;
        for (const TensorId id : ids)
            made.push_back(id.valid() ? m_to[id.index()] : TensorId());
        return made;
    }

    /// @p op, the pattern's last, gives the new operator its place in the modules.
    void fused(const Op &op, const Pattern &pattern)
    {
        const auto slash = op.name.rfind('/');
        std::string name = (slash == std::string::npos ? "" : op.name.substr(0, slash + 1)) + pattern.type;
        if (m_names.contains(name))
            name += "_" + std::to_string(op.id.index());
        m_names.insert(name);
        std::vector<TensorId> inputs = mapped(pattern.inputs);
        if (pattern.type == "Attention" && inputs.size() == 3) {
            const TensorId packed = m_builder.activation(name + "/qkv", m_from.tensor(pattern.inputs[0]).type);
            m_builder.addOp("Concat", name + "/qkv", op.scope, inputs, {packed}, {{"axis", std::int64_t{2}}});
            inputs = {packed};
        }
        m_builder.addOp(pattern.type, name, op.scope, std::move(inputs), mapped({pattern.output}), pattern.attributes);
    }

    const Graph &m_from;
    graph::GraphBuilder m_builder;
    std::vector<TensorId> m_to;
    std::set<std::string> m_names;
};

} // namespace

Graph fusePatterns(const Graph &graph)
{
    for (const Op &op : graph.ops())
        if (!graph::findSchema(op.type)) // shapes behind it may be unknown, which a built graph no longer tells
            return graph;
    const std::vector<Pattern> patterns = findPatterns(graph);
    if (patterns.empty())
        return graph;
    auto made = PatternWriter(graph).write(patterns);
    return made ? *std::move(made) : graph;
}

} // namespace planloom::import

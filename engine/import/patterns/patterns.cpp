// SPDX-License-Identifier: Apache-2.0
#include "engine/import/patterns/patterns.h"

#include "engine/graph/operators/operators.h"
#include "engine/import/patterns/match.h"

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
    const bool single =
        tensor.role == TensorRole::Constant && tensor.type == graph::DType::F32 && tensor.shape.rank() <= 1;
    if (!single || !tensor.init.data || tensor.init.data->size() != sizeof(float))
        return {};
    float value = 0;
    std::memcpy(&value, tensor.init.data->data(), sizeof value);
    return static_cast<double>(value);
}

std::optional<std::int64_t> PatternGraph::integer(TensorId id) const
{
    if (!id.valid())
        return {};
    const Tensor &found = m_graph.tensor(id);
    std::int64_t value = 0;
    if (found.role != TensorRole::Constant || found.type != graph::DType::I64 || !found.init.data
        || found.init.data->size() != sizeof value)
        return {};
    std::memcpy(&value, found.init.data->data(), sizeof value);
    return value;
}

const Op *PatternGraph::onlyReader(TensorId id, std::string_view type) const
{
    const auto readers = m_graph.consumers(id);
    const Op *op = readers.size() == 1 ? &m_graph.op(readers[0]) : nullptr;
    return op && op->type == type ? op : nullptr;
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

using Match = std::optional<Pattern> (*)(const PatternGraph &, const Op &);
using Matches = std::map<std::string, Match, std::less<>>;

std::vector<Pattern> findPatterns(const Graph &graph, const Matches &matches)
{
    const PatternGraph in(graph);
    std::vector<Pattern> found;
    std::set<OpId> taken;
    for (const Op &op : graph.ops()) {
        const auto match = matches.find(op.type.name());
        if (match == matches.end())
            continue;
        auto pattern = match->second(in, op);
        if (!pattern
            || std::any_of(pattern->ops.begin(), pattern->ops.end(), [&](OpId id) { return taken.contains(id); }))
            continue;
        taken.insert(pattern->ops.begin(), pattern->ops.end());
        found.push_back(*std::move(pattern));
    }
    return found;
}

/// Names of operators with unused results.
std::set<std::string> unused(const Graph &graph)
{
    std::vector<bool> used(graph.tensors().size());
    for (const TensorId id : graph.outputs())
        used[id.index()] = true;
    if (graph.loss().valid())
        used[graph.loss().index()] = true;
    std::set<std::string> names;
    const auto ops = graph.ops();
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
        const bool live = std::any_of(op->outputs.begin(), op->outputs.end(),
                                      [&](TensorId id) { return id.valid() && used[id.index()]; });
        if (!live)
            names.insert(op->name);
        for (const TensorId id : op->inputs)
            if (live && id.valid())
                used[id.index()] = true;
    }
    return names;
}

/// A graph written again with some of its parts replaced.
class PatternWriter {
public:
    explicit PatternWriter(const Graph &from) : m_from(from), m_builder(from.name()), m_to(from.tensors().size())
    {
        for (const Op &op : from.ops())
            m_names.insert(op.name);
    }

    /// @p patterns replaced and operators of the names @p dropped left out.
    Result<Graph> write(const std::vector<Pattern> &patterns, const std::set<std::string> &dropped)
    {
        std::set<OpId> gone;
        std::map<OpId, const Pattern *> last;
        for (const Pattern &pattern : patterns) {
            gone.insert(pattern.ops.begin(), pattern.ops.end());
            last[m_from.tensor(pattern.output).producer] = &pattern;
        }
        for (const Op &op : m_from.ops())
            if (dropped.contains(op.name))
                gone.insert(op.id);
        for (const Tensor &tensor : m_from.tensors())
            if (!tensor.producer.valid() || !gone.contains(tensor.producer))
                m_to[tensor.id.index()] = m_builder.copy(tensor);
        for (const Op &op : m_from.ops()) {
            if (const auto found = last.find(op.id); found != last.end())
                replace(op, *found->second);
            else if (!gone.contains(op.id))
                m_builder.addOp(op.type, op.name, op.scope, mapped(op.inputs), mapped(op.outputs), op.attributes);
        }
        for (const TensorId output : m_from.outputs())
            m_builder.output(m_to[output.index()]);
        if (m_from.loss().valid())
            m_builder.loss(m_to[m_from.loss().index()], m_from.lossOrigin());
        return std::move(m_builder).build();
    }

private:
    [[nodiscard]] std::vector<TensorId> mapped(const std::vector<TensorId> &ids) const
    {
        std::vector<TensorId> made;
        for (const TensorId id : ids)
            made.push_back(id.valid() ? m_to[id.index()] : TensorId());
        return made;
    }

    /// @p op, the pattern's last, gives the new operators their place in the modules.
    void replace(const Op &op, const Pattern &pattern)
    {
        if (pattern.steps.empty()) {
            m_to[pattern.output.index()] = m_to[pattern.same.index()];
            return;
        }
        std::vector<TensorId> made;
        for (const Step &step : pattern.steps) {
            const std::string name = freshName(op, step.type);
            std::vector<TensorId> inputs;
            for (const Operand &operand : step.inputs)
                inputs.push_back(operand.step >= 0 ? made[static_cast<std::size_t>(operand.step)]
                                                   : mapped({operand.tensor}).front());
            const bool isLast = &step == &pattern.steps.back();
            if (isLast)
                m_to[pattern.output.index()] = m_builder.copy(m_from.tensor(pattern.output));
            made.push_back(isLast ? m_to[pattern.output.index()] : m_builder.activation(name + "/made", step.makes));
            m_builder.addOp(step.type, name, op.scope, std::move(inputs), {made.back()}, step.attributes);
        }
    }

    /// The last step of @p op's kind of work often has its type: then it keeps its name.
    std::string freshName(const Op &op, const std::string &type)
    {
        const auto slash = op.name.rfind('/');
        const std::string base = (slash == std::string::npos ? "" : op.name.substr(0, slash + 1)) + type;
        std::string name = base;
        for (int i = 1; !m_names.insert(name).second; ++i)
            name = base + "_" + std::to_string(i);
        return name;
    }

    const Graph &m_from;
    graph::GraphBuilder m_builder;
    std::vector<TensorId> m_to;
    std::set<std::string> m_names;
};

} // namespace

Graph fusePatterns(const Graph &graph)
{
    if (graph.outputs().empty())
        return graph;
    for (const Op &op : graph.ops())
        if (const graph::Operator *row = op.type.row();
            !row || !row->infer) // shapes behind it may be unknown, which a built graph no longer tells
            return graph;
    // Equivalent forms are first normalised; exchanges of dimensions cancel when attention no longer stands
    // between them.
    static const Matches passes[] = {
        {{"Dropout", matchNothing}, {"Cast", matchNothing}, {"MatMul", matchLinear}},
        {{"Erf", matchGelu},
         {"Tanh", matchGelu},
         {"Sigmoid", matchSilu},
         {"Sqrt", matchNormalization},
         {"Softmax", matchAttention}},
        {{"Transpose", matchTurnedRows}},
    };
    Graph now = graph;
    const auto rewrite = [&now](const std::vector<Pattern> &patterns, const std::set<std::string> &dropped) {
        auto made =
            patterns.empty() && dropped.empty() ? Result<Graph>(now) : PatternWriter(now).write(patterns, dropped);
        if (made)
            now = *std::move(made);
    };
    rewrite({}, unused(now)); // leftovers of exporters read tensors inside patterns
    for (const Matches &matches : passes)
        rewrite(findPatterns(now, matches), {});
    rewrite({}, unused(now)); // operators that prepared masks
    return now;
}

} // namespace planloom::import

// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/table_rows.h"

#include "engine/graph/rewrite/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace planloom::compile {
namespace {

using graph::Op;

/// A table and the operators that read it and make its gradient.
struct Found {
    RowTable table;
    TensorId parameter, ids, gradient;
    OpId gather, scatter;
};

class RowRewriter {
public:
    RowRewriter(const graph::TrainingGraph &training, const plan::Plan &plan, const plan::Stage &stage)
        : m_training(training),
          m_plan(plan),
          m_stage(stage),
          m_rewriter(training)
    {
    }

    Result<RowTraining> rewrite()
    {
        for (std::size_t p = 0; p < m_training.parameters.size(); ++p)
            if (const Status found = find(p); !found)
                return found.error();
        if (m_found.empty())
            return RowTraining{m_training, {}};
        for (const Found &each : m_found)
            declare(each);
        const auto &ops = m_training.graph.ops();
        for (std::size_t i = 0; i < ops.size(); ++i) {
            if (i == m_training.forwardOps)
                m_rewriter.beginBackward();
            copy(ops[i]);
        }
        if (ops.size() == m_training.forwardOps)
            m_rewriter.beginBackward();
        auto made = std::move(m_rewriter).finish();
        if (!made)
            return made.error();
        RowTraining result{*std::move(made), {}};
        for (Found &each : m_found)
            result.tables.push_back(std::move(each.table));
        return result;
    }

private:
    Status find(std::size_t p)
    {
        const graph::Graph &graph = m_training.graph;
        const graph::Tensor &tensor = graph.tensor(m_training.parameters[p]);
        const plan::SparseTable *wanted = m_plan.exchange.tableOf(tensor.name);
        if (wanted == nullptr)
            return {};
        Found found;
        found.parameter = tensor.id;
        found.gradient = m_training.gradients[p];
        for (const OpId reader : graph.consumers(tensor.id))
            found.gather = reader;
        if (found.gradient.valid())
            found.scatter = graph.tensor(found.gradient).producer;
        if (graph.consumers(tensor.id).size() != 1 || !found.gather.valid() || graph.op(found.gather).type != "Gather"
            || !found.scatter.valid() || graph.op(found.scatter).type != "GatherGrad")
            return unsupported(
                fmt::format("table {} is not looked up by one operator alone; exchange it by all-reduce", tensor.name));
        found.ids = graph.op(found.gather).inputs[1];
        const graph::Tensor &ids = graph.tensor(found.ids);
        found.table = {
            tensor.name,          ids.name, "places/" + tensor.name, tensor.shape[0].size, tensor.shape[1].size,
            ids.shape.elements(1)};
        found.table.window = std::min(found.table.rows, mostSamples(m_plan, m_stage) * found.table.idsPerSample);
        found.table.strategy = wanted->strategy;
        found.table.delays = m_plan.exchange.sparse.delays(*wanted);
        m_found.push_back(std::move(found));
        return {};
    }

    void declare(const Found &each)
    {
        graph::GraphBuilder &builder = m_rewriter.builder();
        const graph::Tensor &parameter = m_training.graph.tensor(each.parameter);
        m_places[each.parameter] =
            builder.input(each.table.places, graph::DType::I64, m_training.graph.tensor(each.ids).shape);
        if (each.table.isCut())
            m_rewriter.map(each.parameter,
                           builder.parameter(parameter.name, graph::Shape::of({each.table.window, each.table.columns}),
                                             parameter.init, parameter.type));
    }

    void copy(const Op &op)
    {
        for (const Found &each : m_found) {
            if (op.id == each.gather && each.table.isCut())
                return m_rewriter.copy(op, op.attributes, {m_rewriter.to(each.parameter), m_places.at(each.parameter)});
            if (op.id != each.scatter)
                continue;
            graph::Attributes attributes = op.attributes;
            attributes["shape"] = std::vector<std::int64_t>{each.table.window, each.table.columns};
            return m_rewriter.copy(op, std::move(attributes),
                                   {m_rewriter.to(op.inputs[0]), m_places.at(each.parameter)});
        }
        m_rewriter.copy(op);
    }

    const graph::TrainingGraph &m_training;
    const plan::Plan &m_plan;
    const plan::Stage &m_stage;
    graph::Rewriter m_rewriter;
    std::vector<Found> m_found;
    std::map<TensorId, TensorId> m_places; ///< by parameter
};

} // namespace

std::int64_t mostSamples(const plan::Plan &plan, const plan::Stage &stage)
{
    std::vector<std::int64_t> samples(stage.replicas(), 0);
    for (std::int64_t m = 0; m < plan.microBatches; ++m) {
        const std::vector<std::int64_t> sizes = plan::replicaSizes(stage, plan::microBatchRange(plan, m).size);
        for (std::size_t r = 0; r < samples.size(); ++r)
            samples[r] += sizes[r];
    }
    return *std::max_element(samples.begin(), samples.end());
}

Result<RowTraining> useRows(graph::TrainingGraph training, const plan::Plan &plan, const plan::Stage &stage)
{
    return RowRewriter(training, plan, stage).rewrite();
}

sharding::Region heldPart(const RowTable &table, int members, int position)
{
    cost::Segment rows{0, table.rows};
    cost::Segment columns{0, table.columns};
    if (table.strategy == plan::TableStrategy::AllToAll)
        columns = cost::segmentOf(table.columns, members, position);
    if (table.strategy == plan::TableStrategy::ParameterServer)
        rows = cost::segmentOf(table.rows, members, position);
    return {{{rows.begin, rows.end}}, {{columns.begin, columns.end}}};
}

} // namespace planloom::compile

// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/validate_tables.h"

#include "engine/plan/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace planloom::plan {
namespace {

const graph::Tensor *parameterOf(const graph::Graph &graph, const std::string &name)
{
    const TensorId id = graph.find(name);
    return id.valid() && graph.tensor(id).role == graph::TensorRole::Parameter ? &graph.tensor(id) : nullptr;
}

std::string tablesOf(const graph::Graph &graph)
{
    std::string names;
    for (const std::string &table : lookedUpTables(graph))
        names += (names.empty() ? "" : ", ") + table;
    return names.empty() ? "it has none" : "it has " + names;
}

/// One operator reads it: a look-up of rows by an input of the model.
Status checkReaders(const graph::Graph &graph, const graph::Tensor &table)
{
    const auto readers = graph.consumers(table.id);
    const std::string fix = "; exchange it by all-reduce";
    if (readers.size() > 1)
        return badInput(fmt::format("table {} is tied: {} and {} read it, so that its gradient is dense; untie it, or "
                                    "exchange it by all-reduce",
                                    table.name, graph.op(readers[0]).name, graph.op(readers[1]).name));
    if (readers.empty() || graph.op(readers[0]).type != "Gather" || graph.op(readers[0]).integer("axis") != 0
        || table.shape.rank() != 2)
        return badInput(fmt::format("parameter {} is no table of rows that are looked up{}", table.name, fix));
    const graph::Tensor &ids = graph.tensor(graph.op(readers[0]).inputs[1]);
    if (ids.role != graph::TensorRole::Input || ids.type != graph::DType::I64)
        return badInput(
            fmt::format("the ids that look up table {} are no int64 input of the model, so that they are not "
                        "known ahead{}",
                        table.name, fix));
    return {};
}

Status checkStage(const Plan &plan, const Subject &subject, const graph::Tensor &table)
{
    const OpId reader = subject.graph->consumers(table.id).front();
    const auto &layers = subject.layers().layers;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const Stage &stage = plan.stages[s];
        if (reader < layers[stage.firstLayer].first || reader >= layers[stage.lastLayer - 1].last)
            continue;
        if (stage.replicas() < 2)
            return badInput(fmt::format("stage {}, which looks up table {}, has one replica: there is nothing to "
                                        "exchange; give the stage at least two, or leave out the table",
                                        s, table.name));
        if (stage.shards() > 1)
            return badInput(
                fmt::format("stage {}, which looks up table {}, cuts tensors over {} devices a replica, and "
                            "exchange embrace cuts the table over replicas; exchange it by all-reduce",
                            s, table.name, stage.shards()));
        if (splitsBackward(plan.schedule, s))
            return badInput(fmt::format("stage {}, which looks up table {}, has passes of its own for gradients of "
                                        "weights; take another schedule, or exchange the table by all-reduce",
                                        s, table.name));
    }
    return {};
}

/// Updates look at single rows, at different times.
Status checkUpdates(const Plan &plan, const SparseTable &table)
{
    const Optimizer &optimizer = plan.optimizer;
    if (optimizer.clipNorm > 0)
        return badInput(
            fmt::format("gradients are clipped to a norm of {:g} over all of them, and rows of table {} are "
                        "updated before all are known; set clip_norm to 0, or exchange the table by "
                        "all-reduce",
                        optimizer.clipNorm, table.parameter));
    if (optimizer.rule.formula().norms > 0)
        return badInput(fmt::format("update rule {} takes norms over all rows of table {}; use one without norms, such "
                                    "as sgd or adamw, or exchange the table by all-reduce",
                                    optimizer.rule.name(), table.parameter));
    const ParameterSettings settings = settingsOf(optimizer, table.parameter, 2);
    if (settings.weightDecay != 0)
        return badInput(
            fmt::format("weight decay {:g} would shrink all rows of table {}, and a step updates those that "
                        "it looks up; add {{\"match\": \"{}\", \"weight_decay\": 0}} to optimizer.groups, or "
                        "exchange the table by all-reduce",
                        settings.weightDecay, table.parameter, table.parameter));
    return {};
}

} // namespace

std::vector<std::string> lookedUpTables(const graph::Graph &graph)
{
    std::vector<std::string> names;
    for (const graph::Tensor &tensor : graph.tensors())
        if (tensor.role == graph::TensorRole::Parameter && checkReaders(graph, tensor))
            names.push_back(tensor.name);
    return names;
}

Status checkTables(const Plan &plan, const Subject &subject)
{
    const Exchange &exchange = plan.exchange;
    for (const ExchangeGroup &group : exchange.groups)
        if (group.policy == ExchangePolicy::Sparse)
            return badInput(
                fmt::format("exchange group \"{}\" is embrace, which is the exchange of tables; name them in "
                            "exchange.tables",
                            group.match));
    if (exchange.policy != ExchangePolicy::Sparse)
        return {};
    const graph::Graph &graph = *subject.graph;
    if (exchange.sparse.tables.empty())
        return badInput(
            fmt::format("exchange embrace names no table; list those of model {} in tables, {}, or exchange "
                        "by all-reduce",
                        graph.name(), tablesOf(graph)));
    std::set<std::string> seen;
    for (const SparseTable &table : exchange.sparse.tables) {
        const graph::Tensor *parameter = parameterOf(graph, table.parameter);
        if (parameter == nullptr)
            return badInput(fmt::format("exchange embrace names table \"{}\", and model {} has no parameter of that "
                                        "name; of tables {}",
                                        table.parameter, graph.name(), tablesOf(graph)));
        if (!seen.insert(table.parameter).second)
            return badInput(fmt::format("exchange embrace names table {} twice; leave one out", table.parameter));
        if (exchange.tableOf(table.parameter) == nullptr)
            continue; // summed up like others
        if (Status read = checkReaders(graph, *parameter); !read)
            return read;
        if (plan.precision == Precision::BFloat16)
            return badInput(fmt::format("table {} would be exchanged by rows in bf16, which is not done yet; plan in "
                                        "fp32, or exchange it by all-reduce",
                                        table.parameter));
        if (Status updated = checkUpdates(plan, table); !updated)
            return updated;
        if (Status placed = checkStage(plan, subject, *parameter); !placed)
            return placed;
    }
    if (!plan.schedule.lanePolicy.empty() && exchange.sparse.scheduling != ExchangeScheduling::Fifo)
        return badInput(fmt::format("lane policy {} and scheduling {} of the exchange both say what goes first; leave "
                                    "schedule.lane_policy out, or give scheduling fifo",
                                    plan.schedule.lanePolicy, name(exchange.sparse.scheduling)));
    return {};
}

} // namespace planloom::plan

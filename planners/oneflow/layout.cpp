// SPDX-License-Identifier: Apache-2.0
#include "planners/oneflow/layout.h"

#include "engine/cost/local_costs.h"
#include "engine/cost/work.h"

namespace planloom::planners::oneflow {
namespace {

using sharding::NdSbp;
using sharding::Sbp;

/// Along the batch where a tensor has it.
Sbp onDataDimension(const graph::Tensor &tensor)
{
    for (std::size_t axis = 0; axis < tensor.shape.rank(); ++axis)
        if (tensor.shape[axis].batch)
            return sharding::split(static_cast<int>(axis));
    return sharding::broadcast();
}

std::vector<DeviceId> lineOf(const LayoutProblem &problem, std::size_t dimension)
{
    std::vector<DeviceId> line;
    for (const int device : problem.mesh.line(0, dimension))
        line.push_back(problem.devices[static_cast<std::size_t>(device)]);
    return line;
}

LineSetting settingOf(const LayoutProblem &problem, std::size_t dimension)
{
    LineSetting setting;
    setting.costs = problem.costs;
    setting.line = lineOf(problem, dimension);
    setting.replicas = lineOf(problem, 0);
    setting.lines = problem.mesh.devices() / problem.mesh.sizes[dimension];
    setting.type = problem.costs->cluster().device(problem.devices.front()).type;
    setting.samples = problem.samples;
    setting.microBatches = problem.microBatches;
    setting.update = problem.update;
    return setting;
}

/// The first @p dimensions of the mesh with their pins.
sharding::Request requestOf(const LayoutProblem &problem, const std::map<std::string, NdSbp> &pins,
                            std::size_t dimensions)
{
    sharding::Request request;
    request.mesh.sizes.assign(problem.mesh.sizes.begin(),
                              problem.mesh.sizes.begin() + static_cast<std::ptrdiff_t>(dimensions));
    for (const auto &[name, pin] : pins)
        request.pins[name].assign(pin.begin(), pin.begin() + static_cast<std::ptrdiff_t>(dimensions));
    request.inputs.assign(problem.training->inputs.size(), NdSbp(dimensions));
    request.outputs.assign(problem.training->outputs.size(), NdSbp(dimensions));
    return request;
}

/// Components along one dimension, by tensor.
std::map<std::string, Sbp> along(const std::map<std::string, NdSbp> &layouts, std::size_t dimension)
{
    std::map<std::string, Sbp> result;
    for (const auto &[name, layout] : layouts)
        result[name] = layout[dimension];
    return result;
}

/// A collective operator's kind and the bytes that cost/collectives.h counts it by.
std::pair<cost::Collective, double> callOf(const graph::Graph &graph, const graph::Op &op, double samples,
                                           double members)
{
    const auto bytes = [samples](const graph::Tensor &tensor) {
        return static_cast<double>(tensor.bytes(1).value()) * (tensor.shape.batched() ? samples : 1);
    };
    const double in = bytes(graph.tensor(op.inputs.front()));
    const cost::Collective kind = cost::collectiveOf(op);
    const bool divides = kind == cost::Collective::ReduceScatter || kind == cost::Collective::AllToAll;
    return {kind, divides ? in / members : in};
}

double sentBytes(cost::Collective kind, double bytes, double members)
{
    return kind == cost::Collective::AllReduce ? 2 * (members - 1) * bytes : members * (members - 1) * bytes;
}

/// Optimizer step and exchange of gradients, once an iteration.
double parameterSeconds(const LayoutProblem &problem, const sharding::Sharded &sharded)
{
    const std::size_t type = problem.costs->cluster().device(problem.devices.front()).type;
    double seconds = 0;
    for (std::size_t p = 0; p < sharded.parameters.size(); ++p) {
        const double bytes =
            static_cast<double>(sharded.local.graph.tensor(sharded.local.parameters[p]).shape.elements(1))
            * sizeof(float);
        seconds +=
            problem.costs->optimizerStep(Bytes(static_cast<std::int64_t>(bytes)), problem.update.streams, type).value();
        for (const int dimension : sharded.parameters[p].reduceOver)
            seconds += problem.costs->allReduce(lineOf(problem, static_cast<std::size_t>(dimension)), bytes).value();
    }
    return seconds;
}

} // namespace

Result<Layout> searchLayout(const LayoutProblem &problem, double secondsPerByte, const SolveSettings &settings)
{
    Layout layout;
    for (const graph::Tensor &tensor : problem.training->graph.tensors())
        layout.pins[tensor.name] = {onDataDimension(tensor)};
    std::map<std::string, NdSbp> pins;
    graph::TrainingGraph local = *problem.training;
    for (std::size_t d = 1; d < problem.mesh.sizes.size(); ++d) {
        const LineSpace space(local, settingOf(problem, d));
        const Solution solution = solve(space.graph(secondsPerByte), settings);
        layout.exact = layout.exact && solution.exact;
        layout.kernel = std::max(layout.kernel, solution.kernel);
        const auto found = space.pins(solution.states);
        if (d == 1)
            for (const auto &[name, sbp] : found)
                pins[name] = layout.pins[name];
        for (auto &[name, pin] : pins) {
            const auto component = found.find(name);
            pin.push_back(component == found.end() ? sharding::broadcast() : component->second);
        }
        auto sharded = sharding::shard(*problem.training, requestOf(problem, pins, d + 1));
        if (!sharded)
            return sharded.error();
        layout.changed += space.differing(solution.states, along(sharded->chosen, d)).size();
        const Price price = space.priceOf(solution.states);
        layout.boxingBytes += price.bytes;
        layout.memoryBytes = price.memory;
        local = std::move(sharded->local);
    }
    layout.pins = std::move(pins);
    return layout;
}

Result<Price> priceOf(const LayoutProblem &problem, const std::map<std::string, NdSbp> &pins)
{
    const auto sharded = sharding::shard(*problem.training, requestOf(problem, pins, problem.mesh.sizes.size()));
    if (!sharded)
        return sharded.error();
    const graph::Graph &graph = sharded->local.graph;
    const std::size_t type = problem.costs->cluster().device(problem.devices.front()).type;
    Price price;
    price.seconds =
        cost::LocalCosts(*problem.costs, graph).seconds(0, graph.ops().size(), problem.samples, type).value();
    for (const graph::Op &op : graph.ops()) {
        if (!op.traits().communicates())
            continue;
        const std::vector<DeviceId> line = lineOf(problem, static_cast<std::size_t>(op.integer("mesh_dim")));
        const auto members = static_cast<double>(line.size());
        const auto [kind, bytes] = callOf(graph, op, problem.samples, members);
        price.seconds += problem.costs->collective(kind, line, bytes).value();
        price.bytes += sentBytes(kind, bytes, members) * static_cast<double>(problem.mesh.devices()) / members;
    }
    price.seconds = price.seconds * problem.microBatches + parameterSeconds(problem, *sharded);
    price.bytes *= problem.microBatches;
    return price;
}

} // namespace planloom::planners::oneflow

// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/script.h"

#include "engine/program/straight.h"
#include "engine/sharding/shard.h"

#include <algorithm>

namespace planloom::runtime {

namespace {

using program::Body;
using program::Placement;

std::vector<device::Argument> argumentsOf(const graph::Graph &graph, const std::vector<TensorId> &ids, std::int64_t samples)
{
    std::vector<device::Argument> arguments;
    for (const TensorId id : ids) {
        if (!id.valid()) {
            arguments.push_back({graph::DType::F32, {}, false});
            continue;
        }
        const graph::Tensor &tensor = graph.tensor(id);
        arguments.push_back({tensor.type, tensor.shape.at(samples), true, tensor.layout});
    }
    return arguments;
}

/// Writes the calls of operators [first, last) with the tensors where @p places says.
class ScriptWriter {
public:
    ScriptWriter(const Body &body, const std::vector<Placement> &places, const SizedScripts &sized)
        : m_body(body), m_places(places), m_sized(sized), m_straight(program::straightGradients(body.training))
    {
    }

    Result<Script> write(std::size_t first, std::size_t last)
    {
        const bool backward = first >= m_body.training.forwardOps;
        m_script.firstOp = static_cast<std::int32_t>(first);
        if (backward)
            accumulate(OpId());
        m_script.accumulateFirst = static_cast<std::int32_t>(m_script.accumulations.size());
        for (std::size_t op = first; op < last; ++op) {
            if (const Status status = addCall(m_body.training.graph.ops()[op], backward); !status)
                return status.error();
        }
        return std::move(m_script);
    }

private:
    Status addCall(const graph::Op &op, bool backward)
    {
        Call call;
        call.kernel = m_sized.kernels[op.id.index()].get();
        call.inference = m_sized.inference[op.id.index()] ? m_sized.inference[op.id.index()].get() : call.kernel;
        call.scored = scoredOf(m_body.training.graph, op);
        call.ignored = op.integer("ignore_index", -100);
        call.firstInput = here();
        call.idle = m_straight.routes[op.id.index()] == program::Route::Idle;
        if (const Status status = call.idle ? Status() : addPlaces(op, op.inputs); !status)
            return status;
        call.firstOutput = here();
        if (const Status status = addOutputs(op, call); !status)
            return status;
        call.lastOutput = here();
        call.firstAccumulation = static_cast<std::int32_t>(m_script.accumulations.size());
        if (backward)
            accumulate(op.id);
        call.lastAccumulation = static_cast<std::int32_t>(m_script.accumulations.size());
        m_script.mostArguments = std::max(m_script.mostArguments, call.lastOutput - call.firstInput);
        m_script.calls.push_back(call);
        return {};
    }

    Status addOutputs(const graph::Op &op, Call &call)
    {
        if (call.idle)
            return {};
        if (m_straight.routes[op.id.index()] == program::Route::Made)
            return addPlaces(op, op.outputs);
        const TensorId gradient = m_straight.gradients[op.id.index()];
        const auto found = std::find_if(m_body.accumulators.begin(), m_body.accumulators.end(), [&](const Body::Accumulator &a) { return a.gradient == gradient; });
        if (found == m_body.accumulators.end()) {
            call.idle = true; // nobody asks for it
            return {};
        }
        call.adding = dynamic_cast<device::AddingKernel *>(call.kernel);
        if (call.adding == nullptr)
            return failed("the kernel of " + op.type + " " + op.name + " cannot add to an accumulator");
        m_script.places.push_back({static_cast<std::int32_t>(program::Area::Persistent), found->offset, m_body.training.graph.tensor(op.outputs[0]).bytes(1).value()});
        return {};
    }

    [[nodiscard]] std::int32_t here() const { return static_cast<std::int32_t>(m_script.places.size()); }

    Status addPlaces(const graph::Op &op, const std::vector<TensorId> &ids)
    {
        for (const TensorId id : ids) {
            if (!id.valid()) {
                m_script.places.emplace_back();
                continue;
            }
            if (m_places[id.index()].offset < 0)
                return failed("operator " + op.name + " uses " + m_body.training.graph.tensor(id).name + ", which has no place in this pass");
            m_script.places.push_back(placeOf(m_body, m_places, id, m_sized.samples));
        }
        return {};
    }

    /// Accumulations of the gradients that @p producer makes (none: those that come in as they are).
    void accumulate(OpId producer)
    {
        const graph::TrainingGraph &training = m_body.training;
        for (const Body::Accumulator &accumulator : m_body.accumulators) {
            const graph::Tensor &gradient = training.graph.tensor(accumulator.gradient);
            if (gradient.producer == producer && !m_straight.unplaced[gradient.id.index()])
                m_script.accumulations.push_back({placeOf(m_body, m_places, gradient.id, m_sized.samples), accumulator.offset, gradient.shape.elements(1)});
        }
    }

    const Body &m_body;
    const std::vector<Placement> &m_places;
    const SizedScripts &m_sized;
    program::StraightGradients m_straight;
    Script m_script;
};

} // namespace

Scored scoredOf(const graph::Graph &graph, const graph::Op &op)
{
    if (op.type == "LossFromStatistics")
        return Scored::Statistics;
    if (op.type != "SoftmaxCrossEntropyLoss")
        return Scored::Nothing;
    return graph.tensor(op.inputs[0]).type == graph::DType::BF16 ? Scored::HalfLogits : Scored::Logits;
}

Place placeOf(const Body &body, const std::vector<Placement> &places, TensorId id, std::int64_t samples)
{
    const Placement &placement = places[id.index()];
    return {static_cast<std::int32_t>(placement.area), placement.offset, body.training.graph.tensor(id).bytes(samples).value()};
}

Result<SizedScripts> makeScripts(const Body &body, std::int64_t samples)
{
    SizedScripts sized;
    sized.samples = samples;
    const graph::Graph &graph = body.training.graph;
    for (graph::Op op : graph.ops()) {
        sized.inference.emplace_back();
        if (sharding::communicates(op.type)) {
            sized.kernels.emplace_back();
            continue;
        }
        if (op.has("mesh_dim"))
            op.attributes["mesh_index"] = static_cast<std::int64_t>(body.coordinates[static_cast<std::size_t>(op.integer("mesh_dim"))]);
        auto kernel = device::makeKernel(op, argumentsOf(graph, op.inputs, samples), argumentsOf(graph, op.outputs, samples));
        if (!kernel)
            return kernel.error();
        if (auto *random = dynamic_cast<device::RandomKernel *>(kernel->get()))
            sized.random.push_back(random);
        sized.kernels.push_back(std::move(*kernel));
        if (op.type != "BatchNormalization" || op.integer("training_mode", 1) == 0)
            continue;
        op.attributes["training_mode"] = std::int64_t{0}; // with the running statistics, which stay as they are
        auto inference = device::makeKernel(op, argumentsOf(graph, op.inputs, samples), argumentsOf(graph, op.outputs, samples));
        if (!inference)
            return inference.error();
        sized.inference.back() = std::move(*inference);
    }
    const std::size_t forwardOps = body.training.forwardOps;
    const std::size_t allOps = graph.ops().size();
    const struct {
        Script &script;
        const std::vector<Placement> &places;
        std::size_t first, last;
    } passes[] = {
        {sized.forward, body.forwardPlaces, 0, forwardOps},
        {sized.recompute, body.backwardPlaces, 0, body.recompute ? forwardOps : 0},
        {sized.backward, body.backwardPlaces, forwardOps, allOps},
    };
    for (const auto &pass : passes) {
        Result<Script> script = ScriptWriter(body, pass.places, sized).write(pass.first, pass.last);
        if (!script)
            return script.error();
        pass.script = std::move(*script);
    }
    return sized;
}

} // namespace planloom::runtime

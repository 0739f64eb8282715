// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/script.h"

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

/// Which operators add to a gradient's accumulator by themselves.
class StraightGradients {
public:
    StraightGradients(const Body &body, const SizedScripts &sized) : m_body(body), m_sized(sized), m_accumulator(graph().ops().size(), -1), m_idle(graph().ops().size(), false)
    {
        for (const Body::Accumulator &accumulator : body.accumulators)
            find(accumulator);
    }

    /// The accumulator's offset in the arena; -1: @p op makes its output where it has its place.
    [[nodiscard]] std::int64_t accumulator(OpId op) const { return m_accumulator[op.index()]; }
    /// A sum whose terms are all added to the accumulator instead.
    [[nodiscard]] bool isIdle(OpId op) const { return m_idle[op.index()]; }
    [[nodiscard]] device::AddingKernel *kernel(OpId op) const { return dynamic_cast<device::AddingKernel *>(m_sized.kernels[op.index()].get()); }

private:
    [[nodiscard]] const graph::Graph &graph() const { return m_body.training.graph; }

    void find(const Body::Accumulator &accumulator)
    {
        const graph::Tensor &gradient = graph().tensor(accumulator.gradient);
        const auto same = [&](const Body::Accumulator &other) { return other.gradient == accumulator.gradient; };
        if (!gradient.producer.valid() || !graph().consumers(gradient.id).empty() || std::count_if(m_body.accumulators.begin(), m_body.accumulators.end(), same) != 1)
            return;
        const graph::Op &op = graph().op(gradient.producer);
        if (canAdd(gradient)) {
            m_accumulator[op.id.index()] = accumulator.offset;
            return;
        }
        const bool sum = op.type == "AddN" && op.id.index() >= m_body.training.forwardOps;
        const auto isTerm = [&](TensorId id) { return graph().consumers(id).size() == 1 && std::count(op.inputs.begin(), op.inputs.end(), id) == 1 && canAdd(graph().tensor(id)); };
        if (!sum || !std::all_of(op.inputs.begin(), op.inputs.end(), isTerm))
            return;
        m_idle[op.id.index()] = true;
        for (const TensorId id : op.inputs)
            m_accumulator[graph().tensor(id).producer.index()] = accumulator.offset;
    }

    [[nodiscard]] bool canAdd(const graph::Tensor &made) const
    {
        const bool backward = made.producer.valid() && made.producer.index() >= m_body.training.forwardOps;
        return backward && made.type == graph::DType::F32 && kernel(made.producer) != nullptr;
    }

    const Body &m_body;
    const SizedScripts &m_sized;
    std::vector<std::int64_t> m_accumulator;
    std::vector<bool> m_idle;
};

/// Writes the calls of operators [first, last) with the tensors where @p places says.
class ScriptWriter {
public:
    ScriptWriter(const Body &body, const std::vector<Placement> &places, const SizedScripts &sized) : m_body(body), m_places(places), m_sized(sized), m_straight(body, sized) {}

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
        call.loss = op.type == "SoftmaxCrossEntropyLoss";
        call.firstInput = here();
        if (const Status status = addPlaces(op, op.inputs); !status)
            return status;
        call.firstOutput = here();
        call.idle = m_straight.isIdle(op.id);
        if (m_straight.accumulator(op.id) >= 0) {
            call.adding = m_straight.kernel(op.id);
            m_script.places.push_back({static_cast<std::int32_t>(program::Area::Persistent), m_straight.accumulator(op.id), m_body.training.graph.tensor(op.outputs[0]).bytes(1).value()});
        } else if (const Status status = addPlaces(op, op.outputs); !status) {
            return status;
        }
        call.lastOutput = here();
        call.firstAccumulation = static_cast<std::int32_t>(m_script.accumulations.size());
        if (backward && call.adding == nullptr && !call.idle)
            accumulate(op.id);
        call.lastAccumulation = static_cast<std::int32_t>(m_script.accumulations.size());
        m_script.mostArguments = std::max(m_script.mostArguments, call.lastOutput - call.firstInput);
        m_script.calls.push_back(call);
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
            if (gradient.producer == producer)
                m_script.accumulations.push_back({placeOf(m_body, m_places, gradient.id, m_sized.samples), accumulator.offset, gradient.shape.elements(1)});
        }
    }

    const Body &m_body;
    const std::vector<Placement> &m_places;
    const SizedScripts &m_sized;
    StraightGradients m_straight;
    Script m_script;
};

} // namespace

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

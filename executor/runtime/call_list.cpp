// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/call_list.h"

#include "engine/compile/gradient_accumulation.h"
#include "engine/graph/operators/operators.h"

#include <algorithm>

namespace planloom::runtime {

namespace {

using program::Body;
using program::Placement;

std::vector<device::Argument> argumentsOf(const graph::Graph &graph, const std::vector<TensorId> &ids,
                                          std::int64_t samples)
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

/// Writes the calls of operators [first, last) with the tensors at @p places.
class CallListWriter {
public:
    CallListWriter(const Body &body, const std::vector<Placement> &places, const SizedPasses &sized)
        : m_body(body),
          m_places(places),
          m_sized(sized),
          m_accumulation(compile::accumulatedGradients(body.training))
    {
    }

    Result<CallList> write(std::size_t first, std::size_t last)
    {
        const bool backward = first >= m_body.training.forwardOps;
        m_list.firstOp = static_cast<std::int32_t>(first);
        if (backward)
            accumulate(OpId());
        m_list.accumulateFirst = static_cast<std::int32_t>(m_list.accumulations.size());
        for (std::size_t op = first; op < last; ++op) {
            if (const Status status = addCall(m_body.training.graph.ops()[op], backward); !status)
                return status.error();
        }
        return std::move(m_list);
    }

private:
    Status addCall(const graph::Op &op, bool backward)
    {
        Call call;
        call.kernel = m_sized.kernels[op.id.index()].get();
        call.scored = scoredFormOf(m_body.training.graph, op);
        call.ignored = op.integer("ignore_index", -100);
        call.firstInput = here();
        call.idle = m_accumulation.routes[op.id.index()] == compile::Route::Idle;
        if (const Status status = call.idle ? Status() : addPlaces(op, op.inputs); !status)
            return status;
        call.firstOutput = here();
        if (const Status status = addOutputs(op, call); !status)
            return status;
        call.lastOutput = here();
        call.firstAccumulation = static_cast<std::int32_t>(m_list.accumulations.size());
        if (backward)
            accumulate(op.id);
        call.lastAccumulation = static_cast<std::int32_t>(m_list.accumulations.size());
        m_list.mostArguments = std::max(m_list.mostArguments, call.lastOutput - call.firstInput);
        m_list.calls.push_back(call);
        return {};
    }

    Status addOutputs(const graph::Op &op, Call &call)
    {
        if (call.idle)
            return {};
        if (m_accumulation.routes[op.id.index()] == compile::Route::Made)
            return addPlaces(op, op.outputs);
        const TensorId gradient = m_accumulation.gradients[op.id.index()];
        const auto found = std::find_if(m_body.accumulators.begin(), m_body.accumulators.end(),
                                        [&](const Body::Accumulator &a) { return a.gradient == gradient; });
        if (found == m_body.accumulators.end()) {
            call.idle = true; // unread
            return {};
        }
        call.mode = device::Mode::Add;
        if (!call.kernel->has(device::DeviceKernel::kAdds))
            return failed("the kernel of " + op.type + " " + op.name + " cannot add to an accumulator");
        m_list.places.push_back({static_cast<std::int32_t>(program::Area::Persistent), found->offset,
                                 m_body.training.graph.tensor(op.outputs[0]).bytes(1).value()});
        return {};
    }

    [[nodiscard]] std::int32_t here() const { return static_cast<std::int32_t>(m_list.places.size()); }

    Status addPlaces(const graph::Op &op, const std::vector<TensorId> &ids)
    {
        for (const TensorId id : ids) {
            if (!id.valid()) {
                m_list.places.emplace_back();
                continue;
            }
            if (m_places[id.index()].offset < 0)
                return failed("operator " + op.name + " uses " + m_body.training.graph.tensor(id).name
                              + ", which has no place in this pass");
            m_list.places.push_back(placeOf(m_body, m_places, id, m_sized.samples));
        }
        return {};
    }

    /// Accumulations of the gradients that @p producer makes (none: of gradients that arrive).
    void accumulate(OpId producer)
    {
        const graph::TrainingGraph &training = m_body.training;
        for (const Body::Accumulator &accumulator : m_body.accumulators) {
            const graph::Tensor &gradient = training.graph.tensor(accumulator.gradient);
            if (gradient.producer == producer && !m_accumulation.unplaced[gradient.id.index()])
                m_list.accumulations.push_back({placeOf(m_body, m_places, gradient.id, m_sized.samples),
                                                accumulator.offset, gradient.shape.elements(1)});
        }
    }

    const Body &m_body;
    const std::vector<Placement> &m_places;
    const SizedPasses &m_sized;
    compile::AccumulatedGradients m_accumulation;
    CallList m_list;
};

/// A loss whose rows can be compared with labels.
struct ScoredLoss {
    const char *type;
    device::ScoredRows::Form form; ///< of input 0, in float32
};

const graph::OperatorTable<ScoredLoss> &scoredLosses()
{
    static const graph::OperatorTable<ScoredLoss> kTable = [] {
        graph::OperatorTable<ScoredLoss> made;
        made.add({"SoftmaxCrossEntropyLoss", device::ScoredRows::Form::Logits});
        made.add({"LossFromStatistics", device::ScoredRows::Form::Statistics});
        return made;
    }();
    return kTable;
}

} // namespace

std::optional<device::ScoredRows::Form> scoredFormOf(const graph::Graph &graph, const graph::Op &op)
{
    using Form = device::ScoredRows::Form;
    const ScoredLoss *loss = scoredLosses().find(op.type);
    if (loss == nullptr)
        return std::nullopt;
    const bool half = loss->form == Form::Logits && graph.tensor(op.inputs[0]).type == graph::DType::BF16;
    return half ? Form::HalfLogits : loss->form;
}

bool countsLoss(const Body &body)
{
    return std::all_of(body.coordinates.begin() + (body.coordinates.empty() ? 0 : 1), body.coordinates.end(),
                       [](int at) { return at == 0; });
}

TensorId lossGradientOf(const graph::TrainingGraph &training)
{
    if (!training.loss.valid() || training.lossGradient.valid())
        return training.lossGradient;
    return training.graph.find("grad/" + training.graph.tensor(training.loss).name);
}

Place placeOf(const Body &body, const std::vector<Placement> &places, TensorId id, std::int64_t samples)
{
    const Placement &placement = places[id.index()];
    return {static_cast<std::int32_t>(placement.area), placement.offset,
            body.training.graph.tensor(id).bytes(samples).value()};
}

namespace {

/// One kernel an operator for @p samples; none for communicating operators.
Result<std::vector<std::unique_ptr<device::DeviceKernel>>> makeKernels(device::Device &device, const Body &body,
                                                                       std::int64_t samples)
{
    std::vector<std::unique_ptr<device::DeviceKernel>> kernels;
    const graph::Graph &graph = body.training.graph;
    for (graph::Op op : graph.ops()) {
        kernels.emplace_back();
        if (op.traits().communicates())
            continue;
        if (op.has("mesh_dim"))
            op.attributes["mesh_index"] =
                static_cast<std::int64_t>(body.coordinates[static_cast<std::size_t>(op.integer("mesh_dim"))]);
        auto kernel =
            device.makeKernel(op, argumentsOf(graph, op.inputs, samples), argumentsOf(graph, op.outputs, samples));
        if (!kernel)
            return kernel.error();
        kernels.back() = std::move(*kernel);
    }
    return kernels;
}

} // namespace

Result<SizedPasses> makePasses(device::Device &device, const Body &body, std::int64_t samples)
{
    auto kernels = makeKernels(device, body, samples);
    if (!kernels)
        return kernels.error();
    SizedPasses sized;
    sized.samples = samples;
    sized.kernels = std::move(*kernels);
    for (const auto &kernel : sized.kernels) {
        if (kernel && kernel->has(device::DeviceKernel::kDraws))
            sized.drawing.push_back(kernel.get());
    }
    const std::size_t forwardOps = body.training.forwardOps;
    const std::size_t allOps = body.training.graph.ops().size();
    const struct {
        CallList &list;
        const std::vector<Placement> &places;
        std::size_t first, last;
    } passes[] = {
        {sized.forward, body.forwardPlaces, 0, forwardOps},
        {sized.recompute, body.backwardPlaces, 0, body.recompute ? forwardOps : 0},
        {sized.backward, body.backwardPlaces, forwardOps, allOps},
    };
    for (const auto &pass : passes) {
        Result<CallList> list = CallListWriter(body, pass.places, sized).write(pass.first, pass.last);
        if (!list)
            return list.error();
        pass.list = std::move(*list);
    }
    return sized;
}

} // namespace planloom::runtime

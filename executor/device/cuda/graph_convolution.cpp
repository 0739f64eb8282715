// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/graph_convolution.h"

#include <algorithm>
#include <cstdint>

namespace planloom::cuda {

namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kAlignment = 16;              ///< bytes: every engine's
constexpr std::array<std::int64_t, 3> kIds{1, 2, 3}; ///< of x, weight, y

GraphDataType dataType(Kind kind) { return kind == Kind::BF16 ? GraphDataType::BFloat16 : GraphDataType::Float; }

/// Axes of the windows that images have: two, or three.
std::size_t firstAxis(const Convolution &shape)
{
    const device::WindowAxis &depth = shape.windows.axes[0];
    return depth.size == 1 && depth.positions == 1 && depth.kernel == 1 ? 1 : 0;
}

/// A tensor (first, channels, spatial...), channel by channel or with channels last.
GraphPart tensorOf(const GraphApi &api, std::int64_t id, Kind kind, std::int64_t first, std::int64_t channels,
                   const Ints &spatial, bool channelsLast)
{
    Ints dims{first, channels};
    dims.insert(dims.end(), spatial.begin(), spatial.end());
    Ints strides(dims.size());
    std::int64_t stride = channelsLast ? channels : 1;
    for (std::size_t d = dims.size(); d-- > 2; stride *= dims[d])
        strides[d] = stride;
    strides[1] = channelsLast ? 1 : stride;
    strides[0] = channelsLast ? stride : stride * channels;
    GraphPart tensor(api, GraphObject::Tensor);
    tensor.set(GraphAttribute::TensorDataType, GraphType::DataType, dataType(kind));
    tensor.set(GraphAttribute::TensorDimensions, dims);
    tensor.set(GraphAttribute::TensorStrides, strides);
    tensor.set(GraphAttribute::TensorUniqueId, id);
    tensor.set(GraphAttribute::TensorByteAlignment, kAlignment);
    tensor.finalize();
    return tensor;
}

/// Padding behind the last window changes nothing: it is what is in front wherever that makes as many positions.
std::int64_t padAfter(const device::WindowAxis &axis)
{
    const std::int64_t room = axis.size + 2 * axis.pad - axis.dilation * (axis.kernel - 1) - 1;
    return room >= 0 && room / axis.stride + 1 == axis.positions ? axis.pad : axis.padEnd;
}

GraphPart slidingOf(const GraphApi &api, const Convolution &shape)
{
    Ints strides, dilations, before, after;
    for (std::size_t d = firstAxis(shape); d < 3; ++d) {
        const device::WindowAxis &axis = shape.windows.axes[d];
        strides.push_back(axis.stride);
        dilations.push_back(axis.dilation);
        before.push_back(axis.pad);
        after.push_back(padAfter(axis));
    }
    GraphPart windows(api, GraphObject::Convolution);
    windows.set(GraphAttribute::ConvolutionComputeType, GraphType::DataType, GraphDataType::Float);
    windows.set(GraphAttribute::ConvolutionMode, GraphType::ConvolutionMode, kCrossCorrelation);
    windows.set(GraphAttribute::ConvolutionSpatialDims, static_cast<std::int64_t>(strides.size()));
    windows.set(GraphAttribute::ConvolutionStrides, strides);
    windows.set(GraphAttribute::ConvolutionDilations, dilations);
    windows.set(GraphAttribute::ConvolutionPadsBefore, before);
    windows.set(GraphAttribute::ConvolutionPadsAfter, after);
    windows.finalize();
    return windows;
}

/// Names of an operation's attributes.
struct PassNames {
    GraphObject kind;
    GraphAttribute alpha, beta, windows, x, weight, y;
};
constexpr PassNames kPasses[] = {
    {GraphObject::ConvolutionForward, GraphAttribute::ForwardAlpha, GraphAttribute::ForwardBeta,
     GraphAttribute::ForwardConvolution, GraphAttribute::ForwardX, GraphAttribute::ForwardW, GraphAttribute::ForwardY},
    {GraphObject::ConvolutionBackwardData, GraphAttribute::BackwardDataAlpha, GraphAttribute::BackwardDataBeta,
     GraphAttribute::BackwardDataConvolution, GraphAttribute::BackwardDataDX, GraphAttribute::BackwardDataW,
     GraphAttribute::BackwardDataDY},
    {GraphObject::ConvolutionBackwardFilter, GraphAttribute::BackwardFilterAlpha, GraphAttribute::BackwardFilterBeta,
     GraphAttribute::BackwardFilterConvolution, GraphAttribute::BackwardFilterX, GraphAttribute::BackwardFilterDW,
     GraphAttribute::BackwardFilterDY},
};

} // namespace

Result<GraphConvolution> GraphConvolution::make(CudaDevice &device, const Convolution &shape, Pass pass,
                                                const Kinds &kinds)
{
    if (device.graphs() == nullptr)
        return unsupported("cuDNN is not there");
    if (shape.x.channelsLast != shape.y.channelsLast)
        return unsupported("images do not lie alike");
    // On an H200 cuDNN 9 summed over the positions that padding in front alone would make.
    const auto &axes = shape.windows.axes;
    if (pass == Pass::WeightGradient
        && std::any_of(std::begin(axes), std::end(axes), [](const auto &axis) { return padAfter(axis) != axis.pad; }))
        return unsupported("cuDNN is not right about padding that differs between both ends");
    const GraphApi &api = *device.provider().graphs;
    const bool last = shape.x.channelsLast != 0;
    Ints from, to, taps;
    for (std::size_t d = firstAxis(shape); d < 3; ++d) {
        from.push_back(shape.windows.axes[d].size);
        to.push_back(shape.windows.axes[d].positions);
        taps.push_back(shape.windows.axes[d].kernel);
    }
    const PassNames &names = kPasses[static_cast<std::size_t>(pass)];
    GraphConvolution made(device);
    std::vector<GraphPart> &parts = made.m_kept;
    parts.push_back(tensorOf(api, kIds[0], kinds.x, shape.x.samples, shape.x.channels, from, last));
    parts.push_back(
        tensorOf(api, kIds[1], kinds.weight, shape.y.channels, shape.x.channels / shape.groups, taps, last));
    parts.push_back(tensorOf(api, kIds[2], kinds.y, shape.y.samples, shape.y.channels, to, last));
    parts.push_back(slidingOf(api, shape));
    GraphPart operation(api, names.kind);
    operation.set(names.windows, parts[3]);
    operation.set(names.x, parts[0]);
    operation.set(names.weight, parts[1]);
    operation.set(names.y, parts[2]);
    operation.set(names.alpha, 1.0F);
    operation.set(names.beta, 0.0F);
    operation.finalize();
    GraphPart graph(api, GraphObject::OperationGraph);
    GraphHandle handle = device.graphs();
    graph.set(GraphAttribute::HandleOfGraph, GraphType::Handle, 1, &handle);
    graph.set(GraphAttribute::GraphOperations, operation);
    parts.push_back(std::move(operation));
    const bool strict = kinds.x == Kind::F32;
    const bool chosen = graph.finalize()
        && (made.choose(graph, GraphHeuristic::A, strict) || made.choose(graph, GraphHeuristic::Fallback, strict));
    parts.push_back(std::move(graph));
    if (!chosen)
        return unsupported("cuDNN has no engine for this convolution");
    return made;
}

bool GraphConvolution::choose(const GraphPart &graph, GraphHeuristic mode, bool strict)
{
    constexpr std::size_t kMost = 24; // of the engines that are asked for
    const GraphApi &api = *m_device->provider().graphs;
    GraphPart heuristic(api, GraphObject::EngineHeuristic);
    heuristic.set(GraphAttribute::HeuristicGraph, graph);
    heuristic.set(GraphAttribute::HeuristicMode, GraphType::HeuristicMode, mode);
    if (!heuristic.finalize())
        return false;
    std::vector<GraphPart> configs;
    std::vector<GraphDescriptor> found;
    for (std::size_t i = 0; i < kMost; ++i) {
        configs.emplace_back(api, GraphObject::EngineConfig);
        found.push_back(configs.back().get());
    }
    std::int64_t count = 0;
    if (api.get(heuristic.get(), GraphAttribute::HeuristicResults, GraphType::Descriptor,
                static_cast<std::int64_t>(kMost), &count, found.data())
        != 0)
        return false;
    for (std::size_t i = 0; i < std::min(kMost, static_cast<std::size_t>(count)); ++i) {
        if (!fits(configs[i].get(), strict))
            continue;
        GraphHandle handle = m_device->graphs();
        auto plan = std::make_unique<GraphPart>(api, GraphObject::ExecutionPlan);
        plan->set(GraphAttribute::PlanHandle, GraphType::Handle, 1, &handle);
        plan->set(GraphAttribute::PlanConfig, configs[i]);
        std::int64_t bytes = 0;
        std::int64_t one = 0;
        if (!plan->finalize()
            || api.get(plan->get(), GraphAttribute::PlanWorkspaceBytes, GraphType::Int64, 1, &one, &bytes) != 0
            || bytes > CudaDevice::kWorkspaceBytes)
            continue;
        m_kept.push_back(std::move(configs[i]));
        m_plan = std::move(plan);
        return true;
    }
    return false;
}

bool GraphConvolution::fits(GraphDescriptor config, bool strict) const
{
    const GraphApi &api = *m_device->provider().graphs;
    const GraphPart engine(api, GraphObject::Engine);
    GraphDescriptor target = engine.get();
    std::int64_t count = 0;
    std::array<NumericalNote, kMostNumericalNotes> notes{};
    if (api.get(config, GraphAttribute::ConfigEngine, GraphType::Descriptor, 1, &count, &target) != 0
        || api.get(target, GraphAttribute::EngineNumericalNote, GraphType::NumericalNote, kMostNumericalNotes, &count,
                   notes.data())
            != 0)
        return false;
    const auto end = notes.begin() + std::min<std::int64_t>(count, kMostNumericalNotes);
    const auto has = [&](NumericalNote note) { return std::find(notes.begin(), end, note) != end; };
    return !has(NumericalNote::Nondeterministic)
        && !(strict && (has(NumericalNote::TensorCore) || has(NumericalNote::DownConverts)));
}

bool GraphConvolution::aligned(const void *data) { return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0; }

const GraphPart &GraphConvolution::packOf(std::array<const void *, 3> addresses, void *workspace)
{
    constexpr std::size_t kMost = 16;
    for (const Pack &pack : m_packs)
        if (pack.addresses == addresses && pack.workspace == workspace)
            return pack.part;
    GraphPart part(*m_device->provider().graphs, GraphObject::VariantPack);
    part.set(GraphAttribute::PackUniqueIds, GraphType::Int64, 3, kIds.data());
    part.set(GraphAttribute::PackPointers, GraphType::VoidPointer, 3, addresses.data());
    part.set(GraphAttribute::PackWorkspace, GraphType::VoidPointer, 1, &workspace);
    m_device->checkOther(part.finalize() ? 0 : 1, "the arguments of a convolution");
    if (m_packs.size() == kMost)
        m_packs.clear();
    m_packs.push_back({addresses, workspace, std::move(part)});
    return m_packs.back().part;
}

void GraphConvolution::run(CudaQueue &queue, const void *x, const void *weight, const void *y)
{
    const GraphApi &api = *m_device->provider().graphs;
    const GraphPart &pack = packOf({x, weight, y}, m_device->workspace(queue));
    m_device->checkOther(api.setStream(m_device->graphs(), queue.stream()), "cuDNN's stream");
    m_device->checkOther(api.execute(m_device->graphs(), m_plan->get(), pack.get()), "a convolution");
}

} // namespace planloom::cuda

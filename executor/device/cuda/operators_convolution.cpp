// SPDX-License-Identifier: Apache-2.0
// Convolution and its gradients: by cuDNN, or, where it is missing, refuses or is wrong, by our own kernels.
#include "executor/device/cuda/graph_convolution.h"
#include "executor/device/cuda/image_support.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace planloom::cuda {

std::optional<Convolution> convolutionOf(const Request &request, const device::Argument &x,
                                         const device::Argument &weight, const device::Argument &y)
{
    const auto from = imagesOf(x);
    const auto to = imagesOf(y);
    const Dims &w = weight.dims;
    const std::int64_t groups = request.op.integer("group", 1);
    if (!from || !to || w.size() < 3 || groups < 1 || areLastChannels(weight) || from->samples != to->samples
        || from->channels != w[1] * groups || to->channels != w[0] || w[0] % groups != 0 || to->elements() == 0)
        return std::nullopt;
    const auto windows = windowsOf(request.op, x.dims, y.dims, Dims(w.begin() + 2, w.end()));
    if (!windows)
        return std::nullopt;
    return Convolution{*from, *to, *windows, groups};
}

namespace {

using Pass = GraphConvolution::Pass;

/// A convolution by cuDNN, which wants all tensors alike: others are reordered on the way.
class ConvolutionByGraph {
public:
    /// Without a graph, run() is always refused. Errors: those of the device.
    static Result<std::shared_ptr<ConvolutionByGraph>> make(const Request &request, const Convolution &shape, Pass pass,
                                                            const GraphConvolution::Kinds &kinds)
    {
        auto made = std::make_shared<ConvolutionByGraph>();
        // A gradient in float32 of images in bfloat16 is not asked for: on an H200, cuDNN 9 had an engine for that and
        // its sums were wrong.
        if (request.device.graphs() == nullptr || kinds.x != kinds.y || kinds.x != kinds.weight)
            return made;
        Convolution alike = shape;
        alike.x.channelsLast = alike.y.channelsLast = std::max(shape.x.channelsLast, shape.y.channelsLast);
        auto graph = GraphConvolution::make(request.device, alike, pass, kinds);
        if (!graph && graph.error().code != ErrorCode::Unsupported)
            return graph.error();
        if (!graph)
            return made;
        made->m_graph = std::make_unique<GraphConvolution>(std::move(*graph));
        const Images weights{shape.y.channels, shape.inputs(), shape.windows.taps(), 0};
        Images weightsAlike = weights;
        weightsAlike.channelsLast = alike.x.channelsLast;
        made->m_written = pass == Pass::Forward ? 2 : (pass == Pass::WeightGradient ? 1 : 0);
        made->m_kind = kinds.x;
        made->m_sides = {Side{shape.x, alike.x, {}}, Side{weights, weightsAlike, {}}, Side{shape.y, alike.y, {}}};
        for (Side &side : made->m_sides) {
            if (!side.differs())
                continue;
            auto scratch = scratchOf<float>(request, side.own.elements());
            if (!scratch)
                return scratch.error();
            side.scratch = *scratch;
        }
        return made;
    }

    /// False: nothing was done; our own kernel is to compute.
    bool run(CudaQueue &queue, const void *x, const void *weight, const void *y)
    {
        if (m_graph == nullptr)
            return false;
        const std::array<const void *, 3> own{x, weight, y};
        if (!std::all_of(own.begin(), own.end(), GraphConvolution::aligned))
            return false;
        std::array<const void *, 3> used = own;
        for (std::size_t i = 0; i < used.size(); ++i) {
            const Side &side = m_sides[i];
            if (side.scratch == nullptr)
                continue;
            used[i] = side.scratch->data();
            if (i != m_written)
                side.move(queue, m_kind, own[i], side.scratch->data(), true);
        }
        m_graph->run(queue, used[0], used[1], used[2]);
        if (const Side &side = m_sides[m_written]; side.scratch != nullptr)
            side.move(queue, m_kind, side.scratch->data(), const_cast<void *>(own[m_written]), false);
        return true;
    }

private:
    /// A tensor as the operator has it, and as cuDNN does.
    struct Side {
        Images own, graph;
        std::shared_ptr<device::Memory> scratch;

        [[nodiscard]] bool differs() const
        {
            return own.channelsLast != graph.channelsLast && own.channels > 1 && own.pixels > 1;
        }
        void move(CudaQueue &queue, Kind kind, const void *from, void *to, bool toGraph) const
        {
            Reorder kernel;
            kernel.x = {from, kind};
            kernel.y = {to, kind, false};
            kernel.from = toGraph ? own : graph;
            kernel.to = toGraph ? graph : own;
            queue.items(kernel, kernel.to.elements());
        }
    };
    std::unique_ptr<GraphConvolution> m_graph;
    std::array<Side, 3> m_sides; ///< x, weight, y
    Kind m_kind = Kind::F32;     ///< of all
    std::size_t m_written = 2;
};

/// y + bias, of each channel.
Binary<function::Add> biasAdded(const Request &request, const Images &images)
{
    Binary<function::Add> add;
    add.x0 = {nullptr, kindOf(request.outputs[0])};
    add.x1 = from(request, 2);
    add.y = to(request, 0);
    add.n = images.elements();
    const Dims dims{images.samples, images.channelsLast != 0 ? images.pixels : images.channels,
                    images.channelsLast != 0 ? images.channels : images.pixels};
    const Dims channel = images.channelsLast != 0 ? Dims{0, 0, 1} : Dims{0, 1, 0};
    add.loops = loopsOver<2>(dims, {rowMajor(dims), channel});
    return add;
}

Made makeConv(const Request &request)
{
    const auto shape = request.floatInputs(2) && request.floatOutputs(1)
        ? convolutionOf(request, request.inputs[0], request.inputs[1], request.outputs[0])
        : std::nullopt;
    if (!shape || (request.hasInput(2) && (!isFloat(request.inputs[2]) || request.inSize(2) != shape->y.channels)))
        return onlyOnHost(request);
    auto graph =
        ConvolutionByGraph::make(request, *shape, Pass::Forward,
                                 {kindOf(request.inputs[0]), kindOf(request.inputs[1]), kindOf(request.outputs[0])});
    if (!graph)
        return graph.error();
    ConvolutionForward kernel;
    kernel.shape = *shape;
    kernel.x = from(request, 0);
    kernel.weight = from(request, 1);
    kernel.bias = from(request, 2);
    kernel.y = to(request, 0);
    Binary<function::Add> bias = biasAdded(request, shape->y);
    return makeFunction([kernel, bias, graph = *graph](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        const void *added = given(in, 2);
        if (graph->run(queue, in[0], in[1], out[0])) {
            bias.x0.data = bias.y.data = out[0];
            bias.x1.data = added;
            if (added != nullptr)
                queue.items(bias, bias.items());
            return;
        }
        kernel.x.data = in[0];
        kernel.weight.data = in[1];
        kernel.bias.data = added;
        kernel.y.data = out[0];
        queue.items(kernel, kernel.shape.y.elements());
    });
}

/// dY, W -> dX; ConvTranspose is the same.
Made makeConvInput(const Request &request)
{
    const auto shape = request.floatInputs(2) && request.inputs.size() == 2 && request.floatOutputs(1)
        ? convolutionOf(request, request.outputs[0], request.inputs[1], request.inputs[0])
        : std::nullopt;
    if (!shape)
        return onlyOnHost(request);
    auto graph =
        ConvolutionByGraph::make(request, *shape, Pass::InputGradient,
                                 {kindOf(request.outputs[0]), kindOf(request.inputs[1]), kindOf(request.inputs[0])});
    if (!graph)
        return graph.error();
    ConvolutionInputGradient kernel;
    kernel.shape = *shape;
    kernel.dy = from(request, 0);
    kernel.weight = from(request, 1);
    kernel.dx = to(request, 0);
    return makeFunction([kernel, graph = *graph](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        if (graph->run(queue, out[0], in[1], in[0]))
            return;
        kernel.dy.data = in[0];
        kernel.weight.data = in[1];
        kernel.dx.data = out[0];
        queue.items(kernel, kernel.shape.x.elements());
    });
}

/// The sum of dY over samples and pixels: the gradient of a bias.
Reduce channelSums(const Request &request, const Images &images, std::size_t dy, std::size_t output)
{
    Reduce sums;
    sums.x = from(request, dy);
    sums.y = to(request, output);
    sums.outputs = images.channels;
    sums.each = images.samples * images.pixels;
    sums.outer = loopsOver<1>({images.channels}, {Dims{images.at(0, 1, 0)}});
    sums.inner = loopsOver<1>({images.samples, images.pixels}, {Dims{images.at(1, 0, 0), images.at(0, 0, 1)}});
    sums.lanes = images.channelsLast != 0 ? lanesOf(request) : 1;
    return sums;
}

/// On tensor cores, where tensors lie for it; nullopt: they do not.
std::optional<Made> makeWeightTiles(const Request &request, const Convolution &shape)
{
    constexpr std::int64_t kBlocks = 528; // four for each multiprocessor of an H100
    constexpr std::int64_t kEight = WeightGradientTiles::kEight;
    const device::WindowAxis &depth = shape.windows.axes[0];
    const bool narrow = shape.x.channels < kEight; // a model's first convolution
    const bool fits = request.inputs[0].type == graph::DType::BF16 && request.inputs[1].type == graph::DType::BF16
        && depth.size == 1 && depth.kernel == 1 && depth.pad == 0 && depth.padEnd == 0 && shape.groups == 1
        && shape.y.channelsLast != 0 && shape.y.channels % kEight == 0
        && (narrow || (shape.x.channelsLast != 0 && shape.x.channels % kEight == 0))
        && shape.x.elements() < std::numeric_limits<std::int32_t>::max();
    if (!fits)
        return std::nullopt;
    WeightGradientTiles tiles;
    tiles.shape = shape;
    PadChannels pad;
    std::shared_ptr<device::Memory> padded;
    if (narrow) {
        tiles.shape.x.channels = kEight;
        tiles.shape.x.channelsLast = 1;
        auto memory = scratchOf<std::uint16_t>(request, tiles.shape.x.elements());
        if (!memory)
            return Made(memory.error());
        padded = *memory;
        pad = {shape.x, from(request, 1), at<std::uint16_t>(padded)};
    }
    WeightGradientSums sums;
    sums.dw = to(request, 0);
    sums.outputs = shape.y.channels;
    sums.inputs = shape.x.channels;
    sums.padded = tiles.shape.x.channels;
    sums.taps = shape.windows.taps();
    const std::int64_t bytes = sums.outputs * sums.padded * sums.taps * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t most = std::min(CudaDevice::kWorkspaceBytes / bytes, (tiles.steps() + 3) / 4);
    if (most < 1)
        return std::nullopt;
    tiles.splits = sums.splits = std::clamp<std::int64_t>((kBlocks + tiles.tiles() - 1) / tiles.tiles(), 1, most);
    Reduce bias = channelSums(request, shape.y, 0, 1);
    return makeFunction([tiles, sums, bias, pad, padded](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        tiles.dy = static_cast<const std::uint16_t *>(in[0]);
        tiles.x = static_cast<const std::uint16_t *>(in[1]);
        if (padded != nullptr) {
            pad.x.data = in[1];
            queue.items(pad, pad.images.samples * pad.images.pixels);
            tiles.x = pad.y;
        }
        tiles.parts = reinterpret_cast<float *>(queue.device().workspace(queue));
        sums.parts = tiles.parts;
        sums.dw.data = out[0];
        queue.blocks(tiles, tiles.splits * tiles.tiles(), WeightGradientTiles::kThreads, WeightGradientTiles::kExtra);
        queue.items(sums, sums.outputs * sums.padded * sums.taps);
        bias.x.data = in[0];
        bias.y.data = given(out, 1);
        if (bias.y.data != nullptr)
            queue.rows(bias, bias.blocks());
    });
}

Made makeConvWeight(const Request &request)
{
    const auto shape = request.floatInputs(2) && request.inputs.size() == 2 && request.floatOutputs(1)
        ? convolutionOf(request, request.inputs[1], request.outputs[0], request.inputs[0])
        : std::nullopt;
    if (!shape || (request.hasOutput(1) && (!isFloat(request.outputs[1]) || request.outSize(1) != shape->y.channels)))
        return onlyOnHost(request);
    if (auto tiles = makeWeightTiles(request, *shape))
        return std::move(*tiles);
    auto graph =
        ConvolutionByGraph::make(request, *shape, Pass::WeightGradient,
                                 {kindOf(request.inputs[1]), kindOf(request.outputs[0]), kindOf(request.inputs[0])});
    if (!graph)
        return graph.error();
    ConvolutionWeightGradient kernel;
    kernel.shape = *shape;
    kernel.dy = from(request, 0);
    kernel.x = from(request, 1);
    kernel.dw = to(request, 0);
    Reduce bias = channelSums(request, shape->y, 0, 1);
    return makeFunction(
        [kernel, bias, graph = *graph, n = request.outSize(0)](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
            if (!graph->run(queue, in[1], out[0], in[0])) {
                kernel.dy.data = in[0];
                kernel.x.data = in[1];
                kernel.dw.data = out[0];
                queue.rows(kernel, n);
            }
            bias.x.data = in[0];
            bias.y.data = given(out, 1);
            if (bias.y.data != nullptr)
                queue.rows(bias, bias.blocks());
        });
}

constexpr OperatorEntry kConvolutions[] = {
    {"Conv", makeConv, LastChannels::Yes},
    {"ConvGradInput", makeConvInput, LastChannels::Yes},
    {"ConvGradWeight", makeConvWeight, LastChannels::Yes},
    {"ConvTranspose", makeConvInput, LastChannels::Yes},
};

} // namespace

std::span<const OperatorEntry> convolutionOperators() { return kConvolutions; }

} // namespace planloom::cuda

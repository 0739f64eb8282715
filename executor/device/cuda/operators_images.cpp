// SPDX-License-Identifier: Apache-2.0
// Images: pooling, batch normalisation.
#include "executor/device/cuda/image_support.h"

#include <algorithm>
#include <array>

namespace planloom::cuda {

std::optional<Images> imagesOf(const device::Argument &argument)
{
    if (!argument.present || argument.dims.size() < 2)
        return std::nullopt;
    const Dims &dims = argument.dims;
    return Images{dims[0], dims[1], productOf(dims, 2, dims.size()), areLastChannels(argument) ? 1 : 0};
}

std::optional<Windows> windowsOf(const graph::Op &op, const Dims &x, const Dims &y, const Dims &kernel)
{
    const std::size_t spatial = kernel.size();
    if (spatial < 1 || spatial > 3 || x.size() != spatial + 2 || y.size() != x.size())
        return std::nullopt;
    const Dims strides = op.integers("strides", Dims(spatial, 1));
    const Dims dilations = op.integers("dilations", Dims(spatial, 1));
    const Dims pads = op.integers("pads", Dims(2 * spatial, 0));
    if (strides.size() != spatial || dilations.size() != spatial || pads.size() != 2 * spatial)
        return std::nullopt;
    const bool ceiling = op.integer("ceil_mode") != 0;
    Windows windows;
    for (std::size_t d = 0; d < spatial; ++d) {
        const device::WindowAxis axis{x[d + 2], y[d + 2],          kernel[d],   strides[d],
                                      pads[d],  pads[spatial + d], dilations[d]};
        if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 || axis.pad < 0 || axis.padEnd < 0)
            return std::nullopt;
        const std::int64_t room = axis.size + axis.pad + axis.padEnd - axis.dilation * (axis.kernel - 1) - 1;
        const std::int64_t positions = room < 0 ? 0 : room / axis.stride + 1;
        if (axis.positions != positions && !(ceiling && axis.positions == positions + 1))
            return std::nullopt;
        windows.axes[3 - spatial + d] = axis;
    }
    return windows;
}

namespace {

// --- Pooling --------------------------------------------------------------------------------------------------------

std::optional<Pooling> poolingOf(const Request &request, const device::Argument &x, const device::Argument &y,
                                 bool largest)
{
    const auto from = imagesOf(x);
    const auto to = imagesOf(y);
    const auto windows =
        from && to ? windowsOf(request.op, x.dims, y.dims, request.op.integers("kernel_shape")) : std::nullopt;
    if (!windows || from->samples != to->samples || from->channels != to->channels)
        return std::nullopt;
    return Pooling{*from, *to, *windows, largest ? 1 : 0, request.op.integer("count_include_pad") != 0 ? 1 : 0};
}

/// Whether eight channels a thread can be pooled.
bool inEights(const Pooling &pool)
{
    return pool.largest != 0 && pool.x.channelsLast != 0 && pool.y.channelsLast != 0
        && pool.x.channels % kChannels == 0;
}

template <bool largest>
Made makePool(const Request &request)
{
    const auto pool = request.floatInputs(1) && request.floatOutputs(1)
        ? poolingOf(request, request.inputs[0], request.outputs[0], largest)
        : std::nullopt;
    if (!pool
        || (request.hasOutput(1)
            && (!isInteger(request.outputs[1]) || request.out(1) != request.out() || pool->x.channelsLast != 0)))
        return onlyOnHost(request);
    PoolForward kernel;
    kernel.pool = *pool;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.columnMajor = request.op.integer("storage_order") != 0 ? 1 : 0;
    return makeFunction([kernel, n = request.outSize(0)](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        kernel.indices = static_cast<std::int64_t *>(given(out, 1));
        if (inEights(kernel.pool))
            queue.items(ChannelMaxPool{kernel.pool, kernel.x, kernel.y}, n / kChannels);
        else
            queue.items(kernel, n);
    });
}

template <bool largest>
Made makePoolGrad(const Request &request)
{
    const bool fits = request.floatInputs(largest ? 2 : 1) && request.floatOutputs(1);
    const auto pool = fits ? poolingOf(request, request.outputs[0], request.inputs[0], largest) : std::nullopt;
    if (!pool || (largest && (request.in(1) != request.out() || request.inputs[1].layout != request.outputs[0].layout)))
        return onlyOnHost(request);
    PoolGradient kernel;
    kernel.pool = *pool;
    kernel.dy = from(request, 0);
    kernel.x = largest ? from(request, 1) : From();
    kernel.dx = to(request, 0);
    From y = largest && request.hasInput(2) && isFloat(request.inputs[2]) && request.in(2) == request.in(0)
            && request.inputs[2].layout == request.inputs[0].layout
            && kindOf(request.inputs[2]) == kindOf(request.inputs[1])
        ? from(request, 2)
        : From();
    return makeFunction([kernel, y, n = request.outSize(0)](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.dy.data = in[0];
        kernel.x.data = kernel.pool.largest != 0 ? in[1] : nullptr;
        kernel.dx.data = out[0];
        y.data = inEights(kernel.pool) ? given(in, 2) : nullptr;
        if (y.data != nullptr)
            queue.items(ChannelMaxPoolGradient{kernel.pool, kernel.dy, kernel.x, y, kernel.dx}, n / kChannels);
        else
            queue.items(kernel, n);
    });
}

/// Loops over the planes of images, and over the pixels of one.
struct PlaneLoops {
    std::int64_t planes = 0, pixels = 0;
    Loops<1> outer, inner;
};

/// @p x are the images of which each plane makes one element of @p y.
std::optional<PlaneLoops> planesOf(const device::Argument &x, const device::Argument &y)
{
    const auto images = imagesOf(x);
    if (!images || x.dims.size() < 3 || !y.present || productOf(y.dims) != images->samples * images->channels
        || images->pixels == 0)
        return std::nullopt;
    PlaneLoops made;
    made.planes = images->samples * images->channels;
    made.pixels = images->pixels;
    made.outer = loopsOver<1>({images->samples, images->channels}, {Dims{images->at(1, 0, 0), images->at(0, 1, 0)}});
    made.inner = loopsOver<1>({images->pixels}, {Dims{images->at(0, 0, 1)}});
    return made;
}

template <bool largest>
Made makeGlobalPool(const Request &request)
{
    const auto planes = planesOf(request.inputs[0], request.outputs[0]);
    if (!planes || !request.floatInputs(1) || !request.floatOutputs(1))
        return onlyOnHost(request);
    Reduce kernel;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.how = largest ? Reduce::How::Largest : Reduce::How::Sum;
    kernel.divisor = largest ? 1.0F : static_cast<float>(planes->pixels);
    kernel.outputs = planes->planes;
    kernel.each = planes->pixels;
    kernel.outer = planes->outer;
    kernel.inner = planes->inner;
    if (!largest && areLastChannels(request.inputs[0]))
        kernel.lanes = lanesOf(request);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        queue.rows(kernel, kernel.blocks());
    });
}

Made makeGlobalAverageGrad(const Request &request)
{
    const auto planes = planesOf(request.outputs[0], request.inputs[0]);
    const auto images = imagesOf(request.outputs[0]);
    if (!planes || !request.floatInputs(1) || !request.floatOutputs(1))
        return onlyOnHost(request);
    SpreadMean kernel;
    kernel.dy = from(request, 0);
    kernel.dx = to(request, 0);
    kernel.share = 1.0F / static_cast<float>(planes->pixels);
    kernel.n = request.outSize(0);
    kernel.loops = images->channelsLast != 0
        ? loopsOver<1>({images->samples, images->pixels, images->channels}, {Dims{images->channels, 0, 1}})
        : loopsOver<1>({planes->planes, planes->pixels}, {Dims{1, 0}});
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.dy.data = in[0];
        kernel.dx.data = out[0];
        queue.items(kernel, kernel.n);
    });
}

/// The first maximum of each plane takes its gradient.
Made makeGlobalMaxGrad(const Request &request)
{
    const auto planes = planesOf(request.outputs[0], request.inputs[0]);
    if (!planes || !request.floatInputs(3) || !request.floatOutputs(1) || request.in(1) != request.out()
        || request.inSize(2) != planes->planes)
        return onlyOnHost(request);
    ReduceGradient kernel;
    kernel.dy = from(request, 0);
    kernel.x = from(request, 1);
    kernel.y = from(request, 2);
    kernel.dx = to(request, 0);
    kernel.outputs = planes->planes;
    kernel.each = planes->pixels;
    kernel.outer = planes->outer;
    kernel.inner = planes->inner;
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.dy.data = in[0];
        kernel.x.data = in[1];
        kernel.y.data = in[2];
        kernel.dx.data = out[0];
        queue.rows(kernel, kernel.outputs);
    });
}

// --- Batch normalisation --------------------------------------------------------------------------------------------

/// All arguments in @p images are like the first output, those in @p perChannel have an element a channel.
std::optional<ChannelParts> channelParts(const Request &request, std::span<const std::size_t> images,
                                         std::span<const std::size_t> perChannel)
{
    const device::Argument &like = request.outputs[0];
    const auto shape = imagesOf(like);
    if (!shape || !isFloat(like) || shape->elements() == 0)
        return std::nullopt;
    for (const std::size_t i : images)
        if (request.hasInput(i)
            && (!isFloat(request.inputs[i]) || request.in(i) != like.dims || request.inputs[i].layout != like.layout))
            return std::nullopt;
    for (const std::size_t i : perChannel)
        if (request.hasInput(i) && (!isFloat(request.inputs[i]) || request.inSize(i) != shape->channels))
            return std::nullopt;
    for (std::size_t i = 1; i < std::min<std::size_t>(3, request.outputs.size()); ++i)
        if (request.hasOutput(i) && (!isFloat(request.outputs[i]) || request.outSize(i) != shape->channels))
            return std::nullopt;
    ChannelParts parts;
    parts.images = *shape;
    parts.lanes = shape->channelsLast != 0 ? lanesOf(request) : 1;
    parts.parts = partsOf(request, shape->channels, shape->samples * shape->pixels, parts.lanes);
    return parts;
}

/// How eight channels a thread walk the same images; nullopt: they do not lie so.
std::optional<ChannelWalk> channelWalk(const Request &request, ChannelParts &parts)
{
    constexpr std::int64_t kMostLanes = 32; // that read side by side
    constexpr std::int64_t kFewPixels = 8;  // of a thread
    constexpr std::int64_t kBlocks = 1056;  // eight for each multiprocessor of an H100
    const Images &images = parts.images;
    if (images.channelsLast == 0 || images.channels % kChannels != 0)
        return std::nullopt;
    const std::int64_t threads = request.device.provider().rowThreads;
    const std::int64_t eights = images.channels / kChannels;
    ChannelWalk walk;
    walk.pixels = images.samples * images.pixels;
    walk.channels = images.channels;
    while (std::int64_t{2} << walk.laneBits <= std::min(kMostLanes, threads)
           && std::int64_t{1} << walk.laneBits < eights)
        ++walk.laneBits;
    const std::int64_t groups = walk.blocks();
    const std::int64_t depth = threads >> walk.laneBits;
    walk.parts =
        std::clamp<std::int64_t>(walk.pixels / (depth * kFewPixels), 1, std::max<std::int64_t>(1, kBlocks / groups));
    parts.parts = walk.parts; // as many sums
    return walk;
}

/// Statistics of the slice at hand in training; where nothing is trained, and with constant statistics, the running
/// ones.
class BatchNormKernel final : public CudaKernel {
public:
    BatchNormKernel(const BatchNormSums &sums, const BatchNormStatistics &statistics, const BatchNorm &apply,
                    const std::optional<ChannelWalk> &walk, bool training,
                    std::vector<std::shared_ptr<device::Memory>> kept)
        : CudaKernel(training ? std::uint32_t{kInfers} : 0U),
          m_sums(sums),
          m_statistics(statistics),
          m_apply(apply),
          m_walk(walk),
          m_training(training),
          m_kept(std::move(kept))
    {
    }
    void run(CudaQueue &queue, device::Mode mode, Inputs in, Outputs out) override
    {
        const bool training = m_training && mode != device::Mode::Infer;
        m_sums.x.data = in[0];
        if (training && m_walk)
            queue.rows(ChannelNormSums{*m_walk, m_sums.x, m_sums.sums}, m_walk->blocks(), 0, 2);
        else if (training)
            queue.rows(m_sums, m_sums.parts.blocks(), 0, 2);
        m_statistics.x = m_sums.x;
        m_statistics.sums = training ? m_sums.sums : nullptr;
        m_statistics.scale.data = in[1];
        m_statistics.bias.data = in[2];
        m_statistics.runningMean = static_cast<float *>(const_cast<void *>(in[3]));     // states are written where they
        m_statistics.runningVariance = static_cast<float *>(const_cast<void *>(in[4])); // are read
        m_statistics.mean.data = given(out, 1);
        m_statistics.inverse.data = given(out, 2);
        queue.rows(m_statistics, m_statistics.parts.images.channels, 0, 2);
        m_apply.x = m_sums.x;
        m_apply.residual.data = given(in, 5);
        m_apply.y.data = out[0];
        if (m_walk)
            queue.rows(ChannelNorm{*m_walk, m_apply.x, m_apply.residual, m_apply.y, m_apply.lines, m_apply.relu},
                       m_walk->blocks());
        else
            queue.items(m_apply, m_apply.images.elements());
    }

private:
    BatchNormSums m_sums;
    BatchNormStatistics m_statistics;
    BatchNorm m_apply;
    std::optional<ChannelWalk> m_walk; ///< where eight channels a thread can be walked
    bool m_training;
    std::vector<std::shared_ptr<device::Memory>> m_kept;
};

Made makeBatchNorm(const Request &request)
{
    constexpr std::array<std::size_t, 2> kImages{0, 5};
    constexpr std::array<std::size_t, 4> kPerChannel{1, 2, 3, 4};
    auto parts = request.floatInputs(5) ? channelParts(request, kImages, kPerChannel) : std::nullopt;
    if (!parts || !isFull(request.inputs[3]) || !isFull(request.inputs[4]))
        return onlyOnHost(request);
    const auto walk = channelWalk(request, *parts);
    auto sums = scratchOf<Two<double>>(request, parts->parts * parts->images.channels);
    auto lines = scratchOf<ChannelLine>(request, parts->images.channels);
    if (!sums || !lines)
        return !sums ? sums.error() : lines.error();
    BatchNormSums adding;
    adding.parts = *parts;
    adding.x = from(request, 0);
    adding.sums = at<Two<double>>(*sums);
    BatchNormStatistics statistics;
    statistics.parts = *parts;
    statistics.scale = from(request, 1);
    statistics.bias = from(request, 2);
    statistics.mean = to(request, 1);
    statistics.inverse = to(request, 2);
    statistics.lines = at<ChannelLine>(*lines);
    statistics.epsilon = request.op.number("epsilon", 1e-5);
    statistics.momentum = request.op.number("momentum", 0.9);
    BatchNorm apply;
    apply.images = parts->images;
    apply.residual = from(request, 5);
    apply.y = to(request, 0);
    apply.lines = statistics.lines;
    apply.relu = request.op.integer("relu") != 0 ? 1 : 0;
    const bool training = request.op.integer("training_mode", 1) != 0;
    return Made(std::unique_ptr<device::DeviceKernel>(std::make_unique<BatchNormKernel>(
        adding, statistics, apply, walk, training, std::vector<std::shared_ptr<device::Memory>>{*sums, *lines})));
}

Made makeBatchNormGrad(const Request &request)
{
    constexpr std::array<std::size_t, 4> kImages{1, 0, 6, 7};
    constexpr std::array<std::size_t, 4> kPerChannel{2, 3, 4, 5};
    auto parts = request.floatInputs(5) ? channelParts(request, kImages, kPerChannel) : std::nullopt;
    const bool relu = request.op.integer("relu") != 0;
    if (!parts || (relu && !request.hasInput(5) && !request.hasInput(6))
        || (request.hasOutput(3)
            && (!isFloat(request.outputs[3]) || request.out(3) != request.out()
                || request.outputs[3].layout != request.outputs[0].layout)))
        return onlyOnHost(request);
    const auto walk = channelWalk(request, *parts);
    auto sums = scratchOf<Two<double>>(request, parts->parts * parts->images.channels);
    auto planes = scratchOf<ChannelPlane>(request, parts->images.channels);
    if (!sums || !planes)
        return !sums ? sums.error() : planes.error();
    BatchNormIncoming incoming;
    incoming.images = parts->images;
    incoming.dy = from(request, 0);
    incoming.x = from(request, 1);
    incoming.scale = from(request, 2);
    incoming.mean = from(request, 3);
    incoming.inverse = from(request, 4);
    incoming.bias = from(request, 5);
    incoming.y = from(request, 6);
    incoming.dy2 = from(request, 7);
    incoming.relu = relu ? 1 : 0;
    BatchNormPlanes perChannel;
    perChannel.parts = *parts;
    perChannel.scale = incoming.scale;
    perChannel.mean = incoming.mean;
    perChannel.inverse = incoming.inverse;
    perChannel.sums = at<Two<double>>(*sums);
    perChannel.planes = at<ChannelPlane>(*planes);
    perChannel.dScale = to(request, 1);
    perChannel.dBias = to(request, 2);
    perChannel.training = request.op.integer("training_mode", 1) != 0 ? 1 : 0;
    BatchNormGradient apply;
    apply.planes = perChannel.planes;
    apply.dx = to(request, 0);
    apply.dResidual = to(request, 3);
    return makeFunction([=, keptSums = *sums, keptPlanes = *planes](CudaQueue &queue, bool, Inputs in,
                                                                    Outputs out) mutable {
        incoming.dy.data = in[0];
        incoming.x.data = in[1];
        incoming.scale.data = perChannel.scale.data = in[2];
        incoming.mean.data = perChannel.mean.data = in[3];
        incoming.inverse.data = perChannel.inverse.data = in[4];
        incoming.bias.data = given(in, 5);
        incoming.y.data = given(in, 6);
        incoming.dy2.data = given(in, 7);
        BatchNormGradientSums adding;
        adding.parts = *parts;
        adding.incoming = incoming;
        adding.sums = at<Two<double>>(keptSums);
        perChannel.dScale.data = given(out, 1);
        perChannel.dBias.data = given(out, 2);
        apply.incoming = incoming;
        apply.dx.data = out[0];
        apply.dResidual.data = given(out, 3);
        if (walk)
            queue.rows(ChannelNormGradientSums{*walk, incoming, adding.sums}, walk->blocks(), 0, 2);
        else
            queue.rows(adding, parts->blocks(), 0, 2);
        queue.rows(perChannel, parts->images.channels, 0, 2);
        if (walk)
            queue.rows(ChannelNormGradient{*walk, incoming, apply.planes, apply.dx, apply.dResidual}, walk->blocks());
        else
            queue.items(apply, parts->images.elements());
    });
}

Made makeReorder(const Request &request)
{
    const auto from = request.hasInput(0) ? imagesOf(request.inputs[0]) : std::nullopt;
    const auto target = imagesOf(request.outputs[0]);
    if (!from || !target || !request.floatInputs(1) || !request.floatOutputs(1) || request.in(0) != request.out())
        return onlyOnHost(request);
    Reorder kernel;
    kernel.x = cuda::from(request, 0);
    kernel.y = to(request, 0);
    kernel.from = *from;
    kernel.to = *target;
    return makeFunction([kernel, n = request.outSize(0)](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        queue.items(kernel, n);
    });
}

constexpr auto kYes = LastChannels::Yes;
constexpr OperatorEntry kImages[] = {
    {"AveragePool", makePool<false>, kYes},
    {"AveragePoolGrad", makePoolGrad<false>, kYes},
    {"BatchNormalization", makeBatchNorm, kYes},
    {"BatchNormalizationGrad", makeBatchNormGrad, kYes},
    {"GlobalAveragePool", makeGlobalPool<false>, kYes},
    {"GlobalAveragePoolGrad", makeGlobalAverageGrad, kYes},
    {"GlobalMaxPool", makeGlobalPool<true>},
    {"GlobalMaxPoolGrad", makeGlobalMaxGrad},
    {"MaxPool", makePool<true>, kYes},
    {"MaxPoolGrad", makePoolGrad<true>, kYes},
    {"Reorder", makeReorder, kYes},
};

} // namespace

std::span<const OperatorEntry> imageOperators() { return kImages; }

} // namespace planloom::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/language.h"
#include "executor/device/window_axis.h"

// Images (N, C, pixels): pooling, batch normalisation, convolution without tensor cores.
namespace planloom::cuda {

/// Sizes, and where an element lies: channels one after the other, or, channels last, pixels one after the other.
struct Images {
    std::int64_t samples = 1, channels = 1, pixels = 1;
    int channelsLast = 0;

    struct Place {
        std::int64_t sample, channel, pixel;
    };
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t elements() const { return samples * channels * pixels; }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t at(std::int64_t sample, std::int64_t channel,
                                                       std::int64_t pixel) const
    {
        return channelsLast != 0 ? (sample * pixels + pixel) * channels + channel
                                 : (sample * channels + channel) * pixels + pixel;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE Place placeOf(std::int64_t element) const
    {
        const std::int64_t inner = channelsLast != 0 ? channels : pixels;
        const std::int64_t middle = channelsLast != 0 ? pixels : channels;
        const std::int64_t first = restOf(element, inner);
        const std::int64_t second = restOf(element, middle);
        return channelsLast != 0 ? Place{element, first, second} : Place{element, second, first};
    }
};

/// To the other order.
struct Reorder {
    From x;
    To y;
    Images from, to;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(to.elements(), [&](std::int64_t i) {
            const Images::Place place = to.placeOf(i);
            y.put(i, x.at(from.at(place.sample, place.channel, place.pixel)));
        });
    }
};

/// Windows over up to three axes: depth, rows, columns.
struct Windows {
    device::WindowAxis axes[3];

    /// The position whose pixel of the output is @p number, or the element of the input.
    PLANLOOM_KERNEL_CODE void split(std::int64_t number, bool input, std::int64_t (&at)[3]) const
    {
        for (int d = 2; d >= 0; --d) {
            const std::int64_t size = input ? axes[d].size : axes[d].positions;
            at[d] = restOf(number, size);
        }
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t taps() const
    {
        return axes[0].kernel * axes[1].kernel * axes[2].kernel;
    }
    /// f(pixel of the input, number of the tap) for the taps of the window at @p place that lie inside.
    template <class F>
    PLANLOOM_KERNEL_CODE void forTaps(const std::int64_t (&place)[3], F f) const
    {
        const std::int64_t left = axes[2].firstTap(place[2]);
        const std::int64_t right = axes[2].lastTap(place[2]);
        for (std::int64_t k = axes[0].firstTap(place[0]); k < axes[0].lastTap(place[0]); ++k)
            for (std::int64_t i = axes[1].firstTap(place[1]); i < axes[1].lastTap(place[1]); ++i) {
                const std::int64_t sheet = axes[0].origin(place[0]) + k * axes[0].dilation;
                const std::int64_t row = sheet * axes[1].size + axes[1].origin(place[1]) + i * axes[1].dilation;
                const std::int64_t line = row * axes[2].size + axes[2].origin(place[2]);
                for (std::int64_t j = left; j < right; ++j)
                    f(line + j * axes[2].dilation, (k * axes[1].kernel + i) * axes[2].kernel + j);
            }
    }
    /// f(pixel of the output, place) for the positions whose windows reach element @p at of the input.
    template <class F>
    PLANLOOM_KERNEL_CODE void forPositions(const std::int64_t (&at)[3], F f) const
    {
        for (std::int64_t d = axes[0].firstPosition(at[0]); d < axes[0].lastPosition(at[0]); ++d)
            for (std::int64_t r = axes[1].firstPosition(at[1]); r < axes[1].lastPosition(at[1]); ++r)
                for (std::int64_t c = axes[2].firstPosition(at[2]); c < axes[2].lastPosition(at[2]); ++c) {
                    const std::int64_t place[3] = {d, r, c};
                    f((d * axes[1].positions + r) * axes[2].positions + c, place);
                }
    }
};

// --- Pooling --------------------------------------------------------------------------------------------------------

/// What both passes of a pooling operator know. The value of output pixels: the first largest under the window, or the
/// mean.
struct Pooling {
    Images x, y;
    Windows windows;
    int largest = 0;
    int countPad = 0;

    [[nodiscard]] PLANLOOM_KERNEL_CODE float divisor(const std::int64_t (&place)[3]) const
    {
        std::int64_t taps = 1;
        for (int d = 0; d < 3; ++d) {
            const device::WindowAxis &axis = windows.axes[d];
            taps *= countPad != 0 ? axis.paddedTaps(place[d]) : axis.lastTap(place[d]) - axis.firstTap(place[d]);
        }
        return static_cast<float>(taps > 1 ? taps : 1);
    }
    /// The pixel of the first maximum; -1: the window lies in the padding altogether.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t best(From image, const Images::Place &plane,
                                                         const std::int64_t (&place)[3]) const
    {
        std::int64_t found = -1;
        float value = -INFINITY;
        windows.forTaps(place, [&](std::int64_t pixel, std::int64_t) {
            const float own = image.at(x.at(plane.sample, plane.channel, pixel));
            if (found < 0 || own > value) {
                found = pixel;
                value = own;
            }
        });
        return found;
    }
};

/// A thread an output: the largest or the mean of its window.
struct PoolForward {
    Pooling pool;
    From x;
    To y;
    std::int64_t *indices = nullptr; ///< of the maxima; may be nullptr
    int columnMajor = 0;             ///< how pixels are counted there
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(pool.y.elements(), [&](std::int64_t i) {
            const Images::Place plane = pool.y.placeOf(i);
            std::int64_t place[3];
            pool.windows.split(plane.pixel, false, place);
            if (pool.largest != 0) {
                const std::int64_t best = pool.best(x, plane, place);
                y.put(i, best < 0 ? 0.0F : x.at(pool.x.at(plane.sample, plane.channel, best)));
                if (indices != nullptr)
                    indices[i] = pool.x.at(plane.sample, plane.channel, 0) + (best < 0 ? best : named(best));
                return;
            }
            float sum = 0;
            pool.windows.forTaps(place, [&](std::int64_t pixel, std::int64_t) {
                sum += x.at(pool.x.at(plane.sample, plane.channel, pixel));
            });
            y.put(i, sum / pool.divisor(place));
        });
    }

private:
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t named(std::int64_t pixel) const
    {
        const std::int64_t rows = pool.windows.axes[1].size;
        const std::int64_t columns = pool.windows.axes[2].size;
        const bool turned = columnMajor != 0 && pool.windows.axes[0].size == 1;
        return turned ? pixel % columns * rows + pixel / columns : pixel;
    }
};

/// A thread an input: the sum over the windows that it is in.
struct PoolGradient {
    Pooling pool;
    From dy, x; ///< x: of the largest only
    To dx;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(pool.x.elements(), [&](std::int64_t i) {
            const Images::Place plane = pool.x.placeOf(i);
            std::int64_t at[3];
            pool.windows.split(plane.pixel, true, at);
            float sum = 0;
            pool.windows.forPositions(at, [&](std::int64_t pixel, const std::int64_t(&place)[3]) {
                const float gradient = dy.at(pool.y.at(plane.sample, plane.channel, pixel));
                if (pool.largest != 0)
                    sum += pool.best(x, plane, place) == plane.pixel ? gradient : 0.0F;
                else if (reaches(at, place))
                    sum += gradient / pool.divisor(place);
            });
            dx.put(i, sum);
        });
    }

private:
    [[nodiscard]] PLANLOOM_KERNEL_CODE bool reaches(const std::int64_t (&at)[3], const std::int64_t (&place)[3]) const
    {
        bool all = true;
        for (int d = 0; d < 3; ++d)
            all = all && (at[d] - pool.windows.axes[d].origin(place[d])) % pool.windows.axes[d].dilation == 0;
        return all;
    }
};

// --- Batch normalisation --------------------------------------------------------------------------------------------

/// How the elements of each channel are shared out: a block adds up one part of those of `lanes` channels.
struct ChannelParts {
    Images images;
    int lanes = 1;
    std::int64_t parts = 1;

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t blocks() const
    {
        return (images.channels + lanes - 1) / lanes * parts;
    }
    /// sums[part][channel] = the sum of f(channel, element) over the elements of the part.
    template <class F>
    PLANLOOM_KERNEL_CODE void add(Block &block, Two<double> *sums, F f) const
    {
        const std::int64_t count = images.samples * images.pixels;
        const std::int64_t each = (count + parts - 1) / parts;
        for (std::int64_t item = block.index; item < blocks(); item += block.count) {
            const std::int64_t first = item % parts * each;
            const std::int64_t left = count - first < each ? count - first : each;
            const std::int64_t channel = item / parts * lanes;
            block.sumLanes<Two<double>>(
                lanes, left > 0 ? left : 0,
                [&](int lane, std::int64_t i) {
                    if (channel + lane >= images.channels)
                        return Two<double>{};
                    std::int64_t sample = first + i;
                    const std::int64_t pixel = restOf(sample, images.pixels);
                    return f(channel + lane, images.at(sample, channel + lane, pixel));
                },
                [&](int lane, const Two<double> &sum) {
                    if (channel + lane < images.channels)
                        sums[item % parts * images.channels + channel + lane] = sum;
                });
        }
    }
    /// Of all parts, by a block, which has two doubles a thread for it.
    [[nodiscard]] PLANLOOM_KERNEL_CODE Two<double> sumOf(Block &block, const Two<double> *sums,
                                                         std::int64_t channel) const
    {
        Two<double> all;
        block.sumLanes<Two<double>>(
            1, parts, [&](int, std::int64_t part) { return sums[part * images.channels + channel]; },
            [&](int, const Two<double> &sum) { all = sum; });
        return all;
    }
    /// f(channel) by a block for each.
    template <class F>
    PLANLOOM_KERNEL_CODE void forChannels(Block &block, F f) const
    {
        for (std::int64_t channel = block.index; channel < images.channels; channel += block.count)
            f(channel);
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE double count() const
    {
        return static_cast<double>(images.samples * images.pixels);
    }
};

/// What a channel's elements are multiplied with and what is added: both passes take the line through this, so that
/// the backward pass sees the ReLU cut where the forward pass cut.
struct ChannelLine {
    float factor, shift;
    [[nodiscard]] PLANLOOM_KERNEL_CODE static ChannelLine of(float scale, float bias, float mean, float inverse)
    {
        const double factor = static_cast<double>(inverse) * static_cast<double>(scale);
        return {static_cast<float>(factor),
                static_cast<float>(static_cast<double>(bias) - static_cast<double>(mean) * factor)};
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE float at(float x) const { return x * factor + shift; }
};

/// Sums of x - x0 and of its square, x0 the channel's first element (Chan, Golub and LeVeque 1983, "shifted data").
/// Needs two doubles a thread, as do the gradient's sums.
struct BatchNormSums {
    ChannelParts parts;
    From x;
    Two<double> *sums = nullptr;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        parts.add(block, sums, [&](std::int64_t channel, std::int64_t at) {
            const double d = static_cast<double>(x.at(at)) - static_cast<double>(x.at(parts.images.at(0, channel, 0)));
            return Two<double>{d, d * d};
        });
    }
};

/// Per channel: statistics from the sums, or the running ones, and the line; running ones follow in training.
struct BatchNormStatistics {
    ChannelParts parts;
    From x;
    const Two<double> *sums = nullptr; ///< nullptr: the running ones
    From scale, bias;
    float *runningMean = nullptr, *runningVariance = nullptr;
    To mean, inverse; ///< data may be nullptr
    ChannelLine *lines = nullptr;
    double epsilon = 0, momentum = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        parts.forChannels(block, [&](std::int64_t c) {
            const Two<double> sum = sums != nullptr ? parts.sumOf(block, sums, c) : Two<double>{};
            block.items(1, [&](std::int64_t) { settle(c, sum); });
        });
    }

private:
    PLANLOOM_KERNEL_CODE void settle(std::int64_t c, const Two<double> &sum) const
    {
        double middle = static_cast<double>(runningMean[c]);
        double variance = static_cast<double>(runningVariance[c]);
        if (sums != nullptr) {
            const double offset = sum.a / parts.count();
            middle = static_cast<double>(x.at(parts.images.at(0, c, 0))) + offset;
            variance = sum.b / parts.count() - offset * offset;
            variance = variance > 0 ? variance : 0;
            runningMean[c] = tracked(runningMean[c], middle);
            runningVariance[c] = tracked(runningVariance[c], variance);
        }
        const float own = static_cast<float>(middle);
        const float inv = static_cast<float>(1.0 / sqrt(variance + epsilon));
        lines[c] = ChannelLine::of(scale.at(c), bias.at(c), own, inv);
        if (mean.data != nullptr)
            mean.put(c, own);
        if (inverse.data != nullptr)
            inverse.put(c, inv);
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE float tracked(float running, double now) const
    {
        return static_cast<float>(momentum * static_cast<double>(running) + (1.0 - momentum) * now);
    }
};

/// y = the line at x (+ residual), rectified if @c relu.
struct BatchNorm {
    Images images;
    From x, residual; ///< residual: data may be nullptr
    To y;
    const ChannelLine *lines = nullptr;
    int relu = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(images.elements(), [&](std::int64_t i) {
            float value = lines[images.placeOf(i).channel].at(x.at(i));
            if (residual.data != nullptr)
                value += residual.at(i);
            y.put(i, relu != 0 && value < 0.0F ? 0.0F : value);
        });
    }
};

/// The gradient that reaches the normalisation: dy + dy2, nothing where the ReLU cut.
struct BatchNormIncoming {
    Images images;
    From dy, dy2, x, y, scale, bias, mean, inverse; ///< dy2, y, bias: data may be nullptr
    int relu = 0;                                   ///< cuts where y tells, without it where the line does
    [[nodiscard]] PLANLOOM_KERNEL_CODE float at(std::int64_t i, std::int64_t channel) const
    {
        const float gradient = dy.at(i) + (dy2.data != nullptr ? dy2.at(i) : 0.0F);
        if (relu == 0)
            return gradient;
        const float kept = y.data != nullptr
            ? y.at(i)
            : ChannelLine::of(scale.at(channel), bias.data != nullptr ? bias.at(channel) : 0.0F, mean.at(channel),
                              inverse.at(channel))
                  .at(x.at(i));
        return kept > 0.0F ? gradient : 0.0F;
    }
};

/// Sums of that gradient and of its product with x - mean.
struct BatchNormGradientSums {
    ChannelParts parts;
    BatchNormIncoming incoming;
    Two<double> *sums = nullptr;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        parts.add(block, sums, [&](std::int64_t channel, std::int64_t at) {
            const auto g = static_cast<double>(incoming.at(at, channel));
            const auto mean = static_cast<double>(incoming.mean.at(channel));
            return Two<double>{g, g * (static_cast<double>(incoming.x.at(at)) - mean)};
        });
    }
};

/// dx = a g + b x + c.
struct ChannelPlane {
    float a, b, c;
};

/// Per channel, from the sums.
struct BatchNormPlanes {
    ChannelParts parts;
    From scale, mean, inverse;
    const Two<double> *sums = nullptr;
    ChannelPlane *planes = nullptr;
    To dScale, dBias; ///< data may be nullptr
    int training = 1; ///< 0: of constant statistics
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        parts.forChannels(block, [&](std::int64_t c) {
            const Two<double> sum = parts.sumOf(block, sums, c);
            block.items(1, [&](std::int64_t) {
                const auto middle = static_cast<double>(mean.at(c));
                const auto inv = static_cast<double>(inverse.at(c));
                const double factor = static_cast<double>(scale.at(c)) * inv;
                const double slope = training != 0 ? -factor * inv * inv * sum.b / parts.count() : 0.0;
                const double offset = training != 0 ? -factor * sum.a / parts.count() - slope * middle : 0.0;
                planes[c] = {static_cast<float>(factor), static_cast<float>(slope), static_cast<float>(offset)};
                if (dScale.data != nullptr)
                    dScale.put(c, static_cast<float>(sum.b * inv));
                if (dBias.data != nullptr)
                    dBias.put(c, static_cast<float>(sum.a));
            });
        });
    }
};

/// dx, from the sums of each channel.
struct BatchNormGradient {
    BatchNormIncoming incoming;
    const ChannelPlane *planes = nullptr;
    To dx, dResidual; ///< dResidual: data may be nullptr
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(incoming.images.elements(), [&](std::int64_t i) {
            const std::int64_t channel = incoming.images.placeOf(i).channel;
            const ChannelPlane &plane = planes[channel];
            const float g = incoming.at(i, channel);
            const float value = plane.a * g + plane.b * incoming.x.at(i) + plane.c;
            if (dResidual.data != nullptr)
                dResidual.put(i, g);
            dx.put(i, value);
        });
    }
};

// --- Convolution ----------------------------------------------------------------------------------------------------

/// Sizes of a convolution; weights are (channels of y, channels of x in a group, taps).
struct Convolution {
    Images x, y;
    Windows windows;
    std::int64_t groups = 1;

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t inputs() const { return x.channels / groups; }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t outputs() const { return y.channels / groups; }
};

/// A thread an output: the plain sum over its window, where cuDNN has no engine.
struct ConvolutionForward {
    Convolution shape;
    From x, weight, bias; ///< bias: data may be nullptr
    To y;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t taps = shape.windows.taps();
        block.grid(shape.y.elements(), [&](std::int64_t i) {
            const Images::Place to = shape.y.placeOf(i);
            std::int64_t place[3];
            shape.windows.split(to.pixel, false, place);
            const std::int64_t first = to.channel / shape.outputs() * shape.inputs();
            float sum = bias.data != nullptr ? bias.at(to.channel) : 0.0F;
            for (std::int64_t c = 0; c < shape.inputs(); ++c) {
                const std::int64_t row = (to.channel * shape.inputs() + c) * taps;
                shape.windows.forTaps(place, [&](std::int64_t pixel, std::int64_t tap) {
                    sum += x.at(shape.x.at(to.sample, first + c, pixel)) * weight.at(row + tap);
                });
            }
            y.put(i, sum);
        });
    }
};

/// A thread an input: the plain sum over the outputs that read it.
struct ConvolutionInputGradient {
    Convolution shape;
    From dy, weight;
    To dx;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const Windows &windows = shape.windows;
        const std::int64_t taps = windows.taps();
        block.grid(shape.x.elements(), [&](std::int64_t i) {
            const Images::Place from = shape.x.placeOf(i);
            std::int64_t at[3];
            windows.split(from.pixel, true, at);
            const std::int64_t group = from.channel / shape.inputs();
            const std::int64_t own = from.channel % shape.inputs();
            float sum = 0;
            windows.forPositions(at, [&](std::int64_t pixel, const std::int64_t(&place)[3]) {
                std::int64_t tap = 0;
                for (int d = 0; d < 3; ++d) {
                    const device::WindowAxis &axis = windows.axes[d];
                    const std::int64_t distance = at[d] - axis.origin(place[d]);
                    if (distance % axis.dilation != 0)
                        return;
                    tap = tap * axis.kernel + distance / axis.dilation;
                }
                for (std::int64_t k = 0; k < shape.outputs(); ++k) {
                    const std::int64_t to = group * shape.outputs() + k;
                    sum +=
                        dy.at(shape.y.at(from.sample, to, pixel)) * weight.at((to * shape.inputs() + own) * taps + tap);
                }
            });
            dx.put(i, sum);
        });
    }
};

/// Each element of the weights by a block.
struct ConvolutionWeightGradient {
    Convolution shape;
    From dy, x;
    To dw;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const Windows &windows = shape.windows;
        const std::int64_t taps = windows.taps();
        for (std::int64_t w = block.index; w < shape.y.channels * shape.inputs() * taps; w += block.count) {
            const std::int64_t to = w / taps / shape.inputs();
            const std::int64_t from = to / shape.outputs() * shape.inputs() + w / taps % shape.inputs();
            std::int64_t tap[3];
            std::int64_t rest = w % taps;
            for (int d = 2; d >= 0; --d) {
                tap[d] = rest % windows.axes[d].kernel;
                rest /= windows.axes[d].kernel;
            }
            const float sum = block.sum<float>(shape.y.samples * shape.y.pixels, [&](std::int64_t i) {
                const std::int64_t sample = i / shape.y.pixels;
                std::int64_t place[3];
                windows.split(i % shape.y.pixels, false, place);
                std::int64_t pixel = 0;
                for (int d = 0; d < 3; ++d) {
                    const device::WindowAxis &axis = windows.axes[d];
                    const std::int64_t at = axis.origin(place[d]) + tap[d] * axis.dilation;
                    if (at < 0 || at >= axis.size)
                        return 0.0F;
                    pixel = pixel * axis.size + at;
                }
                return dy.at(shape.y.at(sample, to, i % shape.y.pixels)) * x.at(shape.x.at(sample, from, pixel));
            });
            block.items(1, [&](std::int64_t) { dw.put(w, sum); });
        }
    }
};

} // namespace planloom::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/images.h"
#include "executor/device/cuda/kernels/groups.h"

// Batch normalisation of images with channels last, in multiples of 8: a thread has eight channels, keeps what belongs
// to them in registers and walks pixels, 16 bytes or more at a time.
namespace planloom::cuda {

inline constexpr int kChannels = 8; ///< of a thread

/// How the pixels of all channels are shared out: a block has one of @c parts runs of pixels of 2^laneBits threads'
/// channels, its other threads have other pixels of the run.
struct ChannelWalk {
    std::int64_t pixels = 0, channels = 0; ///< pixels of all samples
    int laneBits = 0;
    std::int64_t parts = 1;

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t blocks() const
    {
        const std::int64_t lanes = channels / kChannels;
        return ((lanes - 1) >> laneBits) * parts + parts;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t partOf(std::int64_t item) const { return item % parts; }
    /// The first channel of thread @p t.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t channelOf(std::int64_t item, int t) const
    {
        return (((item / parts) << laneBits) + (t & ((1 << laneBits) - 1))) * kChannels;
    }
    /// f(element) for the pixels of thread @p t, where its channels begin.
    template <class F>
    PLANLOOM_KERNEL_CODE void forPixels(const Block &block, std::int64_t item, int t, F f) const
    {
        const std::int64_t each = (pixels + parts - 1) / parts;
        const std::int64_t first = partOf(item) * each;
        const std::int64_t end = first + each < pixels ? first + each : pixels;
        const std::int64_t channel = channelOf(item, t);
        const int depth = block.threads >> laneBits;
        if (channel < channels)
            for (std::int64_t pixel = first + (t >> laneBits); pixel < end; pixel += depth)
                f(pixel * channels + channel);
    }
};

/// Sums of two numbers of each element, for each channel and part, in float32 for a few pixels and in float64 beyond.
/// Needs two doubles a thread.
template <class Of>
PLANLOOM_KERNEL_CODE void addChannels(Block &block, const ChannelWalk &walk, Two<double> *sums, Of of)
{
    constexpr int kFew = 16; ///< pixels
    Kept<Two<double>[kChannels]> totals;
    auto *values = reinterpret_cast<Two<double> *>(block.shared);
    for (std::int64_t item = block.index; item < walk.blocks(); item += block.count) {
        alone(block, [&](int t) {
            Two<float> few[kChannels];
            int count = 0;
            const auto flush = [&] {
                unrolled<kChannels>([&](int e) {
                    totals(t)[e] += Two<double>{static_cast<double>(few[e].a), static_cast<double>(few[e].b)};
                    few[e] = {};
                });
                count = 0;
            };
            unrolled<kChannels>([&](int e) { totals(t)[e] = {}; });
            const auto own = of(walk.channelOf(item, t));
            walk.forPixels(block, item, t, [&](std::int64_t at) {
                own(at, few);
                if (++count == kFew)
                    flush();
            });
            flush();
        });
        unrolled<kChannels>([&](int e) {
            block.each([&](int t) { values[t] = totals(t)[e]; });
            for (int count = block.threads / 2; count >= 1 << walk.laneBits; count /= 2)
                block.each([&](int t) {
                    if (t < count)
                        values[t] += values[t + count];
                });
            block.each([&](int t) {
                const std::int64_t channel = walk.channelOf(item, t);
                if (t < 1 << walk.laneBits && channel < walk.channels)
                    sums[walk.partOf(item) * walk.channels + channel + e] = values[t];
            });
        });
    }
}

/// As BatchNormSums.
struct ChannelNormSums {
    ChannelWalk walk;
    From x;
    Two<double> *sums = nullptr;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        addChannels(block, walk, sums, [&](std::int64_t channel) {
            struct Own {
                From x;
                float first[kChannels];
                PLANLOOM_KERNEL_CODE void operator()(std::int64_t at, Two<float> (&sum)[kChannels]) const
                {
                    float value[kChannels];
                    loadSeveral(x, at, value);
                    unrolled<kChannels>([&](int e) {
                        const float d = value[e] - first[e];
                        sum[e] += Two<float>{d, d * d};
                    });
                }
            } own{x, {}};
            if (channel < walk.channels)
                loadSeveral(x, channel, own.first);
            return own;
        });
    }
};

/// As BatchNorm.
struct ChannelNorm {
    ChannelWalk walk;
    From x, residual; ///< residual: data may be nullptr
    To y;
    const ChannelLine *lines = nullptr;
    int relu = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t item = block.index; item < walk.blocks(); item += block.count)
            block.each([&](int t) {
                const std::int64_t channel = walk.channelOf(item, t);
                ChannelLine own[kChannels] = {};
                if (channel < walk.channels)
                    unrolled<kChannels>([&](int e) { own[e] = lines[channel + e]; });
                walk.forPixels(block, item, t, [&](std::int64_t at) {
                    float value[kChannels];
                    loadSeveral(x, at, value);
                    unrolled<kChannels>([&](int e) { value[e] = own[e].at(value[e]); });
                    if (residual.data != nullptr) {
                        float more[kChannels];
                        loadSeveral(residual, at, more);
                        unrolled<kChannels>([&](int e) { value[e] += more[e]; });
                    }
                    if (relu != 0)
                        unrolled<kChannels>([&](int e) { value[e] = value[e] < 0.0F ? 0.0F : value[e]; });
                    putSeveral(y, at, value);
                });
            });
    }
};

/// As BatchNormIncoming, of eight channels; a channel's line is needed only where it tells what a ReLU cut.
struct ChannelIncoming {
    BatchNormIncoming from;
    ChannelLine lines[kChannels];

    PLANLOOM_KERNEL_CODE ChannelIncoming(const BatchNormIncoming &incoming, std::int64_t channel, bool there)
        : from(incoming)
    {
        unrolled<kChannels>([&](int e) {
            const std::int64_t c = channel + e;
            if (there && from.relu != 0 && from.y.data == nullptr)
                lines[e] = ChannelLine::of(from.scale.at(c), from.bias.data != nullptr ? from.bias.at(c) : 0.0F,
                                           from.mean.at(c), from.inverse.at(c));
        });
    }
    /// The gradients, and X.
    PLANLOOM_KERNEL_CODE void load(std::int64_t at, float (&gradient)[kChannels], float (&x)[kChannels]) const
    {
        loadSeveral(from.dy, at, gradient);
        loadSeveral(from.x, at, x);
        if (from.dy2.data != nullptr) {
            float more[kChannels];
            loadSeveral(from.dy2, at, more);
            unrolled<kChannels>([&](int e) { gradient[e] += more[e]; });
        }
        if (from.relu == 0)
            return;
        float kept[kChannels];
        if (from.y.data != nullptr)
            loadSeveral(from.y, at, kept);
        else
            unrolled<kChannels>([&](int e) { kept[e] = lines[e].at(x[e]); });
        unrolled<kChannels>([&](int e) { gradient[e] = kept[e] > 0.0F ? gradient[e] : 0.0F; });
    }
};

/// As BatchNormGradientSums.
struct ChannelNormGradientSums {
    ChannelWalk walk;
    BatchNormIncoming incoming;
    Two<double> *sums = nullptr;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        addChannels(block, walk, sums, [&](std::int64_t channel) {
            struct Own {
                ChannelIncoming all;
                float mean[kChannels];
                PLANLOOM_KERNEL_CODE void operator()(std::int64_t at, Two<float> (&sum)[kChannels]) const
                {
                    float gradient[kChannels], x[kChannels];
                    all.load(at, gradient, x);
                    unrolled<kChannels>([&](int e) {
                        sum[e] += Two<float>{gradient[e], gradient[e] * (x[e] - mean[e])};
                    });
                }
            } own{ChannelIncoming(incoming, channel, channel < walk.channels), {}};
            if (channel < walk.channels)
                unrolled<kChannels>([&](int e) { own.mean[e] = incoming.mean.at(channel + e); });
            return own;
        });
    }
};

/// As BatchNormGradient.
struct ChannelNormGradient {
    ChannelWalk walk;
    BatchNormIncoming incoming;
    const ChannelPlane *planes = nullptr;
    To dx, dResidual; ///< dResidual: data may be nullptr
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t item = block.index; item < walk.blocks(); item += block.count)
            block.each([&](int t) {
                const std::int64_t channel = walk.channelOf(item, t);
                const bool there = channel < walk.channels;
                const ChannelIncoming all(incoming, channel, there);
                ChannelPlane own[kChannels] = {};
                if (there)
                    unrolled<kChannels>([&](int e) { own[e] = planes[channel + e]; });
                walk.forPixels(block, item, t, [&](std::int64_t at) {
                    float gradient[kChannels], x[kChannels];
                    all.load(at, gradient, x);
                    if (dResidual.data != nullptr)
                        putSeveral(dResidual, at, gradient);
                    unrolled<kChannels>([&](int e) { x[e] = own[e].a * gradient[e] + own[e].b * x[e] + own[e].c; });
                    putSeveral(dx, at, x);
                });
            });
    }
};

/// Eight channels of a pixel.
struct ChannelPlace {
    std::int64_t sample, pixel, channel;
    PLANLOOM_KERNEL_CODE ChannelPlace(const Images &images, std::int64_t number)
    {
        channel = restOf(number, images.channels / kChannels) * kChannels;
        pixel = restOf(number, images.pixels);
        sample = number;
    }
};

/// As PoolForward, of the largest, without indices.
struct ChannelMaxPool {
    Pooling pool;
    From x;
    To y;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(pool.y.elements() / kChannels, [&](std::int64_t i) {
            const ChannelPlace at(pool.y, i);
            std::int64_t place[3];
            pool.windows.split(at.pixel, false, place);
            float best[kChannels] = {};
            bool found = false;
            pool.windows.forTaps(place, [&](std::int64_t pixel, std::int64_t) {
                float own[kChannels];
                loadSeveral(x, pool.x.at(at.sample, at.channel, pixel), own);
                unrolled<kChannels>([&](int e) { best[e] = !found || own[e] > best[e] ? own[e] : best[e]; });
                found = true;
            });
            putSeveral(y, i * kChannels, best);
        });
    }
};

/// As PoolGradient, of the largest: a pixel is a window's where it is equal to what the window made, and none before it
/// is.
struct ChannelMaxPoolGradient {
    Pooling pool;
    From dy, x, y;
    To dx;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(pool.x.elements() / kChannels, [&](std::int64_t i) {
            const ChannelPlace at(pool.x, i);
            std::int64_t place[3];
            pool.windows.split(at.pixel, true, place);
            float mine[kChannels];
            loadSeveral(x, i * kChannels, mine);
            float sum[kChannels] = {};
            pool.windows.forPositions(place, [&](std::int64_t window, const std::int64_t(&position)[3]) {
                const std::int64_t made = pool.y.at(at.sample, at.channel, window);
                float largest[kChannels];
                loadSeveral(y, made, largest);
                bool own[kChannels];
                bool any = false;
                unrolled<kChannels>([&](int e) {
                    own[e] = same(mine[e], largest[e]);
                    any = any || own[e];
                });
                if (!any || !sees(position, place))
                    return;
                pool.windows.forTaps(position, [&](std::int64_t pixel, std::int64_t) {
                    if (pixel >= at.pixel)
                        return;
                    float before[kChannels];
                    loadSeveral(x, pool.x.at(at.sample, at.channel, pixel), before);
                    unrolled<kChannels>([&](int e) { own[e] = own[e] && !same(before[e], largest[e]); });
                });
                float gradient[kChannels];
                loadSeveral(dy, made, gradient);
                unrolled<kChannels>([&](int e) { sum[e] += own[e] ? gradient[e] : 0.0F; });
            });
            putSeveral(dx, i * kChannels, sum);
        });
    }

private:
    /// A window of which the first pixel is no number makes no number.
    PLANLOOM_KERNEL_CODE static bool same(float a, float b) { return a == b || (a != a && b != b); }
    /// Whether a tap of the window at @p position lies on @p place: with dilation some pass over it.
    [[nodiscard]] PLANLOOM_KERNEL_CODE bool sees(const std::int64_t (&position)[3],
                                                 const std::int64_t (&place)[3]) const
    {
        bool all = true;
        for (int d = 0; d < 3; ++d) {
            const device::WindowAxis &axis = pool.windows.axes[d];
            all = all && (axis.dilation == 1 || (place[d] - axis.origin(position[d])) % axis.dilation == 0);
        }
        return all;
    }
};

} // namespace planloom::cuda

// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of (N, C, ...), with the ReLU and the residual that a rewrite may have fused into it. A group of
// channels is one work item: its data is read once for the sums and, while it is still in a cache, once more for the
// result.
#include "executor/device/cpu/channel_lanes.h"
#include "executor/device/cpu/eight_floats.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

#include <algorithm>
#include <array>

namespace planloom::device {

namespace {

constexpr std::int64_t kWide = 8;
struct alignas(64) PerLane : std::array<float, kLanes> {};
using Sums = std::array<double, kLanes>;

/// Floats that are summed in single precision before the sum goes into a double: 32 additions a lane.
constexpr std::int64_t kChunk = 32 * kLanes;

/// Adds a chunk's sums.
inline void collect(const EightFloats (&part)[2], Sums &sum)
{
    for (std::int64_t l = 0; l < kLanes; ++l)
        sum[static_cast<std::size_t>(l)] += static_cast<double>(part[l / kWide][l % kWide]);
}

/// Sums of x - shift and of its square.
PLANLOOM_CLONES void addMoments(const float *x, std::int64_t n, const PerLane &shift, Sums &sum, Sums &square)
{
    const std::int64_t whole = n - n % kLanes;
    for (std::int64_t begin = 0; begin < whole; begin += kChunk) {
        const std::int64_t end = std::min(whole, begin + kChunk);
        EightFloats s[2] = {};
        EightFloats q[2] = {};
        for (std::int64_t i = begin; i < end; i += kLanes) {
            for (std::int64_t h = 0; h < 2; ++h) {
                const EightFloats d = load(x + i + h * kWide) - load(shift.data() + h * kWide);
                s[h] += d;
                q[h] += d * d;
            }
        }
        collect(s, sum);
        collect(q, square);
    }
    for (std::int64_t i = whole; i < n; ++i) {
        const auto l = static_cast<std::size_t>(i - whole);
        const double d = static_cast<double>(x[i]) - static_cast<double>(shift[l]);
        sum[l] += d;
        square[l] += d * d;
    }
}

struct Line {
    PerLane factor{}, shift{};
};

float scaled(float x, float factor, float shift) { return x * factor + shift; }
float rectified(float v, bool relu) { return relu && v < 0.0F ? 0.0F : v; }

/// y = factor x + shift (+ residual), rectified if @p relu.
PLANLOOM_CLONES void applyLine(const float *x, const float *residual, const Line &line, bool relu, float *y,
                               std::int64_t n)
{
    const EightFloats zero{};
    const std::int64_t whole = n - n % kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
        for (std::int64_t h = 0; h < kLanes; h += kWide) {
            EightFloats v = load(x + i + h) * load(line.factor.data() + h) + load(line.shift.data() + h);
            if (residual != nullptr)
                v += load(residual + i + h);
            if (relu)
                v = v < zero ? zero : v;
            store(y + i + h, v);
        }
    }
    for (std::int64_t i = whole; i < n; ++i) {
        const auto l = static_cast<std::size_t>(i - whole);
        y[i] =
            rectified(scaled(x[i], line.factor[l], line.shift[l]) + (residual != nullptr ? residual[i] : 0.0F), relu);
    }
}

/// The gradient that reaches the normalisation itself: dy + dy2, nothing where the ReLU cut. Pointers may be null.
struct Incoming {
    const float *dy = nullptr, *dy2 = nullptr; ///< dy2: a second part
    const float *x = nullptr;
    const float *y = nullptr; ///< tells where the ReLU cut; without it x does
    bool relu = false;

    [[nodiscard]] Incoming at(std::int64_t offset) const
    {
        const auto moved = [offset](const float *p) { return p != nullptr ? p + offset : nullptr; };
        return {dy + offset, moved(dy2), x + offset, moved(y), relu};
    }
    /// Floats @p i to i + 7, which are lanes @p lane to lane + 7.
    void eight(std::int64_t i, const Line &line, std::int64_t lane, EightFloats &g) const
    {
        g = load(dy + i);
        if (dy2 != nullptr)
            g += load(dy2 + i);
        if (!relu)
            return;
        const EightFloats zero{};
        if (y != nullptr)
            g = load(y + i) > zero ? g : zero;
        else
            g = load(x + i) * load(line.factor.data() + lane) + load(line.shift.data() + lane) > zero ? g : zero;
    }
    [[nodiscard]] float one(std::int64_t i, float factor, float shift) const
    {
        const float g = dy[i] + (dy2 != nullptr ? dy2[i] : 0.0F);
        const float kept = y != nullptr ? y[i] : scaled(x[i], factor, shift);
        return relu && !(kept > 0.0F) ? 0.0F : g;
    }
};

/// Sums of the incoming gradient and of its product with x - mean; the gradient itself goes to @p kept unless that is
/// null.
PLANLOOM_CLONES void addGradientSums(const Incoming &in, std::int64_t n, const Line &line, const PerLane &mean,
                                     float *kept, Sums &sum, Sums &projected)
{
    const std::int64_t whole = n - n % kLanes;
    for (std::int64_t begin = 0; begin < whole; begin += kChunk) {
        const std::int64_t end = std::min(whole, begin + kChunk);
        EightFloats s[2] = {};
        EightFloats p[2] = {};
        for (std::int64_t i = begin; i < end; i += kLanes) {
            for (std::int64_t h = 0; h < 2; ++h) {
                const std::int64_t at = i + h * kWide;
                EightFloats g;
                in.eight(at, line, h * kWide, g);
                if (kept != nullptr)
                    store(kept + at, g);
                s[h] += g;
                p[h] += g * (load(in.x + at) - load(mean.data() + h * kWide));
            }
        }
        collect(s, sum);
        collect(p, projected);
    }
    for (std::int64_t i = whole; i < n; ++i) {
        const auto l = static_cast<std::size_t>(i - whole);
        const float g = in.one(i, line.factor[l], line.shift[l]);
        if (kept != nullptr)
            kept[i] = g;
        sum[l] += static_cast<double>(g);
        projected[l] += static_cast<double>(g) * (static_cast<double>(in.x[i]) - static_cast<double>(mean[l]));
    }
}

/// dx = a g + b x + c for the incoming gradient g.
struct Plane {
    PerLane a{}, b{}, c{};
};

PLANLOOM_CLONES void applyPlane(const Incoming &in, const Line &line, const Plane &plane, float *dx, std::int64_t n)
{
    const std::int64_t whole = n - n % kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
        for (std::int64_t h = 0; h < kLanes; h += kWide) {
            EightFloats g;
            in.eight(i + h, line, h, g);
            store(dx + i + h,
                  load(plane.a.data() + h) * g + load(plane.b.data() + h) * load(in.x + i + h)
                      + load(plane.c.data() + h));
        }
    }
    for (std::int64_t i = whole; i < n; ++i) {
        const auto l = static_cast<std::size_t>(i - whole);
        dx[i] = plane.a[l] * in.one(i, line.factor[l], line.shift[l]) + plane.b[l] * in.x[i] + plane.c[l];
    }
}

struct Shape {
    ChannelRuns runs;
    double epsilon = 0;
    double momentum = 0;
    bool training = true;
    bool relu = false;
};

/// Sum of one channel's lanes.
double fold(const Sums &sums, std::int64_t channel, std::int64_t width)
{
    double total = 0;
    for (std::int64_t l = channel; l < kLanes; l += width)
        total += sums[static_cast<std::size_t>(l)];
    return total;
}

/// Puts @p value in every lane of @p channel.
void spread(PerLane &target, std::int64_t channel, std::int64_t width, double value)
{
    for (std::int64_t l = channel; l < kLanes; l += width)
        target[static_cast<std::size_t>(l)] = static_cast<float>(value);
}

struct Statistics {
    double mean = 0, variance = 0;
};
using GroupStatistics = std::array<Statistics, kLanes>;

/// Mean and variance of a group's channels in one sweep, after subtracting a value near the mean, so
/// that squares do not swamp the variance (Chan, Golub and LeVeque 1983, "shifted data").
GroupStatistics statistics(const ChannelRuns &runs, const float *x, std::int64_t group)
{
    constexpr std::int64_t kProbe = 32; // pixels that guess the mean
    const std::int64_t probe = std::min(runs.area, kProbe);
    PerLane shift{};
    for (std::int64_t c = 0; c < runs.width; ++c) {
        double guess = 0;
        for (std::int64_t i = 0; i < probe; ++i)
            guess += static_cast<double>(x[runs.at(0, group) + i * runs.width + c]);
        spread(shift, c, runs.width, guess / static_cast<double>(probe));
    }
    Sums sum{};
    Sums square{};
    for (std::int64_t sample = 0; sample < runs.samples; ++sample)
        addMoments(x + runs.at(sample, group), runs.runLength(), shift, sum, square);
    GroupStatistics result{};
    for (std::int64_t c = 0; c < runs.width; ++c) {
        const double offset = fold(sum, c, runs.width) / runs.count();
        auto &channel = result[static_cast<std::size_t>(c)];
        channel.mean = static_cast<double>(shift[static_cast<std::size_t>(c)]) + offset;
        channel.variance = std::max(0.0, fold(square, c, runs.width) / runs.count() - offset * offset);
    }
    return result;
}

/// The running statistics are State: the one input that a kernel writes. As in ONNX, momentum is the weight of what
/// was.
void track(float *running, std::int64_t channel, double momentum, double current)
{
    running[channel] =
        static_cast<float>(momentum * static_cast<double>(running[channel]) + (1.0 - momentum) * current);
}

/// Both passes take the line through this, so that the backward pass sees the ReLU cut where the forward pass cut.
void setLine(Line &line, std::int64_t lane, std::int64_t width, float scale, float bias, float mean, float inverse)
{
    const double factor = static_cast<double>(inverse) * static_cast<double>(scale);
    spread(line.factor, lane, width, factor);
    spread(line.shift, lane, width, static_cast<double>(bias) - static_cast<double>(mean) * factor);
}

float *optional(Outputs out, std::size_t i) { return out.size() > i ? floats(out[i]) : nullptr; }
const float *optional(Inputs in, std::size_t i) { return in.size() > i ? floats(in[i]) : nullptr; }

void normaliseGroup(const Shape &shape, Inputs in, Outputs out, std::int64_t group)
{
    const ChannelRuns &runs = shape.runs;
    auto *runningMean = static_cast<float *>(const_cast<void *>(in[3]));
    auto *runningVariance = static_cast<float *>(const_cast<void *>(in[4]));
    GroupStatistics now{};
    if (shape.training)
        now = statistics(runs, floats(in[0]), group);
    Line line;
    for (std::int64_t lane = 0; lane < runs.width; ++lane) {
        const std::int64_t c = group * runs.width + lane;
        Statistics &channel = now[static_cast<std::size_t>(lane)];
        if (shape.training) {
            track(runningMean, c, shape.momentum, channel.mean);
            track(runningVariance, c, shape.momentum, channel.variance);
        } else {
            channel = {static_cast<double>(runningMean[c]), static_cast<double>(runningVariance[c])};
        }
        const auto mean = static_cast<float>(channel.mean);
        const auto inverse = static_cast<float>(1.0 / std::sqrt(channel.variance + shape.epsilon));
        setLine(line, lane, runs.width, floats(in[1])[c], floats(in[2])[c], mean, inverse);
        if (float *saved = optional(out, 1))
            saved[c] = mean;
        if (float *saved = optional(out, 2))
            saved[c] = inverse;
    }
    const float *residual = optional(in, 5);
    for (std::int64_t sample = 0; sample < runs.samples; ++sample) {
        const std::int64_t at = runs.at(sample, group);
        applyLine(floats(in[0]) + at, residual != nullptr ? residual + at : nullptr, line, shape.relu,
                  floats(out[0]) + at, runs.runLength());
    }
}

/// Gradients of a group's channels from its sums.
Plane planeOf(const Shape &shape, Inputs in, Outputs out, std::int64_t group, const Sums &sums, const Sums &projections)
{
    Plane plane;
    for (std::int64_t lane = 0; lane < shape.runs.width; ++lane) {
        const std::int64_t c = group * shape.runs.width + lane;
        const auto mean = static_cast<double>(floats(in[3])[c]);
        const auto inverse = static_cast<double>(floats(in[4])[c]);
        const double sum = fold(sums, lane, shape.runs.width);
        const double projected = fold(projections, lane, shape.runs.width);
        const double factor = static_cast<double>(floats(in[2])[c]) * inverse;
        // dx = factor (dy - mean(dy) - (x - mean) inverse^2 mean(dy (x - mean))); constant statistics leave the first
        // term only.
        const double slope = shape.training ? -factor * inverse * inverse * projected / shape.runs.count() : 0.0;
        const double offset = shape.training ? -factor * sum / shape.runs.count() - slope * mean : 0.0;
        spread(plane.a, lane, shape.runs.width, factor);
        spread(plane.b, lane, shape.runs.width, slope);
        spread(plane.c, lane, shape.runs.width, offset);
        if (float *dScale = optional(out, 1))
            dScale[c] = static_cast<float>(projected * inverse);
        if (float *dBias = optional(out, 2))
            dBias[c] = static_cast<float>(sum);
    }
    return plane;
}

void differentiateGroup(const Shape &shape, Inputs in, Outputs out, std::int64_t group)
{
    const ChannelRuns &runs = shape.runs;
    const float *bias = optional(in, 5);
    Line line;
    PerLane means{};
    for (std::int64_t lane = 0; lane < runs.width; ++lane) {
        const std::int64_t c = group * runs.width + lane;
        setLine(line, lane, runs.width, floats(in[2])[c], bias != nullptr ? bias[c] : 0.0F, floats(in[3])[c],
                floats(in[4])[c]);
        spread(means, lane, runs.width, static_cast<double>(floats(in[3])[c]));
    }
    const Incoming incoming{floats(in[0]), optional(in, 7), floats(in[1]), optional(in, 6), shape.relu};
    float *kept = optional(out, 3);
    Sums sums{};
    Sums projections{};
    for (std::int64_t sample = 0; sample < runs.samples; ++sample) {
        const std::int64_t at = runs.at(sample, group);
        addGradientSums(incoming.at(at), runs.runLength(), line, means, kept != nullptr ? kept + at : nullptr, sums,
                        projections);
    }
    const Plane plane = planeOf(shape, in, out, group, sums, projections);
    for (std::int64_t sample = 0; sample < runs.samples; ++sample) {
        const std::int64_t at = runs.at(sample, group);
        const Incoming cut{kept != nullptr ? kept + at : nullptr, nullptr, floats(in[1]) + at, nullptr, false};
        applyPlane(kept != nullptr ? cut : incoming.at(at), line, plane, floats(out[0]) + at, runs.runLength());
    }
}

/// All arguments in @p images are alike; those in @p perChannel have an element a channel.
Result<Shape> shapeOf(const Request &request, std::span<const std::size_t> images,
                      std::span<const std::size_t> perChannel)
{
    const Argument &first = request.inputs[images.front()];
    if (first.dims.size() < 2 || first.dims != request.out())
        return wrong(request, "needs (N, C, ...), got " + text(first.dims) + " and " + text(request.out()));
    const auto alike = [&](const Argument &other) { return other.dims == first.dims && other.layout == first.layout; };
    for (const std::size_t i : images)
        if (request.hasInput(i) && !alike(request.inputs[i]))
            return wrong(request,
                         "input " + std::to_string(i) + ", " + text(request.in(i)) + ", is not like "
                             + text(first.dims));
    for (const std::size_t i : {std::size_t{0}, std::size_t{3}})
        if (request.hasOutput(i) && !alike(request.outputs[i]))
            return wrong(request, "output " + text(request.out(i)) + " is not like " + text(first.dims));
    const graph::Op &op = request.op;
    const Shape shape{channelRuns(first), op.number("epsilon", 1e-5), op.number("momentum", 0.9),
                      op.integer("training_mode", 1) != 0, op.integer("relu") != 0};
    for (const std::size_t i : perChannel)
        if (request.hasInput(i) && request.inputs[i].elements() != shape.runs.channels)
            return wrong(request,
                         text(request.in(i)) + " should have one element for each of "
                             + std::to_string(shape.runs.channels) + " channels");
    for (std::size_t i = 1; i < std::min<std::size_t>(3, request.outputs.size()); ++i)
        if (request.outputs[i].present && request.outputs[i].elements() != shape.runs.channels)
            return wrong(request, "output " + text(request.out(i)) + " should have one element a channel");
    return shape;
}

template <class F>
void forGroups(const ChannelRuns &runs, F f)
{
    parallelFor(runs.groups(), rowGrain(runs.samples * runs.runLength()), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t group = begin; group < end; ++group)
            f(group);
    });
}

Made makeForward(const Request &request)
{
    constexpr std::array<std::size_t, 2> kImages{0, 5};
    constexpr std::array<std::size_t, 4> kPerChannel{1, 2, 3, 4};
    auto shape = shapeOf(request, kImages, kPerChannel);
    if (!shape)
        return shape.error();
    return makeFunction([shape = *shape](Inputs in, Outputs out) {
        forGroups(shape.runs, [&](std::int64_t group) { normaliseGroup(shape, in, out, group); });
    });
}

Made makeGradient(const Request &request)
{
    constexpr std::array<std::size_t, 4> kImages{1, 0, 6, 7};
    constexpr std::array<std::size_t, 4> kPerChannel{2, 3, 4, 5};
    auto shape = shapeOf(request, kImages, kPerChannel);
    if (!shape)
        return shape.error();
    if (shape->relu && !request.hasInput(5) && !request.hasInput(6))
        return wrong(request, "with a ReLU it needs the bias or the output");
    return makeFunction([shape = *shape](Inputs in, Outputs out) {
        forGroups(shape.runs, [&](std::int64_t group) { differentiateGroup(shape, in, out, group); });
    });
}

constexpr KernelEntry kEntries[] = {
    {"BatchNormalization", "ffffff?", "ff?f?", makeForward},
    {"BatchNormalizationGrad", "ffffff?f?f?", "ff?f?f?", makeGradient},
};

} // namespace

std::span<const KernelEntry> batchNormKernels() { return kEntries; }

} // namespace planloom::device

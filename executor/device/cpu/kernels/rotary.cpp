// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding of packed Q|K|V (Su et al., RoFormer, 2021), in the half-split form that LLaMA checkpoints
// use: element i of a head turns together with element i + P, where P is the number of pairs: D/2, or fewer, where the
// elements behind the first 2P stay as they are.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"

#include <cmath>

namespace planloom::device {

namespace {

struct Shape {
    std::int64_t n = 0, t = 0, turned = 0, heads = 0, d = 0; ///< turned: heads of Q and K; heads: those of V, too
    std::int64_t pairs = 0;                                  ///< of a head's elements, d / 2 at most
};

/// cos and sin of every angle, [position][pair] each.
struct Angles {
    std::vector<float> cosine, sine;
};

/// Turns per position of each pair of a head's elements.
std::vector<double> frequenciesOf(const graph::Op &op, std::int64_t headSize)
{
    std::vector<double> frequencies = op.numbers("inverse_frequencies");
    if (!frequencies.empty())
        return frequencies;
    const double theta = op.number("theta", 10000.0);
    for (std::int64_t i = 0; i < headSize / 2; ++i)
        frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(headSize)));
    return frequencies;
}

Angles anglesFor(const Shape &shape, const std::vector<double> &frequencies)
{
    Angles angles;
    for (std::int64_t position = 0; position < shape.t; ++position) {
        for (const double frequency : frequencies) {
            const double angle = static_cast<double>(position) * frequency;
            angles.cosine.push_back(static_cast<float>(std::cos(angle)));
            angles.sine.push_back(static_cast<float>(std::sin(angle)));
        }
    }
    return angles;
}

/// @p direction 1 turns, -1 turns back (which is the gradient).
void turnToken(const Shape &shape, const float *cosine, const float *sine, float direction, const float *x, float *y)
{
    const std::int64_t pairs = shape.pairs;
    for (std::int64_t head = 0; head < shape.turned; ++head) {
        const float *a = x + head * shape.d;
        float *out = y + head * shape.d;
        for (std::int64_t i = 0; i < pairs; ++i) {
            const float s = direction * sine[i];
            out[i] = a[i] * cosine[i] - a[i + pairs] * s;
            out[i + pairs] = a[i + pairs] * cosine[i] + a[i] * s;
        }
        std::copy(a + 2 * pairs, a + shape.d, out + 2 * pairs);
    }
    std::copy(x + shape.turned * shape.d, x + shape.heads * shape.d, y + shape.turned * shape.d);
}

Made makeRotary(const Request &request, float direction)
{
    const Dims &dims = request.in(0);
    const std::int64_t heads = request.op.integer("heads");
    const std::int64_t kvHeads = request.op.integer("kv_heads", heads);
    if (dims.size() != 3 || dims != request.out() || heads <= 0 || kvHeads <= 0 || dims[2] % (heads + 2 * kvHeads) != 0)
        return wrong(request,
                     text(dims) + " is no packed Q|K|V of " + std::to_string(heads) + " and " + std::to_string(kvHeads)
                         + " heads");
    Shape shape{dims[0], dims[1], heads + kvHeads, heads + 2 * kvHeads, dims[2] / (heads + 2 * kvHeads)};
    if (shape.d % 2 != 0)
        return cannot(request, "heads of an odd size");
    const std::vector<double> frequencies = frequenciesOf(request.op, shape.d);
    shape.pairs = static_cast<std::int64_t>(frequencies.size());
    if (shape.pairs > shape.d / 2)
        return wrong(request,
                     std::to_string(frequencies.size()) + " frequencies for heads of " + std::to_string(shape.d));
    return makeFunction([shape, direction, angles = anglesFor(shape, frequencies)](Inputs in, Outputs out) {
        const std::int64_t width = shape.heads * shape.d;
        parallelFor(shape.n * shape.t, rowGrain(width), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t token = begin; token < end; ++token) {
                const std::int64_t at = token % shape.t * shape.pairs;
                turnToken(shape, angles.cosine.data() + at, angles.sine.data() + at, direction,
                          floats(in[0]) + token * width, floats(out[0]) + token * width);
            }
        });
    });
}

Made makeForward(const Request &request) { return makeRotary(request, 1.0F); }
Made makeGradient(const Request &request) { return makeRotary(request, -1.0F); }

constexpr KernelEntry kEntries[] = {
    {"RotaryEmbedding", "f", "f", makeForward},
    {"RotaryEmbeddingGrad", "f", "f", makeGradient},
};

} // namespace

std::span<const KernelEntry> rotaryKernels() { return kEntries; }

} // namespace planloom::device

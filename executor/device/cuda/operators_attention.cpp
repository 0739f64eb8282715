// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/operator_support.h"

#include <cmath>

namespace planloom::cuda {

namespace {

/// Of input @p qkv and the mask at @p mask; nullopt: it does not fit.
std::optional<AttentionShape> attentionShape(const Request &request, std::size_t qkv, std::size_t mask)
{
    if (qkv >= request.inputs.size() || !isFloat(request.inputs[qkv]) || request.in(qkv).size() != 3)
        return std::nullopt;
    AttentionShape shape;
    const Dims &dims = request.in(qkv);
    shape.n = dims[0];
    shape.t = dims[1];
    shape.heads = request.op.integer("heads");
    shape.kvHeads = request.op.integer("kv_heads", shape.heads);
    if (shape.heads <= 0 || shape.kvHeads <= 0 || shape.heads % shape.kvHeads != 0
        || dims[2] % (shape.heads + 2 * shape.kvHeads) != 0)
        return std::nullopt;
    shape.d = dims[2] / (shape.heads + 2 * shape.kvHeads);
    constexpr std::int64_t kWidest = 1024; // its sums have to fit into shared memory
    if (shape.d <= 0 || shape.d > kWidest)
        return std::nullopt;
    if (request.hasInput(mask) && (!isInteger(request.inputs[mask]) || request.inSize(mask) != shape.n * shape.t))
        return std::nullopt;
    shape.qkv = from(request, qkv);
    shape.scale = 1.0F / std::sqrt(static_cast<float>(shape.d));
    shape.causal = request.op.integer("causal") != 0 ? 1 : 0;
    return shape;
}

Made makeAttention(const Request &request)
{
    const auto shape = attentionShape(request, 0, 1);
    if (!shape || !request.floatOutputs(1) || request.outSize(0) != shape->n * shape->t * shape->heads * shape->d
        || (request.hasOutput(1)
            && (request.outSize(1) != shape->n * shape->heads * shape->t || !isFull(request.outputs[1]))))
        return onlyOnHost(request);
    AttentionForward kernel;
    kernel.shape = *shape;
    kernel.y = to(request, 0);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        AttentionShape &s = kernel.shape;
        s.qkv.data = in[0];
        s.mask = static_cast<const std::int64_t *>(given(in, 1));
        kernel.y.data = out[0];
        kernel.logSumExp.data = given(out, 1);
        queue.rows(kernel, s.n * s.heads * s.t, s.d, 1);
    });
}

Made makeAttentionGrad(const Request &request)
{
    const auto shape = attentionShape(request, 1, 4);
    const std::int64_t size = shape ? shape->n * shape->t * shape->heads * shape->d : 0;
    if (!shape || !request.floatInputs(4) || !request.floatOutputs(1) || request.inSize(0) != size
        || request.inSize(2) != size || request.inSize(3) != shape->n * shape->heads * shape->t
        || !isFull(request.inputs[3]) || request.outSize(0) != request.inSize(1))
        return onlyOnHost(request);
    AttentionQueryGradient queries;
    queries.shape = *shape;
    queries.saved = {from(request, 0), from(request, 2), from(request, 3)};
    queries.dQkv = to(request, 0);
    return makeFunction([queries](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        AttentionShape &s = queries.shape;
        s.qkv.data = in[1];
        s.mask = static_cast<const std::int64_t *>(given(in, 4));
        queries.saved.dy.data = in[0];
        queries.saved.y.data = in[2];
        queries.saved.logSumExp.data = in[3];
        queries.dQkv.data = out[0];
        AttentionKeyGradient keys;
        keys.shape = s;
        keys.saved = queries.saved;
        keys.dQkv = queries.dQkv;
        queue.rows(queries, s.n * s.heads * s.t, s.d, 1);
        queue.rows(keys, s.n * s.kvHeads * s.t, 2 * s.d, 2);
    });
}

/// (T, D / 2) cosines, then as many sines.
std::vector<float> rotaryAngles(const graph::Op &op, std::int64_t t, std::int64_t half)
{
    std::vector<double> frequencies = op.numbers("inverse_frequencies");
    const double theta = op.number("theta", 10000.0);
    for (std::int64_t i = 0; i < half && !op.has("inverse_frequencies"); ++i)
        frequencies.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(half)));
    std::vector<float> angles;
    if (static_cast<std::int64_t>(frequencies.size()) != half)
        return angles;
    for (const bool sines : {false, true})
        for (std::int64_t position = 0; position < t; ++position)
            for (const double frequency : frequencies) {
                const double angle = static_cast<double>(position) * frequency;
                angles.push_back(static_cast<float>(sines ? std::sin(angle) : std::cos(angle)));
            }
    return angles;
}

Made makeRotation(const Request &request, float direction)
{
    const auto shape = attentionShape(request, 0, 1);
    if (!shape || shape->d % 2 != 0 || !request.floatOutputs(1) || request.outSize(0) != request.inSize(0))
        return onlyOnHost(request);
    const std::vector<float> angles = rotaryAngles(request.op, shape->t, shape->d / 2);
    if (angles.empty())
        return onlyOnHost(request);
    auto table = uploaded(request.device, angles.data(), static_cast<std::int64_t>(angles.size() * sizeof(float)));
    if (!table)
        return table.error();
    Rotate kernel;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.cosines = reinterpret_cast<const float *>((*table)->data());
    kernel.t = shape->t;
    kernel.half = shape->d / 2;
    kernel.turned = shape->heads + shape->kvHeads;
    kernel.heads = shape->heads + 2 * shape->kvHeads;
    kernel.tokens = shape->n * shape->t;
    kernel.direction = direction;
    return makeFunction([kernel, kept = *table](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        queue.items(kernel, kernel.tokens * kernel.heads * kernel.half);
    });
}
Made makeRotary(const Request &request) { return makeRotation(request, 1.0F); }
Made makeRotaryGrad(const Request &request) { return makeRotation(request, -1.0F); }

constexpr OperatorEntry kAttention[] = {
    {"Attention", makeAttention},
    {"AttentionGrad", makeAttentionGrad},
    {"RotaryEmbedding", makeRotary},
    {"RotaryEmbeddingGrad", makeRotaryGrad},
};

} // namespace

std::span<const OperatorEntry> attentionOperators() { return kAttention; }

} // namespace planloom::cuda

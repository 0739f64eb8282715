// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/operator_support.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

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

/// The largest tiles that @p floats of a kernel have room for in a block's shared memory.
AttentionTiles tilesFor(std::int64_t d, std::int64_t (AttentionTiles::*floats)(std::int64_t) const)
{
    constexpr std::int64_t kShared = 48 << 10; // bytes that every GPU gives a block without being asked
    const std::int64_t room = kShared / std::int64_t{sizeof(float)} - 2 * std::int64_t{kRowThreads};
    AttentionTiles tiles;
    while (tiles.keys > 1 && (tiles.*floats)(d) > room) {
        tiles.keys = std::max<std::int64_t>(1, tiles.keys / 2);
        if ((tiles.*floats)(d) > room)
            tiles.queries = std::max<std::int64_t>(1, tiles.queries / 2);
    }
    return tiles;
}

std::int64_t tilesOf(std::int64_t tokens, std::int64_t tile) { return (tokens + tile - 1) / tile; }

bool isHalf(const device::Argument &argument) { return argument.present && argument.type == graph::DType::BF16; }

/// Calls @p make with the kernels for heads of 64 or 128, as a number's type; false: there are none for these tensors.
template <class F>
bool withTiles(const AttentionShape &shape, bool halves, F make)
{
    if (!halves || (shape.d != 64 && shape.d != 128) || shape.t > std::numeric_limits<std::int32_t>::max())
        return false;
    if (shape.d == 64)
        make(std::integral_constant<int, 64>());
    else
        make(std::integral_constant<int, 128>());
    return true;
}

template <int D>
Made makeFlashAttention(const AttentionShape &shape)
{
    FlashForward<D> kernel;
    kernel.shape = shape;
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        AttentionShape &s = kernel.shape;
        s.qkv.data = in[0];
        s.mask = static_cast<const std::int64_t *>(given(in, 1));
        kernel.y = static_cast<std::uint16_t *>(out[0]);
        kernel.logSumExp = static_cast<float *>(given(out, 1));
        queue.blocks(kernel, s.n * s.heads * kernel.tilesOfHead(), kFlashThreads, kernel.kExtra);
    });
}

template <int D>
Made makeFlashGradient(const Request &request, const AttentionShape &shape)
{
    auto means = scratchOf<float>(request, shape.n * shape.heads * shape.t);
    if (!means)
        return means.error();
    FlashMeans<D> mean;
    mean.shape = shape;
    mean.made = at<float>(*means);
    return makeFunction([mean, kept = *means](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        AttentionShape &s = mean.shape;
        s.qkv.data = in[1];
        s.mask = static_cast<const std::int64_t *>(given(in, 4));
        mean.dy = static_cast<const std::uint16_t *>(in[0]);
        mean.y = static_cast<const std::uint16_t *>(in[2]);
        mean.logSumExp = static_cast<const float *>(in[3]);
        mean.means = mean.made;
        mean.dQkv = static_cast<std::uint16_t *>(out[0]);
        const FlashQueryGradient<D> queries{mean};
        const FlashKeyGradient<D> keys{mean};
        queue.items(mean, s.n * s.heads * s.t);
        queue.blocks(queries, s.n * s.heads * tilesOf(s.t, kFlashRows), kFlashThreads, queries.kExtra);
        queue.blocks(keys, s.n * s.kvHeads * tilesOf(s.t, kFlashRows), kFlashThreads, keys.kExtra);
    });
}

Made makeAttention(const Request &request)
{
    const auto shape = attentionShape(request, 0, 1);
    if (!shape || !request.floatOutputs(1) || request.outSize(0) != shape->n * shape->t * shape->heads * shape->d
        || (request.hasOutput(1)
            && (request.outSize(1) != shape->n * shape->heads * shape->t || !isFull(request.outputs[1]))))
        return onlyOnHost(request);
    std::optional<Made> flash;
    if (withTiles(*shape, isHalf(request.inputs[0]) && isHalf(request.outputs[0]),
                  [&](auto d) { flash = makeFlashAttention<d>(*shape); }))
        return std::move(*flash);
    AttentionForward kernel;
    kernel.shape = *shape;
    kernel.tiles = tilesFor(shape->d, &AttentionTiles::forward);
    kernel.y = to(request, 0);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        AttentionShape &s = kernel.shape;
        s.qkv.data = in[0];
        s.mask = static_cast<const std::int64_t *>(given(in, 1));
        kernel.y.data = out[0];
        kernel.logSumExp.data = given(out, 1);
        queue.rows(kernel, s.n * s.heads * tilesOf(s.t, kernel.tiles.queries), kernel.tiles.forward(s.d));
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
    std::optional<Made> flash;
    if (withTiles(*shape,
                  isHalf(request.inputs[0]) && isHalf(request.inputs[1]) && isHalf(request.inputs[2])
                      && isHalf(request.outputs[0]),
                  [&](auto d) { flash = makeFlashGradient<d>(request, *shape); }))
        return std::move(*flash);
    auto means = scratchOf<float>(request, shape->n * shape->heads * shape->t);
    if (!means)
        return means.error();
    AttentionMeans mean;
    mean.shape = *shape;
    mean.saved = {from(request, 0), from(request, 2), from(request, 3), at<float>(*means)};
    AttentionQueryGradient queries;
    queries.tiles = tilesFor(shape->d, &AttentionTiles::queryGradient);
    queries.dQkv = to(request, 0);
    AttentionKeyGradient keys;
    keys.tiles = tilesFor(shape->d, &AttentionTiles::keyGradient);
    keys.dQkv = queries.dQkv;
    return makeFunction([mean, queries, keys, kept = *means](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        AttentionShape &s = mean.shape;
        s.qkv.data = in[1];
        s.mask = static_cast<const std::int64_t *>(given(in, 4));
        mean.saved.dy.data = in[0];
        mean.saved.y.data = in[2];
        mean.saved.logSumExp.data = in[3];
        queries.shape = keys.shape = s;
        queries.saved = keys.saved = mean.saved;
        queries.dQkv.data = keys.dQkv.data = out[0];
        queue.items(mean, s.n * s.heads * s.t);
        queue.rows(queries, s.n * s.heads * tilesOf(s.t, queries.tiles.queries), queries.tiles.queryGradient(s.d));
        queue.rows(keys, s.n * s.kvHeads * tilesOf(s.t, keys.tiles.keys), keys.tiles.keyGradient(s.d));
    });
}

/// (T, pairs) cosines, then as many sines; empty if there are more pairs than @p half.
std::vector<float> rotaryAngles(const graph::Op &op, std::int64_t t, std::int64_t half)
{
    std::vector<double> frequencies = op.numbers("inverse_frequencies");
    const double theta = op.number("theta", 10000.0);
    for (std::int64_t i = 0; i < half && !op.has("inverse_frequencies"); ++i)
        frequencies.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(half)));
    std::vector<float> angles;
    if (static_cast<std::int64_t>(frequencies.size()) > half)
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
    kernel.pairs = static_cast<std::int64_t>(angles.size()) / (2 * shape->t);
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

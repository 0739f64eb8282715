// SPDX-License-Identifier: Apache-2.0
// ViT.
#include "engine/graph/zoo/transformer_builder.h"

namespace planloom::graph {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A learned token, then the patches row by row, all with their positions: [N, 1 + patches, hidden].
TensorId patches(TransformerBuilder &b, const VisionTransformerConfig &config)
{
    const auto scope = b.scope("embeddings");
    const std::string prefix = "vit.embeddings.";
    const std::int64_t width = config.sizes.hidden;
    const std::int64_t size = config.patchSize;
    const std::int64_t side = config.imageSize / size;
    const Initializer random = normal(config.sizes.initDeviation);
    const std::string projection = prefix + "patch_embeddings.projection";
    TensorId x =
        b.add("Conv",
              {b.images,
               b.builder().parameter(projection + ".weight", Shape::of({width, config.channels, size, size}), random),
               b.builder().parameter(projection + ".bias", Shape::of({width}), zeros())},
              {{"kernel_shape", Sizes{size, size}},
               {"strides", Sizes{size, size}},
               {"pads", Sizes(4, 0)},
               {"dilations", Sizes{1, 1}},
               {"group", std::int64_t{1}}},
              "projection");
    x = b.add("Transpose", {b.reshaped(x, {1, width, side * side}, "patches")}, {{"perm", Sizes{0, 2, 1}}},
              "patches.rows");
    const TensorId first = b.builder().parameter(prefix + "cls_token", Shape::of({1, 1, width}), random);
    const TensorId firsts =
        b.add("Expand", {first}, {{"shape", Sizes{1, 1, width}}, {"batch_axis", std::int64_t{0}}}, "cls_tokens");
    x = b.add("Concat", {firsts, x}, {{"axis", std::int64_t{1}}}, "with_cls_token");
    const TensorId places =
        b.builder().parameter(prefix + "position_embeddings", Shape::of({1, 1 + side * side, width}), random);
    return b.add("Add", {x, places}, {}, "with_positions");
}

TensorId visionLayer(TransformerBuilder &b, const VisionTransformerConfig &config, std::int64_t index, TensorId x)
{
    const TransformerConfig &sizes = config.sizes;
    const std::string prefix = "vit.encoder.layer." + std::to_string(index);
    const std::int64_t width = sizes.hidden;
    const auto layer = b.scope("encoder/layer/" + std::to_string(index));
    const TensorId first = b.layerNorm(x, prefix + ".layernorm_before", *sizes.epsilon, "layernorm_before");
    {
        const auto attention = b.scope("attention");
        const TensorId packed =
            b.packedProjections(first, prefix + ".attention.attention", {"query", "key", "value"}, config.qkvBias);
        const TensorId mixed =
            b.add("Attention", {packed}, {{"heads", sizes.heads}, {"causal", std::int64_t{0}}}, "self");
        const TensorId projected = b.linear(mixed, prefix + ".attention.output.dense", width, width, true, "dense");
        x = b.add("Add", {x, projected}, {}, "residual");
    }
    const TensorId second = b.layerNorm(x, prefix + ".layernorm_after", *sizes.epsilon, "layernorm_after");
    const TensorId wide =
        b.linear(second, prefix + ".intermediate.dense", width, sizes.feedForward, true, "intermediate");
    const TensorId active = b.activation(wide, *sizes.activation, "act");
    const TensorId projected = b.linear(active, prefix + ".output.dense", sizes.feedForward, width, true, "output");
    return b.add("Add", {x, projected}, {}, "residual");
}

Status checkVision(const VisionTransformerConfig &config)
{
    const TransformerConfig &sizes = config.sizes;
    if (const Status fits = checkSizes(sizes, sizes.heads); !fits)
        return fits;
    const std::string model = "model '" + sizes.name + "': ";
    if (sizes.hidden % sizes.heads != 0)
        return badInput(model + "the hidden size " + std::to_string(sizes.hidden) + " is not a multiple of the "
                        + std::to_string(sizes.heads) + " heads");
    constexpr std::int64_t kMostPixels = 1 << 14; // of a side
    for (const std::int64_t size : {config.imageSize, config.patchSize, config.channels})
        if (size < 1 || size > kMostPixels)
            return badInput(model + "sizes of images must lie between 1 and " + std::to_string(kMostPixels));
    if (config.patchSize > config.imageSize)
        return badInput(model + "images of " + std::to_string(config.imageSize) + " pixels have no patch of "
                        + std::to_string(config.patchSize));
    constexpr std::int64_t kMostClasses = 1 << 24;
    if (config.classes < 2 || config.classes > kMostClasses)
        return badInput(model + "a classifier has 2 to " + std::to_string(kMostClasses) + " classes");
    return {};
}

} // namespace

Result<Graph> visionTransformer(const VisionTransformerConfig &config)
{
    if (const Status fits = checkVision(config); !fits)
        return fits.error();
    const TransformerConfig &sizes = config.sizes;
    TransformerBuilder b(sizes, config.channels, config.imageSize);
    TensorId x = patches(b, config);
    for (std::int64_t i = 0; i < sizes.layers; ++i)
        x = visionLayer(b, config, i, x);
    const auto head = b.scope("head");
    x = b.layerNorm(x, "vit.layernorm", *sizes.epsilon, "layernorm");
    x = b.add("Slice", {x}, {{"starts", Sizes{0}}, {"ends", Sizes{1}}, {"axes", Sizes{1}}, {"steps", Sizes{1}}},
              "cls_token");
    x = b.reshaped(x, {1, sizes.hidden}, "cls_token.rows");
    return b.finishClasses(b.linear(x, "classifier", sizes.hidden, config.classes, true, "classifier"));
}

} // namespace planloom::graph

// SPDX-License-Identifier: Apache-2.0
// T5.
#include "engine/graph/zoo/transformer_builder.h"

#include <algorithm>
#include <cmath>

namespace planloom::graph {
namespace {

/// One of the two stacks of layers.
struct T5Stack {
    const char *name; ///< "encoder" or "decoder"
    std::int64_t layers;
    bool causal;
};

class T5Builder {
public:
    explicit T5Builder(const T5Config &config) : m_config(config), m_b(config.sizes)
    {
        m_decoderTokens = m_b.builder().input("decoder_tokens", DType::I64, Shape::batched({config.sizes.context}));
    }

    Result<Graph> build()
    {
        const TransformerConfig &sizes = m_config.sizes;
        m_table = m_b.matrix("shared.weight", sizes.vocabulary, sizes.hidden, m_config.initFactor);
        const TensorId memory = stack({"encoder", sizes.layers, false}, m_b.tokens, {});
        TensorId x = stack({"decoder", m_config.decoderLayers, true}, m_decoderTokens, memory);
        const auto head = m_b.scope("head");
        if (sizes.tiedEmbeddings)
            x = m_b.scaled(x, 1 / std::sqrt(static_cast<double>(sizes.hidden)), "head_scale", "scaled");
        return m_b.finish(x,
                          sizes.tiedEmbeddings
                              ? m_table
                              : m_b.matrix("lm_head.weight", sizes.vocabulary, sizes.hidden, m_config.initFactor),
                          {});
    }

private:
    using Sizes = std::vector<std::int64_t>;

    [[nodiscard]] std::int64_t inner() const { return m_config.sizes.heads * m_config.headSize; }

    /// @p memory: the encoder's result, of a decoder.
    TensorId stack(const T5Stack &which, TensorId tokens, TensorId memory)
    {
        const std::string prefix = std::string(which.name) + ".";
        TensorId x;
        {
            const auto scope = m_b.scope(std::string(which.name) + "/embedding");
            x = m_b.add("Gather", {m_table, tokens}, {}, "embed_tokens");
        }
        const TensorId places = m_b.matrix(prefix + "block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                                           m_config.buckets, m_config.sizes.heads, deviation(m_config.sizes.hidden));
        const TensorId distances = m_b.builder().constantInts(prefix + "buckets", bucketsOf(which.causal));
        for (std::int64_t i = 0; i < which.layers; ++i) {
            const auto scope = m_b.scope(std::string(which.name) + "/block/" + std::to_string(i));
            const std::string block = prefix + "block." + std::to_string(i) + ".layer.";
            const TensorId bias = placeBias(places, distances, which.causal);
            const TensorId first = norm(x, block + "0.layer_norm");
            x = added(x, attention(first, first, block + "0.SelfAttention", bias));
            if (memory.valid())
                x = added(x, attention(norm(x, block + "1.layer_norm"), memory, block + "1.EncDecAttention", {}));
            const std::string last = block + (memory.valid() ? "2" : "1");
            x = added(x, feedForward(norm(x, last + ".layer_norm"), last + ".DenseReluDense"));
        }
        const auto scope = m_b.scope(std::string(which.name) + "/norm");
        return norm(x, prefix + "final_layer_norm");
    }

    /// Of a linear layer with @p inputs, as transformers starts T5's.
    [[nodiscard]] double deviation(std::int64_t inputs) const
    {
        return m_config.initFactor / std::sqrt(static_cast<double>(inputs));
    }

    TensorId added(TensorId x, TensorId result) { return m_b.add("Add", {x, result}, {}, "residual"); }

    TensorId norm(TensorId x, const std::string &parameter)
    {
        const TensorId scale =
            m_b.builder().parameter(parameter + ".weight", Shape::of({m_config.sizes.hidden}), ones());
        return m_b.add("RMSNormalization", {x, scale},
                       {{"axis", std::int64_t{-1}}, {"epsilon", *m_config.sizes.epsilon}}, "layer_norm");
    }

    TensorId product(TensorId x, const std::string &parameter, std::int64_t in, std::int64_t out, double deviation)
    {
        return m_b.add("MatMul", {x, m_b.matrix(parameter + ".weight", out, in, deviation)},
                       {{"transB", std::int64_t{1}}}, parameter.substr(parameter.rfind('.') + 1));
    }

    /// The bucket of each distance from a query to a key: 0 ... T - 1, one that no pair has, -(T - 1) ... -1
    /// (transformers' _relative_position_bucket, in single precision as there).
    [[nodiscard]] Sizes bucketsOf(bool causal) const
    {
        const std::int64_t tokens = m_config.sizes.context;
        const std::int64_t count = causal ? m_config.buckets : m_config.buckets / 2;
        const std::int64_t exact = count / 2;
        const auto span =
            static_cast<float>(std::log(static_cast<double>(m_config.maxDistance) / static_cast<double>(exact)));
        Sizes all;
        for (std::int64_t i = 0; i < 2 * tokens; ++i) {
            const std::int64_t distance = i < tokens ? i : i - 2 * tokens;
            const std::int64_t far = causal ? std::max<std::int64_t>(-distance, 0) : std::abs(distance);
            std::int64_t bucket = far;
            if (far >= exact) {
                const float share = std::log(static_cast<float>(far) / static_cast<float>(exact)) / span;
                bucket =
                    std::min(exact + static_cast<std::int64_t>(share * static_cast<float>(count - exact)), count - 1);
            }
            all.push_back(bucket + (!causal && distance > 0 ? count : 0));
        }
        return all;
    }

    /// [heads, T, T]: what is added to the scores. The 2T distances of a head are laid out T times in a row and cut
    /// into rows of 2T - 1, so that each row begins one distance earlier.
    TensorId placeBias(TensorId places, TensorId distances, bool causal)
    {
        const auto scope = m_b.scope("relative_attention_bias");
        const std::int64_t tokens = m_config.sizes.context;
        const std::int64_t heads = m_config.sizes.heads;
        const auto cut = [&](TensorId x, std::int64_t axis, std::int64_t end, const std::string &name) {
            return m_b.add("Slice", {x},
                           {{"starts", Sizes{0}}, {"ends", Sizes{end}}, {"axes", Sizes{axis}}, {"steps", Sizes{1}}},
                           name);
        };
        TensorId x = m_b.add("Gather", {places, distances}, {}, "distances");
        x = m_b.add("Transpose", {x}, {{"perm", Sizes{1, 0}}}, "by_head");
        x = cut(m_b.add("Tile", {x}, {{"repeats", Sizes{1, tokens}}}, "repeated"), 1, tokens * (2 * tokens - 1), "all");
        x = m_b.add("Reshape", {x}, {{"shape", Sizes{heads, tokens, 2 * tokens - 1}}}, "rows");
        x = cut(x, 2, tokens, "bias");
        if (!causal)
            return x;
        constexpr double kHidden = -1e9; // no probability is left of it
        const TensorId hidden =
            m_b.add("ConstantOfShape", {}, {{"shape", Sizes{tokens, tokens}}, {"value", kHidden}}, "hidden");
        return m_b.add("Add",
                       {x, m_b.add("Trilu", {hidden}, {{"upper", std::int64_t{1}}, {"k", std::int64_t{1}}}, "mask")},
                       {}, "causal");
    }

    /// [N, T, heads * size] as [N, heads, T, size].
    TensorId byHead(TensorId x, const std::string &name)
    {
        const Sizes apart{1, m_config.sizes.context, m_config.sizes.heads, m_config.headSize};
        return m_b.add("Transpose", {m_b.reshaped(x, apart, name + ".heads")}, {{"perm", Sizes{0, 2, 1, 3}}},
                       name + ".by_head");
    }

    /// Of @p x to @p memory; the scores are not divided.
    TensorId attention(TensorId x, TensorId memory, const std::string &parameter, TensorId bias)
    {
        const auto scope = m_b.scope(parameter.substr(parameter.rfind('.') + 1));
        const std::int64_t width = m_config.sizes.hidden;
        const double start = deviation(width);
        const double queryStart = start / std::sqrt(static_cast<double>(m_config.headSize));
        const TensorId query = byHead(product(x, parameter + ".q", width, inner(), queryStart), "query");
        const TensorId key = byHead(product(memory, parameter + ".k", width, inner(), start), "key");
        const TensorId value = byHead(product(memory, parameter + ".v", width, inner(), start), "value");
        TensorId scores = m_b.add("MatMul", {query, key}, {{"transB", std::int64_t{1}}}, "scores");
        if (bias.valid())
            scores = m_b.add("Add", {scores, bias}, {}, "scores.biased");
        const TensorId shares = m_b.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}}, "probabilities");
        TensorId mixed = m_b.add("MatMul", {shares, value}, {}, "mixed");
        mixed = m_b.add("Transpose", {mixed}, {{"perm", Sizes{0, 2, 1, 3}}}, "mixed.by_token");
        return product(m_b.reshaped(mixed, {1, m_config.sizes.context, inner()}, "mixed.rows"), parameter + ".o",
                       inner(), width, deviation(inner()));
    }

    TensorId feedForward(TensorId x, const std::string &parameter)
    {
        const auto scope = m_b.scope("DenseReluDense");
        const std::int64_t width = m_config.sizes.hidden;
        const std::int64_t wide = m_config.sizes.feedForward;
        const double start = deviation(width);
        TensorId active = m_b.activation(product(x, parameter + (m_config.gated ? ".wi_0" : ".wi"), width, wide, start),
                                         *m_config.sizes.activation, "act");
        if (m_config.gated)
            active = m_b.add("Mul", {active, product(x, parameter + ".wi_1", width, wide, start)}, {}, "gated");
        return product(active, parameter + ".wo", wide, width, deviation(wide));
    }

    const T5Config &m_config;
    TransformerBuilder m_b;
    TensorId m_decoderTokens;
    TensorId m_table;
};

} // namespace

Result<Graph> t5(const T5Config &config)
{
    if (const Status fits = checkSizes(config.sizes, config.sizes.heads); !fits)
        return fits.error();
    const std::string model = "model '" + config.sizes.name + "': ";
    constexpr std::int64_t kMost = 1 << 16;
    for (const std::int64_t size :
         {config.decoderLayers, config.headSize, config.buckets, config.maxDistance, config.sizes.context})
        if (size < 1 || size > kMost)
            return badInput(model
                            + "layers of the decoder, a head's size, buckets, distances and tokens must lie between 1 "
                              "and "
                            + std::to_string(kMost));
    if (config.buckets < 4 || config.maxDistance <= config.buckets / 2)
        return badInput(model + "distances need 4 buckets or more, and must reach beyond half of them");
    return T5Builder(config).build();
}

} // namespace planloom::graph

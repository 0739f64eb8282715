// SPDX-License-Identifier: Apache-2.0
// What the builders of transformers share. For .cpp files of this folder only.
#pragma once

#include "engine/graph/zoo/zoo.h"

#include <array>
#include <numeric>

namespace planloom::graph {

inline Initializer zeros() { return {Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0}; }

inline Initializer ones() { return {Initializer::Kind::Ones, 0, 0, nullptr, {}, 0}; }

/// Errors (BadInput): a size is out of range, or key-value heads that do not divide the heads.
Status checkSizes(const TransformerConfig &config, std::int64_t kvHeads);

/// Shared by the architectures: scopes that pop by themselves, linear layers, normalisations, the head.
class TransformerBuilder {
public:
    explicit TransformerBuilder(const TransformerConfig &config) : m_config(config), m_builder(config.name)
    {
        tokens = m_builder.input("tokens", DType::I64, Shape::batched({config.context}));
        labels = m_builder.input("labels", DType::I64, Shape::batched({config.context}));
    }
    /// A classifier of images [N, channels, size, size]; tokens stays invalid.
    TransformerBuilder(const TransformerConfig &config, std::int64_t channels, std::int64_t size)
        : m_config(config),
          m_builder(config.name)
    {
        images = m_builder.input("x", DType::F32, Shape::batched({channels, size, size}));
        labels = m_builder.input("labels", DType::I64, Shape::batched({}));
    }

    class Scope {
    public:
        Scope(GraphBuilder &builder, const std::string &name) : m_builder(builder) { builder.pushScope(name); }
        Scope(const Scope &) = delete;
        Scope &operator=(const Scope &) = delete;
        ~Scope() { m_builder.popScope(); }

    private:
        GraphBuilder &m_builder;
    };

    [[nodiscard]] Scope scope(const std::string &name) { return {m_builder, name}; }
    GraphBuilder &builder() { return m_builder; }
    TensorId add(const std::string &type, std::vector<TensorId> inputs, Attributes attributes = {},
                 std::string name = {})
    {
        return m_builder.add(type, std::move(inputs), std::move(attributes), std::move(name));
    }

    TensorId activation(TensorId x, Activation kind, const std::string &name)
    {
        switch (kind) {
        case Activation::Gelu: return add("Gelu", {x}, {{"approximate", std::string("none")}}, name);
        case Activation::GeluTanh: return add("Gelu", {x}, {{"approximate", std::string("tanh")}}, name);
        case Activation::Relu: return add("Relu", {x}, {}, name);
        case Activation::Silu: break;
        }
        return add("Silu", {x}, {}, name);
    }

    TensorId matrix(const std::string &name, std::int64_t rows, std::int64_t columns, double deviation)
    {
        return m_builder.parameter(name, Shape::of({rows, columns}), normal(deviation));
    }

    /// The rows of a table for @p first ... first + context - 1, or for as many zeros: [T, hidden], the same for every
    /// sample.
    TensorId rows(const std::string &parameter, std::int64_t count, const std::string &constant, bool ascending,
                  const std::string &name, std::int64_t first = 0)
    {
        std::vector<std::int64_t> ids(static_cast<std::size_t>(m_config.context), 0);
        if (ascending)
            std::iota(ids.begin(), ids.end(), first);
        const TensorId table = matrix(parameter, count, m_config.hidden, m_config.initDeviation);
        return add("Gather", {table, m_builder.constantInts(constant, ids)}, {}, name);
    }

    /// x W + b with W stored (in, out), as GPT-2's Conv1D does.
    TensorId conv1d(TensorId x, const std::string &parameter, std::int64_t in, std::int64_t out, double deviation,
                    const std::string &name)
    {
        const TensorId product = add("MatMul", {x, matrix(parameter + ".weight", in, out, deviation)}, {}, name);
        return bias(product, parameter, out, name);
    }

    /// x W^T (+ b) with W stored (out, in), as torch's Linear does.
    TensorId linear(TensorId x, const std::string &parameter, std::int64_t in, std::int64_t out, bool withBias,
                    const std::string &name)
    {
        const TensorId weight = matrix(parameter + ".weight", out, in, m_config.initDeviation);
        const TensorId product = add("MatMul", {x, weight}, {{"transB", std::int64_t{1}}}, name);
        return withBias ? bias(product, parameter, out, name) : product;
    }

    TensorId layerNorm(TensorId x, const std::string &parameter, double epsilon, const std::string &name)
    {
        const TensorId scale = m_builder.parameter(parameter + ".weight", Shape::of({m_config.hidden}), ones());
        const TensorId shift = m_builder.parameter(parameter + ".bias", Shape::of({m_config.hidden}), zeros());
        return add("LayerNormalization", {x, scale, shift}, {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}}, name);
    }

    /// Q, K and V projections of the whole width stored apart, packed as Attention wants them.
    TensorId packedProjections(TensorId x, const std::string &parameter, const std::array<const char *, 3> &names,
                               bool withBias = true)
    {
        std::vector<TensorId> parts;
        for (std::size_t i = 0; i < names.size(); ++i)
            parts.push_back(
                linear(x, parameter + "." + names[i], m_config.hidden, m_config.hidden, withBias, names[i]));
        return add("Concat", parts, {{"axis", std::int64_t{-1}}}, "qkv");
    }

    /// x times a constant, which gets the name @p constant; x itself where that is 1.
    TensorId scaled(TensorId x, double factor, const std::string &constant, const std::string &name)
    {
        return factor == 1 ? x : add("Mul", {x, m_builder.constantFloats(constant, {}, factor)}, {}, name);
    }

    TensorId reshaped(TensorId x, std::vector<std::int64_t> sampleShape, const std::string &name)
    {
        return add("Reshape", {x}, {{"shape", std::move(sampleShape)}, {"batch_axis", std::int64_t{0}}}, name);
    }

    /// most * tanh(factor * x / most); x itself where @p most is 0.
    TensorId softCapped(TensorId x, double most, double factor, const std::string &constant, const std::string &name)
    {
        if (most == 0)
            return x;
        x = add("Tanh", {scaled(x, factor / most, constant + ".share", name + ".share")}, {}, name + ".tanh");
        return scaled(x, most, constant, name + ".capped");
    }

    /// Mean cross-entropy of rows x table^T (+ bias) against the labels. @p logitCap: see softCapped().
    Result<Graph> finish(TensorId x, TensorId table, TensorId outputBias, double logitScale = 1, double logitCap = 0)
    {
        const std::int64_t width = m_builder.tensor(table).shape[1].size;
        // [N, T, C] -> [N*T, C]: before the product with the vocabulary, where a copy is small.
        const TensorId rowsOfAll = reshaped(x, {m_config.context, width}, "rows");
        TensorId logits = add("MatMul", {rowsOfAll, table}, {{"transB", std::int64_t{1}}}, "logits");
        logits = scaled(logits, logitScale, "logit_scale", "logits.scaled");
        logits = softCapped(logits, logitCap, 1, "logit_cap", "logits");
        if (outputBias.valid())
            logits = add("Add", {logits, outputBias}, {}, "logits.bias");
        const TensorId targets =
            add("Reshape", {labels},
                {{"shape", std::vector<std::int64_t>{m_config.context}}, {"batch_axis", std::int64_t{0}}}, "targets");
        const TensorId loss =
            add("SoftmaxCrossEntropyLoss", {logits, targets}, {{"ignore_index", std::int64_t{-100}}}, "loss");
        m_builder.output(loss);
        m_builder.loss(loss);
        return std::move(m_builder).build();
    }

    /// Mean cross-entropy of class scores [N, classes] against the labels.
    Result<Graph> finishClasses(TensorId scores)
    {
        const TensorId loss =
            add("SoftmaxCrossEntropyLoss", {scores, labels}, {{"ignore_index", std::int64_t{-100}}}, "loss");
        m_builder.output(loss);
        m_builder.loss(loss);
        return std::move(m_builder).build();
    }

    TensorId tokens;
    TensorId images;
    TensorId labels;

private:
    TensorId bias(TensorId x, const std::string &parameter, std::int64_t size, const std::string &name)
    {
        const TensorId term = m_builder.parameter(parameter + ".bias", Shape::of({size}), zeros());
        return add("Add", {x, term}, {}, name + ".bias");
    }

    const TransformerConfig &m_config;
    GraphBuilder m_builder;
};

} // namespace planloom::graph

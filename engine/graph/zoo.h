// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

namespace planloom::graph {

struct TransformerConfig {
    std::string name = "gpt";
    std::int64_t layers = 12;
    std::int64_t heads = 12;
    std::int64_t hidden = 768;
    std::int64_t feedForward = 3072;
    std::int64_t vocabulary = 50257;
    std::int64_t context = 1024;       ///< tokens per sample, and rows of the position table
    bool tiedEmbeddings = true;        ///< the head shares the token table
    double initDeviation = 0.02;
};

/// GPT-2 (pre-norm, learned positions, tanh GELU), inputs "tokens" and "labels" (N, T) int64, scalar loss.
Result<Graph> gpt(const TransformerConfig &config);
/// BERT encoder with masked-token loss (labels -100 where not predicted).
Result<Graph> bert(const TransformerConfig &config);
/// LLaMA (RMSNorm, rotary positions, SwiGLU; grouped-query attention if kvHeads < heads).
Result<Graph> llama(const TransformerConfig &config, std::int64_t kvHeads, double ropeTheta, double epsilon);
/// Multi-layer perceptron: inputs "x" (N, sizes[0]) and "labels" (N), ReLU between, softmax cross-entropy.
Result<Graph> mlp(const std::string &name, const std::vector<std::int64_t> &sizes);
Result<Graph> vgg19();
Result<Graph> resnet50();

} // namespace planloom::graph

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/import.h"

#include <QString>
#include <QStringList>

#include <map>
#include <string>
#include <vector>

namespace planloom::test {

/// A small configuration of each family that Hugging Face's importer builds, as the hub's files are written.
inline std::string smallConfig(const std::string &family)
{
    const std::string layers = R"("num_hidden_layers": 2, "num_attention_heads": 2, )";
    const std::string tokens = R"("vocab_size": 16, "max_position_embeddings": 8, )";
    const std::string narrow = layers + tokens + R"("hidden_size": 8, "intermediate_size": 12, )";
    const std::string wide = layers + tokens + R"("hidden_size": 16, "intermediate_size": 12, )";
    const std::string decoder = narrow + R"("num_key_value_heads": 1, "head_dim": 4, )";
    const std::map<std::string, std::string> others{
        {"bert", wide},
        {"falcon", layers + tokens + R"("hidden_size": 16, )"},
        {"gemma3_text", decoder + R"("sliding_window_pattern": 2, )"}, // a local layer and another one
        {"gpt2", R"("n_layer": 2, "n_head": 2, "n_embd": 8, "vocab_size": 16, "n_positions": 8, )"},
        {"gpt_neox", wide + R"("rotary_pct": 0.5, )"},
        {"opt", layers + tokens + R"("hidden_size": 16, "ffn_dim": 12, )"},
        {"phi", wide + R"("num_key_value_heads": 1, )"},
        {"stablelm", wide + R"("num_key_value_heads": 1, "partial_rotary_factor": 0.5, )"},
        {"starcoder2", wide + R"("num_key_value_heads": 1, )"},
        {"t5", R"("num_layers": 2, "num_heads": 2, "d_model": 8, "d_kv": 4, "d_ff": 12, "vocab_size": 16,
            "n_positions": 8, "relative_attention_num_buckets": 8, )"},
        {"vit", layers + R"("hidden_size": 16, "intermediate_size": 12, "image_size": 8, "patch_size": 4, )"},
    };
    const auto found = others.find(family);
    return "{" + (found != others.end() ? found->second : decoder) + R"("model_type": ")" + family + R"("})";
}

inline QString texts(const std::vector<std::string> &all)
{
    QStringList list;
    for (const std::string &text : all)
        list << QString::fromStdString(text);
    return list.join('\n');
}

} // namespace planloom::test

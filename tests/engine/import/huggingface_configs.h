// SPDX-License-Identifier: Apache-2.0
// Small configurations of the families that Hugging Face's importer builds.
#pragma once

#include "engine/import/import.h"

#include <QString>
#include <QStringList>
#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace planloom::test {

/// A small configuration of each family, as the hub's files are written.
inline nlohmann::json small(const std::string &family)
{
    if (family == "t5")
        return {{"model_type", family}, {"num_layers", 2},  {"num_heads", 2},
                {"d_model", 8},         {"d_kv", 4},        {"d_ff", 12},
                {"vocab_size", 16},     {"n_positions", 8}, {"relative_attention_num_buckets", 8}};
    if (family == "gpt2")
        return {{"model_type", family}, {"n_layer", 2},     {"n_head", 2},
                {"n_embd", 8},          {"vocab_size", 16}, {"n_positions", 8}};
    nlohmann::json config{{"model_type", family},
                          {"num_hidden_layers", 2},
                          {"num_attention_heads", 2},
                          {"hidden_size", 8},
                          {"intermediate_size", 12},
                          {"vocab_size", 16},
                          {"max_position_embeddings", 8},
                          {"num_key_value_heads", 1},
                          {"head_dim", 4}};
    if (family == "gemma3_text")
        config["sliding_window_pattern"] = 2; // a local layer and another one
    static const std::map<std::string, std::vector<const char *>, std::less<>> without{
        {"bert", {"num_key_value_heads", "head_dim"}},
        {"falcon", {"num_key_value_heads", "head_dim", "intermediate_size"}},
        {"gpt_neox", {"num_key_value_heads", "head_dim"}},
        {"opt", {"num_key_value_heads", "head_dim", "intermediate_size"}},
        {"phi", {"head_dim"}},
        {"stablelm", {"head_dim"}},
        {"starcoder2", {"head_dim"}},
        {"vit", {"num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings"}},
    };
    if (const auto found = without.find(family); found != without.end()) {
        config["hidden_size"] = 16;
        for (const char *key : found->second)
            config.erase(key);
    }
    if (family == "opt")
        config["ffn_dim"] = 12;
    if (family == "gpt_neox")
        config["rotary_pct"] = 0.5;
    if (family == "stablelm")
        config["partial_rotary_factor"] = 0.5;
    if (family == "vit")
        config.update({{"image_size", 8}, {"patch_size", 4}});
    return config;
}

inline Result<import::Model> read(const nlohmann::json &config, std::int64_t sequence = 0)
{
    return import::readHuggingFaceConfig(config.dump(1), "config.json", {sequence});
}

inline QString texts(const std::vector<std::string> &all)
{
    QStringList list;
    for (const std::string &text : all)
        list << QString::fromStdString(text);
    return list.join('\n');
}

} // namespace planloom::test

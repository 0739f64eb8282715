// SPDX-License-Identifier: Apache-2.0
#include "engine/import/model/huggingface_families.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace planloom::import {
namespace {

constexpr std::string_view kExperts = "experts, of which each token takes a few, are not built";
constexpr std::string_view kEncoderDecoder = "encoders with a decoder are not built, but for t5";
constexpr std::string_view kImages = "encoders of images are not built from config.json";

constexpr std::pair<std::string_view, std::string_view> kNotBuilt[] = {
    {"bart", kEncoderDecoder},
    {"clip", kImages},
    {"dbrx", kExperts},
    {"deepseek_v2", kExperts},
    {"deepseek_v3", kExperts},
    {"gemma3", "encoders of images are not built; gemma3_text is"},
    {"gpt_oss", kExperts},
    {"granitemoe", kExperts},
    {"jamba", kExperts},
    {"llama4", kExperts},
    {"llama4_text", kExperts},
    {"llava", kImages},
    {"mamba", "state spaces are not built"},
    {"mamba2", "state spaces are not built"},
    {"mixtral", kExperts},
    {"mllama", kImages},
    {"olmoe", kExperts},
    {"phimoe", kExperts},
    {"qwen2_moe", kExperts},
    {"qwen2_vl", kImages},
    {"qwen3_moe", kExperts},
    {"whisper", kEncoderDecoder},
};

} // namespace

std::span<const ModelFamily> modelFamilies()
{
    static const std::vector<ModelFamily> all = [] {
        std::vector<ModelFamily> families;
        for (const auto kind :
             {huggingface::classicFamilies(), huggingface::decoderFamilies(), huggingface::encoderDecoderFamilies()})
            families.insert(families.end(), kind.begin(), kind.end());
        std::sort(families.begin(), families.end(), [](const ModelFamily &a, const ModelFamily &b) {
            return std::string_view(a.type) < std::string_view(b.type);
        });
        return families;
    }();
    return all;
}

std::string_view whyNotBuilt(std::string_view type)
{
    for (const auto &[name, why] : kNotBuilt)
        if (name == type)
            return why;
    return {};
}

} // namespace planloom::import

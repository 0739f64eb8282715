// SPDX-License-Identifier: Apache-2.0
// Published layer profiles: milliseconds and bytes per layer at one profile batch, as the public repository of DAPPLE
// gives them (profiling_results/; the BERT-48 figures are those of its upstream planner HPGO, which the paper's Fig. 11
// follows). 1 MB = 1e6 bytes.
#include "engine/import/model/profile_graph.h"

#include <fmt/format.h>

#include <array>
#include <span>

namespace planloom::import {
namespace {

struct Row {
    const char *name;
    double forwardMs;
    double backwardMs;
    double outputBytes;
    double parameterBytes;
};

// VGG-19 at batch 32.
constexpr std::array kVgg19 = std::to_array<Row>({
    {"Conv2d_1_1", 3.4, 6.8, 384000000, 6835},
    {"Conv2d_1_2", 7.2, 14.4, 384000000, 140869},
    {"MaxPool2d_1", 0.65, 1.3, 96000000, 0},
    {"Conv2d_2_1", 3.4, 6.8, 192000000, 281738},
    {"Conv2d_2_2", 5, 10, 192000000, 562988},
    {"MaxPool2d_2", 0.3, 0.6, 48000000, 0},
    {"Conv2d_3_1", 2.3, 4.6, 96000000, 1125976},
    {"Conv2d_3_2", 3.55, 7.1, 96000000, 2250976},
    {"Conv2d_3_3", 3.55, 7.1, 96000000, 2250976},
    {"Conv2d_3_4", 3.55, 7.1, 96000000, 2250976},
    {"MaxPool2d_3", 0.165, 0.33, 24000000, 0},
    {"Conv2d_4_1", 1.71, 3.42, 48000000, 4501953},
    {"Conv2d_4_2", 2.9, 5.8, 48000000, 9001953},
    {"Conv2d_4_3", 2.88, 5.76, 48000000, 9001953},
    {"Conv2d_4_4", 2.86, 5.72, 48000000, 9001953},
    {"MaxPool2d_4", 0.1, 0.2, 12000000, 0},
    {"Conv2d_5_1", 0.965, 1.93, 12000000, 9001953},
    {"Conv2d_5_2", 0.965, 1.93, 12000000, 9001953},
    {"Conv2d_5_3", 0.96, 1.92, 12000000, 9001953},
    {"Conv2d_5_4", 0.965, 1.93, 12000000, 9001953},
    {"MaxPool2d_5", 0.03, 0.06, 3000000, 0},
    {"FC1", 0.45, 0.9, 500000, 392015625},
    {"FC2", 0.1, 0.2, 500000, 64015625},
    {"Prediction", 0.05, 0.1, 128000, 15628814},
    {"Loss", 0.01, 0.2, 2000000, 0},
});

// AmoebaNet-36 at batch 1. Each cell hands two tensors on; the output is the sum of both, which crosses a cut
// behind it.
constexpr std::array kAmoebaNet36 = std::to_array<Row>({
    {"stem", 0.08, 0.07, 6308352, 3456},
    {"cell_stem_0", 0.61, 1.57, 9633792, 245760},
    {"cell_stem_1", 0.57, 1.73, 4816896, 1327104},
    {"cell_0", 0.97, 2.38, 12845056, 8388608},
    {"cell_1", 1.04, 2.35, 12845056, 11796480},
    {"cell_2", 1.11, 3.04, 12845056, 14417920},
    {"cell_3", 1.04, 2.28, 12845056, 14417920},
    {"cell_4", 1.08, 2.61, 12845056, 14417920},
    {"cell_5", 1.04, 2.33, 12845056, 14417920},
    {"cell_6", 1.11, 3.04, 12845056, 14417920},
    {"cell_7", 1.04, 2.28, 12845056, 14417920},
    {"cell_8", 1.08, 2.61, 12845056, 14417920},
    {"cell_9", 1.04, 2.33, 12845056, 14417920},
    {"cell_10", 1.11, 3.04, 12845056, 14417920},
    {"cell_11", 1.04, 2.28, 12845056, 14417920},
    {"reduction_cell_0", 1.16, 2.51, 4816896, 31195136},
    {"cell_12", 0.97, 2.7, 6422528, 45088768},
    {"cell_13", 0.95, 2.66, 6422528, 53477376},
    {"cell_14", 0.97, 3.44, 6422528, 57671680},
    {"cell_15", 0.99, 2.5, 6422528, 57671680},
    {"cell_16", 0.97, 2.84, 6422528, 57671680},
    {"cell_17", 1, 2.91, 6422528, 57671680},
    {"cell_18", 0.97, 3.44, 6422528, 57671680},
    {"cell_19", 0.99, 2.5, 6422528, 57671680},
    {"cell_20", 0.97, 2.84, 6422528, 57671680},
    {"cell_21", 1, 2.91, 6422528, 57671680},
    {"cell_22", 0.97, 3.44, 6422528, 57671680},
    {"cell_23", 0.99, 2.5, 6422528, 57671680},
    {"reduction_cell_1", 1.27, 3.42, 2408448, 124780544},
    {"cell_24", 1.24, 3.63, 3211264, 180355072},
    {"cell_25", 1.74, 3.65, 3211264, 213909504},
    {"cell_26", 1.66, 3.18, 3211264, 230686720},
    {"cell_27", 1.73, 4.13, 3211264, 230686720},
    {"cell_28", 1.6, 3.62, 3211264, 230686720},
    {"cell_29", 2.01, 4.14, 3211264, 230686720},
    {"cell_30", 1.66, 3.18, 3211264, 230686720},
    {"cell_31", 1.73, 4.13, 3211264, 230686720},
    {"cell_32", 1.6, 3.62, 3211264, 230686720},
    {"cell_33", 2.01, 4.14, 3211264, 230686720},
    {"cell_34", 1.66, 3.18, 1605632, 230686720},
    {"cell_35", 1.73, 4.13, 1605632, 230686720},
    {"final_layer", 0.13, 0.1, 4004, 32804772},
    {"softmax_loss", 0.04, 0, 0, 0},
});

// GNMT-16 at batch 64; dropouts are counted with the recurrent layer that they feed.
constexpr std::array kGnmt16 = std::to_array<Row>({
    {"encoder_embedding", 0.074, 11.748, 9175040, 149749760},
    {"encoder_bidirectional", 7.572, 0.015, 18350080, 67174400},
    {"encoder_lstm_0", 4.743, 8.862, 9175040, 50364416},
    {"encoder_lstm_1", 3.514, 6.624, 9175040, 33587200},
    {"encoder_lstm_2", 3.519, 6.66, 9175040, 33587200},
    {"encoder_lstm_3", 3.505, 6.648, 9175040, 33587200},
    {"encoder_lstm_4", 3.504, 6.648, 9175040, 33587200},
    {"encoder_lstm_5", 3.506, 6.658, 9175040, 33587200},
    {"encoder_lstm_6", 3.51, 7.185, 9175040, 33587200},
    {"decoder_embedding", 0.069, 0.402, 9437184, 149749760},
    {"decoder_attention", 6.948, 10.979, 9437184, 41979904},
    {"attention_context", 0, 0, 262144, 0},
    {"decoder_lstm_0", 4.687, 8.681, 9437184, 50364416},
    {"decoder_lstm_1", 4.679, 8.687, 9437184, 50364416},
    {"decoder_lstm_2", 4.675, 8.672, 9437184, 50364416},
    {"decoder_lstm_3", 4.68, 8.7, 9437184, 50364416},
    {"decoder_lstm_4", 4.681, 8.671, 9437184, 50364416},
    {"decoder_lstm_5", 4.691, 8.686, 9437184, 50364416},
    {"decoder_lstm_6", 4.694, 31.157, 9437184, 50364416},
    {"classifier", 17.078, 2.904, 336936960, 149896000},
});

using Layers = std::vector<ProfileLayerSpec>;

Layers chain(std::span<const Row> rows)
{
    Layers layers;
    for (const Row &row : rows) {
        std::vector<std::size_t> inputs;
        if (!layers.empty())
            inputs.push_back(layers.size() - 1);
        layers.push_back(
            {row.name, row.forwardMs, row.backwardMs, row.outputBytes, row.parameterBytes, std::move(inputs)});
    }
    return layers;
}

Layers vgg19() { return chain(kVgg19); }
Layers amoebaNet36() { return chain(kAmoebaNet36); }

/// The decoder reads the last encoder layer through its attention only, whose context feeds every later decoder layer.
Layers gnmt16()
{
    Layers layers = chain(kGnmt16);
    constexpr std::size_t kEncoderEnd = 8;
    constexpr std::size_t kEmbedding = 9;
    constexpr std::size_t kAttention = 10;
    constexpr std::size_t kContext = 11;
    layers[kEmbedding].inputs = {};
    layers[kAttention].inputs = {kEncoderEnd, kEmbedding};
    layers[kContext].inputs = {kAttention};
    layers[kContext + 1].inputs = {kAttention, kContext};
    for (std::size_t i = kContext + 2; i + 1 < layers.size(); ++i)
        layers[i].inputs.push_back(kContext);
    return layers;
}

/// XLNet-36 at batch 1: every layer reads the positions (4 MB), segments (2 MB) and mask (1 MB) beside its predecessor.
Layers xlnet36()
{
    Layers layers{{"embed_token", 0.007, 0, 2e6, 131e6, {}},
                  {"positions", 0.023, 0, 4e6, 0, {0}},
                  {"embed_segment", 0.017, 0, 2e6, 0, {}},
                  {"attention_mask", 0, 0, 1e6, 0, {}},
                  {"embed_dropout", 0.023, 0, 2e6, 0, {0}}};
    for (int i = 0; i < 36; ++i)
        layers.push_back({fmt::format("layer_{}", i), 3.4, 4.9, 2e6, 52e6, {layers.size() - 1, 1, 2, 3}});
    layers.push_back({"loss", 0.46, 1.38, 2e3, 0, {layers.size() - 1}});
    return layers;
}

/// BERT-48 at batch 2, with the mask's edge to every layer.
Layers bert48()
{
    Layers layers{{"attention_mask", 0, 0, 3538944, 0, {}}, {"embeddings", 0, 0, 9437184, 127131648, {}}};
    for (int i = 0; i < 48; ++i)
        layers.push_back({fmt::format("layer_{}", i), 8.07, 13.4, 9437184, 50384896, {layers.size() - 1, 0}});
    layers.push_back({"pooler", 0, 0, 0, 4198400, {layers.size() - 1}});
    return layers;
}

struct Entry {
    const char *name;
    const char *about;
    double profileBatch;
    Layers (*layers)();
};

constexpr std::array kEntries = std::to_array<Entry>({
    {"vgg-19-layers", "VGG-19, 25 layers measured on a V100 at batch 32 (DAPPLE)", 32, vgg19},
    {"xlnet-36", "XLNet of 36 layers measured on a V100 at batch 1 (DAPPLE)", 1, xlnet36},
    {"bert-48", "BERT of 48 layers measured on a V100 at batch 2 (HPGO, DAPPLE's upstream)", 2, bert48},
    {"amoebanet-36", "AmoebaNet of 36 cells measured on V100s at batch 1 (DAPPLE)", 1, amoebaNet36},
    {"gnmt-16", "GNMT of 16 layers measured on a V100 at batch 64 (DAPPLE)", 64, gnmt16},
});

} // namespace

Result<Model> zooProfile(const std::string &name)
{
    std::string known;
    for (const Entry &entry : kEntries) {
        if (name == entry.name) {
            Result<Model> model = profileModel(name, entry.profileBatch, entry.layers());
            if (!model)
                return model;
            model->source = "zoo:" + name;
            cost::Profile profile = *model->profile; // all were measured on V100s: other devices are slower or faster
            profile.deviceType = "V100";
            model->profile = std::make_shared<const cost::Profile>(std::move(profile));
            return model;
        }
        known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
    }
    return notFound(fmt::format("there is no layer profile '{}'; choose one of {}", name, known));
}

std::vector<ZooEntry> zooProfileEntries()
{
    std::vector<ZooEntry> entries;
    for (const Entry &entry : kEntries)
        entries.push_back({entry.name, entry.about});
    return entries;
}

} // namespace planloom::import

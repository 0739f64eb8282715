// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/files.h"
#include "engine/import/import.h"
#include "engine/plan/plan.h"
#include "engine/sharding/megatron.h"

#include <QtGlobal>

#include <stdexcept>
#include <string>
#include <vector>

namespace planloom::testing {

template <class T>
T must(Result<T> result)
{
    if (!result)
        throw std::runtime_error(result.error().text());
    return *std::move(result);
}

inline const char *kLlamaConfig =
    R"({"model_type": "llama", "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 4, "hidden_size": 512,
    "intermediate_size": 1408, "vocab_size": 32000, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 500000})";

/// Settings of a test; the rest is as Megatron-LM does it.
struct Asked {
    std::string model = "zoo:gpt2";
    std::string cluster = "h100-16";
    std::size_t data = 2;
    std::size_t tensor = 1;
    std::size_t pipeline = 4;
    std::size_t chunks = 1;
    std::int64_t batch = 64;
    std::int64_t microBatches = 8;
    bool sequence = false;
    std::vector<std::size_t> blocks = {}; ///< of each stage; empty: equal
};

inline import::Model modelOf(const std::string &name)
{
    return name == "llama" ? must(import::readHuggingFaceConfig(kLlamaConfig, "config.json"))
                           : must(import::loadModel(name));
}

/// The plan, with AdamW that decays matrices only.
inline plan::Document uniformPlan(const Asked &asked)
{
    const import::Model model = modelOf(asked.model);
    plan::Document document;
    document.subject =
        plan::makeSubject(model.graph, std::make_shared<const cluster::Cluster>(must(cluster::preset(asked.cluster))),
                          nullptr, model.source);
    plan::Plan &plan = document.plan;
    plan.modelName = model.graph->name();
    plan.globalBatch = asked.batch;
    plan.microBatches = asked.microBatches;
    plan.schedule.kind = asked.chunks > 1 ? plan::ScheduleKind::Interleaved1F1B : plan::ScheduleKind::OneF1B;
    plan.optimizer.groups = {{"rank<2", 0, 1}};
    const std::size_t stages = asked.pipeline * asked.chunks;
    const std::size_t layers = document.subject.layers().size();
    const sharding::Mesh mesh{{static_cast<int>(asked.data), static_cast<int>(asked.tensor)}};
    const std::size_t each = asked.data * asked.tensor;
    std::size_t layer = 0;
    for (std::size_t s = 0; s < stages; ++s) {
        plan::Stage stage;
        stage.name = "stage" + std::to_string(s);
        stage.firstLayer = layer;
        layer += (s == 0 ? 1 : 0) + (asked.blocks.empty() ? (layers - 2) / stages : asked.blocks[s]);
        stage.lastLayer = s + 1 == stages ? layers : layer;
        for (std::size_t d = 0; d < each; ++d)
            stage.devices.push_back(DeviceId(static_cast<std::int64_t>(s % asked.pipeline * each + d)));
        if (asked.tensor > 1) {
            stage.mesh = mesh.sizes;
            for (const auto &[tensor, sbp] : sharding::megatronPins(*model.graph, mesh, {asked.sequence, true}))
                stage.shardings[tensor] = sharding::toText(sbp);
        }
        plan.stages.push_back(stage);
    }
    return document;
}

/// The file beneath tests/engine/export/golden; rewritten first if PLANLOOM_UPDATE_GOLDEN is set.
inline std::string golden(const std::string &name, const std::string &made)
{
    const std::string path = std::string(PLANLOOM_SOURCE_DIR "/tests/engine/export/golden/") + name;
    if (qEnvironmentVariableIsSet("PLANLOOM_UPDATE_GOLDEN"))
        if (const Status written = writeFileAtomically(path, made); !written)
            throw std::runtime_error(written.error().text());
    return must(readFile(path));
}

} // namespace planloom::testing

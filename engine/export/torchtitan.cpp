// SPDX-License-Identifier: Apache-2.0
// Written for torchtitan 0.2; resources/docs/formats/exports.md maps each field.
#include "engine/export/export.h"
#include "engine/export/uniform.h"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::exporting {
namespace {

using graph::Transformer;
const std::string kTorchtitan = "torchtitan";

/// Sizes that torchtitan knows by name.
struct Flavor {
    const char *name;
    std::int64_t hidden, layers, heads, kvHeads, feedForward;
};
constexpr std::array kFlavors{Flavor{"8B", 4096, 32, 32, 8, 14336}, Flavor{"70B", 8192, 80, 64, 8, 28672},
                              Flavor{"405B", 16384, 126, 128, 8, 53248}};
constexpr double kFlavorsBase = 500000;

class Toml {
public:
    void table(std::string_view name) { m_text += fmt::format("{}[{}]\n", m_text.empty() ? "" : "\n", name); }
    void text(std::string_view key, std::string_view value) { m_text += fmt::format("{} = \"{}\"\n", key, value); }
    template <std::integral T>
    void integer(std::string_view key, T value)
    {
        m_text += fmt::format("{} = {}\n", key, value);
    }
    void number(std::string_view key, double value) { m_text += fmt::format("{} = {}\n", key, floatText(value)); }
    void lists(std::string_view key, const std::vector<std::vector<std::string>> &all)
    {
        m_text += fmt::format("{} = [\n", key);
        for (const auto &list : all)
            m_text += fmt::format("    [{}],\n", fmt::join(list, ", "));
        m_text += "]\n";
    }
    std::string take() { return std::move(m_text); }

private:
    /// TOML's floats have a point or an exponent.
    static std::string floatText(double value)
    {
        const std::string text = numberText(value);
        return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
    }
    std::string m_text;
};

Status checkTorchtitanModel(const plan::Document &document, const Transformer &model)
{
    const char *other = !model.causal                       ? "looks at tokens behind its own"
        : model.postNorm || !model.rmsNorm                  ? "does not normalise as LLaMA does (RMS, in front)"
        : model.positions != Transformer::Positions::Rotary ? "has no rotary positions"
        : !model.gated || model.activation != Transformer::Activation::Silu
        ? "has another feed-forward network than SwiGLU"
        : model.biases != Transformer::Biases::None               ? "has biases"
        : model.headSize * model.heads != model.hidden            ? "has heads that do not fill its width"
        : model.tiedHead || model.headTransform                   ? "has a head that is not a separate linear layer"
        : model.hiddenDropout != 0 || model.attentionDropout != 0 ? "has dropout"
                                                                  : nullptr;
    if (!other)
        return {};
    return unsupported(fmt::format(
        "model {} {}, and torchtitan's configuration is written for models built as LLaMA is; export another format",
        document.subject.graph->name(), other));
}

Status checkTorchtitanSchedule(const plan::Plan &plan, const Uniform &uniform)
{
    const auto pipeline = static_cast<std::int64_t>(uniform.pipeline);
    if (uniform.pipeline == 1 && uniform.order != Uniform::Order::OneF1B)
        return unsupported(fmt::format("the plan runs passes in another order ({}) than a backward after each forward, "
                                       "which is torchtitan's without a pipeline; use schedule 1f1b",
                                       plan::name(plan.schedule.kind)));
    if (uniform.order == Uniform::Order::Other)
        return unsupported(fmt::format("the plan's order of passes ({}) is not one that torchtitan knows by name; "
                                       "export it with --to pytorch-csv and name that file in "
                                       "pipeline_parallel_schedule_csv, or use 1f1b, gpipe or interleaved 1f1b",
                                       plan::name(plan.schedule.kind)));
    if (uniform.order == Uniform::Order::OneF1B && plan.microBatches < pipeline)
        return unsupported(
            fmt::format("{} micro-batches are fewer than {} stages, which torchtitan's 1F1B refuses; use at least {}",
                        plan.microBatches, pipeline, pipeline));
    if (uniform.order == Uniform::Order::Interleaved && plan.microBatches % pipeline != 0)
        return unsupported(fmt::format("{} micro-batches are not a multiple of {} pipeline ranks, which torchtitan's "
                                       "Interleaved1F1B needs; change the micro-batches",
                                       plan.microBatches, pipeline));
    return {};
}

Status checkReplicas(const plan::Plan &plan, const Uniform &uniform)
{
    const bool alone = uniform.tensor * uniform.pipeline == 1;
    if (uniform.zero == 1)
        return unsupported("the plan cuts the optimizer's state alone over the replicas (ZeRO 1), and torchtitan's "
                           "FSDP cuts gradients too; use ZeRO 2 or 3");
    if (uniform.zero == 0 && uniform.data > 1 && !alone)
        return unsupported("the plan has whole replicas of stages or of split tensors, and torchtitan's DDP goes with "
                           "no other parallelism; use ZeRO 2 or 3");
    if (plan.precision == plan::Precision::BFloat16 && uniform.data == 1 && !alone)
        return unsupported("the plan computes in bfloat16 without replicas, and torchtitan mixes precisions in FSDP "
                           "and DDP only; use two replicas, or fp32");
    return {};
}

Status checkTraining(const plan::Optimizer &optimizer)
{
    if (optimizer.rule.name() != "adamw")
        return unsupported(
            fmt::format("the optimizer is {}, which torchtitan does not support; plan with --optimizer adamw",
                        optimizer.rule.rule().title));
    if (!optimizer.groups.empty())
        return unsupported(fmt::format("the optimizer has separate settings for parameters '{}', and torchtitan has "
                                       "one setting for all; plan without --no-decay",
                                       optimizer.groups.front().match));
    return {};
}

Status checkRecompute(plan::Recompute recompute)
{
    if (recompute == plan::Recompute::None || recompute == plan::Recompute::Layers)
        return {};
    return unsupported(fmt::format(
        "the plan recomputes '{}', and torchtitan recomputes single layers or none; recompute layer by layer",
        plan::name(recompute)));
}

void addModel(const Transformer &model, Toml &out, Configuration &made)
{
    const auto layers = static_cast<std::int64_t>(model.blocks.size());
    const char *name = nullptr;
    for (const Flavor &known : kFlavors)
        if (known.hidden == model.hidden && known.layers == layers && known.heads == model.heads
            && known.kvHeads == model.kvHeads && known.feedForward == model.feedForward
            && model.rotaryBase == kFlavorsBase)
            name = known.name;
    out.table("model");
    out.text("name", "llama3");
    out.text("flavor", name ? name : "planloom");
    if (!name)
        made.notes.push_back(
            fmt::format("torchtitan has no flavor of these sizes: add one named planloom to torchtitan/models/llama3, "
                        "with dim={}, n_layers={}, n_heads={}, n_kv_heads={}, "
                        "rope_theta={}, norm_eps={} and feed-forward layers of {}",
                        model.hidden, layers, model.heads, model.kvHeads, numberText(model.rotaryBase),
                        numberText(model.normEpsilon), model.feedForward));
    made.notes.push_back(fmt::format("the tokenizer must have {} tokens", model.vocabulary));
}

void addOptimizer(const plan::Optimizer &optimizer, Toml &out)
{
    using Kind = plan::LearningRateSchedule::Kind;
    out.table("optimizer");
    out.text("name", "AdamW");
    out.number("lr", optimizer.learningRate);
    out.number("beta1", optimizer.rule.setting("beta1"));
    out.number("beta2", optimizer.rule.setting("beta2"));
    out.number("eps", optimizer.rule.setting("epsilon"));
    out.number("weight_decay", optimizer.weightDecay);
    out.table("lr_scheduler");
    out.integer("warmup_steps", optimizer.schedule.warmupSteps);
    if (optimizer.schedule.kind == Kind::Constant) {
        out.number("decay_ratio", 0);
        return;
    }
    out.text("decay_type", optimizer.schedule.kind == Kind::Linear ? "linear" : "cosine");
    out.number("min_lr_factor", optimizer.schedule.minimum);
}

void addTraining(const plan::Plan &plan, const Transformer &model, const Uniform &uniform, Toml &out)
{
    out.table("training");
    out.integer("local_batch_size", uniform.microBatch * (uniform.pipeline > 1 ? plan.microBatches : 1));
    out.integer("global_batch_size", plan.globalBatch);
    out.integer("seq_len", model.sequence);
    out.number("max_norm",
               plan.optimizer.clipNorm > 0 ? plan.optimizer.clipNorm : INFINITY); // 0 would take the gradients away
    if (plan.optimizer.schedule.totalSteps > 0)
        out.integer("steps", plan.optimizer.schedule.totalSteps);
    out.text("mixed_precision_param", plan.precision == plan::Precision::BFloat16 ? "bfloat16" : "float32");
}

/// Names of the modules of each stage, as torchtitan's LLaMA has them.
std::vector<std::vector<std::string>> modulesOf(const std::vector<std::int64_t> &blocks)
{
    std::vector<std::vector<std::string>> modules(blocks.size());
    modules.front().emplace_back("\"tok_embeddings\"");
    std::int64_t layer = 0;
    for (std::size_t s = 0; s < blocks.size(); ++s)
        for (std::int64_t i = 0; i < blocks[s]; ++i)
            modules[s].push_back(fmt::format("\"layers.{}\"", layer++));
    modules.back().emplace_back("\"norm\"");
    modules.back().emplace_back("\"output\"");
    return modules;
}

void addParallelism(const Uniform &uniform, const std::vector<std::int64_t> &blocks, Toml &out)
{
    out.table("parallelism");
    out.integer("data_parallel_replicate_degree", uniform.zero == 0 ? uniform.data : 1);
    out.integer("data_parallel_shard_degree", uniform.zero == 0 ? 1 : uniform.data);
    if (uniform.zero > 0)
        out.text("fsdp_reshard_after_forward", uniform.zero == 3 ? "always" : "never");
    out.integer("tensor_parallel_degree", uniform.tensor);
    out.integer("pipeline_parallel_degree", uniform.pipeline);
    if (uniform.pipeline == 1)
        return;
    out.text("pipeline_parallel_schedule",
             uniform.order == Uniform::Order::Interleaved  ? "Interleaved1F1B"
                 : uniform.order == Uniform::Order::OneF1B ? "1F1B"
                                                           : "GPipe");
    out.integer("pipeline_parallel_microbatch_size", uniform.microBatch);
    out.lists("module_fqns_per_model_part", modulesOf(blocks));
}

Status check(const plan::Document &document, const Transformer &model, const Uniform &uniform)
{
    if (Status known = checkTorchtitanModel(document, model); !known)
        return known;
    if (Status known = checkTorchtitanSchedule(document.plan, uniform); !known)
        return known;
    if (Status fits = checkReplicas(document.plan, uniform); !fits)
        return fits;
    if (Status fits = checkRecompute(uniform.recompute); !fits)
        return fits;
    return checkTraining(document.plan.optimizer);
}

Status checkTensors(const plan::Document &document, const Uniform &uniform)
{
    const auto layout = tensorLayoutOf(document, uniform, kTorchtitan);
    if (!layout)
        return layout.error();
    if (uniform.tensor > 1 && !layout->sequence)
        return unsupported("activations between the blocks are whole on each tensor-parallel device, and torchtitan "
                           "splits them along the tokens; plan with planner manual, sequence=on");
    if (layout->padded)
        return unsupported("the vocabulary does not divide by the tensor-parallel devices, over which torchtitan "
                           "splits table and head; use a divisor");
    return {};
}

} // namespace

Result<Configuration> torchtitanConfig(const plan::Document &document)
{
    const auto model = graph::readTransformer(*document.subject.graph);
    if (!model)
        return unsupported(
            model.error().message
            + "; torchtitan's configuration is written for models built as LLaMA is: export another format");
    const auto uniform = uniformOf(document, kTorchtitan);
    if (!uniform)
        return uniform.error();
    if (Status fits = check(document, *model, *uniform); !fits)
        return fits.error();
    if (Status fits = checkTensors(document, *uniform); !fits)
        return fits.error();
    const auto blocks = blocksOf(document, *model, kTorchtitan);
    if (!blocks)
        return blocks.error();
    Configuration made;
    made.notes.push_back(fmt::format(
        "start {} ranks: torchrun --nnodes {} --nproc-per-node {} -m torchtitan.train --job.config_file FILE",
        uniform->tensor * uniform->data * uniform->pipeline, uniform->nodes, uniform->perNode));
    made.notes.insert(made.notes.end(), uniform->launch.begin(), uniform->launch.end());
    Toml out;
    if (!uniform->onFirstDevices()) {
        out.table("job");
        out.text("description", plan::placementText(uniform->placement));
        made.notes.emplace_back("[job] description carries the plan's devices for planloom plan --from");
    }
    addModel(*model, out, made);
    addOptimizer(document.plan.optimizer, out);
    addTraining(document.plan, *model, *uniform, out);
    addParallelism(*uniform, *blocks, out);
    out.table("activation_checkpoint");
    out.text("mode", uniform->recompute == plan::Recompute::Layers ? "full" : "none");
    made.text = out.take();
    return made;
}

} // namespace planloom::exporting

// SPDX-License-Identifier: Apache-2.0
// Written for Megatron-Core 0.12; resources/docs/formats/exports.md maps each argument.
#include "engine/export/export.h"
#include "engine/export/uniform.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::exporting {
namespace {

using graph::Transformer;
const std::string kMegatron = "Megatron-LM";

/// Arguments, in order.
class Arguments {
public:
    void flag(std::string_view name) { m_text += fmt::format("--{}\n", name); }
    template <class T>
    void value(std::string_view name, const T &value)
    {
        m_text += fmt::format("--{} {}\n", name, value);
    }
    std::string take() { return std::move(m_text); }

private:
    std::string m_text;
};

// Models that Megatron-LM builds.

bool isBert(const Transformer &model) { return !model.causal; }

Status checkMegatronModel(const plan::Document &document, const Transformer &model)
{
    const std::string name = document.subject.graph->name();
    if (model.causal && model.postNorm)
        return unsupported(fmt::format(
            "model {} normalises behind the ways around, which Megatron-LM does for BERT only; export another format",
            name));
    if (!model.causal
        && (!model.headTransform || model.positions != Transformer::Positions::Learned || model.rmsNorm
            || !model.tiedHead))
        return unsupported(fmt::format("model {} looks at all tokens but is not built as BERT is (learned positions, a "
                                       "linear layer before a tied head), and Megatron-LM has no other; "
                                       "export another format",
                                       name));
    if (model.causal && (model.headTransform || model.tokenTypes))
        return unsupported(fmt::format("model {} has {}, which Megatron-LM's GPT has not; export another format", name,
                                       model.headTransform ? "a linear layer between the last block and the head"
                                                           : "a table of token types"));
    const bool swiglu = model.gated && model.activation == Transformer::Activation::Silu;
    const bool gelu = !model.gated
        && (model.activation == Transformer::Activation::Gelu || model.activation == Transformer::Activation::GeluTanh);
    if (!swiglu && !gelu)
        return unsupported(fmt::format("the feed-forward network of model {} has an activation that Megatron-LM has no "
                                       "argument for; it has GELU and SwiGLU",
                                       name));
    if (model.positions == Transformer::Positions::Learned && model.positionRows < model.sequence)
        return unsupported(fmt::format(
            "model {} has {} positions for {} tokens; make its table of positions at least as long as a sample", name,
            model.positionRows, model.sequence));
    if (model.rotaryBase != std::floor(model.rotaryBase))
        return unsupported(fmt::format(
            "the base {} of model {}'s rotary positions is not a whole number, which Megatron-LM needs; change it",
            model.rotaryBase, name));
    return {};
}

Status checkTensorSizes(const Transformer &model, const Uniform &uniform, bool sequence)
{
    const auto tensor = static_cast<std::int64_t>(uniform.tensor);
    const std::pair<const char *, std::int64_t> sizes[] = {{"heads", model.heads},
                                                           {"key and value heads", model.kvHeads},
                                                           {"columns of the feed-forward network", model.feedForward},
                                                           {"tokens", sequence ? model.sequence : 0}};
    for (const auto &[what, size] : sizes)
        if (size % tensor != 0)
            return unsupported(fmt::format(
                "{} {} do not divide by {} tensor-parallel devices, which Megatron-LM asks for; use a divisor", size,
                what, tensor));
    return {};
}

void addModel(const Transformer &model, Arguments &out)
{
    out.value("num-layers", model.blocks.size());
    out.value("hidden-size", model.hidden);
    out.value("ffn-hidden-size", model.feedForward);
    out.value("num-attention-heads", model.heads);
    if (model.headSize * model.heads != model.hidden)
        out.value("kv-channels", model.headSize);
    if (model.kvHeads != model.heads) {
        out.flag("group-query-attention");
        out.value("num-query-groups", model.kvHeads);
    }
    out.value("seq-length", model.sequence);
    out.value("max-position-embeddings", std::max(model.positionRows, model.sequence));
    const bool rotary = model.positions == Transformer::Positions::Rotary;
    out.value("position-embedding-type",
              rotary                                                   ? "rope"
                  : model.positions == Transformer::Positions::Learned ? "learned_absolute"
                                                                       : "none");
    if (rotary)
        out.value("rotary-base", static_cast<std::int64_t>(model.rotaryBase));
    out.value("normalization", model.rmsNorm ? "RMSNorm" : "LayerNorm");
    out.value("norm-epsilon", numberText(model.normEpsilon));
    if (model.biases != Transformer::Biases::All)
        out.flag("disable-bias-linear");
    if (model.biases == Transformer::Biases::OnlyQkv)
        out.flag("add-qkv-bias");
    if (!model.tiedHead)
        out.flag("untie-embeddings-and-output-weights");
    out.value("make-vocab-size-divisible-by", 1);
    out.value("hidden-dropout", numberText(model.hiddenDropout));
    out.value("attention-dropout", numberText(model.attentionDropout));
    if (model.initDeviation > 0)
        out.value("init-method-std", numberText(model.initDeviation));
}

/// Megatron-LM's fused bias and GELU takes the tanh approximation; unfused it takes the exact one unless told
/// otherwise.
void addActivation(const Transformer &model, Arguments &out)
{
    if (model.gated) {
        out.flag("swiglu");
        return;
    }
    const bool approximate = model.activation == Transformer::Activation::GeluTanh;
    if (approximate && model.biases == Transformer::Biases::All)
        return;
    out.flag("no-bias-gelu-fusion");
    if (approximate)
        out.flag("openai-gelu");
}

void addBert(const Transformer &model, Arguments &out)
{
    if (!isBert(model))
        return;
    out.flag("bert-no-binary-head");
    if (model.postNorm) { // Megatron-Core has blocks that normalise in front only (its issue 671); the older classes
                          // have both
        out.flag("use-legacy-models");
        out.value("ckpt-format", "torch"); // the older classes save in no other (its validate_args)
        out.flag("apply-residual-connection-post-layernorm");
    }
}

/// The older classes share the blocks out evenly; they ignore what the first and the last stage are given.
Status checkLegacyBlocks(const Transformer &model, const std::vector<std::int64_t> &blocks)
{
    const bool even =
        std::all_of(blocks.begin(), blocks.end(), [&](std::int64_t count) { return count == blocks.front(); });
    if (even || !isBert(model) || !model.postNorm)
        return {};
    return unsupported(fmt::format("the stages have {} blocks, but the classes of Megatron-LM that build BERT give "
                                   "every stage the same number; move the cuts between stages",
                                   fmt::join(blocks, ", ")));
}

// How it is spread.

Status checkMegatronSchedule(const plan::Plan &plan, const Uniform &uniform)
{
    if (uniform.order == Uniform::Order::Interleaved
        && plan.microBatches % static_cast<std::int64_t>(uniform.pipeline) != 0)
        return unsupported(fmt::format("{} micro-batches are not a multiple of {} pipeline ranks, which Megatron-LM's "
                                       "interleaved schedule needs; change the micro-batches",
                                       plan.microBatches, uniform.pipeline));
    if (uniform.order == Uniform::Order::Interleaved || uniform.order == Uniform::Order::OneF1B)
        return {};
    return unsupported(fmt::format("the plan's order of passes ({}) is not one of Megatron-LM's: it has 1f1b, and "
                                   "interleaved 1f1b where devices hold several stages; change the schedule",
                                   plan::name(plan.schedule.kind)));
}

Status addPipeline(const Uniform &uniform, const std::vector<std::int64_t> &blocks, Arguments &out)
{
    out.value("pipeline-model-parallel-size", uniform.pipeline);
    const bool even =
        std::all_of(blocks.begin(), blocks.end(), [&](std::int64_t count) { return count == blocks.front(); });
    if (uniform.chunks > 1) {
        if (!even)
            return unsupported("the stages have unequal numbers of blocks, which Megatron-LM's interleaved schedule "
                               "cannot; give each stage the same number");
        out.value("num-layers-per-virtual-pipeline-stage", blocks.front());
        return {};
    }
    if (even)
        return {};
    for (std::size_t s = 2; s + 1 < blocks.size(); ++s)
        if (blocks[s] != blocks[1])
            return unsupported(fmt::format("stage {} has {} blocks and stage 1 has {}, but Megatron-LM lets only the "
                                           "first and the last stage differ; move the cuts between stages",
                                           s, blocks[s], blocks[1]));
    out.value("decoder-first-pipeline-num-layers", blocks.front());
    out.value("decoder-last-pipeline-num-layers", blocks.back());
    return {};
}

Status addRecompute(plan::Recompute recompute, const std::vector<std::int64_t> &blocks, Arguments &out)
{
    if (recompute == plan::Recompute::None)
        return {};
    out.value("recompute-granularity", recompute == plan::Recompute::Selective ? "selective" : "full");
    if (recompute == plan::Recompute::Selective)
        return {};
    const std::int64_t together =
        recompute == plan::Recompute::Full ? blocks.front() : 1; // blocks that run again as one
    if (recompute == plan::Recompute::Full
        && std::any_of(blocks.begin(), blocks.end(), [&](std::int64_t count) { return count != together; }))
        return unsupported("stages with unequal numbers of blocks run again as a whole each, but Megatron-LM runs the "
                           "same number of blocks again everywhere; recompute layer by layer");
    out.value("recompute-method", "uniform");
    out.value("recompute-num-layers", together);
    return {};
}

Status addLayout(const plan::Document &document, const Transformer &model, const Uniform &uniform, Configuration &made,
                 Arguments &out)
{
    const auto layout = tensorLayoutOf(document, uniform, kMegatron);
    if (!layout)
        return layout.error();
    if (Status fits = checkTensorSizes(model, uniform, layout->sequence); !fits)
        return fits;
    if (Status known = checkMegatronSchedule(document.plan, uniform); !known)
        return known;
    const auto blocks = blocksOf(document, model, kMegatron);
    if (!blocks)
        return blocks.error();
    if (uniform.zero > 1)
        return unsupported(fmt::format("the plan cuts {} over the replicas (ZeRO {}), and Megatron-LM's distributed "
                                       "optimizer cuts the optimizer's state only; use ZeRO 1",
                                       uniform.zero == 2 ? "gradients" : "gradients and parameters", uniform.zero));
    out.value("tensor-model-parallel-size", uniform.tensor);
    if (layout->sequence)
        out.flag("sequence-parallel");
    if (Status even = checkLegacyBlocks(model, *blocks); !even)
        return even;
    if (Status cut = addPipeline(uniform, *blocks, out); !cut)
        return cut;
    if (Status again = addRecompute(uniform.recompute, *blocks, out); !again)
        return again;
    if (uniform.zero == 1)
        out.flag("use-distributed-optimizer");
    if (layout->padded)
        made.notes.push_back(fmt::format("the vocabulary of {} does not divide by {}: Megatron-LM pads it and splits "
                                         "table and head, which the plan keeps whole on each device",
                                         model.vocabulary, uniform.tensor));
    return {};
}

// How it is trained.

Status checkDecay(const plan::Optimizer &optimizer)
{
    const auto onlyMatrices = [](const plan::ParameterGroup &group) {
        return group.match == "rank<2" && group.weightDecay == 0 && group.learningRateFactor == 1;
    };
    for (const plan::ParameterGroup &group : optimizer.groups)
        if (!onlyMatrices(group))
            return unsupported(fmt::format("the optimizer has separate settings for parameters '{}'; Megatron-LM "
                                           "knows only biases and norms without weight decay (rank<2)",
                                           group.match));
    if (optimizer.weightDecay != 0 && optimizer.groups.empty())
        return unsupported(fmt::format("the optimizer decays all parameters by {}, but Megatron-LM leaves out biases "
                                       "and norms; plan with --no-decay 'rank<2', or --weight-decay 0",
                                       numberText(optimizer.weightDecay)));
    return {};
}

/// Without the noise of the last binary digits.
std::string productText(double value) { return fmt::format("{:.12g}", value); }

void addLearningRate(const plan::Optimizer &optimizer, Arguments &out)
{
    using Kind = plan::LearningRateSchedule::Kind;
    const plan::LearningRateSchedule &schedule = optimizer.schedule;
    out.value("lr", numberText(optimizer.learningRate));
    out.value("lr-decay-style",
              schedule.kind == Kind::Linear       ? "linear"
                  : schedule.kind == Kind::Cosine ? "cosine"
                                                  : "constant");
    if (schedule.kind != Kind::Constant) {
        out.value("min-lr", productText(optimizer.learningRate * schedule.minimum));
        if (schedule.totalSteps > 0)
            out.value("lr-decay-iters", schedule.totalSteps);
    }
    if (schedule.warmupSteps == 0)
        return;
    out.value("lr-warmup-iters", schedule.warmupSteps);
    out.value("lr-warmup-init", productText(optimizer.learningRate / static_cast<double>(schedule.warmupSteps + 1)));
}

Status addTraining(const plan::Plan &plan, const Uniform &uniform, Arguments &out)
{
    const plan::Optimizer &optimizer = plan.optimizer;
    if (Status decay = checkDecay(optimizer); !decay)
        return decay;
    out.value("micro-batch-size", uniform.microBatch);
    out.value("global-batch-size", plan.globalBatch);
    if (plan.precision == plan::Precision::BFloat16)
        out.flag("bf16");
    const update::ConfiguredRule &rule = optimizer.rule;
    if (rule.name() == "adamw") {
        out.value("optimizer", "adam"); // its decay is AdamW's
        out.value("adam-beta1", numberText(rule.setting("beta1")));
        out.value("adam-beta2", numberText(rule.setting("beta2")));
        out.value("adam-eps", numberText(rule.setting("epsilon")));
    } else if (rule.name() == "sgd") {
        out.value("optimizer", "sgd");
        out.value("sgd-momentum", numberText(rule.setting("momentum")));
    } else {
        return unsupported(fmt::format("the optimizer is {}, which Megatron-LM has not; plan with --optimizer adamw or "
                                       "sgd",
                                       rule.rule().title));
    }
    out.value("weight-decay", numberText(optimizer.weightDecay));
    out.value("clip-grad", numberText(optimizer.clipNorm));
    addLearningRate(optimizer, out);
    return {};
}

/// The number of ranks is said at the start and their devices by the environment, neither in arguments: the
/// experiment's name, which Megatron-LM reads only beside --wandb-project, takes both back to a plan.
void addPlacement(const Uniform &uniform, Configuration &made, Arguments &out)
{
    if (uniform.onWholeCluster())
        return;
    out.value("wandb-exp-name", plan::placementText(uniform.placement));
    made.notes.emplace_back(
        "--wandb-exp-name carries the plan's devices for planloom plan --from; replace it by a name "
        "of your own where you set --wandb-project");
}

void addNotes(const Transformer &model, const Uniform &uniform, Configuration &made)
{
    made.notes.insert(made.notes.begin(),
                      fmt::format("start {} ranks: torchrun --nnodes {} --nproc-per-node {} {} $(cat FILE), with "
                                  "--train-iters and the data's own arguments",
                                  uniform.tensor * uniform.data * uniform.pipeline, uniform.nodes, uniform.perNode,
                                  isBert(model) ? "pretrain_bert.py" : "pretrain_gpt.py"));
    made.notes.insert(made.notes.end(), uniform.launch.begin(), uniform.launch.end());
    made.notes.push_back(fmt::format("the tokenizer must have {} tokens", model.vocabulary));
    if (isBert(model) && model.tokenTypes)
        made.notes.push_back("without the head of next sentences, Megatron-LM's BERT has no table of token types");
}

} // namespace

Result<Configuration> megatronArguments(const plan::Document &document)
{
    const auto model = graph::readTransformer(*document.subject.graph);
    if (!model)
        return unsupported(model.error().message + "; Megatron-LM trains nothing else: export another format");
    if (Status known = checkMegatronModel(document, *model); !known)
        return known.error();
    const auto uniform = uniformOf(document, kMegatron);
    if (!uniform)
        return uniform.error();
    Configuration made;
    Arguments out;
    addModel(*model, out);
    addActivation(*model, out);
    addBert(*model, out);
    if (Status spread = addLayout(document, *model, *uniform, made, out); !spread)
        return spread.error();
    if (Status trained = addTraining(document.plan, *uniform, out); !trained)
        return trained.error();
    addPlacement(*uniform, made, out);
    addNotes(*model, *uniform, made);
    made.text = out.take();
    return made;
}

} // namespace planloom::exporting

// SPDX-License-Identifier: Apache-2.0
// Arguments of Megatron-LM (Megatron-Core 0.12): a file of them, or a shell script that has them.
#include "engine/import/setup/setup.h"
#include "engine/import/setup/reader.h"
#include "engine/plan/training.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

namespace planloom::import {
namespace {

using plan::Setup;
using Claim = Setup::Claim;

struct Argument {
    std::string name; ///< without the dashes, with - between words
    std::vector<std::string> values;
    int line = 0;
};

/// Splits at blanks, quotes and brackets; a word knows its line. What follows # is a comment.
std::vector<std::pair<std::string, int>> wordsOf(std::string_view text)
{
    std::vector<std::pair<std::string, int>> words;
    std::string word;
    int line = 1;
    bool comment = false;
    const auto end = [&] {
        if (!word.empty() && word != "\\")
            words.emplace_back(word, line);
        word.clear();
    };
    for (const char c : text) {
        const bool blank =
            c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '"' || c == '\'' || c == '(' || c == ')';
        if (blank || (c == '#' && word.empty()))
            end();
        comment = c == '\n' ? false : comment || (c == '#' && word.empty());
        if (!blank && !comment)
            word += c;
        line += c == '\n' ? 1 : 0;
    }
    end();
    return words;
}

/// "--name value", "--name=value", and the rest of a script's NAME="--first".
std::vector<Argument> argumentsOf(std::string_view text)
{
    std::vector<Argument> arguments;
    for (auto &[word, line] : wordsOf(text)) {
        const std::size_t dashes = word.find("--");
        const bool number =
            word.size() > 1 && word[0] == '-' && word.find_first_not_of("0123456789.eE+-") == std::string::npos;
        if (dashes == 0 && word.size() > 2 && !number) {
            const std::size_t equals = word.find('=');
            Argument argument{word.substr(2, equals == std::string::npos ? equals : equals - 2), {}, line};
            std::replace(argument.name.begin(), argument.name.end(), '_', '-');
            if (equals != std::string::npos)
                argument.values.push_back(word.substr(equals + 1));
            arguments.push_back(std::move(argument));
        } else if (!arguments.empty() && word.find('=') == std::string::npos) {
            arguments.back().values.push_back(word);
        }
    }
    return arguments;
}

/// Arguments that change the plan but have no counterpart in plans, with the reason.
const std::map<std::string, const char *, std::less<>> &refused()
{
    static const std::map<std::string, const char *, std::less<>> table = {
        {"fp16", "plans compute in float32 or bfloat16; use --bf16"},
        {"fp8-format", "plans compute in float32 or bfloat16; leave it out"},
        {"num-experts", "plans have no experts; give a dense model"},
        {"pipeline-model-parallel-layout",
         "stages are read as numbers of blocks; use --decoder-first-pipeline-num-layers and "
         "--decoder-last-pipeline-num-layers"},
        {"account-for-embedding-in-pipeline-split", "stages are read as numbers of blocks; set that of the first"},
        {"account-for-loss-in-pipeline-split", "stages are read as numbers of blocks; set that of the last"},
        {"standalone-embedding-stage", "every stage has blocks; leave it out"},
        {"use-tp-pp-dp-mapping", "ranks are read as tensor-parallel first, then replicas, then stages; leave it out"},
        {"encoder-num-layers", "models have one stack of blocks; give a decoder or an encoder alone"},
        {"decoder-num-layers", "models have one stack of blocks; give --num-layers"},
        {"use-torch-fsdp2", "it is read with Megatron-LM's own optimizers; use --use-distributed-optimizer"},
        {"use-megatron-fsdp", "it is read with Megatron-LM's own optimizers; use --use-distributed-optimizer"},
        {"use-custom-fsdp", "it is read with Megatron-LM's own optimizers; use --use-distributed-optimizer"},
        {"optimizer-cpu-offload", "plans keep the optimizer's state on the devices; leave it out"},
        {"cpu-offloading", "plans keep activations on the devices; leave it out"},
        {"rampup-batch-size", "a plan's batch has one size; leave it out"},
        {"start-weight-decay", "a plan's weight decay does not change; use --weight-decay"},
        {"end-weight-decay", "a plan's weight decay does not change; use --weight-decay"},
        {"decoupled-lr", "a plan has one learning rate; leave it out"},
        {"lr-warmup-fraction", "a plan counts steps; use --lr-warmup-iters"},
        {"lr-warmup-samples", "a plan counts steps; use --lr-warmup-iters"},
        {"lr-decay-samples", "a plan counts steps; use --lr-decay-iters"},
        {"recompute-modules", "plans recompute attention, layers or stages; use --recompute-granularity alone"},
        {"multi-latent-attention", "plans do not support latent attention; leave it out"},
        {"mtp-num-layers", "models predict one token; leave it out"},
    };
    return table;
}

/// Arguments that only describe the model, which is given apart from the file.
constexpr std::array kOfTheModel{"group-query-attention",
                                 "swiglu",
                                 "normalization",
                                 "norm-epsilon",
                                 "position-embedding-type",
                                 "rotary-base",
                                 "rotary-percent",
                                 "kv-channels",
                                 "max-position-embeddings",
                                 "untie-embeddings-and-output-weights",
                                 "disable-bias-linear",
                                 "add-qkv-bias",
                                 "make-vocab-size-divisible-by",
                                 "hidden-dropout",
                                 "attention-dropout",
                                 "init-method-std",
                                 "no-bias-gelu-fusion",
                                 "openai-gelu",
                                 "bert-no-binary-head",
                                 "use-legacy-models",
                                 "apply-residual-connection-post-layernorm",
                                 "ckpt-format",
                                 "use-rotary-position-embeddings",
                                 "vocab-size"};

class MegatronReader {
public:
    MegatronReader(std::string_view text, const std::string &file) : m_arguments(argumentsOf(text))
    {
        m_setup.format = "Megatron-LM arguments";
        m_setup.file = file;
    }

    Result<Setup> read()
    {
        m_setup.optimizer.clipNorm = 1; // Megatron-LM's defaults, where they are not ours
        m_setup.optimizer.groups = {{"rank<2", 0, 1}};
        m_setup.optimizer.schedule.kind = plan::LearningRateSchedule::Kind::Linear;
        for (const Argument &argument : m_arguments)
            take(argument);
        if (m_arguments.empty() || (m_sized.empty() && !m_error))
            fail("has none of Megatron-LM's arguments, such as --num-layers 24 --micro-batch-size 2; name a file of "
                 "them",
                 0);
        settle();
        if (m_error)
            return *m_error;
        return std::move(m_setup);
    }

private:
    void fail(std::string message, int line)
    {
        if (!m_error)
            m_error = badInput(std::move(message)).in(m_setup.file, line);
    }

    const std::string *valueOf(const Argument &argument)
    {
        if (argument.values.empty()) {
            fail(fmt::format("--{} has no value; give one", argument.name), argument.line);
            return nullptr;
        }
        if (argument.values.front().find('$') != std::string::npos) {
            fail(fmt::format("--{} is '{}', a variable of the shell; write its value", argument.name,
                             argument.values.front()),
                 argument.line);
            return nullptr;
        }
        return &argument.values.front();
    }

    std::int64_t integer(const Argument &argument, std::int64_t least, std::int64_t most)
    {
        std::int64_t value = least;
        const std::string *text = valueOf(argument);
        if (!text)
            return value;
        const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
        if (error == std::errc() && end == text->data() + text->size() && value >= least && value <= most)
            return value;
        fail(fmt::format("--{} is '{}'; a whole number from {} to {} is expected", argument.name, *text, least, most),
             argument.line);
        return least;
    }
    std::size_t size(const Argument &argument) { return static_cast<std::size_t>(integer(argument, 1, kMostOfASize)); }

    double number(const Argument &argument)
    {
        double value = 0;
        const std::string *text = valueOf(argument);
        if (!text)
            return value;
        const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
        if (error == std::errc() && end == text->data() + text->size() && std::isfinite(value) && value >= 0)
            return value;
        fail(fmt::format("--{} is '{}'; a number of at least 0 is expected", argument.name, *text), argument.line);
        return 0;
    }

    std::string choice(const Argument &argument, const std::vector<std::string> &allowed)
    {
        const std::string *text = valueOf(argument);
        if (!text)
            return allowed.front();
        if (std::find(allowed.begin(), allowed.end(), *text) == allowed.end())
            fail(fmt::format("--{} is '{}'; a plan can have {}", argument.name, *text, fmt::join(allowed, ", ")),
                 argument.line);
        return *text;
    }

    void take(const Argument &argument)
    {
        const std::string &name = argument.name;
        if (const auto found = refused().find(name); found != refused().end()) {
            fail(fmt::format("--{} is set, but {}", name, found->second), argument.line);
            return;
        }
        if (takeModel(argument) || takeParallelism(argument) || takeRecompute(argument) || takeTraining(argument)
            || takeLearningRate(argument) || takeLaunch(argument)) {
            m_sized.insert(name);
            return;
        }
        if (std::find(kOfTheModel.begin(), kOfTheModel.end(), name) != kOfTheModel.end() || takePlacement(argument))
            return;
        m_passedBy.push_back("--" + name);
    }

    bool takeModel(const Argument &argument)
    {
        static const std::map<std::string, Claim::What, std::less<>> sizes = {
            {"num-layers", Claim::What::Blocks},           {"hidden-size", Claim::What::Hidden},
            {"ffn-hidden-size", Claim::What::FeedForward}, {"num-attention-heads", Claim::What::Heads},
            {"num-query-groups", Claim::What::KvHeads},    {"seq-length", Claim::What::Tokens}};
        const auto found = sizes.find(argument.name);
        if (found == sizes.end())
            return false;
        m_setup.model.push_back(
            {found->second, integer(argument, 1, kMostOfASize), "--" + argument.name, argument.line});
        if (found->second == Claim::What::Blocks)
            m_blocks = m_setup.model.back().value;
        return true;
    }

    bool takeParallelism(const Argument &argument)
    {
        const std::string &name = argument.name;
        if (name == "tensor-model-parallel-size")
            m_setup.tensor = size(argument);
        else if (name == "pipeline-model-parallel-size")
            m_setup.pipeline = size(argument);
        else if (name == "sequence-parallel")
            m_setup.sequence = true;
        else if (name == "decoder-first-pipeline-num-layers")
            m_first = integer(argument, 1, kMostOfASize);
        else if (name == "decoder-last-pipeline-num-layers")
            m_last = integer(argument, 1, kMostOfASize);
        else if (name == "num-layers-per-virtual-pipeline-stage")
            m_perChunk = integer(argument, 1, kMostOfASize);
        else if (name == "num-virtual-stages-per-pipeline-rank")
            m_setup.chunks = size(argument);
        else if (name == "use-distributed-optimizer")
            m_setup.zero = 1;
        else if (name == "context-parallel-size" || name == "expert-model-parallel-size") {
            if (integer(argument, 1, kMostOfASize) != 1)
                fail(fmt::format("--{} is more than 1, which plans do not have; leave it out", name), argument.line);
        } else
            return false;
        m_line[name] = argument.line;
        return true;
    }

    bool takeRecompute(const Argument &argument)
    {
        const std::string &name = argument.name;
        if (name == "recompute-activations")
            m_granularity = "selective";
        else if (name == "recompute-granularity")
            m_granularity = choice(argument, {"full", "selective"});
        else if (name == "recompute-method")
            choice(argument, {"uniform"});
        else if (name == "recompute-num-layers")
            m_together = integer(argument, 1, kMostOfASize);
        else
            return false;
        m_line[name] = argument.line;
        return true;
    }

    bool takeTraining(const Argument &argument)
    {
        plan::Optimizer &optimizer = m_setup.optimizer;
        const std::string &name = argument.name;
        if (name == "micro-batch-size")
            m_setup.microBatch = integer(argument, 1, kMostOfASize);
        else if (name == "global-batch-size")
            m_setup.globalBatch = integer(argument, 1, kMostOfASize);
        else if (name == "bf16")
            m_setup.precision = plan::Precision::BFloat16;
        else if (name == "optimizer")
            m_rule = choice(argument, {"adam", "sgd"}) == "sgd" ? "sgd" : "adamw";
        else if (name == "adam-beta1")
            m_beta1 = number(argument);
        else if (name == "adam-beta2")
            m_beta2 = number(argument);
        else if (name == "adam-eps")
            m_epsilon = number(argument);
        else if (name == "sgd-momentum")
            m_momentum = number(argument);
        else if (name == "weight-decay")
            optimizer.weightDecay = number(argument);
        else if (name == "clip-grad")
            optimizer.clipNorm = number(argument);
        else
            return false;
        return true;
    }

    bool takeLearningRate(const Argument &argument)
    {
        plan::LearningRateSchedule &schedule = m_setup.optimizer.schedule;
        const std::string &name = argument.name;
        if (name == "lr")
            m_rate = number(argument);
        else if (name == "min-lr")
            m_least = number(argument);
        else if (name == "lr-decay-style")
            schedule.kind = plan::learningRateKindFromName(choice(argument, {"constant", "linear", "cosine"}))
                                .value_or(schedule.kind);
        else if (name == "lr-decay-iters")
            schedule.totalSteps = integer(argument, 1, kMostSteps);
        else if (name == "lr-warmup-iters")
            schedule.warmupSteps = integer(argument, 0, kMostSteps);
        else if (name == "lr-warmup-init")
            m_start = number(argument);
        else
            return false;
        return true;
    }

    /// torchrun's own, where the script has it.
    bool takeLaunch(const Argument &argument)
    {
        const bool variable = !argument.values.empty() && argument.values.front().find('$') != std::string::npos;
        if (variable || (argument.name != "nnodes" && argument.name != "nproc-per-node"))
            return false;
        (argument.name == "nnodes" ? m_nodes : m_perNode) = integer(argument, 1, kMostOfASize);
        return true;
    }

    /// The devices of the plan that the file was exported from; false for a name of the user's.
    bool takePlacement(const Argument &argument)
    {
        if (argument.name != "wandb-exp-name" || argument.values.empty())
            return false;
        const auto placement = plan::placementFromText(argument.values.front());
        if (!placement)
            fail("--wandb-exp-name: " + placement.error().message, argument.line);
        else
            m_setup.placement = *placement;
        return !placement || placement->has_value();
    }

    void settle()
    {
        settleStages();
        settleRecompute();
        settleTraining();
        if (m_setup.sequence && m_setup.tensor == 1)
            m_setup.notes.emplace_back("--sequence-parallel does nothing without tensor-parallel ranks");
        const auto others = static_cast<std::int64_t>(m_setup.tensor * m_setup.pipeline);
        if (m_perNode > 0 && m_nodes * m_perNode % others != 0)
            fail(fmt::format("{} ranks do not divide into {} tensor-parallel ranks x {} stages; correct one of them",
                             m_nodes * m_perNode, m_setup.tensor, m_setup.pipeline),
                 0);
        else if (m_perNode > 0)
            m_setup.data = static_cast<std::size_t>(m_nodes * m_perNode / others);
        notePassedBy(m_setup, m_passedBy);
    }

    void settleStages()
    {
        const auto pipeline = static_cast<std::int64_t>(m_setup.pipeline);
        const int line = m_line["pipeline-model-parallel-size"];
        if (m_blocks == 0 && pipeline > 1)
            return fail("has --pipeline-model-parallel-size but no --num-layers; give both", line);
        if (pipeline > m_blocks && pipeline > 1)
            return fail(fmt::format("{} layers are fewer than {} stages; use fewer stages", m_blocks, pipeline), line);
        if (m_perChunk > 0) {
            if (m_blocks % (pipeline * m_perChunk) != 0)
                return fail(
                    fmt::format("{} layers do not divide into stages of {} on {} pipeline ranks; correct one of them",
                                m_blocks, m_perChunk, pipeline),
                    m_line["num-layers-per-virtual-pipeline-stage"]);
            m_setup.chunks = static_cast<std::size_t>(m_blocks / (pipeline * m_perChunk));
        }
        if (m_setup.chunks > 1 && (m_first > 0 || m_last > 0))
            return fail("has stages of unequal numbers of layers and interleaves them, which a plan is not made for; "
                        "use equal stages",
                        line);
        if (m_setup.chunks > 1 && pipeline == 1)
            return fail("interleaves stages without a pipeline; raise --pipeline-model-parallel-size", line);
        if (m_setup.chunks > 1)
            m_setup.schedule = plan::ScheduleKind::Interleaved1F1B;
        if (m_first > 0 || m_last > 0)
            settleUneven(pipeline);
    }

    /// The other stages share the blocks that the first and the last do not have.
    void settleUneven(std::int64_t pipeline)
    {
        const std::int64_t rest = pipeline - (m_first > 0 ? 1 : 0) - (m_last > 0 ? 1 : 0);
        const std::int64_t blocks = m_blocks - m_first - m_last;
        if (rest < 0 || blocks < rest || (rest == 0 ? blocks != 0 : blocks % rest != 0))
            return fail(fmt::format("{} layers do not divide into a first stage of {}, a last of {} and {} equal ones "
                                    "between; correct one of them",
                                    m_blocks, m_first, m_last, rest),
                        std::max(m_line["decoder-first-pipeline-num-layers"],
                                 m_line["decoder-last-pipeline-num-layers"]));
        m_setup.blocks.assign(static_cast<std::size_t>(pipeline), rest == 0 ? 0 : blocks / rest);
        if (m_first > 0)
            m_setup.blocks.front() = m_first;
        if (m_last > 0)
            m_setup.blocks.back() = m_last;
    }

    void settleRecompute()
    {
        if (m_granularity.empty())
            return;
        if (m_granularity == "selective") {
            m_setup.recompute = plan::Recompute::Selective;
            return;
        }
        const std::int64_t each =
            m_setup.blocks.empty() ? m_blocks / static_cast<std::int64_t>(m_setup.pipeline * m_setup.chunks) : 0;
        if (m_together == 1)
            m_setup.recompute = plan::Recompute::Layers;
        else if (m_together == each)
            m_setup.recompute = plan::Recompute::Full;
        else
            fail(fmt::format("--recompute-num-layers is {}, but a plan runs one layer again at a time, or a stage of "
                             "{}; use one of these",
                             m_together, each),
                 m_line["recompute-num-layers"]);
    }

    void settleTraining()
    {
        plan::Optimizer &optimizer = m_setup.optimizer;
        if (!m_rate)
            m_setup.notes.push_back(fmt::format("--lr is missing; the plan has {}", optimizer.learningRate));
        optimizer.learningRate = m_rate.value_or(optimizer.learningRate);
        using update::ConfiguredRule;
        optimizer.rule = m_rule == "sgd"
            ? *ConfiguredRule::named(m_rule, {{"momentum", m_momentum}})
            : *ConfiguredRule::named(m_rule, {{"beta1", m_beta1}, {"beta2", m_beta2}, {"epsilon", m_epsilon}});
        if (optimizer.weightDecay == 0)
            optimizer.groups.clear(); // without effect then
        plan::LearningRateSchedule &schedule = optimizer.schedule;
        if (schedule.kind == plan::LearningRateSchedule::Kind::Constant)
            schedule.totalSteps = 0;
        else if (optimizer.learningRate > 0)
            schedule.minimum = std::min(1.0, m_least / optimizer.learningRate);
        if (optimizer.learningRate > 0)
            noteWarmup(m_setup, m_start / optimizer.learningRate);
    }

    std::vector<Argument> m_arguments;
    Setup m_setup;
    std::optional<Error> m_error;
    std::set<std::string> m_sized;
    std::vector<std::string> m_passedBy;
    std::map<std::string, int> m_line;
    std::int64_t m_blocks = 0, m_first = 0, m_last = 0, m_perChunk = 0, m_together = 1, m_nodes = 1, m_perNode = 0;
    std::string m_granularity;
    std::optional<double> m_rate;
    double m_least = 0, m_start = 0;
    std::string m_rule = "adamw";
    double m_momentum = 0.9, m_beta1 = 0.9, m_beta2 = 0.999, m_epsilon = 1e-8;
};

} // namespace

Result<plan::Setup> readMegatronArguments(std::string_view text, const std::string &name)
{
    return MegatronReader(text, name).read();
}

} // namespace planloom::import

// SPDX-License-Identifier: Apache-2.0
// Configurations of torchtitan (0.2; split points as 0.1 has them). Read with toml++, where that was there when
// Planloom was built.
#include "engine/import/setup/setup.h"
#include "engine/import/setup/reader.h"

#ifdef PLANLOOM_TOML

#include <algorithm>
#include <array>
#include <map>
// toml++ 3.3 takes for granted that a table's name begins with a letter or the like ("[~" does not) where it could say
// so, as an assertion or, in release builds, as an assumption. Without either its own check of the character comes next
// and is an error like any other.
#undef NDEBUG
#define TOML_ASSERT(expression) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace planloom::import {
namespace {

using Kind = plan::LearningRateSchedule::Kind;
using plan::Setup;

/// Sizes that torchtitan knows by name: blocks, width, heads, key and value heads, width of the feed-forward networks.
struct Flavor {
    const char *name;
    std::array<std::int64_t, 5> sizes;
};
constexpr Flavor kFlavors[] = {{"8B", {32, 4096, 32, 8, 14336}},
                               {"70B", {80, 8192, 64, 8, 28672}},
                               {"405B", {126, 16384, 128, 8, 53248}}};

/// Sections of which nothing changes a plan.
constexpr std::array kPassedBy{"job",
                               "profiling",
                               "metrics",
                               "checkpoint",
                               "compile",
                               "comm",
                               "memory_estimation",
                               "fault_tolerance",
                               "validation",
                               "experimental",
                               "debug",
                               "float8",
                               "quantize",
                               "dataloader"};

class TorchtitanReader {
public:
    TorchtitanReader(const toml::table &top, const std::string &file) : m_top(top)
    {
        m_setup.format = "torchtitan configuration";
        m_setup.file = file;
    }

    Result<Setup> read()
    {
        if (!m_top.contains("parallelism") && !m_top.contains("training"))
            fail("has neither [parallelism] nor [training], so it is not a configuration of torchtitan", 0);
        placement();
        model();
        replicas();
        pipeline();
        training();
        optimizer();
        recompute();
        for (const auto &[section, node] : m_top)
            others(std::string(section.str()), node);
        if (m_error)
            return *m_error;
        notePassedBy(m_setup, m_passedBy);
        return std::move(m_setup);
    }

private:
    /// The devices of the plan that the file was exported from; a description of the user's is passed by.
    void placement()
    {
        if (const toml::node *text = find("job", "description")) {
            const auto found = plan::placementFromText(text->value_or(std::string()));
            if (!found)
                fail("[job] description: " + found.error().message, lineOf(*text));
            else
                m_setup.placement = *found;
        }
        if (!m_setup.placement)
            m_read.erase("job");
    }
    void fail(std::string message, int line)
    {
        if (!m_error)
            m_error = badInput(std::move(message)).in(m_setup.file, line);
    }
    static int lineOf(const toml::node &node) { return static_cast<int>(node.source().begin.line); }

    /// The value; it counts as read from now on. nullptr: left out.
    const toml::node *find(const char *section, const char *key)
    {
        m_read[section].push_back(key);
        const toml::table *table = m_top[section].as_table();
        return table ? table->get(key) : nullptr;
    }
    void refuse(const char *section, const char *key, const toml::node &node, const std::string &what)
    {
        fail(fmt::format("[{}] {} {}", section, key, what), lineOf(node));
    }

    std::int64_t integer(const char *section, const char *key, std::int64_t fallback, std::int64_t least,
                         std::int64_t most = kMostOfASize)
    {
        const toml::node *node = find(section, key);
        if (!node)
            return fallback;
        const auto value = node->value<std::int64_t>();
        if (node->is_integer() && value && *value >= least && *value <= most)
            return *value;
        refuse(section, key, *node, fmt::format("must be a whole number from {} to {}", least, most));
        return fallback;
    }
    double number(const char *section, const char *key, double fallback)
    {
        const toml::node *node = find(section, key);
        if (!node)
            return fallback;
        const auto value = node->value<double>();
        if (node->is_number() && value && *value >= 0)
            return *value;
        refuse(section, key, *node, "must be a number of at least 0");
        return fallback;
    }
    std::string text(const char *section, const char *key, const char *fallback,
                     const std::vector<std::string> &allowed)
    {
        const toml::node *node = find(section, key);
        if (!node)
            return fallback;
        const std::string value = node->value_or(std::string());
        if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), value) == allowed.end())
            refuse(section, key, *node, fmt::format("must be one of {} to be a plan", fmt::join(allowed, ", ")));
        return value;
    }
    /// A field without a counterpart in plans, unless it has its default.
    void only(const char *section, const char *key, std::int64_t allowed, const char *why)
    {
        const toml::node *node = find(section, key);
        if (node && node->value_or(allowed + 1) != allowed)
            refuse(section, key, *node, why);
    }
    void off(const char *section, const char *key, const char *why)
    {
        const toml::node *node = find(section, key);
        if (node && node->value_or(true))
            refuse(section, key, *node, why);
    }

    void model()
    {
        using What = Setup::Claim::What;
        text("model", "name", "llama3", {});
        const std::string flavor = text("model", "flavor", "", {});
        const toml::node *node = find("model", "flavor");
        for (const Flavor &known : kFlavors) {
            if (flavor != known.name)
                continue;
            const What what[] = {What::Blocks, What::Hidden, What::Heads, What::KvHeads, What::FeedForward};
            for (std::size_t i = 0; i < known.sizes.size(); ++i)
                m_setup.model.push_back(
                    {what[i], known.sizes[i], fmt::format("[model] flavor {}", flavor), lineOf(*node)});
        }
        const toml::node *converters = find("model", "converters");
        if (converters && converters->as_array() && !converters->as_array()->empty())
            refuse("model", "converters", *converters,
                   "changes the precision; plans have float32 and bfloat16: leave it out");
    }

    void replicas()
    {
        const std::int64_t whole = integer("parallelism", "data_parallel_replicate_degree", 1, 1);
        const std::int64_t cut = integer("parallelism", "data_parallel_shard_degree", -1, -1);
        const std::string reshard =
            text("parallelism", "fsdp_reshard_after_forward", "default", {"default", "always", "never"});
        m_setup.tensor = static_cast<std::size_t>(integer("parallelism", "tensor_parallel_degree", 1, 1));
        m_setup.pipeline = static_cast<std::size_t>(integer("parallelism", "pipeline_parallel_degree", 1, 1));
        m_setup.sequence = m_setup.tensor > 1;
        only("parallelism", "context_parallel_degree", 1,
             "splits attention over the tokens, which plans do not; leave it out");
        only("parallelism", "expert_parallel_degree", 1, "is about experts, which plans do not have; leave it out");
        if (const toml::node *node = find("parallelism", "data_parallel_replicate_degree");
            node && whole > 1 && cut != 1)
            refuse("parallelism", "data_parallel_replicate_degree", *node,
                   "makes groups of replicas that share parameters, and plans share over all replicas; set one of the "
                   "two degrees to 1");
        m_setup.data = cut == -1 ? 0 : static_cast<std::size_t>(whole > 1 ? whole : std::max<std::int64_t>(1, cut));
        if (cut == 1)
            return;
        const bool keeps = reshard == "never" || (reshard == "default" && m_setup.pipeline > 1);
        m_setup.zero = keeps ? 2 : 3;
    }

    void pipeline()
    {
        const std::string schedule = text("parallelism", "pipeline_parallel_schedule", "1F1B",
                                          {"1F1B", "1f1b", "GPipe", "gpipe", "Interleaved1F1B", "interleaved1f1b"});
        const toml::node *csv = find("parallelism", "pipeline_parallel_schedule_csv");
        if (csv && !csv->value_or(std::string()).empty())
            refuse("parallelism", "pipeline_parallel_schedule_csv", *csv,
                   "is a custom order; import that file, or leave it out");
        const toml::node *each = find("parallelism", "pipeline_parallel_layers_per_stage");
        if (each)
            refuse("parallelism", "pipeline_parallel_layers_per_stage", *each,
                   "leaves the stages to the model; write module_fqns_per_model_part");
        const std::int64_t first = integer("parallelism", "pipeline_parallel_first_stage_less_layers", 1, 0);
        const std::int64_t last = integer("parallelism", "pipeline_parallel_last_stage_less_layers", 1, 0);
        m_perMicroBatch = integer("parallelism", "pipeline_parallel_microbatch_size", 1, 1);
        const toml::node *parts = find("parallelism", "module_fqns_per_model_part");
        const toml::node *points = find("parallelism", "pipeline_parallel_split_points");
        if (m_setup.pipeline == 1)
            return;
        const bool interleaved = schedule.starts_with("Inter") || schedule.starts_with("inter");
        m_setup.schedule = interleaved  ? plan::ScheduleKind::Interleaved1F1B
            : schedule.starts_with("1") ? plan::ScheduleKind::OneF1B
                                        : plan::ScheduleKind::GPipe;
        m_setup.chunks = interleaved ? 2 : 1;
        if (parts)
            readParts(*parts);
        else if (points && points->as_array() && !points->as_array()->empty())
            readPoints(*points);
        else
            m_setup.fewer = {first, last};
    }

    /// Names such as "layers.3"; -1 for others.
    static std::int64_t layerOf(const toml::node &node)
    {
        const std::string name = node.value_or(std::string());
        constexpr std::string_view kStem = "layers.";
        if (!name.starts_with(kStem) || name.size() == kStem.size() || name.size() > kStem.size() + 6
            || name.find_first_not_of("0123456789", kStem.size()) != std::string::npos)
            return -1;
        return std::stoll(name.substr(kStem.size()));
    }

    void takeStages(const toml::node &node, const char *key)
    {
        const std::size_t stages = m_setup.blocks.size();
        if (stages % m_setup.pipeline != 0
            || (stages == m_setup.pipeline) != (m_setup.schedule != plan::ScheduleKind::Interleaved1F1B))
            return refuse(
                "parallelism", key, node,
                fmt::format(
                    "makes {} stages, which does not go with {} pipeline ranks and the schedule; correct one of them",
                    stages, m_setup.pipeline));
        m_setup.chunks = stages / m_setup.pipeline;
    }

    void readParts(const toml::node &node)
    {
        constexpr const char *kKey = "module_fqns_per_model_part";
        std::int64_t next = 0;
        if (!node.as_array())
            return refuse("parallelism", kKey, node, "must be a list of lists of names");
        for (const toml::node &part : *node.as_array()) {
            if (!part.as_array())
                return refuse("parallelism", kKey, part, "must be a list of lists of names");
            m_setup.blocks.push_back(0);
            for (const toml::node &name : *part.as_array()) {
                const std::int64_t layer = layerOf(name);
                if (layer < 0)
                    continue;
                if (layer != next)
                    return refuse("parallelism", kKey, name,
                                  fmt::format("has layer {} where layer {} comes next; list all layers in their order",
                                              layer, next));
                ++next;
                ++m_setup.blocks.back();
            }
        }
        m_setup.model.push_back(
            {Setup::Claim::What::Blocks, next, fmt::format("[parallelism] {}", kKey), lineOf(node)});
        takeStages(node, kKey);
    }

    /// The last stage has the rest of the model.
    void readPoints(const toml::node &node)
    {
        constexpr const char *kKey = "pipeline_parallel_split_points";
        std::int64_t last = 0;
        for (const toml::node &name : *node.as_array()) {
            const std::int64_t layer = layerOf(name);
            if (layer <= last)
                return refuse("parallelism", kKey, name, "must be names such as layers.4 that rise");
            m_setup.blocks.push_back(layer - last);
            last = layer;
        }
        m_setup.blocks.push_back(0);
        takeStages(node, kKey);
    }

    void training()
    {
        const std::int64_t local = integer("training", "local_batch_size", 8, 1);
        const std::int64_t global = integer("training", "global_batch_size", -1, -1);
        m_setup.globalBatch = std::max<std::int64_t>(0, global);
        m_setup.microBatch = local;
        if (m_setup.pipeline > 1) {
            if (local % m_perMicroBatch != 0)
                fail(fmt::format("[training] local_batch_size {} is not a multiple of "
                                 "pipeline_parallel_microbatch_size {}; correct one of them",
                                 local, m_perMicroBatch),
                     0);
            m_setup.microBatch = m_perMicroBatch;
            m_setup.accumulation = local / m_perMicroBatch;
            m_setup.perReplica = local;
        }
        if (const toml::node *node = find("training", "seq_len"))
            m_setup.model.push_back({Setup::Claim::What::Tokens, integer("training", "seq_len", 1, 1),
                                     "[training] seq_len", lineOf(*node)});
        const double norm = number("training", "max_norm", 1);
        m_setup.optimizer.clipNorm = std::isfinite(norm) ? norm : 0;
        if (const toml::node *node = find("training", "max_norm"); node && norm == 0)
            refuse("training", "max_norm", *node, "is 0, which takes every gradient away; use inf for no clipping");
        m_steps = integer("training", "steps", 10000, 1, kMostSteps);
        off("training", "enable_cpu_offload", "offloads memory, which plans do not support; leave it out");
        text("training", "dtype", "float32", {"float32"});
        const bool mixes = m_setup.data != 1 || m_setup.tensor * m_setup.pipeline == 1; // in FSDP and DDP only
        if (text("training", "mixed_precision_param", "bfloat16", {"bfloat16", "float32"}) == "bfloat16" && mixes)
            m_setup.precision = plan::Precision::BFloat16;
    }

    void optimizer()
    {
        plan::Optimizer &to = m_setup.optimizer;
        text("optimizer", "name", "AdamW", {"AdamW"});
        to.learningRate = number("optimizer", "lr", 8e-4);
        const double beta1 = number("optimizer", "beta1", 0.9);
        const double beta2 = number("optimizer", "beta2", 0.95);
        const double epsilon = number("optimizer", "eps", 1e-8);
        to.rule = *update::ConfiguredRule::named("adamw", {{"beta1", beta1}, {"beta2", beta2}, {"epsilon", epsilon}});
        to.weightDecay = number("optimizer", "weight_decay", 0.1);
        off("optimizer", "early_step_in_backward", "updates before the gradients are whole; leave it out");
        schedule();
    }

    void schedule()
    {
        plan::LearningRateSchedule &to = m_setup.optimizer.schedule;
        to.warmupSteps = integer("lr_scheduler", "warmup_steps", 200, 0, kMostSteps);
        const std::string type = text("lr_scheduler", "decay_type", "linear", {"linear", "cosine"});
        const double newer = number("lr_scheduler", "min_lr_factor", 0);
        const double minimum = std::max(newer, number("lr_scheduler", "lr_min", 0));
        const toml::node *ratio = find("lr_scheduler", "decay_ratio");
        const double share = number("lr_scheduler", "decay_ratio", 1);
        if (ratio && share == 0)
            return;
        const double whole = static_cast<double>(m_steps - to.warmupSteps) / static_cast<double>(m_steps);
        if (ratio && std::abs(share - whole) > 1e-6)
            return refuse("lr_scheduler", "decay_ratio", *ratio,
                          "holds the learning rate for a while before it falls, which plans do not; leave it out, or "
                          "set it to 0");
        to.kind = type == "linear" ? Kind::Linear : Kind::Cosine;
        to.totalSteps = find("training", "steps") ? m_steps : 0;
        to.minimum = std::min(1.0, minimum);
    }

    void recompute()
    {
        const std::string mode = text("activation_checkpoint", "mode", "selective", {"none", "full", "selective"});
        m_setup.recompute = mode == "none" ? plan::Recompute::None
            : mode == "full"               ? plan::Recompute::Layers
                                           : plan::Recompute::Selective;
        if (mode == "selective")
            m_setup.notes.emplace_back("[activation_checkpoint] mode selective (torchtitan's own default) keeps other "
                                       "tensors than the plan's selective recomputation, which comes nearest");
    }

    /// Options that were not requested.
    void others(const std::string &section, const toml::node &node)
    {
        if (!node.as_table()) {
            m_passedBy.push_back(section);
            return;
        }
        std::vector<std::string> unread;
        const auto &read = m_read[section];
        for (const auto &[key, value] : *node.as_table())
            if (std::find(read.begin(), read.end(), key.str()) == read.end())
                unread.push_back(section + "." + std::string(key.str()));
        const bool all = std::find(kPassedBy.begin(), kPassedBy.end(), section) != kPassedBy.end();
        if (all && (!unread.empty() || node.as_table()->empty()))
            unread = {"[" + section + "]"};
        for (std::string &key : unread)
            if (m_passedBy.size() < 100)
                m_passedBy.push_back(std::move(key));
    }

    const toml::table &m_top;
    Setup m_setup;
    std::optional<Error> m_error;
    std::map<std::string, std::vector<std::string>, std::less<>> m_read;
    std::vector<std::string> m_passedBy;
    std::int64_t m_perMicroBatch = 1;
    std::int64_t m_steps = 0;
};

} // namespace

Result<plan::Setup> readTorchtitanConfig(std::string_view text, const std::string &name)
{
    // Some characters outside of ASCII lead toml++ 3.3 into undefined behaviour; nothing that is read here has any.
    std::string ascii(text);
    std::replace_if(
        ascii.begin(), ascii.end(), [](char c) { return static_cast<unsigned char>(c) > 0x7f; }, '?');
    const toml::parse_result parsed = toml::parse(ascii);
    if (!parsed)
        return badInput(fmt::format("is not TOML: {}; correct it", parsed.error().description()))
            .in(name, static_cast<int>(parsed.error().source().begin.line));
    return TorchtitanReader(parsed.table(), name).read();
}

} // namespace planloom::import

#else

namespace planloom::import {

Result<plan::Setup> readTorchtitanConfig(std::string_view, const std::string &name)
{
    return unsupported("is TOML, which this build of Planloom cannot read; install libtomlplusplus-dev and build again")
        .in(name);
}

} // namespace planloom::import

#endif

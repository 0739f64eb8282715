// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/zoo/zoo.h"
#include "planners/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

/// The rows of tests/golden/published/runs.txt as problems and options of the manual planner.
namespace planloom::bench {

/// A row, by the names of its columns; the file explains them.
class PublishedRun {
public:
    explicit PublishedRun(std::map<std::string, std::string> fields) : m_fields(std::move(fields)) {}
    [[nodiscard]] const std::string &text(const char *name) const { return m_fields.at(name); }
    [[nodiscard]] bool has(const char *name) const { return text(name) != "-"; }
    [[nodiscard]] std::int64_t count(const char *name) const { return std::atoll(text(name).c_str()); }
    [[nodiscard]] double number(const char *name) const { return std::atof(text(name).c_str()); }
    /// The value without the mark of an assumption.
    [[nodiscard]] std::string assumed(const char *name) const
    {
        std::string value = text(name);
        if (value.ends_with('?'))
            value.pop_back();
        return value;
    }
    [[nodiscard]] bool old() const ///< of frameworks before fused attention
    {
        const std::string &group = text("group");
        return group == "sc21" || group == "vtrain" || group == "vtrain1" || group == "dlperf" || group == "megascale";
    }
    /// Rows of one model on one number of devices, whose layouts can be ranked.
    [[nodiscard]] std::string model() const
    {
        return fmt::format("{} {} layers of {}, {} devices, batch {}", text("group"), text("layers"), text("hidden"),
                           text("devices"), text("batch"));
    }

private:
    std::map<std::string, std::string> m_fields;
};

inline Result<std::vector<PublishedRun>> readPublishedRuns(const std::string &path)
{
    std::ifstream file(path);
    if (!file)
        return notFound("cannot be read").in(path);
    std::vector<std::string> columns;
    std::vector<PublishedRun> runs;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        if (line.empty() || line.front() == '#')
            continue;
        std::istringstream words(line);
        std::vector<std::string> values;
        for (std::string word; words >> word;)
            values.push_back(word);
        if (columns.empty()) {
            columns = values;
            continue;
        }
        if (values.size() != columns.size())
            return badInput(fmt::format("line {} has {} values for {} columns; give each one, - where it was not "
                                        "published",
                                        number, values.size(), columns.size()))
                .in(path);
        std::map<std::string, std::string> fields;
        for (std::size_t i = 0; i < columns.size(); ++i)
            fields[columns[i]] = values[i];
        runs.emplace_back(std::move(fields));
    }
    return runs;
}

/// Machines of equal devices behind a switch, with ports into one network.
struct PublishedMachines {
    const char *name;
    const char *type;
    double nvLink; ///< bytes a second, of a device
    int ports;     ///< of a machine
    double port;   ///< bytes a second
    int devices = 8;
    double memoryGb = 0;    ///< 0: the type's
    double bandwidthGb = 0; ///< a second; 0: the type's
};

/// Effective rates as in engine/cluster/presets.cpp: of a port of 200 Gb/s 24 GB/s. V100: NVLink 2 moves 150 GB/s a
/// direction, of which collectives reach 0.85.
inline const PublishedMachines *publishedMachines(const std::string &name)
{
    static const PublishedMachines kKnown[] = {
        {"a100-8x200", "A100-80GB", 235e9, 8, 24e9},
        {"a100-4x200", "A100-80GB", 235e9, 4, 24e9},
        {"a100-40-8x200", "A100-40GB", 235e9, 8, 24e9},
        {"h100-8x400", "H100-SXM", 370e9, 8, 48e9},
        {"h100-500w-8x400", "H100-SXM", 370e9, 8, 48e9, 8, 96, 2400},
        {"h200-8x400", "H200-SXM", 370e9, 8, 48e9},
        {"v100-1x100", "V100-16GB", 128e9, 1, 12e9},
    };
    for (const PublishedMachines &known : kKnown)
        if (name == known.name)
            return &known;
    return nullptr;
}

inline Result<cluster::Cluster> publishedCluster(const PublishedRun &run)
{
    const PublishedMachines &machines = *publishedMachines(run.assumed("machines"));
    cluster::ClusterBuilder builder(machines.name);
    cluster::DeviceType type = *cluster::knownDeviceType(machines.type);
    if (machines.memoryGb > 0)
        type.memory = Bytes(static_cast<std::int64_t>(machines.memoryGb * 1e9));
    if (machines.bandwidthGb > 0)
        type.memoryBandwidth = machines.bandwidthGb * 1e9;
    const std::size_t index = builder.type(type);
    const std::int64_t devices = run.count("devices");
    const std::int64_t perMachine = std::min<std::int64_t>(machines.devices, devices);
    const std::size_t network = builder.vertex({cluster::Vertex::Kind::Network, "network", {}, {}});
    for (std::int64_t n = 0; n * perMachine < devices; ++n) {
        const NodeId node = builder.node(fmt::format("n{}", n));
        const std::size_t inside = builder.vertex({cluster::Vertex::Kind::Switch, fmt::format("n{}:sw", n), {}, node});
        std::vector<std::size_t> nics;
        for (int p = 0; p < machines.ports; ++p) {
            nics.push_back(builder.vertex({cluster::Vertex::Kind::Nic, fmt::format("n{}:nic{}", n, p), {}, node}));
            builder.link({cluster::Link::Kind::Network, nics.back(), network, machines.port, machines.port,
                          Seconds(4e-6), true});
        }
        for (std::int64_t g = 0; g < perMachine; ++g) {
            const std::size_t device = builder.vertexOf(builder.device(node, index));
            builder.link(
                {cluster::Link::Kind::NvLink, device, inside, machines.nvLink, machines.nvLink, Seconds(1.5e-6), true});
            builder.link({cluster::Link::Kind::Pcie, device, nics[static_cast<std::size_t>(g) % nics.size()],
                          machines.port, machines.port, Seconds(1e-6), true});
        }
    }
    return std::move(builder).build();
}

/// How a framework computes on a kind of device, beside what plans say. The constants are few and round, and the same
/// for all rows of a framework; they were chosen with all rows in view (resources/docs/cost.md).
struct PublishedFramework {
    const char *name;
    std::vector<const char *> runs;      ///< what their names begin with
    const char *machines;                ///< what their names begin with
    std::map<std::string, double> extra; ///< cost::Profile::extra
    bool exchangesLast = false;          ///< gradients are summed up after the last backward pass, all at once
    bool shardsOnce = false;             ///< ZeRO's gradients are handed out once an iteration, whatever the level
    bool halfGradients = false;          ///< models in float16 exchange gradients in float16
};

inline std::vector<PublishedFramework> &publishedFrameworks()
{
    static std::vector<PublishedFramework> known{
        {"Megatron-LM of 2021 to 2023, operators launched one by one",
         {"sc21", "vtrain", "dlperf.megatron", "megascale"},
         "",
         {{"kernel_launch_seconds", 50e-6},
          {"update_overhead_seconds", 0.03},
          {"ring_collectives", 1},
          {"product_ramp", 96}},
         true,
         true,
         true},
        {"OneFlow of 2021", {"dlperf.oneflow"}, "", {{"ring_collectives", 1}, {"product_ramp", 96}}},
        {"FSDP, attention in Triton", {"mpt"}, "a100", {{"attention_share", 0.6}}},
        {"FSDP on the first H100s", {"mpt"}, "h100", {{"attention_share", 0.6}, {"product_share", 0.8}}},
        {"FSDP2, H100 limited to 500 W", {"titan"}, "h100-500w", {{"product_share", 0.85}}},
    };
    return known;
}

inline PublishedFramework frameworkOf(const PublishedRun &run)
{
    for (const PublishedFramework &known : publishedFrameworks())
        if (run.text("machines").starts_with(known.machines)
            && std::any_of(known.runs.begin(), known.runs.end(),
                           [&](const char *prefix) { return run.text("run").starts_with(prefix); }))
            return known;
    return {"other", {}, "", {}};
}

/// The framework's own times as a profile without operators; null where it has none.
inline std::shared_ptr<const cost::Profile> frameworkProfile(const PublishedFramework &framework,
                                                             const std::string &format)
{
    if (framework.extra.empty())
        return nullptr;
    auto profile = std::make_shared<cost::Profile>();
    profile->source = framework.name;
    profile->extra = framework.extra;
    if (framework.halfGradients && format == "fp16")
        profile->extra["gradient_share"] = 0.5;
    return profile;
}

/// What keeps a row from being planned; empty: nothing.
inline std::string missingOf(const PublishedRun &run)
{
    if (run.text("form") == "experts")
        return "mixtures of experts";
    if (run.count("context") > 1)
        return "context parallelism";
    if (run.text("format") == "fp8")
        return "8 bit products";
    if (run.text("form") == "window")
        return "sliding-window attention, parallel blocks";
    if (publishedMachines(run.assumed("machines")) == nullptr)
        return "the device's model";
    if (run.text("format") == "unstated" || run.text("recompute") == "unstated")
        return "number format or recomputation is not published";
    if (run.text("recompute").starts_with("some"))
        return "recomputation of some operators or every second layer";
    if (!run.has("seconds") || !run.has("batch"))
        return "seconds or batch are not published";
    if (!run.has("micro") && run.count("pipeline") > 1)
        return "the micro-batch of a pipeline is not published";
    return {};
}

/// The vocabulary as Megatron-LM pads it, or so that tensor parallelism divides it.
inline std::int64_t paddedVocabulary(const PublishedRun &run)
{
    const std::int64_t unit = run.count("tensor") * (run.old() ? 128 : 1);
    return (run.count("vocab") + unit - 1) / unit * unit;
}

inline Result<graph::Graph> publishedModel(const PublishedRun &run)
{
    graph::TransformerConfig config;
    config.name = run.text("run");
    config.layers = run.count("layers");
    config.hidden = run.count("hidden");
    config.heads = run.count("heads");
    config.feedForward = run.count("ffn");
    config.vocabulary = paddedVocabulary(run);
    config.context = run.count("tokens");
    config.tiedEmbeddings = run.text("head") == "tied";
    if (run.text("mlp") == "gated")
        return graph::llama(config, run.count("kv"), 500000, 1e-5);
    if (run.old())
        config.unfusedDropout = 0.1;
    return graph::gpt(config);
}

inline Result<planners::Problem> publishedProblem(const PublishedRun &run)
{
    auto model = publishedModel(run);
    if (!model)
        return model.error();
    auto cluster = publishedCluster(run);
    if (!cluster)
        return cluster.error();
    planners::Problem problem;
    problem.precision = plan::Precision::BFloat16;
    problem.subject =
        plan::inPrecision(plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(model)),
                                            std::make_shared<const cluster::Cluster>(*std::move(cluster)),
                                            frameworkProfile(frameworkOf(run), run.text("format")), run.text("run")),
                          problem.precision);
    problem.globalBatch = run.count("batch");
    problem.microBatch = run.has("micro") ? run.count("micro") : problem.globalBatch / run.count("data");
    problem.zero = static_cast<int>(run.count("zero"));
    if (frameworkOf(run).shardsOnce)
        problem.zero = std::min(problem.zero, 1);
    return problem;
}

/// First layers of stages that have equally many blocks each; empty where that does not divide.
inline std::string evenCuts(const graph::LayerView &layers, std::int64_t blocks, std::int64_t stages)
{
    if (stages == 1 || blocks % stages != 0)
        return {};
    std::string cuts;
    for (std::int64_t stage = 1; stage < stages; ++stage) {
        const std::string block = fmt::format("/{}", stage * (blocks / stages));
        const auto found = std::find_if(layers.layers.begin(), layers.layers.end(),
                                        [&](const graph::Layer &layer) { return layer.name.ends_with(block); });
        if (found == layers.layers.end())
            return {};
        cuts += fmt::format("{}{}", cuts.empty() ? "" : ",", found - layers.layers.begin());
    }
    return cuts;
}

inline planners::Options publishedOptions(const PublishedRun &run, const graph::LayerView &layers)
{
    const std::map<std::string, std::string> kAgain{{"full", "layers"}, {"selective", "selective"}, {"none", "never"}};
    planners::Options options{{"data", run.text("data")},
                              {"tensor", run.text("tensor")},
                              {"pipeline", run.text("pipeline")},
                              {"recompute", kAgain.at(run.assumed("recompute"))}};
    if (run.count("tensor") > 1) {
        options["vocabulary"] = "on";
        options["sequence"] = run.text("sequence") == "on" ? "on" : "off";
    }
    if (run.count("interleave") > 1)
        options["interleave"] = run.text("interleave");
    if (const std::string cuts = evenCuts(layers, run.count("layers"), run.count("pipeline") * run.count("interleave"));
        !cuts.empty())
        options["cuts"] = cuts;
    return options;
}

/// Predicted on the way that `planloom plan` goes, by the manual planner.
inline Result<simulate::Report> predictedRun(const PublishedRun &run)
{
    const auto problem = publishedProblem(run);
    if (!problem)
        return problem.error();
    NoProgress progress;
    auto report =
        (*planners::findPlanner("manual"))->plan(*problem, publishedOptions(run, problem->subject.layers()), progress);
    if (!report)
        return report.error();
    if (!frameworkOf(run).exchangesLast)
        return std::move(report->predicted);
    report->plan.bucketBytes = 0;
    auto simulation = simulate::simulatePlan(report->plan, problem->subject, {.trace = false, .memory = false});
    if (!simulation)
        return simulation.error();
    return std::move(simulation->report);
}

} // namespace planloom::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/cost/framework.h"
#include "engine/graph/rewrite/form.h"
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

using Constants = std::map<std::string, double>;

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

/// Machines of equal devices, with ports into one network.
struct PublishedMachines {
    const char *name;
    const char *type;
    double nvLink; ///< bytes a second, of a device to the switch; of one link where there is no switch
    int ports;     ///< of a machine
    double port;   ///< bytes a second
    bool hasSwitch = true;
    double memoryGb = 0;    ///< 0: the type's
    double bandwidthGb = 0; ///< a second; 0: the type's
    Constants extra = {};   ///< cost::Profile::extra: what holds on these machines
};
inline constexpr int kDevicesOfMachine = 8;

/// Effective rates as in engine/cluster/presets.cpp: of a port of 200 Gb/s 24 GB/s. V100: each of a device's six links
/// moves 25 GB/s a direction, of which collectives reach 0.85.
inline std::vector<PublishedMachines> &allPublishedMachines()
{
    static std::vector<PublishedMachines> known{
        {"a100-8x200", "A100-80GB", 235e9, 8, 24e9},
        {"a100-4x200", "A100-80GB", 235e9, 4, 24e9, true, 0, 0, {{cost::kPartialGroups, 6.5e9}}},
        {"a100-40-8x200", "A100-40GB", 235e9, 8, 24e9},
        {"h100-8x400", "H100-SXM", 370e9, 8, 48e9},
        {"h100-500w-8x400", "H100-SXM", 370e9, 8, 48e9, true, 96, 2400, {{"product_share", 0.75}}},
        {"h200-8x400", "H200-SXM", 370e9, 8, 48e9},
        {"v100-1x100", "V100-16GB", 21.25e9, 1, 10.5e9, false, 0, 0, {{"product_share", 0.96}}},
    };
    return known;
}

inline const PublishedMachines *publishedMachines(const std::string &name)
{
    for (const PublishedMachines &known : allPublishedMachines())
        if (name == known.name)
            return &known;
    return nullptr;
}

/// Constants to try instead of those of all frameworks and machines; "port": bytes a second of each port.
inline Constants &publishedOverrides()
{
    static Constants overrides;
    return overrides;
}

/// How many links join devices @p a and @p b of a machine with eight V100, as `nvidia-smi topo -m` shows them.
inline int linksBetween(int a, int b)
{
    constexpr int kLinks[kDevicesOfMachine][kDevicesOfMachine] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0},
                                                                  {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
                                                                  {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                                                                  {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
    return kLinks[a][b];
}

/// NVLinks of one machine with @p devices, which are vertices of @p builder.
inline void joinDevices(cluster::ClusterBuilder &builder, const PublishedMachines &machines, NodeId node,
                        const std::vector<std::size_t> &devices)
{
    const auto link = [&](std::size_t a, std::size_t b, double rate) {
        builder.link({cluster::Link::Kind::NvLink, a, b, rate, rate, Seconds(1.5e-6), true});
    };
    if (machines.hasSwitch) {
        const std::size_t inside =
            builder.vertex({cluster::Vertex::Kind::Switch, fmt::format("n{}:sw", node.value), {}, node});
        for (const std::size_t device : devices)
            link(device, inside, machines.nvLink);
        return;
    }
    for (std::size_t a = 0; a < devices.size(); ++a)
        for (std::size_t b = a + 1; b < devices.size(); ++b)
            if (const int count = linksBetween(static_cast<int>(a), static_cast<int>(b)); count > 0)
                link(devices[a], devices[b], count * machines.nvLink);
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
    const auto tried = publishedOverrides().find("port");
    const double port = tried != publishedOverrides().end() ? tried->second : machines.port;
    const std::size_t index = builder.type(type);
    const std::int64_t devices = run.count("devices");
    const std::int64_t perMachine = std::min<std::int64_t>(kDevicesOfMachine, devices);
    const std::size_t network = builder.vertex({cluster::Vertex::Kind::Network, "network", {}, {}});
    for (std::int64_t n = 0; n * perMachine < devices; ++n) {
        const NodeId node = builder.node(fmt::format("n{}", n));
        std::vector<std::size_t> nics;
        for (int p = 0; p < machines.ports; ++p) {
            nics.push_back(builder.vertex({cluster::Vertex::Kind::Nic, fmt::format("n{}:nic{}", n, p), {}, node}));
            builder.link({cluster::Link::Kind::Network, nics.back(), network, port, port, Seconds(4e-6), true});
        }
        std::vector<std::size_t> own;
        for (std::int64_t g = 0; g < perMachine; ++g) {
            own.push_back(builder.vertexOf(builder.device(node, index)));
            builder.link({cluster::Link::Kind::Pcie, own.back(), nics[static_cast<std::size_t>(g) % nics.size()], port,
                          port, Seconds(1e-6), true});
        }
        joinDevices(builder, machines, node, own);
    }
    return std::move(builder).build();
}

inline const cost::Framework &frameworkOf(const PublishedRun &run)
{
    return **cost::findFramework(run.text("framework"));
}

/// What framework and machines do beside the plan, as a profile without operators.
inline std::shared_ptr<const cost::Profile> frameworkProfile(const PublishedRun &run)
{
    const auto facts = cost::withFacts(nullptr, frameworkOf(run), run.text("format") == "fp16");
    auto profile = std::make_shared<cost::Profile>(*facts);
    for (const Constants &more : {publishedMachines(run.assumed("machines"))->extra, publishedOverrides()})
        for (const auto &[name, value] : more)
            profile->extra[name] = value;
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
    const std::int64_t unit = run.count("tensor") * (frameworkOf(run).fusedAttention.value_or(true) ? 1 : 128);
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
    const auto model = graph::gpt(config);
    if (!model)
        return model.error();
    const cost::Framework &framework = frameworkOf(run);
    return graph::inForm(*model, {framework.fusedAttention, framework.dropout});
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
    problem.subject = plan::inPrecision(plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(model)),
                                                          std::make_shared<const cluster::Cluster>(*std::move(cluster)),
                                                          frameworkProfile(run), run.text("run")),
                                        problem.precision);
    problem.globalBatch = run.count("batch");
    problem.microBatch = run.has("micro") ? run.count("micro") : problem.globalBatch / run.count("data");
    problem.zero = std::min(static_cast<int>(run.count("zero")), frameworkOf(run).mostZero);
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
    return std::move(report->predicted);
}

} // namespace planloom::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/import/model/profile_graph.h"
#include "engine/plan/plan.h"
#include "engine/sharding/megatron.h"

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// Small models, clusters and plans, by hand and by seed. A seed gives the same plan wherever the standard library is
/// libstdc++: distributions are not specified to the bit.
namespace planloom::testing {

inline std::shared_ptr<const graph::Graph> tinyGpt(bool tied, int blocks = 4)
{
    graph::TransformerConfig config;
    config.layers = blocks;
    config.heads = 4;
    config.hidden = 32;
    config.feedForward = 64;
    config.vocabulary = 64;
    config.context = 8;
    config.tiedEmbeddings = tied;
    return std::make_shared<const graph::Graph>(*graph::gpt(config));
}

/// What a random cluster is like.
struct ClusterShape {
    std::vector<int> nodes; ///< devices of each
    std::vector<int> types; ///< of each node: 0 or 1, or 2, of which there is no model
    bool twoLevel = false;
    bool fullDuplex = true;
    bool portPerDevice = false;
    bool unevenLinks = false; ///< one device of each node has a slower link
};

inline cluster::Cluster made(const ClusterShape &shape)
{
    cluster::ClusterBuilder builder("made");
    cluster::DeviceType other = *cluster::knownDeviceType("A100-80GB");
    other.name = "another";
    const std::size_t types[] = {builder.type(*cluster::knownDeviceType("A100-80GB")),
                                 builder.type(*cluster::knownDeviceType("V100-16GB")), builder.type(other)};
    using cluster::Link;
    using cluster::Vertex;
    const bool many = shape.nodes.size() > 1;
    const std::size_t network = many ? builder.vertex({Vertex::Kind::Network, "network", {}, {}}) : 0;
    for (std::size_t n = 0; n < shape.nodes.size(); ++n) {
        const NodeId node = builder.node("n" + std::to_string(n));
        const std::size_t inside = builder.vertex({Vertex::Kind::Switch, "switch" + std::to_string(n), {}, node});
        const auto port = [&](std::size_t from, const std::string &name) {
            const std::size_t nic = builder.vertex({Vertex::Kind::Nic, name, {}, node});
            builder.link({Link::Kind::Pcie, from, nic, 3e10, 3e10, Seconds(1e-6), shape.fullDuplex});
            builder.link({Link::Kind::Network, nic, network, 1.2e10, 1e10, Seconds(5e-6), shape.fullDuplex});
        };
        for (int g = 0; g < shape.nodes[n]; ++g) {
            const std::size_t device = builder.vertexOf(builder.device(node, types[shape.types[n]]));
            const double rate = shape.unevenLinks && g == 0 ? 7e10 : 2e11;
            builder.link({Link::Kind::NvLink, device, inside, rate, rate, Seconds(2e-6), shape.fullDuplex});
            if (many && shape.portPerDevice)
                port(device, "nic" + std::to_string(n) + "." + std::to_string(g));
        }
        if (many && !shape.portPerDevice)
            port(inside, "nic" + std::to_string(n));
    }
    if (shape.twoLevel)
        builder.twoLevel({1e11, 1e10, 8e9});
    auto cluster = std::move(builder).build();
    if (!cluster)
        throw std::runtime_error(cluster.error().text());
    return *std::move(cluster);
}

inline plan::Subject subjectOf(std::shared_ptr<const graph::Graph> graph, const ClusterShape &shape)
{
    return plan::makeSubject(std::move(graph), std::make_shared<const cluster::Cluster>(made(shape)), nullptr, "test");
}

inline ClusterShape equalNodes(int nodes, int perNode, bool portPerDevice = false)
{
    ClusterShape shape;
    shape.nodes.assign(static_cast<std::size_t>(nodes), perNode);
    shape.types.assign(static_cast<std::size_t>(nodes), 0);
    shape.portPerDevice = portPerDevice;
    return shape;
}

/// A stage's replicas and devices per replica.
struct StageShape {
    int replicas = 1;
    int tensor = 1;
};

inline plan::Plan planOf(const plan::Subject &subject, const std::vector<StageShape> &stages, std::int64_t batch,
                         std::int64_t microBatches)
{
    plan::Plan plan;
    plan.globalBatch = batch;
    plan.microBatches = microBatches;
    std::int64_t next = 0;
    const std::size_t layers = subject.layers().size();
    for (std::size_t s = 0; s < stages.size(); ++s) {
        plan::Stage stage;
        stage.name = "s" + std::to_string(s);
        stage.firstLayer = s * layers / stages.size();
        stage.lastLayer = (s + 1) * layers / stages.size();
        for (int d = 0; d < stages[s].replicas * stages[s].tensor; ++d)
            stage.devices.emplace_back(next++);
        if (stages[s].tensor > 1) {
            sharding::Mesh mesh;
            mesh.sizes = {stages[s].replicas, stages[s].tensor};
            stage.mesh = mesh.sizes;
            for (const auto &[tensor, sbp] : sharding::megatronPins(*subject.graph, mesh, {}))
                stage.shardings[tensor] = sharding::toText(sbp);
        }
        plan.stages.push_back(std::move(stage));
    }
    return plan;
}

/// Draws plans and clusters.
class Draw {
public:
    explicit Draw(unsigned seed) : m_random(seed) {}
    int from(int least, int most) { return std::uniform_int_distribution<int>(least, most)(m_random); }
    bool chance(double share) { return std::bernoulli_distribution(share)(m_random); }

    ClusterShape cluster()
    {
        ClusterShape shape;
        const int nodes = from(1, 5);
        const int each = from(1, 5);
        const bool uneven = chance(0.3);
        const bool mixed = chance(0.3);
        for (int n = 0; n < nodes; ++n) {
            shape.nodes.push_back(uneven ? from(1, 5) : each);
            shape.types.push_back(mixed ? from(0, 1) : 0);
        }
        shape.twoLevel = chance(0.3);
        shape.fullDuplex = chance(0.6);
        shape.portPerDevice = chance(0.4);
        shape.unevenLinks = chance(0.2);
        return shape;
    }

    /// For so many devices; at most 4 stages.
    std::vector<StageShape> stages(int devices, bool tensors)
    {
        std::vector<StageShape> stages;
        while (devices > 0 && stages.size() < 4) {
            StageShape stage;
            if (tensors && devices >= 2 && chance(0.4))
                stage.tensor = devices >= 4 && chance(0.4) ? 4 : 2;
            stage.replicas = from(1, std::max(1, devices / stage.tensor));
            devices -= stage.replicas * stage.tensor;
            stages.push_back(stage);
        }
        return stages;
    }

    void vary(plan::Plan &plan)
    {
        constexpr plan::ScheduleKind kKinds[] = {plan::ScheduleKind::GPipe, plan::ScheduleKind::OneF1B,
                                                 plan::ScheduleKind::DappleA, plan::ScheduleKind::DappleB};
        plan.schedule.kind = kKinds[from(0, 3)];
        for (plan::Stage &stage : plan.stages) {
            stage.zero = chance(0.5) ? from(1, 3) : 0;
            stage.registers = chance(0.2) ? from(1, 3) : 0;
            if (!chance(0.3))
                continue;
            // Two sizes of shares, so that some replicas are alike.
            double sum = 0;
            for (std::size_t r = 0; r < stage.replicas(); ++r)
                sum += stage.replicaShares.emplace_back(chance(0.5) ? 1 : 2);
            for (double &share : stage.replicaShares)
                share /= sum;
        }
        if (plan.stages.size() > 1 && chance(0.3)) // tied parameters need the same level
            for (plan::Stage &stage : plan.stages)
                stage.zero = plan.stages.front().zero;
    }

    /// Orders by hand: each device warms up as it likes.
    void order(plan::Plan &plan, const cluster::Cluster &cluster)
    {
        plan.schedule.kind = plan::ScheduleKind::Custom;
        for (std::size_t s = 0; s < plan.stages.size(); ++s) {
            for (const DeviceId device : plan.stages[s].devices) {
                auto &steps = plan.schedule.order[cluster.device(device).name];
                const std::int64_t depth = from(1, 2) + static_cast<std::int64_t>(plan.stages.size() - s);
                const auto add = [&](schedule::Pass pass, std::int64_t m) {
                    steps.push_back({pass, static_cast<std::int32_t>(m), static_cast<std::int32_t>(s)});
                };
                for (std::int64_t m = 0; m < plan.microBatches + depth; ++m) {
                    if (m >= depth && m - depth < plan.microBatches)
                        add(schedule::Pass::Backward, m - depth);
                    if (m < plan.microBatches)
                        add(schedule::Pass::Forward, m);
                }
            }
        }
    }

private:
    std::mt19937 m_random;
};

/// A plan and what it is about.
struct PlannedCase {
    plan::Plan plan;
    plan::Subject about;
};

/// A cluster of up to 25 devices, a small transformer or a layer profile, and a plan for them.
inline PlannedCase randomCase(unsigned seed)
{
    Draw draw(seed);
    const ClusterShape shape = draw.cluster();
    const bool profile = draw.chance(0.25);
    std::shared_ptr<const graph::Graph> graph;
    std::shared_ptr<const cost::Profile> times;
    if (profile) {
        std::vector<import::ProfileLayerSpec> layers;
        for (std::size_t i = 0; i < 6; ++i)
            layers.push_back({"layer_" + std::to_string(i), 1.0 + draw.from(0, 9), 2.0 + draw.from(0, 9),
                              1e6 * draw.from(1, 9), 1e6 * draw.from(1, 9),
                              i > 0 ? std::vector<std::size_t>{i - 1} : std::vector<std::size_t>{}});
        const auto model = import::profileModel("random", 1, layers);
        graph = model->graph;
        times = model->profile;
    } else {
        graph = tinyGpt(draw.chance(0.5));
    }
    plan::Subject about =
        plan::makeSubject(graph, std::make_shared<const cluster::Cluster>(made(shape)), times, "test");
    const auto devices = static_cast<int>(about.cluster->devices().size());
    const std::int64_t microBatches = draw.from(1, 5);
    plan::Plan plan = planOf(about, draw.stages(devices, !profile), 0, microBatches);
    std::size_t replicas = 1;
    for (const plan::Stage &stage : plan.stages)
        replicas = std::max(replicas, stage.replicas());
    plan.globalBatch = microBatches * static_cast<std::int64_t>(replicas) * 3 + draw.from(0, 5);
    draw.vary(plan);
    if (draw.chance(0.25))
        draw.order(plan, *about.cluster);
    return {std::move(plan), std::move(about)};
}

} // namespace planloom::testing

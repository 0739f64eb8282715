// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/shape.h"
#include "engine/graph/zoo.h"
#include "engine/import/profile_graph.h"
#include "engine/program/stage_alike.h"
#include "engine/sharding/megatron.h"
#include "engine/simulate/simulate.h"

#include <QTest>
#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace planloom;

namespace {

std::shared_ptr<const graph::Graph> tinyGpt(bool tied, int blocks = 4)
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
    std::vector<int> nodes;      ///< devices of each
    std::vector<int> types;      ///< of each node: 0 or 1, or 2, of which there is no model
    bool twoLevel = false;
    bool fullDuplex = true;
    bool portPerDevice = false;
    bool unevenLinks = false;    ///< one device of each node has a slower link
};

cluster::Cluster made(const ClusterShape &shape)
{
    cluster::ClusterBuilder builder("made");
    cluster::DeviceType other = *cluster::knownDeviceType("A100-80GB");
    other.name = "another";
    const std::size_t types[] = {builder.type(*cluster::knownDeviceType("A100-80GB")), builder.type(*cluster::knownDeviceType("V100-16GB")), builder.type(other)};
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
        qFatal("%s", cluster.error().text().c_str());
    return *std::move(cluster);
}

plan::Subject subjectOf(std::shared_ptr<const graph::Graph> graph, const ClusterShape &shape)
{
    return plan::makeSubject(std::move(graph), std::make_shared<const cluster::Cluster>(made(shape)), nullptr, "test");
}

ClusterShape equalNodes(int nodes, int perNode, bool portPerDevice = false)
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

plan::Plan planOf(const plan::Subject &subject, const std::vector<StageShape> &stages, std::int64_t batch, std::int64_t microBatches)
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

program::Program compiled(const plan::Plan &plan, const plan::Subject &subject, bool fold)
{
    auto program = program::compile(plan, subject, {.bodies = false, .fold = fold});
    if (!program)
        qFatal("%s", program.error().text().c_str());
    return *std::move(program);
}

std::size_t ranksLeft(const plan::Plan &plan, const plan::Subject &subject) { return compiled(plan, subject, true).ranks.size(); }

/// Simulates both ways and compares every figure for equality to the bit.
void checkSame(const plan::Plan &plan, const plan::Subject &subject)
{
    const auto whole = program::compile(plan, subject, {.bodies = false});
    const auto folded = program::compile(plan, subject, {.bodies = false, .fold = true});
    QCOMPARE(folded.ok(), whole.ok());
    if (!whole)
        return;
    QCOMPARE(folded->places.size(), whole->ranks.size());
    const auto expected = simulate::simulate(*whole, *subject.cluster, {false, false});
    const auto found = simulate::simulate(*folded, *subject.cluster, {false, false});
    QVERIFY2(expected.ok(), expected.ok() ? "" : expected.error().text().c_str());
    QVERIFY2(found.ok(), found.ok() ? "" : found.error().text().c_str());
    QCOMPARE(simulate::toJson(found->report).c_str(), simulate::toJson(expected->report).c_str());
    QVERIFY(found->report.iterationSeconds == expected->report.iterationSeconds);
    QVERIFY(found->report.bubbleFraction == expected->report.bubbleFraction);
    std::int64_t stoodFor = 0;
    for (const program::Rank &rank : folded->ranks)
        stoodFor += rank.standsFor;
    QCOMPARE(stoodFor, static_cast<std::int64_t>(whole->ranks.size()));
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
        constexpr plan::ScheduleKind kKinds[] = {plan::ScheduleKind::GPipe, plan::ScheduleKind::OneF1B, plan::ScheduleKind::DappleA, plan::ScheduleKind::DappleB};
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
                auto &tasks = plan.schedule.order[cluster.device(device).name];
                const std::int64_t depth = from(1, 2) + static_cast<std::int64_t>(plan.stages.size() - s);
                const auto task = [&](const char *pass, std::int64_t m) { tasks.push_back("s" + std::to_string(s) + pass + std::to_string(m)); };
                for (std::int64_t m = 0; m < plan.microBatches + depth; ++m) {
                    if (m >= depth && m - depth < plan.microBatches)
                        task(".B.m", m - depth);
                    if (m < plan.microBatches)
                        task(".F.m", m);
                }
            }
        }
    }

private:
    std::mt19937 m_random;
};

} // namespace

class TestFold : public QObject {
    Q_OBJECT

private slots:
    void alikeIsAlike()
    {
        // 32 replicas, one rank; slices of 3 and 2 samples, two.
        const plan::Subject about = subjectOf(tinyGpt(false), equalNodes(4, 8, true));
        QCOMPARE(ranksLeft(planOf(about, {{32, 1}}, 64, 1), about), std::size_t(1));
        QCOMPARE(ranksLeft(planOf(about, {{32, 1}}, 80, 1), about), std::size_t(2));
        // Two stages of 4 replicas of 4 shards each.
        QCOMPARE(ranksLeft(planOf(about, {{4, 4}, {4, 4}}, 32, 8), about), std::size_t(2));
        // Stages of different numbers of replicas.
        QCOMPARE(ranksLeft(planOf(about, {{8, 1}, {16, 1}, {8, 1}}, 32, 2), about), std::size_t(3));
    }

    void unlikeStaysApart()
    {
        ClusterShape shape = equalNodes(4, 4);
        const plan::Subject even = subjectOf(tinyGpt(false), shape);
        plan::Plan plan = planOf(even, {{16, 1}}, 64, 1);
        QCOMPARE(ranksLeft(plan, even), std::size_t(1));
        shape.types[3] = 1;
        QCOMPARE(ranksLeft(plan, subjectOf(tinyGpt(false), shape)), std::size_t(2));
        // Replicas of 2 devices in nodes of 3 lie inside one or across two, and their first devices do not lie as their second ones.
        const plan::Subject threes = subjectOf(tinyGpt(false), equalNodes(4, 3));
        QCOMPARE(ranksLeft(planOf(threes, {{6, 2}}, 24, 1), threes), std::size_t(4));
        plan.stages[0].replicaShares.assign(16, 1.0 / 20);
        for (std::size_t r = 12; r < 16; ++r)
            plan.stages[0].replicaShares[r] = 2.0 / 20;
        plan.globalBatch = 20;
        QCOMPARE(ranksLeft(plan, even), std::size_t(2));
    }

    void equalShapesCostTheSame()
    {
        Draw draw(5);
        int alike = 0;
        for (int round = 0; round < 40; ++round) {
            const plan::Subject about = subjectOf(tinyGpt(false), draw.cluster());
            const auto count = static_cast<int>(about.cluster->devices().size());
            cluster::Shapes shapes(*about.cluster);
            std::map<std::int32_t, std::pair<double, double>> known;
            for (int i = 0; i < 60; ++i) {
                std::vector<DeviceId> devices;
                for (const auto &device : about.cluster->devices())
                    devices.push_back(device.id);
                for (int d = count; d > 1; --d)
                    std::swap(devices[static_cast<std::size_t>(d) - 1], devices[static_cast<std::size_t>(draw.from(0, d - 1))]);
                devices.resize(static_cast<std::size_t>(draw.from(1, std::min(count, 4))));
                if (draw.chance(0.5))
                    std::sort(devices.begin(), devices.end());
                const std::span<const DeviceId> all(devices);
                const std::pair<double, double> times(about.costs->collective(cost::Collective::AllGather, all, 1e6).value(),
                                                      about.costs->transfer(all.first(1), all.subspan(1), 3e5).value());
                const auto [entry, isNew] = known.try_emplace(shapes.of(devices), times);
                QVERIFY(entry->second == times);
                alike += isNew ? 0 : 1;
            }
        }
        QVERIFY(alike > 500);
    }

    void randomPlans_data()
    {
        QTest::addColumn<unsigned>("seed");
        for (unsigned seed = 0; seed < 60; ++seed)
            QTest::addRow("%u", seed) << seed;
    }
    void randomPlans()
    {
        QFETCH(unsigned, seed);
        Draw draw(seed);
        const ClusterShape shape = draw.cluster();
        const bool profile = draw.chance(0.25);
        std::shared_ptr<const graph::Graph> graph;
        std::shared_ptr<const cost::Profile> times;
        if (profile) {
            std::vector<import::ProfileLayerSpec> layers;
            for (std::size_t i = 0; i < 6; ++i)
                layers.push_back({"layer_" + std::to_string(i), 1.0 + draw.from(0, 9), 2.0 + draw.from(0, 9), 1e6 * draw.from(1, 9), 1e6 * draw.from(1, 9),
                                  i > 0 ? std::vector<std::size_t>{i - 1} : std::vector<std::size_t>{}});
            const auto model = import::profileModel("random", 1, layers);
            graph = model->graph;
            times = model->profile;
        } else {
            graph = tinyGpt(draw.chance(0.5));
        }
        const plan::Subject about = plan::makeSubject(graph, std::make_shared<const cluster::Cluster>(made(shape)), times, "test");
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
        checkSame(plan, about);
    }

    void repeatedStagesAreMadeOnce_data()
    {
        QTest::addColumn<int>("tensor");
        QTest::addColumn<int>("zero");
        QTest::addColumn<int>("recompute");
        QTest::addColumn<bool>("split");
        for (const int tensor : {1, 2})
            for (const int zero : {0, 1, 2, 3})
                QTest::addRow("tensor %d, zero %d", tensor, zero) << tensor << zero << 0 << false;
        for (const int recompute : {1, 2, 3})
            QTest::addRow("recompute %d", recompute) << 2 << 0 << recompute << false;
        QTest::addRow("zero bubble") << 2 << 0 << 0 << true;
    }
    void repeatedStagesAreMadeOnce()
    {
        QFETCH(int, tensor);
        QFETCH(int, zero);
        QFETCH(int, recompute);
        QFETCH(bool, split);
        // With bodies every stage is made for itself: times and bytes must be the same.
        const plan::Subject about = subjectOf(tinyGpt(true, 12), equalNodes(7, 4));
        const auto layers = about.layers().size();
        plan::Plan plan = planOf(about, std::vector<StageShape>(layers / 2, {2, tensor}), 16, 4);
        for (plan::Stage &stage : plan.stages) {
            stage.zero = zero;
            stage.recompute = static_cast<plan::Recompute>(recompute);
        }
        if (split)
            plan.schedule.kind = plan::ScheduleKind::ZeroBubbleH1;
        const auto made = program::compile(plan, about);
        QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
        const program::Program copied = compiled(plan, about, false);
        QCOMPARE(copied.tasks.size(), made->tasks.size());
        for (std::size_t t = 0; t < copied.tasks.size(); ++t) {
            QVERIFY(copied.tasks[t].duration == made->tasks[t].duration);
            QCOMPARE(copied.tasks[t].bytes, made->tasks[t].bytes);
        }
        for (std::size_t r = 0; r < copied.ranks.size(); ++r)
            QCOMPARE(copied.ranks[r].arenaBytes, made->ranks[r].arenaBytes);
        QCOMPARE(copied.buckets.size(), made->buckets.size());
        for (std::size_t b = 0; b < copied.buckets.size(); ++b)
            QCOMPARE(copied.buckets[b].entries.front().parameter, made->buckets[b].entries.front().parameter);
        checkSame(plan, about);
        const auto names = program::renaming(plan, about, StageId(1), StageId(2));
        QVERIFY(names.has_value());
        QVERIFY(!program::renaming(plan, about, StageId(0), StageId(1)).has_value());
        plan.stages[2].zero = zero == 0 ? 1 : 0;
        QVERIFY(!program::renaming(plan, about, StageId(1), StageId(2)).has_value());
    }

    void repeatedStagesOnUnlikeDevices_data()
    {
        QTest::addColumn<std::vector<int>>("types");
        QTest::addRow("two models") << std::vector<int>{0, 0, 1, 0, 1, 1, 0};
        QTest::addRow("one without a model") << std::vector<int>{0, 0, 2, 1, 2, 1, 0};
        QTest::addRow("the first without a model") << std::vector<int>{2, 2, 2, 0, 2, 1, 0};
    }
    void repeatedStagesOnUnlikeDevices()
    {
        // Stages of the same operators, each on a machine of its own: those of other devices take other times.
        QFETCH(std::vector<int>, types);
        ClusterShape shape = equalNodes(7, 4);
        shape.types = types;
        const plan::Subject about = subjectOf(tinyGpt(true, 12), shape);
        const plan::Plan plan = planOf(about, std::vector<StageShape>(about.layers().size() / 2, {2, 2}), 16, 4);
        const auto made = program::compile(plan, about);
        QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
        const program::Program copied = compiled(plan, about, false);
        QCOMPARE(copied.tasks.size(), made->tasks.size());
        std::map<int, std::set<double>> forward; ///< by type
        for (std::size_t t = 0; t < copied.tasks.size(); ++t) {
            const program::Task &task = copied.tasks[t];
            QVERIFY(task.duration == made->tasks[t].duration);
            if (task.kind == trace::Kind::Forward && task.stage.value > 0 && task.stage.index() + 1 < plan.stages.size() && task.firstOp == 0)
                forward[types[task.stage.index()]].insert(task.duration.value());
        }
        double previous = 0;
        for (const auto &[type, times] : forward) {
            QVERIFY(*times.rbegin() < *times.begin() * (1 + 1e-9)); // layers' times are differences of sums
            QVERIFY(!times.contains(previous));
            previous = *times.begin();
        }
        checkSame(plan, about);
    }

    void cutsTakeWhatTheirLinksTake()
    {
        // Replicas of 3 lie inside of a machine of 4, or across two: cuts that do not lie alike take different times.
        const plan::Subject about = subjectOf(tinyGpt(false, 12), equalNodes(5, 4));
        const plan::Plan plan = planOf(about, std::vector<StageShape>(6, {3, 1}), 18, 2);
        const program::Program program = compiled(plan, about, false);
        std::set<double> different;
        for (const program::Task &task : program.tasks) {
            if (task.kind != trace::Kind::Send)
                continue;
            const std::size_t here = task.stage.index();
            const std::size_t to = task.pass == program::Pass::Forward ? here + 1 : here - 1;
            const std::size_t cut = plan.stages[std::max(here, to)].firstLayer;
            const auto bytes = static_cast<double>(about.layers().cutBytes(*about.graph, cut, 1).value()) * 9;
            QVERIFY(task.duration == about.costs->transfer(plan.stages[here].devices, plan.stages[to].devices, bytes));
            different.insert(task.duration.value());
        }
        QVERIFY(different.size() > 1);
    }

    void simulatePlanFoldsUnlessRanksAreAskedFor()
    {
        const plan::Subject about = subjectOf(tinyGpt(true), equalNodes(2, 4));
        const plan::Plan plan = planOf(about, {{4, 1}, {4, 1}}, 16, 4);
        const auto folded = simulate::simulatePlan(plan, about, {false, false});
        const auto whole = simulate::simulatePlan(plan, about);
        QVERIFY(folded.ok() && whole.ok());
        QCOMPARE(whole->trace.ranks.size(), std::size_t(8));
        QCOMPARE(simulate::toJson(folded->report).c_str(), simulate::toJson(whole->report).c_str());
        QVERIFY(!program::compile(plan, about, {.bodies = true, .fold = true}).ok());
    }
};

QTEST_GUILESS_MAIN(TestFold)
#include "tst_fold.moc"

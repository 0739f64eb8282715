// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "engine/simulate/live_memory.h"
#include "engine/simulate/simulate.h"
#include "tests/engine/compile/random_plans.h"

#include <QTest>

#include <algorithm>
#include <map>
#include <set>

using namespace planloom;
using simulate::BlockKind;
using simulate::LiveBlock;
using simulate::LiveMemory;
using testing::equalNodes;
using testing::planOf;
using testing::subjectOf;
using testing::tinyGpt;

namespace {

/// Which member of a memory point counts the blocks of a kind; padding is counted where it lies.
std::int64_t simulate::MemoryPoint::*countedIn(BlockKind kind)
{
    switch (kind) {
    case BlockKind::Activation:
    case BlockKind::Message: return &simulate::MemoryPoint::activations;
    case BlockKind::GradientMessage:
    case BlockKind::ActivationGradient: return &simulate::MemoryPoint::gradients;
    case BlockKind::Workspace: return &simulate::MemoryPoint::workspace;
    case BlockKind::Padding: return nullptr;
    default: return &simulate::MemoryPoint::persistent;
    }
}

struct Simulated {
    program::Program program;
    simulate::Simulation simulation;
};

Simulated simulated(const plan::Plan &plan, const plan::Subject &subject, bool bodies)
{
    auto program = compile::compilePlan(plan, subject, {.bodies = bodies});
    if (!program)
        qFatal("%s", program.error().text().c_str());
    auto simulation = simulate::simulate(*program, *subject.cluster);
    if (!simulation)
        qFatal("%s", simulation.error().text().c_str());
    return {*std::move(program), *std::move(simulation)};
}

LiveMemory memoryOf(const program::Program &program, std::size_t rank)
{
    auto memory = simulate::liveMemory(program, RankId(static_cast<std::int64_t>(rank)));
    if (!memory)
        qFatal("%s", memory.error().text().c_str());
    return *std::move(memory);
}

/// At each point of the curve the blocks sum up to it, by kind as well, and none lies on another one.
void checkPoint(const LiveMemory &memory, const simulate::MemoryPoint &point)
{
    simulate::MemoryPoint sums;
    std::int64_t bytes = 0;
    std::int64_t placed = 0;
    std::vector<std::pair<std::int64_t, std::int64_t>> places;
    for (const std::size_t b : memory.at(point.seconds)) {
        const LiveBlock &block = memory.blocks[b];
        QVERIFY(block.bytes > 0);
        bytes += block.bytes;
        if (const auto member = countedIn(block.kind))
            sums.*member += block.bytes;
        if (block.offset < 0)
            continue;
        placed += block.bytes;
        QVERIFY(block.offset + block.bytes <= memory.arenaBytes);
        places.emplace_back(block.offset, block.offset + block.bytes);
    }
    QCOMPARE(bytes, point.total());
    for (const auto &kind : simulate::memoryKinds())
        QVERIFY(sums.*kind.bytes <= point.*kind.bytes);
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < places.size(); ++i)
        QVERIFY2(places[i].first >= places[i - 1].second, qPrintable(QString::number(point.seconds)));
    std::int64_t holes = 0;
    for (const LiveMemory::Hole &hole : memory.holesAt(point.seconds))
        holes += hole.bytes();
    QCOMPARE(holes, memory.arenaBytes - placed);
}

void checkCurves(const plan::Plan &plan, const plan::Subject &subject, bool bodies)
{
    const Simulated all = simulated(plan, subject, bodies);
    constexpr std::size_t kRanks = 4; // of a plan, its first and its last ones
    const std::size_t ranks = all.program.ranks.size();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (rank >= kRanks / 2 && rank + kRanks / 2 < ranks)
            continue;
        const LiveMemory memory = memoryOf(all.program, rank);
        QCOMPARE(memory.arenaBytes, all.program.ranks[rank].arenaBytes);
        for (const simulate::MemoryPoint &point : all.simulation.memory[rank]) {
            checkPoint(memory, point);
            if (QTest::currentTestFailed())
                return;
        }
    }
}

plan::Plan pipeline(const plan::Subject &subject, std::int64_t microBatches = 4)
{
    plan::Plan plan = planOf(subject, {{1, 1}, {1, 1}}, 8, microBatches);
    plan.schedule.kind = plan::ScheduleKind::OneF1B;
    return plan;
}

} // namespace

class TestLiveMemory : public QObject {
    Q_OBJECT

private slots:
    void randomPlansSumUp_data()
    {
        QTest::addColumn<unsigned>("seed");
        for (unsigned seed = 1; seed <= 24; ++seed)
            QTest::addRow("%u", seed) << seed;
    }

    void randomPlansSumUp()
    {
        QFETCH(unsigned, seed);
        const testing::PlannedCase drawn = testing::randomCase(seed);
        if (!compile::compilePlan(drawn.plan, drawn.about))
            return; // tst_compile says which plans are refused
        checkCurves(drawn.plan, drawn.about, true);
        checkCurves(drawn.plan, drawn.about, false);
    }

    void otherFeaturesSumUp_data()
    {
        QTest::addColumn<QString>("feature");
        for (const char *feature :
             {"zb-h1", "recompute", "layers", "bf16", "interleaved", "averaged", "delta", "lru", "hosted"})
            QTest::newRow(feature) << QString::fromLatin1(feature);
    }

    void otherFeaturesSumUp()
    {
        QFETCH(QString, feature);
        const plan::Subject about = subjectOf(tinyGpt(false), equalNodes(1, 4));
        plan::Plan plan = pipeline(about);
        if (feature == QStringLiteral("zb-h1"))
            plan.schedule.kind = plan::ScheduleKind::ZeroBubbleH1;
        if (feature == QStringLiteral("interleaved")) {
            plan = planOf(about, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, 8, 4);
            plan.schedule.kind = plan::ScheduleKind::Interleaved1F1B;
            plan.stages[2].devices = plan.stages[0].devices;
            plan.stages[3].devices = plan.stages[1].devices;
        }
        if (feature == QStringLiteral("averaged")) {
            plan = planOf(about, {{4, 1}}, 16, 2);
            plan.exchange.policy = plan::ExchangePolicy::DelayedAveraging;
        }
        for (plan::Stage &stage : plan.stages) {
            if (feature == QStringLiteral("recompute"))
                stage.recompute = plan::Recompute::Full;
            if (feature == QStringLiteral("layers"))
                stage.recompute = plan::Recompute::Layers;
            if (feature == QStringLiteral("delta") || feature == QStringLiteral("hosted"))
                stage.memory.filter = plan::MemoryFilter::Delta;
            if (feature == QStringLiteral("lru"))
                stage.memory.filter = plan::MemoryFilter::LeastRecentUsed;
            if (stage.memory.limits())
                stage.memory.budgetShare = 0.6;
            stage.memory.hostStates = feature == QStringLiteral("hosted");
        }
        plan::Subject subject = about;
        if (feature == QStringLiteral("bf16")) {
            plan.precision = plan::Precision::BFloat16;
            subject = plan::inPrecision(about, plan.precision);
        }
        const Status valid = plan::validate(plan, subject);
        QVERIFY2(valid, valid ? "" : valid.error().text().c_str());
        checkCurves(plan, subject, true);
        if (!QTest::currentTestFailed())
            checkCurves(plan, subject, false);
    }

    /// Two stages of a small transformer on a device each, by hand: what a stage's parameters, their gradients and the
    /// two states of AdamW take.
    void whatStaysIsNamed()
    {
        const plan::Subject about = subjectOf(tinyGpt(false), equalNodes(1, 2));
        const Simulated all = simulated(pipeline(about), about, true);
        const LiveMemory memory = memoryOf(all.program, 0);
        std::map<std::string, std::map<BlockKind, std::int64_t>> found;
        for (const std::size_t b : memory.at(0))
            if (memory.blocks[b].end > memory.endSeconds)
                found[memory.nameOf(memory.blocks[b].name)][memory.blocks[b].kind] += memory.blocks[b].bytes;
        std::size_t parameters = 0;
        for (const graph::Tensor &tensor : about.graph->tensors()) {
            const auto held = found.find(tensor.name);
            if (tensor.role != graph::TensorRole::Parameter || held == found.end())
                continue;
            ++parameters;
            const std::int64_t bytes = tensor.bytes().value();
            QCOMPARE(held->second[BlockKind::Parameter], bytes);
            QCOMPARE(held->second[BlockKind::Gradient], bytes);
            QCOMPARE(held->second[BlockKind::OptimizerState], 2 * bytes);
        }
        QVERIFY(parameters > 10);
    }

    /// What a micro-batch keeps is made by its forward pass and last used by its backward pass.
    void activationsKnowTheirTasks()
    {
        const plan::Subject about = subjectOf(tinyGpt(false), equalNodes(1, 2));
        const Simulated all = simulated(pipeline(about), about, true);
        const LiveMemory memory = memoryOf(all.program, 0);
        std::set<std::int32_t> microBatches;
        for (const LiveBlock &block : memory.blocks) {
            if (block.kind != BlockKind::Activation || block.op < 0)
                continue;
            microBatches.insert(block.microBatch);
            const std::string number = ".m" + std::to_string(block.microBatch);
            QCOMPARE(program::idOf(all.program.task(block.made)).c_str(), ("s0.F" + number).c_str());
            QVERIFY(block.begin < block.madeSeconds && block.madeSeconds <= block.lastSeconds
                    && block.lastSeconds <= block.end);
            QVERIFY(!memory.nameOf(block.name).empty() && !memory.nameOf(block.op).empty());
        }
        QCOMPARE(microBatches.size(), std::size_t(4));
    }

    /// Most tensors of a pool are told apart.
    void poolsAreNamed()
    {
        const plan::Subject about = subjectOf(tinyGpt(false), equalNodes(1, 2));
        plan::Plan plan = pipeline(about);
        for (plan::Stage &stage : plan.stages) {
            stage.memory.filter = plan::MemoryFilter::Delta;
            stage.memory.budgetShare = 0.6;
        }
        const Simulated all = simulated(plan, about, true);
        const LiveMemory memory = memoryOf(all.program, 0);
        std::int64_t named = 0;
        std::int64_t pool = 0;
        for (const simulate::MemoryPoint &point : all.simulation.memory[0])
            for (const std::size_t b : memory.at(point.seconds)) {
                const LiveBlock &block = memory.blocks[b];
                if (block.kind != BlockKind::Activation)
                    continue;
                pool += block.bytes;
                named += block.offset >= 0 ? block.bytes : 0;
            }
        QVERIFY2(named > pool / 2, qPrintable(QStringLiteral("%1 of %2").arg(named).arg(pool)));
    }

    void kindsHaveNames()
    {
        std::set<std::string> names;
        for (int kind = 0; kind < simulate::kBlockKinds; ++kind)
            names.insert(simulate::name(static_cast<BlockKind>(kind)));
        QCOMPARE(names.size(), static_cast<std::size_t>(simulate::kBlockKinds));
    }
};

QTEST_APPLESS_MAIN(TestLiveMemory)
#include "tst_live_memory.moc"

// SPDX-License-Identifier: Apache-2.0
// Programs as text, against tests/golden/programs: what a plan compiles to, for a reader. PLANLOOM_UPDATE_GOLDEN=1
// rewrites the files.
#include "tests/engine/compile/program_text.h"
#include "tests/engine/compile/random_plans.h"
#include "tests/golden_text.h"

#include <QTest>

#include <cmath>
#include <functional>
#include <map>
#include <set>

using namespace planloom;
using testing::planOf;
using testing::StageShape;
using testing::tinyGpt;

namespace {

/// @p devices in one node, 10 GB/s between any two, 1 microsecond of latency.
std::shared_ptr<const cluster::Cluster> node(int devices)
{
    cluster::RegularCluster spec;
    spec.name = "node";
    spec.perNode = devices;
    spec.type.name = "device";
    spec.type.peakFlops = {{"float32", 1e12}, {"bfloat16", 4e12}};
    spec.type.memory = Bytes(1 << 30);
    spec.type.memoryBandwidth = 1e11;
    spec.intraBandwidth = 1e10;
    spec.interPointToPoint = 1e10;
    spec.interCollective = 1e10;
    spec.intraLatency = Seconds(1e-6);
    auto cluster = cluster::regular(spec);
    if (!cluster)
        qFatal("%s", cluster.error().text().c_str());
    return std::make_shared<const cluster::Cluster>(*std::move(cluster));
}

/// Eight equal layers.
std::shared_ptr<const graph::Graph> perceptron()
{
    auto graph = graph::mlp("mlp", std::vector<std::int64_t>(9, 64));
    if (!graph)
        qFatal("%s", graph.error().text().c_str());
    return std::make_shared<const graph::Graph>(*std::move(graph));
}

/// One stage of a transformer on two A100, with a profile that has @p extra only.
program::Program onTwo(StageShape stage, const std::map<std::string, double> &extra)
{
    auto profile = std::make_shared<cost::Profile>();
    profile->extra = extra;
    const plan::Subject plain = testing::subjectOf(tinyGpt(false), testing::equalNodes(1, 2));
    const plan::Subject subject = plan::makeSubject(plain.graph, plain.cluster, std::move(profile), "test");
    auto program = compile::compilePlan(planOf(subject, {stage}, 4, 1), subject, {.bodies = false});
    if (!program)
        qFatal("%s", program.error().text().c_str());
    return *std::move(program);
}

using Change = std::function<void(plan::Plan &)>;

void onEachStage(plan::Plan &plan, const std::function<void(plan::Stage &)> &change)
{
    for (plan::Stage &stage : plan.stages)
        change(stage);
}

} // namespace

class TestProgramTexts : public QObject {
    Q_OBJECT

private slots:
    /// A process launches kernels ahead of those and of the collectives of a pass: where launches are the slower side,
    /// the pass takes as long as they do, collectives included.
    void launchesRunAheadOfCollectives()
    {
        const program::Program program = onTwo({1, 2}, {{"kernel_launch_seconds", 1}});
        double pass = 0;
        double boxing = 0;
        for (const program::Task &task : program.tasks)
            if (task.rank == RankId(0) && task.microBatch == 0 && task.pass() == program::Pass::Forward) {
                const bool box = task.as<program::Boxing>() != nullptr;
                (box ? boxing : pass) += task.duration.value();
            }
        const double kernels = std::round(pass + boxing);
        QVERIFY(kernels > 20);
        QVERIFY(boxing > 1e-6);
        QVERIFY2(std::abs(pass + boxing - kernels) < 1e-7, qPrintable(QString::number(pass + boxing, 'g', 12)));
    }

    /// Frameworks that exchange gradients in 16 bits send half of what is summed up.
    void gradientsOfHalfTheWidth()
    {
        const auto exchanged = [](const program::Program &program) {
            double seconds = 0;
            for (const program::Task &task : program.tasks)
                if (task.rank == RankId(0) && task.as<program::Exchange>() != nullptr)
                    seconds += task.duration.value();
            return seconds;
        };
        const double whole = exchanged(onTwo({2, 1}, {}));
        const double half = exchanged(onTwo({2, 1}, {{"gradient_share", 0.5}}));
        QVERIFY(whole > 0);
        QVERIFY(half < 0.95 * whole);
        QVERIFY(half >= 0.5 * whole);
    }

    /// Shards are gathered by layer: no bucket has parameters of two blocks, also of 12, where h/1 begins the names of
    /// h/10 and h/11.
    void bucketsOfManyLayers()
    {
        const plan::Subject subject = testing::subjectOf(tinyGpt(false, 12), testing::equalNodes(1, 2));
        plan::Plan plan = planOf(subject, {{2, 1}}, 4, 1);
        plan.stages.front().zero = 3;
        const auto program = compile::compilePlan(plan, subject, {.bodies = false});
        QVERIFY2(program.ok(), program ? "" : program.error().text().c_str());
        std::size_t ofBlocks = 0;
        for (const program::Bucket &bucket : program->buckets) {
            std::set<std::string> blocks;
            for (const program::Bucket::Entry &entry : bucket.entries)
                if (const std::size_t at = entry.parameter.find(".h."); at != std::string::npos)
                    blocks.insert(entry.parameter.substr(at + 3, entry.parameter.find('.', at + 3) - at - 3));
            ofBlocks += blocks.empty() ? 0 : 1;
            QVERIFY2(blocks.size() < 2, bucket.entries.front().parameter.c_str());
        }
        QVERIFY(ofBlocks >= 12);
    }

    /// What stages send each other: halves in 16 bits, a part that is gathered, or everything from each device.
    void transfersOfFrameworks()
    {
        const auto sent = [](const std::map<std::string, double> &extra, plan::Precision precision) {
            auto profile = std::make_shared<cost::Profile>();
            profile->extra = extra;
            const plan::Subject plain = testing::subjectOf(tinyGpt(false), testing::equalNodes(1, 4));
            const plan::Subject subject =
                plan::inPrecision(plan::makeSubject(plain.graph, plain.cluster, std::move(profile), "test"), precision);
            plan::Plan plan = planOf(subject, {{1, 2}, {1, 2}}, 4, 2);
            plan.precision = precision;
            auto program = compile::compilePlan(plan, subject, {.bodies = false});
            if (!program)
                qFatal("%s", program.error().text().c_str());
            for (const program::Task &task : program->tasks)
                if (task.as<program::Transfer>() != nullptr)
                    return task.duration.value();
            return 0.0;
        };
        using plan::Precision;
        const double plain = sent({}, Precision::BFloat16);
        QVERIFY(plain > 0);
        QVERIFY(sent({{cost::kTransferShare, 0.5}}, Precision::BFloat16) < plain);
        QCOMPARE(sent({{cost::kTransferShare, 0.5}}, Precision::Float32), sent({}, Precision::Float32));
        QVERIFY(sent({{cost::kGatheredTransfers, 1}}, Precision::BFloat16) > plain);
        QVERIFY(sent({{cost::kWholeTransfers, 1}}, Precision::BFloat16) > plain);
    }

    /// A rank that waits for its messages begins a pass behind what it sent in the pass before.
    void blockingTransfers()
    {
        const auto waits = [](const std::map<std::string, double> &extra) {
            auto profile = std::make_shared<cost::Profile>();
            profile->extra = extra;
            const plan::Subject plain = testing::subjectOf(tinyGpt(false), testing::equalNodes(1, 2));
            const plan::Subject subject = plan::makeSubject(plain.graph, plain.cluster, std::move(profile), "test");
            auto program = compile::compilePlan(planOf(subject, {{1, 1}, {1, 1}}, 8, 4), subject, {.bodies = false});
            if (!program)
                qFatal("%s", program.error().text().c_str());
            int found = 0;
            for (const program::Task &task : program->tasks)
                for (const program::Dependency &on : program::partOf(program->dependencies, task.dependencies)) {
                    const auto *sent = program->task(on.task).as<program::Transfer>();
                    const bool next = task.pass() && program->task(on.task).microBatch != task.microBatch;
                    found += sent != nullptr && sent->sends && next ? 1 : 0;
                }
            return found;
        };
        const int before = waits({});
        QVERIFY2(waits({{cost::kBlockingTransfers, 1}}) >= before + 6, qPrintable(QString::number(before)));
    }

    void texts_data()
    {
        using plan::ScheduleKind;
        QTest::addColumn<std::shared_ptr<const graph::Graph>>("graph");
        QTest::addColumn<std::vector<StageShape>>("stages");
        QTest::addColumn<int>("microBatches");
        QTest::addColumn<Change>("change");
        const std::vector<StageShape> two(2, {1, 1});
        const std::vector<StageShape> three(3, {1, 1});
        const auto schedule = [](ScheduleKind kind) -> Change {
            return [kind](plan::Plan &plan) { plan.schedule.kind = kind; };
        };
        QTest::newRow("1f1b") << perceptron() << two << 4 << schedule(ScheduleKind::OneF1B);
        QTest::newRow("gpipe") << perceptron() << two << 4 << schedule(ScheduleKind::GPipe);
        QTest::newRow("dapple_b") << perceptron() << three << 4 << schedule(ScheduleKind::DappleB);
        QTest::newRow("zb_h1") << perceptron() << three << 4 << schedule(ScheduleKind::ZeroBubbleH1);
        QTest::newRow("interleaved") << perceptron() << std::vector<StageShape>(4, {1, 1}) << 4
                                     << Change([](plan::Plan &plan) {
                                            plan.schedule.kind = ScheduleKind::Interleaved1F1B;
                                            for (std::size_t s = 0; s < plan.stages.size(); ++s)
                                                plan.stages[s].devices = {DeviceId(static_cast<std::int64_t>(s % 2))};
                                        });
        QTest::newRow("data_parallel") << perceptron() << std::vector<StageShape>{{2, 1}} << 2
                                       << Change([](plan::Plan &plan) { plan.bucketBytes = 48 << 10; });
        QTest::newRow("zero_2") << perceptron() << std::vector<StageShape>{{2, 1}} << 2 << Change([](plan::Plan &plan) {
            plan.bucketBytes = 48 << 10;
            onEachStage(plan, [](plan::Stage &stage) { stage.zero = 2; });
        });
        QTest::newRow("tensor_pipeline") << tinyGpt(false, 2) << std::vector<StageShape>(2, {1, 2}) << 2
                                         << schedule(ScheduleKind::OneF1B);
        QTest::newRow("recompute_full") << perceptron() << two << 3 << Change([](plan::Plan &plan) {
            onEachStage(plan, [](plan::Stage &stage) { stage.recompute = plan::Recompute::Full; });
        });
    }
    void texts()
    {
        QFETCH(std::shared_ptr<const graph::Graph>, graph);
        QFETCH(std::vector<StageShape>, stages);
        QFETCH(int, microBatches);
        QFETCH(Change, change);
        const plan::Subject about = plan::makeSubject(graph, node(4), nullptr, graph->name());
        plan::Plan plan = planOf(about, stages, microBatches * 4, microBatches);
        change(plan);
        const auto program = compile::compilePlan(plan, about);
        QVERIFY2(program.ok(), program.ok() ? "" : program.error().text().c_str());
        const std::string text = testing::programText(*program, *about.cluster);
        const std::string file = std::string("golden/programs/") + QTest::currentDataTag() + ".txt";
        const QStringList expected = QString::fromStdString(testing::goldenText(file, text)).split('\n');
        const QStringList found = QString::fromStdString(text).split('\n');
        for (qsizetype line = 0; line < std::max(expected.size(), found.size()); ++line)
            QVERIFY2(expected.value(line) == found.value(line),
                     qPrintable(QString("tests/%1:%2:\n  golden: %3\n  now:    %4")
                                    .arg(QString::fromStdString(file))
                                    .arg(line + 1)
                                    .arg(expected.value(line), found.value(line))));
    }
};

QTEST_GUILESS_MAIN(TestProgramTexts)
#include "tst_program_texts.moc"

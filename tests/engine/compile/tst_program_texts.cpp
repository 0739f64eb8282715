// SPDX-License-Identifier: Apache-2.0
// Programs as text, against tests/golden/programs: what a plan compiles to, for a reader. PLANLOOM_UPDATE_GOLDEN=1
// rewrites the files.
#include "tests/engine/compile/program_text.h"
#include "tests/engine/compile/random_plans.h"
#include "tests/golden_text.h"

#include <QTest>

#include <functional>

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

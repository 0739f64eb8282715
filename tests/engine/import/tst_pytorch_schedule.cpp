// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "engine/import/pytorch_schedule.h"

#include "engine/export/export.h"
#include "engine/graph/zoo/zoo.h"
#include "tests/pass_steps.h"

#include <QTest>

using namespace planloom;

namespace {

plan::Subject subject()
{
    cluster::RegularCluster spec;
    spec.name = "four";
    spec.perNode = 4;
    spec.type.name = "device";
    spec.type.peakFlops = {{"float32", 1e12}};
    spec.type.memory = Bytes(std::int64_t{1} << 34);
    spec.type.memoryBandwidth = 1e12;
    spec.intraBandwidth = 1e11;
    spec.interPointToPoint = 1e10;
    spec.interCollective = 1e10;
    auto cluster = cluster::regular(spec);
    auto graph = graph::mlp("layers", std::vector<std::int64_t>(9, 16));
    if (!cluster || !graph)
        return {};
    return plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)),
                             std::make_shared<const cluster::Cluster>(*std::move(cluster)), nullptr, "zoo:layers");
}

/// Stages on devices, given by first device and how many there are.
plan::Plan planOf(const plan::Subject &subject, plan::ScheduleKind kind, const std::vector<std::int64_t> &places,
                  std::int64_t replicas = 1)
{
    plan::Plan plan;
    plan.modelName = subject.graph->name();
    plan.clusterName = subject.cluster->name();
    plan.globalBatch = 16;
    plan.microBatches = 4;
    plan.schedule.kind = kind;
    for (std::size_t s = 0; s < places.size(); ++s) {
        plan::Stage stage;
        stage.firstLayer = subject.layers().size() * s / places.size();
        stage.lastLayer = subject.layers().size() * (s + 1) / places.size();
        for (std::int64_t r = 0; r < replicas; ++r)
            stage.devices.emplace_back(places[s] * replicas + r);
        plan.stages.push_back(std::move(stage));
    }
    return plan;
}

/// The compute tasks of every rank, in order.
std::vector<std::vector<std::string>> ordersOf(const plan::Plan &plan, const plan::Subject &subject)
{
    std::vector<std::vector<std::string>> orders;
    const auto program = compile::compilePlan(plan, subject, {.bodies = false});
    for (std::size_t r = 0; program && r < program->ranks.size(); ++r) {
        orders.emplace_back();
        for (const TaskId task : program->ranks[r].computeOrder())
            orders.back().push_back(program::idOf(program->task(task)));
    }
    return orders;
}

} // namespace

/// Schedules of torch.distributed.pipelining, written and read back.
class TestPytorchSchedule : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        m_subject = subject();
        QVERIFY(m_subject.graph != nullptr);
    }

    void roundTrip_data()
    {
        QTest::addColumn<int>("kind");
        QTest::addColumn<QList<qint64>>("places");
        QTest::addColumn<int>("replicas");
        const auto row = [](const char *name, plan::ScheduleKind kind, const QList<qint64> &places, int replicas = 1) {
            QTest::newRow(name) << static_cast<int>(kind) << places << replicas;
        };
        row("1f1b", plan::ScheduleKind::OneF1B, {0, 1, 2, 3});
        row("interleaved", plan::ScheduleKind::Interleaved1F1B, {0, 1, 0, 1});
        row("interleaved, 2 replicas", plan::ScheduleKind::Interleaved1F1B, {0, 1, 0, 1}, 2);
        row("there and back", plan::ScheduleKind::GPipe, {0, 1, 1, 0});
        row("zero bubble", plan::ScheduleKind::ZeroBubbleH1, {0, 1, 2});
    }
    void roundTrip()
    {
        QFETCH(int, kind);
        QFETCH(QList<qint64>, places);
        QFETCH(int, replicas);
        plan::Plan plan =
            planOf(m_subject, static_cast<plan::ScheduleKind>(kind), {places.begin(), places.end()}, replicas);
        const auto program = compile::compilePlan(plan, m_subject, {.bodies = false});
        QVERIFY2(program.ok(), program ? "" : program.error().message.c_str());
        const auto csv = exporting::pytorchScheduleCsv(*program);
        QVERIFY2(csv.ok(), csv ? "" : csv.error().message.c_str());
        const auto orders = ordersOf(plan, m_subject);
        const auto schedule = import::readPytorchSchedule(*csv, "made.csv", plan, *m_subject.cluster);
        QVERIFY2(schedule.ok(), schedule ? "" : schedule.error().message.c_str());
        plan.schedule = *schedule;
        const Status valid = plan::validate(plan, m_subject);
        QVERIFY2(valid.ok(), valid ? "" : valid.error().message.c_str());
        QCOMPARE(ordersOf(plan, m_subject), orders);
    }

    void notation()
    {
        plan::Plan plan = planOf(m_subject, plan::ScheduleKind::ZeroBubbleH1, {0, 1});
        plan.microBatches = 2;
        const auto program = compile::compilePlan(plan, m_subject, {.bodies = false});
        QVERIFY(program.ok());
        const auto csv = exporting::pytorchScheduleCsv(*program);
        QVERIFY(csv.ok());
        const QStringList lines = QString::fromStdString(*csv).split('\n', Qt::SkipEmptyParts);
        QStringList computing[2];
        for (int line = 0; line < 2; ++line)
            for (const QString &cell : lines[line].split(','))
                if (!cell.contains('_'))
                    computing[line] << cell;
        QCOMPARE(computing[0].join(' '), QString("0F0 0F1 0I0 0W0 0I1 0W1"));
        QCOMPARE(computing[1].join(' '), QString("1F0 1I0 1F1 1I1 1W0 1W1"));
        QVERIFY(lines[1].contains("1SEND_B0"));
    }

    /// Without communication, with empty cells, and a stage that is whole once and cut once.
    void readsWhatPytorchWrites()
    {
        plan::Plan plan = planOf(m_subject, plan::ScheduleKind::OneF1B, {0, 1});
        plan.microBatches = 2;
        const auto schedule = import::readPytorchSchedule("0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1I1, ,1W1\n", "made.csv",
                                                          plan, *m_subject.cluster);
        QVERIFY2(schedule.ok(), schedule ? "" : schedule.error().message.c_str());
        QCOMPARE(schedule->kind, plan::ScheduleKind::Custom);
        const std::vector<std::string> last{"s1.F.m0", "s1.B.m0", "s1.W.m0", "s1.F.m1", "s1.B.m1", "s1.W.m1"};
        QCOMPARE(schedule->order.at(m_subject.cluster->device(DeviceId(1)).name), test::passSteps(last));
        plan.schedule = *schedule;
        QVERIFY(compile::compilePlan(plan, m_subject).ok());
    }

    void whatDoesNotFitIsNamed_data()
    {
        QTest::addColumn<QString>("csv");
        QTest::addColumn<QString>("error");
        QTest::newRow("nonsense") << "0F0,0X1\n1F0\n"
                                  << "made.csv:1: \"0X1\" is no action";
        QTest::newRow("no number") << "0F0\nF0\n"
                                   << "made.csv:2: \"F0\" is no action";
        QTest::newRow("stage") << "0F0\n7F0\n"
                               << "made.csv:2: \"7F0\" is of stage 7, but the plan has 2 stages";
        QTest::newRow("micro-batch") << "0F9\n1F0\n"
                                     << "made.csv:1: \"0F9\" is of micro-batch 9, but the plan has 4";
        QTest::newRow("other devices")
            << "0F0,1F0\n"
            << "computes stages 0, 1, which in the plan are not those of one list of devices";
        QTest::newRow("missing") << "0F0\n"
                                 << "no line computes stage 1";
        QTest::newRow("twice") << "0F0\n0F1\n"
                               << "two lines compute stage 0";
        QTest::newRow("nothing") << ""
                                 << "no line computes stage 0";
        QTest::newRow("too large") << "0F99999999999999999999\n"
                                   << "is no action";
    }
    void whatDoesNotFitIsNamed()
    {
        QFETCH(QString, csv);
        QFETCH(QString, error);
        const plan::Plan plan = planOf(m_subject, plan::ScheduleKind::OneF1B, {0, 1});
        const auto schedule = import::readPytorchSchedule(csv.toStdString(), "made.csv", plan, *m_subject.cluster);
        QVERIFY(!schedule.ok());
        QVERIFY2(QString::fromStdString(schedule.error().message).contains(error), schedule.error().message.c_str());
    }

private:
    plan::Subject m_subject;
};

QTEST_GUILESS_MAIN(TestPytorchSchedule)
#include "tst_pytorch_schedule.moc"

// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "engine/import/pytorch_schedule.h"

#include "engine/export/export.h"
#include "engine/graph/zoo/zoo.h"
#include "tests/engine/export/upstream_parser.h"
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

constexpr auto kPasses = exporting::PytorchForm::ComputeOnly;
constexpr auto kAll = exporting::PytorchForm::ComputeComms;

/// What PyTorch's loader says to a schedule of planOf()'s four micro-batches.
testing::UpstreamAnswer asked(const std::string &csv, exporting::PytorchForm form, qsizetype stages)
{
    return testing::askUpstream("pytorch_schedule.py", csv,
                                {form == kAll ? "compute_comms" : "compute_only", QString::number(stages), "4"});
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
        row("one stage", plan::ScheduleKind::OneF1B, {0}, 4);
        row("four stages on each of two", plan::ScheduleKind::GPipe,
            {0, 1, 0, 1, 0, 1, 0, 1}); // more than are gathered
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
        const auto orders = ordersOf(plan, m_subject);
        for (const auto form : {kPasses, kAll}) {
            const auto csv = exporting::pytorchScheduleCsv(*program, form);
            QVERIFY2(csv.ok(), csv ? "" : csv.error().message.c_str());
            const testing::UpstreamAnswer answer = asked(csv->text, form, places.size());
            QVERIFY2(answer.reads, qPrintable(answer.text + '\n' + QString::fromStdString(csv->text)));
            const auto schedule = import::readPytorchSchedule(csv->text, "made.csv", plan, *m_subject.cluster);
            QVERIFY2(schedule.ok(), schedule ? "" : schedule.error().message.c_str());
            plan::Plan again = plan;
            again.schedule = *schedule;
            const Status valid = plan::validate(again, m_subject);
            QVERIFY2(valid.ok(), valid ? "" : valid.error().message.c_str());
            QCOMPARE(ordersOf(again, m_subject), orders);
        }
    }

    /// Each with one mistake, which PyTorch refuses or cannot run: what the round trip asks for can fail.
    void upstreamRefuses_data()
    {
        QTest::addColumn<bool>("all");
        QTest::addColumn<QString>("before");
        QTest::addColumn<QString>("after");
        QTest::addColumn<QString>("why");
        QTest::newRow("communication in compute_only") << false << "0F0,"
                                                       << "0F0,0SEND_F0,"
                                                       << "compute_only has";
        QTest::newRow("a pass too few") << false << "0B3"
                                        << ""
                                        << "stage 0 has passes";
        QTest::newRow("backward first") << false << "1F0,1B0"
                                        << "1B0,1F0"
                                        << "before what it needs";
        QTest::newRow("empty cell") << true << "0F0,"
                                    << "0F0,,"
                                    << "compute_comms has empty cells";
        QTest::newRow("no reduction") << true << "1REDUCE_GRAD,"
                                      << ""
                                      << "gradients of stage 1 are never reduced";
        QTest::newRow("reduction too early") << true << "1F0,"
                                             << "1F0,1REDUCE_GRAD,"
                                             << "of 0 micro-batches";
        QTest::newRow("not gathered") << true << "0UNSHARD,"
                                      << ""
                                      << "computes without its parameters";
        QTest::newRow("not sent") << true << "0SEND_F0,"
                                  << ""
                                  << "rank 1 receives 1RECV_F0 where";
        QTest::newRow("not received") << true << "1RECV_F0,"
                                      << ""
                                      << "before its input is there";
        QTest::newRow("letters of 2.5") << true << "0B0"
                                        << "0BW0"
                                        << "is no action";
    }
    void upstreamRefuses()
    {
        QFETCH(bool, all);
        QFETCH(QString, before);
        QFETCH(QString, after);
        QFETCH(QString, why);
        const plan::Plan plan = planOf(m_subject, plan::ScheduleKind::OneF1B, {0, 1});
        const auto program = compile::compilePlan(plan, m_subject, {.bodies = false});
        QVERIFY(program.ok());
        const auto form = all ? kAll : kPasses;
        QString csv = QString::fromStdString(exporting::pytorchScheduleCsv(*program, form)->text);
        QVERIFY2(csv.contains(before), qPrintable(csv));
        csv.replace(csv.indexOf(before), before.size(), after);
        const testing::UpstreamAnswer answer = asked(csv.toStdString(), form, 2);
        QVERIFY2(!answer.reads && answer.text.contains(why), qPrintable(answer.text));
    }

    void ranksOfOtherStagesAreSaid()
    {
        const plan::Plan plan = planOf(m_subject, plan::ScheduleKind::GPipe, {0, 1, 1, 0});
        const auto program = compile::compilePlan(plan, m_subject, {.bodies = false});
        QVERIFY(program.ok());
        QCOMPARE(exporting::pytorchScheduleCsv(*program, kPasses)->notes.back(),
                 std::string("stages lie on ranks 0 1 1 0 of the pipeline: make each PipelineStage on its own"));
    }

    void notation()
    {
        plan::Plan plan = planOf(m_subject, plan::ScheduleKind::ZeroBubbleH1, {0, 1});
        plan.microBatches = 2;
        const auto program = compile::compilePlan(plan, m_subject, {.bodies = false});
        QVERIFY(program.ok());
        const auto csv = exporting::pytorchScheduleCsv(*program, kAll);
        QVERIFY(csv.ok());
        const QStringList lines = QString::fromStdString(csv->text).split('\n', Qt::SkipEmptyParts);
        QStringList computing[2];
        for (int line = 0; line < 2; ++line)
            for (const QString &cell : lines[line].split(','))
                if (!cell.contains('_') && !cell.contains("SHARD"))
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

    /// A forward and a backward that PyTorch overlaps are read one after the other.
    void readsOverlappedPasses()
    {
        plan::Plan plan = planOf(m_subject, plan::ScheduleKind::OneF1B, {0, 1});
        plan.microBatches = 2;
        const auto schedule = import::readPytorchSchedule("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n", "made.csv",
                                                          plan, *m_subject.cluster);
        QVERIFY2(schedule.ok(), schedule ? "" : schedule.error().message.c_str());
        const std::vector<std::string> last{"s1.F.m0", "s1.F.m1", "s1.B.m0", "s1.B.m1"};
        QCOMPARE(schedule->order.at(m_subject.cluster->device(DeviceId(1)).name), test::passSteps(last));
    }

    void whatDoesNotFitIsNamed_data()
    {
        QTest::addColumn<QString>("csv");
        QTest::addColumn<QString>("error");
        QTest::newRow("nonsense") << "0F0,0X1\n1F0\n"
                                  << "made.csv:1: \"0X1\" is no action";
        QTest::newRow("no number") << "0F0\nF0\n"
                                   << "made.csv:2: \"F0\" is no action";
        QTest::newRow("letters of 2.5") << "0F0,0B0,0W0\n1F0\n"
                                        << "made.csv:1: 0W0 follows 0B0, which is the whole backward since PyTorch 2.6";
        QTest::newRow("a send of nothing") << "0F0,0SEND_F\n1F0\n"
                                           << "made.csv:1: \"0SEND_F\" is no action";
        QTest::newRow("brackets") << "(0F0;)OVERLAP_F_B\n1F0\n"
                                  << "made.csv:1: \"\" is no action";
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

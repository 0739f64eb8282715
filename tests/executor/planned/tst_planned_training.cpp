// SPDX-License-Identifier: Apache-2.0
// What every planner proposes for a small model is trained as it stands, a thread a rank: losses equal one rank's, arenas are as planned.
#include "planners/planner.h"
#include "tests/executor/runtime/training_fixture.h"

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>

using namespace planloom;
using namespace planloom::test;

namespace {

constexpr std::int64_t kBatch = 16;

/// Two machines of two slow devices with a slow network: cutting the model and replicating it are both worth it.
std::shared_ptr<const cluster::Cluster> twoMachines()
{
    cluster::RegularCluster spec;
    spec.name = "two machines";
    spec.nodes = 2;
    spec.perNode = 2;
    spec.type.name = "CPU";
    spec.type.peakFlops = {{"float32", 1e8}};
    spec.type.memory = Bytes(std::int64_t{1} << 30);
    spec.type.memoryBandwidth = 1e9;
    spec.intraBandwidth = 1e8;
    spec.interPointToPoint = 5e6;
    spec.interCollective = 5e6;
    auto cluster = cluster::regular(spec);
    return cluster ? std::make_shared<const cluster::Cluster>(std::move(*cluster)) : nullptr;
}

} // namespace

class TestPlannedTraining : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        m_text = m_folder.filePath("words.txt").toStdString();
        QFile file(QString::fromStdString(m_text));
        QVERIFY(file.open(QIODevice::WriteOnly));
        std::uint32_t state = 1;
        for (int i = 0; i < 2000; ++i) {
            const char *words[] = {"plans ", "weave ", "stages\n", "of "};
            file.write(words[(state = state * 1664525U + 1013904223U) >> 30]);
        }
        file.close();
        graph::TransformerConfig config;
        config.name = "tiny";
        config.layers = 4;
        config.heads = 2;
        config.hidden = 32;
        config.feedForward = 128;
        config.vocabulary = 256;
        config.context = 16;
        auto graph = graph::gpt(config);
        QVERIFY(graph);
        m_problem.subject = plan::makeSubject(std::make_shared<const graph::Graph>(std::move(*graph)), twoMachines(), nullptr, "zoo:tiny");
        m_problem.globalBatch = kBatch;
        Layout one;
        one.globalBatch = kBatch;
        const Outcome outcome = trained(planOf(m_problem.subject, one, m_problem.optimizer));
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        m_expected = outcome.losses;
        QCOMPARE(m_expected.size(), std::size_t{5});
    }

    void plansTrain_data()
    {
        QTest::addColumn<QString>("planner");
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        for (const planners::Planner *planner : planners::allPlanners())
            QTest::addRow("%s", planner->name().c_str()) << QString::fromStdString(planner->name()) << "" << "";
        for (const char *stages : {"1", "2", "3", "4"})
            QTest::addRow("spp stages=%s", stages) << "spp" << "stages" << stages;
        QTest::addRow("spp forward first") << "spp" << "tie" << "forward";
        QTest::addRow("spp one in flight") << "spp" << "max_in_flight" << "1";
        QTest::addRow("spp recomputes") << "spp" << "recompute" << "always";
        QTest::addRow("pipedream recomputes") << "pipedream" << "recompute" << "always";
        QTest::addRow("gpipe stages=4") << "gpipe" << "stages" << "4";
        for (const char *mesh : {"4", "2,2", "1,4", "1,2,2", "1,2"})
            QTest::addRow("oneflow mesh=%s", mesh) << "oneflow" << "mesh" << mesh;
        for (const char *family : {"opp", "adp", "pp"})
            QTest::addRow("automap families=%s", family) << "automap" << "families" << family;
        QTest::addRow("manual tensor=2") << "manual" << "tensor" << "2";
        QTest::addRow("manual interleave=2") << "manual" << "pipeline,interleave" << "2,2";
        QTest::addRow("manual interleave=2 tensor=2") << "manual" << "pipeline,interleave,tensor" << "2,2,2";
        QTest::addRow("manual zb-h1") << "manual" << "pipeline,schedule" << "4,zb-h1";
    }

    void plansTrain()
    {
        QFETCH(QString, planner);
        QFETCH(QString, key);
        QFETCH(QString, value);
        planners::Options options;
        const QStringList keys = key.split(',', Qt::SkipEmptyParts);
        const QStringList values = value.split(',');
        for (qsizetype i = 0; i < keys.size(); ++i)
            options[keys[i].toStdString()] = values[i].toStdString();
        NoProgress progress;
        const auto report = (*planners::findPlanner(planner.toStdString()))->plan(m_problem, options, progress);
        QVERIFY2(static_cast<bool>(report), report ? "" : report.error().text().c_str());
        const Outcome outcome = trained(report->plan);
        QVERIFY2(outcome.problem.empty(), (plan::notation(report->plan) + ": " + outcome.problem).c_str());
        QCOMPARE(outcome.losses.size(), m_expected.size());
        for (std::size_t step = 0; step < m_expected.size(); ++step) {
            QVERIFY2(std::fabs(outcome.losses[step] - m_expected[step]) <= 1e-4 * m_expected[step],
                     qPrintable(QString("step %1: %2, on one rank %3").arg(step).arg(outcome.losses[step]).arg(m_expected[step])));
        }
    }

private:
    Outcome trained(const plan::Plan &plan)
    {
        Outcome outcome;
        const auto program = program::compile(plan, m_problem.subject);
        const auto needs = data::needsOf(*m_problem.subject.graph);
        const auto data = needs ? data::openDataSet(m_text, *needs) : Result<std::unique_ptr<data::DataSet>>(needs.error());
        if (!program || !data) {
            outcome.problem = !program ? program.error().text() : data.error().text();
            return outcome;
        }
        const runtime::Feed feed{data->get(), *needs, data::SampleOrder((*data)->samples(), 1, 0)};
        outcome = train(*program, m_problem.subject, plan.optimizer, feed, {});
        for (std::size_t rank = 0; rank < program->ranks.size() && outcome.problem.empty(); ++rank) {
            if (outcome.peaks[rank] != program->ranks[rank].arenaBytes)
                outcome.problem = "rank " + std::to_string(rank) + " used another arena than planned";
        }
        return outcome;
    }

    QTemporaryDir m_folder;
    std::string m_text;
    planners::Problem m_problem;
    std::vector<double> m_expected;
};

QTEST_GUILESS_MAIN(TestPlannedTraining)
#include "tst_planned_training.moc"

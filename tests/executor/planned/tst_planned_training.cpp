// SPDX-License-Identifier: Apache-2.0
// Every planner's plan of a small model is trained, a thread a rank: losses equal one rank's,
// arenas are as planned.
#include "planned_training.h"

#include "planners/registry.h"

#include <QTest>

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
        m_training.problem.subject = tinySubject(tinyConfig(4, 2), twoMachines());
        m_training.problem.globalBatch = kBatch;
        const std::string wrong = m_training.begin();
        QVERIFY2(wrong.empty(), wrong.c_str());
    }

    void plansTrain_data()
    {
        QTest::addColumn<QString>("planner");
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        for (const planners::Planner *planner : planners::allPlanners())
            QTest::addRow("%s", planner->name().c_str()) << QString::fromStdString(planner->name()) << ""
                                                         << "";
        for (const char *stages : {"1", "2", "3", "4"})
            QTest::addRow("spp stages=%s", stages) << "spp"
                                                   << "stages" << stages;
        QTest::addRow("spp forward first") << "spp"
                                           << "tie"
                                           << "forward";
        QTest::addRow("spp one in flight") << "spp"
                                           << "max_in_flight"
                                           << "1";
        QTest::addRow("spp recomputes") << "spp"
                                        << "recompute"
                                        << "always";
        QTest::addRow("pipedream recomputes") << "pipedream"
                                              << "recompute"
                                              << "always";
        QTest::addRow("gpipe stages=4") << "gpipe"
                                        << "stages"
                                        << "4";
        for (const char *mesh : {"4", "2,2", "1,4", "1,2,2", "1,2"})
            QTest::addRow("oneflow mesh=%s", mesh) << "oneflow"
                                                   << "mesh" << mesh;
        for (const char *family : {"opp", "adp", "pp"})
            QTest::addRow("automap families=%s", family) << "automap"
                                                         << "families" << family;
        QTest::addRow("manual tensor=2") << "manual"
                                         << "tensor"
                                         << "2";
        QTest::addRow("manual interleave=2") << "manual"
                                             << "pipeline,interleave"
                                             << "2,2";
        QTest::addRow("manual interleave=2 tensor=2") << "manual"
                                                      << "pipeline,interleave,tensor"
                                                      << "2,2,2";
        QTest::addRow("manual zb-h1") << "manual"
                                      << "pipeline,schedule"
                                      << "4,zb-h1";
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
        const auto report =
            (*planners::findPlanner(planner.toStdString()))->plan(m_training.problem, options, progress);
        QVERIFY2(static_cast<bool>(report), report ? "" : report.error().text().c_str());
        const std::string wrong = m_training.check(report->plan);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }

private:
    PlannedTraining m_training{{"plans ", "weave ", "stages\n", "of "}};
};

QTEST_GUILESS_MAIN(TestPlannedTraining)
#include "tst_planned_training.moc"

// SPDX-License-Identifier: Apache-2.0
// Whale's plans for fast and slow devices are trained as they stand: shares are unequal, gradients are weighted by
// samples, losses equal one rank's.
#include "planned_training.h"

#include "planners/registry.h"

#include <QTest>

#include <algorithm>

using namespace planloom;
using namespace planloom::test;

namespace {

constexpr std::int64_t kBatch = 24;

/// Two machines of four devices; those of the second do half as much.
std::shared_ptr<const cluster::Cluster> fastAndSlow()
{
    cluster::ClusterBuilder builder("fast and slow");
    const std::size_t network = builder.vertex({cluster::Vertex::Kind::Network, "network", {}, {}});
    for (const double flops : {1e8, 5e7}) {
        cluster::DeviceType type;
        type.name = flops > 6e7 ? "CPU" : "CPU-slow";
        type.peakFlops = {{"float32", flops}};
        type.memory = Bytes(std::int64_t{1} << 30);
        type.memoryBandwidth = 10 * flops;
        const std::size_t index = builder.type(type);
        const NodeId node = builder.node(flops > 6e7 ? "fast" : "slow");
        for (int i = 0; i < 4; ++i)
            builder.link({cluster::Link::Kind::Network, builder.vertexOf(builder.device(node, index)), network, 1e9,
                          1e9, Seconds(1e-6), true});
    }
    auto cluster = std::move(builder).build();
    return cluster ? std::make_shared<const cluster::Cluster>(std::move(*cluster)) : nullptr;
}

} // namespace

class TestWhaleTraining : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        // Embeddings are not tied, so that replicas and parts may follow each other.
        m_training.problem.subject = tinySubject(tinyConfig(4, 4, false), fastAndSlow());
        m_training.problem.globalBatch = kBatch;
        m_training.problem.optimizer.learningRate = 3e-3;
        const std::string wrong = m_training.begin();
        QVERIFY2(wrong.empty(), wrong.c_str());
    }

    void sharesTrain_data()
    {
        QTest::addColumn<QStringList>("annotations");
        QTest::addColumn<QStringList>("options");
        QTest::addColumn<int>("zero");
        QTest::addColumn<int>("stages");
        QTest::addColumn<int>("parts"); ///< the most devices of one replica
        QTest::newRow("replicas") << QStringList{} << QStringList{"task_graphs=1"} << 0 << 1 << 1;
        QTest::newRow("replicas, micro-batches")
            << QStringList{} << QStringList{"task_graphs=1", "micro_batches=2"} << 0 << 1 << 1;
        QTest::newRow("replicas with ZeRO 1") << QStringList{} << QStringList{"task_graphs=1"} << 1 << 1 << 1;
        QTest::newRow("replicas with ZeRO 3") << QStringList{} << QStringList{"task_graphs=1"} << 3 << 1 << 1;
        QTest::newRow("replicas that recompute")
            << QStringList{} << QStringList{"task_graphs=1", "recompute=always"} << 0 << 1 << 1;
        QTest::newRow("a pipeline") << QStringList{} << QStringList{"task_graphs=2", "micro_batches=2", "place=inside"}
                                    << 0 << 2 << 1;
        QTest::newRow("a pipeline, one forward further ahead")
            << QStringList{} << QStringList{"task_graphs=2", "micro_batches=3", "place=inside", "order=optimizer"} << 0
            << 2 << 1;
        QTest::newRow("parts") << QStringList{"*=split:2"} << QStringList{"micro_batches=1"} << 0 << 1 << 2;
        QTest::newRow("parts with ZeRO 1") << QStringList{"*=split:2"} << QStringList{"micro_batches=1"} << 1 << 1 << 2;
        QTest::newRow("parts, operator by operator")
            << QStringList{"h=split:4"} << QStringList{"pattern=single", "micro_batches=1"} << 0 << 1 << 4;
        QTest::newRow("replicas, then parts") << QStringList{"embedding..h/1=replicate:2", "h/2..h/3=split:2"}
                                              << QStringList{"micro_batches=2"} << 0 << 2 << 2;
        QTest::newRow("parts, then parts") << QStringList{"embedding..h/1=split:2", "h/2..h/3=split:2"}
                                           << QStringList{"micro_batches=2"} << 0 << 2 << 2;
    }

    void sharesTrain()
    {
        QFETCH(QStringList, annotations);
        QFETCH(QStringList, options);
        QFETCH(int, zero);
        QFETCH(int, stages);
        QFETCH(int, parts);
        planners::Problem problem = m_training.problem;
        problem.zero = zero;
        for (const QString &text : annotations)
            problem.annotations.push_back(*plan::annotationFromText(text.toStdString()));
        planners::Options given;
        for (const QString &option : options)
            given[option.section('=', 0, 0).toStdString()] = option.section('=', 1).toStdString();
        NoProgress progress;
        const auto report = (*planners::findPlanner("whale"))->plan(problem, given, progress);
        QVERIFY2(static_cast<bool>(report), report ? "" : report.error().text().c_str());
        QCOMPARE(report->plan.stages.size(), static_cast<std::size_t>(stages));
        bool unequal = false;
        std::size_t shards = 1;
        for (const plan::Stage &stage : report->plan.stages) {
            unequal = unequal || !stage.replicaShares.empty();
            shards = std::max(shards, stage.shards());
        }
        QVERIFY2(unequal, plan::notation(report->plan).c_str());
        QCOMPARE(shards, static_cast<std::size_t>(parts));
        const std::string wrong = m_training.check(report->plan);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }

private:
    PlannedTraining m_training{{"fast ", "slow ", "devices\n", "share "}};
};

QTEST_GUILESS_MAIN(TestWhaleTraining)
#include "tst_whale_training.moc"

// SPDX-License-Identifier: Apache-2.0
// Job files, and the bytes that are counted in a graph.
#include "engine/gnn/job_json.h"
#include "engine/gnn/partition.h"
#include "engine/gnn/volumes.h"

#include <QTest>

#include <numeric>

using namespace planloom;
using namespace planloom::gnn;

namespace {

const char *kJob = R"({
  "schema": "planloom.gnn-job/1",
  "resources": ["trainer-slots", "cores"],
  "machines": [
    {"name": "a", "out_bytes_per_second": 4, "resources": {"trainer-slots": 1, "cores": 4}},
    {"name": "b", "out_bytes_per_second": 4, "in_bytes_per_second": 3, "resources": {"cores": 3}}
  ],
  "roles": [
    {"name": "w0", "kind": "trainer", "demand": {"trainer-slots": 1, "cores": 1}},
    {"name": "s0", "kind": "sampler", "trainer": "w0", "demand": {"cores": 1}},
    {"name": "s1", "kind": "sampler", "trainer": "w0", "home_part": 0},
    {"name": "g0", "kind": "graph-store", "machine": "a"},
    {"name": "g1", "kind": "graph-store", "machine": "b"}
  ],
  "seconds": {"sample": 1, "train": 2},
  "prefetch": 3,
  "iterations": 2,
  "model_bytes": 8,
  "volumes": {"features": [[1, 2], [3, 4]], "batches": [[5, 6], [7, 8]]}
})";

QByteArray changed(const char *from, const char *to)
{
    QByteArray text(kJob);
    const qsizetype at = text.indexOf(from);
    return at < 0 ? QByteArray() : text.replace(at, static_cast<qsizetype>(strlen(from)), to);
}

} // namespace

class TestGnnJob : public QObject {
    Q_OBJECT

private slots:
    void jobFile()
    {
        const auto file = jobFromJson(kJob);
        QVERIFY2(file.ok(), file.ok() ? "" : file.error().text().c_str());
        const Job &job = file->job;
        QVERIFY(checkJob(job).ok());
        QCOMPARE(job.machines[0].port.in, 4.0);
        QCOMPARE(job.machines[1].port.in, 3.0);
        QCOMPARE(job.machines[1].capacity, std::vector<double>({0, 3}));
        QCOMPARE(job.roles[0].name, std::string("g0")); // sorted by kind
        QCOMPARE(job.roles[1].machine, 1);
        QCOMPARE(job.roles[2].name, std::string("s0"));
        QCOMPARE(job.roles[2].trainer, 0);
        QCOMPARE(job.prefetch, 3);
        // Features once for all iterations, [sampler][store]; mini-batches by iteration.
        QCOMPARE(job.volumes.feature(1, 1, 0), 2.0);
        QCOMPARE(job.volumes.feature(0, 0, 1), 3.0);
        QCOMPARE(job.volumes.batch(1, 0), 7.0);
        QCOMPARE(job.volumes.model, 8.0);
    }

    void sampledJobFile()
    {
        QByteArray text = changed(R"("volumes": {"features": [[1, 2], [3, 4]], "batches": [[5, 6], [7, 8]]})",
                                  R"("sampled": {"graph": "g", "fanout": [10, 5], "batch": 64, "seeds": "local"})");
        const auto file = jobFromJson(text.toStdString());
        QVERIFY2(file.ok(), file.ok() ? "" : file.error().text().c_str());
        QCOMPARE(file->graphFolder, std::string("g"));
        QCOMPARE(file->sampling.fanout.second, 5);
        QVERIFY(file->sampling.localSeeds && file->sampling.treeForm);
        QCOMPARE(file->homes, std::vector<std::int32_t>({0, 0}));
    }

    void badFiles_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<int>("line");
        QTest::addColumn<QString>("message");
        QTest::newRow("schema") << changed("gnn-job/1", "gnn-job/9") << 2 << "schema";
        QTest::newRow("machine") << changed(R"("machine": "b")", R"("machine": "c")") << 13 << "no machine of the job";
        QTest::newRow("resource") << changed(R"("demand": {"cores": 1})", R"("demand": {"gpus": 1})") << 10
                                  << "no resource of the job";
        QTest::newRow("kind") << changed(R"("kind": "trainer")", R"("kind": "worker")") << 9 << "no kind of role";
        QTest::newRow("trainer") << changed(R"("trainer": "w0", "demand")", R"("trainer": "w9", "demand")") << 8
                                 << "is no trainer of the job";
        QTest::newRow("twice") << changed(R"("name": "s1")", R"("name": "s0")") << 11 << "listed twice";
        QTest::newRow("tables") << changed("[[1, 2], [3, 4]]", "[[1, 2], [3]]") << 19 << "has 3 numbers";
        QTest::newRow("iterations") << changed("\"iterations\": 2", "\"iterations\": 0") << 17 << "iterations";
        QTest::newRow("prefetch") << changed("\"prefetch\": 3", "\"prefetch\": 0") << 16 << "prefetch";
        QTest::newRow("no bytes") << changed("\"volumes\"", "\"volume\"") << 19 << "is not known; there are";
        QTest::newRow("a slip") << changed("\"prefetch\"", "\"prefech\"") << 16 << "is not known; there are";
        QTest::newRow("a slip in a role") << changed("\"home_part\"", "\"home\"") << 11 << "is not known; there are";
        QTest::newRow("syntax") << changed("\"prefetch\": 3,", "\"prefetch\": 3") << 17 << "";
    }

    void badFiles()
    {
        QFETCH(QByteArray, text);
        QFETCH(int, line);
        QFETCH(QString, message);
        QVERIFY(!text.isEmpty());
        const auto file = jobFromJson(text.toStdString());
        QVERIFY(!file.ok());
        QVERIFY2(file.error().message.find(message.toStdString()) != std::string::npos, file.error().message.c_str());
        if (line > 0)
            QCOMPARE(file.error().line, line);
    }

    void resourcesAreListedOnce()
    {
        auto file = jobFromJson(changed("\"prefetch\": 3", "\"prefetch\": 1").toStdString());
        QVERIFY(file.ok() && checkJob(file->job).ok());
        Job job = file->job;
        job.resources.push_back(job.resources.front());
        for (Machine &machine : job.machines)
            machine.capacity.push_back(1);
        for (Role &role : job.roles)
            role.demand.push_back(0);
        const Status twice = checkJob(job);
        QVERIFY(!twice && twice.error().code == ErrorCode::BadInput);
        QVERIFY2(twice.error().message.find("is listed twice") != std::string::npos, twice.error().message.c_str());
    }

    void countedVolumes()
    {
        auto graph = blockModelGraph({});
        QVERIFY(graph.ok());
        graph->part = *partitionOf(*graph, {PartitionMethod::Hash, 4, 1, false});
        SampleOptions options;
        options.batch = 64;
        const std::vector<std::int32_t> homes{0, 1, 2};
        const auto volumes = sampledVolumes(*graph, homes, 2, options);
        QVERIFY(volumes.ok());
        QCOMPARE(volumes->stores, 4);
        QCOMPARE(volumes->samplers, 3);
        const double row = 4.0 * 16 + 8;
        for (std::int32_t n = 0; n < 2; ++n) {
            for (std::int32_t s = 0; s < 3; ++s) {
                double rows = 0;
                for (std::int32_t g = 0; g < 4; ++g)
                    rows += volumes->feature(n, g, s) / row;
                QVERIFY(rows > 300 && rows <= 1000); // each of 1000 nodes at most once
                QCOMPARE(rows, std::round(rows));
                QCOMPARE(volumes->batch(n, s), 4.0 * 16 * 64 * 61);
            }
        }
        options.treeForm = false;
        const auto sparse = sampledVolumes(*graph, homes, 2, options);
        QCOMPARE(sparse->features, volumes->features);
        QCOMPARE(sparse->batch(0, 0), std::accumulate(sparse->features.begin(), sparse->features.begin() + 4, 0.0));
    }

    void cachedHubsAreNotSent()
    {
        const GraphData graph = karateClub();
        const std::vector<std::int32_t> homes{0};
        SampleOptions options;
        options.treeForm = false;
        const auto whole = sampledVolumes(graph, homes, 1, options);
        options.cacheShare = 2.5 / 34; // the two leaders
        const auto cached = sampledVolumes(graph, homes, 1, options);
        const double row = 4.0 * 34 + 8;
        QCOMPARE(whole->feature(0, 0, 0), 34 * row); // 256 trees reach everyone
        QCOMPARE(cached->feature(0, 0, 0), 32 * row);
        QCOMPARE(cached->batch(0, 0), whole->batch(0, 0));
        options.cacheShare = 1.5;
        QVERIFY(sampledVolumes(graph, homes, 1, options).error().message.find("a cache of 1.5") != std::string::npos);
    }

    void localSeedsNeedFewerRemoteRows()
    {
        if (!hasMetis())
            QSKIP("this build has no METIS");
        auto graph = blockModelGraph({});
        graph->part = *partitionOf(*graph, {PartitionMethod::Metis, 4, 1, false});
        SampleOptions options;
        options.batch = 16;
        options.fanout = {4, 2};
        const std::vector<std::int32_t> homes{0, 1, 2, 3};
        const auto remote = [&](bool local) {
            options.localSeeds = local;
            const auto volumes = sampledVolumes(*graph, homes, 3, options);
            double bytes = 0;
            for (std::int32_t n = 0; n < 3; ++n) {
                for (std::int32_t s = 0; s < 4; ++s) {
                    for (std::int32_t g = 0; g < 4; ++g)
                        bytes += g == homes[static_cast<std::size_t>(s)] ? 0 : volumes->feature(n, g, s);
                }
            }
            return bytes;
        };
        QVERIFY(remote(true) < 0.7 * remote(false));
    }

    void volumesThatCannotBeCounted()
    {
        auto graph = blockModelGraph({});
        graph->part = *partitionOf(*graph, {PartitionMethod::Hash, 2, 1, false});
        const std::vector<std::int32_t> homes{0, 1};
        SampleOptions options;
        const auto refusal = [&](std::int32_t iterations) {
            const auto volumes = sampledVolumes(*graph, homes, iterations, options);
            return volumes.ok() ? std::string() : volumes.error().message;
        };
        QVERIFY(refusal(0).find("no iterations") != std::string::npos);
        options.batch = 0;
        QVERIFY(refusal(1).find("mini-batches of 0") != std::string::npos);
        options.batch = 8;
        options.fanout.second = 0;
        QVERIFY(refusal(1).find("a fan-out of 0") != std::string::npos);
        options.fanout.second = 2;
        options.localSeeds = true;
        for (std::size_t node = 0; node < graph->labels.size(); ++node)
            graph->labels[node] = graph->part[node] == 0 ? 0 : GraphData::kNoLabel;
        QVERIFY(refusal(1).find("part 1 has no labelled nodes") != std::string::npos);
        options.localSeeds = false;
        QCOMPARE(refusal(1), std::string());
        graph->labels.assign(graph->labels.size(), GraphData::kNoLabel);
        QVERIFY(refusal(1).find("the graph has no labelled nodes") != std::string::npos);
    }
};

QTEST_GUILESS_MAIN(TestGnnJob)
#include "tst_gnn_job.moc"

// SPDX-License-Identifier: Apache-2.0
// More ranks than 16 bits can number: what `planloom simulate PLAN --trace FILE` does.
#include "engine/cluster/cluster.h"
#include "engine/import/model/profile_graph.h"
#include "engine/simulate/simulate.h"
#include "engine/trace/index.h"

#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <tuple>

using namespace planloom;

namespace {

constexpr int kRanks = 40'000;

cluster::Cluster machines()
{
    cluster::RegularCluster spec;
    spec.name = "machines";
    spec.nodes = kRanks / 8;
    spec.perNode = 8;
    spec.type.name = "device";
    spec.type.peakFlops = {{"float32", 1e12}};
    spec.type.memory = Bytes(1 << 30);
    spec.type.memoryBandwidth = 1e12;
    spec.intraBandwidth = 1e10;
    spec.interPointToPoint = 1e9;
    spec.interCollective = 1e9;
    auto cluster = cluster::regular(spec);
    if (!cluster)
        qFatal("%s", cluster.error().text().c_str());
    return *std::move(cluster);
}

} // namespace

class TestManyRanks : public QObject {
    Q_OBJECT

private slots:
    /// One layer, 40,000 replicas of it: forward, backward, the gradients' exchange and the update on each.
    void replicasOfOneLayer()
    {
        const auto model = import::profileModel("one", 1, {{"layer", 1, 2, 1000, 4000, {}}});
        QVERIFY(model);
        const plan::Subject subject =
            plan::makeSubject(model->graph, std::make_shared<const cluster::Cluster>(machines()), model->profile,
                              "one");
        plan::Plan plan;
        plan.globalBatch = kRanks;
        plan.microBatches = 1;
        plan::Stage &stage = plan.stages.emplace_back();
        stage.lastLayer = 1;
        for (int d = 0; d < kRanks; ++d)
            stage.devices.emplace_back(static_cast<std::int64_t>(d));
        const auto simulation = simulate::simulatePlan(plan, subject, {.trace = true, .memory = false});
        QVERIFY2(simulation.ok(), simulation.ok() ? "" : simulation.error().text().c_str());

        QTemporaryDir folder;
        const std::string path = folder.filePath("wide.pltrace").toStdString();
        QVERIFY(trace::writeTrace(simulation->trace, path).ok());
        const auto trace = trace::readTrace(path);
        QVERIFY2(trace.ok(), trace.ok() ? "" : trace.error().text().c_str());
        QCOMPARE(trace->ranks.size(), std::size_t{kRanks});
        QCOMPARE(trace->ranks.back().device, std::string("n4999:g7"));
        const std::size_t tasks = trace->tasks.size() / kRanks;
        QVERIFY(tasks >= 4);
        QCOMPARE(trace->tasks.size() % kRanks, std::size_t{0});
        QCOMPARE(trace->records.size(), trace->tasks.size());

        std::vector<std::size_t> records(kRanks, 0);
        const trace::Record *before = nullptr;
        for (const trace::Record &record : trace->records) {
            QVERIFY(record.rank >= 0 && record.rank < kRanks);
            ++records[static_cast<std::size_t>(record.rank)];
            const trace::TaskInfo &task = *trace->task(record.task);
            if (task.kind == trace::Kind::Forward)
                QCOMPARE(record.duration, std::int64_t{1'000'000});
            if (task.kind == trace::Kind::Backward)
                QCOMPARE(record.duration, std::int64_t{2'000'000});
            QVERIFY(!before
                    || std::tuple(before->rank, before->lane, before->start)
                        <= std::tuple(record.rank, record.lane, record.start));
            before = &record;
        }
        QCOMPARE(std::ranges::count(records, tasks), std::ptrdiff_t{kRanks});
    }

    /// The recorder counts every area of the arena somewhere, once.
    void everyAreaIsOfOneKindOfMemory()
    {
        std::vector<int> counted(program::kAreas, 0);
        for (const simulate::MemoryKind &kind : simulate::memoryKinds()) {
            for (const program::Area area : kind.areas)
                ++counted[static_cast<std::size_t>(area)];
        }
        QCOMPARE(counted, std::vector<int>(program::kAreas, 1));
    }

    /// Its index finds the tasks of the last rank, and all members of the exchange in one group.
    void theLastRankIsFound()
    {
        auto trace = std::make_shared<trace::Trace>();
        trace->lanes = {{"compute", trace::Work::Compute, 1}};
        trace->kinds = trace::standardKinds();
        for (std::int32_t r = 0; r < 65'536; ++r) {
            trace->ranks.push_back({std::to_string(r)});
            trace->tasks.push_back({"s0.AR.b0", trace::Kind::AllReduce, 0, -1, 0});
            trace->records.push_back({r, 65'536 - r, r, 0, r, 0});
        }
        const trace::Index index(std::shared_ptr<const trace::Trace>{trace});
        QCOMPARE(index.tasksCalled("s0.AR.b0").size(), std::size_t{65'536});
        QCOMPARE(index.rankOf(65'535), 65'535);
        QCOMPARE(index.rowsOf(65'535).first, std::size_t{65'535});
        QCOMPARE(index.waits().of(index.tables(), trace->records[40'000]), std::int64_t{25'535});
        QCOMPARE(index.search("ar", 100'000).size(), std::size_t{65'536});
    }
};

QTEST_GUILESS_MAIN(TestManyRanks)
#include "tst_many_ranks.moc"

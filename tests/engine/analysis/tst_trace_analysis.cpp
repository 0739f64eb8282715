// SPDX-License-Identifier: Apache-2.0
// Late ranks, clocks, hidden communication and kernels of traces with known answers.
#include "engine/analysis/clock_skew.h"
#include "engine/analysis/device_time.h"
#include "engine/analysis/kernel_changes.h"
#include "engine/analysis/lateness.h"
#include "engine/analysis/row_grouping.h"
#include "engine/import/trace/foreign_trace.h"
#include "tests/engine/analysis/kineto_ranks.h"

#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <set>

using namespace planloom;
using tests::KinetoRanks;
using trace::Kind;

namespace {

trace::Trace readRanks(const KinetoRanks &ranks)
{
    const QTemporaryDir folder;
    NoProgress none;
    auto made = import::readForeignTraces(ranks.write(folder.path().toStdString()), none);
    if (!made)
        qFatal("%s", made.error().text().c_str());
    return std::move(made->trace);
}

std::string nameOf(const trace::Trace &trace, std::uint32_t record)
{
    return trace.task(trace.records[record].task)->id;
}

std::string deviceOf(const trace::Trace &trace, std::uint32_t record)
{
    return trace.ranks[static_cast<std::size_t>(trace.records[record].rank)].device;
}

const analysis::Collective &latest(const analysis::Collectives &collectives)
{
    return *std::ranges::max_element(collectives.all, {}, &analysis::Collective::behind);
}

/// Two ranks with one all-reduce a step; the second one comes later, as its second forward takes longer.
trace::Trace ownTrace()
{
    trace::Trace trace;
    trace.clock = "wall";
    trace.lanes = {{"compute", trace::Work::Compute, 1}, {"collective", trace::Work::Communication, 1}};
    trace.kinds = trace::standardKinds();
    trace.ranks = {{"n0:g0"}, {"n0:g1"}};
    for (const int rank : {0, 1}) {
        trace.tasks.push_back({"s0.F.m0", Kind::Forward, 0, 0});
        trace.tasks.push_back({"s0.F.m1", Kind::Forward, 0, 1});
        trace.tasks.push_back({"s0.AR.b0", Kind::AllReduce, 0, -1, 5});
        const std::int32_t first = 3 * rank;
        trace.records.push_back({0, 10, first, 0, rank, 0});
        trace.records.push_back({10, rank == 0 ? 10 : 25, first + 1, 0, rank, 0});
        trace.records.push_back({rank == 0 ? 15 : 35, rank == 0 ? 35 : 15, first + 2, 0, rank, 1});
    }
    trace.sort();
    return trace;
}

} // namespace

class TestTraceAnalysis : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void ownCollectives()
    {
        const trace::Trace trace = ownTrace();
        const auto found = analysis::matchCollectives(trace);
        QCOMPARE(found.all.size(), std::size_t{1});
        QCOMPARE(found.all[0].behind, 20);
        QCOMPARE(found.all[0].waited, 20);
        QCOMPARE(deviceOf(trace, found.last(found.all[0]).record), std::string("n0:g1"));
        const auto cause = analysis::causeOf(trace, found, found.all[0]);
        QVERIFY(cause.record.has_value());
        QCOMPARE(nameOf(trace, *cause.record), std::string("s0.F.m1"));
        // The other one had done 5 of its 10 when it came to the collective.
        QCOMPARE(cause.longer, 20);
        const auto ranks = analysis::latenessByRank(trace, found);
        QCOMPARE(ranks[0].rank, 1);
        QCOMPARE(ranks[0].last, 1);
        QCOMPARE(ranks[0].caused, 20);
        QCOMPARE(ranks[1].waited, 20);
        QVERIFY(!analysis::clockSkew(trace, found).isSkewed()); // one clock
    }

    void devicesAddUp()
    {
        const trace::Trace trace = ownTrace();
        const auto devices = analysis::deviceTimes(trace, {0, 60}, analysis::matchCollectives(trace));
        QCOMPARE(devices.size(), std::size_t{2});
        // Computes 0-20, in the all-reduce 15-50, of which it waits until 35.
        QCOMPARE(devices[0].computing, 20);
        QCOMPARE(devices[0].waiting, 15);
        QCOMPARE(devices[0].moving, 15);
        QCOMPARE(devices[0].withoutWork, 10);
        QCOMPARE(devices[0].communication, 35);
        QCOMPARE(devices[0].hidden, 5);
        QCOMPARE(devices[1].computing, 35);
        QCOMPARE(devices[1].moving, 15);
        QCOMPARE(devices[1].hidden, 0);
        const auto all = analysis::total(devices);
        QCOMPARE(all.window, 120);
        QCOMPARE(all.computing + all.moving + all.waiting + all.withoutWork, 120);
        QCOMPARE(all.hiddenShare(), 0.1);
        const auto part = analysis::deviceTimes(trace, {10, 20}, analysis::matchCollectives(trace));
        QCOMPARE(part[0].computing, 10);
        QCOMPARE(part[0].hidden, 5);
    }

    void skewOfClocks_data()
    {
        QTest::addColumn<bool>("withGroups");
        QTest::addColumn<int>("leftOut");
        QTest::newRow("communicators") << true << 0;
        QTest::newRow("by order alone") << false << 0;
        QTest::newRow("one rank was recorded later") << true << 3;
    }
    /// Clocks are found to some nanoseconds; the planted late rank only behind that.
    void skewOfClocks()
    {
        QFETCH(bool, withGroups);
        QFETCH(int, leftOut);
        KinetoRanks ranks;
        ranks.withGroups = withGroups;
        ranks.leftOut = leftOut;
        const trace::Trace trace = readRanks(ranks);
        const auto found = analysis::matchCollectives(trace);
        QCOMPARE(found.all.size(), std::size_t{12});
        QCOMPARE(found.all.back().count, std::size_t{4});
        const auto skew = analysis::clockSkew(trace, found);
        QCOMPARE(skew.clocks.size(), std::size_t{4});
        QVERIFY(skew.isSkewed());
        QCOMPARE(skew.clocks[3].name, std::string("rank 3"));
        for (std::size_t clock = 0; clock < 4; ++clock) {
            const auto off = std::abs(static_cast<double>(skew.clocks[clock].ahead - ranks.ahead[clock]));
            QVERIFY2(off < 200 && off <= 4 * skew.clocks[clock].error, qPrintable(QString::number(off)));
            QVERIFY(skew.clocks[clock].known);
        }
        QVERIFY(deviceOf(trace, found.last(latest(found)).record).starts_with("rank 1")); // its clock is ahead

        const trace::Trace aligned = analysis::aligned(trace, skew);
        QCOMPARE(aligned.begin(), 0);
        const auto again = analysis::matchCollectives(aligned);
        QVERIFY(!analysis::clockSkew(aligned, again).isSkewed());
        const analysis::Collective &worst = latest(again);
        QVERIFY(deviceOf(aligned, again.last(worst).record).starts_with("rank 2"));
        QVERIFY(std::abs(worst.behind - ranks.late) < 10'000);
        QCOMPARE(aligned.records[again.last(worst).record].step, ranks.lateStep);
        const auto cause = analysis::causeOf(aligned, again, worst);
        QVERIFY(cause.why == analysis::LateCause::Why::Work && cause.record);
        QCOMPARE(nameOf(aligned, *cause.record), std::string("gemm_b"));
        QVERIFY(std::abs(cause.longer - ranks.late) < 10'000);
    }

    /// Ranks whose sequences have nothing in common are not matched.
    void othersAreNotMatched()
    {
        trace::Trace trace = ownTrace();
        for (trace::TaskInfo &task : trace.tasks)
            task.group = -1;
        trace.tasks[5].id = "something else";
        auto found = analysis::matchCollectives(trace);
        QCOMPARE(found.all.size(), std::size_t{0});
        QCOMPARE(found.unmatched, 2);
        trace.tasks[5].id = trace.tasks[2].id;
        found = analysis::matchCollectives(trace);
        QCOMPARE(found.all.size(), std::size_t{1});
        QVERIFY(found.byOrder);
    }

    void kernelsByName()
    {
        trace::Trace trace = ownTrace();
        trace.tasks.push_back({"loads, of data", Kind::Load}); // of the host: not listed
        trace.records.push_back({100, 500, 6, 0, 0, 0});
        const auto kernels = analysis::kernelsOf(trace);
        QCOMPARE(kernels.size(), std::size_t{3});
        QCOMPARE(kernels[0].name, std::string("s0.AR.b0"));
        QCOMPARE(kernels[0].sum, 50);
        QCOMPARE(kernels[1].name, std::string("s0.F.m1"));
        QCOMPARE(kernels[1].count, 2);
        QCOMPARE(kernels[1].p95, 25);
        QCOMPARE(kernels[1].mean, 17.5);
        QCOMPARE(kernels[1].share, 35.0 / 105);
        QVERIFY(std::abs(kernels[1].deviation - std::sqrt(112.5)) < 1e-12);
        QCOMPARE(analysis::kernelsOf(trace, trace::Window{10, 15}).size(), std::size_t{1});
        const std::string csv = analysis::toCsv(trace, kernels);
        QVERIFY2(csv.find("\ns0.F.m1,forward,2,0.000000035,0.000000017500,0.000000025,0.000000025,0.333333\n")
                     != std::string::npos,
                 csv.c_str());
    }

    /// A kernel that is 2 % slower is the first one, and the only sure one.
    void slowerKernel()
    {
        KinetoRanks a;
        a.late = 0;
        a.ahead.assign(4, 0);
        KinetoRanks b = a;
        b.seed = 2;
        const trace::Trace before = readRanks(a);
        const auto equal = analysis::kernelChanges(before, readRanks(b));
        for (const analysis::KernelChange &change : equal)
            QVERIFY2(!change.isSure || change.kind == "all-reduce", change.name.c_str());
        b.slower = 1.02;
        const auto changes = analysis::kernelChanges(before, readRanks(b));
        QCOMPARE(changes[0].name, std::string("gemm_a"));
        QVERIFY(changes[0].isSure);
        QVERIFY2(std::abs(changes[0].change - 0.02) < 4 * changes[0].error,
                 qPrintable(QString::number(changes[0].change)));
        QVERIFY(changes[0].error < 0.002);
        QVERIFY(std::abs(changes[0].perStep - 8000) < 1500);
        const auto other = std::ranges::find(changes, std::string("gemm_b"), &analysis::KernelChange::name);
        QVERIFY(other != changes.end() && other->isKnown && !other->isSure);
    }

    void kernelsOfOneSide()
    {
        const trace::Trace a = ownTrace();
        trace::Trace b = a;
        for (trace::TaskInfo &task : b.tasks)
            if (task.id == "s0.F.m1")
                task.id = "fused";
        const auto changes = analysis::kernelChanges(a, b);
        std::set<std::string> sides;
        for (const analysis::KernelChange &change : changes)
            if (change.a.count == 0 || change.b.count == 0)
                sides.insert(change.name + (change.a.count == 0 ? " in B" : " in A"));
        QCOMPARE(sides, (std::set<std::string>{"fused in B", "s0.F.m1 in A"}));
        for (const analysis::KernelChange &change : changes)
            QVERIFY(!change.isSure);
    }

    /// Grouped by stream and by kind all records stay, and each is found where the grouping says.
    void rowsAreGrouped()
    {
        KinetoRanks ranks;
        ranks.steps = 2;
        const trace::Trace trace = readRanks(ranks);
        for (const auto &[by, groups] :
             {std::pair(analysis::GroupBy::Lane, std::set<std::string>{"thread 1", "thread 7", "thread 20"}),
              std::pair(analysis::GroupBy::Kind, std::set<std::string>{"user_annotation", "kernel", "all-reduce"})}) {
            const analysis::RowGrouping grouping(trace, by);
            const trace::Trace grouped = grouping.apply();
            std::set<std::string> names;
            for (const trace::RankInfo &rank : grouped.ranks)
                names.insert(rank.device);
            QCOMPARE(names, groups);
            QCOMPARE(grouped.records.size(), trace.records.size());
            for (const trace::Record &record : trace.records)
                QVERIFY(grouped.numberOf(grouping.of(record)).has_value());
        }
        const analysis::RowGrouping same(trace, analysis::GroupBy::Device);
        QCOMPARE(same.apply().records, trace.records);
    }

    void emptyTrace()
    {
        const trace::Trace none;
        const auto found = analysis::matchCollectives(none);
        QVERIFY(found.all.empty());
        QVERIFY(analysis::clockSkew(none, found).clocks.empty());
        QVERIFY(analysis::deviceTimes(none, {0, 0}, found).empty());
        QVERIFY(analysis::kernelsOf(none).empty() && analysis::kernelChanges(none, none).empty());
    }
};

QTEST_APPLESS_MAIN(TestTraceAnalysis)
#include "tst_trace_analysis.moc"

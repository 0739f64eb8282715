// SPDX-License-Identifier: Apache-2.0
#include "profiler/comparison.h"

#include <QTest>
#include <nlohmann/json.hpp>

using namespace planloom;
using namespace planloom::profiler;

namespace {

constexpr std::int64_t kMs = 1'000'000;

trace::Trace tableOf(const std::vector<std::pair<std::string, trace::Kind>> &tasks)
{
    trace::Trace trace;
    trace.kinds = trace::standardKinds();
    trace.ranks = {{"g0"}, {"g1"}};
    for (const auto &[id, kind] : tasks)
        trace.tasks.push_back({id, kind, 0, 0, kind == trace::Kind::AllReduce ? 0 : -1});
    return trace;
}

void add(trace::Trace &trace, std::int32_t step, std::int32_t rank, std::int32_t task, std::int64_t start,
         std::int64_t duration)
{
    trace.records.push_back({start * kMs, duration * kMs, task, step, rank, 0});
}

/// Predicted: forward 10 ms, backward 20 ms, all-reduce 5 ms on two ranks: an iteration of 35 ms.
trace::Trace predicted()
{
    trace::Trace trace = tableOf(
        {{"s0.F.m0", trace::Kind::Forward}, {"s0.B.m0", trace::Kind::Backward}, {"s0.AR.b0", trace::Kind::AllReduce}});
    for (const std::int32_t rank : {0, 1}) {
        add(trace, 0, rank, 0, 0, 10);
        add(trace, 0, rank, 1, 10, 20);
        add(trace, 0, rank, 2, 30, 5);
    }
    return trace;
}

/// Measured in four steps, of which the first is slow; the task table has another order. An iteration of 40 ms.
trace::Trace measured()
{
    trace::Trace trace = tableOf(
        {{"s0.B.m0", trace::Kind::Backward}, {"s0.F.m0", trace::Kind::Forward}, {"s0.AR.b0", trace::Kind::AllReduce}});
    for (std::int32_t step = 0; step < 4; ++step) {
        const std::int64_t origin = step * 1000;
        const std::int64_t slow = step == 0 ? 10 : 1;
        for (const std::int32_t rank : {0, 1}) {
            add(trace, step, rank, 1, origin, 8 * slow);
            add(trace, step, rank, 0, origin + 8 * slow, 25 * slow);
            add(trace, step, rank, 2, origin + 33 * slow, rank == 0 ? 6 : 7);
        }
    }
    return trace;
}

} // namespace

class TestComparison : public QObject {
    Q_OBJECT

private slots:
    void joinsByRankAndId();
    void sumsByKind();
    void waitingIsNotWork();
    void namesWhatHasNoPartner();
    void medianOfAnEvenNumberOfSteps();
    void asText();
    void asJson();
    void nothingToCompare();
    void roundsAreComparedWhole();
};

/// Rounds of two steps of 10 ms: the first merges what the one before averaged, the second begins an average of 15 ms,
/// which ends beside the next round. Measured twice as slow. The prediction has, of the next round, what lies beside
/// the average.
void TestComparison::roundsAreComparedWhole()
{
    const auto made = [](std::int32_t steps, std::int64_t slow) {
        trace::Trace trace = tableOf(
            {{"s0.F.m0", trace::Kind::Forward}, {"s0.M.b0", trace::Kind::Merge}, {"s0.AR.b0", trace::Kind::AllReduce}});
        trace.rounds = {2, 0, true};
        for (std::int32_t step = 0; step < steps; ++step)
            for (const std::int32_t rank : {0, 1}) {
                const std::int64_t origin = step * 10 * slow;
                add(trace, step, rank, 0, origin, 8 * slow);
                if (step % 2 == 0)
                    add(trace, step, rank, 1, origin + 8 * slow, 2 * slow);
                else
                    add(trace, step, rank, 2, origin + 10 * slow, 15 * slow);
            }
        return trace;
    };
    trace::Trace prediction = made(3, 1); // a round, and the first step of the next one
    prediction.clock = "cost";
    for (const std::int32_t steps : {7, 8, 9}) {
        const Comparison comparison = compare(prediction, made(steps, 2));
        QVERIFY2(comparison.onlyMeasured.empty(),
                 comparison.onlyMeasured.empty() ? "" : comparison.onlyMeasured[0].c_str());
        QVERIFY(comparison.onlyPredicted.empty());
        QCOMPARE(comparison.predictedIterationSeconds, 0.010);
        QCOMPARE(comparison.measuredIterationSeconds, 0.020);
        for (const TaskComparison &task : comparison.tasks) {
            QCOMPARE(task.ratio(), 0.5);
            QCOMPARE(task.predictedShare, task.id == "s0.F.m0" ? 1.0 : 0.5);
            QCOMPARE(task.measuredShare, task.predictedShare);
        }
        for (const KindComparison &kind : comparison.kinds)
            if (kind.kind == trace::Kind::AllReduce)
                QCOMPARE(kind.predicted, 0.0075); // of a step
    }
}

void TestComparison::joinsByRankAndId()
{
    const Comparison comparison = compare(predicted(), measured());
    QCOMPARE(comparison.tasks.size(), std::size_t{6});
    const TaskComparison &first = comparison.tasks[0];
    QCOMPARE(first.rank, std::int32_t{0});
    QCOMPARE(first.id, std::string("s0.B.m0")); // in the measured table's order
    QCOMPARE(first.predicted, 0.020);
    QCOMPARE(first.measured, 0.025);
    QCOMPARE(first.ratio(), 0.8);
    QCOMPARE(first.runs, std::int64_t{3}); // the first step warms up
    QCOMPARE(comparison.tasks[1].measured, 0.008);
    QCOMPARE(comparison.tasks[2].measured, 0.006);
    QCOMPARE(comparison.tasks[5].measured, 0.007);
    QCOMPARE(comparison.predictedIterationSeconds, 0.035);
    QCOMPARE(comparison.measuredIterationSeconds, 0.040);
    QCOMPARE(comparison.error(), 0.035 / 0.040 - 1);
    QVERIFY(comparison.onlyPredicted.empty());
    QVERIFY(comparison.onlyMeasured.empty());
}

void TestComparison::sumsByKind()
{
    trace::Trace a = predicted();
    trace::Trace b = measured();
    a.tasks.push_back({"s0.F.m1", trace::Kind::Forward, 0, 1});
    b.tasks.push_back({"s0.F.m1", trace::Kind::Forward, 0, 1});
    add(a, 0, 0, 3, 100, 10);
    add(b, 1, 0, 3, 1100, 12);
    const Comparison comparison = compare(a, b);
    QCOMPARE(comparison.kinds.size(), std::size_t{6});
    QCOMPARE(comparison.kinds[0].kind, trace::Kind::Forward);
    QCOMPARE(comparison.kinds[0].tasks, std::int64_t{2});
    QCOMPARE(comparison.kinds[0].predicted, 0.020);
    QCOMPARE(comparison.kinds[0].measured, 0.020);
    QCOMPARE(comparison.kinds[3].rank, std::int32_t{1});
    QCOMPARE(comparison.kinds[3].tasks, std::int64_t{1});
}

/// Rank 1 comes to the all-reduce 4 ms after rank 0, which waits for it; both work for 3 ms then.
void TestComparison::waitingIsNotWork()
{
    const trace::Trace a = predicted();
    trace::Trace b = tableOf({{"s0.AR.b0", trace::Kind::AllReduce}});
    for (std::int32_t step = 0; step < 3; ++step) {
        add(b, step, 0, 0, 100 * step, 7);
        add(b, step, 1, 0, 100 * step + 4, 3);
    }
    const Comparison comparison = compare(a, b);
    QCOMPARE(comparison.tasks.size(), std::size_t{2});
    QCOMPARE(comparison.tasks[0].measured, 0.003);
    QCOMPARE(comparison.tasks[0].measuredWaiting, 0.004);
    QCOMPARE(comparison.tasks[0].predicted, 0.005);
    QCOMPARE(comparison.tasks[0].predictedWaiting, 0.0);
    QCOMPARE(comparison.tasks[1].measured, 0.003);
    QCOMPARE(comparison.tasks[1].measuredWaiting, 0.0);
    QCOMPARE(comparison.kinds[0].measuredWaiting, 0.004);
    const std::string text = toText(comparison);
    QVERIFY2(text.find("0     all-reduce           1           5.000           3.000   +66.7 %           4.000")
                 != std::string::npos,
             text.c_str());
    const auto json = nlohmann::json::parse(toJson(comparison));
    QCOMPARE(json["kinds"][0]["measured_waiting_seconds"].get<double>(), 0.004);
    QCOMPARE(json["tasks"][1]["measured_waiting_seconds"].get<double>(), 0.0);
}

void TestComparison::namesWhatHasNoPartner()
{
    trace::Trace a = predicted();
    trace::Trace b = measured();
    a.tasks[0].id = "s0.F.m7";
    const Comparison comparison = compare(a, b);
    QCOMPARE(comparison.onlyPredicted, (std::vector<std::string>{"rank 0: s0.F.m7", "rank 1: s0.F.m7"}));
    QCOMPARE(comparison.onlyMeasured, (std::vector<std::string>{"rank 0: s0.F.m0", "rank 1: s0.F.m0"}));
    QCOMPARE(comparison.tasks.size(), std::size_t{4});
}

void TestComparison::medianOfAnEvenNumberOfSteps()
{
    trace::Trace a = predicted();
    trace::Trace b = tableOf({{"s0.F.m0", trace::Kind::Forward}});
    add(b, 0, 0, 0, 0, 99);
    add(b, 1, 0, 0, 1000, 4);
    add(b, 2, 0, 0, 2000, 8);
    QCOMPARE(compare(a, b).tasks[0].measured, 0.006);
}

void TestComparison::asText()
{
    const std::string text = toText(compare(predicted(), measured()), {}, 1);
    QVERIFY2(text.find("iteration  predicted 35.000 ms  measured 40.000 ms  -12.5 %") == 0, text.c_str());
    QVERIFY(text.find("0     backward             1          20.000          25.000   -20.0 %           0.000")
            != std::string::npos);
    QVERIFY(text.find("s0.B.m0") != std::string::npos); // the worst
    QVERIFY(text.find("s0.F.m0") == std::string::npos); // only one was asked for
}

void TestComparison::asJson()
{
    const auto json = nlohmann::json::parse(toJson(compare(predicted(), measured())));
    QCOMPARE(json["prediction_error"].get<double>(), 0.035 / 0.040 - 1);
    QCOMPARE(json["tasks"].size(), std::size_t{6});
    QCOMPARE(json["tasks"][0]["id"].get<std::string>(), std::string("s0.B.m0"));
    QCOMPARE(json["tasks"][0]["kind"].get<std::string>(), std::string("backward"));
    QCOMPARE(json["dropped"].get<int>(), 0);
}

void TestComparison::nothingToCompare()
{
    const Comparison comparison = compare({}, {});
    QVERIFY(comparison.tasks.empty());
    QCOMPARE(comparison.error(), 0.0);
    QVERIFY(!toText(comparison).empty());
}

QTEST_GUILESS_MAIN(TestComparison)
#include "tst_comparison.moc"

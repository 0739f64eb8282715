// SPDX-License-Identifier: Apache-2.0
// The course of a memory policy by what a run has measured, in place of the cost model's seconds.
#include "engine/compile/compile.h"
#include "engine/compile/deployment.h"
#include "engine/compile/stage_memory.h"
#include "engine/export/decisions.h"
#include "tests/engine/compile/random_plans.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

using namespace planloom;

namespace {

constexpr std::int64_t kMicroBatches = 3;
constexpr std::int64_t kCopied = 1 << 20; ///< bytes of the copies that were measured

/// Two processors, whose copies take from their operators.
plan::Subject subjectOnProcessors()
{
    cluster::RegularCluster spec;
    spec.name = "two";
    spec.perNode = 2;
    spec.type = cluster::DeviceType{"CPU", {{"float32", 1e11}}, Bytes(std::int64_t{1} << 40), 1e10};
    spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e10;
    return plan::makeSubject(testing::tinyGpt(true, 3),
                             std::make_shared<const cluster::Cluster>(*cluster::regular(spec)), nullptr, "test");
}

plan::Plan planWith(const plan::Subject &subject, const std::vector<testing::StageShape> &stages, const char *policy)
{
    plan::Plan plan = testing::planOf(subject, stages, 12, kMicroBatches);
    for (plan::Stage &stage : plan.stages)
        stage.memory = *plan::memoryFromText(policy);
    return plan;
}

/// What a run measures if all is as the cost model has it: an operator beside a copy takes longer.
Result<memory::RunTimes> asPredicted(const plan::Plan &plan, const plan::Subject &subject)
{
    const compile::Source source{plan, subject};
    const compile::Samples samples(source);
    auto made = compile::deploy(source, samples, {.bodies = false}, false, false);
    if (!made)
        return made.error();
    const auto planned = compile::planMemory({source, samples, made->stages, made->ranks, made->instances, made->teams,
                                              made->buckets, made->owners, made->parts});
    if (!planned)
        return planned.error();
    memory::RunTimes times{4, std::vector<memory::MeasuredTimes>(made->ranks.size())};
    for (std::size_t i = 0; i < made->instances.size(); ++i) {
        const compile::StageMemory &memory = *planned->of(i);
        memory::MeasuredTimes &own = times.ranks[made->instances[i].rank.index()];
        std::vector<double> seconds = memory.seconds;
        for (const memory::Event &event : memory.course.events)
            if (event.kind == memory::Event::Kind::Run)
                seconds[static_cast<std::size_t>(event.subject)] += event.delay;
        const auto ops =
            static_cast<std::int32_t>(made->stages[made->instances[i].stage.index()].training()->graph.ops().size());
        for (std::int32_t m = 0; m < kMicroBatches; ++m)
            for (std::int32_t op = 0; op < ops; ++op) {
                const program::Pass pass = op < memory.forwardOps ? program::Pass::Forward
                    : op < memory.weightsBegin                    ? program::Pass::Backward
                                                                  : program::Pass::WeightGradient;
                own.operators.push_back(seconds[static_cast<std::size_t>(op + memory.offsetOf(pass, m))]);
            }
        own.copyBytes = kCopied;
        own.secondsOut = memory.copies.seconds(true, kCopied);
        own.secondsIn = memory.copies.seconds(false, kCopied);
    }
    return times;
}

memory::RunTimes allTaking(double seconds, memory::RunTimes times)
{
    for (memory::MeasuredTimes &rank : times.ranks)
        std::fill(rank.operators.begin(), rank.operators.end(), seconds);
    return times;
}

using Decided = std::vector<std::tuple<std::size_t, std::int32_t, std::int32_t, memory::Decision::Action>>;

Decided decidedBy(const program::Program &program)
{
    Decided decided;
    for (std::size_t r = 0; r < program.ranks.size(); ++r)
        for (const program::MemoryDecision &decision : program.ranks[r].decisions)
            decided.emplace_back(r, decision.tensor.value, decision.microBatch, decision.what.action);
    return decided;
}

} // namespace

class TestMeasuredCourse : public QObject {
    Q_OBJECT

private slots:
    void predictedTimesGiveThePredictedCourse_data();
    void predictedTimesGiveThePredictedCourse();
    void measuredSecondsDecide();
    void measuredCopiesDecide();
    void theLogicalClockDoesNotCare();
    void refusals();
};

void TestMeasuredCourse::predictedTimesGiveThePredictedCourse_data()
{
    QTest::addColumn<QString>("policy");
    for (const char *policy : {"delta,budget=60%", "delta,budget=60%,director=swap", "lru,budget=60%,director=swap",
                               "dtr,budget=50%,director=recompute", "capuchin,budget=50%", "ahead,budget=45%"})
        QTest::addRow("%s", policy) << policy;
}

/// A run in which everything takes as long as predicted goes on as it began: task by task, in the same places.
void TestMeasuredCourse::predictedTimesGiveThePredictedCourse()
{
    QFETCH(QString, policy);
    const plan::Subject subject = subjectOnProcessors();
    const plan::Plan plan = planWith(subject, {{1, 1}, {1, 1}}, (policy + ",clock=measured").toStdString().c_str());
    const auto times = asPredicted(plan, subject);
    QVERIFY2(times, times ? "" : times.error().text().c_str());
    const auto logical = compile::compilePlan(plan, subject);
    const auto measured = compile::compilePlan(plan, subject, {.times = &*times});
    QVERIFY2(logical, logical ? "" : logical.error().text().c_str());
    QVERIFY2(measured, measured ? "" : measured.error().text().c_str());
    QVERIFY(!decidedBy(*logical).empty());
    QVERIFY(decidedBy(*measured) == decidedBy(*logical));
    QCOMPARE(measured->tasks.size(), logical->tasks.size());
    for (std::size_t t = 0; t < measured->tasks.size(); ++t) {
        QCOMPARE(program::idOf(measured->tasks[t]), program::idOf(logical->tasks[t]));
        const double seconds = logical->tasks[t].duration.value();
        if (measured->tasks[t].as<program::Compute>() != nullptr || measured->tasks[t].as<program::Swap>() != nullptr)
            QVERIFY(std::abs(measured->tasks[t].duration.value() - seconds) <= 1e-9 * seconds);
    }
    QVERIFY(measured->pooledPlaces == logical->pooledPlaces);
}

/// Operators that take no time are made again, those that take for ever are copied; the log has the measured seconds,
/// the arena stays, as the budget bounds both courses.
void TestMeasuredCourse::measuredSecondsDecide()
{
    using Action = memory::Decision::Action;
    const plan::Subject subject = subjectOnProcessors();
    const plan::Plan plan = planWith(subject, {{1, 1}, {1, 1}}, "delta,budget=60%,clock=measured");
    const auto logical = compile::compilePlan(plan, subject);
    const auto times = asPredicted(plan, subject);
    QVERIFY(logical && times);
    for (const auto &[seconds, action] : {std::pair{1e-9, Action::Recompute}, {1.0, Action::Swap}}) {
        const memory::RunTimes taken = allTaking(seconds, *times);
        const auto measured = compile::compilePlan(plan, subject, {.times = &taken});
        QVERIFY2(measured, measured ? "" : measured.error().text().c_str());
        for (std::size_t r = 0; r < measured->ranks.size(); ++r) {
            QVERIFY(!measured->ranks[r].decisions.empty());
            for (const program::MemoryDecision &decision : measured->ranks[r].decisions) {
                QCOMPARE(decision.what.action, action);
                QVERIFY(decision.what.cost >= seconds / 2 && decision.what.cost <= seconds);
            }
            QCOMPARE(measured->ranks[r].arenaBytes, logical->ranks[r].arenaBytes);
        }
        double computed = 0;
        for (const program::Task &task : measured->tasks)
            if (const auto *run = task.as<program::Compute>(); run != nullptr && run->pass != program::Pass::Recompute)
                computed += task.duration.value();
        double operators = 0;
        for (const memory::MeasuredTimes &rank : taken.ranks)
            operators += std::accumulate(rank.operators.begin(), rank.operators.end(), 0.0);
        QVERIFY(computed > operators / 2);
    }
}

/// Where copies take a hundred times as long, the rule makes again what it copied; a bandwidth of the plan holds.
void TestMeasuredCourse::measuredCopiesDecide()
{
    const plan::Subject subject = subjectOnProcessors();
    const auto swapsBy = [&](const char *policy, double slower) {
        const plan::Plan plan = planWith(subject, {{1, 1}, {1, 1}}, policy);
        auto times = asPredicted(plan, subject);
        if (!times)
            qFatal("%s", times.error().text().c_str());
        for (memory::MeasuredTimes &rank : times->ranks) {
            rank.secondsOut *= slower;
            rank.secondsIn *= slower;
        }
        const auto program = compile::compilePlan(plan, subject, {.times = &*times});
        if (!program)
            qFatal("%s", program.error().text().c_str());
        const Decided decided = decidedBy(*program);
        return std::count_if(decided.begin(), decided.end(),
                             [](const auto &each) { return std::get<3>(each) == memory::Decision::Action::Swap; });
    };
    const char *const given = "delta,budget=60%,latency=0,clock=measured,bandwidth_out=4e9,bandwidth_in=4e9";
    QVERIFY(swapsBy("delta,budget=60%,latency=0,clock=measured", 1) > 0);
    QCOMPARE(swapsBy("delta,budget=60%,latency=0,clock=measured", 1000), 0);
    QCOMPARE(swapsBy(given, 1000), swapsBy(given, 1));
    QVERIFY(swapsBy(given, 1) > 0);
}

void TestMeasuredCourse::theLogicalClockDoesNotCare()
{
    const plan::Subject subject = subjectOnProcessors();
    const plan::Plan plan = planWith(subject, {{1, 1}, {1, 1}}, "delta,budget=60%");
    const auto times = asPredicted(plan, subject);
    QVERIFY(times);
    const memory::RunTimes taken = allTaking(1.0, *times);
    const auto logical = compile::compilePlan(plan, subject);
    const auto again = compile::compilePlan(plan, subject, {.times = &taken});
    QVERIFY(logical && again);
    QCOMPARE(exporting::decisionLog(*again, *subject.cluster), exporting::decisionLog(*logical, *subject.cluster));
}

void TestMeasuredCourse::refusals()
{
    const plan::Subject subject = subjectOnProcessors();
    const plan::Plan plan = planWith(subject, {{1, 1}, {1, 1}}, "delta,budget=60%,clock=measured");
    const auto refused = [&](const plan::Plan &of, const memory::RunTimes &times, const char *wanted) {
        const auto program = compile::compilePlan(of, subject, {.times = &times});
        return !program && program.error().message.find(wanted) != std::string::npos;
    };
    auto times = asPredicted(plan, subject);
    QVERIFY(times);
    memory::RunTimes fewer = *times;
    fewer.ranks.front().operators.pop_back();
    QVERIFY(refused(plan, fewer, "the measured times are of another plan"));
    fewer = *times;
    fewer.ranks.pop_back();
    QVERIFY(refused(plan, fewer, "the measured times are of another plan"));
    plan::Plan averaging = planWith(subject, {{2, 1}}, "delta,budget=60%,clock=measured");
    averaging.exchange.policy = plan::ExchangePolicy::DelayedAveraging;
    QVERIFY(refused(averaging, *times, "clock=measured, and the exchange keeps averages"));
    // Copies that take for ever have all made again, and what is made again takes all of a step.
    const plan::Plan capped = planWith(subject, {{1, 1}, {1, 1}}, "delta,budget=45%,recompute_cap=0.5,clock=measured");
    QVERIFY(compile::compilePlan(capped, subject));
    memory::RunTimes slow = *times;
    for (memory::MeasuredTimes &rank : slow.ranks) {
        rank.secondsOut = rank.secondsIn = 1e6;
        const std::size_t ops = rank.operators.size() / kMicroBatches;
        for (std::size_t o = 0; o < rank.operators.size(); ++o)
            rank.operators[o] = o % ops < ops / 3 ? 1 : 1e-9;
    }
    QVERIFY(refused(capped, slow, "run again for more than 0.5 times"));
}

QTEST_GUILESS_MAIN(TestMeasuredCourse)
#include "tst_measured_course.moc"

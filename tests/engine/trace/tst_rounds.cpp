// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/rounds.h"

#include <QTest>

using namespace planloom::trace;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// Steps of a second each, one behind the other; @p steps: their numbers.
std::vector<Window> seconds(const std::vector<std::int32_t> &steps)
{
    Trace trace;
    for (const std::int32_t step : steps)
        trace.records.push_back({step * kSecond, kSecond, -1, step, 0, 0});
    return stepWindows(trace);
}

std::vector<std::int64_t> firsts(const std::vector<Round> &rounds)
{
    std::vector<std::int64_t> steps;
    for (const Round &round : rounds)
        steps.push_back(round.first);
    return steps;
}

using Steps = std::vector<std::int64_t>;
using Numbers = std::vector<std::int32_t>;

} // namespace

class TestRounds : public QObject {
    Q_OBJECT

private slots:
    void stepsAreRoundsOfOne()
    {
        const auto windows = seconds({0, 1, 2, 3});
        QCOMPARE(firsts(steadyRounds({}, windows)), (Steps{1, 2, 3}));
        QCOMPARE(lastWholeRound({}, windows)->first, 2); // the newest may be going on
        QCOMPARE(lastWholeRound({}, seconds({0}))->first, 0);
        QCOMPARE(lastWholeRound({}, seconds({0, 1}))->first, 0);
        QVERIFY(!lastWholeRound({}, {}));
        QCOMPARE(steadyRounds({}, windows).front().secondsPerStep(), 1.0);
    }

    void wholeRoundsOfSeveralSteps()
    {
        const Rounds four{4, 0, true};
        // Rounds of steps 0 to 3, 4 to 7, 8 to 11, and the beginning of another.
        const auto windows = seconds({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
        QCOMPARE(firsts(steadyRounds(four, windows)), (Steps{4, 8}));
        QCOMPARE(lastWholeRound(four, windows)->first, 8);
        // Of a run that ended with a round, the last one waits for all that is under way.
        QCOMPARE(firsts(steadyRounds(four, std::span(windows).first(12))), (Steps{4}));
        QCOMPARE(lastWholeRound(four, std::span(windows).first(12))->first, 4);
        QCOMPARE(lastWholeRound(four, std::span(windows).first(5))->first, 0);
        QCOMPARE(lastWholeRound(four, std::span(windows).first(4))->first, 0);
    }

    void warmupStepsAreNoRound()
    {
        const Rounds later{2, 4, true};
        const auto windows = seconds({0, 1, 2, 3, 4, 5, 6, 7, 8});
        QCOMPARE(firsts(steadyRounds(later, windows)), (Steps{6}));
        QCOMPARE(lastWholeRound(later, windows)->first, 6);
    }

    /// One step in three, or steps that were lost: no round is whole.
    void stepsWhereNoRoundIsWhole()
    {
        const auto windows = seconds({0, 3, 6, 9});
        QCOMPARE(firsts(steadyRounds({4, 0, true}, windows)), (Steps{3, 6, 9}));
        QCOMPARE(lastWholeRound({4, 0, true}, windows)->first, 9);
        QCOMPARE(firsts(steadyRounds({2, 0, true}, seconds({0, 1, 3, 4, 5}))), (Steps{4}));
    }

    /// What ends beside the next round belongs to its own, and does not make it longer.
    void aRoundEndsWhereTheNextBegins()
    {
        Trace trace;
        for (const std::int32_t step : {0, 1, 2, 3})
            trace.records.push_back({step * kSecond, kSecond, -1, step, 0, 0});
        trace.records.push_back({2 * kSecond, 2 * kSecond + kSecond / 2, -1, 1, 0, 1}); // of round 0, ends in round 1
        const auto windows = stepWindows(trace);
        const auto overlapping = lastWholeRound({2, 0, true}, windows);
        QCOMPARE(overlapping->first, 0);
        QCOMPARE(overlapping->window.end, 2 * kSecond);
        QCOMPARE(overlapping->secondsPerStep(), 1.0);
        QCOMPARE(lastWholeRound({2, 0, false}, windows)->window.end, 4 * kSecond + kSecond / 2);
    }

    /// Between rounds a checkpoint was written, which is no part of them.
    void pausesAreNotCounted()
    {
        Trace trace;
        for (const std::int32_t step : {0, 1, 2, 3})
            trace.records.push_back({(step < 2 ? step : step + 5) * kSecond, kSecond, -1, step, 0, 0});
        QCOMPARE(lastWholeRound({2, 0, true}, stepWindows(trace))->secondsPerStep(), 1.0);
    }

    /// Nor are those inside of rounds; what is under way beside them is.
    void pausesInsideRoundsAreNotCounted()
    {
        Trace trace;
        for (const std::int32_t step : {0, 1, 2, 3}) // three seconds behind step 1
            trace.records.push_back({(step < 2 ? step : step + 3) * kSecond, kSecond, -1, step, 0, 0});
        const auto paused = lastWholeRound({4, 0, true}, stepWindows(trace));
        QCOMPARE(paused->paused, 3 * kSecond);
        QCOMPARE(paused->secondsPerStep(), 1.0);
        trace.records.push_back({1 * kSecond, 3 * kSecond, -1, 0, 0, 1}); // of step 0, for two of these seconds
        const auto busy = lastWholeRound({4, 0, true}, stepWindows(trace));
        QCOMPARE(busy->paused, 1 * kSecond);
        QCOMPARE(busy->secondsPerStep(), 1.5);
    }

    void damagedStepsAreLeftOut()
    {
        Trace trace;
        trace.records = {{0, 1, -1, -5, 0, 0}, {0, 1, -1, 2'000'000'000, 0, 0}, {5, 1, -1, 1, 0, 0}};
        QCOMPARE(stepWindows(trace).size(), std::size_t{2});
    }
};

QTEST_GUILESS_MAIN(TestRounds)
#include "tst_rounds.moc"

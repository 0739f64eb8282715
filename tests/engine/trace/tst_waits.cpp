// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/waits.h"

#include <QTest>

using namespace planloom::trace;

namespace {

/// A transfer from rank 0 to rank 1 (group 0), an all-reduce of three ranks (group 1), and a task of rank 0 alone.
Tables tables()
{
    Tables made;
    made.ranks = {{"g0"}, {"g1"}, {"g2"}};
    made.tasks = {{"s0.SF.m0", Kind::Send, 0, 0, 0},       {"s1.RF.m0", Kind::Receive, 1, 0, 0},
                  {"s0.AR.b0", Kind::AllReduce, 0, -1, 1}, {"s1.AR.b0", Kind::AllReduce, 1, -1, 1},
                  {"s2.AR.b0", Kind::AllReduce, 2, -1, 1}, {"s0.F.m0", Kind::Forward, 0, 0}};
    return made;
}

} // namespace

class TestWaits : public QObject {
    Q_OBJECT

private slots:
    void aStepByHand();
    void stepsAreApart();
    void recordsThatComeLater();
    void membersThatAreMissing();
};

/// start  duration  rank  wait: the receiver is there at 10 and the sender at 25; the all-reduce starts at 60, 75, 40.
void TestWaits::aStepByHand()
{
    Trace trace;
    static_cast<Tables &>(trace) = tables();
    trace.records = {{25, 5, 0, 0, 0, 1},  {10, 20, 1, 0, 1, 2}, {60, 25, 2, 0, 0, 3},
                     {75, 10, 3, 0, 1, 3}, {40, 45, 4, 0, 2, 3}, {0, 9, 5, 0, 0, 0}};
    QCOMPARE(waits(trace), (std::vector<std::int64_t>{0, 15, 15, 0, 35, 0}));
}

void TestWaits::stepsAreApart()
{
    Trace trace;
    static_cast<Tables &>(trace) = tables();
    trace.records = {{25, 5, 0, 0, 0, 1}, {10, 20, 1, 0, 1, 2}, {125, 5, 0, 1, 0, 1}, {118, 12, 1, 1, 1, 2}};
    QCOMPARE(waits(trace), (std::vector<std::int64_t>{0, 15, 0, 7}));
}

void TestWaits::recordsThatComeLater()
{
    const Tables known = tables();
    const Record receive{10, 20, 1, 0, 1, 2};
    const Record send{25, 5, 0, 0, 0, 1};
    Waits waits;
    QCOMPARE(waits.of(known, receive), std::int64_t{0});
    waits.append(known, {&receive, 1});
    QCOMPARE(waits.of(known, receive), std::int64_t{0});
    waits.append(known, {&send, 1});
    QCOMPARE(waits.of(known, receive), std::int64_t{15});
    QCOMPARE(waits.of(known, send), std::int64_t{0});
}

/// A task never waits longer than its duration. Records without a task or a group do not wait.
void TestWaits::membersThatAreMissing()
{
    Trace trace;
    static_cast<Tables &>(trace) = tables();
    trace.records = {{10, 4, 1, 0, 1, 2}, {25, 5, 0, 0, 0, 1}, {3, 3, -1, 0, 0, 0}, {60, 25, 2, 0, 0, 3}};
    QCOMPARE(waits(trace), (std::vector<std::int64_t>{4, 0, 0, 0}));
    QVERIFY(waits(Trace()).empty());
}

QTEST_GUILESS_MAIN(TestWaits)
#include "tst_waits.moc"

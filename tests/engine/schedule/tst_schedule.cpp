// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/pass_order.h"
#include "engine/compile/slots.h"
#include "engine/schedule/dual_pipe.h"
#include "engine/schedule/schedule.h"
#include "tests/pass_steps.h"

#include <QTest>
#include <map>
#include <set>
#include <tuple>

using namespace planloom;
using namespace planloom::compile;

namespace {

QString text(const std::vector<PassStep> &order)
{
    QStringList words;
    for (const PassStep &step : order)
        words << QString(step.forward() ? "F%1" : step.pass == Pass::Backward ? "B%1" : "W%1").arg(step.microBatch);
    return words.join(' ');
}

/// With the stage in front: "4F0".
QString textOfStages(const std::vector<PassStep> &order)
{
    QStringList words;
    for (const PassStep &step : order)
        words << QString("%1%2%3").arg(step.stage).arg(schedule::letter(step.pass)).arg(step.microBatch);
    return words.join(' ');
}

/// How long orders take where a forward lasts 1, a backward 2 (cut: 1 and 1) and nothing else does; -1: they wait for
/// each other.
int makespan(const std::vector<std::vector<PassStep>> &orders, int stages, int forward, int backward, int weights)
{
    std::map<std::tuple<int, Pass, int>, int> ends;
    std::vector<std::size_t> next(orders.size(), 0);
    std::vector<int> time(orders.size(), 0);
    const auto endOf = [&](int stage, Pass pass, int m) {
        const auto found = ends.find({stage, pass, m});
        return found == ends.end() ? -1 : found->second;
    };
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < orders.size(); ++r) {
            while (next[r] < orders[r].size()) {
                const PassStep &step = orders[r][next[r]];
                int ready = 0;
                if (step.forward() && step.stage > 0)
                    ready = endOf(step.stage - 1, Pass::Forward, step.microBatch);
                else if (step.pass == Pass::Backward)
                    ready = step.stage + 1 < stages ? endOf(step.stage + 1, Pass::Backward, step.microBatch)
                                                    : endOf(step.stage, Pass::Forward, step.microBatch);
                if (ready < 0)
                    break;
                time[r] = std::max(time[r], ready)
                    + (step.forward()                    ? forward
                           : step.pass == Pass::Backward ? backward
                                                         : weights);
                ends[{step.stage, step.pass, step.microBatch}] = time[r];
                ++next[r];
                moved = true;
            }
        }
    }
    for (std::size_t r = 0; r < orders.size(); ++r)
        if (next[r] < orders[r].size())
            return -1;
    return *std::max_element(time.begin(), time.end());
}

} // namespace

class TestSchedule : public QObject {
    Q_OBJECT

private slots:
    void earlyBackward_data()
    {
        QTest::addColumn<int>("microBatches");
        QTest::addColumn<int>("depth");
        QTest::addColumn<QString>("expected");
        QTest::newRow("last stage of 1f1b") << 3 << 1 << "F0 B0 F1 B1 F2 B2";
        QTest::newRow("two in flight") << 4 << 2 << "F0 F1 B0 F2 B1 F3 B2 B3";
        QTest::newRow("gpipe") << 3 << 3 << "F0 F1 F2 B0 B1 B2";
        QTest::newRow("deeper than there are micro-batches") << 2 << 9 << "F0 F1 B0 B1";
        QTest::newRow("depth below one") << 2 << 0 << "F0 B0 F1 B1";
    }
    void earlyBackward()
    {
        QFETCH(int, microBatches);
        QFETCH(int, depth);
        QFETCH(QString, expected);
        const auto order = earlyBackwardOrder(microBatches, depth);
        QCOMPARE(text(order), expected);
        QCOMPARE(maxInFlight(order), std::clamp(depth, 1, microBatches));
    }

    void slotsAreNeverShared_data()
    {
        QTest::addColumn<int>("microBatches");
        QTest::addColumn<int>("depth");
        QTest::addColumn<int>("before");
        for (const int microBatches : {1, 2, 5, 12})
            for (const int depth : {1, 2, 4, 12})
                for (const int before : {0, 3, 12})
                    QTest::addRow("M=%d K=%d before=%d", microBatches, depth, before)
                        << microBatches << depth << before;
    }
    void slotsAreNeverShared()
    {
        QFETCH(int, microBatches);
        QFETCH(int, depth);
        QFETCH(int, before);
        const auto order = earlyBackwardOrder(microBatches, depth);
        const SlotPlan plan = planSlots(order, microBatches, {.inFlightBefore = before});
        for (const Area area : {Area::Inbox, Area::Frame}) {
            const auto a = static_cast<std::size_t>(area);
            std::set<int> busy;
            for (const PassStep &step : order) {
                const int slot = plan.slotTable[static_cast<std::size_t>(step.microBatch)].slot[a];
                QVERIFY(slot >= 0 && slot < plan.counts[a]);
                if (!step.forward()) {
                    QCOMPARE(busy.erase(slot), std::size_t(1));
                    continue;
                }
                QVERIFY2(busy.insert(slot).second, "two micro-batches in flight have the same slot");
                const int previous = plan.previous[a][static_cast<std::size_t>(step.microBatch)];
                if (previous >= 0)
                    QCOMPARE(plan.slotTable[static_cast<std::size_t>(previous)].slot[a], slot);
            }
        }
        QVERIFY(plan.counts[static_cast<std::size_t>(Area::Inbox)] >= std::min(before, microBatches));
    }

    /// Narayanan et al. (2021), figure 4, below: 4 devices, 2 stages each, 8 micro-batches. Here stage 4 + r is device
    /// r's second one.
    void interleaved_data()
    {
        QTest::addColumn<int>("rank");
        QTest::addColumn<QString>("expected");
        QTest::newRow("first") << 0
                               << "0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 4B0 0F7 4B1 4F4 4B2 4F5 4B3 4F6 0B0 4F7 "
                                  "0B1 0B2 0B3 4B4 4B5 4B6 4B7 0B4 0B5 0B6 0B7";
        QTest::newRow("last") << 3
                              << "3F0 3F1 3F2 3F3 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 3F4 3B0 3F5 3B1 3F6 3B2 3F7 3B3 7F4 "
                                 "7B4 7F5 7B5 7F6 7B6 7F7 7B7 3B4 3B5 3B6 3B7";
    }
    void interleaved()
    {
        QFETCH(int, rank);
        QFETCH(QString, expected);
        auto order = interleavedOrder(8, rank, 4, 2);
        if (rank == 0) { // 10 forwards of warm-up, then a forward and a backward in turn
            QCOMPARE(std::count_if(order.begin(), order.begin() + 11,
                                   [](const PassStep &step) { return step.forward(); }),
                     std::ptrdiff_t(11));
            QCOMPARE(order[11].pass, Pass::Backward);
        }
        QCOMPARE(textOfStages(order), expected);
    }

    void interleavedBubble_data()
    {
        QTest::addColumn<int>("ranks");
        QTest::addColumn<int>("chunks");
        QTest::addColumn<int>("microBatches");
        for (const int ranks : {2, 3, 4, 6})
            for (const int chunks : {1, 2, 3, 4})
                for (const int groups : {1, 2, 4})
                    QTest::addRow("S=%d v=%d m=%d", ranks, chunks, ranks * groups) << ranks << chunks << ranks * groups;
    }
    /// (S - 1) / (v m) of the work is idle on top, as published: a stage's forward is 1, its backward 2, so a device
    /// works for 3 v m.
    void interleavedBubble()
    {
        QFETCH(int, ranks);
        QFETCH(int, chunks);
        QFETCH(int, microBatches);
        std::vector<std::vector<PassStep>> orders;
        for (int r = 0; r < ranks; ++r)
            orders.push_back(interleavedOrder(microBatches, r, ranks, chunks));
        QCOMPARE(makespan(orders, ranks * chunks, 1, 2, 0), 3 * chunks * microBatches + 3 * (ranks - 1));
    }

    /// Where micro-batches do not divide into groups the order still runs.
    void interleavedRemainder()
    {
        for (int ranks = 2; ranks <= 5; ++ranks)
            for (int chunks = 1; chunks <= 4; ++chunks)
                for (int microBatches = 1; microBatches <= 13; ++microBatches) {
                    std::vector<std::vector<PassStep>> orders;
                    for (int r = 0; r < ranks; ++r)
                        orders.push_back(interleavedOrder(microBatches, r, ranks, chunks));
                    const int all = makespan(orders, ranks * chunks, 1, 2, 0);
                    QVERIFY2(all >= 3 * chunks * microBatches,
                             qPrintable(QString("S=%1 v=%2 m=%3").arg(ranks).arg(chunks).arg(microBatches)));
                }
    }

    void zeroBubble_data()
    {
        QTest::addColumn<int>("stage");
        QTest::addColumn<QString>("expected");
        // 4 stages, 6 micro-batches.
        QTest::newRow("first") << 0 << "F0 F1 F2 F3 B0 W0 F4 B1 W1 F5 B2 W2 B3 W3 B4 W4 B5 W5";
        QTest::newRow("last") << 3 << "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 W3 W4 W5";
    }
    void zeroBubble()
    {
        QFETCH(int, stage);
        QFETCH(QString, expected);
        const auto order = zeroBubbleOrder(6, 4 - stage, stage);
        QCOMPARE(text(order), expected);
        QCOMPARE(maxInFlight(order), 4); // as many as 1f1b's first stage, on every stage
    }

    /// Qi et al. (2024), table 1, with all passes alike: (p - 1)(F + B - W) idle, a third of what 1F1B leaves.
    void zeroBubbleBubble()
    {
        for (int stages = 2; stages <= 8; ++stages) {
            const int microBatches = 2 * stages + 1;
            std::vector<std::vector<PassStep>> cut, whole;
            for (int s = 0; s < stages; ++s) {
                cut.push_back(zeroBubbleOrder(microBatches, stages - s, s, s));
                whole.push_back(earlyBackwardOrder(microBatches, stages - s, s));
            }
            QCOMPARE(makespan(whole, stages, 1, 2, 0) - 3 * microBatches, 3 * (stages - 1));
            QCOMPARE(makespan(cut, stages, 1, 1, 1) - 3 * microBatches, stages - 1);
        }
    }

    void dualPipe_data()
    {
        QTest::addColumn<int>("rank");
        QTest::addColumn<QString>("expected");
        // 2 ranks, 4 micro-batches; rank 0 has the stages 0 and 3.
        QTest::newRow("outer") << 0
                               << "0F0 0F1 0F2 3F0 3B0 3W0 3F1 0F3 3B1 3W1 3F2 0B0 0W0 3B2 3W2 3F3 0B1 0W1 3B3 3W3 "
                                  "0B2 0W2 0B3 0W3";
        QTest::newRow("inner") << 1
                               << "1F0 2F0 1F1 2F1 1F2 2B0 2W0 2F2 1B0 1W0 1F3 2B1 2W1 2F3 1B1 1W1 2B2 2W2 1B2 1W2 "
                                  "2B3 1B3 2W3 1W3";
    }
    void dualPipe()
    {
        QFETCH(int, rank);
        QFETCH(QString, expected);
        QCOMPARE(textOfStages(schedule::dualPipeVOrder(4, rank, 2)), expected);
    }

    /// Where all passes of the half stages last 1: ranks - 1 idle, half of what ZB-H1 leaves of whole stages.
    void dualPipeBubble()
    {
        for (int ranks = 1; ranks <= 8; ++ranks)
            for (int microBatches = 2 * ranks; microBatches <= 4 * ranks + 1; ++microBatches) {
                std::vector<std::vector<PassStep>> orders;
                for (int r = 0; r < ranks; ++r) {
                    orders.push_back(schedule::dualPipeVOrder(microBatches, r, ranks));
                    const Status whole =
                        schedule::checkOrder(orders.back(), {{r, true}, {2 * ranks - 1 - r, true}}, microBatches);
                    QVERIFY2(whole, whole ? "" : whole.error().message.c_str());
                }
                QCOMPARE(makespan(orders, 2 * ranks, 1, 1, 1) - 6 * microBatches, ranks - 1);
            }
    }

    void customOrder_data()
    {
        QTest::addColumn<QStringList>("ids");
        QTest::addColumn<QString>("error");
        QTest::newRow("as listed") << QStringList{"s0.F.m1", "s0.F.m0", "s0.B.m0", "s0.B.m1"} << "";
        QTest::newRow("missing") << QStringList{"s0.F.m0", "s0.B.m0", "s0.F.m1"}
                                 << "misses 1 of 4 passes, such as s0.B.m1";
        QTest::newRow("twice") << QStringList{"s0.F.m0", "s0.F.m0"} << "has s0.F.m0 twice";
        QTest::newRow("backward first") << QStringList{"s0.B.m0"} << "has s0.B.m0 before its forward";
        QTest::newRow("another stage") << QStringList{"s1.F.m0"} << "has s1.F.m0, which is none of its passes";
        QTest::newRow("weights apart") << QStringList{"s0.F.m1", "s0.F.m0", "s0.B.m0", "s0.B.m1", "s0.W.m0"}
                                       << "misses 1 of 6 passes, such as s0.W.m1";
        QTest::newRow("weights first") << QStringList{"s0.F.m0", "s0.W.m0"} << "has s0.W.m0 before its backward";
        QTest::newRow("weights first of all") << QStringList{"s0.W.m0"} << "has s0.W.m0 before its forward";
        QTest::newRow("beyond the last") << QStringList{"s0.F.m2"} << "has s0.F.m2, which is none of its passes";
    }
    void customOrder()
    {
        QFETCH(QStringList, ids);
        QFETCH(QString, error);
        std::vector<std::string> texts;
        for (const QString &id : ids)
            texts.push_back(id.toStdString());
        const std::vector<PassStep> order = test::passSteps(texts);
        const bool splits = ids.join(' ').contains(".W.");
        const Status status = schedule::checkOrder(order, {{0, splits}}, 2);
        QCOMPARE(status ? QString() : QString::fromStdString(status.error().message).left(error.size()), error);
    }

    void idsAreRead()
    {
        for (const PassStep &step : zeroBubbleOrder(12, 3, 2, 11))
            QCOMPARE(schedule::passStepFrom(schedule::textOf(step)), std::optional(step));
        for (const char *text : {"", "s", "s0", "s0.F", "s0.F.m", "s0.F.mx", "s0.F.m1.2", "s-1.F.m0", "s0.F.m-1",
                                 "s0.R.m0", "F.m0", "s0.AR.b0", "s99999999999.F.m0", "s0.F.m0 "})
            QVERIFY2(!schedule::passStepFrom(text), text);
        QCOMPARE(schedule::stageOfTask("s12.AR.b0"), std::optional(12));
        QCOMPARE(schedule::stageOfTask("s3.O"), std::optional(3));
        for (const char *text : {"A.step", "s3", "3.F.m0", ""})
            QVERIFY2(!schedule::stageOfTask(text), text);
    }
};

QTEST_GUILESS_MAIN(TestSchedule)
#include "tst_schedule.moc"

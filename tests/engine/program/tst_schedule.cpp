// SPDX-License-Identifier: Apache-2.0
#include "engine/program/schedule.h"
#include "engine/program/slots.h"

#include <QTest>
#include <set>

using namespace planloom;
using namespace planloom::program;

namespace {

QString text(const std::vector<PassStep> &order)
{
    QStringList words;
    for (const PassStep &step : order)
        words << QString(step.forward ? "F%1" : "B%1").arg(step.microBatch);
    return words.join(' ');
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
                    QTest::addRow("M=%d K=%d before=%d", microBatches, depth, before) << microBatches << depth << before;
    }
    void slotsAreNeverShared()
    {
        QFETCH(int, microBatches);
        QFETCH(int, depth);
        QFETCH(int, before);
        const auto order = earlyBackwardOrder(microBatches, depth);
        const SlotPlan plan = planSlots(order, microBatches, before);
        for (const Area area : {Area::Inbox, Area::Frame}) {
            const auto a = static_cast<std::size_t>(area);
            std::set<int> busy;
            for (const PassStep &step : order) {
                const int slot = plan.slotTable[static_cast<std::size_t>(step.microBatch)].slot[a];
                QVERIFY(slot >= 0 && slot < plan.counts[a]);
                if (!step.forward) {
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

    void customOrder_data()
    {
        QTest::addColumn<QStringList>("ids");
        QTest::addColumn<QString>("error");
        QTest::newRow("as listed") << QStringList{"s0.F.m1", "s0.F.m0", "s0.B.m0", "s0.B.m1"} << "";
        QTest::newRow("missing") << QStringList{"s0.F.m0", "s0.B.m0", "s0.F.m1"} << "s0.B.m1 is missing";
        QTest::newRow("twice") << QStringList{"s0.F.m0", "s0.F.m0"} << "listed twice";
        QTest::newRow("backward first") << QStringList{"s0.B.m0"} << "comes before its forward";
        QTest::newRow("another stage") << QStringList{"s1.F.m0"} << "is no task of stage 0";
        QTest::newRow("nonsense") << QStringList{"s0.F.mx"} << "is no task of stage 0";
        QTest::newRow("beyond the last") << QStringList{"s0.F.m2"} << "is no task of stage 0";
    }
    void customOrder()
    {
        QFETCH(QStringList, ids);
        QFETCH(QString, error);
        plan::Plan plan;
        plan.microBatches = 2;
        plan.stages.resize(1);
        plan.schedule.kind = plan::ScheduleKind::Custom;
        for (const QString &id : ids)
            plan.schedule.order["d0"].push_back(id.toStdString());
        const auto order = passOrder(plan, StageId(0), "d0");
        QCOMPARE(order.ok(), error.isEmpty());
        if (!order)
            QVERIFY2(QString::fromStdString(order.error().message).contains(error), order.error().message.c_str());
        else
            QCOMPARE(text(*order), QString("F1 F0 B0 B1"));
    }
};

QTEST_GUILESS_MAIN(TestSchedule)
#include "tst_schedule.moc"

// SPDX-License-Identifier: Apache-2.0
#include "planners/dapple/placement.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

using namespace planloom;
using namespace planloom::planners::dapple;

namespace {

using Ids = std::vector<int>;

std::vector<DeviceId> devices(const Ids &ids)
{
    std::vector<DeviceId> made;
    for (const int id : ids)
        made.emplace_back(id);
    return made;
}

Ids idsOf(const std::optional<std::vector<DeviceId>> &chosen)
{
    Ids ids;
    if (chosen)
        for (const DeviceId device : *chosen)
            ids.push_back(device.value);
    return ids;
}

} // namespace

class TestDapplePlacement : public QObject {
    Q_OBJECT

private slots:
    void chooses_data()
    {
        QTest::addColumn<int>("perNode");
        QTest::addColumn<QList<int>>("occupied");
        QTest::addColumn<int>("count");
        QTest::addColumn<bool>("released");
        QTest::addColumn<QList<int>>("fresh");
        QTest::addColumn<QList<int>>("append");
        QTest::addColumn<QList<int>>("scatter");
        // The paper's Fig. 5: three machines of eight.
        QTest::newRow("figure 5") << 8 << QList<int>{0, 1, 2, 8, 9, 10, 11, 12} << 6 << false
                                  << QList<int>{16, 17, 18, 19, 20, 21} << QList<int>{3, 4, 5, 6, 7, 13}
                                  << QList<int>{3, 4, 5, 13, 14, 15};
        QTest::newRow("figure 5, released scatter")
            << 8 << QList<int>{0, 1, 2, 8, 9, 10, 11, 12} << 6 << true << QList<int>{16, 17, 18, 19, 20, 21}
            << QList<int>{3, 4, 5, 6, 7, 13} << QList<int>{3, 4, 13, 14, 16, 17};
        // Two machines of four, by the released rules.
        QTest::newRow("empty, 4") << 4 << QList<int>{} << 4 << true << QList<int>{0, 1, 2, 3} << QList<int>{}
                                  << QList<int>{0, 1, 4, 5};
        QTest::newRow("0 taken, 4") << 4 << QList<int>{0} << 4 << true << QList<int>{4, 5, 6, 7} << QList<int>{}
                                    << QList<int>{1, 2, 4, 5};
        QTest::newRow("0 taken, 3") << 4 << QList<int>{0} << 3 << true << QList<int>{4, 5, 6} << QList<int>{1, 2, 3}
                                    << QList<int>{1, 2, 4};
        // The same by the paper: Scatter First looks at used machines only.
        QTest::newRow("empty, 4, paper") << 4 << QList<int>{} << 4 << false << QList<int>{0, 1, 2, 3} << QList<int>{}
                                         << QList<int>{0, 1, 4, 5};
        QTest::newRow("0 taken, 4, paper")
            << 4 << QList<int>{0} << 4 << false << QList<int>{4, 5, 6, 7} << QList<int>{} << QList<int>{};
        QTest::newRow("0 taken, 3, paper")
            << 4 << QList<int>{0} << 3 << false << QList<int>{4, 5, 6} << QList<int>{1, 2, 3} << QList<int>{1, 2, 3};
        QTest::newRow("uneven") << 4 << QList<int>{0, 4, 5, 6} << 4 << false << QList<int>{} << QList<int>{1, 2, 3, 7}
                                << QList<int>{1, 2, 3, 7};
        QTest::newRow("too many") << 4 << QList<int>{0} << 8 << false << QList<int>{} << QList<int>{} << QList<int>{};
    }

    void chooses()
    {
        QFETCH(int, perNode);
        QFETCH(QList<int>, occupied);
        QFETCH(int, count);
        QFETCH(bool, released);
        const cluster::Cluster cluster = testing::smallCluster(perNode == 8 ? 3 : 2, perNode);
        Occupancy occupancy(cluster);
        occupancy.take(devices({occupied.begin(), occupied.end()}));
        const ScatterOver over = released ? ScatterOver::AllMachines : ScatterOver::UsedMachines;
        const auto check = [&](Placement placement, const QList<int> &wanted) {
            QCOMPARE(idsOf(occupancy.choose(placement, static_cast<std::size_t>(count), over)),
                     Ids(wanted.begin(), wanted.end()));
        };
        QFETCH(QList<int>, fresh);
        QFETCH(QList<int>, append);
        QFETCH(QList<int>, scatter);
        check(Placement::FreshFirst, fresh);
        check(Placement::AppendFirst, append);
        check(Placement::ScatterFirst, scatter);
    }

    void equalAnswersCountOnce()
    {
        const cluster::Cluster cluster = testing::smallCluster(2, 4);
        Occupancy occupancy(cluster);
        occupancy.take(devices({0}));
        const auto choices =
            occupancy.choices({Placement::FreshFirst, Placement::AppendFirst, Placement::ScatterFirst}, 3);
        QCOMPARE(choices.size(), std::size_t(2)); // fresh {4,5,6}; append and scatter {1,2,3}
        QCOMPARE(occupancy.freeCount(), std::size_t(7));
        QCOMPARE(occupancy.freeDevices().front(), DeviceId(1));
    }

    void onePerMachineLeavesOneChoice()
    {
        const cluster::Cluster cluster = testing::smallCluster(6, 1);
        Occupancy occupancy(cluster);
        occupancy.take(devices({0, 1}));
        const auto choices =
            occupancy.choices({Placement::FreshFirst, Placement::AppendFirst, Placement::ScatterFirst}, 2);
        QCOMPARE(choices.size(), std::size_t(1));
        QCOMPARE(choices.front(), devices({2, 3}));
    }
};

QTEST_GUILESS_MAIN(TestDapplePlacement)
#include "tst_dapple_placement.moc"

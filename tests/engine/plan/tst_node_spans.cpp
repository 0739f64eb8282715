// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/node_spans.h"

#include "engine/import/import.h"

#include <QTest>

using namespace planloom;
using namespace planloom::plan;

/// Tensor parts that cross nodes.
class TestNodeSpans : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void spans_data()
    {
        QTest::addColumn<QList<int>>("devices"); ///< of two nodes with eight each
        QTest::addColumn<int>("replicas");
        QTest::addColumn<int>("nodes"); ///< 0: no replica crosses any
        QTest::addColumn<int>("parts");
        QTest::newRow("whole tensors") << QList<int>{0, 8} << 2 << 0 << 0;
        QTest::newRow("within a node") << QList<int>{0, 1, 8, 9} << 2 << 0 << 0;
        QTest::newRow("both nodes") << QList<int>{6, 7, 8, 9} << 1 << 2 << 2;
        QTest::newRow("one of two replicas") << QList<int>{5, 6, 7, 8} << 2 << 2 << 1;
        QTest::newRow("taken in turn") << QList<int>{0, 8, 1, 9} << 1 << 2 << 1;
    }
    void spans()
    {
        QFETCH(QList<int>, devices);
        QFETCH(int, replicas);
        QFETCH(int, nodes);
        QFETCH(int, parts);
        const auto cluster = cluster::preset("h100-16");
        QVERIFY(cluster);
        Plan plan;
        plan.stages.resize(1);
        for (const int device : devices)
            plan.stages[0].devices.emplace_back(device);
        plan.stages[0].mesh = {replicas, static_cast<int>(devices.size()) / replicas};
        const auto span = nodeSpan(plan, 0, *cluster);
        QCOMPARE(span.has_value(), nodes > 0);
        const auto notes = nodeSpanNotes(plan, *cluster, nullptr);
        QCOMPARE(notes.size(), std::size_t(nodes > 0 ? 1 : 0));
        if (!span)
            return;
        QCOMPARE(span->nodes, std::size_t(nodes));
        QCOMPARE(span->parts, std::size_t(parts));
        Why why;
        why.stages.resize(1);
        why.stages[0].boxingSeconds = 0.25;
        QVERIFY2(nodeSpanNotes(plan, *cluster, &why).front().find("take 250 ms") != std::string::npos,
                 nodeSpanNotes(plan, *cluster, &why).front().c_str());
    }
};

QTEST_GUILESS_MAIN(TestNodeSpans)
#include "tst_node_spans.moc"

// SPDX-License-Identifier: Apache-2.0
// Which rows the places of trees need, by both ways to find them.
#include "engine/gnn/random.h"
#include "executor/runtime/sampled_source.h"

#include <QTest>

#include <set>

using namespace planloom;
using namespace planloom::runtime;

class TestSampledRows : public QObject {
    Q_OBJECT
private slots:
    void eachNodeOnce_data()
    {
        QTest::addColumn<qint64>("nodes");
        QTest::addColumn<qint64>("places");
        QTest::newRow("no places") << qint64{100} << qint64{0};
        QTest::newRow("one node") << qint64{1} << qint64{5};
        QTest::newRow("a word of bits") << qint64{64} << qint64{64};
        QTest::newRow("bits") << qint64{1000} << qint64{700};
        QTest::newRow("as many nodes a place as bits pay for") << qint64{64 * 50 + 63} << qint64{50};
        QTest::newRow("sorted") << qint64{64 * 51} << qint64{50};
        QTest::newRow("few of many") << qint64{1} * 3'000'000'000 << qint64{40};
    }

    void eachNodeOnce()
    {
        QFETCH(qint64, nodes);
        QFETCH(qint64, places);
        gnn::UnitStream random(7);
        SampledDraw draw;
        for (qint64 i = 0; i < places; ++i)
            draw.places.push_back(static_cast<std::int64_t>(random.next() * static_cast<double>(nodes)));
        if (places > 1) {
            draw.places.front() = 0;
            draw.places.back() = nodes - 1;
        }
        draw.rows = {5}; // of an earlier draw
        findRows(draw, nodes);
        const std::set<std::int64_t> once(draw.places.begin(), draw.places.end());
        QCOMPARE(draw.rows, std::vector<std::int64_t>(once.begin(), once.end()));
        QCOMPARE(draw.rowOfPlace.size(), draw.places.size());
        for (std::size_t i = 0; i < draw.places.size(); ++i)
            QCOMPARE(draw.rows[static_cast<std::size_t>(draw.rowOfPlace[i])], draw.places[i]);
    }
};

QTEST_GUILESS_MAIN(TestSampledRows)
#include "tst_sampled_rows.moc"

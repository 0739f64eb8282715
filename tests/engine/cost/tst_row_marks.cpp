// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/row_marks.h"

#include <QTest>

#include <algorithm>

using namespace planloom;
using cost::RowIds;
using cost::RowMarks;

/// Marks against sorting.
class TestRowMarks : public QObject {
    Q_OBJECT
private slots:
    void marksAreASet_data()
    {
        QTest::addColumn<std::int64_t>("rows");
        QTest::addColumn<int>("ids");
        for (const std::int64_t rows : {1, 2, 63, 64, 65, 4095, 4096, 4097, 100'000})
            for (const int ids : {0, 1, 7, 300})
                QTest::addRow("%d of %d", ids, static_cast<int>(rows)) << rows << ids;
    }
    void marksAreASet()
    {
        QFETCH(const std::int64_t, rows);
        QFETCH(const int, ids);
        RowMarks marks(rows);
        cost::ZipfIds zipf(rows);
        for (int round = 0; round < 3; ++round) { // what a clear() leaves would be seen in the next one
            RowIds drawn;
            for (int i = 0; i < ids; ++i)
                drawn.push_back(round == 1 ? rows - 1 - zipf.next() : zipf.next());
            marks.mark(drawn);
            marks.countPlaces();
            const RowIds expected = cost::uniqueRows(drawn);
            RowIds seen{-7};
            marks.append(seen);
            QCOMPARE(seen.front(), -7);
            QVERIFY(std::ranges::equal(std::span(seen).subspan(1), expected));
            for (std::int64_t row = 0; row < rows; ++row) {
                const auto found = std::ranges::lower_bound(expected, row);
                const bool has = found != expected.end() && *found == row;
                if (marks.has(row) != has || marks.placeOf(row) != (has ? found - expected.begin() : -1))
                    QFAIL(std::to_string(row).c_str());
            }
            // As merging does it.
            RowIds all, marked, others, expectedMarked, expectedOthers;
            for (std::int64_t row = 0; row < std::min<std::int64_t>(rows, 5000); ++row)
                all.push_back(row);
            marks.split(all, marked, others);
            cost::split(all, expected, expectedMarked, expectedOthers);
            QCOMPARE(marked, expectedMarked);
            QCOMPARE(others, expectedOthers);
            marks.clear();
        }
    }
};

QTEST_GUILESS_MAIN(TestRowMarks)
#include "tst_row_marks.moc"

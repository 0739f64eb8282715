// SPDX-License-Identifier: Apache-2.0
// Products of tiles against products in double precision: every shape of groups, both orders of the left operand, with
// and without adding.
#include "executor/device/cpu/tile_product.h"

#include <QTest>

#include <cmath>
#include <vector>

using namespace planloom::device;

class TestTileProduct : public QObject {
    Q_OBJECT

private slots:
    void strideIsWholeGroupsAndOddLines()
    {
        for (std::int64_t n = 1; n < 300; ++n) {
            QVERIFY(tileStride(n) >= n);
            QCOMPARE(tileStride(n) % kTileColumns, 0);
            QCOMPARE(tileStride(n) / kTileColumns % 2, 1);
        }
    }

    void product_data()
    {
        QTest::addColumn<int>("m");
        QTest::addColumn<int>("n");
        QTest::addColumn<int>("k");
        QTest::addColumn<bool>("transposed");
        QTest::addColumn<bool>("add");
        for (const int m : {12, 48, 96}) {
            for (const int n : {16, 48, 80}) {
                for (const int k : {0, 1, 7, 64}) {
                    for (const int choice : {0, 1, 2, 3})
                        QTest::addRow("%d %d %d %d", m, n, k, choice)
                            << m << n << k << (choice % 2 != 0) << (choice > 1);
                }
            }
        }
    }

    void product()
    {
        QFETCH(int, m);
        QFETCH(int, n);
        QFETCH(int, k);
        QFETCH(bool, transposed);
        QFETCH(bool, add);
        const std::int64_t stride = tileStride(n) + kTileColumns; // what lies between the rows is not touched
        const std::int64_t leftStride = tileStride(transposed ? m : k);
        const std::vector<float> left = values((transposed ? k : m) * leftStride, 0.37);
        const std::vector<float> right = values(k * stride, 0.53);
        const std::vector<float> before = values(m * stride, 0.11);
        std::vector<float> c = before;
        const TileView view{left.data(), leftStride};
        const TileView a = transposed ? view.transposed() : view;
        tileProduct(m, n, k, a, {right.data(), stride}, c.data(), stride, add);
        for (std::int64_t row = 0; row < m; ++row) {
            for (std::int64_t column = 0; column < stride; ++column) {
                const auto at = static_cast<std::size_t>(row * stride + column);
                if (column >= n) {
                    QCOMPARE(c[at], before[at]);
                    continue;
                }
                double sum = add ? static_cast<double>(before[at]) : 0.0;
                for (std::int64_t i = 0; i < k; ++i)
                    sum += static_cast<double>(a.data[row * a.row + i * a.column])
                        * static_cast<double>(right[static_cast<std::size_t>(i * stride + column)]);
                QVERIFY2(std::fabs(static_cast<double>(c[at]) - sum) < 2e-5,
                         qPrintable(QString("row %1 column %2").arg(row).arg(column)));
            }
        }
    }

private:
    static std::vector<float> values(std::int64_t n, double pace)
    {
        std::vector<float> v(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < v.size(); ++i)
            v[i] = static_cast<float>(std::sin(pace * static_cast<double>(i + 1)));
        return v;
    }
};

QTEST_GUILESS_MAIN(TestTileProduct)
#include "tst_tile_product.moc"

// SPDX-License-Identifier: Apache-2.0
// Packed products against products in double precision: whole and partial blocks on every side, both orders of both
// operands, with a bias, with adding; and the same bits whatever the number of threads is.
#include "executor/device/cpu/packed_product.h"
#include "executor/device/cpu/parallel.h"

#include <QTest>

#include <cmath>
#include <vector>

using namespace planloom::device;

namespace {

std::vector<float> values(std::int64_t n, double step)
{
    std::vector<float> made(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < made.size(); ++i)
        made[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
    return made;
}

struct Case {
    PackedProduct product;
    std::vector<float> a, b, bias, before;

    Case(std::int64_t m, std::int64_t n, std::int64_t k, bool transposeA, bool transposeB)
        : product{m,
                  n,
                  k,
                  transposeA ? MatrixStrides{1, m + 3} : MatrixStrides{k + 5, 1},
                  transposeB ? MatrixStrides{1, k + 7} : MatrixStrides{n + 9, 1},
                  n + 2},
          a(values(transposeA ? k * (m + 3) : m * (k + 5), 0.37)),
          b(values(transposeB ? n * (k + 7) : k * (n + 9), 0.53)),
          bias(values(n, 0.71)),
          before(values(m * (n + 2), 0.11))
    {
    }

    [[nodiscard]] std::vector<float> run(bool withBias, bool add) const
    {
        std::vector<float> c = before;
        product.run(a.data(), b.data(), withBias ? bias.data() : nullptr, c.data(), add);
        return c;
    }

    /// The sum in double precision, and that of its terms' magnitudes, to which rounding errors are proportional.
    [[nodiscard]] std::pair<double, double> exact(std::int64_t row, std::int64_t column) const
    {
        double sum = 0;
        double magnitude = 0;
        for (std::int64_t i = 0; i < product.k; ++i) {
            const double term =
                static_cast<double>(a[static_cast<std::size_t>(row * product.a.row + i * product.a.column)])
                * static_cast<double>(b[static_cast<std::size_t>(i * product.b.row + column * product.b.column)]);
            sum += term;
            magnitude += std::fabs(term);
        }
        return {sum, magnitude};
    }
};

} // namespace

class TestPackedProduct : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        if (!PackedProduct::possible())
            QSKIP("this processor has no AVX2");
    }

    void product_data()
    {
        QTest::addColumn<int>("m");
        QTest::addColumn<int>("n");
        QTest::addColumn<int>("k");
        QTest::addColumn<int>("order");
        const std::vector<std::array<int, 3>> sizes = {{1, 1, 1},      {6, 16, 8},     {7, 17, 9},
                                                       {5, 33, 64},    {48, 256, 256}, {131, 100, 513},
                                                       {270, 40, 300}, {20, 2100, 30}, {301, 47, 1030}};
        for (const auto &[m, n, k] : sizes) {
            for (const int order : {0, 1, 2, 3})
                QTest::addRow("%d x %d x %d, order %d", m, n, k, order) << m << n << k << order;
        }
    }

    void product()
    {
        QFETCH(int, m);
        QFETCH(int, n);
        QFETCH(int, k);
        QFETCH(int, order);
        const Case c(m, n, k, order % 2 != 0, order > 1);
        std::vector<std::pair<double, double>> exact;
        for (std::int64_t row = 0; row < m; ++row)
            for (std::int64_t column = 0; column < n; ++column)
                exact.push_back(c.exact(row, column));
        for (const bool add : {false, true}) {
            for (const bool bias : {false, true}) {
                if (add && bias)
                    continue;
                const std::vector<float> got = c.run(bias, add);
                for (std::int64_t row = 0; row < m; ++row) {
                    for (std::int64_t column = 0; column < n + 2; ++column) {
                        const auto at = static_cast<std::size_t>(row * (n + 2) + column);
                        if (column >= n) { // what lies between the rows is not touched
                            QCOMPARE(got[at], c.before[at]);
                            continue;
                        }
                        auto [sum, magnitude] = exact[static_cast<std::size_t>(row * n + column)];
                        sum += add ? static_cast<double>(c.before[at])
                            : bias ? static_cast<double>(c.bias[static_cast<std::size_t>(column)])
                                   : 0.0;
                        QVERIFY2(std::fabs(static_cast<double>(got[at]) - sum) < 2e-7 * (magnitude + 2),
                                 qPrintable(QString("row %1 column %2: %3, not %4")
                                                .arg(row)
                                                .arg(column)
                                                .arg(static_cast<double>(got[at]))
                                                .arg(sum)));
                    }
                }
            }
        }
    }

    void sameBitsForAnyNumberOfThreads()
    {
        const int threads = omp_get_max_threads();
        for (const auto &[m, n] : {std::pair{500, 130}, std::pair{130, 500}}) {
            const Case c(m, n, 700, false, true);
            omp_set_num_threads(1);
            const std::vector<float> one = c.run(true, false);
            for (const int count : {2, 3, 5}) {
                omp_set_num_threads(count);
                QVERIFY(c.run(true, false) == one);
            }
        }
        omp_set_num_threads(threads);
    }

    /// Each element is in one part, and has its value when that is told.
    void tellsOfEachPartOnce()
    {
        for (const auto &[m, n] : {std::pair{400, 130}, std::pair{130, 2200}}) {
            const Case c(m, n, 600, false, false);
            const std::vector<float> expected = c.run(true, false);
            std::vector<float> got = c.before;
            std::vector<float> copies(got.size());
            std::vector<int> told(got.size());
            c.product.run(c.a.data(), c.b.data(), c.bias.data(), got.data(), false,
                          [&](std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
                              for (std::int64_t r = row; r < row + rows; ++r) {
                                  for (std::int64_t i = r * (n + 2) + column; i < r * (n + 2) + column + columns; ++i) {
                                      copies[static_cast<std::size_t>(i)] = got[static_cast<std::size_t>(i)];
                                      ++told[static_cast<std::size_t>(i)];
                                  }
                              }
                          });
            for (std::size_t i = 0; i < got.size(); ++i) {
                const bool inside = static_cast<int>(i) % (n + 2) < n;
                if (told[i] != (inside ? 1 : 0) || (inside && copies[i] != expected[i]))
                    QFAIL(qPrintable(QString("element %1 was told of %2 times").arg(i).arg(told[i])));
            }
        }
    }

    void smallOnesAreLeftToOthers()
    {
        const auto pays = [](std::int64_t m, std::int64_t n, std::int64_t k) {
            return PackedProduct{m, n, k, {k, 1}, {n, 1}, n}.pays();
        };
        QVERIFY(!pays(64, 64, 64));
        QVERIFY(!pays(1, 4096, 4096));
        QVERIFY(!pays(4096, 64, 768));
        const PackedProduct skipping{1024, 1024, 1024, {2048, 2}, {1024, 1}, 1024};
        QVERIFY(!skipping.pays());
    }
};

QTEST_GUILESS_MAIN(TestPackedProduct)
#include "tst_packed_product.moc"

// SPDX-License-Identifier: Apache-2.0
// Rows of tables: which ones are sent when, worked by hand; their number on Zipf's law; what strategies cost.
#include "tests/engine/cost/row_training.h"
#include "tests/engine/cost/sparse_costs.h"

#include <QCryptographicHash>
#include <QFile>
#include <QTest>

using namespace planloom;
using cost::RowIds;
using testing::NextToken;
using testing::RowOptimizer;

namespace {

/// Two workers, a table of 10 rows and 4 columns, two steps (resources/docs/exchange/embrace.md has the figures).
struct Small {
    static constexpr int kWorkers = 2;
    static constexpr std::int64_t kRows = 10;
    static constexpr std::int64_t kColumns = 4;
    std::vector<std::int64_t> ids[2][kWorkers] = {{{3, 1, 3, 8}, {2, 7, 3, 0}}, {{1, 5, 5, 2}, {7, 9, 3, 3}}};

    static double first(std::int64_t row, std::int64_t column)
    {
        return 0.1 * static_cast<double>(row + 1) + 0.01 * static_cast<double>(column);
    }
    static double gradient(int worker, std::size_t token, std::int64_t column)
    {
        return 0.1 * (worker + 1) + 0.01 * static_cast<double>(token) + 0.001 * static_cast<double>(column);
    }
    [[nodiscard]] RowIds unique(int step, int worker) const { return cost::uniqueRows(ids[step][worker]); }
    [[nodiscard]] RowIds next(int step) const
    {
        const RowIds both[] = {unique(step, 0), unique(step, 1)};
        return cost::unionOf(both);
    }
};

/// The workers' coalesced rows of a step, added up in their order; of @p wanted rows only.
RowOptimizer::Rows sums(const Small &small, int step, const std::function<bool(std::int64_t)> &wanted)
{
    RowOptimizer::Rows all;
    for (int worker = 0; worker < Small::kWorkers; ++worker) {
        const auto &ids = small.ids[step][worker];
        for (std::size_t token = 0; token < ids.size(); ++token) {
            if (!wanted(ids[token]))
                continue;
            auto &row = all[ids[token]];
            row.resize(Small::kColumns);
            for (std::int64_t c = 0; c < Small::kColumns; ++c)
                row[static_cast<std::size_t>(c)] += Small::gradient(worker, token, c);
        }
    }
    return all;
}

bool any(std::int64_t /*row*/) { return true; }

/// What @p workers of @p each ids a step look up by Zipf's law, and send, in all steps but the last, which has no next.
struct RowsOfStream {
    std::int64_t ids = 0, coalesced = 0, prior = 0;

    RowsOfStream(std::int64_t tableRows, int workers, int each, int steps)
    {
        cost::ZipfIds stream(tableRows);
        std::vector<RowIds> before;
        for (int step = 0; step < steps; ++step) {
            std::vector<RowIds> rows;
            for (int worker = 0; worker < workers; ++worker) {
                std::vector<std::int64_t> own;
                for (int i = 0; i < each; ++i)
                    own.push_back(stream.next());
                rows.push_back(cost::uniqueRows(own));
            }
            const RowIds next = cost::unionOf(rows);
            for (const RowIds &own : before) {
                RowIds now, delayed;
                cost::split(own, next, now, delayed);
                ids += each;
                coalesced += std::ssize(own);
                prior += std::ssize(now);
            }
            before = std::move(rows);
        }
    }
};

} // namespace

class TestSparseRows : public QObject {
    Q_OBJECT

private slots:
    void rowsOfAStep()
    {
        const Small small;
        QCOMPARE(small.unique(0, 0), (RowIds{1, 3, 8}));
        QCOMPARE(small.unique(0, 1), (RowIds{0, 2, 3, 7}));
        QCOMPARE(small.next(1), (RowIds{1, 2, 3, 5, 7, 9}));
        RowIds prior, delayed;
        cost::split(small.unique(0, 0), small.next(1), prior, delayed);
        QCOMPARE(prior, (RowIds{1, 3}));
        QCOMPARE(delayed, RowIds{8});
        cost::split(small.unique(0, 1), small.next(1), prior, delayed);
        QCOMPARE(prior, (RowIds{2, 3, 7}));
        QCOMPARE(delayed, RowIds{0});
        // By a worker's own next ids alone, rows 3 and 2 would be stale where the other one reads them.
        cost::split(small.unique(0, 0), small.unique(1, 0), prior, delayed);
        QCOMPARE(prior, RowIds{1});
        cost::split(small.unique(0, 1), small.unique(1, 1), prior, delayed);
        QCOMPARE(prior, (RowIds{3, 7}));
    }

    void bytesOfRows()
    {
        QCOMPARE(cost::bytesToOwners(2, 4, 2), (std::vector<std::int64_t>{16, 16})); // worker 0, prior
        QCOMPARE(cost::bytesToOwners(1, 4, 2)[1], 8);
        QCOMPARE(cost::bytesToOwners(3, 4, 2)[0], 24);
        // Fewer columns than workers: the others hold nothing, and are sent nothing.
        QCOMPARE(cost::bytesToOwners(5, 3, 4), (std::vector<std::int64_t>{20, 20, 20, 0}));
    }

    void gradientsOfOneRowAreAddedInTokenOrder()
    {
        const Small small;
        const double expected[2][4] = {{.220, .222, .224, .226}, {.220, .221, .222, .223}};
        const double together[4] = {.440, .443, .446, .449};
        double sum[4] = {};
        for (int worker = 0; worker < 2; ++worker) {
            std::vector<float> gradients;
            for (std::size_t token = 0; token < 4; ++token)
                for (std::int64_t c = 0; c < 4; ++c)
                    gradients.push_back(static_cast<float>(Small::gradient(worker, token, c)));
            const RowIds rows = small.unique(0, worker);
            const auto summed = cost::coalesce(small.ids[0][worker], gradients, 4, rows);
            QCOMPARE(summed.size(), rows.size() * 4);
            const auto row3 = static_cast<std::size_t>(std::find(rows.begin(), rows.end(), 3) - rows.begin());
            for (std::size_t c = 0; c < 4; ++c) {
                const auto seen = static_cast<double>(summed[row3 * 4 + c]);
                QVERIFY(std::abs(seen - expected[worker][c]) < 1e-6);
                sum[c] += seen;
            }
        }
        const std::vector<double> exact = sums(small, 0, any).at(3);
        for (std::size_t c = 0; c < 4; ++c) {
            QVERIFY(std::abs(sum[c] - together[c]) < 1e-6);
            QVERIFY(std::abs(exact[c] - together[c]) < 1e-12);
        }
    }

    void sgdOnRows()
    {
        RowOptimizer table(RowOptimizer::Rule::Sgd, 0.1, Small::kRows, Small::kColumns, Small::first);
        table.update(sums(Small(), 0, any), 1);
        const double row3[] = {.3560, .3657, .3754, .3851}, row0[] = {.0770, .0869, .0968, .1067};
        for (std::size_t c = 0; c < 4; ++c) {
            QVERIFY(std::abs(table.at(3, c) - row3[c]) < 1e-12);
            QVERIFY(std::abs(table.at(0, c) - row0[c]) < 1e-12);
        }
        QVERIFY(std::abs(table.sum() - 22.0672) < 1e-10);
    }

    /// Adam on rows whose delayed ones come a step late but count as what they are; and what goes wrong otherwise.
    void adamOnRows()
    {
        const Small small;
        const auto made = [] {
            return RowOptimizer(RowOptimizer::Rule::Adam, 0.01, Small::kRows, Small::kColumns, Small::first);
        };
        const auto isPrior = [next = small.next(1)](std::int64_t row) {
            return std::binary_search(next.begin(), next.end(), row);
        };
        RowOptimizer whole = made();
        whole.update(sums(small, 0, any), 1);
        whole.update(sums(small, 1, any), 2);
        QVERIFY(std::abs(whole.at(3, 0) - .379994775) < 5e-10);
        QVERIFY(std::abs(whole.sum() - 22.141940001) < 5e-9);
        for (std::size_t c = 0; c < 4; ++c)
            QVERIFY(std::abs(whole.at(0, c) - (.09 + .01 * static_cast<double>(c))) < 1e-8);

        RowOptimizer cut = made();
        cut.update(sums(small, 0, isPrior), 1);
        cut.update(sums(small, 1, any), 2);
        cut.update(sums(small, 0, std::not_fn(isPrior)), 1);
        QVERIFY(cut.table == whole.table); // to the bit

        RowOptimizer counted = made(); // as if each call were a step
        counted.update(sums(small, 0, isPrior), 1);
        counted.update(sums(small, 0, std::not_fn(isPrior)), 2);
        counted.update(sums(small, 1, any), 3);
        QVERIFY(std::abs(counted.at(0, 0) - .092558632) < 5e-10);
        QVERIFY(std::abs(counted.at(3, 0) - .381410889) < 5e-10);
        QVERIFY(std::abs(counted.sum() - 22.193272714) < 5e-9);

        RowOptimizer dense = made(); // rows without gradients move, too
        for (int step = 0; step < 2; ++step) {
            RowOptimizer::Rows all = sums(small, step, any);
            for (std::int64_t r = 0; r < Small::kRows; ++r)
                all[r].resize(Small::kColumns);
            dense.update(all, step + 1);
        }
        QVERIFY(std::abs(dense.at(0, 0) - .083299418) < 5e-10);
        QVERIFY(std::abs(dense.at(3, 0) - .379994775) < 5e-10);
        QVERIFY(std::abs(dense.sum() - 22.088335345) < 5e-9);
    }

    void lossesOfTraining_data()
    {
        QTest::addColumn<bool>("adam");
        QTest::addColumn<int>("how");
        QTest::addColumn<QList<double>>("losses");
        using Table = NextToken::Table;
        const QList<double> sgd{2.484742979, 2.452173258, 2.421321199, 2.332185214, 2.179203531};
        const QList<double> adam{2.484742979, 2.457192517, 2.446272609, 2.318198680, 2.153292205};
        const QList<double> dense{2.484742979, 2.457192517, 2.446272609, 2.303069603, 2.173847186};
        const QList<double> stale{2.484742979, 2.458158804, 2.447642857, 2.318677523, 2.163982987};
        QTest::newRow("sgd, whole") << false << static_cast<int>(Table::RowWise) << sgd;
        QTest::newRow("sgd, dense") << false << static_cast<int>(Table::Dense) << sgd;
        QTest::newRow("sgd, all-to-all") << false << static_cast<int>(Table::AllToAll) << sgd;
        QTest::newRow("sgd, split") << false << static_cast<int>(Table::Split) << sgd;
        QTest::newRow("adam, whole") << true << static_cast<int>(Table::RowWise) << adam;
        QTest::newRow("adam, split") << true << static_cast<int>(Table::Split) << adam;
        QTest::newRow("adam, dense") << true << static_cast<int>(Table::Dense) << dense;
        QTest::newRow("adam, split by own ids: stale rows") << true << static_cast<int>(Table::SplitByOwnIds) << stale;
    }
    void lossesOfTraining()
    {
        QFETCH(bool, adam);
        QFETCH(int, how);
        QFETCH(QList<double>, losses);
        NextToken training(adam ? RowOptimizer::Rule::Adam : RowOptimizer::Rule::Sgd, adam ? 0.05 : 0.5,
                           static_cast<NextToken::Table>(how));
        std::vector<double> seen;
        for (int step = 0; step < 40; ++step)
            seen.push_back(training.train(step));
        const std::size_t steps[] = {1, 2, 3, 10, 40};
        for (qsizetype i = 0; i < losses.size(); ++i)
            QVERIFY2(std::abs(seen[steps[i] - 1] - losses[i]) < 1e-9,
                     qPrintable(QString("step %1: %2").arg(steps[i]).arg(seen[steps[i] - 1], 0, 'g', 12)));
    }

    void idsByZipfsLaw()
    {
        cost::ZipfIds ids(1000);
        const std::int64_t first[] = {12, 24, 71, 9, 215, 23, 34, 0, 300, 1};
        for (const std::int64_t id : first)
            QCOMPARE(ids.next(), id);
        cost::ZipfIds few(NextToken::kRows);
        for (const std::int64_t id : {1, 2, 3, 1, 6, 2, 2, 0, 7, 0, 5, 2})
            QCOMPARE(few.next(), id);
        // Two workers of 100 ids each, ten steps: the last has no next one.
        const RowsOfStream rows(1000, 2, 100, 10);
        QCOMPARE(rows.ids, 1800);
        QCOMPARE(rows.coalesced, 1150);
        QCOMPARE(rows.prior, 455);
    }

    void sharesOfAStream_data()
    {
        QTest::addColumn<int>("tableRows");
        QTest::addColumn<int>("ids");
        QTest::addColumn<int>("steps"); // as many as give the printed shares: they were printed without
        QTest::addColumn<double>("coalesced");
        QTest::addColumn<double>("prior"); // of these
        QTest::newRow("GNMT's table") << 32'320 << 1536 << 6 << .535 << .638;
        QTest::newRow("LM's table") << 793'471 << 2560 << 5 << .622 << .433;
    }
    /// Of 16 workers: to half of the last digit in a stream, and near what long ones have.
    void sharesOfAStream()
    {
        QFETCH(int, tableRows);
        QFETCH(int, ids);
        QFETCH(int, steps);
        QFETCH(double, coalesced);
        QFETCH(double, prior);
        const RowsOfStream rows(tableRows, 16, ids, steps);
        const auto share = [](std::int64_t part, std::int64_t whole) {
            return static_cast<double>(part) / static_cast<double>(whole);
        };
        QVERIFY(std::abs(share(rows.coalesced, rows.ids) - coalesced) <= .0005);
        QVERIFY(std::abs(share(rows.prior, rows.coalesced) - prior) <= .0005);
        const cost::ExpectedRows expected = cost::expectedRows(tableRows, ids, 16);
        QVERIFY(std::abs(expected.unique / ids - coalesced) < .0025);
        QVERIFY(std::abs(expected.prior / expected.unique - prior) < .0025);
    }

    void rowsOfText_data()
    {
        QTest::addColumn<int>("workers");
        QTest::addColumn<int>("ids");
        QTest::addColumn<QList<qint64>>("first"); // of the first step: unique, prior; of all workers together
        QTest::addColumn<QList<qint64>>("all");   // of all steps with a next one: ids, unique, prior
        QTest::newRow("2 x 64") << 2 << 64 << QList<qint64>{96, 32, 79, 24} << QList<qint64>{5504, 4207, 1370};
        QTest::newRow("4 x 64") << 4 << 64 << QList<qint64>{195, 99, 136, 50} << QList<qint64>{5376, 4096, 1644};
        QTest::newRow("4 x 128") << 4 << 128 << QList<qint64>{341, 118, 250, 62} << QList<qint64>{5120, 3361, 1383};
    }
    /// The words of a licence, numbered as they appear: frequent words make most rows prior ones.
    void rowsOfText()
    {
        QFETCH(int, workers);
        QFETCH(int, ids);
        QFile file(PLANLOOM_SOURCE_DIR "/packaging/LICENSES/GPL-3.0-or-later.txt");
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QByteArray bytes = file.readAll();
        QCOMPARE(bytes.size(), 35'149);
        QVERIFY(QCryptographicHash::hash(bytes, QCryptographicHash::Sha256).toHex().startsWith("3972dc97"));
        std::map<QByteArray, std::int64_t> words;
        std::vector<std::int64_t> text;
        for (const QByteArray &word : bytes.simplified().split(' '))
            text.push_back(words.try_emplace(word, static_cast<std::int64_t>(words.size())).first->second);
        QCOMPARE(text.size(), 5644U);
        QCOMPARE(words.size(), 1559U);
        const std::vector<std::int64_t> begin(text.begin(), text.begin() + 12);
        QCOMPARE(begin, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 8}));
        const auto rowsOf = [&](std::size_t step) {
            std::vector<RowIds> rows;
            for (int worker = 0; worker < workers; ++worker) {
                const std::size_t block = step * static_cast<std::size_t>(workers) + static_cast<std::size_t>(worker);
                const auto size = static_cast<std::size_t>(ids);
                rows.push_back(cost::uniqueRows(std::span(text).subspan(block * size, size)));
            }
            return rows;
        };
        const auto sizes = [](const std::vector<RowIds> &sets) {
            return std::accumulate(sets.begin(), sets.end(), qint64{0},
                                   [](qint64 sum, const RowIds &set) { return sum + std::ssize(set); });
        };
        QList<qint64> first, all{0, 0, 0};
        const std::size_t steps = text.size() / static_cast<std::size_t>(workers * ids);
        for (std::size_t step = 0; step + 1 < steps; ++step) {
            const std::vector<RowIds> rows = rowsOf(step);
            const RowIds next = cost::unionOf(rowsOf(step + 1));
            std::vector<RowIds> prior(rows.size());
            for (std::size_t worker = 0; worker < rows.size(); ++worker) {
                RowIds delayed;
                cost::split(rows[worker], next, prior[worker], delayed);
            }
            if (step == 0)
                first = {sizes(rows), sizes(prior), std::ssize(cost::unionOf(rows)), std::ssize(cost::unionOf(prior))};
            all[0] += workers * ids;
            all[1] += sizes(rows);
            all[2] += sizes(prior);
        }
        QTEST(first, "first");
        QTEST(all, "all");
    }

    /// Against the sum over all rows.
    void expectedRowsOfZipfsLaw()
    {
        const auto exact = [](std::int64_t tableRows, std::int64_t ids, int workers) {
            double all = 0;
            for (std::int64_t r = 1; r <= tableRows; ++r)
                all += 1.0 / static_cast<double>(r);
            cost::ExpectedRows rows;
            for (std::int64_t r = 1; r <= tableRows; ++r) {
                const double absent = 1 - 1.0 / static_cast<double>(r) / all;
                const double looked = 1 - std::pow(absent, static_cast<double>(ids));
                rows.unique += looked;
                rows.prior += looked * (1 - std::pow(absent, static_cast<double>(ids * workers)));
            }
            return rows;
        };
        const struct {
            std::int64_t rows, ids;
            int workers;
        } cases[] = {{1000, 100, 2}, {32'320, 1536, 16}, {793'471, 2560, 16}};
        for (const auto &each : cases) {
            const cost::ExpectedRows quick = cost::expectedRows(each.rows, each.ids, each.workers);
            const cost::ExpectedRows slow = exact(each.rows, each.ids, each.workers);
            QVERIFY(std::abs(quick.unique / slow.unique - 1) < 1e-3);
            QVERIFY(std::abs(quick.prior / slow.prior - 1) < 1e-3);
        }
        QVERIFY(cost::expectedRows(1, 5, 2).unique <= 1);
        const cost::ExpectedRows whole = cost::expectedRows(32'320, 1536, 16);
        cost::ExpectedRows sum;
        double before = whole.unique;
        for (const std::int64_t begin : {0, 8080, 16'160, 24'240}) { // a quarter each; ever fewer are looked up
            const cost::ExpectedRows part = cost::expectedRows(32'320, 1536, 16, begin, begin + 8080);
            QVERIFY(part.unique < before);
            before = part.unique;
            sum.unique += part.unique;
            sum.prior += part.prior;
        }
        QVERIFY(std::abs(sum.unique / whole.unique - 1) < 1e-3);
        QVERIFY(std::abs(sum.prior / whole.prior - 1) < 1e-3);
    }

    void strategies()
    {
        const cost::SparseTraffic small{4, 10e-6, 1e9, 1000 * 64 * 4, 100 * 64 * 4, 0};
        QVERIFY(std::abs(small.allReduce() - 444e-6) < 1e-12);
        QVERIFY(std::abs(small.allGather() - 106.8e-6) < 1e-12);
        QVERIFY(std::abs(small.parameterServers(4) - 131.2e-6) < 1e-12);
        QVERIFY(std::abs(small.allToAll() - 98.4e-6) < 1e-12);
        struct {
            double rows, columns;
            double milliseconds[3][3]; // network: all-reduce, all-gather, all-to-all
        } models[] = {
            {793'471, 512, {{487.659, 7.654, 1.198}, {1950.184, 30.392, 4.118}, {4875.236, 75.867, 9.957}}},
            {32'320, 1024, {{39.865, 15.204, 2.142}, {159.009, 60.591, 7.893}, {397.298, 151.365, 19.394}}},
        };
        const double bandwidths[] = {12.5e9, 3.125e9, 1.25e9};
        for (const auto &model : models)
            for (std::size_t b = 0; b < 3; ++b) {
                const double row = 2 * model.columns * 4; // of both tables
                const cost::SparseTraffic traffic{16,         5e-6,          bandwidths[b], model.rows * row,
                                                  1536 * row, 2 * 1536 * 8.0};
                QVERIFY(std::abs(traffic.allReduce() * 1e3 - model.milliseconds[b][0]) < 5.1e-4);
                QVERIFY(std::abs(traffic.allGather() * 1e3 - model.milliseconds[b][1]) < 5.1e-4);
                QVERIFY(std::abs(traffic.allToAll() * 1e3 - model.milliseconds[b][2]) < 5.1e-4);
            }
        // All-gather beats all-reduce where density < 2 / N, and all-to-all where messages are short.
        for (const double density : {0.49, 0.51}) {
            const cost::SparseTraffic traffic{4, 0, 1e9, 1e9, density * 1e9, 0};
            QCOMPARE(traffic.allGather() < traffic.allReduce(), density < 0.5);
            QVERIFY(traffic.allToAll() < traffic.allReduce());
        }
        for (const auto &[workers, most] : {std::pair{4, 125'000.0}, {16, 71'429.0}})
            for (const double bytes : {most - 1, most + 1}) {
                const cost::SparseTraffic traffic{workers, 5e-6, 12.5e9, 1e9, bytes, 0};
                QCOMPARE(traffic.allGather() < traffic.allToAll(), bytes < most);
            }
    }
};

QTEST_GUILESS_MAIN(TestSparseRows)
#include "tst_sparse_rows.moc"

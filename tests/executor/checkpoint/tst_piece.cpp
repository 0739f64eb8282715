// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/piece.h"
#include "tests/executor/checkpoint/worker_group.h"

#include <QTest>

#include <random>

using namespace planloom;
using checkpoint::Piece;
using checkpoint::testing::localElements;
using checkpoint::testing::numbers;
using sharding::Region;

namespace {

Piece pieceOf(std::vector<std::int64_t> shape, Region region, std::int64_t begin, std::int64_t count)
{
    Piece piece;
    piece.name = "w";
    piece.shape = std::move(shape);
    piece.region = std::move(region);
    piece.flatBegin = begin;
    piece.flatCount = count;
    return piece;
}

Piece randomPiece(const std::vector<std::int64_t> &shape, std::mt19937 &random)
{
    const auto upTo = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
    Region region;
    for (const std::int64_t size : shape) {
        std::vector<sharding::Interval> axis;
        for (std::int64_t at = 0; at < size && upTo(3) > 0;) {
            const std::int64_t begin = at + upTo(size - at);
            const std::int64_t end = begin + upTo(size - begin);
            axis.push_back({begin, end});
            at = end;
        }
        region.push_back(upTo(3) == 0 || axis.empty() ? std::vector<sharding::Interval>{{0, size}} : axis);
    }
    const std::int64_t local = localElements(region);
    const std::int64_t begin = upTo(2) == 0 ? 0 : upTo(local);
    return pieceOf(shape, region, begin, upTo(2) == 0 ? local - begin : upTo(local - begin));
}

} // namespace

class TstPiece : public QObject {
    Q_OBJECT
private slots:
    /// A 4 x 6 matrix: the left half's second row on, against the middle columns. By hand.
    void workedExample()
    {
        const Piece from = pieceOf({4, 6}, {{{0, 4}}, {{0, 3}}}, 3, 9);
        const Piece to = pieceOf({4, 6}, {{{1, 3}}, {{1, 2}, {2, 4}}}, 1, 5);
        std::vector<std::array<std::int64_t, 3>> runs;
        checkpoint::eachCommonRun(from, to, [&](std::int64_t a, std::int64_t b, std::int64_t n) {
            runs.push_back({a, b, n});
        });
        // `to` holds, row by row, columns 1 2 3 of rows 1 and 2 without the very first: (1,2) (1,3) | (2,1) (2,2)
        // (2,3). `from` holds columns 0 1 2 of rows 1 to 3: (1,2) is its number 2, (2,1) its 4 and (2,2) its 5.
        QCOMPARE(runs, (std::vector<std::array<std::int64_t, 3>>{{2, 0, 1}, {4, 2, 1}, {5, 3, 1}}));
    }

    void whatNobodyCutsIsOneRun()
    {
        const Piece from = pieceOf({8, 16, 4}, checkpoint::wholeRegion({8, 16, 4}), 100, 200);
        const Piece to = pieceOf({8, 16, 4}, checkpoint::wholeRegion({8, 16, 4}), 0, 512);
        std::vector<std::array<std::int64_t, 3>> runs;
        checkpoint::eachCommonRun(from, to, [&](std::int64_t a, std::int64_t b, std::int64_t n) {
            runs.push_back({a, b, n});
        });
        QCOMPARE(runs, (std::vector<std::array<std::int64_t, 3>>{{0, 100, 200}}));
    }

    void agreesWithCounting()
    {
        std::mt19937 random(20);
        const std::vector<std::vector<std::int64_t>> shapes{{},           {7},       {5, 4}, {3, 4, 5},
                                                            {2, 3, 2, 3}, {4, 0, 3}, {1, 6}};
        std::int64_t overlaps = 0;
        for (int round = 0; round < 20000; ++round) {
            const auto &shape = shapes[static_cast<std::size_t>(round) % shapes.size()];
            const Piece from = randomPiece(shape, random);
            const Piece to = randomPiece(shape, random);
            QVERIFY(checkpoint::check(from).ok() && checkpoint::check(to).ok());
            const auto fromNumbers = numbers(from);
            const auto toNumbers = numbers(to);
            std::vector<std::int64_t> got(toNumbers.size(), -1);
            checkpoint::eachCommonRun(from, to, [&](std::int64_t a, std::int64_t b, std::int64_t n) {
                for (std::int64_t i = 0; i < n; ++i) {
                    QCOMPARE(got.at(static_cast<std::size_t>(b + i)), -1);
                    got.at(static_cast<std::size_t>(b + i)) = fromNumbers.at(static_cast<std::size_t>(a + i));
                }
            });
            for (std::size_t i = 0; i < got.size(); ++i) {
                const bool shared =
                    std::find(fromNumbers.begin(), fromNumbers.end(), toNumbers[i]) != fromNumbers.end();
                QCOMPARE(got[i], shared ? toNumbers[i] : -1);
                overlaps += shared ? 1 : 0;
            }
        }
        QVERIFY(overlaps > 1000);
    }

    void aRankMayHoldNothingOfATensor()
    {
        const Piece none = pieceOf({4, 6}, checkpoint::wholeRegion({4, 6}), 1000, 0);
        QVERIFY(checkpoint::check(none).ok());
        int runs = 0;
        checkpoint::eachCommonRun(none, pieceOf({4, 6}, checkpoint::wholeRegion({4, 6}), 0, 24),
                                  [&](std::int64_t, std::int64_t, std::int64_t) { ++runs; });
        QCOMPARE(runs, 0);
    }

    void refusesImpossiblePieces_data()
    {
        QTest::addColumn<int>("which");
        for (int i = 0; i < 9; ++i)
            QTest::newRow(std::to_string(i).c_str()) << i;
    }
    void refusesImpossiblePieces()
    {
        QFETCH(int, which);
        const std::vector<Piece> wrong{
            pieceOf({4}, {}, 0, 0),                                                              // no region
            pieceOf({4}, {{{0, 5}}}, 0, 1),                                                      // beyond the end
            pieceOf({4}, {{{-1, 2}}}, 0, 1),                                                     // before the beginning
            pieceOf({4}, {{{0, 2}, {1, 3}}}, 0, 1),                                              // overlapping itself
            pieceOf({4}, {{{3, 2}}}, 0, 0),                                                      // backwards
            pieceOf({4}, {{{0, 4}}}, 0, 5),                                                      // more than the region
            pieceOf({4}, {{{0, 4}}}, -1, 2),                                                     // before the region
            pieceOf({4}, {{{0, 4}}}, 4, 1),                                                      // behind the region
            pieceOf({std::int64_t{1} << 40, std::int64_t{1} << 40}, {{{0, 1}}, {{0, 1}}}, 0, 1), // no such tensor
        };
        const Status status = checkpoint::check(wrong.at(static_cast<std::size_t>(which)));
        QVERIFY(!status.ok());
        QVERIFY(status.error().message.find("'w'") != std::string::npos);
    }
};

QTEST_GUILESS_MAIN(TstPiece)
#include "tst_piece.moc"

// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/column.h"
#include "engine/trace/level_of_detail.h"

#include <QTest>
#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

using namespace planloom::trace;

namespace {

std::vector<Record> backToBack(std::size_t count, unsigned seed)
{
    std::mt19937 random(seed);
    std::vector<Record> records;
    std::int64_t time = -500;
    for (std::size_t i = 0; i < count; ++i) {
        Record record;
        time += static_cast<std::int64_t>(random() % 4 == 0 ? random() % 200 : 0);
        record.start = time;
        record.duration = static_cast<std::int64_t>(random() % 50 == 0 ? random() % 5000 : random() % 60);
        record.task = static_cast<std::int32_t>(i);
        time += record.duration;
        records.push_back(record);
    }
    return records;
}

/// The same picture, slice by slice: the specification of Row::query.
std::vector<Bar> paint(const Row &row, Window window, int pixels)
{
    constexpr std::size_t kBlock = 8;
    const double perPixel = static_cast<double>(window.end - window.begin) / pixels;
    const auto edgeBehind = [&](std::int64_t time) {
        const double pixel = std::max(0.0, std::floor(static_cast<double>(time - window.begin) / perPixel));
        return std::max(time + 1, window.begin + static_cast<std::int64_t>(std::ceil((pixel + 1) * perPixel)));
    };
    const auto startOf = [&](std::size_t i) { return row.record(i).start; };
    const auto isShort = [&](std::size_t block) {
        const std::size_t next = (block + 1) * kBlock;
        return next < row.size() && startOf(next) - startOf(block * kBlock) <= static_cast<std::int64_t>(perPixel / 2);
    };
    std::vector<Bar> bars;
    std::optional<std::int64_t> open; // edge behind the pixel whose merged bar is last in `bars`
    for (std::size_t i = 0; i < row.size(); ++i) {
        const Record slice = row.record(i);
        if (slice.start + slice.duration <= window.begin || slice.start >= window.end)
            continue;
        const bool whole = isShort(i / kBlock);
        const bool narrow = whole || static_cast<double>(slice.duration) < perPixel;
        const std::int64_t edge = edgeBehind(whole ? startOf(i / kBlock * kBlock) : slice.start);
        const std::int64_t end = whole && (i + 1) % kBlock == 0 ? startOf(i + 1) : slice.start + slice.duration;
        if (narrow && open == edge) {
            Bar &bar = bars.back();
            if (slice.duration > row.record(bar.slice).duration)
                bar.slice = static_cast<std::uint32_t>(i);
            bar.end = end;
            bar.busy += slice.duration;
            ++bar.count;
            continue;
        }
        bars.push_back({slice.start, end, slice.duration, static_cast<std::uint32_t>(i), 1});
        open = narrow ? std::optional(edge) : std::nullopt;
    }
    return bars;
}

bool same(const Bar &a, const Bar &b)
{
    return a.begin == b.begin && a.end == b.end && a.busy == b.busy && a.slice == b.slice && a.count == b.count;
}

} // namespace

class TestLevelOfDetail : public QObject {
    Q_OBJECT

private slots:
    void columnsAreVectors();
    void summaryIsBruteForce();
    void queryIsBruteForce_data();
    void queryIsBruteForce();
    void orderOfArrivalDoesNotMatter();
    void overlapsGoToFurtherRows();
    void tooManyOverlapsAreCutAndCounted();
    void findsTheSliceUnderACursor();
};

/// Over the size from which blocks are mapped (256 KiB), and of copies on either side of it.
void TestLevelOfDetail::columnsAreVectors()
{
    std::mt19937 random(3);
    Column<std::int64_t> column;
    std::vector<std::int64_t> expected;
    const auto same = [&](const Column<std::int64_t> &seen) {
        return std::equal(seen.begin(), seen.end(), expected.begin(), expected.end());
    };
    QVERIFY(column.empty() && same(column));
    Column<std::int64_t> few = column;
    QVERIFY(few.empty());
    for (std::int64_t k = 0; k < 100'000; ++k) {
        const std::size_t at = k % 100 == 0 ? random() % (expected.size() + 1) : expected.size();
        column.insert(at, k);
        expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(at), k);
        if (k == 20)
            few = column;
        if (k % 9973 == 0) {
            Column<std::int64_t> copy = column;
            QVERIFY(same(copy));
            copy.insert(0, -1); // of its own
            QVERIFY(same(column));
            QCOMPARE(copy.size(), column.size() + 1);
        }
    }
    QVERIFY(same(column));
    QCOMPARE(few.size(), std::size_t(21));
    Column<std::int64_t> moved = std::move(column);
    QVERIFY(same(moved));
    moved = few; // from mapped to not
    QCOMPARE(moved.size(), std::size_t(21));
    QVERIFY(std::equal(moved.begin(), moved.end(), few.begin()));
}

void TestLevelOfDetail::summaryIsBruteForce()
{
    LevelOfDetail index;
    const auto records = backToBack(1000, 3);
    index.append(records);
    const Row &row = index.rows().front();
    std::mt19937 random(5);
    for (int round = 0; round < 2000; ++round) {
        auto first = static_cast<std::uint32_t>(random() % 1001);
        auto last = static_cast<std::uint32_t>(random() % 1001);
        if (first > last)
            std::swap(first, last);
        const Bar bar = row.summary(first, last);
        QCOMPARE(bar.count, last - first);
        std::int64_t busy = 0;
        std::uint32_t longest = first;
        for (std::uint32_t i = first; i < last; ++i) {
            busy += records[i].duration;
            if (records[i].duration > records[longest].duration)
                longest = i;
        }
        QCOMPARE(bar.busy, busy);
        if (first < last)
            QCOMPARE(bar.slice, longest);
    }
}

void TestLevelOfDetail::queryIsBruteForce_data()
{
    QTest::addColumn<int>("slices");
    QTest::addColumn<int>("pixels");
    QTest::newRow("nothing") << 0 << 100;
    QTest::newRow("one") << 1 << 100;
    QTest::newRow("less than a block") << 15 << 10;
    QTest::newRow("block") << 16 << 3;
    QTest::newRow("some") << 333 << 40;
    QTest::newRow("many on few") << 20'000 << 17;
    QTest::newRow("many on many") << 20'000 << 1600;
    QTest::newRow("short blocks") << 20'000 << 200;
}

void TestLevelOfDetail::queryIsBruteForce()
{
    QFETCH(int, slices);
    QFETCH(int, pixels);
    LevelOfDetail index;
    index.append(backToBack(static_cast<std::size_t>(slices), 11));
    if (slices == 0) {
        QVERIFY(index.rows().empty());
        return;
    }
    const Row &row = index.rows().front();
    QCOMPARE(row.size(), static_cast<std::size_t>(slices));
    std::mt19937_64 random(13);
    const auto span = static_cast<std::uint64_t>(row.end() - row.begin() + 1);
    for (int round = 0; round < 60; ++round) {
        Window window{row.begin(), row.end() + 1};
        if (round > 0) {
            window.begin = row.begin() + static_cast<std::int64_t>(random() % span) - 100;
            window.end = window.begin + 1 + static_cast<std::int64_t>(random() % ((span >> (round % 12)) + 1));
        }
        std::vector<Bar> bars;
        row.query(window, pixels, bars);
        const auto expected = paint(row, window, pixels);
        QVERIFY(std::ranges::equal(bars, expected, same));
        QVERIFY(bars.size() <= 2 * static_cast<std::size_t>(pixels) + 2);
        const auto [first, last] = row.within(window);
        std::uint32_t shown = 0;
        for (const Bar &bar : bars)
            shown += bar.count;
        QCOMPARE(shown, last - first);
    }
}

void TestLevelOfDetail::orderOfArrivalDoesNotMatter()
{
    auto records = backToBack(2000, 17);
    std::erase_if(records, [](const Record &r) { return r.duration == 0; }); // ties could be put in either order
    LevelOfDetail sorted;
    sorted.append(records);
    std::ranges::shuffle(records, std::mt19937(19));
    LevelOfDetail shuffled;
    for (const Record &record : records)
        shuffled.append({&record, 1});
    QCOMPARE(shuffled.rows().size(), std::size_t{1});
    QCOMPARE(shuffled.size(), records.size());
    std::vector<Bar> a;
    std::vector<Bar> b;
    const Window all{sorted.begin(), sorted.end()};
    sorted.rows().front().query(all, 300, a);
    shuffled.rows().front().query(all, 300, b);
    QVERIFY(std::ranges::equal(a, b, same));
}

void TestLevelOfDetail::overlapsGoToFurtherRows()
{
    LevelOfDetail index;
    const auto add = [&](std::int64_t start, std::int64_t duration, std::int32_t rank, std::int32_t lane) {
        const Record record{start, duration, 0, 0, rank, lane};
        index.append({&record, 1});
    };
    add(0, 10, 1, 0);
    add(5, 10, 1, 0); // overlaps
    add(10, 10, 1, 0);
    add(0, 10, 0, 2);
    QCOMPARE(index.rows().size(), std::size_t{3});
    QCOMPARE(index.rows()[0].rank(), 0);
    QCOMPARE(index.rows()[1].rank(), 1);
    QCOMPARE(index.rows()[1].size(), std::size_t{2});
    QCOMPARE(index.rows()[2].depth(), 1);
    QCOMPARE(index.rows()[2].size(), std::size_t{1});
    QCOMPARE(index.begin(), std::int64_t{0});
    QCOMPARE(index.end(), std::int64_t{20});
}

void TestLevelOfDetail::tooManyOverlapsAreCutAndCounted()
{
    LevelOfDetail index;
    for (int i = 0; i < 100; ++i) {
        const Record record{i, 1000, 0, 0, 0, 0};
        index.append({&record, 1});
    }
    QCOMPARE(index.size(), std::size_t{100});
    QCOMPARE(index.rows().size(), std::size_t{LevelOfDetail::kMaxDepth});
    QCOMPARE(index.shortened(), std::int64_t{100 - LevelOfDetail::kMaxDepth});
    std::size_t kept = 0;
    for (const Row &row : index.rows()) {
        kept += row.size();
        for (std::size_t i = 1; i < row.size(); ++i)
            QVERIFY(row.record(i).start >= row.record(i - 1).start + row.record(i - 1).duration);
    }
    QCOMPARE(kept, std::size_t{100});
}

void TestLevelOfDetail::findsTheSliceUnderACursor()
{
    LevelOfDetail index;
    for (const std::int64_t start : {0, 100, 200}) {
        const Record record{start, 50, 0, 0, 0, 0};
        index.append({&record, 1});
    }
    const Row &row = index.rows().front();
    QCOMPARE(row.at(0).value(), 0U);
    QCOMPARE(row.at(149).value(), 1U);
    QVERIFY(!row.at(150).has_value());
    QCOMPARE(row.at(154, 5).value(), 1U);
    QCOMPARE(row.at(196, 5).value(), 2U);
    QVERIFY(!row.at(175, 5).has_value());
    QVERIFY(!row.at(-10, 5).has_value());
    QCOMPARE(row.at(-5, 5).value(), 0U);
    QVERIFY(!row.at(1000, 5).has_value());
}

QTEST_GUILESS_MAIN(TestLevelOfDetail)
#include "tst_level_of_detail.moc"

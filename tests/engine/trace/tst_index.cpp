// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/index.h"

#include <QTest>
#include <algorithm>
#include <random>

using namespace planloom::trace;

namespace {

constexpr int kRanks = 6;
constexpr int kMicroBatches = 4;

/// Per rank: forward and backward of each micro-batch on lane 0, a send on lane 1, and an optimizer step. Ranks 2k and
/// 2k + 1 are replicas of stage k: the same ids.
std::shared_ptr<const Trace> replicas(int steps, unsigned seed)
{
    auto trace = std::make_shared<Trace>();
    trace->lanes = {{"compute", Work::Compute, 1}, {"send", Work::Communication, 1}};
    trace->kinds = standardKinds();
    std::mt19937 random(seed);
    for (int r = 0; r < kRanks; ++r) {
        trace->ranks.push_back({"d" + std::to_string(r)});
        const std::string stage = "s" + std::to_string(r / 2) + ".";
        for (int m = 0; m < kMicroBatches; ++m) {
            trace->tasks.push_back({stage + "F.m" + std::to_string(m), Kind::Forward, r / 2, m});
            trace->tasks.push_back({stage + "SF.m" + std::to_string(m), Kind::Send, r / 2, m});
            trace->tasks.push_back({stage + "B.m" + std::to_string(m), Kind::Backward, r / 2, m});
        }
        trace->tasks.push_back({stage + "O", Kind::Optimizer, r / 2, -1});
    }
    const auto tasksOfRank = static_cast<std::int32_t>(trace->tasks.size() / kRanks);
    for (int step = 0; step < steps; ++step) {
        for (std::int32_t r = 0; r < kRanks; ++r) {
            std::int64_t time[2] = {step * 1000, step * 1000};
            for (std::int32_t t = r * tasksOfRank; t < (r + 1) * tasksOfRank; ++t) {
                const std::int32_t lane = trace->tasks[static_cast<std::size_t>(t)].kind == Kind::Send ? 1 : 0;
                time[lane] += static_cast<std::int64_t>(random() % 5);
                const auto duration = static_cast<std::int64_t>(random() % 40);
                trace->records.push_back({time[lane], duration, t, step, r, lane});
                time[lane] += duration;
            }
        }
    }
    trace->sort();
    return trace;
}

bool isOf(const Index &index, const Index::Slice &slice, std::int32_t task, std::int32_t step)
{
    const Record record = index.record(slice);
    return record.task == task && record.step == step;
}

} // namespace

class TestIndex : public QObject {
    Q_OBJECT

private slots:
    void findsEveryTaskInEveryStep();
    void tasksByName();
    void tasksOfRanksInAnyOrder();
    void rowsAndStagesOfARank();
    void searchIsBruteForce();
    void searchStopsAtItsLimit();
    void microBatchIsBruteForce_data();
    void microBatchIsBruteForce();
    void recordsInAnyOrder();
    void nothing();
};

void TestIndex::findsEveryTaskInEveryStep()
{
    const auto trace = replicas(3, 1);
    const Index index(trace);
    QCOMPARE(index.steps().size(), std::size_t{3});
    for (std::int32_t task = 0; task < static_cast<std::int32_t>(trace->tasks.size()); ++task) {
        QCOMPARE(index.rankOf(task), task / static_cast<std::int32_t>(trace->tasks.size() / kRanks));
        for (std::int32_t step = 0; step < 3; ++step) {
            const auto found = index.find(task, step);
            QVERIFY(found && isOf(index, *found, task, step));
        }
        const auto first = index.find(task, -1);
        QVERIFY(first && isOf(index, *first, task, 0));
        QVERIFY(!index.find(task, 3));
    }
    QVERIFY(!index.find(-1, 0));
    QVERIFY(!index.find(100'000, 0));
}

void TestIndex::tasksByName()
{
    const auto trace = replicas(1, 2);
    const Index index(trace);
    const auto both = index.tasksCalled("s1.B.m3");
    QCOMPARE(both.size(), std::size_t{2});
    for (const std::int32_t task : both)
        QCOMPARE(trace->tasks[static_cast<std::size_t>(task)].id, std::string("s1.B.m3"));
    QCOMPARE(index.rankOf(both[0]), 2);
    QCOMPARE(index.rankOf(both[1]), 3);
    QVERIFY(index.tasksCalled("s1.B.m").empty());
    QCOMPARE(index.taskOn(2, "s1.B.m3"), both[0]);
    QCOMPARE(index.taskOn(3, "s1.B.m3"), both[1]);
    QCOMPARE(index.taskOn(4, "s1.B.m3"), -1);
    QCOMPARE(index.taskOn(-1, "s1.B.m3"), -1);
    QCOMPARE(index.taskOn(2, "s1"), -1);
}

/// Where the tasks' numbers do not follow the ranks', and one has no record.
void TestIndex::tasksOfRanksInAnyOrder()
{
    auto trace = std::make_shared<Trace>();
    trace->lanes = {{"compute", Work::Compute, 1}};
    trace->kinds = standardKinds();
    const std::vector<std::int32_t> ranks{3, 0, -1, 4, 1, 2};
    for (std::int32_t task = 0; task < static_cast<std::int32_t>(ranks.size()); ++task) {
        trace->ranks.push_back({"d" + std::to_string(task)});
        trace->tasks.push_back({"s0.AR.b0", Kind::AllReduce, 0, -1});
        if (ranks[static_cast<std::size_t>(task)] >= 0)
            trace->records.push_back({task, 1, task, 0, ranks[static_cast<std::size_t>(task)], 0});
    }
    const Index whole(std::shared_ptr<const Trace>{trace});
    Index grown(std::make_shared<const Tables>(*trace));
    grown.append(trace->records);
    for (const Index *index : {&whole, static_cast<const Index *>(&grown)}) {
        for (std::int32_t rank = 0; rank < 6; ++rank) {
            const auto task = std::ranges::find(ranks, rank);
            QCOMPARE(index->taskOn(rank, "s0.AR.b0"),
                     task == ranks.end() ? -1 : static_cast<std::int32_t>(task - ranks.begin()));
        }
    }
}

void TestIndex::rowsAndStagesOfARank()
{
    const auto trace = replicas(2, 3);
    const Index index(trace);
    for (std::int32_t rank = 0; rank < kRanks; ++rank) {
        const auto [first, last] = index.rowsOf(rank);
        QVERIFY(last - first >= 2);
        for (std::size_t r = 0; r < index.lod().rows().size(); ++r)
            QCOMPARE(index.lod().rows()[r].rank() == rank, r >= first && r < last);
        QCOMPARE(index.stagesOf(rank).size(), std::size_t{1});
        QCOMPARE(index.stagesOf(rank)[0], rank / 2);
    }
    QCOMPARE(index.rowsOf(-1).second, std::size_t{0});
    QCOMPARE(index.rowsOf(kRanks).second, std::size_t{0});
    QVERIFY(index.stagesOf(kRanks).empty());
}

void TestIndex::searchIsBruteForce()
{
    const auto trace = replicas(2, 4);
    const Index index(trace);
    for (const auto &[text, part] : {std::pair("s1.b", "s1.B"), std::pair("F.M2", "F.m2"), std::pair("O", ".O"),
                                     std::pair("s", "s"), std::pair("zzz", "zzz")}) {
        std::vector<std::pair<std::int32_t, std::int32_t>> expected;
        std::vector<std::pair<std::int32_t, std::int32_t>> found;
        for (const Record &record : trace->records) {
            if (trace->tasks[static_cast<std::size_t>(record.task)].id.find(part) != std::string::npos)
                expected.emplace_back(record.task, record.step);
        }
        for (const Index::Slice &slice : index.search(text, 10'000))
            found.emplace_back(index.record(slice).task, index.record(slice).step);
        std::ranges::sort(expected);
        std::ranges::sort(found);
        QVERIFY2(found == expected, text);
    }
    QVERIFY(index.search("", 10).empty());
}

void TestIndex::searchStopsAtItsLimit()
{
    const Index index(replicas(2, 5));
    const auto some = index.search("F", 7);
    QCOMPARE(some.size(), std::size_t{7});
    QVERIFY(std::ranges::is_sorted(some));
    QVERIFY(index.search("F", 0).empty());
}

void TestIndex::microBatchIsBruteForce_data()
{
    QTest::addColumn<int>("steps");
    QTest::newRow("one step: in order") << 1;
    QTest::newRow("several steps") << 3;
}

/// Along each micro-batch of a step, forwards and backwards: by start, then row, then place in the row.
void TestIndex::microBatchIsBruteForce()
{
    QFETCH(int, steps);
    const auto trace = replicas(steps, 6);
    const Index index(trace);
    using Place = std::tuple<std::int64_t, std::uint32_t, std::uint32_t>;
    for (int step = 0; step < steps; ++step) {
        for (int m = -1; m < kMicroBatches; ++m) {
            std::vector<Place> places;
            for (std::uint32_t r = 0; r < index.lod().rows().size(); ++r) {
                for (std::uint32_t i = 0; i < index.lod().rows()[r].size(); ++i) {
                    const Record record = index.record({r, i});
                    if (record.step == step && trace->tasks[static_cast<std::size_t>(record.task)].microBatch == m)
                        places.emplace_back(record.start, r, i);
                }
            }
            std::ranges::sort(places);
            for (std::size_t k = 0; k < places.size(); ++k) {
                const Index::Slice here{std::get<1>(places[k]), std::get<2>(places[k])};
                for (const int by : {-1, 1}) {
                    const auto next = index.alongMicroBatch(here, by);
                    const bool atEnd = by < 0 ? k == 0 : k + 1 == places.size();
                    QCOMPARE(next.has_value(), !atEnd);
                    if (atEnd)
                        continue;
                    const Place &expected = places[by < 0 ? k - 1 : k + 1];
                    QCOMPARE(next->row, std::get<1>(expected));
                    QCOMPARE(next->index, std::get<2>(expected));
                }
            }
        }
    }
}

void TestIndex::recordsInAnyOrder()
{
    const auto trace = replicas(2, 7);
    const Index whole(trace);
    std::vector<Record> shuffled = trace->records;
    std::ranges::shuffle(shuffled, std::mt19937(8));
    Index grown(std::make_shared<const Tables>(*trace));
    for (const Record &record : shuffled)
        grown.append({&record, 1});
    for (std::int32_t task = 0; task < static_cast<std::int32_t>(trace->tasks.size()); ++task) {
        QCOMPARE(grown.rankOf(task), whole.rankOf(task));
        for (std::int32_t step = 0; step < 2; ++step) {
            const auto found = grown.find(task, step);
            QVERIFY(found && isOf(grown, *found, task, step));
        }
    }
    QCOMPARE(grown.search("s2.F", 1000).size(), whole.search("s2.F", 1000).size());
    QCOMPARE(grown.steps()[1].begin, whole.steps()[1].begin);
    QCOMPARE(grown.steps()[1].end, whole.steps()[1].end);
}

void TestIndex::nothing()
{
    const Index empty;
    QVERIFY(empty.lod().rows().empty());
    QVERIFY(empty.steps().empty());
    QVERIFY(empty.search("s", 10).empty());
    QVERIFY(!empty.find(0, 0));
    QVERIFY(empty.tasksCalled("s0.F.m0").empty());
}

QTEST_GUILESS_MAIN(TestIndex)
#include "tst_index.moc"

// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/trace/trace.h"

#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <csignal>
#include <fstream>
#include <random>
#include <sys/resource.h>


using namespace planloom;
using namespace planloom::trace;

namespace {

Trace sample(std::size_t records)
{
    Trace trace;
    trace.clock = "wall";
    trace.ranks = {{"n0:g0"}, {"n0:g1"}};
    for (int m = 0; m < 5; ++m)
        trace.tasks.push_back({"s1.F.m" + std::to_string(m), m % 2 == 0 ? Kind::Forward : Kind::Backward, 1, m});
    std::mt19937 random(7);
    for (std::size_t i = 0; i < records; ++i) {
        Record record;
        record.start = static_cast<std::int64_t>(random() % 1'000'000);
        record.duration = static_cast<std::int64_t>(random() % 1000);
        record.task = static_cast<std::int32_t>(random() % 5);
        record.step = static_cast<std::int32_t>(i / 10);
        record.rank = static_cast<std::int16_t>(random() % 2);
        record.lane = static_cast<std::int16_t>(random() % 4);
        trace.records.push_back(record);
    }
    trace.dropped = 3;
    trace.sort();
    return trace;
}

/// Without syncing: thousands of files are written here.
void put(const std::string &path, const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }

bool same(const Record &a, const Record &b)
{
    return a.start == b.start && a.duration == b.duration && a.task == b.task && a.step == b.step && a.rank == b.rank && a.lane == b.lane;
}

} // namespace

class TestTraceFile : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_folder;
    std::string path(const char *name) const { return m_folder.filePath(name).toStdString(); }

private slots:
    void sortsByRankLaneStart();
    void roundTrip_data();
    void roundTrip();
    void everyPrefixReadsUpToItsLastWholeBlock();
    void everyFlippedBitIsNoticed();
    void recordsOutOfTheTablesAreRefused();
    void refusesWhatIsNoTrace();
    void fullDiskKeepsWholeBlocks();
};

void TestTraceFile::sortsByRankLaneStart()
{
    const Trace trace = sample(500);
    QVERIFY(std::ranges::is_sorted(trace.records, {}, [](const Record &r) { return std::tuple(r.rank, r.lane, r.start); }));
    std::int64_t first = trace.records[0].start;
    std::int64_t last = 0;
    for (const Record &record : trace.records) {
        first = std::min(first, record.start);
        last = std::max(last, record.start + record.duration);
    }
    QCOMPARE(trace.begin(), first);
    QCOMPARE(trace.end(), last);
    QCOMPARE(Trace().end(), std::int64_t{0});
}

void TestTraceFile::roundTrip_data()
{
    QTest::addColumn<int>("records");
    QTest::newRow("empty") << 0;
    QTest::newRow("one") << 1;
    QTest::newRow("several blocks") << 200'000;
}

void TestTraceFile::roundTrip()
{
    QFETCH(int, records);
    const Trace trace = sample(static_cast<std::size_t>(records));
    QVERIFY(writeTrace(trace, path("a.pltrace")).ok());
    const auto back = readTrace(path("a.pltrace"));
    QVERIFY(back.ok());
    QCOMPARE(back->clock, trace.clock);
    QCOMPARE(back->dropped, trace.dropped);
    QCOMPARE(back->ranks.size(), trace.ranks.size());
    QCOMPARE(back->ranks[1].device, trace.ranks[1].device);
    QCOMPARE(back->tasks.size(), trace.tasks.size());
    QCOMPARE(back->tasks[3].id, trace.tasks[3].id);
    QCOMPARE(back->tasks[3].kind, trace.tasks[3].kind);
    QCOMPARE(back->tasks[3].stage, trace.tasks[3].stage);
    QCOMPARE(back->tasks[3].microBatch, trace.tasks[3].microBatch);
    QVERIFY(std::ranges::equal(back->records, trace.records, same));
}

void TestTraceFile::everyPrefixReadsUpToItsLastWholeBlock()
{
    const Trace trace = sample(40);
    auto writer = TraceWriter::create(path("cut.pltrace"), trace.clock, trace.ranks, trace.tasks);
    QVERIFY(writer.ok());
    const auto header = readFile(path("cut.pltrace"))->size();
    std::vector<std::size_t> ends{header};
    for (std::size_t at = 0; at < 40; at += 10) {
        QVERIFY(writer->append(std::span(trace.records).subspan(at, 10), 0).ok());
        ends.push_back(readFile(path("cut.pltrace"))->size()); // flushed: there before close()
    }
    QVERIFY(writer->close().ok());
    const auto whole = readFile(path("cut.pltrace"));
    qputenv("PLANLOOM_LOG", "error");
    for (std::size_t size = 0; size <= whole->size(); ++size) {
        put(path("part.pltrace"), whole->substr(0, size));
        const auto part = readTrace(path("part.pltrace"));
        QCOMPARE(part.ok(), size >= header);
        if (part.ok()) {
            const auto blocks = std::ranges::upper_bound(ends, size) - ends.begin() - 1;
            QCOMPARE(part->records.size(), static_cast<std::size_t>(10 * blocks));
        }
    }
}

void TestTraceFile::everyFlippedBitIsNoticed()
{
    const Trace trace = sample(20);
    QVERIFY(writeTrace(trace, path("flip.pltrace")).ok());
    const auto whole = readFile(path("flip.pltrace"));
    for (std::size_t byte = 0; byte < whole->size(); ++byte) {
        std::string bad = *whole;
        bad[byte] = static_cast<char>(bad[byte] ^ (1 << (byte % 8)));
        put(path("bad.pltrace"), bad);
        const auto read = readTrace(path("bad.pltrace"));
        QVERIFY2(!read.ok() || read->records.empty(), qPrintable(QString("byte %1").arg(byte)));
    }
}

void TestTraceFile::recordsOutOfTheTablesAreRefused()
{
    for (const auto &spoil : std::vector<void (*)(Record &)>{[](Record &r) { r.task = 5; }, [](Record &r) { r.rank = 2; }, [](Record &r) { r.rank = -1; },
                                                             [](Record &r) { r.lane = -1; }, [](Record &r) { r.duration = -1; },
                                                             [](Record &r) { r.start = std::numeric_limits<std::int64_t>::max(); }}) {
        Trace trace = sample(3);
        spoil(trace.records[1]);
        QVERIFY(writeTrace(trace, path("spoiled.pltrace")).ok());
        const auto read = readTrace(path("spoiled.pltrace"));
        QVERIFY(!read.ok());
        QCOMPARE(read.error().code, ErrorCode::BadInput);
        QVERIFY(read.error().text().find("record 1") != std::string::npos);
    }
}

void TestTraceFile::refusesWhatIsNoTrace()
{
    QVERIFY(writeFileAtomically(path("text"), "hello, this is text and not a trace").ok());
    const auto read = readTrace(path("text"));
    QVERIFY(!read.ok());
    QCOMPARE(read.error().code, ErrorCode::BadInput);
    QVERIFY(read.error().text().find("not a Planloom trace") != std::string::npos);
    QCOMPARE(readTrace(path("missing")).error().code, ErrorCode::NotFound);
    QCOMPARE(TraceWriter::create(path("no/such/folder"), "wall", {}, {}).error().code, ErrorCode::Io);
}

void TestTraceFile::fullDiskKeepsWholeBlocks()
{
    const Trace trace = sample(3000);
    auto writer = TraceWriter::create(path("full.pltrace"), trace.clock, trace.ranks, trace.tasks);
    QVERIFY(writer.ok());
    rlimit before{};
    QCOMPARE(::getrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit tight{40'000, before.rlim_max};
    QCOMPARE(::setrlimit(RLIMIT_FSIZE, &tight), 0);
    const Status first = writer->append(std::span(trace.records).subspan(0, 1000), 0);
    const Status second = writer->append(std::span(trace.records).subspan(1000, 1000), 0);
    QCOMPARE(::setrlimit(RLIMIT_FSIZE, &before), 0);
    QVERIFY(first.ok());
    QVERIFY(!second.ok());
    QCOMPARE(second.error().code, ErrorCode::Io);
    QVERIFY(writer->close().ok());
    const auto read = readTrace(path("full.pltrace"));
    QVERIFY(read.ok());
    QCOMPARE(read->records.size(), std::size_t{1000});
}

QTEST_GUILESS_MAIN(TestTraceFile)
#include "tst_trace_file.moc"

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
#include <zlib.h>

using namespace planloom;
using namespace planloom::trace;

namespace {

Trace sample(std::size_t records)
{
    Trace trace;
    trace.clock = "wall";
    trace.plan = "0123abcd";
    trace.lanes = {{"compute", Work::Compute, 1},
                   {"send", Work::Communication, 2},
                   {"copy-in", Work::Host, 3},
                   {"host", Work::Host, 1}};
    trace.rounds = {4, 8, true};
    trace.kinds = standardKinds();
    trace.kinds.push_back({"swap", Work::Host, "grey", "dots", "swapping"});
    trace.ranks = {{"n0:g0"}, {"n0:g1"}};
    for (int m = 0; m < 5; ++m)
        trace.tasks.push_back(
            {"s1.F.m" + std::to_string(m), m % 2 == 0 ? Kind::Forward : Kind::Backward, 40'000, m, m - 1});
    std::mt19937 random(7);
    for (std::size_t i = 0; i < records; ++i) {
        Record record;
        record.start = static_cast<std::int64_t>(random() % 1'000'000);
        record.duration = static_cast<std::int64_t>(random() % 1000);
        record.task = static_cast<std::int32_t>(random() % 5);
        record.step = static_cast<std::int32_t>(i / 10);
        record.rank = static_cast<std::int32_t>(random() % 2);
        record.lane = static_cast<std::int32_t>(random() % 4);
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
    return a.start == b.start && a.duration == b.duration && a.task == b.task && a.step == b.step && a.rank == b.rank
        && a.lane == b.lane;
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
    void readsVersion1();
    void ranksBeyond16Bits();
    void everyPrefixReadsUpToItsLastWholeBlock();
    void everyFlippedBitIsNoticed();
    void recordsOutOfTheTablesAreRefused();
    void refusesWhatIsNoTrace();
    void fullDiskKeepsWholeBlocks();
};

void TestTraceFile::sortsByRankLaneStart()
{
    const Trace trace = sample(500);
    QVERIFY(
        std::ranges::is_sorted(trace.records, {}, [](const Record &r) { return std::tuple(r.rank, r.lane, r.start); }));
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
    QCOMPARE(back->plan, trace.plan);
    QCOMPARE(back->dropped, trace.dropped);
    QCOMPARE(back->ranks.size(), trace.ranks.size());
    QCOMPARE(back->ranks[1].device, trace.ranks[1].device);
    QCOMPARE(back->tasks.size(), trace.tasks.size());
    QCOMPARE(back->tasks[3].id, trace.tasks[3].id);
    QCOMPARE(back->tasks[3].kind, trace.tasks[3].kind);
    QCOMPARE(back->tasks[3].stage, trace.tasks[3].stage);
    QCOMPARE(back->tasks[3].microBatch, trace.tasks[3].microBatch);
    QCOMPARE(back->tasks[0].group, -1);
    QCOMPARE(back->tasks[3].group, 2);
    QVERIFY(back->lanes == trace.lanes);
    QVERIFY(back->kinds == trace.kinds);
    QVERIFY(std::ranges::equal(back->records, trace.records, same));
}

/// Byte by byte as the first version wrote it: two ranks, two tasks, a block of two records.
void TestTraceFile::readsVersion1()
{
    const auto number = [](auto value) { return std::string(reinterpret_cast<const char *>(&value), sizeof value); };
    const auto text = [&](const std::string &what) { return number(std::uint32_t(what.size())) + what; };
    const auto checksum = [](const std::string &bytes) {
        return static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef *>(bytes.data()), uInt(bytes.size())));
    };
    const std::string tables = text("wall") + number(std::uint32_t{2}) + text("g0") + text("g1")
        + number(std::uint32_t{2}) + text("s0.F.m0") + number(std::uint8_t{0}) + number(std::int16_t{0})
        + number(std::int32_t{0}) + text("s1.W.m0") + number(std::uint8_t{12}) + number(std::int16_t{1})
        + number(std::int32_t{0});
    const std::string head = "TBLK" + number(std::uint32_t{2}) + number(std::int64_t{7}) + number(std::uint32_t{0});
    const std::string columns = number(std::int64_t{10}) + number(std::int64_t{20}) + number(std::int64_t{5})
        + number(std::int64_t{6}) + number(std::int32_t{0}) + number(std::int32_t{1}) + number(std::int32_t{3})
        + number(std::int32_t{3}) + number(std::int16_t{0}) + number(std::int16_t{1}) + number(std::int16_t{4})
        + number(std::int16_t{0});
    put(path("v1.pltrace"),
        "PLTRACE1" + number(std::uint32_t(tables.size())) + number(checksum(tables)) + tables + head
            + number(checksum(head + columns)) + columns);
    const auto trace = readTrace(path("v1.pltrace"));
    QVERIFY2(trace.ok(), trace.ok() ? "" : trace.error().text().c_str());
    QCOMPARE(trace->dropped, std::int64_t{7});
    QCOMPARE(trace->lanes.size(), std::size_t{5});
    QCOMPARE(trace->lane(0).work, Work::Compute);
    QCOMPARE(trace->lane(3).name, std::string("collective"));
    QVERIFY(trace->kinds == standardKinds());
    QCOMPARE(trace->kind(trace->tasks[1].kind).name, std::string("weight-gradient"));
    QCOMPARE(trace->tasks[1].stage, 1);
    QCOMPARE(trace->tasks[1].group, -1);
    QVERIFY(same(trace->records[0], {10, 5, 0, 3, 0, 4}));
    QVERIFY(same(trace->records[1], {20, 6, 1, 3, 1, 0}));
}

void TestTraceFile::ranksBeyond16Bits()
{
    Trace trace = sample(0);
    trace.ranks.resize(65'536);
    trace.records = {{0, 1, 0, 0, 32'767, 0}, {0, 1, 0, 0, 32'768, 0}, {0, 1, 0, 0, 65'535, 3}};
    QVERIFY(writeTrace(trace, path("wide.pltrace")).ok());
    const auto back = readTrace(path("wide.pltrace"));
    QVERIFY(back.ok());
    QVERIFY(std::ranges::equal(back->records, trace.records, same));
}

void TestTraceFile::everyPrefixReadsUpToItsLastWholeBlock()
{
    const Trace trace = sample(40);
    auto writer = TraceWriter::create(path("cut.pltrace"), trace.clock, trace);
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
    for (const auto &spoil :
         std::vector<void (*)(Record &)>{[](Record &r) { r.task = 5; }, [](Record &r) { r.rank = 2; },
                                         [](Record &r) { r.rank = -1; }, [](Record &r) { r.lane = -1; },
                                         [](Record &r) { r.lane = 4; }, [](Record &r) { r.duration = -1; },
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
    QCOMPARE(TraceWriter::create(path("no/such/folder"), "wall", {}).error().code, ErrorCode::Io);
}

void TestTraceFile::fullDiskKeepsWholeBlocks()
{
    const Trace trace = sample(3000);
    auto writer = TraceWriter::create(path("full.pltrace"), trace.clock, trace);
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

// SPDX-License-Identifier: Apache-2.0
// Databases of Nsight Systems by its documented schema, packets of Perfetto by its public one, and several files as the
// ranks of one training.
#include "engine/import/trace/foreign_trace.h"
#include "engine/import/trace/slices.h"
#include "tests/engine/import/chrome_traces.h"

#include <QTemporaryDir>
#include <QTest>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <sqlite3.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>

using namespace planloom;
using import::ForeignTrace;
using import::TraceFormat;

namespace {

/// "rank/lane/task@start+duration s2 kind" a slice.
std::vector<std::string> linesOf(const trace::Trace &trace)
{
    std::vector<std::string> lines;
    for (const trace::Record &r : trace.records) {
        const trace::TaskInfo &task = trace.tasks.at(static_cast<std::size_t>(r.task));
        lines.push_back(trace.ranks.at(static_cast<std::size_t>(r.rank)).device + "/" + trace.lane(r.lane).name + "/"
                        + task.id + "@" + std::to_string(r.start) + "+" + std::to_string(r.duration) + " s"
                        + std::to_string(r.step) + " " + trace.kind(task.kind).name);
    }
    return lines;
}

std::string textOf(const std::vector<std::string> &lines)
{
    std::string text;
    for (const std::string &line : lines)
        text += line + "\n";
    return text;
}

/// A message of protocol buffers, field by field.
class ProtoBytes {
public:
    ProtoBytes &number(int field, std::uint64_t value)
    {
        return append([&](auto &out) {
            out.WriteTag(static_cast<std::uint32_t>(field) << 3);
            out.WriteVarint64(value);
        });
    }
    ProtoBytes &bytes(int field, const std::string &value)
    {
        return append([&](auto &out) {
            out.WriteTag((static_cast<std::uint32_t>(field) << 3) | 2);
            out.WriteVarint32(static_cast<std::uint32_t>(value.size()));
            out.WriteString(value);
        });
    }
    [[nodiscard]] const std::string &text() const { return m_text; }

private:
    template <class Write>
    ProtoBytes &append(Write write)
    {
        google::protobuf::io::StringOutputStream stream(&m_text);
        google::protobuf::io::CodedOutputStream out(&stream);
        write(out);
        return *this;
    }
    std::string m_text;
};

std::string packet(const ProtoBytes &content) { return ProtoBytes().bytes(1, content.text()).text(); }

enum EventType { Begin = 1, End = 2, Instant = 3 };

/// A packet with an event on a track.
std::string eventPacket(std::uint64_t time, EventType type, std::uint64_t track, const std::string &name = {})
{
    ProtoBytes made;
    made.number(9, type).number(11, track);
    if (!name.empty())
        made.bytes(22, "app").bytes(23, name);
    return packet(ProtoBytes().number(8, time).bytes(11, made.text()));
}

std::string processPacket(std::uint64_t track, int id, const std::string &name)
{
    return packet(
        ProtoBytes().bytes(60,
                           ProtoBytes()
                               .number(1, track)
                               .bytes(3, ProtoBytes().number(1, static_cast<std::uint64_t>(id)).bytes(6, name).text())
                               .text()));
}

std::string threadPacket(std::uint64_t track, int id, int number, const std::string &name)
{
    return packet(ProtoBytes().bytes(60,
                                     ProtoBytes()
                                         .number(1, track)
                                         .bytes(4,
                                                ProtoBytes()
                                                    .number(1, static_cast<std::uint64_t>(id))
                                                    .number(2, static_cast<std::uint64_t>(number))
                                                    .bytes(5, name)
                                                    .text())
                                         .text()));
}

/// What `nsys export` writes of a process 7 with one thread and one GPU: two steps with a kernel each, a copy, a sum.
const char *const kDatabase = R"sql(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, busLocation TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  streamId INTEGER NOT NULL, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER,
  textId INTEGER, domainId INTEGER);
CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, nameId INTEGER, globalTid INTEGER);
INSERT INTO StringIds VALUES (1, 'void gemm<float>(float const*, int)'), (2, 'gemm'), (3, 'cudaLaunchKernel'),
  (4, 'python3'), (5, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)'), (6, 'iteration 1'), (7, 'read');
INSERT INTO PROCESSES VALUES (7 << 24, 7, '/usr/bin/python3');
INSERT INTO ThreadNames VALUES (4, 0, (7 << 24) + 70);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100', '0000:01:00.0');
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '');
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 2500, 0, 1, 7, 1, 7 << 24, 1, 2),
  (5000, 5900, 0, 1, 7, 2, 7 << 24, 1, 2),
  (5100, 5800, 0, 1, 20, 3, 7 << 24, 5, 5), (5, 4, 0, 1, 7, 9, 7 << 24, 1, 2);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1500, 1600, 0, 7, 7 << 24, 4096, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1200, (7 << 24) + 70, 1, 3);
INSERT INTO NVTX_EVENTS VALUES (900, 3000, 59, 'iteration 0', (7 << 24) + 70, NULL, 0),
  (4000, 6000, 60, NULL, (7 << 24) + 70, 6, 0),
  (950, NULL, 34, 'mark', (7 << 24) + 70, NULL, 0), (4500, NULL, 59, 'open', (7 << 24) + 70, NULL, 0);
INSERT INTO OSRT_API VALUES (1, 2, 7, (7 << 24) + 70);
)sql";

const char *const kOldDatabase = R"sql(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL); INSERT INTO StringIds VALUES (1, 'k');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, shortName INT);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 1, 7, 1), (30, 40, 0, 7, 99);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT, end INT, deviceId INT);)sql";

const char *const kEndlessView = R"sql(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n)
  SELECT start, start AS end, 0 AS deviceId, 0 AS streamId, 1 AS shortName FROM n;)sql";

const char *const kFarTimes = R"sql(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT);
INSERT INTO NVTX_EVENTS VALUES (-9223372036854775807, 9223372036854775807, 59, 'a', 1), ('x', 'y', 59, 'b', 2);)sql";

} // namespace

class TestForeignTrace : public QObject {
    Q_OBJECT

private:
    std::string file(const char *name, const std::string &bytes)
    {
        const std::string path = m_folder.filePath(QString::fromLatin1(name)).toStdString();
        std::ofstream(path, std::ios::binary) << bytes;
        return path;
    }

    std::string database(const char *name, const std::string &sql)
    {
        const std::string path = m_folder.filePath(QString::fromLatin1(name)).toStdString();
        std::filesystem::remove(path);
        sqlite3 *made = nullptr;
        char *error = nullptr;
        sqlite3_open(path.c_str(), &made);
        if (sqlite3_exec(made, ("PRAGMA synchronous = OFF;" + sql).c_str(), nullptr, nullptr, &error) != SQLITE_OK)
            qFatal("%s", error);
        sqlite3_close(made);
        return path;
    }

    static Result<ForeignTrace> read(const std::string &path)
    {
        NoProgress none;
        return import::readForeignTrace(path, none);
    }

    QTemporaryDir m_folder;

private Q_SLOTS:
    void formatsAreTold()
    {
        using namespace std::string_literals;
        const auto is = [](const char *name, const std::string &head, TraceFormat wanted) {
            return import::traceFormat(name, head) == wanted;
        };
        QVERIFY(is("a.sqlite", "SQLite format 3\0rest"s, TraceFormat::Nsight));
        QVERIFY(is("a.planloom", "SQLite format 3\0rest"s, TraceFormat::None));
        QVERIFY(is("A.NSYS-REP", "x", TraceFormat::NsightReport));
        QVERIFY(is("a.pftrace", "\x0a", TraceFormat::Perfetto));
        QVERIFY(is("a.json", R"({"traceEvents": [)", TraceFormat::Events));
        QVERIFY(is("a.json.gz", "\x1f\x8b", TraceFormat::Events));
        QVERIFY(is("plan.json", R"({"schema": "planloom.plan/1", "traceEvents": 1)", TraceFormat::None));
        const auto report = read(file("a.nsys-rep", "x"));
        QVERIFY(!report);
        QVERIFY(report.error().text().find("nsys export --type sqlite") != std::string::npos);
    }

    void stepsAreNamedInManyWays()
    {
        for (const char *name : {"ProfilerStep#12", "step 12", "Step_12", "train step: 12", "ITERATION 12", "iter=12"})
            QCOMPARE(import::stepInName(name), 12);
        for (const char *name : {"step", "12", "footstep 12", "step 12 forward", "stage 12", "step 99999999999", ""})
            QCOMPARE(import::stepInName(name), -1);
    }

    void databasesOfNsight()
    {
        const auto made = read(database("report.sqlite", kDatabase));
        QVERIFY2(made, made ? "" : made.error().text().c_str());
        const std::string expected =
            "python3 7 (CPU)/python3 70/iteration 0@0+2100 s0 user_annotation\n"
            "python3 7 (CPU)/python3 70/iteration 1@3100+2000 s1 user_annotation\n"
            "python3 7 (CPU)/python3 70 (2)/cudaLaunchKernel@100+200 s0 cuda_runtime\n"
            "python3 7 (GPU 0, NVIDIA H100)/stream 7/Memcpy HtoD@600+100 s0 gpu_memcpy\n"
            "python3 7 (GPU 0, NVIDIA H100)/stream 7/void gemm<float>(float const*, int)@1100+500 s0 kernel\n"
            "python3 7 (GPU 0, NVIDIA H100)/stream 7/void gemm<float>(float const*, int)@4100+900 s1 kernel\n"
            "python3 7 (GPU 0, NVIDIA H100)/stream "
            "20/ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)@4200+700 s1 all-reduce\n";
        QCOMPARE(textOf(linesOf(made->trace)), expected);
        QCOMPARE(made->origin, 1700000000000000900);
        QCOMPARE(made->trace.dropped, 2); // backwards, and never ended
        const std::string notes = textOf(made->notes);
        for (const char *part : {"1 marks of NVTX", "2 slices have no valid times", "events in OSRT_API"})
            QVERIFY2(notes.find(part) != std::string::npos, notes.c_str());
    }

    void olderDatabasesLackColumns()
    {
        const auto made = read(database("old.sqlite", kOldDatabase));
        QVERIFY2(made, made ? "" : made.error().text().c_str());
        QCOMPARE(textOf(linesOf(made->trace)),
                 std::string("GPU 0/stream 7/?@20+10 s0 kernel\nGPU 1/stream 7/k@0+10 s0 kernel\n"));
        QVERIFY(textOf(made->notes).find("MEMSET lacks its times or its streamId") != std::string::npos);
    }

    void hostileDatabases()
    {
        const auto message = [&](const std::string &path) {
            const auto made = read(path);
            return made ? std::string("read") : made.error().text();
        };
        const auto has = [&](const std::string &text, const char *part) {
            return text.find(part) != std::string::npos;
        };
        QVERIFY(has(message(database("other.sqlite", "CREATE TABLE people (name TEXT);")),
                    "none of Nsight Systems' tables"));
        std::string bytes(20000, '\x55');
        bytes.replace(0, 16, std::string("SQLite format 3\0", 16));
        QVERIFY(has(message(file("broken.sqlite", bytes)), "damaged"));
        // A view in a table's place would run for ever; it is not touched.
        const std::string endless = database("view.sqlite", kEndlessView);
        QVERIFY(has(message(endless), "none of Nsight Systems' tables"));
        const std::string far = database("far.sqlite", kFarTimes);
        const auto made = read(far);
        QVERIFY2(made, made ? "" : made.error().text().c_str());
        QCOMPARE(made->trace.dropped, 1); // texts count as 0
    }

    void packetsOfPerfetto()
    {
        // A writer with names by number, a clock of microseconds that counts on from packet to packet, and defaults.
        const std::string snapshot = packet(ProtoBytes().number(10, 1).bytes(
            6,
            ProtoBytes()
                .bytes(1, ProtoBytes().number(1, 6).number(2, 50'000).text())
                .bytes(1, ProtoBytes().number(1, 64).number(2, 10).number(3, 1).number(4, 1000).text())
                .text()));
        const std::string names =
            packet(ProtoBytes()
                       .number(10, 1)
                       .number(13, 1)
                       .bytes(12,
                              ProtoBytes()
                                  .bytes(1, ProtoBytes().number(1, 1).bytes(2, "kernel").text())
                                  .bytes(2, ProtoBytes().number(1, 4).bytes(2, "gemm").text())
                                  .text())
                       .bytes(59, ProtoBytes().number(58, 64).bytes(11, ProtoBytes().number(11, 30).text()).text()));
        const std::string begin = packet(ProtoBytes().number(10, 1).number(8, 5).bytes(
            11, ProtoBytes().number(9, 1).number(10, 4).number(3, 1).text()));
        const std::string end =
            packet(ProtoBytes().number(10, 1).number(8, 2).bytes(11, ProtoBytes().number(9, 2).text()));
        const std::string older =
            packet(ProtoBytes().number(8, 56'000).bytes(11,
                                                        ProtoBytes()
                                                            .number(11, 20)
                                                            .bytes(23, "old")
                                                            .bytes(6, ProtoBytes().number(2, 'X').number(3, 3).text())
                                                            .text()));
        const std::string counter = packet(ProtoBytes().number(8, 1).bytes(11, ProtoBytes().number(9, 4).text()));
        const std::string plain = processPacket(10, 77, "python") + threadPacket(20, 77, 78, "main")
            + threadPacket(30, 77, 79, "stream") + snapshot + names + begin + eventPacket(54'000, Begin, 20, "outer")
            + eventPacket(54'500, Begin, 20, "inner") + eventPacket(54'600, Instant, 20, "now")
            + eventPacket(54'800, End, 20) + eventPacket(55'500, End, 20) + end + older + counter
            + eventPacket(60'000, Begin, 20, "open") + eventPacket(1, End, 99);
        const std::string expected = "python 77/main/outer@0+1500 s0 app\n"
                                     "python 77/main/old@2000+3000 s0 other\n"
                                     "python 77/main (2)/inner@500+300 s0 app\n"
                                     "python 77/stream/gemm@1000+2000 s0 kernel\n";
        const auto made = read(file("a.pftrace", plain));
        QVERIFY2(made, made ? "" : made.error().text().c_str());
        QCOMPARE(textOf(linesOf(made->trace)), expected);
        QCOMPARE(made->origin, 54'000);
        const std::string notes = textOf(made->notes);
        for (const char *part : {"1 counter values", "1 instants", "1 ends of slices", "1 slices never ended"})
            QVERIFY2(notes.find(part) != std::string::npos, notes.c_str());

        // The same, compressed in a packet, and as a whole.
        std::string small(compressBound(plain.size()), '\0');
        uLongf size = small.size();
        QCOMPARE(compress(reinterpret_cast<Bytef *>(small.data()), &size, reinterpret_cast<const Bytef *>(plain.data()),
                          plain.size()),
                 Z_OK);
        small.resize(size);
        const auto inPacket = read(file("b.pftrace", packet(ProtoBytes().bytes(50, small))));
        QVERIFY(inPacket);
        QCOMPARE(textOf(linesOf(inPacket->trace)), expected);
        const std::string packed = m_folder.filePath(QStringLiteral("c.pftrace.gz")).toStdString();
        gzFile out = gzopen(packed.c_str(), "wb");
        gzwrite(out, plain.data(), static_cast<unsigned>(plain.size()));
        gzclose(out);
        const auto whole = read(packed);
        QVERIFY2(whole, whole ? "" : whole.error().text().c_str());
        QCOMPARE(textOf(linesOf(whole->trace)), expected);
    }

    void damagedPackets()
    {
        const std::string good = eventPacket(10, Begin, 1, "a") + eventPacket(20, End, 1);
        const auto cut = read(file("cut.pftrace", good + eventPacket(30, Begin, 1, "b").substr(0, 9)));
        QVERIFY2(cut, cut ? "" : cut.error().text().c_str());
        QCOMPARE(cut->trace.records.size(), std::size_t{1});
        QVERIFY(textOf(cut->notes).find("cut short") != std::string::npos);
        for (const std::string &bytes :
             {std::string("hello"), std::string(), std::string("\x0a\xff\xff\xff\xff\x0f", 6)}) {
            const auto bad = read(file("bad.pftrace", bytes));
            QVERIFY(!bad);
            QCOMPARE(bad.error().code, ErrorCode::BadInput);
        }
        const auto far = read(file("far.pftrace", eventPacket(std::uint64_t{1} << 63, Begin, 1, "a") + good));
        QVERIFY(far);
        QCOMPARE(far->trace.records.size(), std::size_t{1});
        QCOMPARE(far->trace.dropped, 1);
    }

    void filesAreRanksOfOneTraining()
    {
        // The clocks agree: times are kept, and the second file's steps begin 300 ns later.
        const auto steps = [](int process, const char *base, const char *first, const char *second) {
            return std::string("{\"baseTimeNanoseconds\": ") + base + ", \"distributedInfo\": {\"rank\": "
                + std::to_string(process) + "}, \"traceEvents\": [" + tests::slice("ProfilerStep#0", "0", "0.5", 1, 1)
                + "," + tests::slice("ProfilerStep#1", first, "1", 1, 1) + ","
                + tests::slice("ProfilerStep#2", second, "1", 1, 1) + "]}";
        };
        const std::string one = file("one.json", steps(1, "1000000", "2.3", "4.3"));
        const std::string zero = file("zero.json", steps(0, "1000000", "2", "4"));
        NoProgress none;
        const auto made = import::readForeignTraces({one, zero}, none);
        QVERIFY2(made, made ? "" : made.error().text().c_str());
        QCOMPARE(made->trace.ranks.size(), std::size_t{2});
        QCOMPARE(made->trace.ranks[0].device, std::string("rank 0: process 1"));
        QCOMPARE(made->trace.ranks[1].device, std::string("rank 1: process 1"));
        QCOMPARE(made->trace.lanes.size(), std::size_t{1});
        std::vector<std::string> lines = linesOf(made->trace);
        QCOMPARE(lines.at(1), std::string("rank 0: process 1/thread 1/ProfilerStep#1@2000+1000 s1 other"));
        QCOMPARE(lines.at(4), std::string("rank 1: process 1/thread 1/ProfilerStep#1@2300+1000 s1 other"));
        QVERIFY2(textOf(made->notes).find("up to 300 ns apart (median of 2 steps, then last: one.json)")
                     != std::string::npos,
                 textOf(made->notes).c_str());

        // Clocks that differ: the first step that both have begins at once.
        const std::string far = file("far.json", steps(1, "900000000000", "12.3", "14.5"));
        const auto apart = import::readForeignTraces({zero, far}, none);
        QVERIFY(apart);
        lines = linesOf(apart->trace);
        QCOMPARE(lines.at(1), std::string("rank 0: process 1/thread 1/ProfilerStep#1@12300+1000 s1 other"));
        QCOMPARE(lines.at(4), std::string("rank 1: process 1/thread 1/ProfilerStep#1@12300+1000 s1 other"));
        QVERIFY(textOf(apart->notes).find("their clocks differ: step 1 begins at once") != std::string::npos);

        const auto lacks = import::readForeignTraces({zero, "/nowhere/at/all.json"}, none);
        QVERIFY(!lacks);
        QCOMPARE(lacks.error().code, ErrorCode::Io);
    }
};

QTEST_GUILESS_MAIN(TestForeignTrace)
#include "tst_foreign_trace.moc"

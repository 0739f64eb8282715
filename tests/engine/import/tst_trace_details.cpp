// SPDX-License-Identifier: Apache-2.0
// Launch and kernel, operator and kernel, arguments: what traces of other programs have beside their slices.
#include "engine/import/trace/foreign_trace.h"
#include "engine/trace/details.h"
#include "engine/trace/gauges.h"
#include "engine/trace/index.h"

#include <QTemporaryDir>
#include <QTest>

#include <fmt/format.h>
#include <sqlite3.h>

#include <fstream>
#include <set>

using namespace planloom;

namespace {

/// Two launches whose kernels run in the other order on two streams, a graph launch with two kernels, a copy without a
/// call, a call without a kernel. Events do not come in the order of their times.
const char *kLaunches = R"({"traceEvents": [
 {"ph": "X", "cat": "kernel", "name": "gemm_b", "pid": 0, "tid": 8, "ts": 40, "dur": 5, "args": {"correlation": 12, "External id": 2, "stream": 8, "grid": [1, 2, 3], "Ev Idx": 1}},
 {"ph": "X", "cat": "kernel", "name": "gemm_a", "pid": 0, "tid": 7, "ts": 60, "dur": 5, "args": {"correlation": 11, "External id": 1, "stream": 7, "grid": [1, 2, 3], "Ev Idx": 2, "metadata": {"a": 1}}},
 {"ph": "X", "cat": "kernel", "name": "gemm_a", "pid": 0, "tid": 7, "ts": 80, "dur": 5, "args": {"correlation": 20, "stream": 7, "grid": [1, 2, 3], "Ev Idx": 9}},
 {"ph": "X", "cat": "kernel", "name": "graph_2", "pid": 0, "tid": 7, "ts": 95, "dur": 1, "args": {"correlation": "13"}},
 {"ph": "X", "cat": "kernel", "name": "graph_1", "pid": 0, "tid": 7, "ts": 90, "dur": 1, "args": {"correlation": 13}},
 {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernel", "pid": 1, "tid": 1, "ts": 30, "dur": 2, "args": {"correlation": 12, "External id": 2}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10, "dur": 2, "args": {"correlation": 11, "External id": 1, "cbid": 211}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 50, "dur": 2, "args": {"correlation": 13}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaMalloc", "pid": 1, "tid": 1, "ts": 54, "dur": 2, "args": {"correlation": 14}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 100, "dur": 1, "args": {"correlation": 0, "bytes": 4096}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 9, "dur": 4, "args": {"External id": 1, "Input Dims": [[2, 3], [3, 4]]}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 29, "dur": 4, "args": {"External id": 2}}
]})";

const char *kNsight = R"sql(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, globalPid INT, correlationId INT,
  shortName INT, gridX INT, blockX INT, registersPerThread INT);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 200, 0, 7, 7 << 24, 5, 1, 64, 128, NULL), (100, 200, 1, 7, 8 << 24, 5, 1, 32, 128, 40);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT, globalPid INT, correlationId INT, copyKind INT, bytes INT);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (300, 310, 0, 7, 7 << 24, 6, 1, 1024);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 20, (7 << 24) + 1, 5, 2), (30, 40, (8 << 24) + 1, 5, 2);
)sql";

/// "rank/task@start" of a record, or "none".
std::string nameOf(const trace::Trace &trace, std::optional<std::size_t> number)
{
    if (!number)
        return "none";
    const trace::Record &record = trace.records.at(*number);
    return trace.task(record.task)->id + "@" + std::to_string(record.start / 1000);
}

/// The number of the slice of this name that begins at @p start (of the trace, microseconds).
std::size_t find(const trace::Trace &trace, const std::string &name, std::int64_t start)
{
    for (std::size_t i = 0; i < trace.records.size(); ++i) {
        if (trace.records[i].start == start * 1000 && trace.task(trace.records[i].task)->id == name)
            return i;
    }
    return trace.records.size();
}

} // namespace

class TestTraceDetails : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_folder;

    std::string file(const char *name, const std::string &text) const
    {
        const std::string path = m_folder.filePath(name).toStdString();
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }

    static trace::Trace read(const std::vector<std::string> &paths)
    {
        NoProgress none;
        auto made =
            paths.size() == 1 ? import::readForeignTrace(paths.front(), none) : import::readForeignTraces(paths, none);
        if (!made)
            qFatal("%s", made.error().text().c_str());
        return std::move(made->trace);
    }

private Q_SLOTS:
    /// A lane of levels for each series, on one scale for all processes; a file's own when files are joined.
    void countersAreGauges()
    {
        const char *text = R"({"traceEvents": [
 {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 1, "tid": 7, "ts": 10, "dur": 30, "args": {"correlation": 1}},
 {"ph": "X", "cat": "cuda_runtime", "name": "launch", "pid": 1, "tid": 1, "ts": 12, "dur": 1, "args": {"correlation": 1}},
 {"ph": "C", "name": "power", "pid": 1, "ts": 20, "args": {"value": 50}},
 {"ph": "C", "name": "power", "pid": 1, "ts": 10, "args": {"value": 100}},
 {"ph": "C", "name": "power", "pid": 2, "ts": 15, "args": {"value": 200}},
 {"ph": "C", "name": "queue", "pid": 1, "ts": 15, "args": {"a": 3, "b": "4"}},
 {"ph": "C", "name": "queue", "pid": 1, "ts": 16, "args": {"c": "none"}}
]})";
        const trace::Trace trace = read({file("counters.json", text)});
        const auto gauges = trace::gaugesOf(trace);
        QCOMPARE(gauges.size(), std::size_t{3}); // power, queue a, queue b
        std::set<std::string> spans;
        for (const trace::Record &record : trace.records) {
            for (const trace::Gauge &gauge : gauges) {
                if (record.lane == gauge.lane)
                    spans.insert(fmt::format("{} {} {}+{} {:.2f} s{}", record.rank, trace.lane(record.lane).name,
                                             record.start / 1000, record.duration / 1000, gauge.share(record.task),
                                             record.step));
            }
        }
        QCOMPARE(spans,
                 (std::set<std::string>{"0 power 0+10 0.50 s-1", "0 power 10+20 0.25 s-1", "1 power 5+25 1.00 s-1",
                                        "0 queue a 5+25 1.00 s-1", "0 queue b 5+25 1.00 s-1"}));
        QCOMPARE(nameOf(trace, trace.details.partner(find(trace, "gemm", 0))), std::string("launch@2"));
        const trace::Trace joined = read({file("c1.json", text), file("c2.json", text)});
        QCOMPARE(trace::gaugesOf(joined).size(), std::size_t{6});
        for (const trace::Gauge &gauge : trace::gaugesOf(joined))
            QCOMPARE(gauge.levels, 101);
    }

    void launchesAndKernels()
    {
        const trace::Trace trace = read({file("a.json", kLaunches)});
        const auto partner = [&](const char *name, std::int64_t start) {
            return nameOf(trace, trace.details.partner(find(trace, name, start)));
        };
        // Times begin at the first slice, which is at 9 in the file.
        QCOMPARE(partner("gemm_a", 51), std::string("cudaLaunchKernel@1"));
        QCOMPARE(partner("cudaLaunchKernel", 1), std::string("gemm_a@51"));
        QCOMPARE(partner("gemm_b", 31), std::string("cuLaunchKernel@21"));
        QCOMPARE(partner("cuLaunchKernel", 21), std::string("gemm_b@31"));
        QCOMPARE(partner("cudaGraphLaunch", 41), std::string("graph_1@81")); // the first of two
        QCOMPARE(partner("graph_2", 86), std::string("cudaGraphLaunch@41"));
        QCOMPARE(trace.details.launches.caused(find(trace, "cudaGraphLaunch", 41)).size(), std::size_t{2});
        for (const auto &[name, start] : {std::pair("cudaMalloc", 45), std::pair("Memcpy HtoD", 91),
                                          std::pair("gemm_a", 71), std::pair("aten::mm", 0)})
            QCOMPARE(partner(name, start), std::string("none"));
        QCOMPARE(trace.details.partner(100'000), std::nullopt);
    }

    void operators()
    {
        const trace::Trace trace = read({file("a.json", kLaunches)});
        const auto of = [&](const char *name, std::int64_t start) {
            return nameOf(trace, trace.details.operatorOf(find(trace, name, start)));
        };
        QCOMPARE(of("gemm_a", 51), std::string("aten::mm@0"));
        QCOMPARE(of("cudaLaunchKernel", 1), std::string("aten::mm@0"));
        QCOMPARE(of("gemm_b", 31), std::string("aten::add@20"));
        QCOMPARE(of("aten::mm", 0), std::string("none"));
        QCOMPARE(of("graph_1", 81), std::string("none"));
        QCOMPARE(trace.details.operators.caused(find(trace, "aten::mm", 0)).size(), std::size_t{2});
    }

    void arguments()
    {
        const trace::Trace trace = read({file("a.json", kLaunches)});
        const auto of = [&](const char *name, std::int64_t start) {
            return std::string(trace.details.argumentsOf(find(trace, name, start)));
        };
        QCOMPARE(of("gemm_b", 31), std::string("stream: 8\ngrid: [1, 2, 3]"));
        QCOMPARE(of("aten::mm", 0), std::string("Input Dims: [[2, 3], [3, 4]]"));
        QCOMPARE(of("Memcpy HtoD", 91), std::string("bytes: 4096"));
        QCOMPARE(of("aten::add", 20), std::string());
        QCOMPARE(of("cudaLaunchKernel", 1), std::string()); // nothing but numbers of its own
        // Equal texts are there once: the two gemm_a.
        const auto &rows = trace.details.argumentOf;
        QCOMPARE(rows[find(trace, "gemm_a", 51)], rows[find(trace, "gemm_a", 71)]);
        QCOMPARE(trace.details.argumentsOf(100'000), std::string_view());
    }

    /// What a view does: a slice of the index, its number, its partner, the partner's slice.
    void throughTheIndex()
    {
        const auto trace = std::make_shared<const trace::Trace>(read({file("a.json", kLaunches)}));
        const trace::Index index(trace);
        const auto hits = index.search("gemm_b", 10);
        QCOMPARE(hits.size(), std::size_t{1});
        const auto number = trace->numberOf(index.record(hits[0]));
        QVERIFY(number);
        const auto launch = index.sliceOf(trace->records[*trace->details.partner(*number)]);
        QVERIFY(launch);
        QCOMPARE(index.tables().task(index.record(*launch).task)->id, std::string("cuLaunchKernel"));
        for (std::size_t i = 0; i < trace->records.size(); ++i) { // each way round
            QCOMPARE(trace->numberOf(trace->records[i]).value(), i);
            QVERIFY(index.record(*index.sliceOf(trace->records[i])) == trace->records[i]);
        }
        trace::Record other = trace->records[0];
        ++other.duration;
        QVERIFY(!trace->numberOf(other) && !index.sliceOf(other));
        other.start = 1'000'000'000;
        QVERIFY(!trace->numberOf(other) && !index.sliceOf(other));
    }

    void nothingWhereThereIsNothing()
    {
        const trace::Trace trace =
            read({file("b.json", R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":1,"args":{"step":3}}])")});
        QVERIFY(trace.details.empty() && trace.details.arguments.empty());
        QCOMPARE(trace.details.partner(0), std::nullopt);
    }

    void filesOfRanksKeepTheirOwn()
    {
        const std::string plain = file("c.json", R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":1}])");
        const std::string first = file("a.json", kLaunches);
        const std::string second = file("d.json", kLaunches);
        for (const auto &files : {std::vector{first, plain, second}, std::vector{plain, first, second}}) {
            const trace::Trace trace = read(files);
            int launched = 0;
            for (std::size_t i = 0; i < trace.records.size(); ++i) {
                const auto partner = trace.details.partner(i);
                if (trace.task(trace.records[i].task)->id == "gemm_b") {
                    ++launched;
                    QVERIFY(partner);
                    QCOMPARE(nameOf(trace, partner).substr(0, 14), std::string("cuLaunchKernel"));
                    // Of the same file: neither of the other rank's.
                    QVERIFY(std::abs(trace.records[*partner].rank - trace.records[i].rank) == 1);
                    QCOMPARE(trace.details.argumentsOf(i), std::string_view("stream: 8\ngrid: [1, 2, 3]"));
                }
            }
            QCOMPARE(launched, 2);
        }
    }

    void databasesOfNsight()
    {
        const std::string path = m_folder.filePath("n.sqlite").toStdString();
        sqlite3 *made = nullptr;
        sqlite3_open(path.c_str(), &made);
        QCOMPARE(sqlite3_exec(made, kNsight, nullptr, nullptr, nullptr), SQLITE_OK);
        sqlite3_close(made);
        const trace::Trace trace = read({path});
        int kernels = 0;
        for (std::size_t i = 0; i < trace.records.size(); ++i) {
            const auto partner = trace.details.partner(i);
            const std::string &name = trace.task(trace.records[i].task)->id;
            if (name == "Memcpy HtoD") {
                QVERIFY(!partner);
                QCOMPARE(trace.details.argumentsOf(i), std::string_view("bytes: 1024"));
            } else if (name == "gemm") { // equal numbers of two processes are two launches
                const bool isFirst = trace.ranks[static_cast<std::size_t>(trace.records[i].rank)].device.find("GPU 0")
                    != std::string::npos;
                QCOMPARE(trace.records[partner.value()].start, isFirst ? 0 : 20);
                QCOMPARE(trace.details.argumentsOf(i),
                         std::string_view(isFirst ? "grid x: 64\nblock x: 128"
                                                  : "grid x: 32\nblock x: 128\nregisters per thread: 40"));
                ++kernels;
            }
        }
        QCOMPARE(kernels, 2);
    }

    /// Arguments beyond 64 MiB are not kept, and a note says of how many slices.
    void argumentsAreBounded()
    {
        std::string text = "[";
        const std::string filler(250, 'x');
        constexpr int kSlices = 20'000;
        for (int i = 0; i < kSlices; ++i) {
            text += (i == 0 ? "" : ",\n") + std::string(R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":)")
                + std::to_string(i) + R"(,"dur":1,"args":{"n":)" + std::to_string(i);
            for (int a = 0; a < 20; ++a)
                text += ",\"a" + std::to_string(a) + "\":\"" + filler + "\"";
            text += "}}";
        }
        NoProgress none;
        const auto made = import::readForeignTrace(file("large.json", text + "]"), none);
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        std::size_t bytes = 0;
        for (const std::string &row : made->trace.details.arguments)
            bytes += row.size();
        QVERIFY(bytes > (60 << 20) && bytes <= (64 << 20));
        QCOMPARE(made->trace.records.size(), std::size_t{kSlices});
        const bool isSaid = std::ranges::any_of(made->notes, [](const std::string &note) {
            return note.find("slices are shown without their arguments") != std::string::npos;
        });
        QVERIFY(isSaid);
        QVERIFY(made->trace.details.argumentsOf(0).starts_with("n: 0\na0: xxx"));
        QVERIFY(made->trace.details.argumentsOf(kSlices - 1).empty());
    }

    void relations()
    {
        using trace::RelationRow;
        const std::vector<RelationRow> rows{{7, false}, {-1, true}, {7, true}, {9, true}, {7, false}, {0, false}};
        const std::vector<std::int64_t> starts{50, 1, 60, 2, 40, 3};
        const trace::Relation made = trace::relate(rows, [&](std::size_t i) { return starts[i]; });
        const auto list = [](std::span<const std::uint32_t> of) { return std::vector(of.begin(), of.end()); };
        QCOMPARE(list(made.of(0)), (std::vector<std::uint32_t>{2, 4, 0})); // the caller first, though it starts last
        QCOMPARE(list(made.callers(4)), (std::vector<std::uint32_t>{2}));
        QVERIFY(made.of(3).empty() && made.of(1).empty()); // alone, and none
        trace::Details details;
        details.launches = made;
        details.reorder(std::vector<std::uint32_t>{4, 2, 3}); // record 0 goes
        QCOMPARE(details.partner(0), std::optional<std::size_t>(1));
        QCOMPARE(details.partner(1), std::optional<std::size_t>(0));
        QCOMPARE(details.partner(2), std::nullopt);
        QVERIFY(trace::relate({}, {}).empty() && trace::Details().empty());
    }
};

QTEST_GUILESS_MAIN(TestTraceDetails)
#include "tst_trace_details.moc"

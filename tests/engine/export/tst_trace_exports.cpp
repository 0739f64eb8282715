// SPDX-License-Identifier: Apache-2.0
// Traces as Perfetto's packets, read back by our own reader, and as a table.
#include "engine/export/export.h"
#include "engine/import/trace/foreign_trace.h"

#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <fstream>
#include <set>

using namespace planloom;

namespace {

/// Two ranks; on the second lane of the first one slices overlap, without nesting.
trace::Trace sampleTrace()
{
    trace::Trace made;
    made.clock = "cost";
    made.lanes = {{"compute", trace::Work::Compute, 1}, {"collective", trace::Work::Communication, 4}};
    made.kinds = trace::standardKinds();
    made.ranks = {{"n0:g0"}, {"n0:g1, \"spare\""}};
    made.tasks = {{"s0.F.m0", trace::Kind::Forward, 0, 0},
                  {"s0.A", trace::Kind::AllReduce, 0, -1},
                  {"s1.B,m1", trace::Kind::Backward, 1, 1}};
    made.records = {{0, 1500, 0, 0, 0, 0}, {1500, 0, 0, 1, 0, 0},         {2000, 100, 0, 2, 0, 0},
                    {100, 50, 1, 0, 0, 1}, {120, 60, 1, 0, 0, 1},         {140, 20, 1, 0, 0, 1},
                    {500, 7, -1, 3, 0, 1}, {1'000'000'007, 3, 2, 0, 1, 0}};
    made.sort();
    return made;
}

/// "kind/task@start+duration s0 stage 1 m1" a record, sorted.
std::vector<std::string> linesOfTrace(const trace::Trace &trace)
{
    std::vector<std::string> lines;
    for (const trace::Record &record : trace.records) {
        const trace::TaskInfo *task = trace.task(record.task);
        lines.push_back((task ? trace.kind(task->kind).name + "/" + task->id : std::string("other/?")) + "@"
                        + std::to_string(record.start) + "+" + std::to_string(record.duration) + " s"
                        + std::to_string(record.step) + " stage " + std::to_string(task ? task->stage : -1) + " m"
                        + std::to_string(task ? task->microBatch : -1));
    }
    std::ranges::sort(lines);
    return lines;
}

std::string textOfFile(const std::string &path)
{
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace

class TestTraceExports : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_folder;

    std::string at(const char *name) const { return m_folder.filePath(name).toStdString(); }

    static trace::Trace read(const std::string &path)
    {
        NoProgress none;
        auto made = import::readForeignTrace(path, none);
        if (!made)
            qFatal("%s", made.error().text().c_str());
        for (const std::string &note : made->notes)
            qWarning("%s", note.c_str());
        return std::move(made->trace);
    }

private Q_SLOTS:
    void perfettoComesBack()
    {
        const trace::Trace made = sampleTrace();
        QVERIFY(exporting::writePerfettoTrace(made, at("a.pftrace")).ok());
        const trace::Trace back = read(at("a.pftrace"));
        QCOMPARE(linesOfTrace(back), linesOfTrace(made));
        QCOMPARE(back.dropped, 0);
        QCOMPARE(back.clock, std::string("cost")); // a prediction stays one
        QCOMPARE(back.ranks.size(), std::size_t{2});
        QVERIFY(back.ranks[0].device.starts_with("n0:g0") && back.ranks[1].device.starts_with("n0:g1, \"spare\""));
        std::set<std::string> lanes;
        for (const trace::LaneInfo &lane : back.lanes)
            lanes.insert(lane.name);
        QCOMPARE(lanes, (std::set<std::string>{"compute", "collective", "collective (2)", "collective (3)"}));
    }

    void timesBeforeZeroBeginAtZero()
    {
        trace::Trace made = sampleTrace();
        for (trace::Record &record : made.records)
            record.start -= 1000;
        QVERIFY(exporting::writePerfettoTrace(made, at("b.pftrace")).ok());
        QCOMPARE(linesOfTrace(read(at("b.pftrace"))), linesOfTrace(sampleTrace()));
    }

    void piecesAreSmall()
    {
        trace::Trace made = sampleTrace();
        made.records.clear();
        for (int i = 0; i < 20'000; ++i)
            made.records.push_back({i * 10, 10, i % 3, i, 0, 0});
        std::size_t pieces = 0, largest = 0, all = 0;
        const auto count = [&](std::string_view piece) -> Status {
            ++pieces;
            largest = std::max(largest, piece.size());
            all += piece.size();
            return {};
        };
        QVERIFY(exporting::perfettoTrace(made, count).ok());
        QVERIFY(pieces > 5 && largest < 70'000 && all / made.records.size() < 120);
        int calls = 0;
        const auto full = [&](std::string_view) -> Status {
            ++calls;
            return ioError("full");
        };
        QVERIFY(!exporting::perfettoTrace(made, full).ok());
        QVERIFY(!exporting::taskTable(made, full).ok());
        QCOMPARE(calls, 2); // and no more after the first error
        QVERIFY(exporting::writePerfettoTrace({}, at("empty.pftrace")).ok());
        QCOMPARE(exporting::writePerfettoTrace(made, at("none/a.pftrace")).error().code, ErrorCode::Io);
    }

    void table()
    {
        QVERIFY(exporting::writeTaskTable(sampleTrace(), at("a.csv")).ok());
        QCOMPARE(textOfFile(at("a.csv")),
                 std::string(
                     "task,kind,stage,micro_batch,rank,device,lane,step,start_seconds,seconds\n"
                     "s0.F.m0,forward,0,0,0,n0:g0,compute,0,0.000000000,0.000001500\n"
                     "s0.F.m0,forward,0,0,0,n0:g0,compute,1,0.000001500,0.000000000\n"
                     "s0.F.m0,forward,0,0,0,n0:g0,compute,2,0.000002000,0.000000100\n"
                     "s0.A,all-reduce,0,,0,n0:g0,collective,0,0.000000100,0.000000050\n"
                     "s0.A,all-reduce,0,,0,n0:g0,collective,0,0.000000120,0.000000060\n"
                     "s0.A,all-reduce,0,,0,n0:g0,collective,0,0.000000140,0.000000020\n"
                     "?,other,,,0,n0:g0,collective,3,0.000000500,0.000000007\n"
                     "\"s1.B,m1\",backward,1,1,1,\"n0:g1, \"\"spare\"\"\",compute,0,1.000000007,0.000000003\n"));
    }

    void formOfTheName()
    {
        const trace::Trace made = sampleTrace();
        for (const auto &[name, format] :
             {std::pair("a.json", import::TraceFormat::Events), std::pair("a.pftrace", import::TraceFormat::Perfetto),
              std::pair("b.perfetto-trace", import::TraceFormat::Perfetto),
              std::pair("a.pltrace", import::TraceFormat::None)}) {
            QVERIFY(exporting::writeTraceAs(made, at(name)).ok());
            QCOMPARE(import::traceFormat(at(name)), format);
        }
        QCOMPARE(linesOfTrace(*trace::readTrace(at("a.pltrace"))), linesOfTrace(made));
        QCOMPARE(read(at("a.json")).records.size(), made.records.size());
    }
};

QTEST_GUILESS_MAIN(TestTraceExports)
#include "tst_trace_exports.moc"

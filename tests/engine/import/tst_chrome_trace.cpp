// SPDX-License-Identifier: Apache-2.0
#include "engine/export/export.h"
#include "engine/import/trace/chrome_trace.h"
#include "tests/engine/import/chrome_traces.h"

#include <QTemporaryDir>
#include <QTest>

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <map>

using namespace planloom;
using import::ForeignTrace;

namespace {

/// Stops after the first report.
class Impatient final : public Progress {
public:
    void report(double, std::string_view) override { m_stopped = true; }
    [[nodiscard]] bool stopped() const override { return m_stopped; }

private:
    bool m_stopped = false;
};

/// "rank/lane/task@start+duration s2" a slice.
std::vector<std::string> linesOf(const trace::Trace &trace)
{
    std::vector<std::string> lines;
    for (const trace::Record &r : trace.records)
        lines.push_back(trace.ranks.at(static_cast<std::size_t>(r.rank)).device + "/" + trace.lane(r.lane).name + "/"
                        + trace.tasks.at(static_cast<std::size_t>(r.task)).id + "@" + std::to_string(r.start) + "+"
                        + std::to_string(r.duration) + " s" + std::to_string(r.step));
    return lines;
}

bool hasNote(const ForeignTrace &read, const std::string &part)
{
    return std::any_of(read.notes.begin(), read.notes.end(),
                       [&](const std::string &note) { return note.find(part) != std::string::npos; });
}

} // namespace

class TestChromeTrace : public QObject {
    Q_OBJECT

private:
    std::string file(const std::string &text)
    {
        const std::string path = m_folder.filePath("trace.json").toStdString();
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }

    std::string packed(const std::string &text, std::size_t keep = std::string::npos)
    {
        const std::string path = m_folder.filePath("trace.json.gz").toStdString();
        gzFile out = gzopen(path.c_str(), "wb");
        gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
        gzclose(out);
        if (keep != std::string::npos)
            std::filesystem::resize_file(path, keep);
        return path;
    }

    static Result<ForeignTrace> read(const std::string &path)
    {
        NoProgress none;
        return import::readChromeTrace(path, none);
    }

    QTemporaryDir m_folder;

private Q_SLOTS:
    void ownExportComesBack()
    {
        trace::Trace trace;
        trace.clock = "cost";
        trace.kinds = trace::standardKinds();
        trace.lanes = {{"compute", trace::Work::Compute, 1}, {"send", trace::Work::Communication, 1}};
        trace.ranks = {{"n0:g0"}, {"n0:g1"}};
        trace.tasks = {{"s0.F.m0", trace::Kind::Forward, 0, 0, -1},
                       {"s0.F.m0>", trace::Kind::Send, 0, 0, 0},
                       {"s1.B.m0", trace::Kind::Backward, 1, 0, -1}};
        const std::int64_t start = 1'790'000'000'123'456'789;
        trace.records = {{start, 1001, 0, 4, 0, 0}, {start + 1001, 7, 1, 4, 0, 1}, {start + 1008, 999'999, 2, 5, 1, 0}};
        const auto back = read(file(exporting::chromeTrace(trace)));
        QVERIFY2(back, back ? "" : back.error().text().c_str());
        QCOMPARE(back->trace.clock, trace.clock);
        QVERIFY(back->notes.empty());
        const std::vector<std::string> expected{"n0:g0/compute/s0.F.m0@0+1001 s4", "n0:g0/send/s0.F.m0>@1001+7 s4",
                                                "n0:g1/compute/s1.B.m0@1008+999999 s5"};
        QCOMPARE(linesOf(back->trace), expected);
        for (std::size_t i = 0; i < 3; ++i) {
            const trace::TaskInfo &task = back->trace.tasks[static_cast<std::size_t>(back->trace.records[i].task)];
            QCOMPARE(task.kind, trace.tasks[i].kind);
            QCOMPARE(task.stage, trace.tasks[i].stage);
            QCOMPARE(task.microBatch, trace.tasks[i].microBatch);
        }
        QCOMPARE(back->trace.lane(1).work, trace::Work::Communication);
    }

    void profilerOfPyTorch()
    {
        const std::string &text = tests::kProfilerTrace;
        const auto plain = read(file(text));
        const auto compressed = read(packed(text));
        QVERIFY2(plain && compressed, plain ? "" : plain.error().text().c_str());
        const std::vector<std::string> expected{
            "python (CPU)/python thread 78/ProfilerStep#7@0+100000 s7",
            "python (CPU)/python thread 78 (2)/aten::linear@250+20500 s7",
            "python (CPU)/python thread 78 (3)/aten::addmm@2125+10000 s7",
            "python (CPU)/python thread 78 (4)/cudaLaunchKernel@3000+2000 s7",
            "python (GPU 0)/stream 7/sm90_gemm@20001+5999 s7",
            "python (GPU 0)/thread 20/ncclDevKernel_AllReduce_Sum_f32_RING_LL@21000+9000 s7"};
        QCOMPARE(linesOf(plain->trace), expected);
        QCOMPARE(linesOf(compressed->trace), expected);
        const auto kindOf = [&](std::size_t record) {
            const auto task = static_cast<std::size_t>(plain->trace.records[record].task);
            return plain->trace.kind(plain->trace.tasks[task].kind);
        };
        QCOMPARE(kindOf(4).name, std::string("kernel"));
        QCOMPARE(kindOf(4).work, trace::Work::Compute);
        QCOMPARE(kindOf(5).name, trace::standard(trace::Kind::AllReduce).name);
        QVERIFY(hasNote(*plain, "2 flows are not shown"));
        QVERIFY(hasNote(*plain, "1 instants are not shown"));
        QCOMPARE(plain->trace.dropped, 0);
    }

    void listsOfBeginsAndEnds()
    {
        // A list, which may lack its end; ends close the last begin of their thread.
        const auto read1 = read(file(tests::kBeginsAndEnds));
        QVERIFY2(read1, read1 ? "" : read1.error().text().c_str());
        const std::vector<std::string> expected{"process 1/thread 1/outer@0+5000 s0",
                                                "process 1/thread 1 (2)/inner@1000+1000 s0"};
        QCOMPARE(linesOf(read1->trace), expected);
        QCOMPARE(read1->trace.dropped, 2);
        QVERIFY(hasNote(*read1, "2 begins or ends"));
        QVERIFY(hasNote(*read1, "cut short"));
    }

    void everySliceIsKeptAndNoneOverlaps()
    {
        // Random slices on few threads against the same counts.
        std::string text = "[";
        std::map<std::string, int> wanted;
        std::uint64_t state = 1;
        const auto random = [&](std::uint64_t below) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            return (state >> 33) % below;
        };
        for (int i = 0; i < 20'000; ++i) {
            const std::string name = "op" + std::to_string(random(50));
            ++wanted[name];
            const auto process = static_cast<int>(random(3));
            const auto thread = static_cast<int>(random(3));
            const std::string start = std::to_string(random(1'000'000));
            text += (i ? "," : "") + tests::slice(name, start, std::to_string(random(100)), process, thread);
        }
        const auto result = read(file(text + "]"));
        QVERIFY(result);
        std::map<std::string, int> found;
        const trace::Trace &trace = result->trace;
        for (std::size_t i = 0; i < trace.records.size(); ++i) {
            const trace::Record &r = trace.records[i];
            ++found[trace.tasks[static_cast<std::size_t>(r.task)].id];
            if (i == 0 || trace.records[i - 1].rank != r.rank || trace.records[i - 1].lane != r.lane)
                continue;
            QVERIFY(trace.records[i - 1].start + trace.records[i - 1].duration <= r.start);
        }
        QVERIFY(found == wanted);
        QCOMPARE(trace.ranks.size(), std::size_t{3});
    }

    void damagedFilesSayWhatTheyLack_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<QByteArray>("message"); ///< of the error; empty: it is read
        QTest::addColumn<QByteArray>("note");
        const auto sliceOf = [](const char *start, const char *duration) {
            return QByteArray::fromStdString(tests::slice("a", start, duration));
        };
        const QByteArray slice = sliceOf("1", "1");
        QTest::newRow("empty") << QByteArray() << QByteArray("no JSON object or list") << QByteArray();
        QTest::newRow("words") << QByteArray("hello") << QByteArray("no JSON object or list") << QByteArray();
        QTest::newRow("no events") << QByteArray("{\"a\": 1}") << QByteArray("no events of a trace") << QByteArray();
        QTest::newRow("empty list") << QByteArray("{\"traceEvents\": []}") << QByteArray("no events") << QByteArray();
        QTest::newRow("no list") << QByteArray("{\"traceEvents\": 7}") << QByteArray("no events") << QByteArray();
        QTest::newRow("brackets") << QByteArray("[" + slice + ",\n}]") << QByteArray(":2: an event is expected here")
                                  << QByteArray();
        QTest::newRow("cut in an event") << QByteArray("[" + slice + ",{\"ph\":\"X\",\"na") << QByteArray()
                                         << QByteArray("cut short");
        QTest::newRow("cut in the object")
            << QByteArray("{\"traceEvents\":[" + slice + "], \"x\"") << QByteArray() << QByteArray("cut short");
        QTest::newRow("cut in a name") << QByteArray("{\"traceEvents\":[" + slice + "], \"x") << QByteArray()
                                       << QByteArray("cut short");
        QTest::newRow("malformed event") << QByteArray("[" + slice + ",{\"ph\" \"X\"}]") << QByteArray()
                                         << QByteArray("1 events are malformed");
        QTest::newRow("2^63") << QByteArray("[" + slice + "," + sliceOf("9223372036854775808", "1") + "]")
                              << QByteArray() << QByteArray("1 slices have no valid times");
        QTest::newRow("1e300") << QByteArray("[" + slice + "," + sliceOf("1e300", "1") + "]") << QByteArray()
                               << QByteArray("1 slices have no valid times");
        QTest::newRow("long") << QByteArray("[" + slice + "," + sliceOf("9e15", "9e15") + "]") << QByteArray()
                              << QByteArray("1 slices have no valid times");
        QTest::newRow("backwards") << QByteArray("[" + slice + "," + sliceOf("5", "-1") + "]") << QByteArray()
                                   << QByteArray("1 slices have no valid times");
        QTest::newRow("a million deep") << QByteArray(
            "[" + slice + ",{\"ph\":\"X\",\"args\":" + QByteArray(1'000'000, '[') + QByteArray(1'000'000, ']') + "}]")
                                        << QByteArray() << QByteArray("1 slices have no valid times");
        QTest::newRow("too long") << QByteArray("[" + slice + ",{\"name\":\"" + QByteArray(17 << 20, 'x') + "\"}]")
                                  << QByteArray("longer than 16 MiB") << QByteArray();
    }

    void damagedFilesSayWhatTheyLack()
    {
        QFETCH(QByteArray, text);
        QFETCH(QByteArray, message);
        QFETCH(QByteArray, note);
        const auto result = read(file(text.toStdString()));
        QCOMPARE(result.operator bool(), message.isEmpty());
        if (!result) {
            QVERIFY2(result.error().text().find(message.toStdString()) != std::string::npos,
                     result.error().text().c_str());
            return;
        }
        QCOMPARE(result->trace.records.size(), std::size_t{1});
        QVERIFY2(hasNote(*result, note.toStdString()), result->notes.empty() ? "none" : result->notes.front().c_str());
    }

    void archivesThatEndTooEarly()
    {
        std::string text = "[";
        for (int i = 0; i < 5000; ++i)
            text += (i ? "," : "") + tests::slice("n" + std::to_string(i * 7919 % 5000), std::to_string(i * 2), "1");
        const auto whole = read(packed(text + "]"));
        QVERIFY(whole);
        QCOMPARE(whole->trace.records.size(), std::size_t{5000});
        const auto cut = read(packed(text + "]", std::filesystem::file_size(packed(text + "]")) / 2));
        QVERIFY2(cut, cut ? "" : cut.error().text().c_str());
        QVERIFY(!cut->trace.records.empty() && cut->trace.records.size() < 5000);
        QVERIFY(hasNote(*cut, "ends too early"));
    }

    void readingCanBeStopped()
    {
        std::string text = "[";
        for (int i = 0; i < 40'000; ++i)
            text += (i ? "," : "") + tests::slice("a", "1", "0");
        Impatient user;
        const auto stopped = import::readChromeTrace(file(text + "]"), user);
        QVERIFY(!stopped);
        QCOMPARE(stopped.error().code, ErrorCode::Cancelled);
        QCOMPARE(read("/nowhere/at/all.json").error().code, ErrorCode::Io);
    }
};

QTEST_GUILESS_MAIN(TestChromeTrace)
#include "tst_chrome_trace.moc"

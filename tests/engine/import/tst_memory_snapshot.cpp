// SPDX-License-Identifier: Apache-2.0
#include "engine/import/snapshot/memory_snapshot.h"
#include "engine/import/snapshot/pickle.h"

#include <QProcess>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>

using namespace planloom;
using namespace planloom::import;
using namespace std::string_view_literals;

namespace {

/// What torch.cuda.memory._snapshot() returns, in a small form.
const char *kScript = R"(
import pickle, sys
linear = {'name': 'forward', 'filename': '/usr/lib/python3/dist-packages/torch/nn/linear.py', 'line': 116}
mine = {'name': 'loss', 'filename': '/job/größe.py', 'line': 12}
stack = [linear, mine]
big = 0x7f0000000000 + (1 << 34)
snapshot = {
 'segments': [
  {'device': 0, 'address': big, 'total_size': 2097152, 'stream': 0, 'segment_type': 'small', 'is_expandable': False,
   'segment_pool_id': (0, 0), 'allocated_size': 1536, 'active_size': 1536, 'requested_size': 1400, 'frames': stack,
   'blocks': [
    {'address': big, 'size': 512, 'requested_size': 400, 'state': 'active_allocated', 'frames': stack},
    {'address': big + 512, 'size': 1024, 'requested_size': 1000, 'state': 'active_pending_free', 'frames': [mine]},
    {'address': big + 1536, 'size': 2095616, 'requested_size': 0, 'state': 'inactive', 'frames': []}]},
  {'device': 1, 'address': 1 << 63, 'total_size': 20971520, 'stream': 3, 'segment_type': 'large', 'is_expandable': True,
   'blocks': [{'size': 20971520, 'state': 'inactive'}]}],
 'device_traces': [
  [{'action': 'segment_alloc', 'addr': big, 'size': 2097152, 'stream': 0, 'time_us': 1700000000000000, 'frames': stack},
   {'action': 'alloc', 'addr': big, 'size': 400, 'stream': 0, 'time_us': 1700000000000010, 'frames': stack},
   {'action': 'alloc', 'addr': big + 4096, 'size': 3000, 'stream': 0, 'time_us': 1700000000000020, 'frames': [mine]},
   {'action': 'free_requested', 'addr': big + 4096, 'size': 3000, 'stream': 0, 'time_us': 1700000000000030},
   {'action': 'free_completed', 'addr': big + 4096, 'size': 3000, 'stream': 0, 'time_us': 1700000000000040},
   {'action': 'oom', 'device_free': 77, 'size': 5, 'stream': 0, 'time_us': 1700000000000050},
   {'action': 'snapshot', 'addr': 0, 'size': 0, 'stream': 0, 'time_us': 1700000000000060}],
  []],
 'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': '', 'max_split_size': -1, 'garbage_collection_threshold': 0.25,
                        'expandable_segments': True, 'roundup_power2_divisions': {'1': 0}},
 'external_annotations': [], 'nothing': None, 'huge': -(1 << 62)}
if len(sys.argv) > 3:
    snapshot = eval(sys.argv[3], {'snapshot': snapshot})
open(sys.argv[1], 'wb').write(pickle.dumps(snapshot, protocol=int(sys.argv[2])))
)";

/// SHORT_BINUNICODE.
std::string text(std::string_view words)
{
    return "\x8c" + std::string(1, static_cast<char>(words.size())) + std::string(words);
}

std::string errorOf(std::string_view bytes)
{
    const auto made = readPickle(bytes);
    return made ? "none" : made.error().message;
}

} // namespace

class TestMemorySnapshot : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_folder;
    QString m_python;

    /// What Python pickles; empty: it failed.
    QByteArray pickled(int protocol, const QString &expression = {})
    {
        const QString file = m_folder.filePath("snap.pickle");
        QStringList arguments{"-c", QString::fromUtf8(kScript), file, QString::number(protocol)};
        if (!expression.isEmpty())
            arguments << expression;
        QProcess python;
        python.start(m_python, arguments);
        if (!python.waitForFinished(60'000) || python.exitCode() != 0) {
            qWarning("%s", python.readAllStandardError().constData());
            return {};
        }
        QFile read(file);
        return read.open(QIODevice::ReadOnly) ? read.readAll() : QByteArray();
    }

private Q_SLOTS:
    void initTestCase() { m_python = QStandardPaths::findExecutable("python3"); }

    void pythonsPickles_data()
    {
        QTest::addColumn<int>("protocol");
        for (int protocol = 0; protocol <= 5; ++protocol)
            QTest::newRow(qPrintable(QString("protocol %1").arg(protocol))) << protocol;
    }
    void pythonsPickles()
    {
        QFETCH(int, protocol);
        if (m_python.isEmpty())
            QSKIP("there is no python3 to make a pickle");
        const QByteArray bytes = pickled(protocol);
        QVERIFY(!bytes.isEmpty());
        const auto made = readMemorySnapshot(bytes.toStdString(), "snap.pickle");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        const std::uint64_t big = 0x7f0000000000 + (std::uint64_t{1} << 34);
        QCOMPARE(made->segments.size(), std::size_t{2});
        QCOMPARE(made->segments[0].address, big);
        QCOMPARE(made->segments[1].address, std::uint64_t{1} << 63);
        QVERIFY(made->segments[1].isLarge && made->segments[1].isExpandable && !made->segments[0].isExpandable);
        QCOMPARE(made->segments[1].stream, 3);
        QCOMPARE(made->blocks.size(), std::size_t{4});
        QCOMPARE(made->blocks[1].address, big + 512);
        QCOMPARE(made->blocks[1].requested, 1000);
        QCOMPARE(made->blocks[1].state, trace::Allocations::State::PendingFree);
        QCOMPARE(made->blocks[3].address, std::uint64_t{1} << 63); // as its segment
        QCOMPARE(made->stacks(), std::size_t{2});
        QCOMPARE(made->frameText(made->ownFrame(made->blocks[0].stack)), std::string("loss, /job/größe.py:12"));
        QCOMPARE(made->blocks[2].stack, -1);
        QCOMPARE(made->events.size(), std::size_t{2});
        QCOMPARE(made->events[0].size(), std::size_t{7});
        QCOMPARE(made->events[0][2].time, 20'000);
        QCOMPARE(made->events[0][5].address, std::uint64_t{77});
        QCOMPARE(made->events[0][6].action, trace::Allocations::Action::Other);
        const trace::DeviceMemory memory = trace::deviceMemory(*made, 0);
        QCOMPARE(memory.atBegin, 1000);
        QCOMPARE(memory.peak, 4400);
        QCOMPARE(memory.peakEvent, 2);
        QCOMPARE(memory.reserved, 2097152);
        QCOMPARE(memory.fragmented, 2097152 - 1536);
        QCOMPARE(memory.outOfMemory, 1);
        QCOMPARE(trace::deviceMemory(*made, 1).fragmented, 0);
    }

    void olderForms()
    {
        if (m_python.isEmpty())
            QSKIP("there is no python3 to make a pickle");
        const auto segments = readMemorySnapshot(pickled(2, "snapshot['segments']").toStdString(), "a");
        QVERIFY2(segments.ok(), segments ? "" : segments.error().text().c_str());
        QVERIFY(segments->events.empty());
        QCOMPARE(trace::deviceMemory(*segments, 0).peak, 1400);
        // PyTorch 2.0: blocks with a history of their allocations, without addresses.
        const auto older = readMemorySnapshot(
            pickled(2,
                    "[{'device': 0, 'address': 64, 'total_size': 100, 'blocks': [{'size': 60, 'state': "
                    "'active_allocated', 'history': [{'addr': 64, 'real_size': 50, 'frames': [{'name': 'f', "
                    "'filename': 'm.py', 'line': 3}]}]}, {'size': 40, 'state': 'inactive'}]}]")
                .toStdString(),
            "b");
        QVERIFY2(older.ok(), older ? "" : older.error().text().c_str());
        QCOMPARE(older->blocks[1].address, std::uint64_t{124});
        QCOMPARE(older->frameText(older->ownFrame(older->blocks[0].stack)), std::string("f, m.py:3"));
    }

    void whatIsMissingIsNamed_data()
    {
        QTest::addColumn<QString>("expression");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *expression, const char *says) {
            QTest::newRow(expression) << expression << says;
        };
        row("3", "holds no memory snapshot");
        row("{'a': 1}", "no list \"segments\"");
        row("[1]", "segments[0] is no dict");
        row("[{'device': 0}]", "segments[0].total_size is missing; a whole number from 0");
        row("[{'device': 'x', 'total_size': 1}]", "segments[0].device is of another kind");
        row("[{'device': 5000, 'total_size': 1}]", "segments[0].device is 5000");
        row("[{'device': 0, 'total_size': -1}]", "segments[0].total_size is -1");
        row("[{'device': 0, 'total_size': 9, 'blocks': [7]}]", "segments[0].blocks[0] is no dict");
        row("[{'device': 0, 'total_size': 9, 'blocks': [{'size': 1, 'state': 'lost'}]}]", "state is \"lost\"");
        row("[{'device': 0, 'total_size': 9, 'frames': [1]}]", "segments[0].frames has what is no dict");
        row("{'segments': [], 'device_traces': [[3]]}", "device_traces[0][0] is no dict");
        row("{'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': 1}]]}",
            "device_traces[0][0].size is missing");
        row("{'segments': [], 'device_traces': [[]] * 5000}", "device_traces has 5000 devices");
        // One dict in many places: a short file that stands for much.
        row("[{'device': 0, 'total_size': 1, 'blocks': [{'size': 1, 'state': 'inactive'}] * 1000}] * 1000",
            "in too many places");
        row("[{'device': 0, 'total_size': 1 << 50, 'blocks': []}] * 4000", "add up to more than 64 bits");
        row("print", "STACK_GLOBAL is not of plain data");
        row("b'bytes'", "SHORT_BINBYTES is not of plain data");
        row("{1, 2}", "EMPTY_SET is not of plain data");
        row("1 << 80", "an integer has 11 bytes");
    }
    void whatIsMissingIsNamed()
    {
        QFETCH(QString, expression);
        QFETCH(QString, says);
        if (m_python.isEmpty())
            QSKIP("there is no python3 to make a pickle");
        const auto made = readMemorySnapshot(pickled(4, expression).toStdString(), "snap.pickle");
        QVERIFY(!made.ok());
        QVERIFY2(QString::fromStdString(made.error().message).contains(says), made.error().text().c_str());
        QCOMPARE(made.error().file, std::string("snap.pickle"));
    }

    void values()
    {
        // A list of all kinds, byte by byte.
        const std::string bytes(
            "\x80\x04]q\x01(N\x88\x89K\x05M\x00\x01J\xff\xff\xff\xff\x8a\x01\x80\x8b\x02\x00\x00\x00\x00\x80"
            "I7\nI01\nL-9L\nF2.5\nG\x3f\xf0\x00\x00\x00\x00\x00\x00X\x02\x00\x00\x00\xc3\xa4V\\u00e4b\n"
            "\x8d\x01\x00\x00\x00\x00\x00\x00\x00z)K\x01\x85K\x02K\x03\x86(K\x01t}K\x01K\x02se."sv);
        const auto made = readPickle(bytes);
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        const auto items = made->items(made->root());
        QCOMPARE(items.size(), std::size_t{21});
        QCOMPARE(made->kind(items[0]), Pickle::Kind::None);
        const std::vector<std::pair<std::size_t, std::int64_t>> numbers{{1, 1},  {2, 0},    {3, 5},      {4, 256},
                                                                        {5, -1}, {6, -128}, {7, -32768}, {8, 7},
                                                                        {9, 1},  {10, -9}};
        for (const auto &[at, value] : numbers)
            QCOMPARE(made->integer(items[at]).value_or(12345), value);
        QCOMPARE(made->kind(items[9]), Pickle::Kind::Bool);
        QCOMPARE(made->kind(items[11]), Pickle::Kind::Real);
        QVERIFY(!made->integer(items[11]) && !made->text(items[11]));
        QCOMPARE(made->text(items[13]).value(), "\u00e4"sv);
        QCOMPARE(made->text(items[14]).value(), "\u00e4b"sv);
        QCOMPARE(made->text(items[15]).value(), "z"sv);
        QCOMPARE(made->items(items[16]).size(), std::size_t{0});
        QCOMPARE(made->items(items[17]).size(), std::size_t{1});
        QCOMPARE(made->items(items[18]).size(), std::size_t{2});
        QCOMPARE(made->items(items[19]).size(), std::size_t{1});
        QCOMPARE(made->pairs(items[20]).size(), std::size_t{2});
    }

    void memo()
    {
        // The same list twice, and a list in itself.
        const auto twice = readPickle("](]q\x00K\x01"
                                      "ah\x00"
                                      "e."sv);
        QVERIFY2(twice.ok(), twice ? "" : twice.error().text().c_str());
        QCOMPARE(twice->items(twice->root())[0], twice->items(twice->root())[1]);
        const auto itself = readPickle("]\x94h\x00"
                                       "a."sv);
        QVERIFY(itself.ok());
        QCOMPARE(itself->items(itself->root())[0], itself->root());
        QVERIFY(!readMemorySnapshot("]\x94h\x00"
                                    "a."sv,
                                    "itself")
                     .ok());
        const std::string bytes = "}(" + text("a") + "K\x01" + text("a") + "K\x02u."; // values point into it
        const auto last = readPickle(bytes);
        QVERIFY(last.ok());
        QCOMPARE(last->integer(*last->find(last->root(), "a")).value(), 2);
        QVERIFY(!last->find(last->root(), "b"));
    }

    void hostile()
    {
        const auto says = [](std::string_view bytes, const char *part) {
            const std::string error = errorOf(bytes);
            return error.find(part) != std::string::npos ? QByteArray()
                                                         : QByteArray::fromStdString(error + " does not say " + part);
        };
#define SAYS(bytes, part) QCOMPARE(says(bytes, part), QByteArray())
        // Calls, by what protocols have for them.
        SAYS("cposix\nsystem\n(S'true'\ntR."sv, "byte 0: the opcode GLOBAL is not of plain data");
        SAYS(text("os") + text("system") + "\x93.", "byte 12: the opcode STACK_GLOBAL");
        SAYS("(K\x01R."sv, "byte 3: the opcode REDUCE");
        SAYS("K\x01K\x02\x81."sv, "byte 4: the opcode NEWOBJ");
        SAYS("K\x01"
             "b."sv,
             "BUILD");
        SAYS("(iposix\nsystem\n."sv, "INST");
        SAYS("P1\n."sv, "PERSID");
        SAYS("\x82\x01."sv, "EXT1");
        SAYS("\xfe."sv, "the opcode 0xfe");
        // Lengths and what is cut short.
        SAYS(""sv, "byte 0: 1 bytes are promised and 0 are left");
        SAYS("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"
             "abc"sv,
             "9223372036854775807 bytes are promised and 3 are left");
        SAYS("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"sv, "bytes are promised and 0 are left");
        SAYS("X\xff\xff\xff\xffx."sv, "4294967295 bytes are promised");
        SAYS("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f."sv, "a frame is longer than the file");
        SAYS("\x8b\xff\xff\xff\xff."sv, "bytes are promised");
        SAYS("\x80\x04]"sv, "byte 3: 1 bytes are promised and 0 are left");
        SAYS("I12"sv, "a line has no end");
        SAYS("G\x3f."sv, "8 bytes are promised");
        SAYS("\x80\x06."sv, "protocol above 5");
        // Stacks that do not add up.
        SAYS("."sv, "ends with 0 values on its stack");
        SAYS("NN."sv, "ends with 2 values");
        SAYS("(N."sv, "ends with 1 values"); // the mark is left
        SAYS("e."sv, "a mark is missing");
        SAYS("a."sv, "too few values");
        SAYS("\x87."sv, "too few values");
        SAYS("]N(a."sv, "too few values"); // beneath the mark
        SAYS("(Nd."sv, "a key without its value");
        SAYS("}(Nu."sv, "no list or dict");
        SAYS("NNa."sv, "no list or dict");
        SAYS("]NNs."sv, "no list or dict");
        SAYS(std::string(65, '(') + ".", "nested deeper than 64");
        // The memo.
        SAYS("h\x00."sv, "that the memo does not have");
        SAYS("Nr\xff\xff\xff\xff."sv, "larger than the file");
        SAYS("gx\n."sv, "a number of the memo is none");
        SAYS("q\x00."sv, "too few values");
        // Numbers and texts that are none.
        SAYS("Ix\n."sv, "an integer is none");
        SAYS("L99999999999999999999L\n."sv, "more than 64 bits");
        SAYS("Fx\n."sv, "a number is none");
        SAYS("V\\u12\n."sv, "a character that is none");
        SAYS("V\\Uffffffff\n."sv, "a character that is none");
#undef SAYS
    }

    /// Whatever a good file loses at its end, the answer is one error.
    void everyCut()
    {
        if (m_python.isEmpty())
            QSKIP("there is no python3 to make a pickle");
        const std::string bytes = pickled(4).toStdString();
        QVERIFY(bytes.size() > 500);
        for (std::size_t size = 0; size < bytes.size(); ++size)
            QVERIFY(!readMemorySnapshot(std::string_view(bytes).substr(0, size), "cut").ok());
    }

    void toldApart()
    {
        QVERIFY(isPickle("a", "\x80\x04"sv) && isPickle("snap.pickle", "(l") && isPickle("snap.pkl", ""));
        QVERIFY(!isPickle("a", "\x80\x06"sv) && !isPickle("a", "") && !isPickle("a.json", "{}"));
        QCOMPARE(readMemorySnapshot(m_folder.filePath("nothing").toStdString()).error().code, ErrorCode::NotFound);
    }
};

QTEST_GUILESS_MAIN(TestMemorySnapshot)
#include "tst_memory_snapshot.moc"

// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/export/export.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>

using namespace planloom;

namespace {

trace::Trace smallTrace()
{
    trace::Trace trace;
    trace.clock = "cost";
    trace.lanes = {{"compute", trace::Work::Compute, 1},
                   {"send", trace::Work::Communication, 1},
                   {"copy \"in\"", trace::Work::Communication, 1}};
    trace.kinds = trace::standardKinds();
    trace.ranks = {{"n0:g0"}, {"a \"quoted\" name"}};
    trace.tasks = {{"s0.F.m0", trace::Kind::Forward, 0, 0}, {"s1.B.m0", trace::Kind::Backward, 1, 0}};
    trace.records = {{1500, 2'000'001, 0, 0, 0, 0}, {3'600'000'000'000'123, 7, 1, 4, 1, 2}};
    trace.dropped = 3;
    return trace;
}

/// A Program of compute orders only: what the schedule export reads. @p replicas ranks per stage.
program::Program programOf(const std::vector<std::string> &orders, const std::vector<int> &replicas)
{
    program::Program program;
    for (std::size_t stage = 0; stage < orders.size(); ++stage) {
        for (int replica = 0; replica < replicas[stage]; ++replica) {
            program::Rank rank;
            for (std::size_t at = 0; at < orders[stage].size(); at += 2) {
                program::Task task;
                const char pass = orders[stage][at];
                task.payload = program::Compute{pass == 'F'       ? program::Pass::Forward
                                                    : pass == 'B' ? program::Pass::Backward
                                                                  : program::Pass::Recompute};
                task.rank = RankId(static_cast<std::int64_t>(program.ranks.size()));
                task.stage = StageId(static_cast<std::int64_t>(stage));
                task.microBatch = orders[stage][at + 1] - '0';
                rank.computeOrder().push_back(TaskId(static_cast<std::int64_t>(program.tasks.size())));
                program.tasks.push_back(task);
            }
            program.ranks.push_back(rank);
        }
    }
    return program;
}

/// x -> MatMul(w) -> Relu ... in two scopes, with a skip from the input to the end.
graph::Graph smallGraph(int depth)
{
    graph::GraphBuilder builder("small");
    const TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({4}));
    TensorId last = x;
    builder.pushScope("body");
    for (int i = 0; i < depth; ++i) {
        builder.pushScope(std::to_string(i));
        last = builder.add("Relu", {last});
        builder.popScope();
    }
    builder.popScope();
    builder.output(builder.add("Add", {last, x}));
    return *std::move(builder).build();
}

} // namespace

class TestExport : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void chromeTraceIsJsonWithEveryRecord()
    {
        const std::string text = exporting::chromeTrace(smallTrace());
        QJsonParseError error;
        const QJsonObject root = QJsonDocument::fromJson(QByteArray::fromStdString(text), &error).object();
        QCOMPARE(error.error, QJsonParseError::NoError);
        QCOMPARE(root["otherData"].toObject()["dropped"].toString(), QString("3"));
        const QJsonArray events = root["traceEvents"].toArray();
        QStringList names;
        QList<QJsonObject> slices;
        for (const auto &value : events) {
            const QJsonObject event = value.toObject();
            if (event["ph"] == "M")
                names << event["args"].toObject()["name"].toString();
            else
                slices << event;
        }
        QCOMPARE(names, QStringList({"rank 0: n0:g0", "rank 1: a \"quoted\" name", "compute", "copy \"in\""}));
        QCOMPARE(slices.size(), 2);
        QCOMPARE(slices[0]["name"].toString(), QString("s0.F.m0"));
        QCOMPARE(slices[0]["cat"].toString(), QString("forward"));
        QCOMPARE(slices[0]["ts"].toDouble(), 1.5);
        QCOMPARE(slices[0]["dur"].toDouble(), 2000.001);
        QCOMPARE(slices[1]["pid"].toInt(), 1);
        QCOMPARE(slices[1]["tid"].toInt(), 2);
        QCOMPARE(slices[1]["args"].toObject()["step"].toInt(), 4);
        QVERIFY(text.find("\"ts\":3600000000000.123") != std::string::npos); // all nanoseconds of an hour-long run
    }

    void chromeTraceOfNothing()
    {
        const QJsonDocument document =
            QJsonDocument::fromJson(QByteArray::fromStdString(exporting::chromeTrace(trace::Trace{})));
        QVERIFY(document.object()["traceEvents"].isArray());
        QCOMPARE(document.object()["traceEvents"].toArray().size(), 0);
    }

    void chromeTraceComesInPiecesAndStopsAtAnError()
    {
        trace::Trace trace = smallTrace();
        trace.records.resize(5000, trace.records.front());
        std::size_t pieces = 0, longest = 0;
        std::string whole;
        QVERIFY(exporting::chromeTrace(trace, [&](std::string_view piece) -> Status {
                    ++pieces;
                    longest = std::max(longest, piece.size());
                    whole += piece;
                    return {};
                }).ok());
        QVERIFY(pieces > 5);
        QVERIFY(longest < 70'000);
        QCOMPARE(whole, exporting::chromeTrace(trace));

        int calls = 0;
        const Status stopped = exporting::chromeTrace(trace, [&](std::string_view) -> Status {
            return ++calls == 3 ? Status(ioError("full")) : Status{};
        });
        QCOMPARE(stopped.error().message, std::string("full"));
        QCOMPARE(calls, 3);
    }

    void chromeTraceFileAppearsWholeOrNotAtAll()
    {
        QTemporaryDir folder;
        const std::string path = folder.filePath("t.json").toStdString();
        QVERIFY(exporting::writeChromeTrace(smallTrace(), path).ok());
        QCOMPARE(*readFile(path), exporting::chromeTrace(smallTrace()));
        QCOMPARE(exporting::writeChromeTrace(smallTrace(), folder.filePath("none/t.json").toStdString()).error().code,
                 ErrorCode::Io);
        QCOMPARE(QDir(folder.path()).entryList(QDir::Files), QStringList("t.json"));
    }

    void pytorchSchedule_data()
    {
        QTest::addColumn<QStringList>("orders");
        QTest::addColumn<QList<int>>("replicas");
        QTest::addColumn<QString>("passes");
        QTest::addColumn<QString>("all");
        // By hand: two stages, two micro-batches, 1f1b.
        QTest::newRow("1f1b") << QStringList{"F0F1B0B1", "F0B0F1B1"} << QList<int>{1, 1}
                              << "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
                              << "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
                                 "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\n";
        QTest::newRow("one stage") << QStringList{"F0B0F1B1"} << QList<int>{2} << "0F0,0B0,0F1,0B1\n"
                                   << "0UNSHARD,0F0,0B0,0F1,0B1,0REDUCE_GRAD,0RESHARD\n";
        QTest::newRow("recompute is left out") << QStringList{"F0R0B0"} << QList<int>{1} << "0F0,0B0\n"
                                               << "0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n";
        QTest::newRow("replicas share a line")
            << QStringList{"F0B0", "F0B0"} << QList<int>{2, 2} << "0F0,0B0\n1F0,1B0\n"
            << "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
               "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\n";
    }

    void pytorchSchedule()
    {
        QFETCH(QStringList, orders);
        QFETCH(QList<int>, replicas);
        QFETCH(QString, passes);
        QFETCH(QString, all);
        std::vector<std::string> texts;
        for (const QString &order : orders)
            texts.push_back(order.toStdString());
        const program::Program program = programOf(texts, {replicas.begin(), replicas.end()});
        for (const auto form : {exporting::PytorchForm::ComputeOnly, exporting::PytorchForm::ComputeComms}) {
            const auto made = exporting::pytorchScheduleCsv(program, form);
            QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
            QCOMPARE(QString::fromStdString(made->text), form == exporting::PytorchForm::ComputeOnly ? passes : all);
        }
    }

    /// The file has no place for its form: the notes say it, with the call that loads it and the releases that can.
    void pytorchScheduleSaysItsForm()
    {
        const program::Program program = programOf({"F0F1B0B1", "F0B0F1B1"}, {1, 1});
        const auto passes = exporting::pytorchScheduleCsv(program, exporting::PytorchForm::ComputeOnly);
        QVERIFY(passes.ok());
        QCOMPARE(passes->notes.front(),
                 std::string(
                     "form compute_only of torch.distributed.pipelining, for PyTorch 2.6 and later: "
                     "_PipelineScheduleRuntime(stages, n_microbatches=2, loss_fn=...)._load_csv('FILE') on each "
                     "of 2 ranks of the pipeline, a line each"));
        const auto all = exporting::pytorchScheduleCsv(program, exporting::PytorchForm::ComputeComms);
        QVERIFY(all.ok());
        const QString note = QString::fromStdString(all->notes.front());
        QVERIFY2(note.contains("form compute_comms") && note.contains("PyTorch 2.10 and later")
                     && note.contains("_load_csv('FILE', format='compute_comms')"),
                 qPrintable(note));
        QVERIFY2(all->notes[1].find("REDUCE_GRAD") != std::string::npos, all->notes[1].c_str());
    }

    void pytorchScheduleRefuses()
    {
        constexpr auto kPasses = exporting::PytorchForm::ComputeOnly;
        const auto unequal = exporting::pytorchScheduleCsv(programOf({"F0B0", "F0B0"}, {2, 1}), kPasses);
        QCOMPARE(unequal.error().code, ErrorCode::Unsupported);
        const auto stuck = exporting::pytorchScheduleCsv(programOf({"B0F0", "F0B0"}, {1, 1}), kPasses);
        QCOMPARE(stuck.error().code, ErrorCode::BadInput);
        QVERIFY(stuck.error().message.find("0B0") != std::string::npos);
        QCOMPARE(exporting::pytorchScheduleCsv(program::Program{}, kPasses).error().code, ErrorCode::BadInput);
    }

    void dotHasScopesColoursAndStubs()
    {
        const graph::Graph graph = smallGraph(12);
        graph::LayerView layers;
        layers.layers = {{"a", OpId(0), OpId(6)}, {"b", OpId(6), OpId(13)}};
        plan::Plan plan;
        plan.stages.resize(2);
        plan.stages[0].lastLayer = plan.stages[1].firstLayer = 1;
        plan.stages[1].lastLayer = 2;
        const std::string dot = exporting::graphvizDot(graph, &plan, &layers);
        QVERIFY(dot.find("subgraph \"cluster/body/0\"") != std::string::npos);
        QVERIFY2(dot.find("(s0)") != std::string::npos, dot.c_str());
        QVERIFY2(dot.find("label=\"Add (s1)\"") != std::string::npos, dot.c_str());
        QVERIFY(dot.find("[label=\"from x\"") != std::string::npos); // spans 12 ranks: a stub
        QVERIFY(exporting::graphvizDot(smallGraph(3), nullptr, nullptr).find("stub") == std::string::npos);
    }

    void dotIsReadByGraphviz()
    {
        const QString dot = QStandardPaths::findExecutable("dot");
        QVERIFY(!dot.isEmpty());
        QProcess process;
        process.start(dot, {"-Tplain"});
        process.write(QByteArray::fromStdString(exporting::graphvizDot(smallGraph(12), nullptr, nullptr)));
        process.closeWriteChannel();
        QVERIFY(process.waitForFinished());
        QCOMPARE(process.exitCode(), 0);
        const QList<QByteArray> lines = process.readAllStandardOutput().split('\n');
        const auto nodes =
            std::count_if(lines.begin(), lines.end(), [](const QByteArray &line) { return line.startsWith("node "); });
        QCOMPARE(nodes, 13 + 1 + 1); // operators, the input, one stub
    }

    void formatsAreNamedOnce()
    {
        QStringList names;
        for (const auto &format : exporting::formats())
            names << QString::fromStdString(format.name);
        QCOMPARE(names.removeDuplicates(), 0);
        QVERIFY(names.contains("chrome-trace") && names.contains("pytorch-csv") && names.contains("svg")
                && names.contains("safetensors"));
    }
};

QTEST_GUILESS_MAIN(TestExport)
#include "tst_export.moc"

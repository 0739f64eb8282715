// SPDX-License-Identifier: Apache-2.0
// Drives the real planloom command. PLANLOOM_UPDATE_GOLDEN=1 rewrites tests/app/golden; look at the difference before
// committing it.
#include "app/cli_fixture.h"

#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QSet>
#include <QTest>

using namespace planloom::testing;

namespace {

QStringList keysOf(const QJsonObject &object) { return object.keys(); } // sorted by Qt

} // namespace

class TestCli : public CliTest {
    Q_OBJECT

private:
    void makePlan(const QString &name, const QString &cluster = "preset:h100-8",
                  const QString &planner = "data-parallel") const
    {
        const Done done = run({"plan", "--model", "zoo:gpt-nano", "--cluster", cluster, "--planner", planner, "--batch",
                               "16", "--micro-batch", "4", "-o", name, "--quiet"});
        QVERIFY2(done.status == 0, done.err.constData());
    }

private Q_SLOTS:
    void initTestCase()
    {
        QVERIFY2(QFileInfo(binary()).isExecutable(), qPrintable(binary() + " is not built"));
        makePlan("nano.plan.json");
        QCOMPARE(entries(), QStringList("nano.plan.json"));
    }

    void helpText_data()
    {
        QTest::addColumn<QString>("verb");
        for (const char *verb : {"",       "models", "planners", "clusters", "inspect", "plan",      "simulate",
                                 "edit",   "query",  "profile",  "train",    "attach",  "targets",   "compare",
                                 "export", "graph",  "place",    "bench",    "agent",   "completion"})
            QTest::newRow(*verb ? verb : "planloom") << verb;
    }

    void helpText()
    {
        QFETCH(QString, verb);
        const Done done = run(verb.isEmpty() ? QStringList("--help") : QStringList{verb, "--help"});
        QCOMPARE(done.status, 0);
        QVERIFY(done.err.isEmpty());
        const QString golden =
            QString(PLANLOOM_SOURCE_DIR "/tests/app/golden/help_%1.txt").arg(verb.isEmpty() ? "planloom" : verb);
        if (qEnvironmentVariableIsSet("PLANLOOM_UPDATE_GOLDEN"))
            QVERIFY(write(golden, done.out));
        QCOMPARE(QString(done.out), QString(readAll(golden)));
        if (!verb.isEmpty())
            QVERIFY(done.out.contains("--json") && done.out.contains("--quiet")
                    && done.out.contains("Example:\n  planloom " + verb.toUtf8()));
    }

    void versionText()
    {
        const Done done = run({"--version"});
        QCOMPARE(done.status, 0);
        QVERIFY(done.out.startsWith("planloom "));
    }

    void jsonKeys_data()
    {
        QTest::addColumn<QStringList>("arguments");
        QTest::addColumn<QStringList>("keys");
        QTest::newRow("models") << QStringList{"models"} << QStringList{"models"};
        QTest::newRow("planners") << QStringList{"planners"} << QStringList{"job_planners", "planners"};
        QTest::newRow("clusters") << QStringList{"clusters"} << QStringList{"clusters"};
        QTest::newRow("bench") << QStringList{"bench"} << QStringList{"benchmarks"};
        QTest::newRow("inspect model") << QStringList{"inspect", "zoo:mlp"}
                                       << QStringList{"backward_flops_per_sample",
                                                      "forward_flops_per_sample",
                                                      "has_times",
                                                      "kept_per_sample",
                                                      "kind",
                                                      "layer_list",
                                                      "layers",
                                                      "loss",
                                                      "name",
                                                      "not_trainable",
                                                      "operators",
                                                      "parameter_bytes",
                                                      "parameters",
                                                      "profile_samples",
                                                      "source",
                                                      "trainable",
                                                      "warnings"};
        QTest::newRow("inspect cluster") << QStringList{"inspect", "preset:dapple-b"}
                                         << QStringList{"devices", "kind", "links", "name", "nodes"};
        QTest::newRow("inspect plan") << QStringList{"inspect", "nano.plan.json"}
                                      << QStringList{"annotations",   "cluster", "global_batch", "kind",    "loss",
                                                     "micro_batches", "model",   "notation",     "planner", "predicted",
                                                     "schedule",      "stages",  "why"};
        QTest::newRow("simulate") << QStringList{"simulate", "nano.plan.json"}
                                  << QStringList{"bubble_fraction",
                                                 "devices",
                                                 "fits",
                                                 "iteration_seconds",
                                                 "lower_bound_seconds",
                                                 "samples_per_second",
                                                 "speedup_over_one_device"};
        QTest::newRow("compare") << QStringList{"compare", "nano.plan.json", "nano.plan.json"}
                                 << QStringList{
                                        "a", "b", "compared", "differences", "speedup_of_b", "tasks", "tasks_missing"};
        QTest::newRow("export") << QStringList{"export", "nano.plan.json", "--to", "dot", "-o", "model.dot"}
                                << QStringList{"format", "path"};
        QTest::newRow("plan") << QStringList{"plan",      "--model", "zoo:mlp", "--cluster", "preset:h100-8",
                                             "--planner", "gpipe",   "--batch", "8"}
                              << QStringList{"alternatives",   "block_split", "cluster",  "complete",
                                             "embedded",       "estimate",    "exchange", "global_batch",
                                             "micro_batches",  "model",       "notation", "optimizer",
                                             "planner",        "predicted",   "schedule", "schema",
                                             "search_seconds", "stages",      "why"};
    }

    // Annotations and explanation of a plan: printed when it is made, kept in the file, printed again.
    void annotationsAndReasonsAreKept()
    {
        const QStringList plan{"plan",  "--model", "zoo:gpt-nano", "--cluster", "preset:h100-8",      "--planner",
                               "whale", "--batch", "32",           "-o",        "annotated.plan.json"};
        const Done made =
            run(plan + QStringList{"--annotate", "embedding..h/1=split:4", "--annotate", "h/2..h/3=split:4"});
        QVERIFY2(made.status == 0, made.err.constData());
        const Done shown = run({"inspect", "annotated.plan.json"});
        for (const QByteArray &text : {made.out, shown.out}) {
            QVERIFY2(text.contains("annotated     embedding..h/1 as split:4")
                         && text.contains("annotated     h/2..h/3 as split:4"),
                     text.constData());
            QVERIFY2(text.contains("limited by") && text.contains("sets the pace"), text.constData());
        }
        const QJsonObject json =
            QJsonDocument::fromJson(run({"inspect", "annotated.plan.json", "--json"}).out).object();
        QCOMPARE(json["annotations"].toArray(), (QJsonArray{"embedding..h/1=split:4", "h/2..h/3=split:4"}));
        const QJsonArray stages = json["why"].toObject()["stages"].toArray();
        QCOMPARE(stages.size(), 2);
        QVERIFY(stages[0].toObject()["forward_seconds"].toDouble() > 0
                && stages[0].toObject()["parameter_bytes"].toDouble() > 0);
        QVERIFY(QFile::remove(at("annotated.plan.json")));
    }

    void jsonKeys()
    {
        QFETCH(QStringList, arguments);
        QFETCH(QStringList, keys);
        const Done done = run(arguments + QStringList("--json"));
        QVERIFY2(done.status == 0, done.err.constData());
        QJsonParseError error;
        const QJsonDocument document = QJsonDocument::fromJson(done.out, &error);
        QVERIFY2(error.error == QJsonParseError::NoError, qPrintable(error.errorString() + ": " + done.out.left(500)));
        QCOMPARE(keysOf(document.object()), keys);
    }

    void jsonOfAReportHasTheContractsFields()
    {
        const QJsonObject report = QJsonDocument::fromJson(run({"simulate", "nano.plan.json", "--json"}).out).object();
        QVERIFY(report["iteration_seconds"].toDouble() > 0);
        QVERIFY(report["iteration_seconds"].toDouble() >= report["lower_bound_seconds"].toDouble());
        QCOMPARE(report["fits"].toBool(), true);
        QCOMPARE(report["devices"].toArray().size(), 8);
        QCOMPARE(keysOf(report["devices"].toArray()[0].toObject()),
                 QStringList({"busy_fraction", "capacity_bytes", "comm_fraction", "id", "peak_bytes"}));
    }

    void quietSaysNothing_data()
    {
        QTest::addColumn<QStringList>("arguments");
        QTest::newRow("models") << QStringList{"models"};
        QTest::newRow("inspect") << QStringList{"inspect", "zoo:gpt2"};
        QTest::newRow("simulate") << QStringList{"simulate", "nano.plan.json"};
        QTest::newRow("compare") << QStringList{"compare", "nano.plan.json", "nano.plan.json"};
        QTest::newRow("plan") << QStringList{"plan",          "--model", "zoo:mlp", "--cluster",
                                             "preset:h100-8", "--batch", "8"};
    }

    void quietSaysNothing()
    {
        QFETCH(QStringList, arguments);
        const Done done = run(arguments + QStringList("--quiet"));
        QCOMPARE(done.status, 0);
        QCOMPARE(done.out, QByteArray());
        QCOMPARE(done.err, QByteArray());
    }

    // One clear error line, the right status, nothing on stdout, nothing left behind.
    void badInput_data()
    {
        QTest::addColumn<QStringList>("arguments");
        QTest::addColumn<int>("status");
        QTest::addColumn<QStringList>("says");
        const QStringList plan{"plan", "--model", "zoo:mlp", "--cluster", "preset:h100-8", "--batch", "8"};
        const auto with = [&](int index, const QString &value) {
            QStringList changed = plan;
            changed[index] = value;
            return changed;
        };
        QTest::newRow("no verb") << QStringList{} << 2 << QStringList{"subcommand", "--help"};
        QTest::newRow("unknown verb") << QStringList{"plam"} << 2 << QStringList{"'plam'", "models, planners"};
        QTest::newRow("unknown option") << QStringList{"models", "--frob"} << 2
                                        << QStringList{"--frob", "planloom models --help"};
        QTest::newRow("option missing") << QStringList{"plan", "--model", "zoo:mlp"} << 2
                                        << QStringList{"--cluster", "planloom plan --help"};
        QTest::newRow("unknown zoo model") << with(2, "zoo:nope") << 2 << QStringList{"nope", "gpt-nano", "resnet-50"};
        QTest::newRow("missing model file") << with(2, "none.onnx") << 2 << QStringList{"none.onnx", "No such file"};
        QTest::newRow("model of no known kind") << with(2, "data.xyz") << 2 << QStringList{"data.xyz", ".onnx"};
        QTest::newRow("truncated onnx") << with(2, "cut.onnx") << 2 << QStringList{"cut.onnx"};
        QTest::newRow("empty onnx") << with(2, "empty.onnx") << 2 << QStringList{"empty.onnx"};
        QTest::newRow("folder as model") << with(2, "folder.onnx") << 2 << QStringList{"folder.onnx", "folder"};
        QTest::newRow("unknown preset") << with(4, "preset:nope") << 2 << QStringList{"nope", "dapple-a"};
        QTest::newRow("missing cluster file") << with(4, "none.yaml") << 2 << QStringList{"none.yaml"};
        QTest::newRow("cluster with a negative number")
            << with(4, "negative.yaml") << 2 << QStringList{"negative.yaml"};
        QTest::newRow("cluster that is no yaml") << with(4, "broken.yaml") << 2 << QStringList{"broken.yaml"};
        QTest::newRow("no CPU device") << with(4, "local:0") << 2 << QStringList{"local:0"};
        QTest::newRow("negative batch") << with(6, "-8") << 2 << QStringList{"-8"};
        QTest::newRow("no batch") << with(6, "0") << 2 << QStringList{"--batch 0"};
        QTest::newRow("no batch") << plan.mid(0, 5) << 2 << QStringList{"--batch"};
        QTest::newRow("from and batch") << plan + QStringList{"--from", "foreign.args"} << 2
                                        << QStringList{"--batch", "--from"};
        QTest::newRow("from and rate") << plan.mid(0, 5) + QStringList{"--from", "foreign.args", "--learning-rate", "1"}
                                       << 2 << QStringList{"--from", "optimizer"};
        QTest::newRow("from nowhere") << plan.mid(0, 5) + QStringList{"--from", "none.args"} << 2
                                      << QStringList{"none.args"};
        QTest::newRow("batch of text") << with(6, "many") << 2 << QStringList{"--batch", "many"};
        QTest::newRow("batch too large") << with(6, "99999999999999999999") << 2 << QStringList{"--batch"};
        QTest::newRow("micro-batch larger than batch")
            << plan + QStringList{"--micro-batch", "9"} << 2 << QStringList{"--micro-batch 9", "8"};
        QTest::newRow("options for all planners") << plan + QStringList{"--planner", "all", "--set", "stages=2"} << 2
                                                  << QStringList{"--set goes with one planner"};
        QTest::newRow("unknown planner") << plan + QStringList{"--planner", "oracle"} << 2
                                         << QStringList{"oracle", "dapple", "gpipe"};
        QTest::newRow("setting without value")
            << plan + QStringList{"--set", "recompute"} << 2 << QStringList{"--set recompute", "KEY=VALUE"};
        QTest::newRow("unknown setting") << plan + QStringList{"--set", "frob=1"} << 2 << QStringList{"frob"};
        QTest::newRow("setting twice") << plan + QStringList{"--set", "recompute=auto", "--set", "recompute=never"} << 2
                                       << QStringList{"recompute", "twice"};
        QTest::newRow("annotation without strategy")
            << plan + QStringList{"--annotate", "fc1"} << 2 << QStringList{"--annotate", "SCOPE=split:4"};
        QTest::newRow("annotation that the planner does not take")
            << plan + QStringList{"--annotate", "fc1=split:2"} << 2 << QStringList{"fc1=split:2", "whale"};
        QTest::newRow("annotation of no scope")
            << plan + QStringList{"--planner", "whale", "--annotate", "layer9=split:2"} << 2
            << QStringList{"layer9", "near it are"};
        QTest::newRow("unknown optimizer")
            << plan + QStringList{"--optimizer", "adagrad"} << 2 << QStringList{"adagrad", "adamw"};
        QTest::newRow("learning rate NaN") << plan + QStringList{"--learning-rate", "nan"} << 2 << QStringList{"nan"};
        QTest::newRow("momentum of adamw")
            << plan + QStringList{"--momentum", "0.9"} << 2 << QStringList{"--momentum", "sgd"};
        QTest::newRow("precision of eight bits")
            << plan + QStringList{"--precision", "fp8"} << 2 << QStringList{"fp8", "bf16"};
        QTest::newRow("exchange without such a setting")
            << plan + QStringList{"--exchange", "dasgd,tau=4"} << 2 << QStringList{"--exchange", "tau", "local_steps"};
        QTest::newRow("empty exchange") << plan + QStringList{"--exchange", ""} << 2
                                        << QStringList{"--exchange", "leave the option out"};
        QTest::newRow("clipping where gradients are not summed up")
            << plan + QStringList{"--planner", "data-parallel", "--exchange", "dasgd", "--clip-norm", "1"} << 2
            << QStringList{"leave out --clip-norm"};
        QTest::newRow("exchange of one replica") << plan + QStringList{"--planner", "gpipe", "--exchange", "dasgd"} << 2
                                                 << QStringList{"stage 0 has one", "exchange by all-reduce"};
        QTest::newRow("ZeRO 4") << plan + QStringList{"--zero", "4"} << 2 << QStringList{"--zero"};
        QTest::newRow("a fall that is none")
            << plan + QStringList{"--decay-steps", "9"} << 2 << QStringList{"--decay-steps", "--lr-schedule"};
        QTest::newRow("no such parameter")
            << plan + QStringList{"--no-decay", "nothing"} << 2 << QStringList{"\"nothing\"", "matches no parameter"};
        QTest::newRow("resume nothing") << QStringList{"train", "nano.plan.json", "--resume"} << 2
                                        << QStringList{"--resume", "--run-dir"};
        QTest::newRow("resume no run") << QStringList{"train", "nano.plan.json", "--resume", "--run-dir", "no-run"} << 2
                                       << QStringList{"no-run"};
        QTest::newRow("train a folder") << QStringList{"train", "folder.onnx", "--data", "text"} << 2
                                        << QStringList{"folder.onnx", "--resume"};
        QTest::newRow("validate with nothing")
            << QStringList{"train", "nano.plan.json", "--data", "text", "--validate-every", "2", "--run-dir", "r"} << 2
            << QStringList{"hold out"};
        QTest::newRow("profile of nothing") << QStringList{"profile"} << 2 << QStringList{"--model", "--plan"};
        QTest::newRow("profile of both") << QStringList{"profile", "--model", "zoo:mlp", "--plan", "nano.plan.json"}
                                         << 2 << QStringList{"--plan", "--model"};
        QTest::newRow("profile on no samples")
            << QStringList{"profile", "--model", "zoo:mlp", "--samples", "0"} << 2 << QStringList{"--samples"};
        QTest::newRow("profile on an unknown device")
            << QStringList{"profile", "--model", "zoo:mlp", "--device", "tpu"} << 2 << QStringList{"tpu"};
        QTest::newRow("missing profile") << plan + QStringList{"--profile", "none.json"} << 2
                                         << QStringList{"none.json"};
        QTest::newRow("profile that is a plan")
            << plan + QStringList{"--profile", "nano.plan.json"} << 2 << QStringList{"nano.plan.json"};
        QTest::newRow("output into a missing folder")
            << plan + QStringList{"-o", "none/p.json"} << 2 << QStringList{"none/p.json", "folder"};
        QTest::newRow("output onto a folder")
            << plan + QStringList{"-o", "folder.onnx"} << 2 << QStringList{"folder.onnx", "is a folder"};
        QTest::newRow("missing plan") << QStringList{"simulate", "none.json"} << 2
                                      << QStringList{"none.json", "No such file"};
        QTest::newRow("plan cut short") << QStringList{"simulate", "cut.plan.json"} << 2
                                        << QStringList{"cut.plan.json:"};
        QTest::newRow("plan that is no plan") << QStringList{"simulate", "cut.onnx"} << 2 << QStringList{"cut.onnx"};
        QTest::newRow("plan with an unknown device")
            << QStringList{"simulate", "device.plan.json"} << 2 << QStringList{"device.plan.json", "warp-drive"};
        QTest::newRow("plan with a device twice")
            << QStringList{"simulate", "twice.plan.json"} << 2 << QStringList{"twice.plan.json"};
        QTest::newRow("plan of another model")
            << QStringList{"simulate", "model.plan.json"} << 2 << QStringList{"model.plan.json", "model"};
        QTest::newRow("inspect nothing") << QStringList{"inspect", "none"} << 2 << QStringList{"none"};
        QTest::newRow("inspect a folder")
            << QStringList{"inspect", "folder.onnx"} << 2 << QStringList{"folder.onnx", "plan.json"};
        QTest::newRow("inspect a trace that is none")
            << QStringList{"inspect", "bad.pltrace"} << 2 << QStringList{"bad.pltrace"};
        QTest::newRow("inspect a workspace that is none")
            << QStringList{"inspect", "bad.planloom"} << 2 << QStringList{"bad.planloom", "workspace"};
        QTest::newRow("inspect a trace of Chrome's without events")
            << QStringList{"inspect", "chrome.json"} << 2 << QStringList{"chrome.json", "no events of a trace"};
        QTest::newRow("compare with nothing")
            << QStringList{"compare", "nano.plan.json", "none"} << 2 << QStringList{"none"};
        QTest::newRow("unknown format") << QStringList{"export", "nano.plan.json", "--to", "gif", "-o", "x.gif"} << 2
                                        << QStringList{"gif", "chrome-trace", "svg"};
        QTest::newRow("export nothing") << QStringList{"export", "none", "--to", "dot", "-o", "x.dot"} << 2
                                        << QStringList{"none"};
        QTest::newRow("unknown benchmark") << QStringList{"bench", "nope"} << 2 << QStringList{"nope"};
        QTest::newRow("train without data") << QStringList{"train", "nano.plan.json"} << 2 << QStringList{"--data"};
        QTest::newRow("train on no steps")
            << QStringList{"train", "nano.plan.json", "--data", "text", "--steps", "0"} << 2 << QStringList{"--steps"};
        QTest::newRow("train a missing plan")
            << QStringList{"train", "none.json", "--data", "text"} << 2 << QStringList{"none.json"};
        QTest::newRow("train on unreadable data")
            << QStringList{"train", "nano.plan.json", "--data", "no-data", "--run-dir", "r"} << 2
            << QStringList{"no-data"};
        QTest::newRow("train with no agent there")
            << QStringList{"train", "nano.plan.json", "--data", "text", "--agent", "none.sock"} << 2
            << QStringList{"none.sock"};
    }

    void badInput()
    {
        QFETCH(QStringList, arguments);
        QFETCH(int, status);
        QFETCH(QStringList, says);
        const QByteArray good = readAll(at("nano.plan.json"));
        QVERIFY(write(at("cut.onnx"), QByteArray::fromHex("08071207707974") + "orch\x1a\x05"));
        QVERIFY(write(at("empty.onnx"), {}));
        QVERIFY(QDir(m_folder.path()).mkpath("folder.onnx"));
        QVERIFY(write(at("negative.yaml"),
                      "name: bad\ntypes:\n  - {name: X, float32: -1e12, memory: 1GiB, memory_bandwidth: 1e9}\nnodes:\n "
                      " - {name: n0, type: X, devices: 2}\n"));
        QVERIFY(write(at("broken.yaml"), "name: [unclosed\n  - {"));
        QVERIFY(write(at("data.xyz"), "?"));
        QVERIFY(write(at("text"), QByteArray("some text to learn from\n").repeated(200)));
        QVERIFY(write(at("bad.pltrace"), "not a trace"));
        QVERIFY(write(at("chrome.json"), R"({"traceEvents": []})"));
        QVERIFY(write(at("bad.planloom"), QByteArray("not a workspace\n").repeated(100)));
        QVERIFY(write(at("cut.plan.json"), good.left(good.size() / 2)));
        const qsizetype stages = good.indexOf("\"stages\"");
        QByteArray device = good;
        device.replace(good.indexOf("\"n0:g1\"", stages), 7, "\"warp-drive\"");
        QVERIFY(write(at("device.plan.json"), device));
        QByteArray twice = good;
        twice.replace(good.indexOf("\"n0:g1\"", stages), 7, "\"n0:g0\"");
        QVERIFY(write(at("twice.plan.json"), twice));
        QByteArray model = good;
        model.replace(good.indexOf("\"sha256\":\"") + 10, 8, "00000000");
        QVERIFY(write(at("model.plan.json"), model));
        const QStringList before = entries();

        const Done done = run(arguments);
        QVERIFY2(done.status == status, (QByteArray::number(done.status) + ": " + done.err).constData());
        QCOMPARE(done.out, QByteArray());
        QVERIFY2(done.err.startsWith("planloom: error: ") && done.err.count('\n') == 1, done.err.constData());
        for (const QString &part : says)
            QVERIFY2(done.err.contains(part.toUtf8()), (part.toUtf8() + " is not in: " + done.err).constData());
        QCOMPARE(entries(),
                 before
                     + (before.contains("data-home") || !entries().contains("data-home") ? QStringList()
                                                                                         : QStringList("data-home")));
    }

    void planFileStandsAlone()
    {
        // A plan made in one place is simulated in another, and stdout of --json is a plan file, too.
        const Done done = run({"plan", "--model", "zoo:gpt-nano", "--cluster", "preset:dapple-b", "--planner", "gpipe",
                               "--batch", "32", "--set", "stages=4", "--json", "-o", "alone.json"});
        QVERIFY2(done.status == 0, done.err.constData());
        QVERIFY(write(at("stdout.json"), done.out));
        const QByteArray first = run({"simulate", "alone.json", "--json"}).out;
        QVERIFY(!first.isEmpty());
        QCOMPARE(run({"simulate", "stdout.json", "--json"}).out, first);
        const QJsonObject plan = QJsonDocument::fromJson(done.out).object();
        QCOMPARE(plan["predicted"].toObject()["iteration_seconds"].toDouble(),
                 QJsonDocument::fromJson(first).object()["iteration_seconds"].toDouble());
        QCOMPARE(plan["stages"].toArray().size(), 4);
        QVERIFY(plan["search_seconds"].toDouble() >= 0);
        QVERIFY(plan["estimate"].toObject().contains("iteration_seconds"));
        QVERIFY(plan["estimate"].toObject().contains("speedup_over_one_device"));
    }

    void allPlannersSideBySide()
    {
        const Done done = run({"plan", "--model", "zoo:gnmt-16", "--cluster", "preset:dapple-a", "--planner", "all",
                               "--batch", "1024", "--json", "-o", "best.json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject plan = QJsonDocument::fromJson(done.out).object();
        const QJsonArray rows = plan["comparison"].toArray();
        QStringList names;
        QStringList refusals; // a profile of layers has no operators to lay out
        double before = 0;
        for (const QJsonValue &row : rows) {
            if (row.toObject().contains("error")) {
                refusals << row["planner"].toString();
                continue;
            }
            names << row["planner"].toString();
            QVERIFY2(row["iteration_seconds"].toDouble() >= before, qPrintable(names.last()));
            before = row["iteration_seconds"].toDouble();
            QVERIFY(row["peak_bytes"].toDouble() > 0);
        }
        names.sort();
        QCOMPARE(refusals, (QStringList{"oneflow"}));
        QStringList searching;
        for (const QJsonValue &planner :
             QJsonDocument::fromJson(run({"planners", "--json"}).out).object()["planners"].toArray())
            if (const QString name = planner["name"].toString(); name != "manual" && !refusals.contains(name))
                searching << name;
        searching.sort();
        QCOMPARE(names, searching);
        QCOMPARE(rows.first()["planner"].toString(), "auto");
        QCOMPARE(plan["predicted"].toObject()["iteration_seconds"], rows.first()["iteration_seconds"]);
        QCOMPARE(plan["planner"].toObject()["name"], rows.first()["planner"]);
        QVERIFY(QFile::exists(at("best.json")));
    }

    void samePlanEveryTime()
    {
        const QStringList arguments{"plan",    "--model", "zoo:xlnet-36", "--cluster", "preset:dapple-a",
                                    "--batch", "128",     "--json"};
        QJsonObject a = QJsonDocument::fromJson(run(arguments).out).object();
        QJsonObject b = QJsonDocument::fromJson(run(arguments).out).object();
        QVERIFY(a.contains("stages"));
        for (QJsonObject *plan : {&a, &b}) {
            plan->remove("search_seconds");
            plan->remove("planner");
        }
        QCOMPARE(a, b);
    }

    void simulateWritesTraces()
    {
        QVERIFY(run({"simulate", "nano.plan.json", "--trace", "t.json", "--quiet"}).status == 0);
        const QJsonObject chrome = QJsonDocument::fromJson(readAll(at("t.json"))).object();
        QSet<int> ranksWithForward;
        for (const auto &event : chrome["traceEvents"].toArray()) {
            if (event.toObject()["cat"].toString() == "forward")
                ranksWithForward.insert(event.toObject()["pid"].toInt());
        }
        QCOMPARE(ranksWithForward.size(), 8);
        QVERIFY(run({"simulate", "nano.plan.json", "--trace", "t.pltrace", "--quiet"}).status == 0);
        const QJsonObject trace = QJsonDocument::fromJson(run({"inspect", "t.pltrace", "--json"}).out).object();
        QCOMPARE(trace["clock"].toString(), QString("cost"));
        QCOMPARE(trace["ranks"].toInt(), 8);
    }

    void exports_data()
    {
        QTest::addColumn<QString>("format");
        QTest::addColumn<QByteArray>("begins");
        QTest::newRow("plan") << "plan" << QByteArray("{\n  \"schema\"");
        QTest::newRow("model") << "model" << QByteArray("{");
        QTest::newRow("cluster") << "cluster" << QByteArray("{");
        QTest::newRow("chrome-trace") << "chrome-trace" << QByteArray("{\"displayTimeUnit\"");
        QTest::newRow("perfetto-trace") << "perfetto-trace" << QByteArray("\x0a");
        QTest::newRow("task-csv") << "task-csv" << QByteArray("task,kind,stage,micro_batch,rank,device,lane,step,");
        QTest::newRow("trace") << "trace" << QByteArray();
        QTest::newRow("pytorch-csv") << "pytorch-csv" << QByteArray("0F0,0B0");
        QTest::newRow("pytorch-csv-comms") << "pytorch-csv-comms" << QByteArray("0UNSHARD,0F0,0B0");
        QTest::newRow("dot") << "dot" << QByteArray("digraph \"gpt-nano\"");
        QTest::newRow("svg") << "svg" << QByteArray("<?xml");
    }

    void exports()
    {
        QFETCH(QString, format);
        QFETCH(QByteArray, begins);
        const QString path = "out." + format;
        const Done done = run({"export", "nano.plan.json", "--to", format, "-o", path});
        QVERIFY2(done.status == 0, done.err.constData());
        const QByteArray bytes = readAll(at(path));
        QVERIFY(!bytes.isEmpty());
        QVERIFY2(bytes.startsWith(begins), bytes.left(60).constData());
    }

    /// A schedule that goes out to PyTorch and comes back is the same iteration, as a custom order.
    void schedulesComeBackFromPytorch()
    {
        QVERIFY(run({"plan", "--model", "zoo:gpt-nano", "--cluster", "preset:h100-8", "--planner", "manual", "--batch",
                     "16", "--set", "data=1", "--set", "pipeline=2", "--set", "interleave=2", "-o", "turns.plan.json",
                     "--quiet"})
                    .status
                == 0);
        const Done exported = run({"export", "turns.plan.json", "--to", "pytorch-csv", "-o", "turns.csv"});
        QCOMPARE(exported.status, 0);
        QVERIFY2(exported.out.contains("form compute_only") && exported.out.contains("_load_csv('turns.csv')"),
                 exported.out.constData());
        QVERIFY(readAll(at("turns.csv")).contains("2F0"));
        const Done done =
            run({"simulate", "turns.plan.json", "--order", "turns.csv", "-o", "custom.plan.json", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        QCOMPARE(done.out, run({"simulate", "turns.plan.json", "--json"}).out);
        const QJsonObject plan = QJsonDocument::fromJson(readAll(at("custom.plan.json"))).object();
        QCOMPARE(plan["schedule"].toObject()["kind"].toString(), QString("custom"));
        const Done wrong = run({"simulate", "nano.plan.json", "--order", "turns.csv"});
        QCOMPARE(wrong.status, 2);
        QVERIFY2(wrong.err.contains("turns.csv"), wrong.err.constData());
    }

    void exportedModelAndClusterCanBePlannedWith()
    {
        QVERIFY(run({"export", "nano.plan.json", "--to", "model", "-o", "again.json", "--quiet"}).status == 0);
        QVERIFY(run({"export", "nano.plan.json", "--to", "cluster", "-o", "cluster.json", "--quiet"}).status == 0);
        const Done done = run({"plan", "--model", "again.json", "--cluster", "cluster.json", "--planner",
                               "data-parallel", "--batch", "16", "--micro-batch", "4", "-o", "again.plan.json"});
        QVERIFY2(done.status == 0, done.err.constData());
        QCOMPARE(run({"simulate", "again.plan.json", "--json"}).out, run({"simulate", "nano.plan.json", "--json"}).out);
    }

    /// Another program's configuration of a plan, and the plan of the configuration.
    void configurationsComeBackAsPlans()
    {
        const Done planned = run({"plan",
                                  "--model",
                                  "zoo:gpt-nano",
                                  "--cluster",
                                  "preset:h100-8",
                                  "--planner",
                                  "manual",
                                  "--set",
                                  "pipeline=2",
                                  "--set",
                                  "cuts=3",
                                  "--batch",
                                  "32",
                                  "--micro-batch",
                                  "2",
                                  "--weight-decay",
                                  "0",
                                  "--zero",
                                  "1",
                                  "--precision",
                                  "bf16",
                                  "-o",
                                  "foreign.plan.json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const Done exported = run({"export", "foreign.plan.json", "--to", "megatron", "-o", "foreign.args"});
        QVERIFY2(exported.status == 0, exported.err.constData());
        QVERIFY2(exported.out.contains("torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py $(cat foreign.args)"),
                 exported.out.constData());
        QVERIFY(readAll(at("foreign.args")).startsWith("--num-layers 4\n"));
        const Done again = run({"plan", "--from", "foreign.args", "--model", "zoo:gpt-nano", "--cluster",
                                "preset:h100-8", "-o", "again.foreign.json"});
        QVERIFY2(again.status == 0, again.err.constData());
        QCOMPARE(run({"simulate", "again.foreign.json", "--json"}).out,
                 run({"simulate", "foreign.plan.json", "--json"}).out);

        // On a part of a larger cluster: the file alone takes the plan back to that part.
        const QStringList part{"plan",          "--model", "zoo:gpt-nano",   "--cluster", "preset:h100-16",
                               "--planner",     "manual",  "--set",          "data=2",    "--set",
                               "pipeline=2",    "--set",   "devices=10-13",  "--batch",   "32",
                               "--micro-batch", "2",       "--weight-decay", "0",         "-o",
                               "part.plan.json"};
        QVERIFY(run(part).status == 0);
        QVERIFY(run({"export", "part.plan.json", "--to", "megatron", "-o", "part.args", "--quiet"}).status == 0);
        QVERIFY(run({"plan", "--from", "part.args", "--model", "zoo:gpt-nano", "--cluster", "preset:h100-16", "-o",
                     "again.part.json"})
                    .status
                == 0);
        const auto stagesOf = [&](const char *file) {
            return QJsonDocument::fromJson(readAll(at(file))).object()["stages"].toArray();
        };
        QVERIFY(!stagesOf("part.plan.json").isEmpty());
        QCOMPARE(stagesOf("again.part.json"), stagesOf("part.plan.json"));

        const Done refused = run({"export", "foreign.plan.json", "--to", "deepspeed", "-o", "foreign.json"});
        QCOMPARE(refused.status, 2);
        QVERIFY2(refused.err.contains("foreign.plan.json: the plan is a pipeline of 2 stages"),
                 refused.err.constData());
        QVERIFY(!QFile::exists(at("foreign.json")));
        const QJsonObject json =
            QJsonDocument::fromJson(
                run({"export", "foreign.plan.json", "--to", "megatron", "-o", "foreign.args", "--json"}).out)
                .object();
        QVERIFY(json["notes"].toArray().size() > 1);
    }

    void profileIsUsedByPlan()
    {
        const Done measured = run({"profile", "--model", "zoo:mlp", "--samples", "4,8", "--repetitions", "3",
                                   "--threads", "1", "-o", "mlp.profile.json", "--json"});
        QVERIFY2(measured.status == 0, measured.err.constData());
        const QJsonObject profile = QJsonDocument::fromJson(measured.out).object();
        QCOMPARE(profile["schema"].toString(), QString("planloom.profile/1"));
        QCOMPARE(QJsonDocument::fromJson(readAll(at("mlp.profile.json"))).object(), profile);
        QCOMPARE(
            QJsonDocument::fromJson(run({"inspect", "mlp.profile.json", "--json"}).out).object()["kind"].toString(),
            QString("profile"));
        const QStringList plan{"plan",      "--model",       "zoo:mlp", "--cluster", "local:1",
                               "--planner", "data-parallel", "--batch", "8",         "--json"};
        const auto seconds = [&](const QStringList &arguments) {
            return QJsonDocument::fromJson(run(arguments).out)
                .object()["predicted"]
                .toObject()["iteration_seconds"]
                .toDouble();
        };
        const double roofline = seconds(plan);
        const double withProfile = seconds(plan + QStringList{"--profile", "mlp.profile.json"});
        QVERIFY(roofline > 0 && withProfile > 0);
        QVERIFY(roofline != withProfile);

        QVERIFY(!run(plan + QStringList{"--profile", "mlp.profile.json"}).err.contains("warning"));
        QJsonObject renamed = profile;
        renamed["model"] = "another";
        QVERIFY(write(at("another.profile.json"), QJsonDocument(renamed).toJson()));
        const Done warned = run(plan + QStringList{"--profile", "another.profile.json"});
        QCOMPARE(warned.status, 0);
        QVERIFY2(warned.err.contains("profile of another, not of mlp"), warned.err.constData());
    }

    // Devices that outnumber the cores share them: each core has twice the work, and the plan says so.
    void sharedCoresAreSaid()
    {
        const auto cluster = [this](int cores) {
            const QString path = at(QString("cores-%1.yaml").arg(cores));
            return write(path,
                         QString("nodes: {devices_per_node: 4, device: CPU, cores: %1, intra: {bandwidth: 8 GB/s}}\n")
                             .arg(cores)
                             .toUtf8())
                ? path
                : QString();
        };
        const auto plan = [](const QString &on) {
            return QStringList{"plan",          "--model", "zoo:mlp", "--cluster", on,          "--planner",
                               "data-parallel", "--batch", "32",      "-o",        on + ".json"};
        };
        const auto predicted = [this](const QString &file) {
            return QJsonDocument::fromJson(run({"simulate", file, "--json"}).out).object();
        };
        const QString own = cluster(4);
        const QString shared = cluster(2);
        const char *note = "4 devices share 2 cores: times are those of 2 devices a core";
        QVERIFY(!run(plan(own)).out.contains("share"));
        QVERIFY(run(plan(shared)).out.contains(note));
        QVERIFY(run({"simulate", shared + ".json"}).out.contains(note));
        const Done inspected = run({"inspect", shared});
        QVERIFY2(inspected.out.contains("cores         n0: 2") && inspected.out.contains(note),
                 inspected.out.constData());
        const QJsonObject json = QJsonDocument::fromJson(run({"inspect", shared, "--json"}).out).object();
        QCOMPARE(json["devices"].toArray()[0].toObject()["node_cores"].toInt(), 2);
        QCOMPARE(json["devices"].toArray()[1].toObject()["core"].toInt(), 1);
        const QJsonObject fast = predicted(own + ".json");
        const QJsonObject slow = predicted(shared + ".json");
        QCOMPARE(slow["lower_bound_seconds"].toDouble(), 2 * fast["lower_bound_seconds"].toDouble());
        QVERIFY(slow["iteration_seconds"].toDouble()
                >= fast["iteration_seconds"].toDouble() + fast["lower_bound_seconds"].toDouble());
    }

    // What a row of a layer profile stands for is said wherever its times count.
    void profileUnitIsSaid()
    {
        const QByteArray row = "a -- A -- forward_compute_time=8, backward_compute_time=16, activation_size=4096, "
                               "parameter_size=4096\n";
        QVERIFY(write(at("rows.txt"), row));
        const QStringList plan{"plan",      "--model", "rows.txt", "--cluster", "preset:h100-8",
                               "--planner", "gpipe",   "--set",    "stages=1",  "--batch",
                               "128",       "-o",      "rows.json"};
        const Done whole = run(plan);
        QVERIFY2(whole.status == 0, whole.err.constData());
        QVERIFY(whole.out.contains("a sample is one minibatch of the layer profile"));
        QVERIFY(run({"inspect", "rows.txt"}).out.contains("a sample is one minibatch of the layer profile"));
        const auto seconds = [this] {
            return QJsonDocument::fromJson(run({"simulate", "rows.json", "--json"}).out)
                .object()["lower_bound_seconds"]
                .toDouble();
        };
        const double minibatches = seconds();
        QVERIFY(run(plan + QStringList{"--profile-samples", "128"}).out.contains("are of 128 samples"));
        QVERIFY(run({"simulate", "rows.json"}).out.contains("are of 128 samples"));
        QVERIFY(minibatches > 100 * seconds());
        QCOMPARE(QJsonDocument::fromJson(run({"inspect", "rows.txt", "--profile-samples", "128", "--json"}).out)
                     .object()["profile_samples"]
                     .toDouble(),
                 128.0);
        QCOMPARE(run({"inspect", "zoo:mlp", "--profile-samples", "128"}).status, 2);
    }

    // A search without a limit finds the plan that does not fit, and says that it does not.
    void memoryIsIgnored()
    {
        const QByteArray row =
            "a -- A -- forward_compute_time=8, backward_compute_time=16, activation_size=4000000000, "
            "parameter_size=40000000000\n";
        QVERIFY(write(at("large.txt"), row));
        const QStringList plan{"plan",      "--model",       "large.txt", "--cluster", "preset:h100-8",
                               "--planner", "data-parallel", "--batch",   "8",         "--json"};
        QVERIFY(run(plan).err.contains("no plan fits"));
        const Done found = run(plan + QStringList{"--memory", "ignore"});
        QVERIFY2(found.status == 0, found.err.constData());
        const QJsonObject predicted = QJsonDocument::fromJson(found.out).object()["predicted"].toObject();
        QCOMPARE(predicted["fits"].toBool(), false);
        const QJsonObject device = predicted["devices"].toArray()[0].toObject();
        QCOMPARE(device["capacity_bytes"].toDouble(), 80e9);
        QVERIFY(device["peak_bytes"].toDouble() > 80e9);
    }

    // Published times are of float32: that they stand for bf16 as well is said.
    void timesOfAnotherPrecision()
    {
        const QStringList plan{"plan",      "--model",       "zoo:vgg-19", "--cluster", "preset:a100-8",
                               "--planner", "data-parallel", "--batch",    "64",        "--precision"};
        QVERIFY(!run(plan + QStringList{"fp32"}).err.contains("warning"));
        QVERIFY(run(plan + QStringList{"bf16"}).err.contains("measured in float32"));
    }

    void workspaceRecordsPlans()
    {
        QVERIFY(run({"plan", "--model", "zoo:mlp", "--cluster", "preset:h100-8", "--batch", "8", "--workspace",
                     "w.planloom", "--quiet"})
                    .status
                == 0);
        const QJsonObject json = QJsonDocument::fromJson(run({"inspect", "w.planloom", "--json"}).out).object();
        QCOMPARE(json["plans"].toArray().size(), 1);
        QCOMPARE(json["runs"].toArray().size(), 0);
    }
};

QTEST_GUILESS_MAIN(TestCli)
#include "planners/registry.h"
#include "tst_cli.moc"

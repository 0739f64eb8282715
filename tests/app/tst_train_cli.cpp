// SPDX-License-Identifier: Apache-2.0
// `planloom train` as a user runs it: agent, launcher and workers are real processes.
#include "app/cli_fixture.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>
#include <cmath>
#include <csignal>
#include <cstring>
#include <vector>

using namespace planloom::testing;

namespace {

/// Command lines of all processes that name @p folder or work in it: nothing of a run may be left.
QStringList processesIn(const QString &folder)
{
    QStringList found;
    const QStringList ids = QDir("/proc").entryList(QDir::Dirs | QDir::NoDotAndDotDot);
    for (const QString &id : ids) {
        QFile file("/proc/" + id + "/cmdline");
        if (id.toInt() <= 0 || id.toInt() == QCoreApplication::applicationPid() || !file.open(QIODevice::ReadOnly))
            continue;
        const QString line = QString::fromLocal8Bit(file.readAll().replace('\0', ' '));
        if (line.contains(folder) || QFile::symLinkTarget("/proc/" + id + "/cwd") == folder)
            found << line;
    }
    return found;
}

QList<QJsonObject> linesOf(const QByteArray &bytes)
{
    QList<QJsonObject> objects;
    for (const QByteArray &line : bytes.split('\n')) {
        if (!line.isEmpty())
            objects << QJsonDocument::fromJson(line).object();
    }
    return objects;
}

/// The first loss of trainsFromStoredWeights: the mean over 16 samples of 64 values, by 64 x 20 weights.
double firstLoss(const QByteArray &weights)
{
    double sum = 0;
    for (int i = 0; i < 16; ++i) {
        std::vector<double> logits(20);
        for (int j = 0; j < 64; ++j) {
            for (int k = 0; k < 20; ++k) {
                float weight = 0;
                std::memcpy(&weight, weights.constData() + (j * 20 + k) * 4, sizeof weight);
                logits[static_cast<std::size_t>(k)] +=
                    (i * 7 + j * 3) % 11 / 10.0 * static_cast<double>(weight); // data are scaled by the largest
            }
        }
        double exponentials = 0;
        for (const double logit : logits)
            exponentials += std::exp(logit);
        sum += std::log(exponentials) - logits[static_cast<std::size_t>(i % 20)];
    }
    return sum / 16;
}

} // namespace

class TestTrainCli : public CliTest {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase()
    {
        QFile text(at("text"));
        QVERIFY(text.open(QIODevice::WriteOnly));
        for (int i = 0; i < 400; ++i)
            text.write(QByteArray("line ") + QByteArray::number(i) + " of a text that a small model can learn from\n");
        text.close();
        for (const char *devices : {"1", "2"}) {
            const Done done = run({"plan", "--model", "zoo:gpt-nano", "--cluster", QString("local:%1").arg(devices),
                                   "--planner", "gpipe", "--batch", "8", "--micro-batch", "2", "-o",
                                   QString("nano%1.json").arg(devices), "--quiet"});
            QVERIFY2(done.status == 0, done.err.constData());
        }
    }

    void cleanup() { QCOMPARE(processesIn(m_folder.path()), QStringList()); }

    /// The log of a run, read from its trace, is the predicted one in every step.
    void writesExecutedDecisions()
    {
        Done done = run({"plan", "--model", "zoo:gpt-nano", "--cluster", "local:2", "--planner", "gpipe", "--batch",
                         "8", "--micro-batch", "2", "--memory", "delta,budget=60%", "-o", "limited.json", "--quiet"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject estimate =
            QJsonDocument::fromJson(readAll(at("limited.json"))).object()["estimate"].toObject();
        const QJsonObject report = linesOf(run({"simulate", "limited.json", "--json"}).out).value(0);
        for (const char *key : {"memory_stall_seconds", "memory_fragmented"}) {
            QVERIFY2(report[key].isDouble(), key);
            QCOMPARE(report[key].toDouble(), estimate[key].toDouble());
        }
        QVERIFY(run({"simulate", "limited.json"}).out.contains("for copies; free memory was fragmented "));
        QVERIFY(!linesOf(run({"simulate", "nano1.json", "--json"}).out).value(0).contains("memory_fragmented"));
        done = run({"simulate", "limited.json", "--decisions", "predicted.tsv", "--quiet"});
        QVERIFY2(done.status == 0, done.err.constData());
        done =
            run({"train", "limited.json", "--data", "text", "--steps", "3", "--decisions", "executed.tsv", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QList<QByteArray> predicted = readAll(at("predicted.tsv")).split('\n');
        const QList<QByteArray> executed = readAll(at("executed.tsv")).split('\n');
        QVERIFY(predicted.size() > 3 && predicted.last().isEmpty());
        QCOMPARE(executed.size(), 2 + 3 * (predicted.size() - 2));
        QCOMPARE(executed.first(), "step\t" + predicted.first());
        for (int step = 0; step < 3; ++step)
            for (qsizetype line = 1; line + 1 < predicted.size(); ++line)
                QCOMPARE(executed[step * (predicted.size() - 2) + line],
                         QByteArray::number(step) + "\t" + predicted[line]);
        const QJsonObject decisions = linesOf(done.out).at(linesOf(done.out).size() - 2)["decisions"].toObject();
        QCOMPARE(decisions["steps"].toInt(), 3);
        QCOMPARE(decisions["predicted"].toInt(), predicted.size() - 2);
        QVERIFY(decisions["differing_steps"].toArray().isEmpty());

        done = run({"train", "nano1.json", "--data", "text", "--decisions", "none.tsv"});
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.contains("no stage has a memory policy"), done.err.constData());
        done = run({"train", "limited.json", "--data", "text", "--trace", "off", "--decisions", "none.tsv"});
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.contains("--trace off"), done.err.constData());
    }

    void decidesByMeasuredTimes_data()
    {
        QTest::addColumn<QStringList>("how");
        QTest::addColumn<QString>("policy");
        const QStringList gpipe{"--cluster", "local:2", "--planner", "gpipe", "--batch", "8", "--micro-batch", "2"};
        const QStringList replicas{"--cluster", "local:2", "--planner", "data-parallel", "--batch", "4"};
        QTest::newRow("2 stages") << gpipe << "delta,budget=60%";
        QTest::newRow("only swap") << gpipe << "ahead,budget=60%,director=swap";
        QTest::newRow("ZeRO 3") << replicas + QStringList{"--zero", "3"} << "delta,budget=60%,director=swap";
        QTest::newRow("bfloat16, states on the host")
            << QStringList{"--cluster", "local:2", "--planner", "data-parallel", "--batch", "24", "--precision", "bf16"}
            << "delta,budget=70%,optimizer_state=host"; // of more than the pool that states come to
        QTest::newRow("parameters on the host")
            << gpipe << "delta,budget=60%,director=swap,parameters=host,optimizer_state=host";
        QTest::newRow("tensor parallel, all on the host")
            << QStringList{"--cluster", "local:2",       "--planner", "manual", "--batch",
                           "4",         "--micro-batch", "2",         "--set",  "tensor=2"}
            << "delta,budget=70%,parameters=host,optimizer_state=host";
        QTest::newRow("tensor parallel") << QStringList{"--cluster", "local:2",       "--planner", "manual", "--batch",
                                                        "4",         "--micro-batch", "2",         "--set",  "tensor=2"}
                                         << "delta,budget=70%";
    }

    /// Four steps by the logical clock, the others by what these took: losses as without a policy, to the bit; either
    /// log is the one that is predicted, by the cost model and by what the run has measured.
    void decidesByMeasuredTimes()
    {
        QFETCH(QStringList, how);
        QFETCH(QString, policy);
        const auto name = [](const char *suffix) {
            return QString::fromUtf8(QTest::currentDataTag()).remove(' ').remove(',') + suffix;
        };
        const auto lossesOf = [&](const Done &done) {
            QList<double> losses;
            for (const QJsonObject &line : linesOf(done.out))
                if (line.contains("loss"))
                    losses << line["loss"].toDouble();
            return losses;
        };
        const QStringList plan = QStringList{"plan", "--model", "zoo:gpt-nano", "--quiet"} + how;
        const QString free = name(".free.json"), limited = name(".json"), folder = name(".run");
        Done done = run(plan + QStringList{"--memory", "none", "-o", free});
        QVERIFY2(done.status == 0, done.err.constData());
        done = run(plan + QStringList{"--memory", policy + ",clock=measured", "-o", limited});
        QVERIFY2(done.status == 0, done.err.constData());
        const Done roomy = run({"train", free, "--data", "text", "--steps", "7", "--seed", "3", "--json"});
        QVERIFY2(roomy.status == 0, roomy.err.constData());
        const Done tight = run({"train", limited, "--data", "text", "--steps", "7", "--seed", "3", "--json",
                                "--run-dir", folder, "--decisions", name(".executed")});
        QVERIFY2(tight.status == 0, tight.err.constData());
        QCOMPARE(lossesOf(roomy).size(), 7);
        QCOMPARE(lossesOf(tight), lossesOf(roomy)); // to the bit

        QVERIFY(run({"simulate", limited}).out.contains("clock         logical: "));
        QVERIFY(run({"simulate", limited, "--times", folder + "/measured.json"}).out.contains("its steps from 4 on"));
        QCOMPARE(run({"simulate", limited, "--decisions", name(".logical"), "--quiet"}).status, 0);
        done = run(
            {"simulate", limited, "--times", folder + "/measured.json", "--decisions", name(".measured"), "--quiet"});
        QVERIFY2(done.status == 0, done.err.constData());
        const auto logOf = [&](const char *suffix) { return readAll(at(name(suffix))).trimmed().split('\n'); };
        const QList<QByteArray> logical = logOf(".logical"), measured = logOf(".measured");
        QVERIFY(logical.size() > 1 && measured.size() > 1 && measured != logical);
        QList<QByteArray> expected{"step\t" + logical.first()};
        for (int step = 0; step < 7; ++step)
            for (const QByteArray &line : (step < 4 ? logical : measured).mid(1))
                expected << QByteArray::number(step) + "\t" + line;
        QCOMPARE(logOf(".executed"), expected);

        const QList<QJsonObject> lines = linesOf(tight.out);
        const QJsonObject decisions = lines[lines.size() - 2]["decisions"].toObject();
        for (const QJsonObject &part : {decisions, decisions["measured"].toObject()}) {
            QCOMPARE(part["steps"].toInt(), part.contains("measured") ? 4 : 3);
            QVERIFY(part["differing_steps"].toArray().isEmpty());
        }
        QCOMPARE(decisions["measured"].toObject()["from_step"].toInt(), 4);
        const QJsonObject summary = lines.last()["summary"].toObject();
        QCOMPARE(summary["peak_bytes_measured"], summary["peak_bytes_predicted"]);
        const QJsonObject course = lines[lines.size() - 3]["measured_course"].toObject();
        QVERIFY(course["predicted_iteration_seconds"].toDouble() > 0);
        // Beside the plan, the run's two courses.
        const QJsonObject both = linesOf(run({"compare", limited, folder, "--json"}).out).value(0);
        const QJsonArray courses = both["compared"].toObject()["courses"].toObject()["b"].toArray();
        QCOMPARE(courses.size(), 2);
        QCOMPARE(courses[0].toObject()["clock"].toString(), QString("logical"));
        QCOMPARE(courses[0].toObject()["steps"].toInt(), 4);
        QCOMPARE(courses[0].toObject()["predicted_iteration_seconds"], summary["predicted_iteration_seconds"]);
        QCOMPARE(courses[1].toObject()["from_step"].toInt(), 4);
        QCOMPARE(courses[1].toObject()["steps"].toInt(), 3);
        for (const char *key : {"iteration_seconds_median", "predicted_iteration_seconds"})
            QCOMPARE(courses[1].toObject()[key], course[key]);
        QVERIFY(run({"compare", limited, folder}).out.contains("course by measured times, from step 4 on: measured"));
        const QJsonObject step = both["compared"].toObject()["figures"].toArray()[0].toObject();
        QCOMPARE(step["b"], courses[0].toObject()["iteration_seconds_median"]);
        QVERIFY(entries(at(folder)).filter(".rank").isEmpty()); // the ranks' traces were joined
    }

    /// A resumed run measures anew, and what was measured before is put aside.
    void resumesByMeasuredTimes()
    {
        Done done =
            run({"plan", "--model", "zoo:gpt-nano", "--cluster", "local:2", "--planner", "gpipe", "--batch", "8",
                 "--micro-batch", "2", "--memory", "delta,budget=60%,clock=measured", "-o", "again.json", "--quiet"});
        QVERIFY2(done.status == 0, done.err.constData());
        const auto train = [&](const char *plan, const char *steps, const char *folder, bool resumes) {
            QStringList words{"train",     plan,        "--data", "text",
                              "--steps",   steps,       "--seed", "3",
                              "--run-dir", folder,      "--json", "--checkpoint-every",
                              "3",         "--holdout", "0.1",    "--validate-every",
                              "2"};
            return run(resumes ? words << "--resume" : words);
        };
        const auto reports = [&](const Done &run) {
            QList<QJsonObject> found;
            for (QJsonObject line : linesOf(run.out))
                if (line.contains("loss") || line.contains("validation")) {
                    line.remove("seconds");
                    line.remove("samples_per_second");
                    found << line;
                }
            return found;
        };
        const Done whole = train("nano2.json", "12", "again.free", false);
        const Done first = train("again.json", "6", "again.run", false);
        const Done second = train("again.json", "12", "again.run", true);
        for (const Done *each : {&whole, &first, &second})
            QVERIFY2(each->status == 0, each->err.constData());
        QVERIFY(reports(whole).size() > 12);
        QCOMPARE(reports(first) + reports(second), reports(whole)); // to the bit, held-out losses, too
        const auto fromStep = [&](const char *file) {
            return QJsonDocument::fromJson(readAll(at(QString("again.run/") + file))).object()["from_step"].toInt();
        };
        QCOMPARE(fromStep("measured.1.json"), 4);
        QCOMPARE(fromStep("measured.json"), 10);
        QVERIFY(QFile::exists(at("again.run/trace.measured.1.pltrace")));
        QVERIFY(QFile::exists(at("again.run/trace.measured.pltrace")));

        done = run({"simulate", "nano2.json", "--times", "again.run/measured.json"});
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.contains("leave out --times"), done.err.constData());
    }

    void resumesWithStatesOnTheHost_data()
    {
        QTest::addColumn<QString>("precision");
        QTest::addColumn<QString>("hosted");
        QTest::newRow("float32") << "fp32"
                                 << "optimizer_state=host";
        QTest::newRow("bfloat16") << "bf16"
                                  << "optimizer_state=host"; // and the float32 parameters with it
        QTest::newRow("parameters") << "fp32"
                                    << "parameters=host";
        QTest::newRow("both in a file") << "fp32"
                                        << "optimizer_state=host,parameters=host,host_tier=.";
    }

    /// The optimizer's state or parameters lie on the host between updates: the arena is smaller by them, and a
    /// checkpoint has them. A run goes on with them on the device, and the other way round.
    void resumesWithStatesOnTheHost()
    {
        QFETCH(QString, precision);
        QFETCH(QString, hosted);
        const auto plan = [&](const QString &where, const char *file) {
            return run({"plan", "--model", "zoo:gpt-nano", "--cluster", "local:1", "--planner", "data-parallel",
                        "--batch", "4", "--memory", "delta,budget=70%," + where, "--precision", precision, "-o", file,
                        "--quiet"});
        };
        QCOMPARE(plan(hosted, "hosted.json").status, 0);
        QCOMPARE(plan("optimizer_state=device", "kept.json").status, 0);
        const auto train = [&](const char *what, const char *steps, const char *folder, bool resumes = false) {
            QStringList words{"train",     what,      "--data",
                              "text",      "--steps", steps,
                              "--run-dir", folder,    "--checkpoint-every",
                              "1",         "--json"};
            return run(resumes ? words << "--resume" : words);
        };
        const auto lossesOf = [&](const Done &done) {
            QList<double> losses;
            for (const QJsonObject &line : linesOf(done.out))
                if (line.contains("loss"))
                    losses << line["loss"].toDouble();
            return losses;
        };
        const auto folder = [&](const char *name) {
            return (QString(QTest::currentDataTag()).remove(' ') + "." + name).toUtf8();
        };
        const Done kept = train("kept.json", "4", folder("kept"));
        const Done whole = train("hosted.json", "4", folder("whole"));
        const Done first = train("hosted.json", "2", folder("parts"));
        const Done second = train("hosted.json", "4", folder("parts"), true);
        const Done away = train("kept.json", "2", folder("moves"));
        const Done back = train("hosted.json", "3", folder("moves"), true);
        const Done here = train("kept.json", "4", folder("moves"), true);
        for (const Done *done : {&kept, &whole, &first, &second, &away, &back, &here})
            QVERIFY2(done->status == 0, done->err.constData());
        QCOMPARE(lossesOf(away) + lossesOf(back) + lossesOf(here), lossesOf(kept));
        QCOMPARE(lossesOf(kept).size(), 4);
        QCOMPARE(lossesOf(whole), lossesOf(kept)); // to the bit
        QCOMPARE(lossesOf(first) + lossesOf(second), lossesOf(kept));
        const auto peak = [&](const Done &done) {
            const QJsonObject summary = linesOf(done.out).last()["summary"].toObject();
            [&] { QCOMPARE(summary["peak_bytes_measured"], summary["peak_bytes_predicted"]); }();
            return summary["peak_bytes_measured"].toArray().first().toDouble();
        };
        QVERIFY(peak(whole) < peak(kept));
    }

    /// Parameters that leave for others stand in both logs, of all micro-batches.
    void parametersOnTheHostAreDropped()
    {
        Done done = run({"plan", "--model", "zoo:gpt-nano", "--cluster", "local:2", "--planner", "gpipe", "--batch",
                         "4", "--micro-batch", "2", "--memory", "delta,budget=40%,parameters=host", "-o",
                         "dropped.json", "--quiet"});
        QVERIFY2(done.status == 0, done.err.constData());
        done = run({"simulate", "dropped.json", "--decisions", "dropped.tsv"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QByteArrayList predicted = readAll(at("dropped.tsv")).split('\n').mid(1);
        const auto drops = std::count_if(predicted.begin(), predicted.end(),
                                         [](const QByteArray &line) { return line.endsWith("\tdrop"); });
        QVERIFY(drops > 0);
        done = run({"train", "dropped.json", "--data", "text", "--steps", "3", "--decisions", "dropped.run.tsv"});
        QVERIFY2(done.status == 0, done.err.constData());
        QByteArrayList expected;
        for (int step = 0; step < 3; ++step)
            for (const QByteArray &line : predicted)
                if (!line.isEmpty())
                    expected << QByteArray::number(step) + "\t" + line;
        QByteArrayList executed = readAll(at("dropped.run.tsv")).split('\n').mid(1);
        executed.removeAll(QByteArray());
        QCOMPARE(executed, expected);
    }

    void trainsAndSumsUp_data()
    {
        QTest::addColumn<int>("ranks");
        QTest::newRow("1 rank") << 1;
        QTest::newRow("2 stages") << 2;
    }

    void trainsAndSumsUp()
    {
        QFETCH(int, ranks);
        const QString folder = QString("run%1").arg(ranks);
        const Done done = run({"train", QString("nano%1.json").arg(ranks), "--data", "text", "--steps", "6", "--seed",
                               "3", "--run-dir", folder, "--workspace", "w.planloom", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QList<QJsonObject> lines = linesOf(done.out);
        QCOMPARE(lines.size(), 7);
        for (int step = 0; step < 6; ++step) {
            QCOMPARE(lines[step].keys(),
                     QStringList({"learning_rate", "loss", "samples_per_second", "seconds", "step"}));
            QCOMPARE(lines[step]["step"].toInt(), step);
        }
        QCOMPARE(lines.last().keys(), QStringList("summary"));
        const QJsonObject summary = lines.last()["summary"].toObject();
        for (const char *key : {"steps", "loss_first", "loss_last", "iteration_seconds_median",
                                "predicted_iteration_seconds", "prediction_error", "peak_bytes_predicted",
                                "peak_bytes_measured", "beyond_arena_bytes", "shared_bytes", "sent_bytes", "trace"})
            QVERIFY2(summary.contains(key), key);
        QCOMPARE(summary["steps"].toInt(), 6);
        QVERIFY(summary["loss_last"].toDouble() < summary["loss_first"].toDouble());
        QCOMPARE(summary["peak_bytes_measured"].toArray().size(), ranks);
        QCOMPARE(summary["beyond_arena_bytes"].toArray().size(), ranks);
        QVERIFY(summary["beyond_arena_bytes"].toArray().first().toDouble() > 0);
        QCOMPARE(summary["sent_bytes"].toArray().size(), ranks);
        QCOMPARE(summary["peak_bytes_measured"], summary["peak_bytes_predicted"]);

        const QJsonObject inspected = linesOf(run({"inspect", folder, "--json"}).out).value(0);
        QCOMPARE(inspected["kind"].toString(), QString("run"));
        QCOMPARE(inspected["summary"].toObject()["steps"].toInt(), 6);
        QCOMPARE(inspected["metrics"].toObject()["steps"].toInt(), 6);
        QCOMPARE(inspected["metrics"].toObject()["state"].toString(), QString("finished"));
        const QJsonObject compared =
            linesOf(run({"compare", QString("nano%1.json").arg(ranks), folder, "--json"}).out).value(0);
        QCOMPARE(compared["b"].toObject()["kind"].toString(), QString("run"));
        QVERIFY(compared["differences"].toArray().isEmpty());
        QVERIFY(compared["tasks"].isObject());
        const QJsonArray runs = linesOf(run({"inspect", "w.planloom", "--json"}).out).value(0)["runs"].toArray();
        QCOMPARE(runs[0].toObject()["state"].toString(), QString("finished"));

        const Done exported = run({"export", folder, "--to", "chrome-trace", "-o", folder + ".json", "--quiet"});
        QVERIFY2(exported.status == 0, exported.err.constData());
        const QJsonObject trace = linesOf(run({"inspect", folder + "/trace.pltrace", "--json"}).out).value(0);
        QCOMPARE(trace["clock"].toString(), QString("wall"));
        QCOMPARE(trace["steps"].toInt(), 6);
        QCOMPARE(trace["dropped"].toInt(), 0);
    }

    /// A round of steps, between averages, is what a prediction is compared by.
    void roundsArePredictedAndCompared()
    {
        const Done planned =
            run({"plan", "--model", "zoo:gpt-nano", "--cluster", "local:2", "--planner", "data-parallel", "--batch",
                 "4", "--exchange", "dasgd,local_steps=4,delay=2", "-o", "rounds.json", "--quiet"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const Done done = run({"train", "rounds.json", "--data", "text", "--steps", "14", "--seed", "3", "--run-dir",
                               "rounds", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QList<QJsonObject> lines = linesOf(done.out);
        QCOMPARE(lines.size(), 15);
        for (int step = 0; step < 14; ++step) // averages of steps 3 and 7 are merged in steps 5 and 9
            QCOMPARE(lines[step]["consensus_distance"].toDouble() > 0, step == 6 || step == 10);
        const QJsonObject compared = linesOf(run({"compare", "rounds.json", "rounds", "--json"}).out).value(0);
        const QJsonObject tasks = compared["tasks"].toObject();
        QVERIFY(tasks["only_measured"].toArray().isEmpty());
        QVERIFY(tasks["only_predicted"].toArray().isEmpty());
        const double predicted = compared["a"].toObject()["iteration_seconds"].toDouble();
        QVERIFY(predicted > 0);
        QVERIFY(std::abs(tasks["predicted_iteration_seconds"].toDouble() / predicted - 1) < 1e-6);
        const QJsonObject trace = linesOf(run({"inspect", "rounds/trace.pltrace", "--json"}).out).value(0);
        QCOMPARE(trace["round_steps"].toInt(), 4);
    }

    /// Each replica's losses and the rows of each table stand in the run's folder, a line a step, also behind a resume.
    void seriesOfARun()
    {
        const Done planned = run({"plan", "--model", PLANLOOM_SOURCE_DIR "/resources/samples/tiny-llama.json",
                                  "--cluster", "local:2", "--planner", "data-parallel", "--batch", "4", "--exchange",
                                  "embrace,dense=dasgd,local_steps=4,delay=2,scheduling=2d,tables=*:all-to-all", "-o",
                                  "series.json", "--quiet"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const Done done = run({"train", "series.json", "--data", "text", "--steps", "6", "--run-dir", "series",
                               "--checkpoint-every", "5", "--quiet"});
        QVERIFY2(done.status == 0, done.err.constData());
        const Done more = run({"train", "series", "--resume", "--steps", "12", "--quiet"});
        QVERIFY2(more.status == 0, more.err.constData());
        QList<double> losses;
        for (const QJsonObject &line : linesOf(readAll(at("series/metrics.jsonl"))))
            losses << line["loss"].toDouble();
        QCOMPARE(losses.size(), 12);
        QList<QList<QByteArray>> ofReplicas;
        for (const char *name : {"series/losses/r0.csv", "series/losses/r1.csv"}) {
            ofReplicas << readAll(at(name)).trimmed().split('\n');
            QCOMPARE(ofReplicas.back().size(), 13);
            QCOMPARE(ofReplicas.back().front(), QByteArray("step,loss"));
        }
        const QList<QByteArray> rows = readAll(at("series/rows/t0.csv")).trimmed().split('\n');
        QCOMPARE(rows.size(), 3 + 12);
        QVERIFY2(rows[0].endsWith(",2,zipf") && rows[2].startsWith("expected,"), rows[0].constData());
        for (int step = 0; step < 12; ++step) { // replicas have as many samples each
            const QList<QByteArray> a = ofReplicas[0][step + 1].split(','), b = ofReplicas[1][step + 1].split(',');
            QCOMPARE(a[0].toInt(), step);
            QVERIFY(std::abs((a[1].toDouble() + b[1].toDouble()) / 2 / losses[step] - 1) < 1e-5);
            const QList<QByteArray> counts = rows[step + 3].split(',');
            QCOMPARE(counts[0].toInt(), step);
            QVERIFY(counts[2].toInt() > 0 && counts[2].toInt() <= counts[1].toInt());
            QCOMPARE(counts[3].toInt() + counts[4].toInt(), counts[2].toInt());
        }
    }

    /// inspect, plan and train agree on whether a model can be trained, with which loss and on what data.
    void lossesAreAgreedOn()
    {
        const QString golden = PLANLOOM_SOURCE_DIR "/tests/golden/losses/";
        const QString regression = golden + "regression/model.onnx";
        const auto inspected = [&](const QStringList &more) {
            const Done done = run(QStringList{"inspect", "--json", regression} + more);
            return linesOf(done.out).value(0);
        };
        const QStringList plan{"plan",          "--model", regression, "--cluster", "local:2",          "--planner",
                               "data-parallel", "--batch", "8",        "-o",        "values.plan.json", "--quiet"};
        const auto without = inspected({});
        QCOMPARE(without["trainable"].toBool(), false);
        QVERIFY(without["loss"].isNull());
        const QString why = without["not_trainable"].toString();
        QVERIFY2(why.contains("--loss binary-cross-entropy, mse, l1 or huber"), qPrintable(why));
        const Done refused = run(plan);
        QCOMPARE(refused.status, 2);
        QVERIFY2(refused.err.contains(why.toUtf8()), refused.err.constData());

        const auto with = inspected({"--loss", "mse"});
        QCOMPARE(with["trainable"].toBool(), true);
        QCOMPARE(with["loss"].toObject()["targets"].toArray().first().toString(), QString("targets float32 [N, 1]"));
        const Done planned = run(plan + QStringList{"--loss", "mse"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const Done known = run({"inspect", "--json", "values.plan.json"});
        QCOMPARE(linesOf(known.out).value(0)["loss"], with["loss"]);
        const QStringList train{"train", "values.plan.json", "--steps", "3", "--json", "--data"};
        const Done misfit = run(train + QStringList{golden + "unet/data", "--run-dir", "misfit.run"});
        QCOMPARE(misfit.status, 2);
        QVERIFY2(misfit.err.contains("has 256 elements in a sample"), misfit.err.constData());
        const Done trained = run(train
                                 + QStringList{PLANLOOM_SOURCE_DIR "/tests/golden/data/digits.csv.gz", "--run-dir",
                                               "values.run", "--holdout", "0.1", "--validate-every", "3"});
        QVERIFY2(trained.status == 0, trained.err.constData());
        QVERIFY(trained.out.contains("\"accuracy\":null,\"perplexity\":null"));
    }

    // A plan file leaves large weights out: ranks and measurements take them from the file that the model was read
    // from.
    void trainsFromStoredWeights()
    {
        QByteArray weights;
        for (int i = 0; i < 64 * 20; ++i) {
            const float value = static_cast<float>(i * 37 % 101 - 50) / 500;
            weights.append(reinterpret_cast<const char *>(&value), sizeof value);
        }
        QByteArray model = R"({"schema": "planloom.graph/1", "name": "stored", "tensors": [
            {"name": "x", "type": "float32", "shape": ["N", 64], "role": "input"}, {"name": "labels", "type": "int64", "shape": ["N"], "role": "input"},
            {"name": "w", "type": "float32", "shape": [64, 20], "role": "parameter", "init": {"kind": "data", "data": "WEIGHTS"}},
            {"name": "y", "type": "float32", "shape": ["N", 20], "role": "activation"}, {"name": "loss", "type": "float32", "shape": [], "role": "activation"},
            {"name": "loss:1", "type": "float32", "shape": ["N", 2], "role": "activation"}], "ops": [
            {"type": "MatMul", "name": "product", "scope": "head", "inputs": ["x", "w"], "outputs": ["y"]},
            {"type": "SoftmaxCrossEntropyLoss", "name": "loss", "inputs": ["y", "labels"], "outputs": ["loss", "loss:1"], "attributes": {}}],
            "outputs": ["loss"], "loss": "loss"})";
        model.replace("WEIGHTS", weights.toBase64());
        QVERIFY(write(at("stored.json"), model));
        QByteArray samples;
        for (int i = 0; i < 16; ++i) {
            for (int j = 0; j < 64; ++j)
                samples += QByteArray::number((i * 7 + j * 3) % 11) + ',';
            samples += QByteArray::number(i % 20) + '\n';
        }
        QVERIFY(write(at("samples.csv"), samples));
        const Done planned = run({"plan", "--model", "stored.json", "--cluster", "local:2", "--planner",
                                  "data-parallel", "--batch", "16", "-o", "stored.plan.json", "--quiet"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const QStringList train{"train", "stored.plan.json", "--data",   "samples.csv", "--steps",
                                "1",     "--json",           "--run-dir"};
        const Done trained = run(train + QStringList{"stored.run"});
        QVERIFY2(trained.status == 0, trained.err.constData());
        const double loss = linesOf(trained.out).value(0)["loss"].toDouble();
        QVERIFY2(std::abs(loss - firstLoss(weights)) < 1e-4,
                 qPrintable(QString("%1, not %2").arg(loss).arg(firstLoss(weights))));
        const Done measured = run({"profile", "--plan", "stored.plan.json", "-o", "stored.profile.json", "--quiet"});
        QVERIFY2(measured.status == 0, measured.err.constData());

        QVERIFY(write(at("stored.json"), QByteArray(model).replace("\"product\"", "\"other\"")));
        const Done other = run(train + QStringList{"other.run"});
        QCOMPARE(other.status, 2);
        QVERIFY2(other.err.contains("stored.json") && other.err.contains("plan again"), other.err.constData());
        QVERIFY(QFile::remove(at("stored.json")));
        const Done gone = run(train + QStringList{"gone.run"});
        QCOMPARE(gone.status, 2);
        QVERIFY2(gone.err.contains("stored.json") && gone.err.contains("'w'"), gone.err.constData());
    }

    void tracesTheStepsThatAreAskedFor_data()
    {
        QTest::addColumn<QString>("which");
        QTest::addColumn<int>("last"); ///< step that is traced, and one
        QTest::newRow("all") << "on" << 6;
        QTest::newRow("one in three") << "3" << 4;
        QTest::newRow("none") << "off" << 0;
    }

    void tracesTheStepsThatAreAskedFor()
    {
        QFETCH(QString, which);
        QFETCH(int, last);
        const QString folder = "trace-" + which;
        const Done done = run(
            {"train", "nano1.json", "--data", "text", "--steps", "6", "--trace", which, "--run-dir", folder, "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        QCOMPARE(linesOf(done.out).size(), 7);
        const QJsonObject trace = linesOf(run({"inspect", folder + "/trace.pltrace", "--json"}).out).value(0);
        QCOMPARE(trace["steps"].toInt(), last);
        const QJsonObject compared = linesOf(run({"compare", "nano1.json", folder, "--json"}).out).value(0);
        QCOMPARE(compared["tasks"].isObject(), last > 0);
        QVERIFY(run({"inspect", folder, "--quiet"}).status == 0);
        const Done exported = run({"export", folder, "--to", "chrome-trace", "-o", "trace.json"});
        QCOMPARE(exported.status, last > 0 ? 0 : 2);
        QVERIFY2(last > 0 || exported.err.contains("--trace off"), exported.err.constData());
    }

    void layoutsAgree()
    {
        // The same seed gives the same losses, however many ranks share the work.
        QList<double> losses[2];
        for (int ranks : {1, 2}) {
            for (const QJsonObject &line :
                 linesOf(run({"train", QString("nano%1.json").arg(ranks), "--data", "text", "--steps", "4", "--json"})
                             .out)) {
                if (line.contains("loss"))
                    losses[ranks - 1] << line["loss"].toDouble();
            }
        }
        QCOMPARE(losses[0].size(), 4);
        QCOMPARE(losses[1].size(), 4);
        for (int step = 0; step < 4; ++step)
            QVERIFY(std::abs(losses[0][step] - losses[1][step]) <= 1e-4 * losses[0][step]);
    }

    /// A run's folder is enough to go on with it.
    void resumesByItsFolder()
    {
        const Done begun = run({"train", "nano1.json", "--data", "text", "--steps", "5", "--checkpoint-every", "2",
                                "--run-dir", "part", "--json"});
        QVERIFY2(begun.status == 0, begun.err.constData());
        const Done resumed = run({"train", "part", "--resume", "--steps", "8", "--json"});
        QVERIFY2(resumed.status == 0, resumed.err.constData());
        const auto lines = linesOf(resumed.out);
        QCOMPARE(lines.size(), 4);
        QCOMPARE(lines[0]["step"].toInt(), 5);
        QCOMPARE(lines[3]["summary"].toObject()["steps"].toInt(), 8);
        const QJsonObject inspected = linesOf(run({"inspect", "part", "--json"}).out).value(0);
        QCOMPARE(inspected["metrics"].toObject()["steps"].toInt(), 8);
        QCOMPARE(inspected["checkpoints"].toArray().first().toInt(), 8);
        const Done said = run({"train", "part", "--resume", "--steps", "9"});
        QVERIFY2(said.out.contains("resumed       goes on from step 8"), said.out.constData());
        // Of two runs neither is a prediction.
        const Done compared = run({"compare", "part", "part"});
        QVERIFY2(compared.out.contains(" A (ms)") && !compared.out.contains("predicted (ms)"),
                 compared.out.constData());
        // The trace of the last part alone is exported, and that is said.
        const Done exported = run({"export", "part", "--to", "chrome-trace", "-o", "part.json"});
        QVERIFY2(exported.out.contains("the run's trace has steps 8 to 8, counted from 0"), exported.out.constData());
        QVERIFY(run({"train", "nano1.json", "--data", "text", "--steps", "1", "--run-dir", "unkept", "--quiet"}).status
                == 0);
        const Done anew = run({"train", "unkept", "--resume", "--steps", "2"});
        QVERIFY2(anew.out.contains("resumed       begins at the first step; there is no checkpoint yet"),
                 anew.out.constData());
        const Done without = run({"train", "part"});
        QCOMPARE(without.status, 2);
        QVERIFY2(without.err.contains("--resume"), without.err.constData());
    }

    /// The socket's name means the same to both, also where it is a relative one.
    void trainsWithAnAgentThatIsThere()
    {
        QProcess agent;
        prepare(agent);
        agent.start(binary(), {"agent", "--socket", "here.sock", "--root", "runs", "--exit-with-parent"});
        QTRY_VERIFY_WITH_TIMEOUT(QFile::exists(at("here.sock")) || agent.state() == QProcess::NotRunning, kWait);
        QVERIFY2(agent.state() == QProcess::Running, agent.readAllStandardError().constData());
        const Done done =
            run({"train", "nano1.json", "--data", "text", "--steps", "2", "--agent", "here.sock", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        QVERIFY(linesOf(done.out).last()["summary"].toObject()["trace"].toString().startsWith(at("runs/")));
        agent.closeWriteChannel();
        QVERIFY(agent.waitForFinished(kWait));
    }

    void aFolderHoldsOneRun()
    {
        QVERIFY(run({"train", "nano1.json", "--data", "text", "--steps", "1", "--run-dir", "once", "--quiet"}).status
                == 0);
        const Done again = run({"train", "nano1.json", "--data", "text", "--steps", "1", "--run-dir", "once"});
        QCOMPARE(again.status, 2);
        QCOMPARE(again.out, QByteArray());
        QVERIFY2(again.err.startsWith("planloom: error: ") && again.err.contains("once"), again.err.constData());
        QCOMPARE(linesOf(run({"inspect", "once", "--json"}).out).value(0)["summary"].toObject()["steps"].toInt(), 1);
    }

    void aSecondTrainingInTheSameFolderIsRefused()
    {
        QProcess first;
        start(first, {"train", "nano1.json", "--data", "text", "--steps", "1000000", "--run-dir", "shared", "--json"});
        QVERIFY(first.waitForReadyRead(kWait)); // a step was done
        const Done second = run({"train", "nano1.json", "--data", "text", "--steps", "1", "--run-dir", "shared"});
        QCOMPARE(second.status, 2);
        QVERIFY2(second.err.contains("shared"), second.err.constData());
        QCOMPARE(first.state(), QProcess::Running);
        first.terminate();
        QVERIFY(first.waitForFinished(kWait));
    }

    void ctrlCStopsCleanly_data()
    {
        QTest::addColumn<int>("ranks");
        QTest::newRow("1 rank") << 1;
        QTest::newRow("2 stages") << 2;
    }

    void ctrlCStopsCleanly()
    {
        QFETCH(int, ranks);
        const QString folder = QString("stopped%1").arg(ranks);
        QProcess process;
        start(process,
              {"train", QString("nano%1.json").arg(ranks), "--data", "text", "--steps", "1000000", "--run-dir", folder,
               "--workspace", "w.planloom", "--json"});
        QVERIFY(process.waitForReadyRead(kWait));
        QCOMPARE(::kill(static_cast<pid_t>(process.processId()), SIGINT), 0);
        QVERIFY(process.waitForFinished(kWait));
        QCOMPARE(process.exitStatus(), QProcess::NormalExit);
        QCOMPARE(process.exitCode(), 1);
        const QByteArray err = process.readAllStandardError();
        QVERIFY2(err.startsWith("planloom: error: stopped") && err.count('\n') == 1, err.constData());
        // The steps before are complete.
        const QList<QJsonObject> lines = linesOf(process.readAllStandardOutput());
        QVERIFY(lines.last().contains("summary"));
        QCOMPARE(lines.last()["summary"].toObject()["steps"].toInt(), static_cast<int>(lines.size()) - 1);
        QVERIFY(run({"inspect", folder + "/trace.pltrace", "--quiet"}).status == 0);
        const QJsonArray runs = linesOf(run({"inspect", "w.planloom", "--json"}).out).value(0)["runs"].toArray();
        QCOMPARE(runs[0].toObject()["state"].toString(), QString("stopped"));
        for (const QString &file : QDir(at(folder)).entryList(QDir::Files))
            QVERIFY2(!file.contains(".json."), qPrintable(file)); // a temporary of an atomic write
    }

    void killedWithoutWarningLeavesNoProcess()
    {
        QProcess process;
        start(process,
              {"train", "nano2.json", "--data", "text", "--steps", "1000000", "--run-dir", "killed", "--json"});
        QVERIFY(process.waitForReadyRead(kWait));
        process.kill();
        QVERIFY(process.waitForFinished(kWait));
        QTRY_COMPARE_WITH_TIMEOUT(processesIn(m_folder.path()), QStringList(), kWait); // agent and workers follow
        QVERIFY(run({"inspect", "killed/trace.pltrace", "--quiet"}).status == 0);
    }
};

QTEST_GUILESS_MAIN(TestTrainCli)
#include "tst_train_cli.moc"

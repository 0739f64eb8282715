// SPDX-License-Identifier: Apache-2.0
// Training by ADMM by the command, as a user runs it, on the digits.
#include "app/cli_fixture.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

#include <cmath>
#include <csignal>
#include <numeric>

using namespace planloom::testing;

namespace {

const QString kDigits = QStringLiteral(PLANLOOM_SOURCE_DIR "/tests/golden/data/digits.csv.gz");

QJsonObject objectOf(const QByteArray &text) { return QJsonDocument::fromJson(text).object(); }

/// What steps report, without their times.
QByteArray figuresOf(const QByteArray &lines)
{
    QByteArray figures;
    for (const QByteArray &line : lines.split('\n')) {
        const QJsonObject step = objectOf(line);
        for (const char *key : {"step", "loss", "objective", "primal_residual", "dual_residual"})
            figures += step.contains(key) ? QByteArray::number(step[key].toDouble(), 'g', 17) + ' ' : QByteArray();
        figures += '\n';
    }
    return figures;
}

} // namespace

class TestAdmmCli : public CliTest {
    Q_OBJECT

    [[nodiscard]] Done plan(const QStringList &more) const
    {
        return run(QStringList{"plan", "--planner", "admm", "--model", "zoo:rnn"} + more);
    }
    [[nodiscard]] Done train(const QString &planFile, const QString &folder, int steps,
                             const QStringList &more = {}) const
    {
        return run(QStringList{"train", planFile, "--data", kDigits, "--holdout", "0.3333", "--run-dir", folder,
                               "--steps", QString::number(steps), "--json"}
                   + more);
    }

private slots:
    void initTestCase()
    {
        const Done two = plan({"--cluster", "local:2", "--batch", "1198", "--set", "workers=2", "-o", "two.json"});
        QVERIFY2(two.status == 0, two.err.constData());
        const Done one = plan({"--cluster", "local:1", "--batch", "1198", "-o", "one.json"});
        QVERIFY2(one.status == 0, one.err.constData());
    }

    void tellsOfItself()
    {
        const QJsonObject training = objectOf(readAll(at("two.json")))["training"].toObject();
        QCOMPARE(training["kind"].toString(), QStringLiteral("admm"));
        QCOMPARE(training["penalties"].toObject()["mu"].toDouble(), 10.0);
        const Done simulated = run({"simulate", "two.json", "--json"});
        QVERIFY2(simulated.status == 0, simulated.err.constData());
        QVERIFY(objectOf(simulated.out)["iteration_seconds"].toDouble() > 0);
    }

    /// Two workers learn as one does, to rounding; what is predicted of their memory is so, to the byte.
    void learns()
    {
        const Done one = train("one.json", "one.run", 12);
        const Done two = train("two.json", "two.run", 12);
        QVERIFY2(one.status == 0 && two.status == 0, (one.err + two.err).constData());
        const auto lines = two.out.split('\n');
        const auto ofOne = one.out.split('\n');
        for (int step = 0; step < 12; ++step) {
            const QJsonObject a = objectOf(ofOne[step]);
            const QJsonObject b = objectOf(lines[step]);
            for (const char *key : {"loss", "objective", "primal_residual", "dual_residual"})
                QVERIFY2(std::fabs(a[key].toDouble() - b[key].toDouble()) < 1e-3 * b[key].toDouble(),
                         (key + QByteArray::number(step)).constData());
            QVERIFY(b["primal_residual"].toDouble() > 0);
        }
        const QJsonObject summary = objectOf(lines[lines.size() - 2])["summary"].toObject();
        QVERIFY2(!summary.isEmpty(), two.out.constData());
        QCOMPARE(summary["peak_bytes_measured"], summary["peak_bytes_predicted"]);
        QVERIFY(summary["evaluation_accuracy"].toDouble() > 0.85);
    }

    void resumesToTheBit()
    {
        const Done whole = train("two.json", "whole.run", 6);
        const Done part = train("two.json", "part.run", 3, {"--checkpoint-every", "3"});
        QVERIFY2(whole.status == 0 && part.status == 0, (whole.err + part.err).constData());
        const Done rest = run({"train", "part.run", "--resume", "--steps", "6", "--json"});
        QVERIFY2(rest.status == 0, rest.err.constData());
        QCOMPARE(figuresOf(readAll(at("part.run/metrics.jsonl"))), figuresOf(readAll(at("whole.run/metrics.jsonl"))));
        QVERIFY(figuresOf(readAll(at("whole.run/metrics.jsonl"))).size() > 6 * 20);
    }

    /// A parameter server makes versions as workers arrive; the record of one run, and a checkpoint of it, give its
    /// bits again.
    void goesOnWithoutTheLate()
    {
        const Done planned = plan({"--cluster", "local:2", "--batch", "1198", "--set", "workers=2", "--set",
                                   "parallel=asynchronous", "--set", "barrier=1", "--set", "delay=2", "-o", "ap.json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const QJsonObject training = objectOf(readAll(at("ap.json")))["training"].toObject();
        QCOMPARE(training["parallel"].toString(), QStringLiteral("asynchronous"));
        QCOMPARE(training["delay"].toInt(), 2);
        const Done simulated = run({"simulate", "ap.json", "--json"});
        QVERIFY2(simulated.status == 0, simulated.err.constData());
        QVERIFY(objectOf(simulated.out)["iteration_seconds"].toDouble() > 0);

        const QStringList often{"--checkpoint-every", "4"};
        const Done once = train("ap.json", "ap.run", 12, often);
        QVERIFY2(once.status == 0, once.err.constData());
        const auto lines = once.out.split('\n');
        const QJsonObject summary = objectOf(lines[lines.size() - 2])["summary"].toObject();
        QVERIFY2(summary["evaluation_accuracy"].toDouble() > 0.7, once.out.constData());
        const QByteArray recorded = readAll(at("ap.run/arrivals.csv"));
        QCOMPARE(recorded.count('\n'), 13);
        QVERIFY(run({"export", "ap.run", "--to", "chrome-trace", "-o", "ap.trace.json"}).status == 0);
        const QByteArray trace = readAll(at("ap.trace.json"));
        for (const char *name : {"\"S\"", "\"w0\"", "\"w1\"", "parameter server"})
            QVERIFY2(trace.contains(name), name);

        // A version is made of what arrives in it, not of the whole batch.
        const QJsonObject sides = objectOf(run({"compare", "ap.json", "ap.run", "--json"}).out);
        const double predicted = objectOf(simulated.out)["samples_per_second"].toDouble();
        const QJsonObject a = sides["a"].toObject(), b = sides["b"].toObject();
        QCOMPARE(a["samples_per_second"].toDouble(), predicted);
        QVERIFY(predicted * objectOf(simulated.out)["iteration_seconds"].toDouble() < 0.7 * 1198);
        QVERIFY(std::abs(b["samples_per_second"].toDouble() * b["iteration_seconds"].toDouble()
                         - predicted * a["iteration_seconds"].toDouble())
                < 1e-6 * 1198);

        const Done again = train("ap.json", "again.run", 12, often + QStringList{"--arrivals", "ap.run/arrivals.csv"});
        QVERIFY2(again.status == 0, again.err.constData());
        QCOMPARE(readAll(at("again.run/arrivals.csv")), recorded);
        QCOMPARE(figuresOf(readAll(at("again.run/metrics.jsonl"))), figuresOf(readAll(at("ap.run/metrics.jsonl"))));

        const Done part = train("ap.json", "half.run", 8, often + QStringList{"--arrivals", "ap.run/arrivals.csv"});
        QVERIFY2(part.status == 0, part.err.constData());
        const Done rest = run({"train", "half.run", "--resume", "--steps", "12", "--json"});
        QVERIFY2(rest.status == 0, rest.err.constData());
        QCOMPARE(readAll(at("half.run/arrivals.csv")), recorded);
        // Every version's figures, the change of the parameters in the first one behind the checkpoint, too.
        QCOMPARE(figuresOf(readAll(at("half.run/metrics.jsonl"))), figuresOf(readAll(at("ap.run/metrics.jsonl"))));
    }

    /// The other goes on until the silent one is as late as it may be, and the run ends by its name.
    void aSilentWorkerIsNamed()
    {
        const Done planned =
            plan({"--cluster", "local:2", "--batch", "1198", "--set", "workers=2", "--set", "parallel=asynchronous",
                  "--set", "barrier=1", "--set", "delay=3", "-o", "silent.json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        QProcess process;
        start(process,
              {"train", "silent.json", "--data", kDigits, "--holdout", "0.3333", "--run-dir", "silent.run", "--steps",
               "1000000", "--timeout", "3"});
        QTRY_VERIFY_WITH_TIMEOUT(readAll(at("silent.run/metrics.jsonl")).count('\n') > 4, kWait);
        pid_t worker = 0;
        for (const QString &entry : QDir("/proc").entryList(QDir::Dirs)) {
            const QString folder = "/proc/" + entry;
            if (readAll(folder + "/cmdline").contains("silent.run")
                && readAll(folder + "/environ").contains("OMPI_COMM_WORLD_RANK=1")
                && QFileInfo(folder + "/cwd").canonicalFilePath() == QFileInfo(m_folder.path()).canonicalFilePath())
                worker = entry.toInt();
        }
        QVERIFY(worker > 1);
        QCOMPARE(::kill(worker, SIGSTOP), 0);
        QVERIFY(process.waitForFinished(kWait));
        const QByteArray said = process.readAllStandardError();
        QCOMPARE(process.exitCode(), 1);
        QVERIFY2(said.contains("waits for worker 1 (n0:g1), 3 versions late"), said.constData());
    }

    void goesOnByGradients_data()
    {
        QTest::addColumn<int>("ranks");
        QTest::addColumn<QList<int>>("cuts");
        QTest::newRow("1 rank") << 1 << QList<int>{2, 3, 4};
        QTest::newRow("2 ranks") << 2 << QList<int>{3};
    }

    /// Iterations, then steps of AdamW, as one run: whether it is cut before the change, at it or behind it.
    void goesOnByGradients()
    {
        QFETCH(int, ranks);
        QFETCH(QList<int>, cuts);
        const QString own = QStringLiteral("then%1").arg(ranks);
        const Done planned = plan({"--cluster", QStringLiteral("local:%1").arg(ranks), "--batch", "1198", "--set",
                                   QStringLiteral("workers=%1").arg(ranks), "--set", "switch_after=3", "--optimizer",
                                   "adamw", "--learning-rate", "0.01", "-o", own + ".json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const QStringList often{"--checkpoint-every", "1"};
        const Done whole = train(own + ".json", own + ".run", 6, often);
        QVERIFY2(whole.status == 0, whole.err.constData());
        const QByteArray wanted = figuresOf(readAll(at(own + ".run/metrics.jsonl")));
        const auto lines = whole.out.split('\n');
        const QJsonObject summary = objectOf(lines[lines.size() - 2])["summary"].toObject();
        QCOMPARE(summary["peak_bytes_measured"], summary["peak_bytes_predicted"]);
        QVERIFY(objectOf(lines[2])["objective"].toDouble() > 0);
        QVERIFY(!objectOf(lines[3]).contains("objective"));
        QCOMPARE(readAll(at(own + ".run/residuals.csv")).count('\n'), 4);
        QVERIFY(readAll(at(own + ".run/duals.csv")).count('\n') > 4000);
        for (const int cut : cuts) {
            const QString folder = own + QStringLiteral("_%1.run").arg(cut);
            const Done part = train(own + ".json", folder, cut, often);
            QVERIFY2(part.status == 0, part.err.constData());
            const Done rest = run({"train", folder, "--resume", "--steps", "6", "--json"});
            QVERIFY2(rest.status == 0, rest.err.constData());
            QCOMPARE(figuresOf(readAll(at(folder + "/metrics.jsonl"))), wanted);
            QCOMPARE(readAll(at(folder + "/residuals.csv")), readAll(at(own + ".run/residuals.csv")));
            // Each kind of step has figures of its own, and the peaks are of what the newest workers made.
            const auto ends = rest.out.split('\n');
            const QJsonObject resumed = objectOf(ends[ends.size() - 2])["summary"].toObject();
            QCOMPARE(resumed["peak_bytes_measured"], resumed["peak_bytes_predicted"]);
            QCOMPARE(resumed["peak_bytes_predicted"] == summary["peak_bytes_predicted"], cut < 3);
            QCOMPARE(resumed["then_from"].toInt(), 3);
            QCOMPARE(resumed["then_seconds_predicted"], summary["then_seconds_predicted"]);
            std::vector<double> seconds[2];
            for (const QByteArray &line : readAll(at(folder + "/metrics.jsonl")).trimmed().split('\n')) {
                const QJsonObject step = objectOf(line);
                seconds[step["step"].toInt() < 3 ? 0 : 1].push_back(step["seconds"].toDouble());
            }
            const auto second = [&](int kind) { return std::midpoint(seconds[kind][1], seconds[kind][2]); };
            QCOMPARE(resumed["iteration_seconds_median"].toDouble(), second(0)); // without the first of a kind
            QCOMPARE(resumed["then_seconds_median"].toDouble(), second(1));
            const Done compared = run({"compare", own + ".json", folder});
            QCOMPARE(compared.status, 0);
            QCOMPARE(compared.out.contains("tasks are not compared: the trace of " + folder.toUtf8() + " is empty"),
                     cut >= 3);
        }
    }

    /// Ranks with a half of the steps each go on where one rank with all of them stopped.
    void goesOnInRanges()
    {
        const Done planned = plan({"--cluster", "local:2", "--batch", "1198", "--set", "workers=1", "--set",
                                   "time_ranges=2", "-o", "ranges.json"});
        const Done split =
            plan({"--cluster", "local:1", "--batch", "1198", "--set", "order=split", "-o", "split.json"});
        QVERIFY2(planned.status == 0 && split.status == 0, (planned.err + split.err).constData());
        const Done whole = train("split.json", "split.run", 6);
        const Done part = train("split.json", "ranges.run", 3, {"--checkpoint-every", "3"});
        QVERIFY2(whole.status == 0 && part.status == 0, (whole.err + part.err).constData());
        const Done rest =
            run({"train", "ranges.json", "--run-dir", "ranges.run", "--resume", "--steps", "6", "--json"});
        QVERIFY2(rest.status == 0, rest.err.constData());
        const auto lines = rest.out.split('\n');
        const auto wanted = whole.out.split('\n');
        for (int step = 3; step < 6; ++step)
            for (const char *key : {"loss", "objective", "primal_residual", "dual_residual"}) {
                const double value = objectOf(wanted[step])[key].toDouble();
                QVERIFY2(std::fabs(objectOf(lines[step - 3])[key].toDouble() - value) < 1e-3 * value,
                         (key + QByteArray::number(step)).constData());
            }
        const QJsonObject summary = objectOf(lines[lines.size() - 2])["summary"].toObject();
        QCOMPARE(summary["peak_bytes_measured"], summary["peak_bytes_predicted"]);
    }

    void takesShardsInTurn()
    {
        const Done planned = plan({"--cluster", "local:1", "--batch", "599", "--set", "shards=2", "-o", "shards.json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const Done whole = train("shards.json", "shards.run", 6);
        const Done part = train("shards.json", "shards3.run", 3, {"--checkpoint-every", "3"});
        QVERIFY2(whole.status == 0 && part.status == 0, (whole.err + part.err).constData());
        const Done rest = run({"train", "shards3.run", "--resume", "--steps", "6", "--json"});
        QVERIFY2(rest.status == 0, rest.err.constData());
        QCOMPARE(figuresOf(readAll(at("shards3.run/metrics.jsonl"))),
                 figuresOf(readAll(at("shards.run/metrics.jsonl"))));
    }

    void exportsWeightsAlone()
    {
        const Done done = run({"export", "part.run", "--to", "safetensors", "-o", "rnn.safetensors"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QByteArray weights = readAll(at("rnn.safetensors"));
        QVERIFY(weights.contains("rnn.R") && weights.contains("head.bias"));
        QVERIFY(!weights.contains("admm/"));
    }

    void refuses_data()
    {
        QTest::addColumn<QStringList>("arguments");
        QTest::addColumn<QByteArray>("message");
        const QStringList zoo{"plan", "--planner", "admm", "--cluster", "local:1", "-o", "no.json"};
        QTest::newRow("a gated cell") << zoo + QStringList{"--model", "zoo:lstm-lm", "--batch", "8"}
                                      << QByteArray("its gates differ from sample to sample");
        QTest::newRow("another model") << zoo + QStringList{"--model", "zoo:gpt-nano", "--batch", "8"}
                                       << QByteArray("does not fit training by ADMM");
        QTest::newRow("no factor") << zoo + QStringList{"--model", "zoo:rnn", "--batch", "8", "--set", "ridge=0"}
                                   << QByteArray("have no Cholesky factor");
        QTest::newRow("micro-batches") << zoo + QStringList{"--model", "zoo:rnn", "--batch", "8", "--micro-batch", "4"}
                                       << QByteArray("takes all samples at once");
        QTest::newRow("too many workers")
            << zoo + QStringList{"--model", "zoo:rnn", "--batch", "8", "--set", "workers=3"}
            << QByteArray("3 workers do not fit the 1 devices of cluster local; use at most 1");
        QTest::newRow("a barrier of synchronous workers")
            << zoo + QStringList{"--model", "zoo:rnn", "--batch", "8", "--set", "barrier=1"}
            << QByteArray("set parallel=asynchronous, or leave them out");
        const QStringList rnn = zoo + QStringList{"--model", "zoo:rnn", "--batch", "64"};
        for (const QStringList &setting : {QStringList{"--optimizer", "adamw"}, QStringList{"--learning-rate", "0.1"},
                                           QStringList{"--weight-decay", "0", "--set", "switch_after=0"}})
            QTest::newRow(qPrintable("without use: " + setting.front()))
                << rnn + setting << QByteArray("error: --optimizer: training by ADMM has no optimizer; leave out");
        QTest::newRow("penalties that vanish")
            << rnn + QStringList{"--set", "gamma=1e-6"}
            << QByteArray(
                   "gamma is 1e-06: the penalty of step 1 of 8, mu * gamma^7, vanishes in float32; choose a gamma "
                   "of at least 0.001");
        QTest::newRow("penalty that is none")
            << rnn + QStringList{"--set", "mu=1e-40"} << QByteArray("mu is 1e-40, which is no penalty of float32");
        QTest::newRow("ranges that do not divide the steps")
            << QStringList{"plan",    "--planner", "admm",    "--cluster", "local:4", "-o",           "no.json",
                           "--model", "zoo:rnn",   "--batch", "64",        "--set",   "time_ranges=3"}
            << QByteArray("time_ranges is 3: 8 steps in time do not divide into so many equal ranges; choose 2 or 4");
        QTest::newRow("other samples than the plan's")
            << QStringList{"train", "two.json", "--data", kDigits, "--steps", "2", "--run-dir", "no.run"}
            << QByteArray("plan with --batch 1797");
        QTest::newRow("a parameter server on one device")
            << zoo + QStringList{"--model", "zoo:rnn", "--batch", "8", "--set", "parallel=asynchronous"}
            << QByteArray("needs two workers at least");
        QTest::newRow("arrivals without a server")
            << QStringList{"train",   "one.json", "--data",    kDigits,  "--holdout",  "0.3333",
                           "--steps", "2",        "--run-dir", "no.run", "--arrivals", "two.json"}
            << QByteArray("leave out --arrivals");
        QTest::newRow("export") << QStringList{"export", "two.json", "--to", "deepspeed", "-o", "no"}
                                << QByteArray("which trains by gradients");
    }

    void refuses()
    {
        QFETCH(QStringList, arguments);
        QFETCH(QByteArray, message);
        const Done done = run(arguments);
        QCOMPARE(done.status, 2);
        QVERIFY2((done.err + done.out).contains(message), (done.err + done.out).constData());
    }
};

QTEST_GUILESS_MAIN(TestAdmmCli)
#include "tst_admm_cli.moc"

// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/run/series.h"
#include "engine/run/settings.h"
#include "engine/run/summary.h"
#include "engine/run/transfers.h"

#include <QDir>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <limits>

using namespace planloom;
using namespace planloom::run;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Settings everySetting()
{
    Settings settings;
    settings.data = "/data";
    settings.steps = 7;
    settings.seed = -2;
    settings.holdout = 0.25;
    settings.threads = 3;
    settings.timeoutSeconds = 5;
    settings.checkpointEvery = 4;
    settings.keep = 2;
    settings.validateEvery = 6;
    settings.earlyStop = 9;
    settings.traceEvery = 0;
    settings.kernelSeconds = 2.5;
    return settings;
}

} // namespace

/// The texts are those of the run folder's format (resources/docs/formats/run.md), to the byte.
class TestRunValues : public QObject {
    Q_OBJECT
private slots:
    void lines()
    {
        QCOMPARE(toJson(StepMetrics{2, 1.5, 0.25, 32, 1e-3, 0}),
                 std::string(
                     R"({"step":2,"loss":1.5,"seconds":0.25,"samples_per_second":32.0,"learning_rate":0.001})"));
        QCOMPARE(toJson(StepMetrics{2, kNaN, 0.25, 32, 1e-3, 0.5}),
                 std::string(R"({"step":2,"loss":null,"seconds":0.25,"samples_per_second":32.0,"learning_rate":0.001,)"
                             R"("gradient_norm":0.5})"));
        QCOMPARE(toJson(StepMetrics{2, 1.5, 0.25, 32, 1e-3, kNaN}), toJson(StepMetrics{2, 1.5, 0.25, 32, 1e-3, 0}));
        QCOMPARE(toJson(Validation{3, 0, kNaN, 40}),
                 std::string(R"({"validation":{"step":3,"loss":0.0,"accuracy":null,"perplexity":null,"samples":40}})"));
    }

    void linesReadAgain()
    {
        const std::string text = toJson(StepMetrics{0, kNaN, 0.25, 32, 1e-3, 0.5}) + "\n"
            + toJson(Validation{0, 2, 0.5, 40}) + "\n" + toJson(StepMetrics{1, 1, 0.5, 16, 1e-3, 0})
            + "\n{\"step\":2,\"lo";
        const auto steps = metricsFromJson(text);
        QVERIFY(steps.ok());
        QCOMPARE(steps->size(), std::size_t{2});
        QVERIFY(std::isnan((*steps)[0].loss));
        QCOMPARE((*steps)[0].gradientNorm, 0.5);
        QCOMPARE((*steps)[1].samplesPerSecond, 16.0);
        const auto validations = validationsFromJson(text);
        QVERIFY(validations.ok());
        QCOMPARE(validations->size(), std::size_t{1});
        QCOMPARE((*validations)[0].perplexity(), std::exp(2.0));
    }

    void wrongLines_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<QByteArray>("says");
        QTest::newRow("no JSON") << QByteArray("nonsense\n") << QByteArray("");
        QTest::newRow("step below 0") << QByteArray(R"({"step":-1,"loss":1,"seconds":1,"samples_per_second":1})"
                                                    "\n")
                                      << QByteArray("step");
        QTest::newRow("no seconds") << QByteArray(R"({"step":1,"loss":1,"samples_per_second":1})"
                                                  "\n")
                                    << QByteArray("seconds");
        QTest::newRow("seconds null") << QByteArray(R"({"step":1,"loss":1,"seconds":null,"samples_per_second":1})"
                                                    "\n")
                                      << QByteArray("seconds");
    }
    void wrongLines()
    {
        QFETCH(QByteArray, text);
        QFETCH(QByteArray, says);
        const auto read = metricsFromJson(text.toStdString());
        QVERIFY(!read.ok());
        QCOMPARE(read.error().code, ErrorCode::BadInput);
        QCOMPARE(read.error().line, 1);
        QVERIFY(read.error().message.find(says.toStdString()) != std::string::npos);
    }

    void summaries()
    {
        Summary summary;
        summary.steps = 3;
        summary.lossFirst = 2;
        summary.lossLast = kNaN;
        summary.iterationSecondsMedian = 0.5;
        summary.peakBytesMeasured = {1, 2};
        summary.tracePath = "/run/trace.pltrace";
        const std::string figures =
            R"({"steps":3,"loss_first":2.0,"loss_last":null,"iteration_seconds_median":0.5,)"
            R"("predicted_iteration_seconds":0.0,"prediction_error":0.0,)"
            R"("peak_bytes_predicted":[],"peak_bytes_measured":[1,2],"beyond_arena_bytes":[],)"
            R"("shared_bytes":[],"sent_bytes":[],"trace_dropped":0,"trace":"/run/trace.pltrace")";
        QCOMPARE(toJson(summary), figures + "}");
        summary.evaluation = Validation{2, 0, 0.75, 40};
        summary.restarts = 1;
        summary.stoppedEarly = true;
        QCOMPARE(toJson(summary),
                 figures
                     + R"(,"evaluation_samples":40,"evaluation_loss":0.0,"evaluation_accuracy":0.75,)"
                       R"("evaluation_perplexity":1.0,"restarts":1,"stopped_early":true})");
        const auto back = summaryFromJson(toJson(summary));
        QVERIFY(back.ok());
        QVERIFY(std::isnan(back->lossLast));
        QCOMPARE(back->peakBytesMeasured, summary.peakBytesMeasured);
        QCOMPARE(back->evaluation->accuracy, 0.75);
        QVERIFY(back->stoppedEarly);
        QVERIFY(!summaryFromJson("{\"steps\": -1}").ok());
        QVERIFY(!summaryFromJson("[").ok());
    }

    void requests()
    {
        QTemporaryDir folder;
        const std::string path = folder.filePath("request.json").toStdString();
        Settings few;
        few.data = "/data";
        QCOMPARE(toJson(Request{few, {}}),
                 std::string("{\n  \"data\": \"/data\",\n  \"steps\": 100,\n  \"seed\": 1\n}\n"));
        const std::string text = toJson(Request{everySetting(), {8, 64, "/run/checkpoints/step-8", 5}});
        QCOMPARE(text, std::string(R"({
  "data": "/data",
  "steps": 7,
  "seed": -2,
  "holdout": 0.25,
  "threads": 3,
  "timeout_seconds": 5.0,
  "checkpoint_every": 4,
  "keep": 2,
  "trace_every": 0,
  "kernel_seconds": 2.5,
  "validate_every": 6,
  "early_stop": 9,
  "first_step": 8,
  "first_sample": 64,
  "lease": 5,
  "checkpoint": "/run/checkpoints/step-8"
}
)"));
        QVERIFY(writeFileAtomically(path, text).ok());
        const auto read = readRequest(path);
        QVERIFY(read.ok());
        QCOMPARE(toJson(*read), text);
        QCOMPARE(read->settings.timeout(), 5.0);
        QCOMPARE(Settings().timeout(), Settings::kTimeoutSeconds);
    }

    /// Losses of replicas and rows of tables, whose last line may be in the middle of being written.
    void series()
    {
        char line[64];
        std::string losses = lossesHead();
        losses.append(line, lossesLine(0, 2.5, line, sizeof line));
        losses.append(line, lossesLine(1, kNaN, line, sizeof line));
        const auto ofReplica = lossesFromCsv(losses + "2,1.");
        QVERIFY(ofReplica.ok());
        QCOMPARE(ofReplica->steps, (std::vector<std::int64_t>{0, 1}));
        QCOMPARE(ofReplica->losses[0], 2.5);
        QVERIFY(std::isnan(ofReplica->losses[1]));
        QCOMPARE(keptBefore(losses + "2,1.", lossesHead(), 1), std::string("step,loss\n0,2.5\n"));
        QCOMPARE(keptBefore("another head\n0,1\n", lossesHead(), 1), lossesHead());
        QVERIFY(!lossesFromCsv("step,loss\nx,1\n").ok());
        QVERIFY(!lossesFromCsv("loss\n").ok());

        for (const bool splits : {false, true}) {
            RowSeries given{"a,b", 1000, 4, splits, true, {1024, 700.5, 300, 400.5}, {}, {}};
            std::string text = rowsHead(given);
            text.append(line, rowsLine(7, {1024, 690, 310, 380}, splits, line, sizeof line));
            const auto read = rowsFromCsv(text + "8,10");
            QVERIFY2(read.ok(), read.ok() ? "" : read.error().text().c_str());
            QCOMPARE(read->table, given.table);
            QCOMPARE(read->rows, given.rows);
            QCOMPARE(read->replicas, given.replicas);
            QVERIFY(read->counted && read->splits == splits);
            QCOMPARE(read->expected.unique, 700.5);
            QCOMPARE(read->expected.delayed, splits ? 400.5 : 0);
            QCOMPARE(read->steps, std::vector<std::int64_t>{7});
            QVERIFY((read->counts[0] == RowCounts{1024, 690, splits ? 310.0 : 0, splits ? 380.0 : 0}));
            const auto wrong = rowsFromCsv(text + "8,1\n");
            QVERIFY(!wrong.ok() && wrong.error().message.starts_with("line 5"));
            QCOMPARE(keptBefore(text, rowsHead(given), 7), rowsHead(given));
        }
        QVERIFY(!rowsFromCsv("table,1,2,guess\n").ok());
        QVERIFY(rowsFromCsv("table,1,").ok()); // its first line is being written
    }

    void wrongRequests_data()
    {
        QTest::addColumn<QByteArray>("field");
        QTest::addColumn<QByteArray>("value");
        QTest::newRow("holdout") << QByteArray("holdout") << QByteArray("1");
        QTest::newRow("steps") << QByteArray("steps") << QByteArray("0");
        QTest::newRow("timeout") << QByteArray("timeout_seconds") << QByteArray("0");
        QTest::newRow("threads") << QByteArray("threads") << QByteArray("4097");
    }
    void wrongRequests()
    {
        QFETCH(QByteArray, field);
        QFETCH(QByteArray, value);
        QTemporaryDir folder;
        const std::string path = folder.filePath("request.json").toStdString();
        const QByteArray steps = field == "steps" ? "" : "\"steps\": 1,";
        const QByteArray text = "{\"data\": \"x\", " + steps + " \"seed\": 1,\n\"" + field + "\": " + value + "}";
        QVERIFY(writeFileAtomically(path, text.toStdString()).ok());
        const auto read = readRequest(path);
        QVERIFY(!read.ok());
        QCOMPARE(read.error().file, path);
        QCOMPARE(read.error().line, 2);
        QVERIFY(read.error().message.find(field.toStdString()) != std::string::npos);
    }

    void givenSettingsReplaceEarlierOnes()
    {
        Settings now;
        now.steps = 50;
        now.restarts = 3;
        now.keep = 8;
        const Settings both = merged(everySetting(), now, {"steps", "restarts"});
        QCOMPARE(both.steps, std::int64_t{50});
        QCOMPARE(both.restarts, std::int64_t{3});
        QCOMPARE(both.keep, std::int64_t{2});
        QCOMPARE(both.data, std::string("/data"));
        QCOMPARE(both.traceEvery, std::int64_t{0});
    }

    /// A process that was killed in the middle of a line, and the run that goes on from step 2.
    void sentBytesOfAKilledProcess()
    {
        QTemporaryDir folder;
        QVERIFY(QDir(folder.path()).mkpath(QStringLiteral("transfers")));
        const std::string path = transfersFile(folder.path().toStdString(), "g0");
        QVERIFY(writeFileAtomically(path, "0,s0,900\n0,s0,100\n1,s0,200\n2,s0,300\n3,s0,12"));
        const auto cut = readSent(path);
        QVERIFY2(cut, cut ? "" : cut.error().text().c_str());
        const SentSums expected{{{0, "s0"}, 100}, {{1, "s0"}, 200}, {{2, "s0"}, 300}};
        QCOMPARE(*cut, expected);
        QVERIFY(keepSentBefore(path, 2));
        QCOMPARE(*readFile(path), std::string("0,s0,100\n1,s0,200\n"));
        QVERIFY(keepSentBefore(path, 0));
        QVERIFY(readFile(path)->empty());
        for (const char *line : {"0,s0\n", "0,s0,x\n", "0,,5\n", "1 ,s0,5\n", "0,s0,5,\n", "\n"}) {
            QVERIFY(writeFileAtomically(path, std::string("0,s0,1\n") + line));
            const auto wrong = readSent(path);
            QVERIFY(!wrong);
            QVERIFY2(wrong.error().text().find("g0.csv:2") != std::string::npos, wrong.error().text().c_str());
        }
    }

    void medianLeavesTheFirstStepOut()
    {
        QCOMPARE(medianSeconds({}), 0.0);
        QCOMPARE(medianSeconds({{0, 1, 9}}), 9.0);
        QCOMPARE(medianSeconds({{0, 1, 9}, {1, 1, 1}, {2, 1, 2}}), 1.5);
        // In turn 1, 1, 4 seconds: 2 a step, however the turns lie.
        const std::vector<StepMetrics> turns{{0, 1, 9}, {1, 1, 1}, {2, 1, 4}, {3, 1, 1},
                                             {4, 1, 1}, {5, 1, 4}, {6, 1, 1}, {7, 1, 50}};
        QCOMPARE(medianSeconds(turns, 3), 2.0);
        QCOMPARE(medianSeconds({{0, 1, 9}, {1, 1, 1}, {2, 1, 2}}, 4), 1.5);
        QCOMPARE(medianSeconds({{0, 1, 9}}, 4), 9.0);
    }

    /// A median over steps would not know of the one in each round that waits for an average.
    void theLongestStepOfARound()
    {
        QCOMPARE(longestSeconds({}, 1, 64), 0.0);
        const std::vector<StepMetrics> turns{{0, 1, 9}, {1, 1, 1}, {2, 1, 4}, {3, 1, 1},
                                             {4, 1, 1}, {5, 1, 5}, {6, 1, 1}, {7, 1, 1}};
        QCOMPARE(longestSeconds(turns, 1, 64), 1.0);
        QCOMPARE(longestSeconds(turns, 3, 64), 4.5); // of 4 and 5; the first two steps fill no round
        QCOMPARE(longestSeconds(turns, 3, 4), 5.0);
        QCOMPARE(longestSeconds(turns, 100, 64), 9.0);
    }
};

QTEST_GUILESS_MAIN(TestRunValues)
#include "tst_run_values.moc"

// SPDX-License-Identifier: Apache-2.0
// Published training runs: the table can be read, each row is predicted or says what is missing, and large runs of
// several machines are predicted closely. bench_published prints all of them.
#include "tests/bench/published_runs.h"

#include <QTest>

#include <cmath>

using namespace planloom;
using bench::PublishedRun;

namespace {

std::vector<PublishedRun> allRuns()
{
    auto runs = bench::readPublishedRuns(PLANLOOM_SOURCE_DIR "/tests/golden/published/runs.txt");
    if (!runs)
        qFatal("%s", runs.error().text().c_str());
    return *std::move(runs);
}

} // namespace

class TestPublishedRuns : public QObject {
    Q_OBJECT

private slots:
    void everyRowIsComplete()
    {
        std::size_t predictable = 0;
        for (const PublishedRun &run : allRuns()) {
            QVERIFY2(run.count("data") * run.count("tensor") * run.count("pipeline") * run.count("context")
                         == run.count("devices"),
                     run.text("run").c_str());
            predictable += bench::missingOf(run).empty() ? 1 : 0;
        }
        QVERIFY(predictable >= 75);
    }

    void largeRunsAreClose_data()
    {
        QTest::addColumn<QString>("name");
        for (const char *name : {"sc21.39.1b", "vtrain.39.1b.tp8dp8pp8.mb4", "vtrain.175b.tp8dp8pp8.mb2",
                                 "mpt.h100.70b.s2048.64", "megascale.megatron.768"})
            QTest::newRow(name) << QString(name);
    }

    void largeRunsAreClose()
    {
        QFETCH(QString, name);
        for (const PublishedRun &run : allRuns()) {
            if (run.text("run") != name.toStdString())
                continue;
            const auto report = bench::predictedRun(run);
            QVERIFY2(report.ok(), report ? "" : report.error().text().c_str());
            const double error = report->iterationSeconds / run.number("seconds") - 1;
            QVERIFY2(std::abs(error) < 0.05, qPrintable(QString("off by %1").arg(error)));
            return;
        }
        QFAIL("the row is not there");
    }
};

QTEST_GUILESS_MAIN(TestPublishedRuns)
#include "tst_published_runs.moc"

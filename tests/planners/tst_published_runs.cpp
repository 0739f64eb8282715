// SPDX-License-Identifier: Apache-2.0
// Published training runs: the table can be read, each row is predicted or says what is missing, and large runs of
// several machines are predicted closely. bench_published prints all of them.
#include "tests/bench/published_errors.h"
#include "tests/docs_table.h"

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

    /// The page on prediction prints the errors of today, with the names of its own for the groups.
    void errorsArePrinted()
    {
        const std::vector<PublishedRun> runs = allRuns();
        std::vector<bench::PublishedOutcome> outcomes;
        for (std::size_t i = 0; i < runs.size(); ++i) {
            if (!bench::missingOf(runs[i]).empty())
                continue;
            if (const auto outcome = bench::predictedOutcome(runs[i], i))
                outcomes.push_back(*outcome);
        }
        const std::map<std::string, std::string> names{{"sc21", "SC21 (Megatron-LM)"},
                                                       {"vtrain", "vTrain, several machines"},
                                                       {"vtrain1", "vTrain, one machine"},
                                                       {"megascale", "MegaScale's baseline"},
                                                       {"mpt", "MPT (FSDP)"},
                                                       {"titan24", "torchtitan, 2024"},
                                                       {"titan25", "torchtitan, 2025"},
                                                       {"dlperf", "OneFlow and Megatron-LM on V100"}};
        const auto table =
            test::docsTable(PLANLOOM_SOURCE_DIR "/resources/docs/cost.md", "`planloom bench published` predicts");
        for (const auto &[group, members] : bench::publishedGroups(outcomes)) {
            const auto name = names.find(group);
            const auto row = table.find(name == names.end() ? group : name->second);
            QVERIFY2(row != table.end(), group.c_str());
            const bench::PublishedErrors errors = bench::errorsOf(members);
            const double values[] = {static_cast<double>(errors.runs), 100 * errors.meanSize,  100 * errors.mean,
                                     100 * errors.medianSize,          100 * errors.ninthSize, 100 * errors.worst};
            for (std::size_t i = 0; i < std::size(values); ++i)
                QVERIFY2(test::isPrinted(row->second.at(i), values[i]),
                         qPrintable(QString("%1, column %2: the page has %3, predicted is %4; print the table again "
                                            "with planloom bench published")
                                        .arg(row->first.c_str())
                                        .arg(i + 2)
                                        .arg(row->second.at(i).c_str())
                                        .arg(values[i])));
        }
    }

    void largeRunsAreClose_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<double>("most");
        for (const char *name : {"sc21.39.1b", "vtrain.39.1b.tp8dp8pp8.mb4", "vtrain.175b.tp8dp8pp8.mb2",
                                 "mpt.h100.70b.s2048.64", "megascale.megatron.768"})
            QTest::newRow(name) << QString(name) << 0.05;
        // Groups of replicas with two and four of a machine's eight devices, before NCCL reached other devices' ports.
        QTest::newRow("two of eight") << QString("vtrain.3.6b.tp4dp16pp1.mb16") << 0.05;
        QTest::newRow("four of eight") << QString("vtrain.18.4b.tp2dp32pp4.mb4") << 0.05;
        QTest::newRow("pairs without a switch") << QString("dlperf.oneflow.2D_4x2x1_16_1536x16") << 0.05;
        // Tensors shared by two machines, over rings; gradients of 16 bits over four ports a machine.
        QTest::newRow("over machines") << QString("vtrain.18.4b.tp16dp16pp1.mb2") << 0.1;
        QTest::newRow("many replicas") << QString("vtrain.18.4b.tp8dp32pp1.mb8") << 0.03;
    }

    void largeRunsAreClose()
    {
        QFETCH(QString, name);
        QFETCH(double, most);
        for (const PublishedRun &run : allRuns()) {
            if (run.text("run") != name.toStdString())
                continue;
            const auto report = bench::predictedRun(run);
            QVERIFY2(report.ok(), report ? "" : report.error().text().c_str());
            const double error = report->iterationSeconds / run.number("seconds") - 1;
            QVERIFY2(std::abs(error) < most, qPrintable(QString("off by %1").arg(error)));
            return;
        }
        QFAIL("the row is not there");
    }
    /// FSDP holds two layers at a time: what ran on cards of 80 GB fits.
    void shardedParametersFit()
    {
        for (const PublishedRun &run : allRuns())
            if (run.text("run") == "mpt.h100.70b.s2048.64") {
                const auto report = bench::predictedRun(run);
                QVERIFY2(report.ok(), report ? "" : report.error().text().c_str());
                QVERIFY(report->fits);
                return;
            }
        QFAIL("the row is not there");
    }
};

QTEST_GUILESS_MAIN(TestPublishedRuns)
#include "tst_published_runs.moc"

// SPDX-License-Identifier: Apache-2.0
// What goes wrong with a GPU, through the agent on the emulated one: one clear error, in time, and nothing left
// running.
#include "app/gpu_cli_fixture.h"

#include "executor/agent/agent_fixture.h"

#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>
#include <csignal>

#include <map>
#include <string>

using namespace planloom;
using namespace planloom::testing;

class TestGpuFaults : public GpuCliTest {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void cleanup() { qunsetenv("PLANLOOM_TEST_GPU"); }
    void faultsAreOneError_data();
    void faultsAreOneError();
    void withoutGpuProcessorsTrain_data();
    void withoutGpuProcessorsTrain();
    void runsAreEqualAndGoOn_data();
    void runsAreEqualAndGoOn();

private:
    [[nodiscard]] QStringList train(int ranks, int steps, const QString &folder, const QStringList &options = {}) const
    {
        return QStringList{"train",     QString("plan%1.json").arg(ranks),
                           "--data",    "text",
                           "--steps",   QString::number(steps),
                           "--run-dir", folder}
        + options;
    }
    /// Losses by step: of a step that was repeated the last one.
    [[nodiscard]] std::map<int, double> losses(const QString &folder) const
    {
        std::map<int, double> found;
        for (const QByteArray &line : readAll(at(folder + "/metrics.jsonl")).split('\n'))
            if (const QJsonObject step = QJsonDocument::fromJson(line).object(); step.contains("loss"))
                found[step["step"].toInt()] = step["loss"].toDouble();
        return found;
    }
    void nothingRuns() const { QTRY_VERIFY_WITH_TIMEOUT(processesWith(m_folder.path().toStdString()).empty(), 20'000); }
};

void TestGpuFaults::initTestCase()
{
    useEmulatedGpu();
    makePlans();
}

void TestGpuFaults::faultsAreOneError_data()
{
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QByteArray>("fault");
    QTest::addColumn<QString>("text");
    QTest::newRow("out of memory") << 1 << QByteArray("memory")
                                   << "of memory free (out of memory); use more stages, recompute or a smaller batch";
    QTest::newRow("a sticky error") << 1 << QByteArray("after:900:700") << "an illegal memory access was encountered";
    QTest::newRow("one in a graph of one of two ranks")
        << 2 << QByteArray("after:900:700") << "an illegal memory access was encountered";
    QTest::newRow("the device is lost") << 1 << QByteArray("after:900:999") << "the GPU does not answer any more";
}

void TestGpuFaults::faultsAreOneError()
{
    QFETCH(int, ranks);
    QFETCH(QByteArray, fault);
    QFETCH(QString, text);
    qputenv("PLANLOOM_TEST_GPU", fault);
    const QString folder = QString(QTest::currentDataTag()).replace(' ', '-');
    const Done done = run(train(ranks, 1000, folder, {"--quiet"}));
    QCOMPARE(done.status, 1);
    QVERIFY2(QString(done.err).contains(text), done.err.constData());
    QCOMPARE(done.err.count("planloom: error:"), 1);
    QVERIFY2(!done.err.trimmed().contains('\n'), done.err.constData());
    nothingRuns();
}

void TestGpuFaults::withoutGpuProcessorsTrain_data()
{
    QTest::addColumn<QByteArray>("fault");
    QTest::addColumn<QString>("text");
    QTest::newRow("no driver") << QByteArray("driver")
                               << "CUDA finds no GPU: CUDA driver version is insufficient for CUDA runtime version";
    QTest::newRow("a GPU that is too old")
        << QByteArray("old") << "GPU 0 has compute capability 7.0; plans train on GPUs of 8.0 (Ampere) and newer";
    QTest::newRow("another release's library") << QByteArray("abi") << "of the device table, this program has";
}

void TestGpuFaults::withoutGpuProcessorsTrain()
{
    QFETCH(QByteArray, fault);
    QFETCH(QString, text);
    qputenv("PLANLOOM_TEST_GPU", fault);
    const QString folder = QString(QTest::currentDataTag()).replace(' ', '-');
    const Done done = run(train(1, 2, folder, {"--quiet"}));
    QVERIFY2(done.status == 0, done.err.constData());
    QCOMPARE(QString(readAll(at(folder + "/log"))).count(text), 1);
    const Done inspected = run({"inspect", "local"});
    QVERIFY2(inspected.status == 0 && QString(inspected.out + inspected.err).contains(text),
             (inspected.out + inspected.err).constData());
    nothingRuns();
}

void TestGpuFaults::runsAreEqualAndGoOn_data()
{
    QTest::addColumn<int>("ranks");
    QTest::newRow("2 stages") << 2;
}

void TestGpuFaults::runsAreEqualAndGoOn()
{
    QFETCH(int, ranks);
    constexpr int kSteps = 5;
    const QString tag = QString::number(ranks);
    const Done whole = run(train(ranks, kSteps, "whole" + tag, {"--quiet"}));
    QVERIFY2(whole.status == 0, whole.err.constData());
    const auto expected = losses("whole" + tag);
    QCOMPARE(expected.size(), std::size_t{kSteps});
    const Done again = run(train(ranks, kSteps, "again" + tag, {"--quiet"}));
    QVERIFY2(again.status == 0, again.err.constData());
    QVERIFY(losses("again" + tag) == expected);
    // Killed in mid-run, with whatever it started.
    const QString folder = "killed" + tag;
    {
        QProcess process;
        start(process, train(ranks, 100'000, folder, {"--checkpoint-every", "2", "--quiet"}));
        QTRY_VERIFY_WITH_TIMEOUT(
            !QDir(at(folder + "/checkpoints")).entryList({"*"}, QDir::Dirs | QDir::NoDotAndDotDot).isEmpty()
                || process.state() == QProcess::NotRunning,
            60'000);
        process.kill();
        process.waitForFinished();
    }
    nothingRuns();
    // A device that fails, and one that works again.
    qputenv("PLANLOOM_TEST_GPU", "after:700:700");
    const Done failed = run({"train", folder, "--resume", "--steps", "100000", "--quiet"});
    QCOMPARE(failed.status, 1);
    qunsetenv("PLANLOOM_TEST_GPU");
    nothingRuns();
    const auto sofar = losses(folder);
    QVERIFY(!sofar.empty());
    const int steps = std::max(kSteps, sofar.rbegin()->first + 3);
    const Done resumed = run({"train", folder, "--resume", "--steps", QString::number(steps), "--quiet"});
    QVERIFY2(resumed.status == 0, resumed.err.constData());
    const auto found = losses(folder);
    QCOMPARE(found.size(), static_cast<std::size_t>(steps));
    for (const auto &[step, loss] : expected)
        QCOMPARE(found.at(step), loss);
}

QTEST_GUILESS_MAIN(TestGpuFaults)
#include "tst_gpu_faults.moc"

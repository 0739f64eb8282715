// SPDX-License-Identifier: Apache-2.0
// `planloom train` of plans for GPUs, with and without a device library.
#include "app/gpu_cli_fixture.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

#include <cmath>

using namespace planloom::testing;

namespace {

QList<double> lossesOf(const QByteArray &out)
{
    QList<double> losses;
    for (const QByteArray &line : out.split('\n')) {
        const QJsonObject object = QJsonDocument::fromJson(line).object();
        if (object.contains("step"))
            losses << object["loss"].toDouble();
    }
    return losses;
}

} // namespace

class TestGpuCli : public GpuCliTest {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void cleanup()
    {
        qunsetenv("PLANLOOM_CUDA_PLUGIN");
        qunsetenv("PLANLOOM_TEST_GPUS");
        qunsetenv("PLANLOOM_TEST_GPU");
    }
    void inspectSaysWhy();
    void plansForGpusTrainOnThem_data();
    void plansForGpusTrainOnThem();
    void profilesAreOfTheGpu();
    void profilesNeedAGpu();
};

void TestGpuCli::initTestCase() { makePlans(); }

void TestGpuCli::inspectSaysWhy()
{
    useEmulatedGpu();
    const Done found = run({"inspect", "local"});
    QVERIFY2(found.status == 0, found.err.constData());
    QVERIFY2(found.out.contains("emulated GPU"), found.out.constData());
    qputenv("PLANLOOM_CUDA_PLUGIN", "/nonexistent.so");
    const Done missing = run({"inspect", "local"});
    QVERIFY2(missing.status == 0, missing.err.constData());
    QCOMPARE(missing.out.count("the device library cannot be opened"), 1);
}

void TestGpuCli::plansForGpusTrainOnThem_data()
{
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("gpus");
    QTest::newRow("1 rank") << 1 << 1;
    QTest::newRow("2 stages on one GPU") << 2 << 1;
    QTest::newRow("2 stages on 2 GPUs") << 2 << 2;
}

void TestGpuCli::plansForGpusTrainOnThem()
{
    QFETCH(int, ranks);
    QFETCH(int, gpus);
    qputenv("PLANLOOM_TEST_GPUS", QByteArray::number(gpus));
    if (gpus < ranks)
        qputenv("PLANLOOM_TEST_GPU", "copies");
    const QByteArray path = ranks == 1 ? ""
        : gpus == 1 ? "warning: ranks exchange data on one GPU by copies, a way to try a plan, not to time it: 0 and 1"
                    : "info: ranks exchange data between GPUs by NCCL";
    QList<QList<double>> losses;
    for (const bool gpu : {false, true}) {
        if (gpu)
            useEmulatedGpu();
        else
            qputenv("PLANLOOM_CUDA_PLUGIN", "/nonexistent.so");
        const Done done = run({"train", QString("plan%1.json").arg(ranks), "--data", "text", "--steps", "3", "--seed",
                               "1", "--run-dir", QString("run%1%2%3").arg(ranks).arg(gpus).arg(gpu), "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        losses << lossesOf(done.out);
        const QByteArray log = readAll(at(QString("run%1%2%3/log").arg(ranks).arg(gpus).arg(gpu)));
        QCOMPARE(log.contains("trains on cuda:0, emulated GPU"), gpu);
        QCOMPARE(log.contains(path), gpu || path.isEmpty());
        // Times of processors are not set against a prediction for GPUs.
        QCOMPARE(log.contains("that the plan places on GPUs"), !gpu);
        QCOMPARE(done.out.contains(QString("\"ranks_on_processors\":%1").arg(ranks).toUtf8()), !gpu);
        QCOMPARE(done.out.contains("\"prediction_error\":null"), !gpu);
        QCOMPARE(losses.back().size(), 3);
    }
    for (int step = 0; step < 3; ++step)
        QVERIFY(std::fabs(losses[0][step] - losses[1][step]) <= 1e-4 * losses[0][step]);
}

void TestGpuCli::profilesAreOfTheGpu()
{
    useEmulatedGpu();
    for (const int ranks : {1, 2}) {
        const Done done = run({"profile", "--plan", QString("plan%1.json").arg(ranks), "--device", "cuda:0",
                               "--repetitions", "1", "-o", QString("profile%1.json").arg(ranks)});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject profile = QJsonDocument::fromJson(readAll(at(QString("profile%1.json").arg(ranks)))).object();
        QCOMPARE(profile["device_type"].toString(), QString("V100-16GB")); // as in the plan
        QVERIFY(profile["source"].toString().contains("cuda:0 (emulated GPU)"));
        QCOMPARE(profile["ranks"].toInt(1), ranks);
        QVERIFY(profile["extra"].toObject()["optimizer_seconds_per_parameter"].toDouble() > 0);
        const QJsonObject kernels = profile["kernels"].toObject();
        QVERIFY(kernels.size() > 10);
        for (const QJsonValue &times : kernels)
            QVERIFY(times.toArray()[0].toObject()["seconds"].toDouble() > 0);
    }
    const Done planned = run(planning(1) + QStringList{"--profile", "profile1.json", "--json"});
    QVERIFY2(planned.status == 0, planned.err.constData());
    QVERIFY2(!planned.err.contains("roofline"), planned.err.constData());
    const Done alone =
        run({"profile", "--model", "zoo:mlp", "--samples", "2", "--repetitions", "2", "--device", "cuda:0", "--json"});
    QVERIFY2(alone.status == 0, alone.err.constData());
    QCOMPARE(QJsonDocument::fromJson(alone.out).object()["device_type"].toString(), QString("emulated GPU"));
}

void TestGpuCli::profilesNeedAGpu()
{
    useEmulatedGpu();
    const Done second = run({"profile", "--plan", "plan1.json", "--device", "cuda:1"});
    QCOMPARE(second.status, 2);
    QVERIFY2(second.err.contains("has 1 CUDA devices, and cuda:1 was asked for"), second.err.constData());
    const Done unknown = run({"profile", "--plan", "plan1.json", "--device", "cuda:x"});
    QCOMPARE(unknown.status, 2);
    QVERIFY2(unknown.err.contains("cannot be measured on 'cuda:x'"), unknown.err.constData());
    QCOMPARE(run({"plan", "--model", "zoo:mlp", "--cluster", "local:1", "--planner", "gpipe", "--batch", "4", "-o",
                  "cpu.json", "--quiet"})
                 .status,
             0);
    const Done none = run({"profile", "--plan", "cpu.json", "--device", "cuda:0"});
    QCOMPARE(none.status, 2);
    QVERIFY2(none.err.contains("the plan has no GPUs"), none.err.constData());
}

QTEST_GUILESS_MAIN(TestGpuCli)
#include "tst_gpu_cli.moc"

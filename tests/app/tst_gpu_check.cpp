// SPDX-License-Identifier: Apache-2.0
// `planloom bench gpu` on the emulated GPU and without one.
#include "app/cli_fixture.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QRegularExpression>
#include <QTest>

using namespace planloom::testing;

class TestGpuCheck : public CliTest {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void operatorsAreCompared();
    void modelsAreCompared();
    void stepsAreTimedAndPredicted();
    void documentListsWhatRunsOnTheHost();
    void reportsAreCompared();
    void withoutGpuOneLineSaysWhy();
    void optionsAreChecked();
    void folderNeedsNothingElse();

private:
    QJsonObject m_report;
};

void TestGpuCheck::initTestCase()
{
    qputenv("PLANLOOM_CUDA_PLUGIN", PLANLOOM_TEST_LIBRARIES "/emulated_library.so");
    const Done done = run({"bench", "gpu", "--time", "zoo:mlp,4,2,fp32", "-o", "check.json"});
    QVERIFY2(done.status == 0, (done.err + done.out).constData());
    QVERIFY2(done.out.contains("all of it is right"), done.out.constData());
    m_report = QJsonDocument::fromJson(readAll(at("check.json"))).object();
    QCOMPARE(m_report["schema"].toString(), QString("planloom.gpu-check/1"));
    QCOMPARE(m_report["device"].toString(), QString("emulated GPU"));
}

void TestGpuCheck::operatorsAreCompared()
{
    qint64 onGpu = 0;
    for (const QJsonValue &row : m_report["operators"].toArray()) {
        QCOMPARE(row["wrong"].toString(), QString());
        onGpu += row["on_gpu"].toInteger() > 0 ? 1 : 0;
    }
    QVERIFY(onGpu > 165);
}

void TestGpuCheck::modelsAreCompared()
{
    QStringList models;
    for (const QJsonValue &row : m_report["models"].toArray()) {
        models << row["model"].toString();
        QCOMPARE(row["wrong"].toString(), QString());
        QVERIFY(row["same_bits"].toBool());
        QVERIFY(row["on_host"].toArray().isEmpty());
        QCOMPARE(row["losses"].toArray().size(), 5);
        QVERIFY(row["arena_bytes_planned"].toInteger() > 0);
        QCOMPARE(row["arena_bytes_used"].toInteger(), row["arena_bytes_planned"].toInteger());
    }
    for (const char *model : {"gpt", "llama", "bert", "lstm", "resnet-50/64"})
        QVERIFY2(models.contains(model), model);
}

void TestGpuCheck::stepsAreTimedAndPredicted()
{
    QCOMPARE(m_report["steps"].toArray().size(), 1);
    const QJsonObject step = m_report["steps"].toArray()[0].toObject();
    QCOMPARE(step["model"].toString(), QString("zoo:mlp"));
    QVERIFY(step["seconds"].toDouble() > 0);
    QVERIFY(step["predicted_seconds"].toDouble() > 0);
    for (const char *what : {"graphs", "kernels"}) {
        const double seconds = step[QString("seconds_with_%1_recorded").arg(what)].toDouble();
        QVERIFY2(seconds > 0, what);
        QCOMPARE(step[QString("cost_of_recording_%1").arg(what)].toDouble(), seconds / step["seconds"].toDouble() - 1);
    }
    QVERIFY(step["pytorch_seconds"].isNull() || step["pytorch_seconds"].toDouble() > 0);
}

void TestGpuCheck::documentListsWhatRunsOnTheHost()
{
    QStringList seen;
    for (const QJsonValue &row : m_report["operators"].toArray())
        if (row["on_gpu"].toInteger() == 0)
            seen << row["type"].toString();
    const QString document = readAll(PLANLOOM_SOURCE_DIR "/resources/docs/gpu.md");
    const qsizetype begin = document.indexOf("All types of which no form has a kernel");
    QVERIFY(begin >= 0);
    const qsizetype list = document.indexOf("\n\n", begin) + 2;
    QStringList listed;
    static const QRegularExpression kName("`([A-Za-z]+)`");
    for (const auto &match : kName.globalMatch(document.mid(list, document.indexOf("\n\n", list) - list)))
        listed << match.captured(1);
    seen.sort();
    listed.sort();
    QCOMPARE(listed, seen);
}

void TestGpuCheck::reportsAreCompared()
{
    const Done same = run({"compare", "check.json", "check.json", "--json"});
    QVERIFY2(same.status == 0, same.err.constData());
    const QJsonObject object = QJsonDocument::fromJson(same.out).object();
    QCOMPARE(object["steps"].toArray()[0].toObject()["speedup_of_b"].toDouble(), 1.0);
    QVERIFY(object["left_the_host"].toArray().isEmpty());
    const Done text = run({"compare", "check.json", "check.json"});
    QVERIFY2(text.out.contains("emulated GPU") && text.out.contains("zoo:mlp fp32 4/2"), text.out.constData());
    const Done other = run({"compare", "check.json", "nothing.json"});
    QCOMPARE(other.status, 2);
    QVERIFY2(other.err.contains("nothing.json: is no report of planloom bench gpu"), other.err.constData());
    QVERIFY(write(at("cut.json"), readAll(at("check.json")).left(200)));
    const Done cut = run({"compare", "cut.json", "check.json"});
    QCOMPARE(cut.status, 2);
    QVERIFY2(cut.err.contains("cut.json: is no whole report"), cut.err.constData());
    QVERIFY(write(at("bare.json"), R"({"schema": "planloom.gpu-check/1"})"));
    const Done bare = run({"compare", "bare.json", "check.json"});
    QCOMPARE(bare.status, 2);
    QVERIFY2(bare.err.contains("cannot be compared"), bare.err.constData());
}

void TestGpuCheck::withoutGpuOneLineSaysWhy()
{
    qputenv("PLANLOOM_CUDA_PLUGIN", "/nonexistent.so");
    const Done done = run({"bench", "gpu", "--quiet"});
    QCOMPARE(done.status, 3);
    QCOMPARE(done.err.count('\n'), 1);
    QVERIFY2(done.err.contains("no GPU to check: the device library cannot be opened"), done.err.constData());
}

void TestGpuCheck::optionsAreChecked()
{
    const Done step = run({"bench", "gpu", "--time", "zoo:mlp,4,8,fp32"});
    QCOMPARE(step.status, 2);
    QVERIFY2(step.err.contains("'zoo:mlp,4,8,fp32' is no step to time"), step.err.constData());
    const Done other = run({"bench", "--full"});
    QCOMPARE(other.status, 2);
    QVERIFY2(other.err.contains("--full is an option of the benchmark 'gpu' alone"), other.err.constData());
}

/// The folder for other machines: made, and its program starts with the folder's libraries.
void TestGpuCheck::folderNeedsNothingElse()
{
#ifdef PLANLOOM_CUDA_LIBRARY
    QProcess make;
    make.start(PLANLOOM_SOURCE_DIR "/packaging/gpu-check", {PLANLOOM_BINARY_DIR "/..", at("gpu-check")});
    QVERIFY(make.waitForFinished(kWait));
    QVERIFY2(make.exitCode() == 0, make.readAllStandardError().constData());
    QVERIFY(QFile::exists(at("gpu-check.tar.gz")));
    for (const char *name : {"libc.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}) // the driver asks for them
        QVERIFY2(QFile::exists(at(QString("gpu-check/lib/") + name)), name);
    qputenv("PLANLOOM_CUDA_PLUGIN", "/nonexistent.so");
    QProcess check;
    check.start(at("gpu-check/check"), {"--quiet"});
    QVERIFY(check.waitForFinished(kWait));
    QCOMPARE(check.exitCode(), 3);
    QVERIFY(check.readAllStandardError().contains("no GPU to check"));
#else
    QSKIP("built without CUDA's toolkit");
#endif
}

QTEST_GUILESS_MAIN(TestGpuCheck)
#include "tst_gpu_check.moc"

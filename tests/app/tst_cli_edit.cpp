// SPDX-License-Identifier: Apache-2.0
// Edits of plans: planloom edit.
#include "app/cli_fixture.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

using namespace planloom::testing;

class TestCliEdit : public CliTest {
    Q_OBJECT

private:
    static QJsonObject object(const Done &done) { return QJsonDocument::fromJson(done.out).object(); }

private Q_SLOTS:
    void initTestCase()
    {
        const Done planned =
            run({"plan", "--model", "zoo:gpt-nano", "--cluster", "preset:h100-8", "--planner", "gpipe", "--set",
                 "stages=2", "--batch", "16", "--micro-batch", "4", "-o", "nano.json", "--quiet"});
        QVERIFY2(planned.status == 0, planned.err.constData());
    }

    void whatIsWrittenIsWhatWasPredicted()
    {
        const double before = object(run({"simulate", "nano.json", "--json"}))["iteration_seconds"].toDouble();
        const Done done = run({"edit", "nano.json", "--set", "micro_batches=2", "--set", "stages.*.recompute=full",
                               "--set", "schedule=1f1b", "-o", "new.json", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject told = object(done);
        QVERIFY(told["changes"].toArray().size() >= 3);
        QCOMPARE(told["iteration_seconds_before"].toDouble(), before);
        const double after = told["predicted"].toObject()["iteration_seconds"].toDouble();
        QVERIFY(after > 0 && after != before);
        QCOMPARE(object(run({"simulate", "new.json", "--json"}))["iteration_seconds"].toDouble(), after);
        const QJsonObject plan = QJsonDocument::fromJson(readAll(at("new.json"))).object();
        QCOMPARE(plan["predicted"].toObject()["iteration_seconds"].toDouble(), after);
    }

    void withoutOutputNothingIsWritten()
    {
        const QByteArray plan = readAll(at("nano.json"));
        const QStringList files = entries();
        const Done shown = run({"edit", "nano.json", "--set", "batch=32"});
        QVERIFY2(shown.status == 0, shown.err.constData());
        QVERIFY2(shown.out.contains("before        iteration "), shown.out.constData());
        QCOMPARE(entries(), files);
        QCOMPARE(readAll(at("nano.json")), plan);
    }

    void plansGoThroughPipes()
    {
        const auto through = [this](const QStringList &arguments, const QByteArray &input) {
            QProcess process;
            prepare(process);
            process.start(binary(), arguments);
            process.write(input);
            process.closeWriteChannel();
            return process.waitForFinished(kWait)
                ? Done{process.exitCode(), process.readAllStandardOutput(), process.readAllStandardError()}
                : Done{-2, {}, "did not end"};
        };
        const Done edited = through({"edit", "-", "--set", "micro_batches=2", "-o", "-"}, readAll(at("nano.json")));
        QVERIFY2(edited.status == 0 && edited.err.isEmpty(), edited.err.constData());
        QCOMPARE(run({"edit", "nano.json", "--set", "micro_batches=2", "-o", "two.json"}).status, 0);
        QCOMPARE(QJsonDocument::fromJson(edited.out), QJsonDocument::fromJson(readAll(at("two.json"))));
        const Done simulated = through({"simulate", "-", "--json"}, edited.out);
        QCOMPARE(simulated.out, run({"simulate", "two.json", "--json"}).out);
        const Done planned =
            run({"plan", "--model", "zoo:mlp", "--cluster", "preset:h100-8", "--batch", "8", "-o", "-"});
        QCOMPARE(through({"simulate", "-"}, planned.out).status, 0);

        const Done broken = through({"simulate", "-"}, "{");
        QCOMPARE(broken.status, 2);
        QVERIFY2(broken.err.contains("standard input:1: "), broken.err.constData());
        QCOMPARE(run({"edit", "nano.json", "--set", "batch=32", "-o", "-", "--json"}).status, 2);
        QVERIFY(!entries().contains("-"));
    }

    void refused_data()
    {
        QTest::addColumn<QString>("setting");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *setting, const char *says) { QTest::newRow(setting) << setting << says; };
        row("batch", "--set batch is not KEY=VALUE");
        row("speed=3", "--set speed=3: a plan has no key \"speed\"");
        row("stages.0.devices=n7:g0", "there is no device \"n7:g0\"");
        row("micro_batches=99", "nano.json: ");
    }
    void refused()
    {
        QFETCH(QString, setting);
        QFETCH(QString, says);
        const Done done = run({"edit", "nano.json", "--set", setting, "-o", "refused.json"});
        QCOMPARE(done.status, 2);
        QVERIFY2(QString(done.err).contains(says), done.err.constData());
        QVERIFY(!entries().contains("refused.json"));
    }
};

QTEST_GUILESS_MAIN(TestCliEdit)
#include "tst_cli_edit.moc"

// SPDX-License-Identifier: Apache-2.0
// Limits of predictions: planloom simulate --fail-if.
#include "app/cli_fixture.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

using namespace planloom::testing;

class TestCliGate : public CliTest {
    Q_OBJECT

private:
    double m_step = 0;      ///< seconds
    double m_samples = 0;   ///< a second
    double m_bubble = 0;    ///< share
    double m_peak = 0;      ///< bytes of the fullest device
    double m_peakShare = 0; ///< of its memory

    [[nodiscard]] Done gate(const QString &limits, const QStringList &more = {}) const
    {
        return run(QStringList{"simulate", "nano.json", "--fail-if", limits} + more);
    }

private Q_SLOTS:
    void initTestCase()
    {
        const Done planned = run({"plan", "--model", "zoo:gpt-nano", "--cluster", "preset:h100-8", "--planner", "gpipe",
                                  "--batch", "16", "--micro-batch", "4", "-o", "nano.json", "--quiet"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const QJsonObject report = QJsonDocument::fromJson(run({"simulate", "nano.json", "--json"}).out).object();
        m_step = report["iteration_seconds"].toDouble();
        m_samples = report["samples_per_second"].toDouble();
        m_bubble = report["bubble_fraction"].toDouble();
        for (const QJsonValue &device : report["devices"].toArray()) {
            const double peak = device["peak_bytes"].toDouble();
            m_peak = std::max(m_peak, peak);
            m_peakShare = std::max(m_peakShare, peak / device["capacity_bytes"].toDouble());
        }
        QVERIFY(m_step > 0 && m_samples > 0 && m_bubble > 0 && m_peak > 0 && m_peakShare > 0);
    }

    void limits_data()
    {
        QTest::addColumn<QString>("limit");
        QTest::addColumn<bool>("passes");
        const auto number = [](double value) { return QString::number(value, 'g', 17); };
        const auto row = [](const QString &limit, bool passes) { QTest::newRow(qPrintable(limit)) << limit << passes; };
        row("step>" + number(m_step * 1.01) + "s", false);
        row("step>" + number(m_step * 0.99) + "s", true);
        row("step > " + number(m_step * 990) + " ms", true);
        row("step<" + number(m_step * 1.01), true);
        row("step<" + number(m_step * 0.99), false);
        row("peak>" + number(m_peak * 1.01 / 1024) + "KiB", false);
        row("peak>" + number(m_peak * 0.99 / 1024) + "KiB", true);
        row("peak>" + number(m_peak), false);
        row("peak>=" + number(m_peak), true);
        row("peak>" + number(m_peakShare * 101) + "%", false);
        row("peak>" + number(m_peakShare * 99) + "%", true);
        row("bubble>" + number(m_bubble * 101) + " %", false);
        row("bubble>" + number(m_bubble * 0.99), true);
        row("samples/s<" + number(m_samples * 0.99), false);
        row("samples/s<=" + number(m_samples * 1.01), true);
    }
    void limits()
    {
        QFETCH(QString, limit);
        QFETCH(bool, passes);
        const Done done = gate(limit, {"--json"});
        QCOMPARE(done.status, passes ? 3 : 0);
        QCOMPARE(done.err.contains(limit.trimmed().toUtf8() + ": is "), passes);
        const QJsonArray told = QJsonDocument::fromJson(done.out).object()["limits"].toArray();
        QCOMPARE(told.size(), 1);
        QCOMPARE(told[0]["passed"].toBool(), passes);
        QCOMPARE(told[0]["limit"].toString(), limit);
    }

    void severalLimitsAndAllResults()
    {
        const Done done = gate("step>1000s, bubble>0%,peak>1KiB", {"--trace", "nano.pltrace", "-o", "again.json"});
        QCOMPARE(done.status, 3);
        QVERIFY2(done.err.contains("bubble>0%: is ") && done.err.contains("; peak>1KiB: is ")
                     && !done.err.contains("step>1000s"),
                 done.err.constData());
        QVERIFY(done.out.contains("limit         step>1000s: is ") && done.out.contains("PASSED"));
        QVERIFY(entries().contains("nano.pltrace") && entries().contains("again.json"));
        const Done quiet = gate("bubble>0%", {"--quiet"});
        QCOMPARE(quiet.status, 3);
        QVERIFY(quiet.out.isEmpty() && quiet.err.contains("passes a limit of --fail-if"));
        QVERIFY(!QJsonDocument::fromJson(run({"simulate", "nano.json", "--json"}).out).object().contains("limits"));
    }

    void wrongLimits_data()
    {
        QTest::addColumn<QString>("limit");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *limit, const char *says) { QTest::newRow(limit) << limit << says; };
        row("step", "write it as FIGURE>LIMIT");
        row("step>", "is not a number with a unit");
        row("step>fast", "is not a number with a unit");
        row("step>3GiB", "is not a unit that fits here");
        row("peak>3s", "is not a unit that fits here");
        row("peak>many%", "write the share as 95%");
        row("bubble>3s", "write the share as 30%");
        row("samples/s<3%", "write the rate as a number");
        row("speed>3", "there is no figure \"speed\"; there are step, peak, bubble and samples/s");
        row("step>-1s", "must be zero or more");
        row("step>nan", "is not a number");
        row("step>1s,", "write it as FIGURE>LIMIT");
    }
    void wrongLimits()
    {
        QFETCH(QString, limit);
        QFETCH(QString, says);
        const Done done = gate(limit);
        QCOMPARE(done.status, 2);
        QVERIFY2(QString(done.err).contains(says), done.err.constData());
        QVERIFY(done.out.isEmpty());
    }
};

QTEST_GUILESS_MAIN(TestCliGate)
#include "tst_cli_gate.moc"

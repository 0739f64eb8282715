// SPDX-License-Identifier: Apache-2.0
// SQL over traces: planloom query.
#include "app/cli_fixture.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

using namespace planloom::testing;

class TestCliQuery : public CliTest {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase()
    {
        const Done planned = run({"plan", "--model", "zoo:gpt-nano", "--cluster", "preset:h100-8", "--planner", "gpipe",
                                  "--batch", "16", "--micro-batch", "4", "-o", "nano.json", "--quiet"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        QCOMPARE(run({"simulate", "nano.json", "--trace", "nano.pltrace", "--quiet"}).status, 0);
        QCOMPARE(run({"simulate", "nano.json", "--trace", "chrome.json", "--quiet"}).status, 0);
    }

    void planAndTraceAnswerAlike()
    {
        const QString sql("SELECT kind, count(*) AS slices FROM slices WHERE work='compute' GROUP BY kind");
        const Done plan = run({"query", "nano.json", sql, "--json"});
        QVERIFY2(plan.status == 0, plan.err.constData());
        const QJsonObject table = QJsonDocument::fromJson(plan.out).object();
        QCOMPARE(table["columns"].toArray(), (QJsonArray{"kind", "slices"}));
        QVERIFY(table["rows"].toArray().size() >= 2);
        QCOMPARE(run({"query", "nano.pltrace", sql, "--json"}).out, plan.out);
        QCOMPARE(run({"query", "chrome.json", "SELECT count(*) > 0 FROM slices", "--json"}).out,
                 QByteArray("{\"columns\":[\"count(*) > 0\"],\"rows\":[[1]]}\n"));
    }

    void textIsATable()
    {
        const Done done = run({"query", "nano.json", "SELECT device, 0.5 AS half FROM devices ORDER BY 1 LIMIT 1"});
        QCOMPARE(done.out, QByteArray("device  half\nn0:g0    0.5\n"));
        QVERIFY(run({"query", "nano.json", "SELECT 1 FROM slices WHERE 0"}).out.contains("no rows"));
    }

    void refused()
    {
        const Done wrong = run({"query", "nano.json", "SELECT speed FROM slices"});
        QCOMPARE(wrong.status, 2);
        QVERIFY2(wrong.err.contains("no such column: speed"), wrong.err.constData());
        QCOMPARE(run({"query", "none.pltrace", "SELECT 1"}).status, 2);
    }
};

QTEST_GUILESS_MAIN(TestCliQuery)
#include "tst_cli_query.moc"

// SPDX-License-Identifier: Apache-2.0
// What a run has measured for its memory policies, as its file has it.
#include "engine/memory/measured_times.h"

#include <QTest>

using namespace planloom;

class TestMeasuredTimes : public QObject {
    Q_OBJECT

private slots:
    void textAndBack();
    void refused_data();
    void refused();
    void bandwidthIsBesideLatency();
};

void TestMeasuredTimes::textAndBack()
{
    memory::RunTimes times{4, {}};
    times.ranks.push_back({{1.0 / 3, 2e-7, 0, 1e-300}, 1 << 20, 1.0 / 7, 0.1 + 0.2});
    times.ranks.push_back({});
    const auto again = memory::runTimesFromJson(memory::toJson(times));
    QVERIFY2(again, again ? "" : again.error().text().c_str());
    QVERIFY(*again == times); // to the bit
}

void TestMeasuredTimes::refused_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("wanted");
    QTest::newRow("no JSON") << "{"
                             << "not valid JSON";
    QTest::newRow("no step") << R"({"ranks": []})"
                             << "from_step";
    QTest::newRow("no ranks") << R"({"from_step": 4})"
                              << "ranks";
    QTest::newRow("negative")
        << R"({"from_step": 4, "ranks": [{"copy_bytes": 0, "seconds_out": 0, "seconds_in": 0, "operators": [0, -1]}]})"
        << "ranks[0].operators[1]";
    QTest::newRow("a negative copy")
        << R"({"from_step": 4, "ranks": [{"copy_bytes": 1, "seconds_out": -1, "seconds_in": 0, "operators": []}]})"
        << "seconds_out";
    QTest::newRow("a word")
        << R"({"from_step": 4, "ranks": [{"copy_bytes": 1, "seconds_out": 0, "seconds_in": 0, "operators": ["x"]}]})"
        << "operators[0]";
}

void TestMeasuredTimes::refused()
{
    QFETCH(QString, text);
    QFETCH(QString, wanted);
    const auto times = memory::runTimesFromJson(text.toStdString());
    QVERIFY(!times);
    QVERIFY2(QString::fromStdString(times.error().text()).contains(wanted), times.error().text().c_str());
}

void TestMeasuredTimes::bandwidthIsBesideLatency()
{
    const memory::MeasuredTimes times{{}, 1000, 0.5, 0.25};
    QCOMPARE(times.bandwidth(true, 0), 2000.0);
    QCOMPARE(times.bandwidth(false, 0.05), 5000.0);
    QCOMPARE(times.bandwidth(false, 1), 40000.0); // more latency than was measured
}

QTEST_GUILESS_MAIN(TestMeasuredTimes)
#include "tst_measured_times.moc"

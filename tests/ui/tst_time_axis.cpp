// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/time_axis.h"

#include <QTest>

using planloom::ui::TimeAxis;
using planloom::ui::timeLabel;

class TestTimeAxis : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void pixelsAndTimesAreInverse();
    void zoomKeepsWhatIsUnderTheMouse();
    void zoomAndPanStayWithinTheBounds();
    void followKeepsTheSpan();
    void ticksAreRoundAndApart_data();
    void ticksAreRoundAndApart();
    void labels_data();
    void labels();
};

static TimeAxis axisOf(std::int64_t begin, std::int64_t end, int pixels)
{
    TimeAxis axis;
    axis.setPixels(pixels);
    axis.setBounds(begin, end);
    axis.showAll();
    return axis;
}

void TestTimeAxis::pixelsAndTimesAreInverse()
{
    TimeAxis axis = axisOf(1'000'000, 9'000'000, 800);
    axis.zoom(3.7, 211);
    for (const double pixel : {0.0, 1.0, 400.5, 799.0})
        QVERIFY(std::abs(axis.toPixel(axis.toTime(pixel)) - pixel) < 1e-6);
    QCOMPARE(axis.toTime(0), axis.begin());
    QVERIFY(std::abs(axis.toTime(800) - axis.end()) < 1e-3);
}

void TestTimeAxis::zoomKeepsWhatIsUnderTheMouse()
{
    TimeAxis axis = axisOf(0, 10'000'000, 1000);
    const double under = axis.toTime(700);
    axis.zoom(4, 700);
    QVERIFY(std::abs(axis.toTime(700) - under) < 1);
    const double span = axis.span();
    axis.zoom(0.5, 700);
    QVERIFY(std::abs(axis.span() - 2 * span) < 1);
    QVERIFY(std::abs(axis.toTime(700) - under) < 1);
}

void TestTimeAxis::zoomAndPanStayWithinTheBounds()
{
    TimeAxis axis = axisOf(0, 1'000'000, 500);
    axis.zoom(1e-9, 250);
    QVERIFY(axis.showsAll());
    QVERIFY(axis.span() <= 1'100'001);
    axis.zoom(1e12, 250);
    QVERIFY(axis.span() >= 100);
    axis.pan(-1e9);
    QVERIFY(axis.begin() >= -50'001);
    axis.pan(1e9);
    QVERIFY(axis.end() <= 1'050'001);
}

void TestTimeAxis::followKeepsTheSpan()
{
    TimeAxis axis = axisOf(0, 1'000'000, 500);
    axis.show(100'000, 300'000, 0);
    axis.follow(900'000);
    QCOMPARE(axis.span(), 200'000.0);
    QCOMPARE(axis.end(), 900'000.0);
}

void TestTimeAxis::ticksAreRoundAndApart_data()
{
    QTest::addColumn<qint64>("span");
    QTest::newRow("microsecond") << qint64(1'000);
    QTest::newRow("odd") << qint64(7'654'321);
    QTest::newRow("second") << qint64(1'000'000'000);
    QTest::newRow("hour") << qint64(3'600) * 1'000'000'000;
}

void TestTimeAxis::ticksAreRoundAndApart()
{
    QFETCH(qint64, span);
    const TimeAxis axis = axisOf(0, span, 1200);
    const auto ticks = axis.ticks(90);
    double last = -1e9;
    int labelled = 0;
    for (const auto &tick : ticks) {
        if (tick.label.empty())
            continue;
        ++labelled;
        QVERIFY2(tick.pixel - last >= 89.9, "labels too close");
        last = tick.pixel;
    }
    QVERIFY(labelled >= 4);
    QVERIFY(labelled <= 14);
}

void TestTimeAxis::labels_data()
{
    QTest::addColumn<double>("time");
    QTest::addColumn<double>("resolution");
    QTest::addColumn<QString>("text");
    QTest::newRow("zero") << 0.0 << 1e6 << "0";
    QTest::newRow("whole ms") << 5e6 << 5e6 << "5 ms";
    QTest::newRow("part of ms") << 2.5e6 << 5e5 << "2.5 ms";
    QTest::newRow("s") << 3.4e9 << 1e8 << "3.4 s";
    QTest::newRow("us") << 20e3 << 1e4 << "20 µs";
    QTest::newRow("before the origin") << -2e6 << 1e6 << "-2 ms";
}

void TestTimeAxis::labels()
{
    QFETCH(double, time);
    QFETCH(double, resolution);
    QFETCH(QString, text);
    QCOMPARE(QString::fromStdString(timeLabel(time, resolution)), text);
}

QTEST_GUILESS_MAIN(TestTimeAxis)
#include "tst_time_axis.moc"

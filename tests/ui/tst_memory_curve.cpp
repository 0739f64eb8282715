// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/curve.h"
#include "ui/state/memory_curves.h"
#include "ui/widgets/chart.h"

#include <QTest>

using namespace planloom;
using namespace planloom::ui;

class TestMemoryCurve : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void staircaseHoldsEachLevel();
    void thinningKeepsThePeak();
    void shortCurvesAreUntouched();
    void alikeDevicesShareACurve();
    void units();
    void roundFigures();
};

static simulate::MemoryPoint at(double seconds, std::int64_t bytes)
{
    simulate::MemoryPoint point;
    point.seconds = seconds;
    point.activations = bytes;
    return point;
}

static double total(const simulate::MemoryPoint &point) { return static_cast<double>(point.total()); }

void TestMemoryCurve::staircaseHoldsEachLevel()
{
    const auto curve = staircase({at(0, 10), at(1, 30), at(2, 20)}, total, 4, 1000, 0.5);
    const QList<QPointF> expected{{0, 5}, {1000, 5}, {1000, 15}, {2000, 15}, {2000, 10}, {4000, 10}};
    QCOMPARE(curve, expected);
    QVERIFY(staircase({}, total, 4, 1, 1).isEmpty());
}

void TestMemoryCurve::thinningKeepsThePeak()
{
    std::vector<simulate::MemoryPoint> points;
    for (int k = 0; k < 50'000; ++k)
        points.push_back(at(k, 100 + k % 7));
    points[31'234].activations = 1'000'000;
    points[7].activations = 1;
    const auto curve = staircase(points, total, 50'000, 1, 1);
    QVERIFY(static_cast<std::size_t>(curve.size()) <= kCurvePoints);
    const auto [low, high] =
        std::minmax_element(curve.begin(), curve.end(), [](auto a, auto b) { return a.y() < b.y(); });
    QCOMPARE(high->y(), 1e6);
    QCOMPARE(low->y(), 1.0);
    QVERIFY(std::is_sorted(curve.begin(), curve.end(), [](auto a, auto b) { return a.x() < b.x(); }));
    QCOMPARE(peakOf(points)->seconds, 31'234.0);
}

void TestMemoryCurve::shortCurvesAreUntouched()
{
    const QList<QPointF> points{{0, 1}, {1, 5}, {2, 3}};
    QCOMPARE(thin(points), points);
}

void TestMemoryCurve::alikeDevicesShareACurve()
{
    const std::vector<simulate::MemoryPoint> low{at(0, 1), at(1, 2)};
    const std::vector<simulate::MemoryPoint> high{at(0, 1), at(1, 3)};
    const std::vector<simulate::MemoryPoint> longer{at(0, 1), at(1, 2), at(2, 0)};
    const std::vector<std::size_t> expected{0, 1, 0, 2, 1};
    QCOMPARE(numberCurves({low, high, low, longer, high}), expected);
    QVERIFY(numberCurves({}).empty());
}

void TestMemoryCurve::units()
{
    QCOMPARE(byteUnit(3.0 * (1 << 30)).name, "GiB");
    QCOMPARE(byteUnit(5.0 * (1 << 20)).name, "MiB");
    QCOMPARE(byteUnit(10).name, "KiB");
    QCOMPARE(timeUnit(0.02).factor, 1e3);
}

void TestMemoryCurve::roundFigures()
{
    QCOMPARE(roundUp(0.0), 1.0);
    QCOMPARE(roundUp(3.1), 4.0);
    QCOMPARE(roundUp(100.0), 100.0);
    QCOMPARE(roundUp(0.071), 0.08);
    QCOMPARE(roundUp(8.5), 10.0);
}

QTEST_GUILESS_MAIN(TestMemoryCurve)
#include "tst_memory_curve.moc"

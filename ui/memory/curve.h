// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QList>
#include <QPointF>

#include "engine/simulate/simulate.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace planloom::ui {

/// More points than this make QtCharts slow (2,000: 0.8 ms a repaint; 20,000: 9.5 ms).
inline constexpr std::size_t kCurvePoints = 2000;

using MemoryValue = std::function<double(const simulate::MemoryPoint &)>;

/// A staircase of at most @p limit points: x = seconds * @p timeScale, y = value * @p valueScale, the last level held
/// until @p endSeconds. Where points are left out, the smallest and the largest of each stretch stay, so that no peak
/// is lost. Cost: O(points).
QList<QPointF> staircase(const std::vector<simulate::MemoryPoint> &points, const MemoryValue &value, double endSeconds,
                         double timeScale, double valueScale, std::size_t limit = kCurvePoints);

/// Any curve, thinned the same way.
QList<QPointF> thin(const QList<QPointF> &points, std::size_t limit = kCurvePoints);

/// How long the curves of @p simulation are: an iteration, or a round of several that are not alike.
double periodSeconds(const simulate::Simulation &simulation);

/// The point of largest total, the first of equals; nullptr if there is none.
const simulate::MemoryPoint *peakOf(const std::vector<simulate::MemoryPoint> &points);

/// A scale for figures up to @p largest: the factor to multiply by and the unit's name.
struct Unit {
    double factor = 1;
    const char *name = "";
};
Unit byteUnit(double largest);
Unit timeUnit(double largestSeconds);

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/curve.h"

#include <algorithm>

namespace planloom::ui {

QList<QPointF> thin(const QList<QPointF> &points, std::size_t limit)
{
    const auto size = static_cast<std::size_t>(points.size());
    if (size <= limit || limit < 4)
        return points;
    const std::size_t buckets = (limit - 2) / 2;
    QList<QPointF> result;
    result.reserve(static_cast<qsizetype>(limit));
    result << points.front();
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
        const auto from = points.begin() + static_cast<qsizetype>(1 + bucket * (size - 2) / buckets);
        const auto to = points.begin() + static_cast<qsizetype>(1 + (bucket + 1) * (size - 2) / buckets);
        const auto [low, high] =
            std::minmax_element(from, to, [](const QPointF &a, const QPointF &b) { return a.y() < b.y(); });
        const auto first = std::min(low, high);
        const auto second = std::max(low, high);
        result << *first;
        if (second != first)
            result << *second;
    }
    result << points.back();
    return result;
}

QList<QPointF> staircase(const std::vector<simulate::MemoryPoint> &points, const MemoryValue &value, double endSeconds,
                         double timeScale, double valueScale, std::size_t limit)
{
    QList<QPointF> steps;
    steps.reserve(static_cast<qsizetype>(2 * points.size() + 1));
    double level = 0;
    for (const simulate::MemoryPoint &point : points) {
        const double x = point.seconds * timeScale;
        const double y = value(point) * valueScale;
        if (!steps.isEmpty())
            steps << QPointF(x, level);
        steps << QPointF(x, y);
        level = y;
    }
    if (!steps.isEmpty())
        steps << QPointF(std::max(endSeconds * timeScale, steps.back().x()), level);
    return thin(steps, limit);
}

double periodSeconds(const simulate::Simulation &simulation)
{
    return simulation.report.iterationSeconds * simulation.trace.rounds.steps;
}

const simulate::MemoryPoint *peakOf(const std::vector<simulate::MemoryPoint> &points)
{
    const auto peak = std::max_element(points.begin(), points.end(),
                                       [](const auto &a, const auto &b) { return a.total() < b.total(); });
    return peak == points.end() ? nullptr : &*peak;
}

Unit byteUnit(double largest)
{
    if (largest >= double(1 << 30))
        return {1.0 / double(1 << 30), "GiB"};
    if (largest >= double(1 << 20))
        return {1.0 / double(1 << 20), "MiB"};
    return {1.0 / 1024, "KiB"};
}

Unit timeUnit(double largestSeconds)
{
    if (largestSeconds >= 1)
        return {1, "s"};
    if (largestSeconds >= 1e-3)
        return {1e3, "ms"};
    return {1e6, "µs"};
}

} // namespace planloom::ui

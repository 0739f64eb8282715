// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPointF>

#include <cmath>
#include <cstddef>
#include <optional>

namespace planloom::ui {

/// Of @p count points of a plot the one that lies nearest to @p place, closer than @p reach pixels; nothing: none does.
/// @p placeOf(i): where point i is drawn. Cost: O(count).
template <class PlaceOf>
std::optional<std::size_t> nearestPoint(std::size_t count, const PlaceOf &placeOf, const QPointF &place, double reach)
{
    std::optional<std::size_t> best;
    double least = reach;
    for (std::size_t p = 0; p < count; ++p) {
        const QPointF off = placeOf(p) - place;
        if (const double distance = std::hypot(off.x(), off.y()); distance < least) {
            least = distance;
            best = p;
        }
    }
    return best;
}

} // namespace planloom::ui

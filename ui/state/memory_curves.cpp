// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/memory_curves.h"

#include <algorithm>

namespace planloom::ui {

std::vector<std::size_t> numberCurves(const std::vector<std::vector<simulate::MemoryPoint>> &devices)
{
    const auto samePoint = [](const simulate::MemoryPoint &a, const simulate::MemoryPoint &b) {
        return a.seconds == b.seconds && a.total() == b.total();
    };
    std::vector<const std::vector<simulate::MemoryPoint> *> curves;
    std::vector<std::size_t> numbers;
    for (const auto &points : devices) {
        const auto same = [&](const auto *other) {
            return points.size() == other->size()
                && std::equal(points.begin(), points.end(), other->begin(), samePoint);
        };
        const auto found = std::find_if(curves.begin(), curves.end(), same);
        numbers.push_back(static_cast<std::size_t>(found - curves.begin()));
        if (found == curves.end())
            curves.push_back(&points);
    }
    return numbers;
}

} // namespace planloom::ui

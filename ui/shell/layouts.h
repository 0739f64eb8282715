// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QStringList>

#include <optional>
#include <vector>

namespace planloom::ui {

/// What a user is about, with an arrangement of docks of its own.
enum class Layout { Plan, Watch, Compare };
inline constexpr int kLayouts = 3;

/// Docks that lie on each other, the first of them in front, and how high the place is in a window of 900.
struct DockPlace {
    QStringList docks;
    int height = 0;
};

/// A column of places, from the top, and its share of a window of 1400.
struct DockColumn {
    std::vector<DockPlace> places;
    int width = 0;
};

/// Every dock in one place.
std::vector<DockColumn> columnsOf(Layout layout);
QString layoutTitle(Layout layout); ///< "Watch"
QString layoutName(Layout layout);  ///< in settings and links: "watch"
std::optional<Layout> layoutNamed(const QString &name);

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPainter>

#include "ui/timeline/task_links.h"
#include "ui/timeline/timeline_path.h"
#include "ui/timeline/timeline_scene.h"

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace planloom::ui {

/// Draws what connects slices, over their rows: the arrows of the selected slice and critical paths. Thread contract:
/// the UI thread.
class LinkPainter {
public:
    LinkPainter(QPainter &painter, const TimelineScene &scene);

    /// Causes have plain arrows to @p slice, effects dashed ones from it; the arrow of what determined a start is
    /// thicker. Slices of its group are joined by a dotted line. Of those whose row is not seen there are stubs, with
    /// their number.
    void paintLinks(const TimelineModel::Slice &slice, const TaskLinks &links);
    /// Pales what is on none of @p paths, and draws a line along each. Cost: O(log pieces + pieces in the stretch).
    void paintPaths(std::span<const TimelinePath> paths);
    /// Arrows, and stubs that stand for more than one: for tests.
    [[nodiscard]] int arrows() const { return m_arrows; }
    [[nodiscard]] int stubs() const { return m_stubs; }

private:
    using Boxes = std::map<std::size_t, std::vector<std::pair<int, int>>>; ///< by row: [left, right)
    /// Ends of links whose other ends are not seen.
    struct Stub {
        bool causes = false;
        bool up = false;
        int count = 0;
    };

    void paintMembers(const QRect &own, const TaskLinks &links);
    void paintArrow(const TaskLinks::Link &link, bool isCause, std::vector<Stub> &stubs);
    void arrow(const QPoint &from, const QPoint &to, Qt::PenStyle style, int width);
    void paintStub(const QRect &own, const Stub &stub);
    [[nodiscard]] std::optional<std::size_t> seenRow(const TimelineModel::Slice &slice) const;
    [[nodiscard]] std::pair<std::size_t, std::size_t> piecesInView(const TimelinePath &path) const;
    void collect(const TimelinePath &path, Boxes &boxes) const;
    void paintVeil(const Boxes &boxes);
    void paintWay(const TimelinePath &path);
    void line(const QPoint &from, const QPoint &to);

    QPainter &m_painter;
    const TimelineScene &m_scene;
    int m_arrows = 0;
    int m_stubs = 0;
};

} // namespace planloom::ui

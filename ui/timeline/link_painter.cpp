// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/link_painter.h"

#include "ui/theme/theme.h"

#include <QPainterPath>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr int kHead = 7;       // pixels: an arrow's head
constexpr int kStub = 16;      // pixels: an arrow that ends outside
constexpr int kPaleness = 200; // of 255: of what is on no critical path

} // namespace

LinkPainter::LinkPainter(QPainter &painter, const TimelineScene &scene) : m_painter(painter), m_scene(scene) {}

std::optional<std::size_t> LinkPainter::seenRow(const TimelineModel::Slice &slice) const
{
    const auto row = m_scene.model->rowOf(slice);
    return row && m_scene.shows(m_scene.model->rows()[*row]) ? row : std::nullopt;
}

// --- Arrows ----------------------------------------------------------------------------------------------------------

void LinkPainter::paintLinks(const TimelineModel::Slice &slice, const TaskLinks &links)
{
    if (!seenRow(slice))
        return;
    m_painter.save();
    m_painter.setClipRect(m_scene.area);
    m_painter.setRenderHint(QPainter::Antialiasing, true);
    const QRect own = m_scene.boxOf(slice);
    paintMembers(own, links);
    std::vector<Stub> stubs{{true, true}, {true, false}, {false, true}, {false, false}};
    for (const TaskLinks::Link &link : links.effects)
        paintArrow(link, false, stubs);
    for (const TaskLinks::Link &link : links.causes)
        paintArrow(link, true, stubs);
    stubs[0].count += static_cast<int>(links.causeCount - links.causes.size());
    stubs[3].count += static_cast<int>(links.effectCount - links.effects.size());
    for (const Stub &stub : stubs)
        paintStub(own, stub);
    m_painter.restore();
}

void LinkPainter::paintMembers(const QRect &own, const TaskLinks &links)
{
    for (const TimelineModel::Slice &member : links.members) {
        if (!seenRow(member))
            continue;
        const QRect other = m_scene.boxOf(member);
        const int x = std::max(own.left(), other.left()) + std::min(own.width(), other.width()) / 2;
        const QLine joint(x, own.center().y(), x, other.center().y());
        m_painter.setPen(QPen(theme().base, 4));
        m_painter.drawLine(joint);
        m_painter.setPen(QPen(theme().cursor, 2, Qt::DotLine));
        m_painter.drawLine(joint);
    }
}

void LinkPainter::paintArrow(const TaskLinks::Link &link, bool isCause, std::vector<Stub> &stubs)
{
    const TimelineModel::Slice &other = isCause ? link.from : link.to;
    const TimelineModel::Slice &near = isCause ? link.to : link.from;
    if (!seenRow(other) || !seenRow(near)) {
        const auto row = m_scene.model->rowOf(other);
        const bool above = row && m_scene.screenY(m_scene.model->rows()[*row].y) < m_scene.boxOf(near).y();
        ++stubs[(isCause ? 0U : 2U) + (above ? 0U : 1U)].count;
        return;
    }
    const QRect from = m_scene.boxOf(link.from);
    const QRect to = m_scene.boxOf(link.to);
    arrow({from.right() + 1, from.center().y()}, {to.left(), to.center().y()}, isCause ? Qt::SolidLine : Qt::DashLine,
          link.determines ? 2 : 1);
}

/// A bow where there is room, and where both ends are at the same time or on one row a line.
void LinkPainter::arrow(const QPoint &from, const QPoint &to, Qt::PenStyle style, int width)
{
    ++m_arrows;
    QPainterPath way(from);
    const int reach = std::clamp((to.x() - from.x()) / 2, 0, 60);
    way.cubicTo(QPointF(from.x() + reach, from.y()), QPointF(to.x() - reach, to.y()), to);
    m_painter.setBrush(Qt::NoBrush);
    m_painter.setPen(QPen(theme().base, width + 3));
    m_painter.drawPath(way);
    m_painter.setPen(QPen(theme().cursor, width, style));
    m_painter.drawPath(way);
    // Along the end of the way: from the left where it is a bow, else from where it comes.
    double x = 1;
    double y = 0;
    if (const double length = std::hypot(to.x() - from.x(), to.y() - from.y()); reach < kHead && length > 0) {
        x = (to.x() - from.x()) / length;
        y = (to.y() - from.y()) / length;
    }
    const QPointF tip = to;
    const QPointF foot(tip.x() - kHead * x, tip.y() - kHead * y);
    const QPointF side(-y * kHead * 0.6, x * kHead * 0.6);
    m_painter.setPen(QPen(theme().base, 1));
    m_painter.setBrush(theme().cursor);
    m_painter.drawPolygon(QPolygonF({tip, foot + side, foot - side}));
}

/// A short arrow at the slice's beginning (causes) or end (effects), and how many it stands for.
void LinkPainter::paintStub(const QRect &own, const Stub &stub)
{
    if (stub.count == 0)
        return;
    ++m_stubs;
    const int edge =
        std::clamp(stub.causes ? own.left() : own.right(), m_scene.area.left() + 8, m_scene.area.right() - 40);
    const int y = stub.up ? own.top() : own.bottom();
    const QPoint near(edge, y);
    const QPoint far(edge, stub.up ? y - kStub : y + kStub);
    const int before = m_arrows;
    arrow(stub.causes ? far : near, stub.causes ? near : far, stub.causes ? Qt::SolidLine : Qt::DashLine, 2);
    m_arrows = before;
    const QString text = QString::number(stub.count);
    QRect box(0, 0, m_painter.fontMetrics().horizontalAdvance(text) + 8, 14);
    box.moveTopLeft({far.x() + 4, stub.up ? far.y() - 6 : far.y() - 8});
    m_painter.setPen(QPen(theme().border, 1));
    m_painter.setBrush(theme().base);
    m_painter.drawRect(box);
    m_painter.setPen(theme().text);
    m_painter.drawText(box, Qt::AlignCenter, text);
}

// --- Critical paths --------------------------------------------------------------------------------------------------

void LinkPainter::paintPaths(std::span<const TimelinePath> paths)
{
    if (paths.empty())
        return;
    m_painter.save();
    m_painter.setRenderHint(QPainter::Antialiasing, false);
    Boxes boxes;
    for (const TimelinePath &path : paths)
        collect(path, boxes);
    paintVeil(boxes);
    for (const TimelinePath &path : paths)
        paintWay(path);
    m_painter.restore();
}

std::pair<std::size_t, std::size_t> LinkPainter::piecesInView(const TimelinePath &path) const
{
    const auto first = std::ranges::partition_point(path.pieces, [this](const auto &piece) {
        return static_cast<double>(piece.end) < m_scene.axis.begin();
    });
    const auto last = std::partition_point(first, path.pieces.end(), [this](const auto &piece) {
        return static_cast<double>(piece.begin) <= m_scene.axis.end();
    });
    return {static_cast<std::size_t>(first - path.pieces.begin()),
            static_cast<std::size_t>(last - path.pieces.begin())};
}

void LinkPainter::collect(const TimelinePath &path, Boxes &boxes) const
{
    const auto [first, last] = piecesInView(path);
    for (std::size_t i = first; i < last; ++i) {
        const TimelinePath::Piece &piece = path.pieces[i];
        const auto row = piece.earlier ? std::nullopt : seenRow(piece.slice);
        if (!row)
            continue;
        const int left = m_scene.screenX(piece.begin, 8);
        const int right = std::max(m_scene.screenX(piece.end, 8), left + 1);
        auto &ofRow = boxes[*row];
        if (!ofRow.empty() && left <= ofRow.back().second)
            ofRow.back().second = std::max(ofRow.back().second, right);
        else
            ofRow.emplace_back(left, right);
    }
}

/// Over all rows, but for the boxes.
void LinkPainter::paintVeil(const Boxes &boxes)
{
    QColor veil = theme().base;
    veil.setAlpha(kPaleness);
    for (const TimelineScene &part : m_scene.parts()) {
        m_painter.setClipRect(part.area);
        const auto [first, last] = part.model->layout().rowsBetween(part.scroll, part.scroll + part.area.height());
        for (std::size_t r = first; r < last; ++r) {
            const TimelineModel::Row &row = part.model->rows()[r];
            const int y = part.area.y() + row.y - part.scroll;
            int x = part.area.left();
            if (const auto ofRow = boxes.find(r); ofRow != boxes.end()) {
                for (const auto &[left, right] : ofRow->second) {
                    m_painter.fillRect(QRect(x, y, std::max(left - x, 0), row.height), veil);
                    x = std::max(x, right);
                }
            }
            m_painter.fillRect(QRect(x, y, std::max(part.area.right() + 1 - x, 0), row.height), veil);
        }
    }
}

/// Along the foot of its slices, up and down between them.
void LinkPainter::paintWay(const TimelinePath &path)
{
    m_painter.setClipRect(m_scene.area);
    const auto [first, last] = piecesInView(path);
    std::optional<QPoint> before; // where the piece before ended
    std::optional<QLine> drawn;   // up or down
    for (std::size_t i = first; i < last; ++i) {
        const TimelinePath::Piece &piece = path.pieces[i];
        const auto row = m_scene.model->rowOf(piece.slice);
        if (!row || piece.earlier) {
            before.reset();
            continue;
        }
        const TimelineModel::Row &at = m_scene.model->rows()[*row];
        const int y = m_scene.screenY(at.y) + at.height - 2;
        const QPoint begin(m_scene.screenX(piece.begin, 8), y);
        const QPoint end(m_scene.screenX(piece.end, 8), y);
        if (before) {
            const QLine step(QPoint(before->x(), std::min(before->y(), y)),
                             QPoint(before->x(), std::max(before->y(), y)));
            const bool covered =
                drawn && drawn->x1() == step.x1() && drawn->y1() <= step.y1() && drawn->y2() >= step.y2();
            if (!covered) {
                line(step.p1(), step.p2());
                drawn = step;
            }
            line({before->x(), y}, begin);
        }
        line(begin, end);
        before = end;
    }
}

void LinkPainter::line(const QPoint &from, const QPoint &to)
{
    const QRect box = QRect(from, to).normalized();
    m_painter.fillRect(QRect(box.x(), box.y(), std::max(box.width(), 2), std::max(box.height(), 2)), theme().cursor);
}

} // namespace planloom::ui

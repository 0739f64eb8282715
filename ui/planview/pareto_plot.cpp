// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/pareto_plot.h"

#include "ui/theme/theme.h"
#include "ui/widgets/nearest.h"
#include "ui/widgets/text.h"
#include "ui/widgets/tool_tip.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPolygonF>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace planloom::ui {

namespace {

constexpr double kParetoRadius = 4.5; // pixels
constexpr double kParetoReach = 9;
constexpr double kParetoMargin = 0.08; // of the range, on both sides
constexpr int kParetoNone = -2;

} // namespace

ParetoPlot::ParetoPlot(QWidget *parent) : QWidget(parent)
{
    setAccessibleName(tr("Plans by time and memory"));
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
}

void ParetoPlot::set(std::vector<Point> points)
{
    m_points = std::move(points);
    std::stable_sort(m_points.begin(), m_points.end(),
                     [](const Point &a, const Point &b) { return a.figures.seconds < b.figures.seconds; });
    const auto range = [this](auto of, double &least, double &most) {
        least = m_points.empty() ? 0 : std::numeric_limits<double>::max();
        most = 0;
        for (const Point &point : m_points) {
            least = std::min(least, of(point.figures));
            most = std::max(most, of(point.figures));
        }
        const double margin = most > least ? (most - least) * kParetoMargin : std::max(most * kParetoMargin, 1e-9);
        least -= margin;
        most += margin;
    };
    range([](const AlternativeFigures &each) { return each.seconds; }, m_leastSeconds, m_mostSeconds);
    range([](const AlternativeFigures &each) { return static_cast<double>(each.peakBytes); }, m_leastBytes,
          m_mostBytes);
    setAccessibleDescription(tr("%1 plans").arg(m_points.size()));
    update();
}

void ParetoPlot::mark(int row)
{
    m_marked = row;
    update();
}

QRectF ParetoPlot::plot() const
{
    const int line = fontMetrics().height();
    const int left = fontMetrics().horizontalAdvance(QStringLiteral("99.99 GiB")) + 6;
    return QRectF(left, 1.5 * line + 4, std::max(1, width() - left - 10), std::max(1.0, height() - 3.5 * line - 8));
}

QPointF ParetoPlot::placeOf(std::size_t point) const
{
    const AlternativeFigures &figures = m_points[point].figures;
    const QRectF area = plot();
    return {area.left() + area.width() * (figures.seconds - m_leastSeconds) / (m_mostSeconds - m_leastSeconds),
            area.bottom()
                - area.height() * (static_cast<double>(figures.peakBytes) - m_leastBytes)
                    / (m_mostBytes - m_leastBytes)};
}

std::optional<std::size_t> ParetoPlot::nearest(const QPointF &place) const
{
    return nearestPoint(
        m_points.size(), [this](std::size_t p) { return placeOf(p); }, place, kParetoReach);
}

QString ParetoPlot::textAt(const QPointF &place) const
{
    const auto point = nearest(place);
    if (!point)
        return {};
    const Point &which = m_points[*point];
    const QString what = which.mark == Mark::Open ? tr("This plan")
        : which.mark == Mark::Kept                ? tr("Kept plan")
                                                  : tr("Alternative");
    return tr("%1: %2\n%3 an iteration, peak %4%5\nbubbles %6, %7 sent")
               .arg(what, which.name, secondsText(which.figures.seconds), bytesText(which.figures.peakBytes),
                    which.figures.fits ? QString() : tr(" (does not fit)"), percentText(which.figures.bubble),
                    bytesText(static_cast<std::int64_t>(which.figures.sentBytes)))
        + (which.front ? tr("\nno other plan here is better in both time and memory") : QString());
}

void ParetoPlot::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), theme().base);
    if (m_points.empty()) {
        painter.setPen(theme().dimText);
        painter.drawText(rect().adjusted(8, 0, -8, 0), Qt::AlignCenter | Qt::TextWordWrap,
                         tr("Time against memory of alternatives and kept plans"));
        return;
    }
    paintAxes(painter);
    painter.setRenderHint(QPainter::Antialiasing);
    paintFront(painter);
    for (std::size_t p = 0; p < m_points.size(); ++p)
        paintPoint(painter, p);
    painter.setRenderHint(QPainter::Antialiasing, false);
    if (hasFocus()) {
        painter.setPen(theme().accent);
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(rect().adjusted(0, 0, -1, -1));
    }
}

void ParetoPlot::paintAxes(QPainter &painter) const
{
    const QRectF area = plot();
    const int line = fontMetrics().height();
    painter.setPen(theme().grid);
    painter.drawRect(area);
    painter.setPen(theme().dimText);
    const auto bytes = [&](double share) {
        return bytesText(static_cast<std::int64_t>(m_leastBytes + share * (m_mostBytes - m_leastBytes)));
    };
    const auto seconds = [&](double share) {
        return secondsText(std::max(m_leastSeconds + share * (m_mostSeconds - m_leastSeconds), 0.0));
    };
    for (const double share : {0.0, 1.0}) {
        const double y = area.bottom() - share * area.height();
        painter.drawText(QRectF(0, y - line / 2.0, area.left() - 4, line), Qt::AlignRight | Qt::AlignVCenter,
                         bytes(share));
        const double wide = area.width() / 2;
        painter.drawText(QRectF(share > 0 ? area.right() - wide : area.left(), area.bottom() + 1, wide, line),
                         share > 0 ? Qt::AlignRight : Qt::AlignLeft, seconds(share));
    }
    painter.drawText(QRectF(2, 0, width(), line), Qt::AlignLeft, tr("peak memory"));
    painter.drawText(QRectF(0, area.bottom() + line + 1, area.right(), line), Qt::AlignRight, tr("iteration"));
}

/// As steps: what lies above and right of them is beaten.
void ParetoPlot::paintFront(QPainter &painter) const
{
    QPolygonF steps;
    for (std::size_t p = 0; p < m_points.size(); ++p) {
        if (!m_points[p].front)
            continue;
        const QPointF at = placeOf(p);
        if (!steps.isEmpty())
            steps << QPointF(at.x(), steps.back().y());
        steps << at;
    }
    painter.setPen(QPen(theme().accent, 1.5, Qt::DashLine));
    painter.drawPolyline(steps);
}

void ParetoPlot::paintPoint(QPainter &painter, std::size_t point) const
{
    const Point &which = m_points[point];
    const QPointF at = placeOf(point);
    const QColor color = !which.figures.fits ? theme().error
        : which.mark == Mark::Open           ? theme().text
        : which.mark == Mark::Kept           ? theme().ofSeries(5)
                                             : theme().ofSeries(0);
    painter.setPen(QPen(color, 1.6));
    painter.setBrush(which.front || which.mark == Mark::Open ? QBrush(color) : QBrush(theme().base));
    const double r = kParetoRadius;
    if (which.mark == Mark::Open)
        painter.drawPolygon(QPolygonF({at + QPointF(0, -r - 1.5), at + QPointF(r + 1.5, 0), at + QPointF(0, r + 1.5),
                                       at + QPointF(-r - 1.5, 0)}));
    else if (which.mark == Mark::Kept)
        painter.drawRect(QRectF(at.x() - r, at.y() - r, 2 * r, 2 * r));
    else
        painter.drawEllipse(at, r, r);
    if (which.row != m_marked)
        return;
    painter.setPen(QPen(theme().text, 1.5));
    painter.setBrush(Qt::NoBrush);
    painter.drawEllipse(at, 2 * r, 2 * r);
}

void ParetoPlot::mousePressEvent(QMouseEvent *event)
{
    if (const auto point = nearest(event->position())) {
        mark(m_points[*point].row);
        Q_EMIT picked(m_points[*point].row);
    }
}

void ParetoPlot::mouseDoubleClickEvent(QMouseEvent *event)
{
    if (const auto point = nearest(event->position()))
        Q_EMIT activated(m_points[*point].row);
}

void ParetoPlot::keyPressEvent(QKeyEvent *event)
{
    const auto marked =
        std::find_if(m_points.begin(), m_points.end(), [this](const Point &point) { return point.row == m_marked; });
    const bool there = marked != m_points.end() && m_marked != kParetoNone;
    const auto at = static_cast<int>(marked - m_points.begin());
    if (there && (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter)) {
        Q_EMIT activated(m_marked);
        return;
    }
    const int by = event->key() == Qt::Key_Right ? 1 : event->key() == Qt::Key_Left ? -1 : 0;
    if (by == 0 || m_points.empty())
        return QWidget::keyPressEvent(event);
    const int next = there ? std::clamp(at + by, 0, static_cast<int>(m_points.size()) - 1) : 0;
    mark(m_points[static_cast<std::size_t>(next)].row);
    Q_EMIT picked(m_marked);
}

bool ParetoPlot::event(QEvent *event)
{
    return answerToolTip(event, this, [this](const QPoint &place) { return textAt(place); }) || QWidget::event(event);
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/memory_chart.h"

#include "ui/theme/theme.h"

#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {
constexpr double kMarkHeight = 7; // pixels
constexpr double kLeastMark = 2;
} // namespace

MemoryChart::MemoryChart(const QString &name, const QString &xTitle, const QString &yTitle, QWidget *parent)
    : PlainChart(name, xTitle, yTitle, parent)
{
    viewport()->setMouseTracking(true);
}

void MemoryChart::setMoment(std::optional<double> at)
{
    m_moment = at;
    viewport()->update();
}

void MemoryChart::setHoverText(const QString &text)
{
    m_hoverText = text;
    viewport()->update();
}

QPointF MemoryChart::placeOf(double x, double y) const
{
    const QRectF plot = chart()->plotArea();
    const double left = plot.left() + plot.width() * (x - this->x()->min()) / (this->x()->max() - this->x()->min());
    const double top = plot.bottom() - plot.height() * (y - this->y()->min()) / (this->y()->max() - this->y()->min());
    return mapFromScene(chart()->mapToScene(QPointF(left, top)));
}

/// In the units of the axes; nullopt: outside of the plot.
std::optional<QPointF> MemoryChart::valueAt(const QPointF &place) const
{
    const QRectF plot = chart()->plotArea();
    const QPointF at = chart()->mapFromScene(mapToScene(place.toPoint()));
    if (!plot.contains(at) || plot.isEmpty())
        return std::nullopt;
    return QPointF(x()->min() + (at.x() - plot.left()) / plot.width() * (x()->max() - x()->min()),
                   y()->min() + (plot.bottom() - at.y()) / plot.height() * (y()->max() - y()->min()));
}

void MemoryChart::leave()
{
    if (!m_hover)
        return;
    m_hover.reset();
    m_hoverText.clear();
    viewport()->update();
    Q_EMIT left();
}

void MemoryChart::mouseMoveEvent(QMouseEvent *event)
{
    PlainChart::mouseMoveEvent(event);
    const auto value = valueAt(event->position());
    if (!value)
        return leave();
    m_hover = value->x();
    Q_EMIT hovered(value->x());
    viewport()->update();
}

void MemoryChart::mousePressEvent(QMouseEvent *event)
{
    const auto value = valueAt(event->position());
    if (event->button() == Qt::LeftButton && value)
        Q_EMIT picked(value->x(), value->y());
    else
        PlainChart::mousePressEvent(event);
}

/// The box stands beside the line, on the side with room.
void MemoryChart::drawHover(QPainter &painter) const
{
    const QRectF plot = chart()->mapRectToScene(chart()->plotArea());
    const double share = (*m_hover - x()->min()) / (x()->max() - x()->min());
    const double at = plot.left() + plot.width() * share;
    painter.setPen(QPen(theme().cursor, 1));
    painter.drawLine(QPointF(at, plot.top()), QPointF(at, plot.bottom()));
    if (m_hoverText.isEmpty())
        return;
    painter.setFont(font());
    const QRect text = QFontMetrics(font()).boundingRect(QRect(0, 0, 600, 400), Qt::AlignLeft, m_hoverText);
    constexpr double kBeside = 8;
    const double wide = text.width() + 2 * kBeside;
    const bool onRight = at + kBeside + wide <= plot.right();
    const QRectF box(onRight ? at + kBeside : std::max(plot.left(), at - kBeside - wide), plot.top() + 2, wide,
                     text.height() + kBeside);
    painter.fillRect(box, theme().base);
    painter.setPen(theme().border);
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(box);
    painter.setPen(theme().text);
    painter.drawText(box.adjusted(kBeside, kBeside / 2, 0, 0), Qt::AlignLeft | Qt::AlignTop, m_hoverText);
}

void MemoryChart::setStalls(std::vector<Stall> stalls)
{
    m_stalls = std::move(stalls);
    viewport()->update();
}

QRectF MemoryChart::markOf(const Stall &stall) const
{
    const QRectF plot = chart()->plotArea();
    const double span = x()->max() - x()->min();
    const auto xOf = [&](double value) { return plot.left() + plot.width() * (value - x()->min()) / span; };
    const double left = xOf(stall.begin);
    const QRectF mark(left, plot.bottom() - kMarkHeight, std::max(kLeastMark, xOf(stall.end) - left), kMarkHeight);
    return chart()->mapRectToScene(mark & plot);
}

QRectF MemoryChart::stallRect(std::size_t stall) const { return mapFromScene(markOf(m_stalls[stall])).boundingRect(); }

QString MemoryChart::textAt(const QPoint &point) const
{
    constexpr int kReach = 2; // pixels around a thin mark
    for (std::size_t s = 0; s < m_stalls.size(); ++s)
        if (stallRect(s).adjusted(-kReach, 0, kReach, 0).contains(point))
            return m_stalls[s].text;
    return {};
}

void MemoryChart::drawForeground(QPainter *painter, const QRectF &rect)
{
    PlainChart::drawForeground(painter, rect);
    for (const Stall &stall : m_stalls) {
        const QRectF mark = markOf(stall);
        painter->fillRect(mark, theme().base);
        painter->fillRect(mark, QBrush(theme().text, Qt::Dense3Pattern));
        painter->setPen(theme().text);
        painter->drawLine(mark.topLeft(), mark.topRight());
    }
    const QRectF plot = chart()->mapRectToScene(chart()->plotArea());
    if (m_moment && *m_moment >= x()->min() && *m_moment <= x()->max()) {
        const double at = plot.left() + plot.width() * (*m_moment - x()->min()) / (x()->max() - x()->min());
        painter->setPen(QPen(theme().text, 1, Qt::DashLine));
        painter->drawLine(QPointF(at, plot.top()), QPointF(at, plot.bottom()));
    }
    if (m_hover)
        drawHover(*painter);
}

bool MemoryChart::viewportEvent(QEvent *event)
{
    if (event->type() == QEvent::Leave)
        leave();
    if (event->type() != QEvent::ToolTip || m_stalls.empty())
        return PlainChart::viewportEvent(event);
    const auto *help = static_cast<QHelpEvent *>(event);
    QToolTip::showText(help->globalPos(), textAt(help->pos()), viewport());
    return true;
}

} // namespace planloom::ui

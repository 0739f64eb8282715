// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/memory_chart.h"

#include "ui/theme/theme.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {
constexpr double kMarkHeight = 7; // pixels
constexpr double kLeastMark = 2;
} // namespace

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
}

bool MemoryChart::viewportEvent(QEvent *event)
{
    if (event->type() != QEvent::ToolTip || m_stalls.empty())
        return PlainChart::viewportEvent(event);
    const auto *help = static_cast<QHelpEvent *>(event);
    QToolTip::showText(help->globalPos(), textAt(help->pos()), viewport());
    return true;
}

} // namespace planloom::ui

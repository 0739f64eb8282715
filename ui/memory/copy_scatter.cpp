// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/copy_scatter.h"

#include "ui/theme/theme.h"
#include "ui/widgets/nearest.h"
#include "ui/widgets/text.h"

#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <cmath>
#include <utility>

namespace planloom::ui {

namespace {

constexpr double kPointRadius = 3.5; // pixels
constexpr double kPickReach = 7;

bool isCopied(const MemoryMoves::Decision &decision) { return decision.what.action == memory::Decision::Action::Swap; }

/// Copied: a disc; made again: a hollow square.
void paintPoint(QPainter &painter, const QPointF &at, bool copied, const QColor &color)
{
    painter.setPen(QPen(color, 1.5));
    painter.setBrush(copied ? QBrush(color) : QBrush(Qt::NoBrush));
    if (copied)
        painter.drawEllipse(at, kPointRadius - 0.5, kPointRadius - 0.5);
    else
        painter.drawRect(QRectF(at.x() - kPointRadius, at.y() - kPointRadius, 2 * kPointRadius, 2 * kPointRadius));
}

QColor colorOfAction(bool copied) { return theme().ofSeries(copied ? 0 : 5); }

} // namespace

CopyScatter::CopyScatter(QWidget *parent) : QWidget(parent)
{
    setAccessibleName(tr("Cost of copying against cost of making again"));
    setMouseTracking(true);
}

void CopyScatter::set(std::shared_ptr<const MemoryMoves> moves, DeviceId device)
{
    if (moves != m_moves)
        m_picked.reset();
    m_moves = std::move(moves);
    m_isOfAll = !device.valid();
    m_points.clear();
    m_without = 0;
    double low = 1;
    double high = 1e-9;
    for (std::size_t d = 0; m_moves && d < m_moves->decisions.size(); ++d) {
        const MemoryMoves::Decision &decision = m_moves->decisions[d];
        if (decision.what.action == memory::Decision::Action::Drop) // there was nothing to choose
            continue;
        if (device.valid() && m_moves->tensors[decision.tensor].device != device)
            continue;
        if (!(decision.againSeconds > 0 && decision.copySeconds > 0)) {
            ++m_without;
            continue;
        }
        m_points.push_back(d);
        low = std::min({low, decision.againSeconds, decision.copySeconds});
        high = std::max({high, decision.againSeconds, decision.copySeconds});
    }
    m_low = static_cast<int>(std::floor(std::log10(low)));
    m_high = std::max(m_low + 1, static_cast<int>(std::ceil(std::log10(high))));
    setAccessibleDescription(tr("%1 decisions").arg(m_points.size()));
    update();
}

void CopyScatter::mark(std::optional<std::size_t> tensor)
{
    m_picked = tensor;
    update();
}

QRectF CopyScatter::plot() const
{
    const int line = fontMetrics().height();
    const int left = fontMetrics().horizontalAdvance(QStringLiteral("100 µs")) + 8;
    return QRectF(left, line + 6, width() - left - 8, height() - 3 * line - 14);
}

QPointF CopyScatter::at(double againSeconds, double copySeconds) const
{
    const QRectF area = plot();
    const double decades = m_high - m_low;
    return {area.left() + area.width() * (std::log10(againSeconds) - m_low) / decades,
            area.bottom() - area.height() * (std::log10(copySeconds) - m_low) / decades};
}

QPointF CopyScatter::placeOf(std::size_t point) const
{
    return at(decision(point).againSeconds, decision(point).copySeconds);
}

std::optional<std::size_t> CopyScatter::nearest(const QPointF &place) const
{
    return nearestPoint(
        m_points.size(), [this](std::size_t p) { return placeOf(p); }, place, kPickReach);
}

QString CopyScatter::textAt(const QPointF &place) const
{
    const auto point = nearest(place);
    if (!point)
        return {};
    const MemoryMoves::Decision &found = decision(*point);
    const MemoryMoves::Tensor &tensor = m_moves->tensors[found.tensor];
    return tr("%1 of micro-batch %2, %3: %4\nthere and back %5, made again in %6")
        .arg(beginningOf(tensor.name))
        .arg(tensor.microBatch)
        .arg(bytesText(tensor.bytes), isCopied(found) ? tr("to the host") : tr("recompute"),
             secondsText(found.copySeconds), secondsText(found.againSeconds));
}

QString CopyScatter::emptyText() const
{
    if (m_without > 0)
        return tr("Nothing to compare: what the decisions drop takes no time to make again (%1 of them).")
            .arg(m_without);
    return m_isOfAll ? tr("No tensor leaves its device: choose a memory policy and a smaller budget above.")
                     : tr("No tensor leaves this device: choose a memory policy and a smaller budget above.");
}

void CopyScatter::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), theme().base);
    if (m_points.empty()) {
        painter.setPen(theme().dimText);
        painter.drawText(rect().adjusted(8, 0, -8, 0), Qt::AlignCenter | Qt::TextWordWrap, emptyText());
        return;
    }
    paintAxes(painter);
    paintPoints(painter);
    paintLegend(painter);
}

void CopyScatter::paintAxes(QPainter &painter) const
{
    const QRectF area = plot();
    const int line = fontMetrics().height();
    const auto every = [&](double room, double length) { // decades between two figures that have room
        return std::max(1, static_cast<int>(std::ceil((m_high - m_low) * room / std::max(length, 1.0))));
    };
    for (int decade = m_low; decade <= m_high; ++decade) {
        const double seconds = std::pow(10.0, decade);
        const QPointF crossing = at(seconds, seconds);
        painter.setPen(theme().grid);
        painter.drawLine(QPointF(crossing.x(), area.top()), QPointF(crossing.x(), area.bottom()));
        painter.drawLine(QPointF(area.left(), crossing.y()), QPointF(area.right(), crossing.y()));
        painter.setPen(theme().dimText);
        const QString text = secondsText(seconds);
        const double wide = fontMetrics().horizontalAdvance(text) + 4;
        const double left = std::min(crossing.x() - wide / 2, width() - wide); // the last one has no room behind it
        if ((decade - m_low) % every(60, area.width()) == 0)
            painter.drawText(QRectF(left, area.bottom() + 1, wide, line), Qt::AlignCenter, text);
        if (decade > m_low && (decade - m_low) % every(line, area.height()) == 0)
            painter.drawText(QRectF(0, crossing.y() - line / 2.0, area.left() - 4, line),
                             Qt::AlignRight | Qt::AlignVCenter, text);
    }
    painter.drawText(QRectF(0, 0, width(), line), Qt::AlignLeft, tr(" to the host and back"));
    painter.drawText(QRectF(area.left(), area.bottom() + line + 1, area.width(), line), Qt::AlignRight,
                     tr("to make it again"));
    painter.setPen(QPen(theme().text, 1, Qt::DashLine));
    painter.drawLine(area.bottomLeft(), area.topRight());
}

void CopyScatter::paintPoints(QPainter &painter) const
{
    painter.setRenderHint(QPainter::Antialiasing);
    for (std::size_t p = 0; p < m_points.size(); ++p)
        paintPoint(painter, placeOf(p), isCopied(decision(p)), colorOfAction(isCopied(decision(p))));
    painter.setPen(QPen(theme().text, 2));
    painter.setBrush(Qt::NoBrush);
    for (std::size_t p = 0; p < m_points.size(); ++p)
        if (m_picked == decision(p).tensor)
            painter.drawEllipse(placeOf(p), 2 * kPointRadius, 2 * kPointRadius);
    painter.setRenderHint(QPainter::Antialiasing, false);
}

void CopyScatter::paintLegend(QPainter &painter) const
{
    const int line = fontMetrics().height();
    double left = 8;
    const double y = height() - line / 2.0 - 2;
    for (const bool copied : {true, false}) {
        const QString text = copied ? tr("copied") : tr("made again");
        paintPoint(painter, {left, y}, copied, colorOfAction(copied));
        painter.setPen(theme().text);
        painter.drawText(QPointF(left + 8, y + fontMetrics().ascent() / 2.0 - 1), text);
        left += 24 + fontMetrics().horizontalAdvance(text);
    }
    if (m_without > 0)
        painter.drawText(QPointF(left, y + fontMetrics().ascent() / 2.0 - 1),
                         tr("%1 more take no time to make again").arg(m_without));
}

void CopyScatter::mousePressEvent(QMouseEvent *event)
{
    const auto point = nearest(event->position());
    if (!point)
        return;
    mark(decision(*point).tensor);
    Q_EMIT tensorPicked(decision(*point).tensor);
}

bool CopyScatter::event(QEvent *event)
{
    if (event->type() != QEvent::ToolTip)
        return QWidget::event(event);
    const auto *help = static_cast<QHelpEvent *>(event);
    QToolTip::showText(help->globalPos(), textAt(help->pos()), this);
    return true;
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/bar_list.h"

#include "ui/theme/theme.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kBarMargin = 4;     // pixels
constexpr int kTickWidth = 14;    // before the names
constexpr int kLeastBarRoom = 60; // for the longest bar

} // namespace

BarList::BarList(const QString &title, QWidget *parent) : QWidget(parent), m_title(title)
{
    setAccessibleName(title);
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
}

void BarList::set(std::vector<Bar> bars, double scale)
{
    m_bars = std::move(bars);
    m_scale = scale;
    QStringList texts;
    for (const Bar &bar : m_bars) {
        if (scale <= 0)
            m_scale = std::max(m_scale, bar.value);
        texts << QStringLiteral("%1%2: %3").arg(bar.marked ? QStringLiteral("✓ ") : QString(), bar.name, bar.text);
    }
    setAccessibleDescription(texts.join(QStringLiteral("; ")));
    updateGeometry();
    update();
}

QSize BarList::sizeHint() const { return {std::max(220, minimumSizeHint().width()), minimumSizeHint().height()}; }

QSize BarList::minimumSizeHint() const
{
    return {150, headHeight() + static_cast<int>(std::max<std::size_t>(m_bars.size(), 1)) * rowHeight()};
}

QRect BarList::rowRect(std::size_t row) const
{
    return {0, headHeight() + static_cast<int>(row) * rowHeight(), width(), rowHeight()};
}

int BarList::widestOf(QString Bar::*text) const
{
    int widest = 0;
    for (const Bar &bar : m_bars)
        if (text == &Bar::name || bar.value > 0)
            widest = std::max(widest, fontMetrics().horizontalAdvance(bar.*text));
    constexpr int kRounding = 2;
    return widest + kRounding;
}

/// Names and figures give way to the bars where all three have no room.
QRectF BarList::barRect(std::size_t row) const
{
    const int left = kTickWidth + std::min(widestOf(&Bar::name), width() / 3) + kBarMargin;
    const int figures = std::min(widestOf(&Bar::text) + 2 * kBarMargin, std::max(0, width() - left - kLeastBarRoom));
    const double room = std::max(1, width() - left - figures);
    const double length = m_scale > 0 ? room * std::min(1.0, m_bars[row].value / m_scale) : 0;
    const QRect whole = rowRect(row);
    return {double(left), whole.top() + 3.0, length, whole.height() - 6.0};
}

void BarList::paintRow(QPainter &painter, std::size_t row) const
{
    const Bar &bar = m_bars[row];
    const Theme &t = theme();
    const QRect whole = rowRect(row);
    const QRectF area = barRect(row);
    painter.setPen(t.text);
    if (bar.marked)
        painter.drawText(QRect(0, whole.top(), kTickWidth, whole.height()), Qt::AlignCenter, QStringLiteral("✓"));
    const int names = static_cast<int>(area.left()) - kTickWidth - kBarMargin;
    painter.drawText(QRect(kTickWidth, whole.top(), names, whole.height()), Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(bar.name, Qt::ElideRight, names));
    if (bar.value > 0) {
        painter.fillRect(area, t.ofSeries(0));
        const double share = std::clamp(bar.part / bar.value, 0.0, 1.0);
        const QRectF part = area.adjusted(area.width() * (1 - share), 0, 0, 0);
        painter.fillRect(part, t.base);
        painter.fillRect(part, QBrush(t.ofSeries(1), Qt::BDiagPattern));
        painter.setPen(t.ofSeries(1));
        painter.setBrush(Qt::NoBrush);
        if (part.width() >= 2)
            painter.drawRect(part.adjusted(0, 0, -1, -1));
    }
    painter.setPen(bar.value > 0 ? t.text : t.dimText);
    const int begin = static_cast<int>(area.right()) + kBarMargin;
    painter.drawText(QRect(begin, whole.top(), width() - begin, whole.height()), Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(bar.text, Qt::ElideRight, width() - begin));
}

void BarList::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.setPen(theme().dimText);
    painter.drawText(QRect(kTickWidth, 0, width() - kTickWidth, headHeight()), Qt::AlignLeft | Qt::AlignVCenter,
                     m_title);
    for (std::size_t row = 0; row < m_bars.size(); ++row)
        paintRow(painter, row);
}

bool BarList::event(QEvent *event)
{
    if (event->type() != QEvent::ToolTip)
        return QWidget::event(event);
    const auto *help = static_cast<QHelpEvent *>(event);
    for (std::size_t row = 0; row < m_bars.size(); ++row)
        if (rowRect(row).contains(help->pos())) {
            const Bar &bar = m_bars[row];
            QToolTip::showText(help->globalPos(), bar.toolTip.isEmpty() ? bar.text : bar.toolTip, this);
        }
    return true;
}

} // namespace planloom::ui

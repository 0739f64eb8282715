// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/color_legend_bar.h"

#include "ui/theme/theme.h"
#include "ui/widgets/tool_tip.h"

#include <QPainter>
#include <QStringList>

#include <algorithm>

namespace planloom::ui {
namespace {

constexpr int kLegendGap = 6;
constexpr int kLegendSwatch = 12;
constexpr int kLegendScale = 90; // pixels of the scale
constexpr int kLegendSteps = 15;

} // namespace

ColorLegendBar::ColorLegendBar(QWidget *parent) : QWidget(parent)
{
    setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
}

void ColorLegendBar::set(ColorLegend legend)
{
    m_legend = std::move(legend);
    setAccessibleName(tr("Legend of the colours"));
    setAccessibleDescription(text());
    update();
}

QString ColorLegendBar::text() const
{
    if (!m_legend.note.isEmpty())
        return m_legend.note;
    if (!m_legend.high.isEmpty())
        return tr("%1, from %2 to %3").arg(m_legend.title, m_legend.low, m_legend.high);
    QStringList names;
    for (const ColorLegend::Entry &entry : m_legend.entries)
        names << entry.text;
    return tr("%1 %2").arg(m_legend.title, names.join(QStringLiteral(", ")));
}

QSize ColorLegendBar::sizeHint() const { return {200, fontMetrics().height() + kLegendGap}; }

QSize ColorLegendBar::minimumSizeHint() const { return {0, sizeHint().height()}; }

int ColorLegendBar::paintScale(QPainter &painter, const QRect &line, int x) const
{
    const QFontMetrics metrics = painter.fontMetrics();
    const auto write = [&](const QString &text) {
        painter.setPen(theme().text);
        painter.drawText(QRect(x, line.top(), line.right() - x, line.height()), Qt::AlignVCenter | Qt::AlignLeft, text);
        x += metrics.horizontalAdvance(text) + kLegendGap;
    };
    write(m_legend.low);
    const QRect scale(x, line.center().y() - kLegendSwatch / 2, kLegendScale, kLegendSwatch);
    for (int step = 0; step < kLegendSteps; ++step) {
        const int each = kLegendScale / kLegendSteps;
        painter.fillRect(scale.left() + step * each, scale.top(), each, scale.height(),
                         ramp(static_cast<double>(step) / (kLegendSteps - 1)));
    }
    painter.setPen(theme().border);
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(scale.adjusted(0, 0, -1, -1));
    x += kLegendScale + kLegendGap;
    write(m_legend.high);
    return x;
}

int ColorLegendBar::paintEntries(QPainter &painter, const QRect &line, int x) const
{
    const QFontMetrics metrics = painter.fontMetrics();
    for (std::size_t i = 0; i < m_legend.entries.size(); ++i) {
        const ColorLegend::Entry &entry = m_legend.entries[i];
        const QString more = QStringLiteral("+%1").arg(m_legend.entries.size() - i);
        const bool last = i + 1 == m_legend.entries.size();
        const int needs = kLegendSwatch + 4 + metrics.horizontalAdvance(entry.text);
        painter.setPen(theme().text);
        if (x + needs + (last ? 0 : kLegendGap + metrics.horizontalAdvance(more)) > line.right()) {
            painter.drawText(QRect(x, line.top(), line.right() - x, line.height()), Qt::AlignVCenter | Qt::AlignLeft,
                             more);
            break;
        }
        const QRect swatch(x, line.center().y() - kLegendSwatch / 2, kLegendSwatch, kLegendSwatch);
        painter.setBrushOrigin(swatch.topLeft());
        painter.fillRect(swatch, entry.brush);
        painter.drawText(QRect(swatch.right() + 5, line.top(), needs, line.height()), Qt::AlignVCenter | Qt::AlignLeft,
                         entry.text);
        x += needs + kLegendGap;
    }
    return x;
}

void ColorLegendBar::paintOn(QPainter &painter, const QRect &area) const
{
    const QFontMetrics metrics = painter.fontMetrics();
    painter.setPen(theme().dimText);
    const QString title = m_legend.note.isEmpty() ? m_legend.title : m_legend.note;
    const int scale = m_legend.high.isEmpty()
        ? 0
        : kLegendScale + 4 * kLegendGap + metrics.horizontalAdvance(m_legend.low + m_legend.high);
    const int room = std::max(0, area.width() - scale);
    painter.drawText(QRect(area.left(), area.top(), room, area.height()), Qt::AlignVCenter | Qt::AlignLeft,
                     metrics.elidedText(title, Qt::ElideRight, room));
    const int x = area.left() + std::min(metrics.horizontalAdvance(title), room) + 2 * kLegendGap;
    if (!m_legend.high.isEmpty())
        paintScale(painter, area, x);
    else
        paintEntries(painter, area, x);
}

void ColorLegendBar::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    paintOn(painter, rect());
}

bool ColorLegendBar::event(QEvent *event)
{
    return answerToolTip(event, this, [this](const QPoint &) { return text(); }) || QWidget::event(event);
}

} // namespace planloom::ui

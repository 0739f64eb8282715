// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/compare/waterfall_chart.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QPainter>

#include <algorithm>
#include <cstdlib>

namespace planloom::ui {

namespace {

constexpr int kNameWidth = 150;  // pixels
constexpr int kValueWidth = 170; // pixels
constexpr int kWaterfallMargin = 8;
constexpr int kLeastBar = 2; // pixels

} // namespace

WaterfallChart::WaterfallChart(QWidget *parent) : QWidget(parent)
{
    setAccessibleName(tr("From the step of A to the step of B"));
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Minimum);
}

void WaterfallChart::set(compare::Waterfall waterfall)
{
    m_waterfall = std::move(waterfall);
    setAccessibleDescription(rowTexts().join(QStringLiteral("; ")));
    updateGeometry();
    update();
}

std::vector<WaterfallChart::Bar> WaterfallChart::bars() const
{
    std::vector<Bar> all;
    if (!m_waterfall.missing.empty() || (m_waterfall.from == 0 && m_waterfall.to == 0))
        return all;
    all.push_back({tr("step of A"), {}, 0, m_waterfall.from});
    std::int64_t at = m_waterfall.from;
    for (const auto &delta : m_waterfall.deltas) {
        const QString sign = delta.change < 0 ? QStringLiteral("−") : QStringLiteral("+");
        all.push_back({qt(delta.kind.name), sign + nanosecondsText(std::abs(delta.change)), at, at + delta.change});
        at += delta.change;
    }
    all.push_back({tr("step of B"), {}, 0, m_waterfall.to});
    return all;
}

QStringList WaterfallChart::rowTexts() const
{
    QStringList texts;
    for (const Bar &bar : bars())
        texts << QStringLiteral("%1  %2  %3").arg(bar.name, bar.change, nanosecondsText(bar.end));
    return texts;
}

std::int64_t WaterfallChart::axisEnd() const
{
    std::int64_t most = 1;
    for (const Bar &bar : bars())
        most = std::max({most, bar.begin, bar.end});
    return most;
}

std::int64_t WaterfallChart::axisBegin() const
{
    constexpr double kSmall = 0.2; // of the whole: changes within are not told apart on an axis from 0 on
    const std::int64_t most = axisEnd();
    std::int64_t least = most;
    for (const Bar &bar : bars())
        least = std::min(least, bar.change.isEmpty() ? bar.end : std::min(bar.begin, bar.end));
    const auto span = static_cast<double>(most - least);
    if (least <= 0 || span > kSmall * static_cast<double>(most))
        return std::min<std::int64_t>(0, least);
    return std::max<std::int64_t>(0, least - (most - least) / 2);
}

QRect WaterfallChart::plot() const
{
    return {kNameWidth, kWaterfallMargin, std::max(40, width() - kNameWidth - kValueWidth),
            height() - 2 * kWaterfallMargin};
}

int WaterfallChart::pixelOf(std::int64_t time) const
{
    const QRect area = plot();
    const std::int64_t begin = axisBegin();
    const double share =
        static_cast<double>(time - begin) / static_cast<double>(std::max<std::int64_t>(axisEnd() - begin, 1));
    return area.x() + static_cast<int>(std::clamp(share, 0.0, 1.0) * area.width());
}

QRect WaterfallChart::barOf(int row) const
{
    const auto all = bars();
    if (row < 0 || row >= static_cast<int>(all.size()))
        return {};
    const Bar &bar = all[static_cast<std::size_t>(row)];
    const int from = pixelOf(std::min(bar.begin, bar.end));
    const int to = pixelOf(std::max(bar.begin, bar.end));
    return {from, kWaterfallMargin + row * rowHeight() + 3, std::max(to - from, kLeastBar), rowHeight() - 6};
}

QSize WaterfallChart::sizeHint() const { return {kNameWidth + kValueWidth + 300, minimumSizeHint().height()}; }

QSize WaterfallChart::minimumSizeHint() const
{
    const int rows = std::max(1, static_cast<int>(m_waterfall.deltas.size()) + 3);
    return {kNameWidth + kValueWidth + 60, rows * rowHeight() + 2 * kWaterfallMargin};
}

void WaterfallChart::paintBar(QPainter &painter, int row, const Bar &bar) const
{
    const QRect box = barOf(row);
    const int y = kWaterfallMargin + row * rowHeight();
    painter.setPen(theme().text);
    painter.drawText(QRect(kWaterfallMargin, y, kNameWidth - 2 * kWaterfallMargin, rowHeight()),
                     Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(bar.name, Qt::ElideRight, kNameWidth - 2 * kWaterfallMargin));
    if (bar.change.isEmpty()) {
        painter.fillRect(box, theme().accent);
    } else {
        const KindStyle &style = m_styles.of(m_waterfall.deltas[static_cast<std::size_t>(row - 1)].kind);
        painter.fillRect(box, style.texture);
        painter.setPen(style.outline.isValid() ? style.outline : theme().border);
        painter.drawRect(box.adjusted(0, 0, -1, -1));
    }
    // A line to where the next bar begins.
    painter.setPen(theme().grid);
    const int end = pixelOf(bar.end);
    painter.drawLine(end, box.bottom(), end, box.bottom() + 6);
    painter.setPen(theme().text);
    const QString value = bar.change.isEmpty() ? nanosecondsText(bar.end)
                                               : QStringLiteral("%1  →  %2").arg(bar.change, nanosecondsText(bar.end));
    painter.drawText(QRect(plot().right() + 8, y, kValueWidth - 12, rowHeight()), Qt::AlignLeft | Qt::AlignVCenter,
                     value);
}

void WaterfallChart::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), theme().base);
    const auto all = bars();
    if (all.empty()) {
        painter.setPen(theme().dimText);
        const QString why = m_waterfall.missing.empty() ? tr("Nothing is compared yet") : qt(m_waterfall.missing);
        painter.drawText(rect().adjusted(12, 12, -12, -12), Qt::AlignCenter | Qt::TextWordWrap, why);
        return;
    }
    for (std::size_t row = 0; row < all.size(); ++row)
        paintBar(painter, static_cast<int>(row), all[row]);
    const QRect foot(plot().x(), kWaterfallMargin + static_cast<int>(all.size()) * rowHeight(), plot().width(),
                     rowHeight());
    painter.setPen(theme().dimText);
    if (const std::int64_t begin = axisBegin(); begin != 0)
        painter.drawText(foot, Qt::AlignLeft | Qt::AlignVCenter,
                         tr("the axis begins at %1, not at 0").arg(nanosecondsText(begin)));
}

void WaterfallChart::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange)
        m_styles = KindStyles();
    QWidget::changeEvent(event);
}

} // namespace planloom::ui

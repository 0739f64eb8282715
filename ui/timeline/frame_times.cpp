// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/frame_times.h"

#include "ui/theme/theme.h"

#include <QCoreApplication>
#include <QPainter>

#include <algorithm>
#include <vector>

namespace planloom::ui {

void FrameTimes::add(double seconds) { m_seconds[m_count++ % kKept] = seconds; }

QString FrameTimes::text() const
{
    if (m_count == 0)
        return {};
    const std::size_t kept = std::min(m_count, kKept);
    std::vector<double> sorted(m_seconds.begin(), m_seconds.begin() + static_cast<std::ptrdiff_t>(kept));
    std::ranges::sort(sorted);
    const auto at = [&](double share) {
        return QString::number(1e3 * sorted[static_cast<std::size_t>(share * static_cast<double>(kept - 1))], 'f', 1);
    };
    return QCoreApplication::translate("FrameTimes", "frame %1 ms · median %2 · 95 % within %3 · longest %4 ms of %5")
        .arg(1e3 * m_seconds[(m_count - 1) % kKept], 0, 'f', 1)
        .arg(at(0.5), at(0.95), at(1))
        .arg(kept);
}

void FrameTimes::paint(QPainter &painter, const QRect &area) const
{
    constexpr int kInset = 6;
    const QString shown = text();
    const QSize size = painter.fontMetrics().size(Qt::TextSingleLine, shown) + QSize(2 * kInset, kInset);
    const QRect box(area.right() - size.width() - kInset, area.top() + kInset, size.width(), size.height());
    painter.fillRect(box, theme().base);
    painter.setPen(theme().border);
    painter.drawRect(box);
    painter.setPen(theme().text);
    painter.drawText(box, Qt::AlignCenter, shown);
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_overlay.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QObject>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

bool TimelineOverlay::setHover(const std::optional<TimelineModel::Slice> &slice)
{
    if (slice == m_hover)
        return false;
    m_hover = slice;
    return true;
}

void TimelineOverlay::addMark(std::int64_t time, const QString &name)
{
    m_marks.push_back({time, name.isEmpty() ? QString::number(m_marks.size() + 1) : name});
}

bool TimelineOverlay::removeMark(double time)
{
    if (m_marks.empty())
        return false;
    const auto nearest = std::min_element(m_marks.begin(), m_marks.end(), [time](const Mark &a, const Mark &b) {
        return std::abs(static_cast<double>(a.time) - time) < std::abs(static_cast<double>(b.time) - time);
    });
    m_marks.erase(nearest);
    return true;
}

void TimelineOverlay::forget()
{
    m_hover.reset();
    m_totals.reset();
}

bool TimelineOverlay::paint(QPainter &painter, const TimelineViewport &view, int height)
{
    painter.setClipRect(QRect(view.rows().x(), 0, view.rows().width(), height));
    const bool complete = paintRange(painter, view, height);
    paintLateMarks(painter, view);
    paintMarks(painter, view, height);
    paintHover(painter, view);
    painter.setClipping(false);
    return complete;
}

void TimelineOverlay::paintHover(QPainter &painter, const TimelineViewport &view) const
{
    if (!m_hover)
        return;
    painter.setPen(QPen(theme().cursor, 1));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(view.boxOf(*m_hover).adjusted(0, 0, -1, -1));
    if (const auto other = m_model.counterpart(*m_hover)) {
        painter.setPen(QPen(theme().cursor, 1, Qt::DashLine));
        painter.drawRect(view.boxOf(*other).adjusted(0, 0, -1, -1));
    }
}

bool TimelineOverlay::addTotals()
{
    constexpr std::size_t kRowsAtOnce = 20'000; // about 5 ms
    const std::size_t rows = m_model.rows().size();
    if (!m_totals || !(m_totals->range == *m_range) || m_totals->offset != m_model.offset() || m_totals->rows != rows)
        m_totals = RangeTotals{*m_range, m_model.offset(), rows, 0, {}};
    const TimelineModel::Range piece{m_totals->next, std::min(m_totals->next + kRowsAtOnce, rows)};
    for (const bool measured : {false, true}) {
        const auto more = m_model.totals({m_range->begin, m_range->end}, measured, piece);
        m_totals->totals[measured ? 1 : 0].count += more.count;
        m_totals->totals[measured ? 1 : 0].busy += more.busy;
    }
    m_totals->next = piece.second;
    return m_totals->next == rows;
}

QString TimelineOverlay::rangeText() const
{
    QString text = QStringLiteral("Δt %1").arg(nanosecondsText(m_range->length()));
    for (const bool measured : {false, true}) {
        const auto &totals = m_totals->totals[measured ? 1 : 0];
        if (totals.count > 0)
            text += QObject::tr("\n%1: %2 slices, sum %3")
                        .arg(QObject::tr(m_model.clockName(measured)))
                        .arg(totals.count)
                        .arg(nanosecondsText(totals.busy));
    }
    return text;
}

bool TimelineOverlay::paintRange(QPainter &painter, const TimelineViewport &view, int height)
{
    if (!m_range)
        return true;
    const QRect rows = view.rows();
    const int from = rows.x() + static_cast<int>(view.axis().toPixel(static_cast<double>(m_range->begin)));
    const int to = rows.x() + static_cast<int>(view.axis().toPixel(static_cast<double>(m_range->end)));
    QColor veil = theme().accent;
    veil.setAlpha(48);
    painter.fillRect(QRect(from, 0, std::max(to - from, 1), height), veil);
    painter.fillRect(QRect(from, 0, 1, height), theme().accent);
    painter.fillRect(QRect(to, 0, 1, height), theme().accent);

    const bool complete = addTotals();
    const QString text = rangeText();
    const QRect bounds = painter.fontMetrics().boundingRect(QRect(0, 0, 400, 200), Qt::AlignLeft, text);
    QRect box(0, 0, bounds.width() + 16, bounds.height() + 10);
    box.moveTopLeft(
        {std::clamp((from + to - box.width()) / 2, rows.x() + 4, std::max(rows.x() + 4, rows.right() - box.width())),
         rows.y() + 6});
    painter.fillRect(box, theme().base);
    painter.setPen(theme().border);
    painter.drawRect(box);
    painter.setPen(theme().text);
    painter.drawText(box, Qt::AlignCenter, text);
    return complete;
}

void TimelineOverlay::paintLateMarks(QPainter &painter, const TimelineViewport &view) const
{
    constexpr int kHeight = 6; // pixels, and half of the width
    for (const Mark &mark : m_late) {
        const double x = view.axis().toPixel(static_cast<double>(mark.time));
        if (x < -kHeight || x > view.rows().width() + kHeight)
            continue;
        const int left = view.rows().x() + static_cast<int>(x);
        for (int line = 0; line < kHeight; ++line) // it stands on its tip
            painter.fillRect(QRect(left - (kHeight - 1 - line), view.rows().y() - kHeight + line,
                                   2 * (kHeight - 1 - line) + 1, 1),
                             theme().warning);
    }
}

void TimelineOverlay::paintMarks(QPainter &painter, const TimelineViewport &view, int height) const
{
    painter.setPen(theme().text);
    for (const Mark &mark : m_marks) {
        const int x = view.rows().x() + static_cast<int>(view.axis().toPixel(static_cast<double>(mark.time)));
        painter.fillRect(QRect(x, 0, 1, height), theme().error);
        painter.fillRect(QRect(x, 0, painter.fontMetrics().horizontalAdvance(mark.name) + 8, 14), theme().errorBase);
        painter.setPen(theme().error);
        painter.drawText(QPoint(x + 4, 11), mark.name);
    }
}

} // namespace planloom::ui

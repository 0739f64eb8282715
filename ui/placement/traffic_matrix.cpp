// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/placement/traffic_matrix.h"

#include "ui/theme/theme.h"
#include "ui/widgets/stage_style.h"
#include "ui/widgets/text.h"
#include "ui/widgets/tool_tip.h"

#include <QPainter>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr double kRowName = 40;
constexpr double kColumnName = 20;
constexpr double kMostCell = 56; // height

} // namespace

TrafficMatrix::TrafficMatrix(QWidget *parent) : QWidget(parent)
{
    setMouseTracking(true);
    setAccessibleName(tr("Bytes from stores to samplers"));
}

void TrafficMatrix::set(std::shared_ptr<const PlacementFigures> figures, SentFeatures sent)
{
    m_figures = std::move(figures);
    m_sent = std::move(sent);
    if (!m_figures || m_sent.iterations == 0 || m_sent.bytes.size() != m_figures->features.size())
        m_sent = {};
    setAccessibleDescription(tr("%1 connections").arg(m_figures ? m_figures->features.size() : 0));
    placeNote();
    update();
}

QString TrafficMatrix::note() const
{
    if (m_sent.bytes.empty())
        return {};
    return tr("Predicted: mean of the plan's %1 iterations. Sent: mean of the run's %2, of other mini-batches, so the "
              "two differ by chance. At its end train compares each message with its own prediction.")
        .arg(m_figures->job.volumes.iterations)
        .arg(m_sent.iterations);
}

/// At the bottom; empty where nothing was sent, or without room for it.
QRectF TrafficMatrix::noteArea() const
{
    if (m_sent.bytes.empty() || !m_figures)
        return {};
    const QRect room(2, 0, std::max(1, width() - 4), height());
    const QRect text = fontMetrics().boundingRect(room, Qt::TextWordWrap, note());
    constexpr double kLeastCell = 6; // the cells come first; the tool tip has the text as well
    if (height() - text.height() - kColumnName < kLeastCell * m_figures->stores())
        return {};
    return {2.0, static_cast<double>(height() - text.height() - 2), static_cast<double>(room.width()),
            static_cast<double>(text.height())};
}

void TrafficMatrix::placeNote() { m_note = noteArea(); }

void TrafficMatrix::resizeEvent(QResizeEvent *) { placeNote(); }

std::size_t TrafficMatrix::placeOf(std::int32_t store, std::int32_t sampler) const
{
    return static_cast<std::size_t>(store) * static_cast<std::size_t>(m_figures->samplers())
        + static_cast<std::size_t>(sampler);
}

bool TrafficMatrix::isLocal(std::int32_t store, std::int32_t sampler) const
{
    const auto role = static_cast<std::size_t>(m_figures->job.first(gnn::RoleKind::Sampler) + sampler);
    return m_figures->machineOf[static_cast<std::size_t>(store)] == m_figures->machineOf[role];
}

QRectF TrafficMatrix::cellOf(std::int32_t store, std::int32_t sampler) const
{
    const double across = (width() - kRowName - 1) / std::max(1, m_figures->samplers());
    const double down =
        std::min(kMostCell, (height() - m_note.height() - kColumnName - 1) / std::max(1, m_figures->stores()));
    return {kRowName + sampler * across, kColumnName + store * down, across, down};
}

QString TrafficMatrix::describe(const QPointF &pixel) const
{
    for (std::int32_t g = 0; m_figures && g < m_figures->stores(); ++g) {
        for (std::int32_t s = 0; s < m_figures->samplers(); ++s) {
            if (!cellOf(g, s).contains(pixel))
                continue;
            const auto role = static_cast<std::size_t>(m_figures->job.first(gnn::RoleKind::Sampler) + s);
            QString text = tr("%1 to %2: %3 predicted an iteration")
                               .arg(qt(m_figures->job.roles[static_cast<std::size_t>(g)].name),
                                    qt(m_figures->job.roles[role].name),
                                    bytesText(std::llround(m_figures->features[placeOf(g, s)])));
            if (isLocal(g, s))
                text += tr(" on one machine");
            if (!m_sent.bytes.empty())
                text += tr(", %1 sent\n%2").arg(bytesText(std::llround(m_sent.bytes[placeOf(g, s)])), note());
            return text;
        }
    }
    return {};
}

void TrafficMatrix::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    const Theme &t = theme();
    painter.fillRect(rect(), t.base);
    if (!m_figures)
        return;
    const QFontMetrics metrics = painter.fontMetrics();
    painter.setPen(t.dimText);
    if (!m_note.isEmpty())
        painter.drawText(m_note, Qt::TextWordWrap, note());
    const double most = std::max(1.0, *std::max_element(m_figures->features.begin(), m_figures->features.end()));
    const std::int32_t first = m_figures->job.first(gnn::RoleKind::Sampler);
    for (std::int32_t s = 0; s < m_figures->samplers(); ++s) {
        const QRectF cell = cellOf(0, s);
        painter.setPen(t.text);
        const QString name = qt(m_figures->job.roles[static_cast<std::size_t>(first + s)].name);
        if (metrics.horizontalAdvance(name) <= cell.width())
            painter.drawText(QRectF(cell.left(), 0, cell.width(), kColumnName), Qt::AlignCenter, name);
    }
    for (std::int32_t g = 0; g < m_figures->stores(); ++g) {
        const QRectF row = cellOf(g, 0);
        painter.setPen(t.text);
        if (row.height() >= metrics.height())
            painter.drawText(QRectF(2, row.top(), kRowName - 4, row.height()), Qt::AlignVCenter | Qt::AlignLeft,
                             qt(m_figures->job.roles[static_cast<std::size_t>(g)].name));
        for (std::int32_t s = 0; s < m_figures->samplers(); ++s) {
            const QRectF cell = cellOf(g, s).adjusted(1, 1, -1, -1);
            const double bytes = m_figures->features[placeOf(g, s)];
            const QColor color = paled(t.ofSeries(0), 1 - 0.9 * bytes / most);
            painter.fillRect(cell, color);
            if (isLocal(g, s)) {
                painter.setPen(QPen(t.text, 1, Qt::DashLine));
                painter.setBrush(Qt::NoBrush);
                painter.drawRect(cell);
            }
            QString text = bytesText(std::llround(bytes));
            const bool two = !m_sent.bytes.empty() && cell.height() >= 2 * metrics.height();
            if (two)
                text += QStringLiteral("\n") + bytesText(std::llround(m_sent.bytes[placeOf(g, s)])) + tr(" sent");
            painter.setPen(textOn(color));
            if (cell.height() >= metrics.height()
                && metrics.horizontalAdvance(text.section(QLatin1Char('\n'), -1)) <= cell.width())
                painter.drawText(cell, Qt::AlignCenter, text);
        }
    }
}

bool TrafficMatrix::event(QEvent *event)
{
    return answerToolTip(event, this, [this](const QPoint &at) { return describe(at); }) || QWidget::event(event);
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
// How MachineBoard looks.
#include "ui/placement/machine_board.h"
#include "ui/theme/theme.h"
#include "ui/widgets/stage_style.h"
#include "ui/widgets/text.h"

#include <QPainter>

#include <algorithm>
#include <array>

namespace planloom::ui {

namespace {

constexpr double kRounded = 4;
constexpr double kTextRoom = 62; // of the seconds beside a bar
/// Purposes differ by texture as well as by colour.
constexpr std::array<Qt::BrushStyle, kCargos> kCargoTextures{Qt::SolidPattern, Qt::BDiagPattern, Qt::Dense4Pattern};

QColor cargoColor(std::size_t cargo)
{
    constexpr std::array kSeries{0, 1, 2};
    return theme().ofSeries(kSeries[cargo]);
}

} // namespace

QColor roleColor(gnn::RoleKind kind)
{
    switch (kind) {
    case gnn::RoleKind::GraphStore: return theme().ofSeries(4);
    case gnn::RoleKind::Sampler: return theme().ofSeries(1);
    case gnn::RoleKind::Trainer: return theme().ofSeries(2);
    case gnn::RoleKind::ParameterServer: return theme().ofSeries(6);
    }
    return theme().border;
}

void MachineBoard::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), theme().base);
    if (!m_figures) {
        painter.setPen(theme().dimText);
        painter.drawText(rect().adjusted(8, 8, -8, -8), Qt::AlignCenter | Qt::TextWordWrap,
                         tr("This plan has no roles. Plan sampled training with\n"
                            "planloom plan --planner gnn --graph FOLDER, and open the plan."));
        return;
    }
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setClipRect(rect().adjusted(0, 0, 0, -static_cast<int>(kLegend)));
    for (std::size_t machine = 0; machine < m_boxes.size(); ++machine)
        paintMachine(painter, static_cast<std::int32_t>(machine));
    paintConnections(painter);
    for (std::size_t role = 0; role < m_chips.size(); ++role)
        paintChip(painter, chipOf(role), role, m_dragging && static_cast<int>(role) == m_pressed);
    painter.setClipping(false);
    if (!m_current)
        painter.fillRect(rect(), veil());
    paintLegend(painter);
    if (m_dragging) {
        const QRectF chip = chipOf(static_cast<std::size_t>(m_pressed));
        paintChip(painter, chip.translated(m_pointer - m_press), static_cast<std::size_t>(m_pressed), false);
    }
    painter.setRenderHint(QPainter::Antialiasing, false);
    if (hasFocus()) {
        painter.setPen(QPen(theme().accent, 2));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(rect().adjusted(1, 1, -1, -1));
    }
}

void MachineBoard::paintMachine(QPainter &painter, std::int32_t machine) const
{
    const Theme &t = theme();
    const QRectF box = boxOf(machine);
    const bool target = m_dragging && machine == m_over;
    const bool legal = m_fits || m_hint.isEmpty();
    painter.setBrush(t.alternateBase);
    painter.setPen(QPen(target ? (legal ? t.accent : t.error) : t.border, target ? 2 : 1,
                        target && !legal ? Qt::DashLine : Qt::SolidLine));
    painter.drawRoundedRect(box, kRounded, kRounded);
    const gnn::Machine &what = m_figures->job.machines[static_cast<std::size_t>(machine)];
    const QRectF header(box.left() + kRounded, box.top(), box.width() - 2 * kRounded, kHeader);
    const bool hinted = target && !m_hint.isEmpty();
    QString text = qt(what.name);
    if (hinted)
        text = legal ? m_hint : QStringLiteral("✕ ") + m_hint;
    painter.setPen(hinted && !legal ? t.error : hinted && computes() ? t.dimText : t.text);
    painter.drawText(header, Qt::AlignVCenter | Qt::AlignLeft,
                     painter.fontMetrics().elidedText(text, Qt::ElideRight, static_cast<int>(header.width())));
    paintCard(painter, cardOf(machine, true), machine, true);
    paintCard(painter, cardOf(machine, false), machine, false);
}

/// As long as the share of the iteration in which the card is busy.
void MachineBoard::paintCard(QPainter &painter, const QRectF &bar, std::int32_t machine, bool out) const
{
    const Theme &t = theme();
    const CardLoad &load = (out ? m_figures->out : m_figures->in)[static_cast<std::size_t>(machine)];
    const QRectF name(bar.left(), bar.top(), 24, bar.height());
    const QRectF room(name.right(), bar.top() + 1, std::max(4.0, bar.width() - name.width() - kTextRoom),
                      bar.height() - 2);
    QFont small = font();
    small.setPointSizeF(small.pointSizeF() * 0.85);
    painter.setFont(small);
    painter.setPen(t.dimText);
    painter.drawText(name, Qt::AlignVCenter | Qt::AlignLeft, out ? tr("out") : tr("in"));
    painter.fillRect(room, t.base);
    const double whole = std::max(m_figures->seconds, m_figures->busiestSeconds());
    double left = room.left();
    for (std::size_t cargo = 0; cargo < kCargos && whole > 0; ++cargo) {
        const double length = room.width() * load.seconds[cargo] / whole;
        const QRectF part(left, room.top(), length, room.height());
        painter.fillRect(part, paled(cargoColor(cargo), 0.55));
        painter.fillRect(part, QBrush(cargoColor(cargo), kCargoTextures[cargo]));
        left += length;
    }
    const bool busiest = machine == m_figures->busiest && out == m_figures->busiestOut;
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(busiest ? t.error : t.border, busiest ? 2 : 1));
    painter.drawRect(room);
    painter.setPen(busiest ? t.error : t.text);
    painter.drawText(QRectF(room.right() + 3, bar.top(), kTextRoom - 3, bar.height()), Qt::AlignVCenter | Qt::AlignLeft,
                     (busiest ? QStringLiteral("▶ ") : QString()) + secondsText(load.sum()));
    painter.setFont(font());
}

void MachineBoard::paintChip(QPainter &painter, const QRectF &box, std::size_t role, bool lifted) const
{
    const Theme &t = theme();
    const gnn::Role &what = m_figures->job.roles[role];
    const QColor color = roleColor(what.kind);
    const bool chosen = static_cast<int>(role) == m_chosen;
    painter.setOpacity(lifted ? 0.35 : 1);
    painter.setBrush(color);
    painter.setPen(QPen(chosen ? t.text : color.darker(140), chosen ? 2 : 1));
    painter.drawRoundedRect(box, kRounded, kRounded);
    painter.setPen(textOn(color));
    painter.drawText(box, Qt::AlignCenter,
                     painter.fontMetrics().elidedText(qt(what.name), Qt::ElideRight,
                                                      static_cast<int>(box.width()) - 2));
    painter.setOpacity(1);
}

/// Of the chosen role. Lines differ by dashes as purposes do by texture; what stays on a machine is pale.
void MachineBoard::paintConnections(QPainter &painter) const
{
    if (m_chosen < 0 || m_dragging)
        return;
    constexpr std::array kDashes{Qt::SolidLine, Qt::DashLine, Qt::DotLine};
    double most = 0;
    for (const Sent &sent : m_figures->sent)
        most = std::max(most, sent.bytes);
    for (const Sent &sent : m_figures->sent) {
        if ((sent.from != m_chosen && sent.to != m_chosen) || sent.bytes <= 0)
            continue;
        const auto from = static_cast<std::size_t>(sent.from);
        const auto to = static_cast<std::size_t>(sent.to);
        const auto cargo = static_cast<std::size_t>(sent.cargo);
        constexpr double kWidest = 5;
        painter.setOpacity(m_figures->machineOf[from] == m_figures->machineOf[to] ? 0.35 : 0.85);
        painter.setPen(QPen(cargoColor(cargo), 1 + (kWidest - 1) * sent.bytes / most, kDashes[cargo], Qt::FlatCap));
        painter.drawLine(chipOf(from).center(), chipOf(to).center());
    }
    painter.setOpacity(1);
}

void MachineBoard::paintLegend(QPainter &painter) const
{
    const std::array names{tr("features"), tr("mini-batches"), tr("gradients")};
    const QFontMetrics metrics = painter.fontMetrics();
    double left = 8;
    double top = height() - kLegend;
    constexpr double kLine = kLegend / 2;
    painter.fillRect(QRectF(0, top, width(), kLegend), theme().base);
    const auto entry = [&](const QBrush &under, const QBrush &over, const QString &text) {
        const QRectF sample(left, top + 4, 14, 10);
        painter.fillRect(sample, under);
        painter.fillRect(sample, over);
        painter.setPen(theme().text);
        const double length = metrics.horizontalAdvance(text);
        painter.drawText(QRectF(left + 18, top, length + 4, kLine), Qt::AlignVCenter, text);
        left += 18 + length + 14;
    };
    for (std::size_t cargo = 0; cargo < kCargos; ++cargo)
        entry(paled(cargoColor(cargo), 0.55), QBrush(cargoColor(cargo), kCargoTextures[cargo]), names[cargo]);
    entry(theme().error, Qt::NoBrush, tr("▶ busiest card"));
    left = 8;
    top += kLine;
    for (const gnn::RoleKind kind :
         {gnn::RoleKind::GraphStore, gnn::RoleKind::Sampler, gnn::RoleKind::Trainer, gnn::RoleKind::ParameterServer}) {
        if (m_figures->job.count(kind) > 0 && left < width())
            entry(roleColor(kind), Qt::NoBrush, qt(gnn::name(kind)));
    }
}

} // namespace planloom::ui

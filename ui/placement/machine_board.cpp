// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/placement/machine_board.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"
#include "ui/widgets/tool_tip.h"

#include <QAccessible>
#include <QApplication>
#include <QKeyEvent>
#include <QMouseEvent>

#include <algorithm>
#include <cmath>
#include <utility>

namespace planloom::ui {

namespace {

constexpr double kGap = 8;
constexpr double kCard = 15; // a bar with its text
constexpr double kChipWidth = 38;
constexpr double kChipHeight = 20;
constexpr double kChipGap = 4;
constexpr double kLeastBox = 190;

std::size_t numberOf(std::int32_t index) { return static_cast<std::size_t>(index); }

} // namespace

MachineBoard::MachineBoard(QWidget *parent) : QWidget(parent), m_hints(tr("Figures of a role elsewhere"))
{
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setAccessibleName(tr("Roles on machines"));
    setAccessibleDescription(tr("Arrows choose a role, Shift with an arrow moves it to the next machine"));
}

void MachineBoard::setFigures(FiguresPtr figures)
{
    m_figures = std::move(figures);
    endDrag();
    if (!m_figures || m_chosen >= static_cast<int>(m_figures->job.roles.size()))
        m_chosen = -1;
    arrange();
    update();
}

/// Boxes in rows of equal width; each as high as the chips of its row need.
void MachineBoard::arrange()
{
    m_boxes.clear();
    m_chips.clear();
    m_height = 0;
    if (!m_figures)
        return;
    const auto machines = static_cast<int>(m_figures->job.machines.size());
    m_boxes.resize(static_cast<std::size_t>(machines));
    m_chips.resize(m_figures->job.roles.size());
    const int columns = std::clamp(static_cast<int>((width() - kGap) / (kLeastBox + kGap)), 1, std::max(machines, 1));
    const double boxWidth = (width() - kGap * (columns + 1)) / columns;
    const int perLine = std::max(1, static_cast<int>((boxWidth - kChipGap) / (kChipWidth + kChipGap)));
    std::vector<int> count(static_cast<std::size_t>(machines));
    for (const std::int32_t machine : m_figures->machineOf)
        ++count[numberOf(machine)];
    double top = kGap;
    for (int first = 0; first < machines; first += columns) {
        const int last = std::min(first + columns, machines);
        const int most = *std::max_element(count.begin() + first, count.begin() + last);
        const int lines = std::max(1, (most + perLine - 1) / perLine);
        const double boxHeight = kHeader + 2 * kCard + 6 + lines * (kChipHeight + kChipGap) + kChipGap;
        for (int machine = first; machine < last; ++machine)
            m_boxes[static_cast<std::size_t>(machine)] = {kGap + (machine - first) * (boxWidth + kGap), top, boxWidth,
                                                          boxHeight};
        top += boxHeight + kGap;
    }
    m_height = top;
    std::vector<int> next(static_cast<std::size_t>(machines));
    for (std::size_t role = 0; role < m_chips.size(); ++role) {
        const std::size_t machine = numberOf(m_figures->machineOf[role]);
        const int place = next[machine]++;
        const QRectF &box = m_boxes[machine];
        m_chips[role] = {box.left() + kChipGap + place % perLine * (kChipWidth + kChipGap),
                         box.top() + kHeader + 2 * kCard + 6 + place / perLine * (kChipHeight + kChipGap), kChipWidth,
                         kChipHeight};
    }
    m_scroll = std::clamp(m_scroll, 0.0, std::max(0.0, m_height - (height() - kLegend)));
}

QRectF MachineBoard::boxOf(std::int32_t machine) const { return m_boxes[numberOf(machine)].translated(0, -m_scroll); }

QRectF MachineBoard::chipOf(std::size_t role) const { return m_chips[role].translated(0, -m_scroll); }

QRectF MachineBoard::cardOf(std::int32_t machine, bool out) const
{
    const QRectF box = boxOf(machine);
    return {box.left() + kChipGap, box.top() + kHeader + (out ? 0 : kCard), box.width() - 2 * kChipGap, kCard - 2};
}

int MachineBoard::roleAt(const QPointF &pixel) const
{
    for (std::size_t role = 0; role < m_chips.size(); ++role) {
        if (chipOf(role).contains(pixel))
            return static_cast<int>(role);
    }
    return -1;
}

std::int32_t MachineBoard::machineAt(const QPointF &pixel) const
{
    for (std::size_t machine = 0; machine < m_boxes.size(); ++machine) {
        if (boxOf(static_cast<std::int32_t>(machine)).contains(pixel))
            return static_cast<std::int32_t>(machine);
    }
    return -1;
}

QString MachineBoard::describe(const QPointF &pixel) const
{
    if (!m_figures)
        return {};
    if (const int role = roleAt(pixel); role >= 0) {
        const gnn::Role &what = m_figures->job.roles[static_cast<std::size_t>(role)];
        QString text = tr("%1: %2").arg(qt(what.name), qt(gnn::name(what.kind)));
        if (what.kind == gnn::RoleKind::Sampler)
            text += tr(" of w%1").arg(what.trainer);
        constexpr int kMost = 12; // lines
        int lines = 0;
        for (const Sent &sent : m_figures->sent) {
            if ((sent.from != role && sent.to != role) || sent.bytes <= 0)
                continue;
            if (++lines > kMost)
                continue;
            const gnn::Role &peer = m_figures->job.roles[numberOf(sent.from == role ? sent.to : sent.from)];
            text += (sent.from == role ? tr("\nto %1: %2") : tr("\nfrom %1: %2"))
                        .arg(qt(peer.name), bytesText(std::llround(sent.bytes)));
        }
        if (lines > kMost)
            text += tr("\nand %1 more").arg(lines - kMost);
        return text;
    }
    const std::int32_t machine = machineAt(pixel);
    if (machine < 0)
        return {};
    const CardLoad &out = m_figures->out[numberOf(machine)];
    const CardLoad &in = m_figures->in[numberOf(machine)];
    const auto parts = [](const CardLoad &load) {
        return tr("features %1, mini-batches %2, gradients %3")
            .arg(secondsText(load.seconds[0]), secondsText(load.seconds[1]), secondsText(load.seconds[2]));
    };
    const bool ring = m_figures->withRing.exchange == gnn::GradientExchange::AllReduce;
    return tr("%1, in one iteration\nout %2: %3\nin %4: %5")
               .arg(qt(m_figures->job.machines[numberOf(machine)].name), secondsText(out.sum()), parts(out),
                    secondsText(in.sum()), parts(in))
        + (ring ? tr("\nGradients go around a ring of the trainers; the simulated iteration has them beside the other "
                     "messages.")
                : QString());
}

void MachineBoard::setCurrent(bool current)
{
    if (std::exchange(m_current, current) != current)
        update();
}

/// Whether the machine has room is said at once, what the iteration takes there when it is computed.
void MachineBoard::askHint(std::size_t role, std::int32_t machine)
{
    const Status room = checkMove(*m_figures, role, machine);
    m_fits = room.ok();
    m_hint = m_fits ? QStringLiteral("…") : qt(room.error().message);
    if (!m_fits)
        return;
    m_hints.ask([this, figures = m_figures, role, machine](Progress &progress) -> Job::Completion {
        return [this, moved = figuresWith(*figures, role, machine, progress)] { takeHint(moved); };
    });
}

void MachineBoard::takeHint(const Result<MovedRole> &moved)
{
    m_fits = moved.ok();
    m_hint = m_fits ? tr("%1 an iteration, %2; %3 × the bound")
                          .arg(secondsText(moved->seconds), changeText(m_figures->seconds, moved->seconds))
                          .arg(moved->overBound, 0, 'f', 2)
                    : qt(moved.error().message);
    setDragCursor();
    update();
}

// --- mouse and keys

void MachineBoard::choose(int role)
{
    m_chosen = role;
    if (role >= 0) {
        const QRectF chip = m_chips[static_cast<std::size_t>(role)];
        const double room = height() - kLegend;
        m_scroll = std::clamp(m_scroll, std::max(0.0, chip.bottom() + kGap - room), std::max(0.0, chip.top() - kGap));
        setAccessibleDescription(describe(chipOf(static_cast<std::size_t>(role)).center()));
        QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
        QAccessible::updateAccessibility(&changed);
    }
    update();
}

void MachineBoard::mousePressEvent(QMouseEvent *event)
{
    if (event->button() != Qt::LeftButton || !m_figures)
        return;
    m_press = event->position();
    m_pressed = roleAt(m_press);
    choose(m_pressed);
}

void MachineBoard::mouseMoveEvent(QMouseEvent *event)
{
    if (m_pressed < 0 || !m_editable)
        return;
    if (!m_dragging && (event->position() - m_press).manhattanLength() < QApplication::startDragDistance())
        return;
    m_dragging = true;
    dragTo(event->position());
}

void MachineBoard::dragTo(const QPointF &pixel)
{
    m_pointer = pixel;
    const std::int32_t over = machineAt(pixel);
    const std::int32_t home = m_figures->machineOf[static_cast<std::size_t>(m_pressed)];
    if (over != m_over) { // a schedule a machine, not a movement
        m_over = over;
        m_hints.abandon();
        m_hint.clear();
        m_fits = true;
        if (over >= 0 && over != home)
            askHint(static_cast<std::size_t>(m_pressed), over);
        setDragCursor();
    }
    update();
}

void MachineBoard::setDragCursor() { setCursor(m_over < 0 || !m_fits ? Qt::ForbiddenCursor : Qt::ClosedHandCursor); }

void MachineBoard::mouseReleaseEvent(QMouseEvent *event)
{
    if (event->button() != Qt::LeftButton)
        return;
    const int role = m_pressed;
    const std::int32_t machine = m_dragging ? m_over : -1;
    endDrag();
    if (machine >= 0 && role >= 0 && m_figures->machineOf[static_cast<std::size_t>(role)] != machine)
        Q_EMIT moveAsked(role, machine);
}

void MachineBoard::endDrag()
{
    m_pressed = -1;
    m_over = -1;
    m_dragging = false;
    m_hints.abandon();
    m_hint.clear();
    unsetCursor();
    update();
}

void MachineBoard::wheelEvent(QWheelEvent *event)
{
    m_scroll =
        std::clamp(m_scroll - event->angleDelta().y() / 2.0, 0.0, std::max(0.0, m_height - (height() - kLegend)));
    update();
}

void MachineBoard::keyPressEvent(QKeyEvent *event)
{
    const bool back = event->key() == Qt::Key_Left || event->key() == Qt::Key_Up;
    const bool on = event->key() == Qt::Key_Right || event->key() == Qt::Key_Down;
    if (event->key() == Qt::Key_Escape && m_dragging)
        return endDrag();
    if (!m_figures || m_figures->job.roles.empty() || (!back && !on))
        return QWidget::keyPressEvent(event);
    const auto roles = static_cast<int>(m_figures->job.roles.size());
    const auto machines = static_cast<std::int32_t>(m_figures->job.machines.size());
    if (!(event->modifiers() & Qt::ShiftModifier) || m_chosen < 0)
        return choose(m_chosen < 0 ? 0 : (m_chosen + (on ? 1 : roles - 1)) % roles);
    if (m_editable && machines > 1)
        Q_EMIT moveAsked(
            m_chosen, (m_figures->machineOf[static_cast<std::size_t>(m_chosen)] + (on ? 1 : machines - 1)) % machines);
}

void MachineBoard::resizeEvent(QResizeEvent *event)
{
    QWidget::resizeEvent(event);
    arrange();
}

bool MachineBoard::event(QEvent *event)
{
    return answerToolTip(event, this, [this](const QPoint &at) { return describe(at); }) || QWidget::event(event);
}

} // namespace planloom::ui

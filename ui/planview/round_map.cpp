// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/round_map.h"

#include "ui/theme/theme.h"
#include "ui/widgets/stage_style.h"
#include "ui/widgets/text.h"

#include <QAccessible>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <cmath>
#include <utility>

namespace planloom::ui {

namespace {

using planners::AveragingCell;

constexpr double kRoundNames = 52; // pixels at the left
constexpr double kDarkest = 0.2;   // share of the base in the longest one's colour
constexpr double kPalest = 0.95;
constexpr double kMostTimesLeast = 4; // the least seconds: beyond, all are as dark

/// Where @p value stands in @p values, which have it.
double placeOf(const std::vector<std::int64_t> &values, std::int64_t value)
{
    return static_cast<double>(std::ranges::lower_bound(values, value) - values.begin());
}

} // namespace

RoundMap::RoundMap(QWidget *parent) : QWidget(parent)
{
    setFocusPolicy(Qt::StrongFocus);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    setAccessibleName(tr("Seconds of a step of progress by rounds and delay"));
}

void RoundMap::set(planners::AveragingMap map, std::int64_t localSteps, std::int64_t delay)
{
    m_map = std::move(map);
    m_localSteps = localSteps;
    m_delay = delay;
    m_chosen.reset();
    const AveragingCell *best = m_map.best();
    m_least = best ? best->effectiveSeconds() : 0;
    m_most = m_least;
    for (const AveragingCell &cell : m_map.cells)
        if (cell.hasSeconds())
            m_most = std::max(m_most, std::min(cell.effectiveSeconds(), kMostTimesLeast * m_least));
    if (const AveragingCell *own = m_map.at(localSteps, delay))
        choose(*own);
    setToolTip({});
    updateGeometry();
    update();
}

const AveragingCell *RoundMap::chosen() const { return m_chosen ? &m_map.cells[*m_chosen] : nullptr; }

void RoundMap::choose(const AveragingCell &cell)
{
    m_chosen = static_cast<std::size_t>(&cell - m_map.cells.data());
    setAccessibleDescription(describe(cell));
    if (hasFocus()) {
        QAccessibleEvent event(this, QAccessible::DescriptionChanged);
        QAccessible::updateAccessibility(&event);
    }
    update();
}

bool RoundMap::isOwn(const AveragingCell &cell) const
{
    return cell.localSteps == m_localSteps && cell.delay == m_delay;
}

QSize RoundMap::sizeHint() const
{
    const auto rows = static_cast<int>(std::max<std::size_t>(m_map.rounds.size(), 1));
    return {320, rowHeight() * (rows + 4)}; // title, delays, and two lines for the chosen cell
}

QRectF RoundMap::cellsRect() const
{
    const double top = 2.0 * rowHeight();
    return {kRoundNames, top, width() - kRoundNames - 2,
            static_cast<double>(rowHeight()) * static_cast<double>(m_map.rounds.size())};
}

QRectF RoundMap::cellRect(const AveragingCell &cell) const
{
    const QRectF all = cellsRect();
    const double wide = all.width() / static_cast<double>(m_map.delays.size());
    return {all.left() + wide * placeOf(m_map.delays, cell.delay),
            all.top() + rowHeight() * placeOf(m_map.rounds, cell.localSteps), wide, static_cast<double>(rowHeight())};
}

const AveragingCell *RoundMap::cellAt(const QPointF &pixel) const
{
    const auto found =
        std::ranges::find_if(m_map.cells, [&](const AveragingCell &cell) { return cellRect(cell).contains(pixel); });
    return found == m_map.cells.end() ? nullptr : &*found;
}

QString RoundMap::textOf(const AveragingCell &cell) const
{
    QString text = cell.hasSeconds() ? secondsText(cell.effectiveSeconds()) : QString();
    if (&cell == m_map.best())
        text.prepend(QStringLiteral("★ "));
    if (isOwn(cell))
        text.prepend(QStringLiteral("✓ "));
    return text;
}

QString RoundMap::describe(const AveragingCell &cell) const
{
    const QString pair = tr("τ = %1, d = %2").arg(cell.localSteps).arg(cell.delay);
    if (!cell.refusal.empty())
        return tr("%1: %2").arg(pair, qt(cell.refusal));
    const QString step =
        tr("%1 a step, %2 of the average hidden").arg(secondsText(cell.seconds), percentText(cell.hiddenShare, 0));
    if (cell.effectiveShare <= 0)
        return tr("%1: %2; merges keep nothing of the steps' progress").arg(pair, step);
    QString text = tr("%1: %2").arg(pair, step);
    if (cell.effectiveShare < 1)
        text += tr("; merges keep %1 of the progress: %2 a step of it")
                    .arg(percentText(cell.effectiveShare, 0), secondsText(cell.effectiveSeconds()));
    return text + (isOwn(cell) ? tr("; this plan") : tr("; Enter takes it"));
}

QColor RoundMap::colorOf(const AveragingCell &cell) const
{
    if (!cell.hasSeconds())
        return theme().base;
    const double most = std::log(m_most / m_least);
    const double share = most > 0 ? std::clamp(std::log(cell.effectiveSeconds() / m_least) / most, 0.0, 1.0) : 0;
    return paled(theme().ofSeries(0), kPalest + (kDarkest - kPalest) * share);
}

void RoundMap::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), theme().base);
    painter.setPen(theme().text);
    painter.drawText(QRectF(0, 0, width(), rowHeight()), Qt::AlignCenter,
                     tr("Time of a step of progress by rounds τ and delay d: the stronger the colour, the longer"));
    if (m_map.cells.empty()) {
        painter.drawText(QRectF(0, rowHeight(), width(), height() - rowHeight()), Qt::AlignCenter | Qt::TextWordWrap,
                         tr("Not simulated."));
        return;
    }
    paintNames(painter);
    for (const AveragingCell &cell : m_map.cells)
        paintCell(painter, cell);
    if (const AveragingCell *cell = chosen()) {
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(hasFocus() ? theme().accent : theme().text, hasFocus() ? 3 : 1.5));
        painter.drawRect(cellRect(*cell).adjusted(1, 1, -1, -1));
        painter.setPen(theme().text);
        painter.drawText(QRectF(2, cellsRect().bottom() + 4, width() - 4, height() - cellsRect().bottom() - 4),
                         Qt::AlignLeft | Qt::TextWordWrap, describe(*cell));
    }
}

void RoundMap::paintNames(QPainter &painter) const
{
    painter.setPen(theme().dimText);
    const QRectF all = cellsRect();
    const double wide = all.width() / static_cast<double>(m_map.delays.size());
    for (std::size_t d = 0; d < m_map.delays.size(); ++d)
        painter.drawText(QRectF(all.left() + wide * static_cast<double>(d), all.top() - rowHeight(), wide, rowHeight()),
                         Qt::AlignCenter, tr("d = %1").arg(m_map.delays[d]));
    for (std::size_t r = 0; r < m_map.rounds.size(); ++r)
        painter.drawText(QRectF(0, all.top() + rowHeight() * static_cast<double>(r), kRoundNames - 5, rowHeight()),
                         Qt::AlignRight | Qt::AlignVCenter, tr("τ = %1").arg(m_map.rounds[r]));
}

void RoundMap::paintCell(QPainter &painter, const AveragingCell &cell) const
{
    const QRectF area = cellRect(cell).adjusted(0.5, 0.5, -0.5, -0.5);
    const QColor color = colorOf(cell);
    painter.fillRect(area, color);
    if (!cell.hasSeconds())
        painter.fillRect(area, QBrush(theme().dimText, Qt::BDiagPattern));
    painter.setPen(textOn(color));
    const QString text = painter.fontMetrics().elidedText(textOf(cell), Qt::ElideRight, static_cast<int>(area.width()));
    painter.drawText(area, Qt::AlignCenter, text);
}

void RoundMap::pick()
{
    if (const AveragingCell *cell = chosen(); cell && cell->refusal.empty() && !isOwn(*cell))
        Q_EMIT picked(cell->localSteps, cell->delay);
}

void RoundMap::mousePressEvent(QMouseEvent *event)
{
    if (const AveragingCell *cell = cellAt(event->position()))
        choose(*cell);
}

void RoundMap::mouseDoubleClickEvent(QMouseEvent *event)
{
    if (cellAt(event->position()))
        pick();
}

/// By so many places; where there is no cell, as delays are no longer than rounds, it stays.
void RoundMap::walk(int rounds, int delays)
{
    const AveragingCell *from = chosen();
    const auto moved = [](const std::vector<std::int64_t> &values, std::int64_t value, int by) {
        const int place = static_cast<int>(placeOf(values, value)) + by;
        return values[static_cast<std::size_t>(std::clamp(place, 0, static_cast<int>(values.size()) - 1))];
    };
    if (const AveragingCell *to =
            m_map.at(moved(m_map.rounds, from->localSteps, rounds), moved(m_map.delays, from->delay, delays)))
        choose(*to);
}

void RoundMap::keyPressEvent(QKeyEvent *event)
{
    if (!chosen())
        return QWidget::keyPressEvent(event);
    switch (event->key()) {
    case Qt::Key_Left: return walk(0, -1);
    case Qt::Key_Right: return walk(0, 1);
    case Qt::Key_Up: return walk(-1, 0);
    case Qt::Key_Down: return walk(1, 0);
    case Qt::Key_Return:
    case Qt::Key_Enter: return pick();
    default: QWidget::keyPressEvent(event);
    }
}

bool RoundMap::event(QEvent *event)
{
    if (event->type() != QEvent::ToolTip)
        return QWidget::event(event);
    const auto *help = static_cast<QHelpEvent *>(event);
    const AveragingCell *cell = cellAt(help->pos());
    QToolTip::showText(help->globalPos(), cell ? describe(*cell) : QString(), this);
    return true;
}

} // namespace planloom::ui

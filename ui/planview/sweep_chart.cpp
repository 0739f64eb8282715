// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/sweep_chart.h"

#include "ui/theme/theme.h"
#include "ui/widgets/stage_style.h"
#include "ui/widgets/text.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <limits>
#include <utility>

namespace planloom::ui {

namespace {

using SweepBlock = simulate::Sweeps::Block;
using SweepUpdate = simulate::Sweeps::Update;

constexpr double kStepNames = 26; // pixels at the left
constexpr double kHead = 34;      // title and names of the sweeps
constexpr double kFoot = 16;      // the scale

QColor colorOf(SweepBlock block)
{
    switch (block) {
    case SweepBlock::Hidden: return theme().ofSeries(0);
    case SweepBlock::Input: return theme().ofSeries(1);
    case SweepBlock::Output: return theme().ofSeries(2);
    case SweepBlock::Parameters: return theme().text;
    }
    return theme().text;
}

QString nameOf(const SweepUpdate &update)
{
    switch (update.block) {
    case SweepBlock::Hidden: return QStringLiteral("h%1").arg(update.step);
    case SweepBlock::Input: return QStringLiteral("a%1").arg(update.step);
    case SweepBlock::Output: return QStringLiteral("o");
    case SweepBlock::Parameters: break;
    }
    return SweepChart::tr("parameters");
}

bool isOfStep(const SweepUpdate &update)
{
    return update.block == SweepBlock::Hidden || update.block == SweepBlock::Input;
}

/// From the first to the last update of a sweep's hidden states and inputs.
simulate::Sweeps::Span bandOf(const simulate::Sweeps &sweeps, bool backward)
{
    simulate::Sweeps::Span band{std::numeric_limits<double>::infinity(), 0};
    for (const SweepUpdate &update : sweeps.updates) {
        if (!isOfStep(update) || update.backward != backward)
            continue;
        band.begin = std::min(band.begin, update.begin);
        band.end = std::max(band.end, update.end);
    }
    return band;
}

} // namespace

SweepChart::SweepChart(QWidget *parent) : QWidget(parent), m_job(tr("Sweeps of an iteration"))
{
    setMouseTracking(true);
    setAccessibleName(tr("Sweeps of an iteration"));
    setAccessibleDescription(tr("of plans that train by ADMM"));
}

void SweepChart::show(std::shared_ptr<const plan::Document> document)
{
    m_job.ask([this, document = std::move(document)](Progress &progress) -> Job::Completion {
        return [this, sweeps = simulate::sweepsOf(document->plan, document->subject, progress)] { take(sweeps); };
    });
    update();
}

void SweepChart::take(const Result<simulate::Sweeps> &sweeps)
{
    m_problem = sweeps ? QString() : qt(sweeps.error().text());
    m_sweeps.reset();
    if (sweeps && sweeps->seconds > 0)
        m_sweeps = *sweeps;
    setAccessibleDescription(m_sweeps ? tr("%1 steps in %2").arg(m_sweeps->steps).arg(secondsText(m_sweeps->seconds))
                                      : m_problem);
    update();
}

QRectF SweepChart::chartRect() const { return {kStepNames, kHead, width() - kStepNames - 6, height() - kHead - kFoot}; }

double SweepChart::xOf(double seconds) const
{
    const QRectF chart = chartRect();
    return chart.left() + chart.width() * seconds / m_sweeps->seconds;
}

/// Outputs are those of the last step; systems of parameters, which are of none, take all steps.
QRectF SweepChart::rectOf(const SweepUpdate &update) const
{
    const QRectF chart = chartRect();
    const double each = chart.height() / m_sweeps->steps;
    const double left = xOf(update.begin);
    const double wide = std::max(1.0, xOf(update.end) - left);
    if (update.block == SweepBlock::Parameters)
        return {left, chart.top(), wide, chart.height()};
    return {left, chart.bottom() - each * update.step, wide, each};
}

QString SweepChart::describe(const QPointF &pixel) const
{
    if (!m_sweeps || !chartRect().contains(pixel))
        return {};
    for (const SweepUpdate &update : m_sweeps->updates)
        if (rectOf(update).contains(pixel))
            return tr("%1, %2 sweep: %3 from %4")
                .arg(nameOf(update), update.backward ? tr("backward") : tr("forward"),
                     secondsText(update.end - update.begin), secondsText(update.begin));
    for (const auto &span : m_sweeps->exchanges)
        if (pixel.x() >= xOf(span.begin) && pixel.x() <= xOf(span.end))
            return tr("sums are exchanged: %1 from %2")
                .arg(secondsText(span.end - span.begin), secondsText(span.begin));
    return {};
}

void SweepChart::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    const Theme &t = theme();
    painter.fillRect(rect(), t.base);
    painter.setPen(t.text);
    painter.drawText(QRectF(0, 0, width(), kHead / 2), Qt::AlignCenter, tr("Updates of an iteration by step in time"));
    if (!m_sweeps) {
        painter.drawText(chartRect(), Qt::AlignCenter | Qt::TextWordWrap, m_problem);
        return;
    }
    paintBands(painter);
    paintUpdates(painter);
    paintScale(painter);
    if (computes())
        painter.fillRect(rect(), veil());
}

void SweepChart::paintBands(QPainter &painter) const
{
    const QRectF chart = chartRect();
    for (const bool backward : {true, false}) {
        const auto band = bandOf(*m_sweeps, backward);
        if (band.end <= band.begin)
            continue;
        const QRectF area(xOf(band.begin), chart.top(), xOf(band.end) - xOf(band.begin), chart.height());
        const QColor color = paled(theme().ofSeries(backward ? 0 : 4), 0.75);
        painter.fillRect(area, paled(color, 0.5));
        if (backward)
            painter.fillRect(area, QBrush(color, Qt::BDiagPattern));
        painter.setPen(theme().text);
        painter.drawText(QRectF(area.left(), kHead / 2, area.width(), kHead / 2), Qt::AlignCenter,
                         backward ? tr("backward") : tr("forward"));
    }
    painter.setBrush(Qt::NoBrush);
    for (const auto &span : m_sweeps->exchanges) { // outlined, as communication is
        painter.setPen(QPen(theme().ofSeries(3), 1));
        painter.drawRect(
            QRectF(xOf(span.begin), chart.top(), std::max(1.0, xOf(span.end) - xOf(span.begin)), chart.height()));
    }
}

void SweepChart::paintUpdates(QPainter &painter) const
{
    painter.setPen(Qt::NoPen);
    for (const SweepUpdate &update : m_sweeps->updates) {
        const QRectF area = rectOf(update);
        painter.fillRect(area,
                         update.block == SweepBlock::Parameters ? paled(colorOf(update.block), 0.4)
                                                                : colorOf(update.block));
        if (update.backward && isOfStep(update))
            painter.fillRect(area, QBrush(theme().base, Qt::BDiagPattern));
    }
}

void SweepChart::paintScale(QPainter &painter) const
{
    const QRectF chart = chartRect();
    painter.setPen(theme().text);
    painter.drawRect(chart);
    const double each = chart.height() / m_sweeps->steps;
    const int every = std::max(1, static_cast<int>(painter.fontMetrics().height() / each + 1));
    for (int step = m_sweeps->steps; step > 0; step -= every)
        painter.drawText(QRectF(0, chart.bottom() - each * step, kStepNames - 4, each),
                         Qt::AlignRight | Qt::AlignVCenter, QString::number(step));
    const QRectF foot(chart.left(), chart.bottom() + 1, chart.width(), kFoot - 1);
    painter.drawText(foot, Qt::AlignRight, secondsText(m_sweeps->seconds));
    double left = foot.left();
    for (const auto &[block, name] :
         {std::pair(SweepBlock::Hidden, tr("hidden")), std::pair(SweepBlock::Input, tr("inputs")),
          std::pair(SweepBlock::Output, tr("outputs")), std::pair(SweepBlock::Parameters, tr("weights"))}) {
        painter.fillRect(QRectF(left, foot.top() + 3, 9, 9), colorOf(block));
        painter.drawText(QRectF(left + 12, foot.top(), 80, foot.height()), Qt::AlignLeft, name);
        left += 20 + painter.fontMetrics().horizontalAdvance(name);
    }
}

bool SweepChart::event(QEvent *event)
{
    if (event->type() != QEvent::ToolTip)
        return QWidget::event(event);
    const auto *help = static_cast<QHelpEvent *>(event);
    QToolTip::showText(help->globalPos(), describe(help->pos()), this);
    return true;
}

} // namespace planloom::ui

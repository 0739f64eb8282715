// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/chart.h"

#include "ui/theme/theme.h"

#include <QEvent>
#include <QGraphicsLayout>
#include <QLegend>
#include <QLineSeries>
#include <QPen>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

double roundUp(double value)
{
    if (!(value > 0))
        return 1;
    const double power = std::pow(10.0, std::floor(std::log10(value)));
    for (const double factor : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0}) {
        if (factor * power >= value * (1 - 1e-9))
            return factor * power;
    }
    return 10 * power;
}

PlainChart::PlainChart(const QString &name, const QString &xTitle, const QString &yTitle, QWidget *parent)
    : QChartView(parent),
      m_x(new QValueAxis(this)),
      m_y(new QValueAxis(this))
{
    setAccessibleName(name);
    setFrameShape(NoFrame);
    setMinimumSize(170, 62);
    chart()->setAnimationOptions(QChart::NoAnimation);
    chart()->setMargins({2, 2, 6, 2});
    chart()->setBackgroundRoundness(0);
    chart()->layout()->setContentsMargins(0, 0, 0, 0);
    chart()->legend()->setAlignment(Qt::AlignTop);
    chart()->legend()->setMarkerShape(QLegend::MarkerShapeFromSeries);
    chart()->addAxis(m_x, Qt::AlignBottom);
    chart()->addAxis(m_y, Qt::AlignLeft);
    setTitles(xTitle, yTitle);
    applyColors();
}

void PlainChart::setTitles(const QString &xTitle, const QString &yTitle)
{
    m_x->setTitleText(xTitle);
    m_y->setTitleText(yTitle);
    setAccessibleDescription(yTitle.isEmpty() ? tr("over %1").arg(xTitle) : tr("%1 over %2").arg(yTitle, xTitle));
}

void PlainChart::attach(QAbstractSeries *series)
{
    chart()->addSeries(series);
    series->attachAxis(m_x);
    series->attachAxis(m_y);
}

QLineSeries *PlainChart::addLine(const QString &name, int color)
{
    auto *series = new QLineSeries(this);
    series->setName(name);
    attach(series);
    // Hues repeat after eight: the dash tells the lines of the second round from the first.
    series->setPen(QPen(theme().ofSeries(color), 2, color < kSeriesColors ? Qt::SolidLine : Qt::DashLine));
    return series;
}

void PlainChart::setRanges(double x, double y) { setRange(x, 0, y > 0 ? y : 1); }

void PlainChart::setRange(double x, double yLow, double yHigh)
{
    constexpr double kTicks = 4;
    const auto arrange = [](QValueAxis *axis, double low, double high) {
        if (!(high > low))
            high = low + 1;
        const double step = roundUp((high - low) / kTicks);
        axis->setTickType(QValueAxis::TicksDynamic);
        axis->setTickAnchor(0);
        axis->setTickInterval(step);
        axis->setRange(low, high);
        const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
        const bool half = std::abs(step * std::pow(10, digits) - std::round(step * std::pow(10, digits))) > 1e-6;
        axis->setLabelFormat(QStringLiteral("%.%1f").arg(std::min(digits + (half ? 1 : 0), 9)));
    };
    arrange(m_x, 0, x);
    arrange(m_y, yLow, yHigh);
}

void PlainChart::applyColors()
{
    const Theme &t = theme();
    chart()->setBackgroundBrush(t.base);
    setBackgroundBrush(t.base);
    chart()->legend()->setLabelColor(t.text);
    for (QValueAxis *axis : {m_x, m_y}) {
        axis->setLabelsColor(t.dimText);
        axis->setTitleBrush(t.dimText);
        axis->setLinePenColor(t.border);
        axis->setGridLineColor(t.grid);
        QFont small = font();
        small.setPointSizeF(std::max(6.5, small.pointSizeF() * 0.85));
        axis->setLabelsFont(small);
        axis->setTitleFont(small);
        chart()->legend()->setFont(small);
    }
}

void PlainChart::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange)
        applyColors();
    QChartView::changeEvent(event);
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/run/age_chart.h"

#include "ui/memory/curve.h"
#include "ui/theme/theme.h"

#include <QEvent>
#include <QLineSeries>
#include <QPen>
#include <QStringList>

#include <algorithm>
#include <iterator>

namespace planloom::ui {

namespace {

constexpr int kMostWorkersDrawn = 5; // whose hues differ from that of the delay
constexpr Qt::PenStyle kAgeStyles[] = {Qt::SolidLine, Qt::DashLine, Qt::DotLine, Qt::DashDotLine};

/// Level from each version to the next.
QList<QPointF> stepsOf(const std::vector<int> &ages)
{
    QList<QPointF> points;
    for (std::size_t version = 0; version < ages.size(); ++version) {
        const auto x = static_cast<double>(version);
        points << QPointF(x, ages[version]) << QPointF(x + 1, ages[version]);
    }
    return points;
}

/// @p ages of a worker: of how many versions it was, how late it came at most, and how often that was the last moment.
QString ageText(int worker, const std::vector<int> &ages, int delay)
{
    const auto came = std::ranges::count(ages, 0);
    const int oldest = ages.empty() ? 0 : *std::ranges::max_element(ages);
    int waited = 0;
    for (std::size_t version = 1; version < ages.size(); ++version)
        waited += ages[version] == 0 && ages[version - 1] >= delay ? 1 : 0;
    return AgeChart::tr("worker %1: in %2 of %3 versions, at most %4 behind; versions waited for it: %5")
        .arg(worker)
        .arg(came)
        .arg(ages.size())
        .arg(oldest)
        .arg(waited);
}

} // namespace

std::vector<std::vector<int>> agesOf(const dispatch::Arrivals &arrivals, const dispatch::Pauses &pauses, int workers)
{
    std::vector<std::vector<int>> ages(static_cast<std::size_t>(workers));
    for (std::size_t version = 0; version < arrivals.size(); ++version) {
        const bool together = std::ranges::binary_search(pauses, static_cast<std::int64_t>(version));
        for (std::size_t worker = 0; worker < ages.size(); ++worker) {
            const bool answered = together || std::ranges::count(arrivals[version], static_cast<int>(worker)) > 0;
            ages[worker].push_back(answered ? 0 : 1 + (ages[worker].empty() ? 0 : ages[worker].back()));
        }
    }
    return ages;
}

AgeChart::AgeChart(QWidget *parent)
    : PlainChart(tr("Ages of workers"), tr("version"), tr("versions late"), parent),
      m_delay(addLine(tr("delay"), 5))
{
    paintLines();
}

void AgeChart::set(const dispatch::Arrivals &arrivals, const dispatch::Pauses &pauses, int workers, int delay)
{
    const auto ages = agesOf(arrivals, pauses, workers);
    const int drawn = std::min(workers, kMostWorkersDrawn);
    while (m_lines.size() > drawn) {
        chart()->removeSeries(m_lines.back());
        delete m_lines.takeLast();
    }
    while (m_lines.size() < drawn)
        m_lines << addLine(tr("worker %1").arg(m_lines.size()), static_cast<int>(m_lines.size()));
    QStringList text;
    for (std::size_t worker = 0; worker < ages.size(); ++worker) {
        text << ageText(static_cast<int>(worker), ages[worker], delay);
        if (static_cast<int>(worker) < drawn)
            m_lines[static_cast<qsizetype>(worker)]->replace(thin(stepsOf(ages[worker])));
    }
    const auto versions = std::max<double>(1, static_cast<double>(arrivals.size()));
    m_delay->replace(QList<QPointF>{{0, static_cast<double>(delay)}, {versions, static_cast<double>(delay)}});
    setRanges(versions, delay * 1.1);
    setToolTip(text.join(QLatin1Char('\n')));
    paintLines();
}

void AgeChart::paintLines()
{
    const Theme &t = theme();
    m_delay->setPen(QPen(t.ofSeries(5), 1, Qt::DashLine));
    for (qsizetype worker = 0; worker < m_lines.size(); ++worker)
        m_lines[worker]->setPen(QPen(t.ofSeries(static_cast<int>(worker)), 2,
                                     kAgeStyles[static_cast<std::size_t>(worker) % std::size(kAgeStyles)]));
}

void AgeChart::changeEvent(QEvent *event)
{
    PlainChart::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && m_delay)
        paintLines();
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/compare/step_histogram.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QPainter>

#include <algorithm>
#include <numeric>

namespace planloom::ui {

namespace {

constexpr int kLeftMargin = 56; // pixels, for shares
constexpr int kBottomMargin = 26;
constexpr int kTopMargin = 30; // for the legend

std::int64_t sumOf(const std::vector<std::int64_t> &counts)
{
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

double shareOf(const std::vector<std::int64_t> &counts, std::size_t bin)
{
    const std::int64_t sum = sumOf(counts);
    return sum > 0 ? static_cast<double>(counts[bin]) / static_cast<double>(sum) : 0;
}

} // namespace

StepHistogram::StepHistogram(QWidget *parent) : QWidget(parent)
{
    setAccessibleName(tr("Times of the steps of A and B"));
    setMinimumSize(200, 120);
}

void StepHistogram::set(compare::Histogram histogram, double medianA, double medianB)
{
    m_histogram = std::move(histogram);
    m_medians[0] = medianA;
    m_medians[1] = medianB;
    setAccessibleDescription(legendText());
    update();
}

QString StepHistogram::legendText() const
{
    if (m_histogram.empty())
        return tr("Neither side has steps: choose a run");
    const auto text = [](const char *name, const std::vector<std::int64_t> &counts, double median) {
        const auto steps = sumOf(counts);
        return steps == 0 ? tr("%1: no steps").arg(QLatin1String(name))
                          : tr("%1: %2 steps, median %3").arg(QLatin1String(name)).arg(steps).arg(secondsText(median));
    };
    return text("A", m_histogram.a, m_medians[0]) + QStringLiteral("\n") + text("B", m_histogram.b, m_medians[1]);
}

QRect StepHistogram::plot() const { return rect().adjusted(kLeftMargin, kTopMargin, -12, -kBottomMargin); }

double StepHistogram::highestShare() const
{
    double highest = 0;
    for (std::size_t bin = 0; bin < m_histogram.a.size(); ++bin)
        highest = std::max({highest, shareOf(m_histogram.a, bin), shareOf(m_histogram.b, bin)});
    return highest > 0 ? highest : 1;
}

QRect StepHistogram::barOf(bool isB, int bin) const
{
    const auto &counts = isB ? m_histogram.b : m_histogram.a;
    if (bin < 0 || static_cast<std::size_t>(bin) >= counts.size() || counts[static_cast<std::size_t>(bin)] == 0)
        return {};
    const QRect area = plot();
    const double width = static_cast<double>(area.width()) / static_cast<double>(counts.size());
    const int from = area.x() + static_cast<int>(width * bin + (isB ? width / 2 : 0));
    const int to = area.x() + static_cast<int>(width * bin + (isB ? width : width / 2)) - 1;
    const int height =
        std::max(1, static_cast<int>(area.height() * shareOf(counts, static_cast<std::size_t>(bin)) / highestShare()));
    return {from, area.bottom() + 1 - height, std::max(1, to - from), height};
}

/// Of A plain, of B hatched.
void StepHistogram::paintBar(QPainter &painter, const QRect &box, bool isB)
{
    const QColor color = theme().ofSeries(isB ? 1 : 0);
    painter.fillRect(box, color);
    if (isB)
        painter.fillRect(box, QBrush(textOn(color), Qt::BDiagPattern));
}

void StepHistogram::paintLegend(QPainter &painter) const
{
    constexpr int kSwatch = 12; // pixels
    const QStringList texts = legendText().split(QLatin1Char('\n'));
    const int half = (width() - kLeftMargin - 8) / 2;
    for (int side = 0; side < texts.size(); ++side) {
        const int x = kLeftMargin + side * half;
        paintBar(painter, QRect(x, 9, kSwatch, kSwatch), side == 1);
        painter.drawText(QRect(x + kSwatch + 6, 4, half - kSwatch - 10, kTopMargin - 8),
                         Qt::AlignLeft | Qt::AlignVCenter,
                         fontMetrics().elidedText(texts[side], Qt::ElideRight, half - kSwatch - 10));
    }
}

void StepHistogram::paintAxes(QPainter &painter) const
{
    const QRect area = plot();
    painter.setPen(theme().grid);
    painter.drawLine(area.bottomLeft() + QPoint(0, 1), area.bottomRight() + QPoint(0, 1));
    painter.setPen(theme().dimText);
    for (const double part : {0.0, 0.5, 1.0}) {
        const int y = area.bottom() - static_cast<int>(area.height() * part);
        painter.drawText(QRect(0, y - 10, kLeftMargin - 6, 20), Qt::AlignRight | Qt::AlignVCenter,
                         percentText(highestShare() * part, 0));
    }
    const double span = m_histogram.width * static_cast<double>(m_histogram.a.size());
    for (const double part : {0.0, 0.5, 1.0}) {
        QString text = secondsText(m_histogram.begin + span * part);
        if (part == 1 && m_histogram.lastIsOpen)
            text += tr(" or more");
        const int x = area.x() + static_cast<int>(area.width() * part);
        const QRect box = part == 0 ? QRect(x, area.bottom() + 4, 140, 20)
            : part == 1             ? QRect(x - 180, area.bottom() + 4, 180, 20)
                                    : QRect(x - 70, area.bottom() + 4, 140, 20);
        const auto align = part == 0 ? Qt::AlignLeft : part == 1 ? Qt::AlignRight : Qt::AlignHCenter;
        painter.drawText(box, align | Qt::AlignVCenter, text);
    }
}

void StepHistogram::paintMedian(QPainter &painter, double seconds, bool isB) const
{
    const double span = m_histogram.width * static_cast<double>(m_histogram.a.size());
    if (seconds <= 0 || span <= 0)
        return;
    const QRect area = plot();
    const double share = std::clamp((seconds - m_histogram.begin) / span, 0.0, 1.0);
    const int x = area.x() + static_cast<int>(share * area.width());
    painter.setPen(QPen(theme().cursor, 1, isB ? Qt::DashLine : Qt::SolidLine));
    painter.drawLine(x, area.top(), x, area.bottom());
    painter.setPen(theme().text);
    painter.drawText(QRect(x + 3, area.top() + (isB ? 14 : 0), 20, 14), Qt::AlignLeft,
                     isB ? QStringLiteral("B") : QStringLiteral("A"));
}

void StepHistogram::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), theme().base);
    painter.setPen(theme().text);
    if (m_histogram.empty()) {
        painter.setPen(theme().dimText);
        painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap, legendText());
        return;
    }
    paintLegend(painter);
    for (const bool isB : {false, true}) {
        for (int bin = 0; bin < static_cast<int>(m_histogram.a.size()); ++bin) {
            const QRect box = barOf(isB, bin);
            if (box.isEmpty())
                continue;
            paintBar(painter, box, isB);
        }
    }
    paintAxes(painter);
    paintMedian(painter, m_medians[0], false);
    paintMedian(painter, m_medians[1], true);
}

} // namespace planloom::ui

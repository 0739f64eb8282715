// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/averaging_panel.h"

#include "planners/common/averaging_delay.h"
#include "ui/memory/curve.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLineSeries>
#include <QPen>
#include <QScatterSeries>
#include <QVBoxLayout>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace planloom::ui {

namespace {

/// As long as a step of progress: a convex merge throws a part of each step away.
Bar barOf(const planners::ExchangeChoice &method)
{
    Bar bar{qt(method.name), 0, 0, qt(method.refusal), method.asPlanned};
    if (!method.refusal.empty())
        return bar;
    const QString step = secondsText(method.seconds.step);
    const double kept = method.effectiveShare;
    bar.toolTip =
        AveragingPanel::tr("%1 a step, %2 of it waiting for exchanges").arg(step, secondsText(method.seconds.exposed));
    if (kept <= 0) {
        bar.text = AveragingPanel::tr("%1 a step; merges keep nothing of its progress").arg(step);
        return bar;
    }
    bar.value = method.effectiveSeconds();
    bar.part = method.seconds.exposed / kept;
    bar.text = secondsText(bar.value);
    if (kept < 1) {
        bar.text = AveragingPanel::tr("%1 (%2 a step)").arg(bar.text, step);
        bar.toolTip += AveragingPanel::tr("; merges keep %1 of its progress").arg(percentText(kept, 0));
    }
    return bar;
}

} // namespace

AveragingPanel::AveragingPanel(QWidget *parent)
    : QWidget(parent),
      m_text(new QLabel(this)),
      m_take(new QPushButton(this)),
      m_hidden(new BarList({}, this)),
      m_chart(new PlainChart(tr("A step's time by delay"), tr("delay d (steps)"), {}, this)),
      m_methods(new BarList(tr("Time of a step of progress by method; hatched: waiting for exchanges"), this)),
      m_rounds(new RoundMap(this)),
      m_roundsVeil(new Veil(m_rounds)),
      m_job(tr("Delays and methods"))
{
    m_strip = new JobStrip(m_job, this);
    m_text->setWordWrap(true);
    m_text->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_hidden->setAccessibleName(tr("Hidden share of an average"));
    m_chart->setMinimumHeight(190); // below it the axes have no room for their figures
    m_strip->setIdleText(tr("A step's time by delay; beyond τ rounds have d steps"));
    m_curve = m_chart->addLine(tr("step"), 0);
    m_curve->setPointsVisible(true);
    m_knee = m_chart->addLine(tr("as long as an average"), 2);
    m_now = new QScatterSeries(m_chart);
    m_now->setName(tr("this plan"));
    m_now->setMarkerShape(QScatterSeries::MarkerShapeTriangle);
    m_now->setMarkerSize(12);
    m_chart->attach(m_now);
    auto *head = new QHBoxLayout;
    head->addWidget(m_text, 1);
    head->addWidget(m_take, 0, Qt::AlignTop);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 4, 8, 4);
    layout->addLayout(head);
    layout->addWidget(m_hidden);
    layout->addWidget(m_methods);
    layout->addWidget(m_strip);
    layout->addWidget(m_chart, 1);
    layout->addWidget(m_rounds);
    m_take->hide();
    for (QWidget *each : std::initializer_list<QWidget *>{m_hidden, m_methods, m_chart})
        m_veils.push_back(new Veil(each));
    applyColors();
    connect(m_take, &QPushButton::clicked, this, [this] { Q_EMIT delayPicked(m_bestDelay); });
    connect(m_rounds, &RoundMap::picked, this, [this](std::int64_t localSteps, std::int64_t delay) {
        if (m_mapCurrent)
            Q_EMIT roundsPicked(localSteps, delay);
    });
    connect(m_strip, &JobStrip::again, this, &AveragingPanel::ask);
}

void AveragingPanel::show(const std::shared_ptr<const plan::Document> &document)
{
    if (document == m_document)
        return;
    m_document = document;
    ask();
}

void AveragingPanel::ask()
{
    setCurrent(false);
    m_mapCurrent = false;
    m_roundsVeil->setCurrent(false);
    m_job.ask([this, document = m_document](Progress &progress) -> Job::Completion {
        return [this, document, figures = planners::averagingFigures(document->plan, document->subject, progress)] {
            take(figures, document->plan.exchange.averaging);
            if (figures)
                askMap(document);
            else
                takeMap(figures.error(), document->plan.exchange.averaging);
        };
    });
    m_strip->begin();
}

void AveragingPanel::askMap(const std::shared_ptr<const plan::Document> &document)
{
    m_job.ask([this, document](Progress &progress) -> Job::Completion {
        return [this, document, map = planners::averagingMap(document->plan, document->subject, progress)] {
            takeMap(map, document->plan.exchange.averaging);
        };
    });
}

void AveragingPanel::takeMap(Result<planners::AveragingMap> map, const plan::DelayedAveraging &averaging)
{
    m_mapCurrent = true;
    m_roundsVeil->setCurrent(true);
    if (map)
        m_rounds->set(*std::move(map), averaging.localSteps, averaging.delay);
    else
        m_rounds->clear();
}

void AveragingPanel::setCurrent(bool current)
{
    m_current = current;
    m_text->setEnabled(current);
    m_take->setEnabled(current);
    for (Veil *veil : m_veils)
        veil->setCurrent(current);
}

void AveragingPanel::clear()
{
    m_take->hide();
    m_hidden->set({}, 1);
    m_methods->set({});
    m_curve->clear();
    m_now->clear();
    m_knee->clear();
}

void AveragingPanel::take(const Result<planners::AveragingFigures> &figures, const plan::DelayedAveraging &averaging)
{
    setCurrent(true);
    if (!figures) {
        m_text->setText(qt(figures.error().text()));
        return clear();
    }
    say(*figures, averaging);
    offer(*figures, averaging);
    draw(*figures, averaging);
    std::vector<Bar> bars;
    for (const planners::ExchangeChoice &method : figures->methods)
        bars.push_back(barOf(method));
    m_methods->set(std::move(bars));
}

void AveragingPanel::say(const planners::AveragingFigures &figures, const plan::DelayedAveraging &averaging)
{
    const QString share = percentText(figures.hiddenShare, 0);
    QString text =
        tr("A step takes %1 without averages, an average %2: it is as long as %3 steps. With d = %4, %5 of it "
           "is hidden.")
            .arg(secondsText(figures.times.step), secondsText(figures.times.exchange))
            .arg(figures.times.exchange / figures.times.step, 0, 'f', 1)
            .arg(averaging.delay)
            .arg(share);
    const double kept = averaging.effectiveShare();
    if (kept <= 0)
        text += tr(" Merges keep nothing of the steps' progress.");
    else if (kept < 1)
        text += tr(" Merges keep %1 of the steps' progress: %2 for an effective step.")
                    .arg(percentText(kept, 0), secondsText(figures.seconds / kept));
    m_text->setText(text);
    m_hidden->set({{tr("hidden share"), figures.hiddenShare, 0, share, false}}, 1);
}

/// The delay that delay=auto finds, where the plan has one that is clearly worse.
void AveragingPanel::offer(const planners::AveragingFigures &figures, const plan::DelayedAveraging &averaging)
{
    const double step = figures.times.step;
    const double exchange = figures.times.exchange;
    const plan::DelayedAveraging best = planners::withBestDelay(averaging, step, exchange);
    const bool corrected = averaging.merge == plan::Merge::Corrected;
    m_bestDelay = best.delay;
    m_take->setText(tr("Take d = %1").arg(m_bestDelay));
    m_take->setToolTip(corrected
                           ? tr("The least delay that is as long as an average, and rounds that are no shorter")
                           : tr("The delay with the least time for an effective step: a convex merge throws away a "
                                "part of each step of the delay"));
    // Rounds of another length have steps that are a little longer or shorter: a delay that hides all is not asked to
    // be a step more or less.
    constexpr double kAll = 0.99;
    const double share = corrected ? figures.hiddenShare
                                   : planners::secondsPerEffectiveStep(best, step, exchange)
            / planners::secondsPerEffectiveStep(averaging, step, exchange);
    const bool isClose = std::abs(m_bestDelay - averaging.delay) <= 1 && share > kAll;
    m_take->setVisible(m_bestDelay != averaging.delay && !isClose);
}

void AveragingPanel::draw(const planners::AveragingFigures &figures, const plan::DelayedAveraging &averaging)
{
    double most = figures.seconds;
    for (const planners::DelayPoint &point : figures.byDelay)
        most = std::max(most, point.seconds);
    const Unit unit = timeUnit(most);
    QList<QPointF> points;
    for (const planners::DelayPoint &point : figures.byDelay)
        points << QPointF(static_cast<double>(point.delay), point.seconds * unit.factor);
    const double last = points.isEmpty() ? 1 : points.back().x();
    m_chart->setTitles(tr("delay d (steps)"), tr("step (%1)").arg(QString::fromUtf8(unit.name)));
    m_chart->setRanges(last, most * unit.factor * 1.05);
    if (m_chart->x()->tickInterval() < 1) { // of steps there is no half
        m_chart->x()->setTickInterval(1);
        m_chart->x()->setLabelFormat(QStringLiteral("%.0f"));
    }
    m_curve->replace(points);
    m_now->replace(QList<QPointF>{{static_cast<double>(averaging.delay), figures.seconds * unit.factor}});
    const auto knee = static_cast<double>(figures.times.leastDelay());
    m_knee->setVisible(knee <= last);
    m_knee->replace(QList<QPointF>{{knee, 0}, {knee, m_chart->y()->max()}});
}

void AveragingPanel::applyColors()
{
    const Theme &t = theme();
    m_curve->setPen(QPen(t.ofSeries(0), 2));
    m_knee->setPen(QPen(t.ofSeries(2), 1, Qt::DashLine));
    m_now->setColor(t.text);
    m_now->setBorderColor(t.base);
}

void AveragingPanel::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && m_now)
        applyColors();
    QWidget::changeEvent(event);
}

} // namespace planloom::ui

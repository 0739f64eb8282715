// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/run/replica_panel.h"

#include "ui/memory/curve.h"
#include "ui/theme/theme.h"
#include "ui/widgets/stage_style.h"

#include <QEvent>
#include <QLegend>
#include <QLegendMarker>
#include <QLineSeries>
#include <QPen>
#include <QScatterSeries>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

/// Of so many lines each is named; of more the first one for all.
constexpr std::size_t kNamedReplicas = 4;

} // namespace

ReplicaPanel::ReplicaPanel(QWidget *parent)
    : QWidget(parent),
      m_parts(new QBoxLayout(QBoxLayout::LeftToRight)),
      m_lossChart(new PlainChart(tr("Loss of each replica by step"), tr("step"), tr("loss"), this)),
      m_distanceChart(new PlainChart(tr("Consensus distance by step"), tr("step"), tr("distance from the mean"), this)),
      m_note(new QLabel(this)),
      m_reader(tr("Losses of replicas"))
{
    m_lossChart->setToolTip(tr("Thin: each replica on its own samples, by parameters of its own. Thick: their mean. "
                               "Triangles: the mean of their parameters on held-out samples"));
    m_mean = m_lossChart->addLine(tr("mean of the replicas"), 5);
    m_meanModel = new QScatterSeries(m_lossChart);
    m_meanModel->setName(tr("mean model, held out"));
    m_meanModel->setMarkerShape(QScatterSeries::MarkerShapeTriangle);
    m_meanModel->setMarkerSize(10);
    m_lossChart->attach(m_meanModel);
    m_distance = m_distanceChart->addLine(tr("consensus distance"), 4);
    m_distance->setPointsVisible(true); // it is measured once a round
    m_distanceChart->chart()->legend()->hide();
    m_distanceChart->setToolTip(
        tr("How far replicas were from their mean when it was taken, over all parameters: a point for each average"));
    m_note->setWordWrap(true);
    m_parts->addWidget(m_lossChart, 3);
    m_parts->addWidget(m_distanceChart, 2);
    auto *all = new QVBoxLayout(this);
    all->setContentsMargins(0, 2, 0, 2);
    all->addLayout(m_parts, 1);
    all->addWidget(m_note);
    applyColors();
}

void ReplicaPanel::showSteps(const std::vector<run::StepMetrics> &steps)
{
    QList<QPointF> losses;
    QList<QPointF> distances;
    double farthest = 0;
    for (const run::StepMetrics &step : steps) {
        const auto x = static_cast<double>(step.step);
        if (std::isfinite(step.loss))
            losses << QPointF(x, step.loss);
        if (step.consensusDistance > 0) { // in one step of a round
            distances << QPointF(x, step.consensusDistance);
            farthest = std::max(farthest, step.consensusDistance);
        }
    }
    m_lastStep = steps.empty() ? 1 : std::max<double>(1, static_cast<double>(steps.back().step));
    m_mean->replace(thin(losses));
    m_distanceChart->setRanges(m_lastStep, farthest * 1.05);
    m_distance->replace(thin(distances));
    fitLosses();
}

void ReplicaPanel::showRun(const QString &folder, bool ended)
{
    m_reader.ask(folder, ended, [this](const QString &from) -> Job::Completion {
        return [this, lines = readReplicaLines(from)] { take(lines); };
    });
}

void ReplicaPanel::take(const ReplicaLines &lines)
{
    while (m_replicas.size() > lines.replicas.size()) {
        m_lossChart->chart()->removeSeries(m_replicas.back());
        delete m_replicas.back();
        m_replicas.pop_back();
    }
    while (m_replicas.size() < lines.replicas.size())
        m_replicas.push_back(m_lossChart->addLine({}, static_cast<int>(m_replicas.size())));
    const bool isNamed = lines.replicas.size() <= kNamedReplicas;
    for (std::size_t i = 0; i < m_replicas.size(); ++i) {
        m_replicas[i]->setName(isNamed ? tr("replica %1").arg(lines.replicas[i].replica)
                                       : tr("each of %1 replicas").arg(lines.replicas.size()));
        m_replicas[i]->replace(lines.replicas[i].points);
        for (QLegendMarker *marker : m_lossChart->chart()->legend()->markers(m_replicas[i]))
            marker->setVisible(isNamed || i == 0);
    }
    m_meanModel->replace(lines.meanModel);
    m_meanModel->setName(lines.meanModel.isEmpty() ? tr("mean model, held out")
                                                   : tr("mean model, held out: %1 in step %2")
                                                         .arg(lines.meanModel.back().y(), 0, 'f', 4)
                                                         .arg(lines.meanModel.back().x(), 0, 'f', 0));
    for (QLegendMarker *marker : m_lossChart->chart()->legend()->markers(m_meanModel))
        marker->setVisible(!lines.meanModel.isEmpty());
    applyColors();
    fitLosses();
    QStringList notes;
    if (!lines.problem.isEmpty())
        notes << lines.problem;
    else if (lines.replicas.empty())
        notes << tr("This run has no losses of its replicas; a new run records them.");
    if (lines.meanModel.isEmpty())
        notes << tr("No loss of the mean model yet: train with \"Hold out\" and \"Validate every\" in the dialog "
                    "(--holdout, --validate-every).");
    m_note->setText(notes.join(QLatin1Char(' ')));
    m_note->setVisible(!notes.isEmpty());
}

void ReplicaPanel::fitLosses()
{
    double low = INFINITY;
    double high = -INFINITY;
    double last = m_lastStep;
    const auto fit = [&](const QList<QPointF> &points) {
        for (const QPointF &point : points) {
            low = std::min(low, point.y());
            high = std::max(high, point.y());
            last = std::max(last, point.x());
        }
    };
    fit(m_mean->points());
    fit(m_meanModel->points());
    for (const QLineSeries *replica : m_replicas)
        fit(replica->points());
    if (!std::isfinite(low))
        low = high = 0;
    const double margin = std::max((high - low) * 0.08, 1e-3);
    m_lossChart->setRange(last, std::max(low - margin, 0.0), high + margin);
}

void ReplicaPanel::applyColors()
{
    const Theme &t = theme();
    for (std::size_t i = 0; i < m_replicas.size(); ++i) {
        const int color = m_replicas.size() <= kNamedReplicas ? static_cast<int>(i) : 0;
        m_replicas[i]->setPen(QPen(paled(t.ofSeries(color), m_replicas.size() <= kNamedReplicas ? 0 : 0.4), 1));
    }
    m_mean->setPen(QPen(t.text, 2));
    m_distance->setPen(QPen(t.ofSeries(4), 2));
    m_meanModel->setColor(t.ofSeries(5));
    m_meanModel->setBorderColor(t.base);
}

void ReplicaPanel::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && m_meanModel)
        applyColors();
    QWidget::changeEvent(event);
}

} // namespace planloom::ui

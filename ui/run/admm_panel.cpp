// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/run/admm_panel.h"

#include "engine/base/files.h"
#include "engine/plan/plan_json.h"
#include "engine/run/metrics.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QLegend>
#include <QLegendMarker>
#include <QLineSeries>
#include <QPen>
#include <QScatterSeries>
#include <QScrollArea>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace planloom::ui {

namespace {

constexpr qint64 kReadAgain = 2000;      // milliseconds
constexpr std::size_t kMostPairs = 3000; // that QtCharts draws at once
constexpr int kMostOthers = 6;

/// Seconds of training until a validation, and what share of the held-out samples is right then.
Result<QList<QPointF>> accuraciesOf(const QString &folder)
{
    const auto text = readFile(folder.toStdString() + "/metrics.jsonl");
    if (!text)
        return text.error();
    const auto steps = run::metricsFromJson(*text);
    const auto validations = run::validationsFromJson(*text);
    if (!steps || !validations)
        return steps ? validations.error() : steps.error();
    QList<QPointF> points;
    auto step = steps->begin();
    double seconds = 0;
    for (const run::Validation &seen : *validations) {
        for (; step != steps->end() && step->step <= seen.step; ++step)
            seconds += step->seconds;
        if (std::isfinite(seen.accuracy))
            points << QPointF(seconds, seen.accuracy);
    }
    return points;
}

QString nameOf(const QString &folder) { return QFileInfo(folder).fileName(); }

} // namespace

AdmmPanel::AdmmPanel(QWidget *parent)
    : QWidget(parent),
      m_parts(new QBoxLayout(QBoxLayout::LeftToRight)),
      m_map(new ResidualMap(this)),
      m_objectiveChart(new PlainChart(tr("Objective and Lagrangian"), tr("iteration"), tr("summed loss"), this)),
      m_dualChart(new PlainChart(tr("Duals and gradients"), tr("gradient by back-propagation"), tr("dual"), this)),
      m_accuracyChart(new PlainChart(tr("Held-out accuracy"), tr("seconds of training"), tr("accuracy"), this)),
      m_ages(new AgeChart(this)),
      m_compare(new QPushButton(tr("&Compare with a run…"), this)),
      m_note(new QLabel(this)),
      m_accuracyHint(
          new QLabel(tr("No held-out accuracy yet: train with \"Hold out\" and \"Validate every\" in the dialog "
                        "(--holdout, --validate-every)"),
                     this))
{
    m_compare->setToolTip(tr("Draw the accuracy of another run, such as one by SGD or Adam, beside this one's"));
    m_note->setWordWrap(true);
    m_objective = m_objectiveChart->addLine(tr("objective"), 0);
    m_lagrangian = m_objectiveChart->addLine(tr("Lagrangian"), 1);
    m_objectiveChart->setToolTip(
        tr("What is minimised, and the augmented Lagrangian before the step of the duals, which raises it"));
    m_diagonal = m_dualChart->addLine(tr("equal"), 5);
    m_duals = new QScatterSeries(m_dualChart);
    m_duals->setName(tr("of a sample"));
    m_duals->setMarkerSize(4);
    m_dualChart->attach(m_duals);
    m_dualChart->chart()->legend()->hide();
    m_dualChart->setToolTip(tr("At the fixed point duals are the gradients of the loss: all lie on the line"));
    m_parts->addWidget(m_map, 3);
    m_parts->addWidget(m_objectiveChart, 3);
    m_parts->addWidget(m_dualChart, 2);
    m_parts->addWidget(m_ages, 3);
    m_ages->hide();
    m_parts->addWidget(m_accuracyChart, 3);
    m_parts->addWidget(m_accuracyHint, 3);
    m_accuracyHint->setWordWrap(true);
    m_accuracyHint->setAlignment(Qt::AlignCenter);
    m_accuracyChart->hide();
    auto *bottom = new QHBoxLayout;
    bottom->addWidget(m_note, 1);
    bottom->addWidget(m_compare);
    auto *all = new QVBoxLayout(this);
    all->setContentsMargins(0, 2, 0, 2);
    auto *page = new QWidget;
    m_parts->setContentsMargins(0, 0, 0, 0);
    page->setLayout(m_parts);
    auto *scroll = new QScrollArea(this); // side by side, charts ask for more than a narrow window has
    scroll->setWidget(page);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    all->addWidget(scroll, 1);
    setMinimumSize(240, 120);
    all->addLayout(bottom);
    applyColors();
    connect(m_compare, &QPushButton::clicked, this, [this] {
        const QString folder =
            QFileDialog::getExistingDirectory(this, tr("Folder of a run"), QFileInfo(m_folder).absolutePath());
        if (!folder.isEmpty())
            compareWith(folder);
    });
}

void AdmmPanel::showRun(const QString &folder, bool ended)
{
    const bool same = folder == m_folder && ended == m_ended;
    if (same && (ended || (m_read.isValid() && m_read.elapsed() < kReadAgain)))
        return;
    m_folder = folder;
    m_ended = ended;
    m_read.start();
    m_note->clear();
    readResiduals();
    readObjective();
    readAges();
    readDuals();
    readAccuracies();
}

void AdmmPanel::readResiduals()
{
    const auto text = readFile(m_folder.toStdString() + "/" + run::kResidualsFile);
    auto residuals = text ? run::residualsFromCsv(*text) : Result<run::Residuals>(run::Residuals());
    if (!residuals)
        m_note->setText(qt(residuals.error().text()));
    m_map->set(residuals ? *std::move(residuals) : run::Residuals());
}

/// A Lagrangian is of the end of a step but with a parameter server, the objective of its beginning: it is drawn with
/// what the step before has left.
void AdmmPanel::readObjective()
{
    const std::string folder = m_folder.toStdString();
    const auto text = readFile(folder + "/metrics.jsonl");
    const auto steps = text ? run::metricsFromJson(*text) : Result<std::vector<run::StepMetrics>>(text.error());
    const auto document = plan::readPlan(folder + "/plan.json");
    const bool isServed =
        document && document->plan.admm && document->plan.admm->parallel == admm::Parallel::Asynchronous;
    QList<QPointF> objective;
    QList<QPointF> lagrangian;
    double most = 0;
    double least = 0; // the Lagrangian may fall below 0
    double last = 1;
    for (const run::StepMetrics &step : steps ? *steps : std::vector<run::StepMetrics>()) {
        if (step.objective <= 0)
            continue; // by gradients
        last = static_cast<double>(step.step);
        objective << QPointF(last, step.objective);
        most = std::max(most, step.objective);
        if (step.lagrangian == 0)
            continue; // of a run before it was recorded
        last += isServed ? 0 : 1;
        lagrangian << QPointF(last, step.lagrangian);
        most = std::max(most, step.lagrangian);
        least = std::min(least, step.lagrangian);
    }
    m_objective->replace(objective);
    m_lagrangian->replace(lagrangian);
    m_objectiveChart->chart()->legend()->markers(m_lagrangian).front()->setVisible(!lagrangian.isEmpty());
    m_objectiveChart->setRanges(std::max(last, 1.0), most > 0 ? most * 1.05 : 1);
    if (least < 0)
        m_objectiveChart->y()->setRange(least * 1.05, most > 0 ? most * 1.05 : 0);
}

/// Of runs with a parameter server, whose folders have who came for each version.
void AdmmPanel::readAges()
{
    const std::string folder = m_folder.toStdString();
    const auto text = readFile(folder + "/arrivals.csv");
    const auto document = text ? plan::readPlan(folder + "/plan.json") : Result<plan::Document>(text.error());
    const bool has = document && document->plan.admm;
    m_ages->setVisible(has);
    if (!has)
        return;
    const auto workers = static_cast<int>(document->plan.stages.front().replicas());
    dispatch::Pauses pauses;
    const auto arrivals = dispatch::arrivalsFromCsv(*text, 0, workers, &pauses);
    if (!arrivals)
        m_note->setText(tr("arrivals.csv: %1").arg(qt(arrivals.error().message)));
    m_ages->set(arrivals ? *arrivals : dispatch::Arrivals(), pauses, workers, document->plan.admm->delay);
}

void AdmmPanel::readDuals()
{
    const auto text = readFile(m_folder.toStdString() + "/" + run::kDualsFile);
    const auto pairs =
        text ? run::dualsFromCsv(*text) : Result<std::vector<run::DualPair>>(std::vector<run::DualPair>());
    if (!pairs)
        m_note->setText(qt(pairs.error().text()));
    QList<QPointF> points;
    double most = 0;
    const std::size_t every = 1 + (pairs ? pairs->size() : 0) / kMostPairs;
    for (std::size_t i = 0; pairs && i < pairs->size(); i += every) {
        const run::DualPair &pair = (*pairs)[i];
        points << QPointF(pair.gradient, pair.dual);
        most = std::max({most, std::abs(pair.gradient), std::abs(pair.dual)});
    }
    m_duals->replace(points);
    m_diagonal->replace(points.isEmpty() ? QList<QPointF>() : QList<QPointF>{{-most, -most}, {most, most}});
    most = most > 0 ? roundUp(most) : 1;
    m_dualChart->x()->setRange(-most, most);
    m_dualChart->y()->setRange(-most, most);
}

void AdmmPanel::readAccuracies()
{
    QStringList folders{m_folder};
    folders += m_others;
    double longest = 0;
    for (int i = 0; i < folders.size(); ++i) {
        const auto points = accuraciesOf(folders[i]);
        if (!points && i > 0)
            m_note->setText(qt(points.error().text()));
        if (static_cast<std::size_t>(i) == m_accuracies.size()) {
            m_accuracies.push_back(m_accuracyChart->addLine(nameOf(folders[i]), i));
            m_accuracies.back()->setPointsVisible(true);
        }
        QLineSeries *line = m_accuracies[static_cast<std::size_t>(i)];
        line->setName(nameOf(folders[i]));
        line->replace(points ? *points : QList<QPointF>());
        if (points && !points->isEmpty())
            longest = std::max(longest, points->back().x());
    }
    m_accuracyChart->setRanges(longest > 0 ? longest : 1, 1);
    m_accuracyChart->setVisible(longest > 0);
    m_accuracyHint->setVisible(longest <= 0);
    applyColors();
}

void AdmmPanel::compareWith(const QString &folder)
{
    const auto points = accuraciesOf(folder);
    if (!points || points->isEmpty()) {
        m_note->setText(points ? tr("%1 has no validations; train with --validate-every").arg(nameOf(folder))
                               : qt(points.error().text()));
        return;
    }
    m_note->clear();
    if (!m_others.contains(folder) && folder != m_folder)
        m_others << folder;
    if (m_others.size() > kMostOthers)
        m_others.removeFirst();
    readAccuracies();
}

void AdmmPanel::applyColors()
{
    const Theme &t = theme();
    m_duals->setColor(t.ofSeries(0));
    m_duals->setBorderColor(Qt::transparent);
    m_objective->setPen(QPen(t.ofSeries(0), 2));
    m_lagrangian->setPen(QPen(t.ofSeries(1), 2, Qt::DashLine));
    m_diagonal->setPen(QPen(t.text, 1, Qt::DashLine));
    constexpr Qt::PenStyle kStyles[] = {Qt::SolidLine, Qt::DashLine, Qt::DotLine, Qt::DashDotLine};
    for (std::size_t i = 0; i < m_accuracies.size(); ++i)
        m_accuracies[i]->setPen(QPen(t.ofSeries(static_cast<int>(i)), 2, kStyles[i % std::size(kStyles)]));
}

void AdmmPanel::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && m_duals)
        applyColors();
    QWidget::changeEvent(event);
}

} // namespace planloom::ui

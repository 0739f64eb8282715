// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/run/run_view.h"

#include "ui/memory/curve.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QDir>
#include <QEvent>
#include <QHBoxLayout>
#include <QLegend>
#include <QLineSeries>
#include <QPen>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kRefreshMilliseconds = 100;
constexpr int kLogLines = 5000;
constexpr int kCloserSeconds = 2;

QString phaseText(RunData::Phase phase)
{
    switch (phase) {
    case RunData::Phase::None: return RunView::tr("No run yet");
    case RunData::Phase::Starting: return RunView::tr("Starting");
    case RunData::Phase::Running: return RunView::tr("Running");
    case RunData::Phase::Finished: return RunView::tr("Finished");
    case RunData::Phase::Stopped: return RunView::tr("Stopped");
    case RunData::Phase::Failed: return RunView::tr("Failed");
    case RunData::Phase::Unfinished: return RunView::tr("Without a result (it runs elsewhere, failed or was cut off)");
    }
    return {};
}

Cell errorCell(double predicted, double measured)
{
    if (measured == 0 || predicted == 0)
        return {QStringLiteral("–"), 0.0};
    const double error = predicted / measured - 1;
    return {(error > 0 ? QStringLiteral("▲ ") : QStringLiteral("▼ ")) + percentText(std::abs(error)), error};
}

/// Median seconds of a run's steps.
struct StepSeconds {
    double own = 0;
    std::int64_t thenFrom = 0; ///< the first step by gradients behind iterations of ADMM, or by measured times behind
                               ///< those by the logical clock; 0: there is none
    double then = 0;           ///< of those
    double thenPredicted = 0;  ///< 0: not known
    bool byMeasured = false;   ///< those are by measured times
};

/// By the summary, or before there is one by the steps, of which iterations of ADMM alone have an objective; of a run
/// that changed its course by the steps of each.
StepSeconds stepSeconds(const RunData &run)
{
    if (const auto courses = run.courses(); courses.size() == 2)
        return {courses[0].measured, courses[1].fromStep, courses[1].measured, courses[1].predicted, true};
    if (run.summary)
        return {run.summary->iterationSecondsMedian, run.summary->thenFrom, run.summary->thenSecondsMedian,
                run.summary->thenSecondsPredicted, false};
    const auto hasObjective = [](const run::StepMetrics &step) { return step.objective > 0; };
    const bool changes = run.origin.laterSeconds || (!run.steps.empty() && hasObjective(run.steps.front()));
    const auto change = changes ? std::ranges::find_if_not(run.steps, hasObjective) : run.steps.end();
    StepSeconds seconds;
    seconds.own = run::medianSeconds({run.steps.begin(), change}, run.roundSteps());
    if (change == run.steps.end())
        return seconds;
    seconds.thenFrom = change->step;
    seconds.then = run::medianSeconds({change, run.steps.end()});
    seconds.thenPredicted = run.origin.laterSeconds.value_or(0);
    return seconds;
}

/// A figure that may not be known.
Cell secondsCell(double seconds) { return {seconds > 0 ? secondsText(seconds) : QStringLiteral("–"), seconds}; }

/// Rows of tokens and of model FLOPs, where the model has a sequence and the devices a peak. @p onDevices: the speed on
/// the plan's own devices; 0: not known, or others trained in their place.
void addEfficiency(const plan::ModelWork &work, double predicted, double onDevices, double measured, TableData &table)
{
    const plan::Efficiency expected = plan::efficiencyOf(work, predicted);
    const plan::Efficiency reached = plan::efficiencyOf(work, measured);
    const plan::Efficiency own = plan::efficiencyOf(work, onDevices);
    const auto rate = [](double value) {
        return Cell{value > 0 ? QString::number(value, 'f', 1) : QStringLiteral("–"), value};
    };
    if (expected.tokensPerSecond > 0)
        table.rows.push_back({{RunView::tr("Tokens per second"), {}},
                              rate(expected.tokensPerSecond),
                              rate(reached.tokensPerSecond),
                              errorCell(expected.tokensPerSecond, own.tokensPerSecond)});
    const auto share = [](double value) { return Cell{value > 0 ? percentText(value) : QStringLiteral("–"), value}; };
    if (expected.mfu > 0)
        table.rows.push_back({{RunView::tr("Model FLOPs utilisation (%1 peak)").arg(qt(expected.precision)), {}},
                              share(expected.mfu),
                              share(own.mfu),
                              errorCell(expected.mfu, own.mfu)});
}

/// Times of steps by the prediction that they belong to, and speeds by the newest of these. @p comparable: the plan's
/// own devices trained.
void addTimes(const RunData &run, const simulate::Report &predicted, bool comparable, TableData &table)
{
    const auto timeError = [&](double expected, double measured) {
        return comparable ? errorCell(expected, measured) : Cell{RunView::tr("on processors"), 0.0};
    };
    const auto times = [&](const QString &name, double expected, double measured) {
        table.rows.push_back({{name, {}}, secondsCell(expected), secondsCell(measured), timeError(expected, measured)});
    };
    const StepSeconds steps = stepSeconds(run);
    times(steps.byMeasured ? RunView::tr("Iteration time, up to step %1").arg(steps.thenFrom - 1)
                           : RunView::tr("Iteration time"),
          predicted.iterationSeconds, steps.own);
    if (steps.thenFrom > 0)
        times((steps.byMeasured ? RunView::tr("By measured times, from step %1 on")
                                : RunView::tr("By gradients, from step %1 on"))
                  .arg(steps.thenFrom),
              steps.thenPredicted, steps.then);
    const bool newer = steps.byMeasured && steps.then > 0;
    const double samples = predicted.samplesPerIteration();
    const double measured = newer ? steps.then : steps.own;
    const double speed = measured > 0 ? samples / measured : 0;
    const double expected = newer ? samples / steps.thenPredicted : predicted.samplesPerSecond;
    table.rows.push_back({{newer ? RunView::tr("Samples per second, from step %1 on").arg(steps.thenFrom)
                                 : RunView::tr("Samples per second"),
                           {}},
                          {QString::number(expected, 'f', 1), expected},
                          {measured > 0 ? QString::number(speed, 'f', 1) : QStringLiteral("–"), speed},
                          timeError(expected, speed)});
    addEfficiency(run.origin.work, expected, comparable ? speed : 0, speed, table);
}

/// What samples that were held out say, where there are any: nothing predicts that.
void addHeldOut(const RunData &run, TableData &table)
{
    if (!run.summary || !run.summary->evaluation)
        return;
    const run::Validation &seen = *run.summary->evaluation;
    const auto row = [&](const QString &name, const QString &text, double value) {
        table.rows.push_back({{name, {}}, {QStringLiteral("–"), 0.0}, {text, value}, {QStringLiteral("–"), 0.0}});
    };
    if (std::isfinite(seen.loss))
        row(RunView::tr("Held-out loss (%1 samples)").arg(seen.samples), QString::number(seen.loss, 'f', 4), seen.loss);
    if (seen.accuracy >= 0)
        row(RunView::tr("Held-out accuracy"), percentText(seen.accuracy), seen.accuracy);
}

} // namespace

RunView::RunView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_status(new QLabel(this)),
      m_progress(new QProgressBar(this)),
      m_train(new QPushButton(tr("&Train…"), this)),
      m_stop(new QPushButton(tr("&Stop"), this)),
      m_lookCloser(new QPushButton(tr("&Look closer"), this)),
      m_lossChart(new PlainChart(tr("Loss by step"), tr("step"), tr("loss"), this)),
      m_speedChart(new PlainChart(tr("Throughput by step"), tr("step"), tr("samples / s"), this)),
      m_admm(new AdmmPanel(this)),
      m_replicas(new ReplicaPanel(this)),
      m_rows(new RowsPanel(this)),
      m_loss(m_lossChart->addLine(tr("loss"), 0)),
      m_speed(m_speedChart->addLine(tr("samples per second"), 2)),
      m_changes{m_lossChart->addLine(tr("by measured times from here on"), 3),
                m_speedChart->addLine(tr("by measured times from here on"), 3)},
      m_tabs(new QTabWidget(this)),
      m_table(new DataTable(this)),
      m_log(new QPlainTextEdit(this))
{
    m_table->setAccessibleName(tr("Predicted against measured"));
    m_log->setAccessibleName(tr("Log of the run"));
    m_log->setReadOnly(true);
    m_log->setMaximumBlockCount(kLogLines);
    m_progress->setTextVisible(true);
    m_progress->setFormat(tr("%v of %m steps done"));
    m_progress->setAccessibleName(tr("Progress of the run"));
    m_status->setWordWrap(true);
    m_lossChart->chart()->legend()->hide();
    m_speedChart->chart()->legend()->hide();
    applyIcons();

    auto *top = new QHBoxLayout;
    top->addWidget(m_train);
    top->addWidget(m_stop);
    top->addWidget(m_lookCloser);
    m_lookCloser->setToolTip(
        tr("Record every kernel and copy of the GPUs for the next %1 seconds").arg(kCloserSeconds));
    top->addWidget(m_progress, 1);
    auto *charts = new QWidget(this);
    m_charts = new QBoxLayout(QBoxLayout::LeftToRight, charts);
    m_charts->setContentsMargins(0, 0, 0, 0);
    m_charts->addWidget(m_lossChart);
    m_charts->addWidget(m_speedChart);
    m_tabs->setDocumentMode(true);
    m_tabs->addTab(charts, tr("Loss and throughput"));
    m_tabs->addTab(m_replicas, tr("Replicas"));
    m_tabs->addTab(m_rows, tr("Rows"));
    m_tabs->addTab(m_admm, tr("ADMM"));
    m_tabs->addTab(m_table, tr("Predicted and measured"));
    m_tabs->addTab(m_log, tr("Log"));
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 6, 8, 6);
    layout->addLayout(top);
    layout->addWidget(m_status);
    layout->addWidget(m_tabs, 1);

    m_throttle.setSingleShot(true);
    m_throttle.setInterval(kRefreshMilliseconds);
    connect(&m_throttle, &QTimer::timeout, this, &RunView::refresh);
    connect(state, &StudioState::runChanged, this, [this] {
        refreshStatus();
        if (!m_throttle.isActive())
            m_throttle.start();
    });
    connect(state, &StudioState::documentChanged, this, &RunView::refreshStatus);
    connect(state, &StudioState::simulationChanged, this, [this] {
        refreshStatus();
        refreshTable();
    });
    connect(m_train, &QPushButton::clicked, this, &RunView::trainAsked);
    connect(m_stop, &QPushButton::clicked, this, [this] {
        m_stop->setEnabled(false);
        this->state()->stopRun();
    });
    connect(m_tabs, &QTabWidget::currentChanged, this, &RunView::refreshFolder);
    connect(m_lookCloser, &QPushButton::clicked, this, [this] { this->state()->lookCloser(kCloserSeconds); });
    refresh();
}

void RunView::refresh()
{
    refreshStatus();
    refreshCharts();
    refreshReplicas();
    refreshFolder();
    refreshTable();
    refreshLog();
}

/// Panels read files only while their tab is shown.
void RunView::refreshFolder()
{
    const RunData &run = state()->run();
    const auto show = [&](auto *panel, bool has) {
        m_tabs->setTabVisible(m_tabs->indexOf(panel), has);
        if (has && m_tabs->currentWidget() == panel && !run.folder.isEmpty())
            panel->showRun(run.folder, !run.active());
    };
    const auto hasFolder = [&](const char *name) {
        return !run.folder.isEmpty() && QDir(run.folder).exists(QString::fromUtf8(name));
    };
    const auto isApart = [](const run::StepMetrics &step) { return step.consensusDistance > 0; };
    show(m_admm, !run.folder.isEmpty() && !run.steps.empty() && run.steps.front().objective > 0);
    show(m_replicas, hasFolder(run::kLossesFolder) || std::ranges::any_of(run.steps, isApart));
    show(m_rows, hasFolder(run::kRowsFolder));
}

void RunView::refreshReplicas() { m_replicas->showSteps(state()->run().steps); }

void RunView::refreshStatus()
{
    const RunData &run = state()->run();
    const bool active = run.active();
    m_train->setEnabled(!active && state()->document() != nullptr);
    m_stop->setEnabled(active);
    m_lookCloser->setVisible(active && run.hasKernelRows);
    m_lookCloser->setEnabled(run.phase == RunData::Phase::Running);
    m_progress->setVisible(run.phase != RunData::Phase::None);
    m_progress->setRange(0, static_cast<int>(std::max<std::int64_t>(run.settings.steps, 1)));
    m_progress->setValue(static_cast<int>(run.steps.size()));
    QString text = phaseText(run.phase);
    if (run.phase == RunData::Phase::None)
        text += state()->document() ? tr(": train the plan to measure it.") : tr(": it needs a plan.");
    if (run.phase == RunData::Phase::Failed)
        text += QStringLiteral(": ") + run.error;
    else if (!run.steps.empty())
        text += tr(": step %1, loss %2, %3 samples/s")
                    .arg(run.steps.back().step)
                    .arg(run.steps.back().loss, 0, 'f', 4)
                    .arg(run.steps.back().samplesPerSecond, 0, 'f', 1);
    if (const auto courses = run.courses(); courses.size() == 2)
        text += tr("  ·  predicted %1 a step up to step %2, %3 by measured times from step %4 on")
                    .arg(secondsText(courses[0].predicted))
                    .arg(courses[1].fromStep - 1)
                    .arg(secondsText(courses[1].predicted))
                    .arg(courses[1].fromStep);
    if (run.phase != RunData::Phase::None && state()->document() && !state()->runIsOfDocument())
        text += tr("  ·  its plan: %1, not the open one").arg(run.origin.name);
    m_status->setText(text);
}

void RunView::refreshCharts()
{
    const auto &steps = state()->run().steps;
    QList<QPointF> loss;
    QList<QPointF> speed;
    double low = steps.empty() ? 0 : steps.front().loss;
    double high = low;
    double fastest = 0;
    for (const run::StepMetrics &step : steps) {
        const auto x = static_cast<double>(step.step);
        if (std::isfinite(step.loss)) {
            loss << QPointF(x, step.loss);
            low = std::min(low, step.loss);
            high = std::max(high, step.loss);
        }
        speed << QPointF(x, step.samplesPerSecond);
        fastest = std::max(fastest, step.samplesPerSecond);
    }
    const double last = steps.empty() ? 1 : std::max<double>(1, static_cast<double>(steps.back().step));
    const double margin = steps.empty() ? 1 : std::max((high - low) * 0.08, 1e-3);
    m_lossChart->setRange(last, std::max(low - margin, 0.0), high + margin);
    m_speedChart->setRanges(last, fastest * 1.05);
    m_loss->replace(thin(loss));
    m_speed->replace(thin(speed));
    const auto &change = state()->run().change;
    for (const auto &[chart, line] : {std::pair(m_lossChart, m_changes[0]), std::pair(m_speedChart, m_changes[1])}) {
        const bool seen = change && static_cast<double>(change->fromStep) <= last;
        const double x = seen ? static_cast<double>(change->fromStep) : 0;
        line->replace(seen ? QList<QPointF>{{x, chart->y()->min()}, {x, chart->y()->max()}} : QList<QPointF>());
        line->setVisible(seen);
        chart->chart()->legend()->setVisible(seen);
    }
}

void RunView::refreshTable()
{
    const RunData &run = state()->run();
    TableData table{{tr("Figure"), tr("Predicted"), tr("Measured"), tr("Prediction error")}, {}};
    const simulate::Report *predicted = run.predicted();
    const bool comparable = !run.summary || run.summary->ranksOnProcessors == 0;
    if (predicted && run.phase != RunData::Phase::None) {
        addTimes(run, *predicted, comparable, table);
        addHeldOut(run, table);
        for (std::size_t k = 0; k < predicted->devices.size(); ++k) {
            const bool has = run.summary && k < run.summary->peakBytesMeasured.size();
            const std::int64_t peak = has ? run.summary->peakBytesMeasured[k] : 0;
            // What the newest workers made may be a part of the plan: the steps behind its iterations by ADMM.
            const bool own = has && k < run.summary->peakBytesPredicted.size();
            const std::int64_t bytes = own ? run.summary->peakBytesPredicted[k] : predicted->devices[k].peakBytes;
            const auto expected = static_cast<double>(bytes);
            table.rows.push_back(
                {{tr("Peak memory of %1").arg(qt(predicted->devices[k].id)), {}},
                 {bytesText(bytes), expected},
                 {has ? bytesText(peak) : QStringLiteral("–"), static_cast<double>(peak)},
                 has && peak == bytes ? Cell{tr("exact"), 0.0} : errorCell(expected, static_cast<double>(peak))});
        }
    }
    m_table->set(std::move(table));
}

void RunView::refreshLog()
{
    const QStringList &log = state()->run().log;
    if (log.size() < m_logLines) {
        m_log->clear();
        m_logLines = 0;
    }
    for (; m_logLines < log.size(); ++m_logLines)
        m_log->appendPlainText(log[m_logLines]);
}

void RunView::applyIcons()
{
    m_train->setIcon(icon(QStringLiteral("train")));
    m_stop->setIcon(icon(QStringLiteral("stop")));
    m_lookCloser->setIcon(icon(QStringLiteral("zoom-in")));
    m_loss->setPen(QPen(theme().ofSeries(0), 2));
    m_speed->setPen(QPen(theme().ofSeries(2), 2));
    for (QLineSeries *line : m_changes)
        line->setPen(QPen(theme().text, 1, Qt::DashLine));
}

void RunView::resizeEvent(QResizeEvent *event)
{
    constexpr int kNarrow = 440; // pixels
    const auto direction = width() < kNarrow ? QBoxLayout::TopToBottom : QBoxLayout::LeftToRight;
    m_charts->setDirection(direction);
    m_admm->setDirection(direction);
    m_replicas->setDirection(direction);
    View::resizeEvent(event);
}

void RunView::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && m_speed)
        applyIcons();
    View::changeEvent(event);
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_view.h"

#include "engine/base/files.h"
#include "ui/state/run_files.h"
#include "ui/theme/theme.h"
#include "ui/timeline/slice_table.h"
#include "ui/timeline/timeline_facts.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QFileDialog>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QPainter>
#include <QShortcut>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kOpenPlan = 0; // entries of the choice of what to show
constexpr int kMeasuredPlan = 1;

} // namespace

TimelineView::TimelineView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_canvas(new TimelineCanvas(&m_model, this)),
      m_bar(new QToolBar(this)),
      m_stepBox(new QSpinBox(this)),
      m_whose(new QComboBox(this)),
      m_search(new QLineEdit(this)),
      m_pathLine(new PathLine(m_model, this)),
      m_footer(new QLabel(this)),
      m_openPlan(new QPushButton(tr("Open its &plan…"), this)),
      m_otherCourse(new QPushButton(this)),
      m_legend(new Legend(this)),
      m_rangePanel(new RangePanel(m_model, this)),
      m_analysisPanel(new AnalysisPanel(this)),
      m_analysis(new TraceAnalysis(state, m_model, m_canvas, m_analysisPanel)),
      m_picture(new ScrolledCanvas(m_model, m_canvas, m_rangePanel, this)),
      m_pages(new QStackedWidget(this)),
      m_table(new DataTable(this))
{
    makeToolBar();
    makeBody();
    connectState();
    onSimulation();
    onMeasuredReset();
}

QAction *TimelineView::command(const QString &text, const QString &iconName, const QString &toolTip,
                               const std::function<void()> &run)
{
    auto *action = new QAction(icon(iconName), text, this);
    action->setToolTip(toolTip);
    action->setData(iconName);
    connect(action, &QAction::triggered, this, run);
    m_commands << action;
    return action;
}

void TimelineView::makeToolBar()
{
    m_bar->setIconSize({18, 18});
    m_bar->addAction(command(tr("Zoom in"), QStringLiteral("zoom-in"), tr("Zoom in (W, Ctrl+wheel)"),
                             [this] { m_canvas->viewport().zoomBy(1.5); }));
    m_bar->addAction(command(tr("Zoom out"), QStringLiteral("zoom-out"), tr("Zoom out (S, Ctrl+wheel)"),
                             [this] { m_canvas->viewport().zoomBy(1 / 1.5); }));
    m_bar->addAction(command(tr("Show everything"), QStringLiteral("fit"), tr("Show everything (Home or 0)"),
                             [this] { m_canvas->viewport().showAll(); }));
    m_bar->addAction(command(tr("Previous view"), QStringLiteral("back"), tr("Previous view (Backspace)"),
                             [this] { m_canvas->viewport().back(); }));
    m_bar->addSeparator();
    m_follow = command(tr("Follow the run"), QStringLiteral("follow"), tr("Follow the run (End)"),
                       [this] { m_canvas->setFollow(m_follow->isChecked()); });
    m_follow->setCheckable(true);
    m_bar->addAction(m_follow);
    m_stepBox->setPrefix(tr("Step "));
    m_stepBox->setToolTip(tr("Measured step to compare with the prediction"));
    m_stepBox->setAccessibleName(tr("Measured step to compare with the prediction"));
    m_stepBoxAction = m_bar->addWidget(m_stepBox);
    m_whose->addItems({tr("Open plan"), tr("Measured plan")});
    m_whose->setToolTip(tr("The measurement is of another plan than the one that is open: choose which to show"));
    m_whose->setAccessibleName(tr("Plan to show"));
    m_whoseAction = m_bar->addWidget(m_whose);
    connect(m_whose, &QComboBox::activated, this, &TimelineView::onSimulation);
    auto *communication =
        command(tr("Communication lanes"), QStringLiteral("lanes"), tr("Show communication lanes"), [] {});
    communication->setCheckable(true);
    communication->setChecked(true);
    connect(communication, &QAction::toggled, m_canvas, &TimelineCanvas::showCommunication);
    m_bar->addAction(communication);
    m_path = command(tr("Critical path"), QStringLiteral("path"),
                     tr("Critical path: the tasks that the time of the step comes from (C)"), [] {});
    m_path->setCheckable(true);
    connect(m_path, &QAction::toggled, m_pathLine, &PathLine::refresh);
    m_bar->addAction(m_path);
    m_rangeTable = command(tr("Range statistics"), QStringLiteral("range"),
                           tr("The selected range of time by device, lane, kind and stage (R)"), [] {});
    m_rangeTable->setCheckable(true);
    connect(m_rangeTable, &QAction::toggled, this, [this](bool on) { m_rangePanel->setVisible(on); });
    m_bar->addAction(m_rangeTable);
    m_analysisTable = command(tr("Late ranks and kernels"), QStringLiteral("late"),
                              tr("Who is late at collectives, hidden communication, kernels by name (L)"), [] {});
    m_analysisTable->setCheckable(true);
    connect(m_analysisTable, &QAction::toggled, m_analysisPanel, &QWidget::setVisible);
    m_bar->addAction(m_analysisTable);
    m_bar->addWidget(m_analysis->rowsBox());
    command(tr("Show all rows"), QString(), tr("Show all rows (Shift+H)"),
            [this] { m_canvas->useRowCommand(RowCommand::What::ShowAll); });
    auto *frames = command(tr("Show how long frames take"), QString(), tr("Time of each frame, in the corner"), [] {});
    frames->setCheckable(true);
    connect(frames, &QAction::toggled, m_canvas, &TimelineCanvas::showFrameTimes);
    m_asTable = command(tr("Show as a table"), QStringLiteral("table"), tr("The slices in view as a table"), [] {});
    m_asTable->setCheckable(true);
    connect(m_asTable, &QAction::toggled, this, [this] {
        refreshTable(); // first: a table that is shown takes the focus, and with it picks a row
        refreshPage();
    });
    m_bar->addAction(m_asTable);
    m_search->setPlaceholderText(tr("Find a task ( / )"));
    m_search->setAccessibleName(tr("Find a task"));
    m_search->setClearButtonEnabled(true);
    m_search->setMaximumWidth(200);
    m_bar->addWidget(m_search);
    connect(m_search, &QLineEdit::textChanged, this, [this] { search(0); });
    auto *leave = new QShortcut(QKeySequence(Qt::Key_Escape), m_search, nullptr, nullptr, Qt::WidgetShortcut);
    connect(leave, &QShortcut::activated, m_canvas,
            qOverload<>(&QWidget::setFocus)); // where the single keys work again
    connect(m_search, &QLineEdit::returnPressed, this,
            [this] { search(QGuiApplication::keyboardModifiers() & Qt::ShiftModifier ? -1 : +1); });
    connect(m_stepBox, &QSpinBox::valueChanged, this, [this](int step) {
        m_autoStep = false;
        setStep(step);
        m_canvas->viewport().showStep(m_model.anchorStep());
    });
}

void TimelineView::makeBody()
{
    constexpr int kRangeHeight = 190; // a header and some rows
    m_rangePanel->setFixedHeight(kRangeHeight);
    m_rangePanel->hide();
    m_analysisPanel->setFixedHeight(kRangeHeight);
    m_analysisPanel->hide();
    m_pages->addWidget(m_picture);
    m_pages->addWidget(m_table);
    m_table->setAccessibleName(tr("Slices in view"));
    m_table->setObjectName(QStringLiteral("slices"));
    m_footer->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_footer->setContentsMargins(8, 2, 8, 4);
    m_footer->setWordWrap(true); // a long line must not make the window wider
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addWidget(m_bar);
    layout->addWidget(m_pages, 1);
    layout->addWidget(m_analysisPanel);
    layout->addWidget(m_pathLine);
    layout->addWidget(m_legend);
    auto *bottom = new QHBoxLayout;
    bottom->addWidget(m_footer, 1);
    bottom->addWidget(m_openPlan);
    bottom->addWidget(m_otherCourse);
    m_otherCourse->hide();
    connect(m_otherCourse, &QPushButton::clicked, this,
            [this] { this->state()->openTrace({otherCourse(shownTrace(*this->state()))}); });
    bottom->setContentsMargins(0, 0, 6, 4);
    m_openPlan->setToolTip(tr("Open the plan that made this trace, to compare them"));
    connect(m_openPlan, &QPushButton::clicked, this, &TimelineView::planOfTraceAsked);
    layout->addLayout(bottom);

    connect(m_canvas, &TimelineCanvas::viewChanged, this, [this] {
        m_follow->setChecked(m_canvas->viewport().follows());
        refreshTable();
    });
    connect(m_canvas, &TimelineCanvas::picked, this, &TimelineView::onPicked);
    connect(m_canvas, &TimelineCanvas::rangePicked, this, &TimelineView::onRange);
    connect(m_canvas, &TimelineCanvas::searchAsked, m_search, qOverload<>(&QWidget::setFocus));
    connect(m_canvas, &TimelineCanvas::helpAsked, this, &TimelineView::helpAsked);
    connect(m_pathLine, &PathLine::found, m_canvas, &TimelineCanvas::setPaths);
    connect(m_canvas, &TimelineCanvas::pathAsked, m_path, &QAction::toggle);
    connect(m_canvas, &TimelineCanvas::rangeTableAsked, m_rangeTable, &QAction::toggle);
    connect(m_canvas, &TimelineCanvas::rowsChosen, this, [this] {
        m_rangePanel->showRange(state()->selection().time); // devices may stand in another order
        refreshFooter();
    });
    connect(m_canvas, &TimelineCanvas::refused, this,
            [this](const QString &reason) { state()->say(MessageLevel::Info, reason); });
    connect(m_rangePanel, &RangePanel::closeAsked, m_rangeTable, &QAction::toggle);
    connect(m_rangePanel, &RangePanel::csvAsked, this,
            [this] { writeTable(tr("Range as a table"), QStringLiteral("range.csv"), m_rangePanel->csv()); });
    connect(m_canvas, &TimelineCanvas::analysisAsked, m_analysisTable, &QAction::toggle);
    connect(m_analysisPanel, &AnalysisPanel::closeAsked, m_analysisTable, &QAction::toggle);
    connect(m_analysisPanel, &AnalysisPanel::csvAsked, this,
            [this] { writeTable(tr("Findings as a table"), QStringLiteral("trace.csv"), m_analysisPanel->csv()); });
    connect(m_analysis, &TraceAnalysis::modelChanged, this, [this] {
        m_canvas->modelChanged(true);
        refreshContents();
    });
    connect(m_canvas, &TimelineCanvas::deviceClicked, this, [this](const std::string &device) {
        if (state()->cluster())
            state()->selectDevice(state()->cluster()->find(device));
    });
    connect(m_table, &DataTable::rowPicked, this, [this](int row) {
        const auto &slice = m_tableSlices[static_cast<std::size_t>(row)];
        onPicked(m_model.task(slice).id, m_model.device(slice));
    });
}

void TimelineView::connectState()
{
    connect(state(), &StudioState::simulationChanged, this, &TimelineView::onSimulation);
    connect(state(), &StudioState::documentChanged, this, &TimelineView::onDocument);
    connect(state(), &StudioState::busyChanged, this, [this] { // a plan could not be simulated, or can again
        const bool before = std::exchange(m_outdated, state()->simulationOutdated());
        if (before != m_outdated)
            refreshFooter();
    });
    connect(state(), &StudioState::measuredReset, this, &TimelineView::onMeasuredReset);
    connect(state(), &StudioState::measuredAppended, this, &TimelineView::onMeasuredAppended);
    connect(state(), &StudioState::selectionChanged, this, &TimelineView::onSelection);
    connect(state(), &StudioState::runChanged, this, &TimelineView::onRunChanged);
}

void TimelineView::onSimulation()
{
    const bool first = m_model.empty();
    showSource();
    refreshStepBox();
    m_legend->setKinds(m_model.kinds());
    m_canvas->modelChanged(!first);
    if (!m_model.hasMeasured())
        m_analysis->traceChanged();
    refreshContents();
}

/// After an edit the open plan is shown, unless a run is active. What is shown already is painted again when the edit
/// has been simulated.
void TimelineView::onDocument()
{
    if (!state()->run().active() && state()->document())
        m_whose->setCurrentIndex(kOpenPlan);
    if (showSource())
        onSimulation();
    else
        refreshFooter();
}

/// A measurement lies beside the prediction of its own plan only. Where another plan is open, one of the two is shown.
/// Returns true if that is another than before.
bool TimelineView::showSource()
{
    const bool measured = !state()->measured().ranks.empty();
    const bool other = measured && !state()->measuredIsOfDocument();
    m_whoseAction->setVisible(other && state()->document());
    const bool asMeasured = measured && (!other || !state()->document() || m_whose->currentIndex() == kMeasuredPlan);
    const auto &simulation = asMeasured ? state()->measuredOrigin().simulation : state()->simulation();
    const bool showsMeasured = asMeasured || !measured;
    if (simulation == m_shown && showsMeasured == m_model.showsMeasured())
        return false;
    m_shown = simulation;
    m_model.setShowMeasured(showsMeasured);
    m_model.setPredicted(simulation, asMeasured ? state()->measuredOrigin().index : state()->predictedIndex());
    return true;
}

void TimelineView::onMeasuredReset()
{
    if (indexRest())
        return;
    m_reindex.abandon();
    m_whose->setCurrentIndex(kMeasuredPlan);
    m_model.resetMeasured(state()->measured(), state()->measuredIndex(), state()->measuredFile());
    showSource();
    m_model.setAnchorStep(m_model.lastWholeRound());
    m_legend->setKinds(m_model.kinds());
    m_autoStep = true;
    refreshStepBox();
    m_canvas->modelChanged(false);
    m_canvas->setFollow(state()->run().active());
    m_analysis->traceChanged();
    if (!state()->run().active() && m_model.roundSteps() > 1)
        m_canvas->viewport().showStep(m_model.anchorStep()); // of rounds the last whole one
    refreshContents();
}

void TimelineView::onRunChanged()
{
    refreshFooter();
    const bool ended = m_runActive && !state()->run().active();
    m_runActive = state()->run().active();
    if (ended && m_canvas->viewport().follows())
        m_canvas->viewport().showStep(m_model.anchorStep()); // the newest whole round, side by side with its prediction
    if (ended) {
        m_analysis->traceChanged();
        refreshContents();
    }
}

void TimelineView::refreshStepBox()
{
    const QSignalBlocker quiet(m_stepBox);
    const int round = m_model.roundSteps();
    const int last = std::max(m_model.steps() - 1, 0);
    m_stepBox->setPrefix(round > 1 ? tr("Steps ") : tr("Step "));
    const int first = m_model.firstStep();
    m_stepBox->setRange(first, last);
    m_stepBox->setSingleStep(round);
    const QString all = tr(" (%1–%2)").arg(first).arg(last); // counted from 0, as the log and the commands do
    const int anchor = std::max(m_model.anchorStep(), first);
    m_stepBox->setSuffix(round > 1 ? tr("–%1").arg(std::min(anchor + round - 1, last)) + all : all);
    m_stepBox->setValue(anchor);
    m_stepBoxAction->setVisible(m_model.steps() - first > round); // of one there is nothing to choose
    m_follow->setEnabled(m_model.hasMeasured());
}

void TimelineView::setStartPage(QWidget *page)
{
    m_startPage = page;
    m_pages->addWidget(page);
    refreshPage();
}

/// All rows, the legend and the facts below.
QSize TimelineView::pictureSize() const
{
    if (m_pages->currentWidget() != m_picture)
        return View::pictureSize();
    const QSize rows = m_canvas->wholeSize();
    return {rows.width(), rows.height() + m_legend->heightForWidth(rows.width()) + m_footer->height()};
}

QString TimelineView::pictureNote() const
{
    if (m_pages->currentWidget() != m_picture)
        return View::pictureNote();
    const auto all = m_model.groups().size();
    const auto [first, last] =
        m_model.layout().groupsBetween(0, m_canvas->wholeSize().height() - TimelinePainter::kRuler);
    return last - first < all ? tr("the first %1 of %2 devices; more do not fit a picture").arg(last - first).arg(all)
                              : QString();
}

void TimelineView::paintPicture(QPainter &painter)
{
    if (m_pages->currentWidget() != m_picture)
        return View::paintPicture(painter);
    painter.fillRect(QRect({}, pictureSize()), theme().window);
    const QSize rows = m_canvas->wholeSize();
    painter.save();
    m_canvas->paintWhole(painter);
    painter.restore();
    const int legend = m_legend->heightForWidth(rows.width());
    painter.save();
    painter.translate(0, rows.height());
    m_legend->paint(painter, rows.width());
    painter.restore();
    painter.setPen(theme().text);
    painter.drawText(QRect(8, rows.height() + legend, rows.width() - 16, m_footer->height()),
                     Qt::AlignLeft | Qt::AlignVCenter | Qt::TextWordWrap,
                     pictureNote().isEmpty() ? m_footer->text()
                                             : pictureNote() + QStringLiteral("   ·   ") + m_footer->text());
}

void TimelineView::refreshPage()
{
    const bool nothing = !state()->document() && state()->measured().ranks.empty();
    m_canvas->setEmptyText(nothing ? tr("No timeline yet.\nFind or open a plan to see its predicted timeline; train it "
                                        "to see the measured one.")
                                   : tr("Simulating…"));
    QWidget *content = m_asTable->isChecked() ? static_cast<QWidget *>(m_table) : m_picture;
    const bool starts = nothing && m_startPage;
    m_pages->setCurrentWidget(starts ? m_startPage : content);
    m_legend->setVisible(!starts);
    m_bar->setEnabled(!starts);
}

void TimelineView::setStep(int step)
{
    m_model.setAnchorStep(step);
    refreshStepBox();
    m_canvas->modelChanged(true);
    refreshContents();
}

void TimelineView::refreshFooter()
{
    QStringList facts = timelineFacts(*state(), m_model);
    if (const QString found = m_found.fact(); !found.isEmpty())
        facts.prepend(found);
    m_footer->setText(facts.join(QStringLiteral("   ·   ")));
    m_footer->setVisible(!facts.isEmpty());
    refreshPage();
    const bool ofOther = !state()->measured().ranks.empty() && !state()->measuredIsOfDocument();
    m_openPlan->setVisible(ofOther && state()->measuredOrigin().lacksPlan());
    m_otherCourse->setText(state()->measuredOrigin().measuredFrom ? tr("Steps by the &logical clock")
                                                                  : tr("Steps by m&easured times"));
    m_otherCourse->setVisible(m_model.hasMeasured() && !state()->run().active()
                              && !otherCourse(shownTrace(*state())).isEmpty());
}

void TimelineView::refreshTable()
{
    const bool wasEmpty = m_tableSlices.empty();
    if (m_asTable->isChecked()) {
        m_table->set(sliceTable(m_model, m_canvas->viewport().axis(), m_tableSlices));
        return;
    }
    m_tableSlices.clear(); // what the rows point to may be gone when it is shown again
    if (!wasEmpty)
        m_table->set({});
}

/// After the model's contents changed.
void TimelineView::refreshContents()
{
    m_found.refresh(state()->selection().task);
    m_pathLine->refresh(m_path->isChecked());
    m_rangePanel->showRange(state()->selection().time);
    refreshFooter();
}

void TimelineView::writeTable(const QString &title, const QString &name, const std::string &csv)
{
    const QString path = QFileDialog::getSaveFileName(this, title, name, tr("CSV (*.csv)"));
    if (path.isEmpty())
        return;
    if (const Status status = writeFileAtomically(path.toStdString(), csv); !status)
        return state()->say(MessageLevel::Error, qt(status.error().text()));
    state()->say(MessageLevel::Info, tr("Wrote %1").arg(path));
}

std::string TimelineView::deviceName(DeviceId id) const
{
    const auto &cluster = state()->cluster();
    if (!cluster || !id.valid() || id.index() >= cluster->devices().size())
        return {};
    return cluster->device(id).name;
}

void TimelineView::onSelection()
{
    m_canvas->setSelection(state()->selection(), deviceName(state()->selection().device));
    if (state()->selection().time != m_rangeOf) {
        m_rangeOf = state()->selection().time;
        m_rangePanel->showRange(m_rangeOf);
        m_analysis->rangeChanged();
    }
}

void TimelineView::onPicked(const std::string &task, const std::string &device)
{
    if (task.empty()) {
        Selection next;
        next.time = state()->selection().time;
        state()->select(next);
        return;
    }
    state()->selectTask(task, state()->cluster() ? state()->cluster()->find(device) : DeviceId());
}

void TimelineView::onRange(std::optional<TimeRange> range)
{
    Selection next = state()->selection();
    next.time = range;
    state()->select(next);
}

void TimelineView::search(int by)
{
    if (by == 0)
        m_found.find(m_search->text());
    else
        m_found.step(by);
    refreshFooter();
    const auto hit = m_search->text().isEmpty() ? std::nullopt : m_found.shown();
    if (!hit)
        return;
    onPicked(m_model.task(*hit).id, m_model.device(*hit));
    m_canvas->viewport().reveal(*hit);
}

void TimelineView::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange) {
        for (QAction *action : std::as_const(m_commands))
            action->setIcon(icon(action->data().toString()));
        m_legend->update();
    }
    View::changeEvent(event);
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_view.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QGridLayout>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QPainter>
#include <QShortcut>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr int kScrollUnits = 10'000; // of the horizontal scroll bar
constexpr int kOpenPlan = 0;         // entries of the choice of what to show
constexpr int kMeasuredPlan = 1;
constexpr std::size_t kTableLimit = 5000; // rows: more cannot be read, and the picture shows them all

} // namespace

TimelineView::TimelineView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_canvas(new TimelineCanvas(&m_model, this)),
      m_bar(new QToolBar(this)),
      m_stepBox(new QSpinBox(this)),
      m_whose(new QComboBox(this)),
      m_search(new QLineEdit(this)),
      m_footer(new QLabel(this)),
      m_openPlan(new QPushButton(tr("Open its &plan…"), this)),
      m_legend(new Legend(this)),
      m_picture(new QWidget(this)),
      m_vertical(new QScrollBar(Qt::Vertical, this)),
      m_horizontal(new QScrollBar(Qt::Horizontal, this)),
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
    connect(communication, &QAction::toggled, this, [this](bool on) {
        m_model.setShowCommunication(on);
        m_canvas->modelChanged(true);
    });
    m_bar->addAction(communication);
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
    auto *grid = new QGridLayout(m_picture);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setSpacing(0);
    grid->addWidget(m_canvas, 0, 0);
    grid->addWidget(m_vertical, 0, 1);
    grid->addWidget(m_horizontal, 1, 0);
    m_pages->addWidget(m_picture);
    m_pages->addWidget(m_table);
    m_table->setAccessibleName(tr("Slices in view"));
    m_footer->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_footer->setContentsMargins(8, 2, 8, 4);
    m_footer->setWordWrap(true); // a long line must not make the window wider
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addWidget(m_bar);
    layout->addWidget(m_pages, 1);
    layout->addWidget(m_legend);
    auto *bottom = new QHBoxLayout;
    bottom->addWidget(m_footer, 1);
    bottom->addWidget(m_openPlan);
    bottom->setContentsMargins(0, 0, 6, 4);
    m_openPlan->setToolTip(tr("Open the plan that made this trace, to compare them"));
    connect(m_openPlan, &QPushButton::clicked, this, &TimelineView::planOfTraceAsked);
    layout->addLayout(bottom);

    connect(m_canvas, &TimelineCanvas::viewChanged, this, [this] {
        m_follow->setChecked(m_canvas->viewport().follows());
        refreshScrollBars();
        refreshTable();
    });
    connect(m_canvas, &TimelineCanvas::picked, this, &TimelineView::onPicked);
    connect(m_canvas, &TimelineCanvas::rangePicked, this, &TimelineView::onRange);
    connect(m_canvas, &TimelineCanvas::searchAsked, m_search, qOverload<>(&QWidget::setFocus));
    connect(m_canvas, &TimelineCanvas::helpAsked, this, &TimelineView::helpAsked);
    connect(m_canvas, &TimelineCanvas::deviceClicked, this, [this](const std::string &device) {
        if (state()->cluster())
            state()->selectDevice(state()->cluster()->find(device));
    });
    connect(m_vertical, &QScrollBar::valueChanged, this, [this](int y) {
        if (!m_settingBars)
            m_canvas->viewport().setScroll(y);
    });
    connect(m_horizontal, &QScrollBar::valueChanged, this, [this](int value) {
        if (m_settingBars)
            return;
        const TimeAxis &axis = m_canvas->viewport().axis();
        const auto whole = static_cast<double>(axis.boundsEnd() - axis.boundsBegin());
        m_canvas->viewport().setBegin(static_cast<double>(axis.boundsBegin()) + whole * value / kScrollUnits);
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
    m_hits.clear();
    m_canvas->modelChanged(!first);
    refreshFooter();
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
    m_whose->setCurrentIndex(kMeasuredPlan);
    m_model.resetMeasured(state()->measured(), state()->measuredIndex());
    showSource();
    m_model.setAnchorStep(m_model.lastWholeRound());
    m_legend->setKinds(m_model.kinds());
    m_hits.clear();
    m_autoStep = true;
    refreshStepBox();
    m_canvas->modelChanged(false);
    m_canvas->setFollow(state()->run().active());
    refreshFooter();
}

void TimelineView::onMeasuredAppended(std::size_t first)
{
    const bool wasEmpty = !m_model.hasMeasured();
    m_model.appendMeasured(state()->measured(), first);
    if (m_autoStep)
        m_model.setAnchorStep(m_model.lastWholeRound()); // the newest steps are going on
    refreshStepBox();
    if (wasEmpty && state()->run().active())
        m_canvas->setFollow(true);
    else
        m_canvas->modelChanged(true);
    refreshFooter();
}

void TimelineView::onRunChanged()
{
    refreshFooter();
    const bool ended = m_runActive && !state()->run().active();
    m_runActive = state()->run().active();
    if (ended && m_canvas->viewport().follows())
        m_canvas->viewport().showStep(m_model.anchorStep()); // the newest whole round, side by side with its prediction
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
    refreshFooter();
}

void TimelineView::refreshScrollBars()
{
    m_settingBars = true;
    const TimeAxis &axis = m_canvas->viewport().axis();
    m_vertical->setRange(0, std::max(0, m_model.layout().height() - m_canvas->viewport().rows().height()));
    m_vertical->setPageStep(m_canvas->viewport().rows().height());
    m_vertical->setValue(m_canvas->viewport().scroll());
    const double whole = std::max(1.0, static_cast<double>(axis.boundsEnd() - axis.boundsBegin()));
    const int page = std::clamp(static_cast<int>(axis.span() / whole * kScrollUnits), 1, kScrollUnits);
    m_horizontal->setRange(0, kScrollUnits - page);
    m_horizontal->setPageStep(page);
    m_horizontal->setSingleStep(std::max(page / 10, 1));
    m_horizontal->setValue(
        static_cast<int>((axis.begin() - static_cast<double>(axis.boundsBegin())) / whole * kScrollUnits));
    m_settingBars = false;
}

void TimelineView::refreshFooter()
{
    QStringList facts;
    if (!m_search->text().isEmpty())
        facts << (m_hits.empty() ? tr("no task \"%1\"").arg(m_search->text())
                                 : tr("task %1 of %2").arg(m_hit + 1).arg(m_hits.size()));
    const bool measured = m_model.hasMeasured();
    if (const auto &simulation = measured ? state()->measuredOrigin().simulation : state()->simulation()) {
        facts << tr("predicted iteration %1").arg(secondsText(simulation->report.iterationSeconds));
        facts << tr("bubbles %1 of compute time").arg(percentText(simulation->report.bubbleFraction));
        if (state()->previousReport() && simulation == state()->simulation())
            facts << tr("last edit: %1")
                         .arg(changeText(state()->previousReport()->iterationSeconds,
                                         simulation->report.iterationSeconds));
    }
    if (m_model.anchorStep() >= 0)
        addMeasuredFacts(facts);
    if (const QString origin = originText(); !origin.isEmpty())
        facts << origin;
    m_footer->setText(facts.join(QStringLiteral("   ·   ")));
    m_footer->setVisible(!facts.isEmpty());
    refreshPage();
    const bool ofOther = !state()->measured().ranks.empty() && !state()->measuredIsOfDocument();
    m_openPlan->setVisible(ofOther && state()->measuredOrigin().lacksPlan());
}

void TimelineView::addMeasuredFacts(QStringList &facts) const
{
    if (!m_model.hasStep(m_model.anchorStep())) {
        facts << tr("no records of step %1").arg(m_model.anchorStep());
        return;
    }
    const trace::Round round = m_model.round(m_model.anchorStep());
    const double seconds = round.secondsPerStep();
    const QString clock = tr(m_model.clockName(true));
    facts << (round.steps > 1 ? tr("%1 steps %2 to %3: %4 each")
                                    .arg(clock)
                                    .arg(round.first)
                                    .arg(round.first + round.steps - 1)
                                    .arg(secondsText(seconds))
                              : tr("%1 step %2: %3").arg(clock).arg(round.first).arg(secondsText(seconds)));
    const auto &own = state()->measuredOrigin().simulation;
    if (own && own->report.iterationSeconds > 0)
        facts.last() += tr(" (%1 × predicted)").arg(seconds / own->report.iterationSeconds, 0, 'f', 2);
    facts << (m_model.dropped() > 0 ? tr("! %1 records lost").arg(m_model.dropped()) : tr("no record lost"));
}

/// Whose plan the measurement is, where it is not the open one.
QString TimelineView::originText() const
{
    if (state()->measured().ranks.empty() || state()->measuredIsOfDocument())
        return {};
    const PlanOrigin &origin = state()->measuredOrigin();
    const QString clock = tr(m_model.clockName(true));
    const QString shown = m_model.hasMeasured() ? tr("%1 trace of %2") : tr("%1 trace of %2, not shown");
    if (!origin.name.isEmpty())
        return shown.arg(clock, origin.name);
    const QString known = origin.lacksPlan() ? tr("open its plan to compare") : tr("it does not say of which plan");
    return shown.arg(clock, origin.contents) + QStringLiteral("; ") + known;
}

void TimelineView::refreshTable()
{
    const bool wasEmpty = m_tableSlices.empty();
    m_tableSlices.clear();
    if (!m_asTable->isChecked()) { // what the rows point to may be gone when it is shown again
        if (!wasEmpty)
            m_table->set({});
        return;
    }
    TableData table{{tr("Task"), tr("Kind"), tr("Device"), tr("Clock"), tr("Start"), tr("Duration"),
                     tr("Measured / predicted")},
                    {}};
    const TimeAxis &axis = m_canvas->viewport().axis();
    const QString beside = m_model.hasMeasured() && m_model.offset() != 0
        ? tr(" (from the start of step %1)").arg(m_model.anchorStep())
        : QString();
    const auto clock = [&](bool measured) { return tr(m_model.clockName(measured)) + (measured ? QString() : beside); };
    for (const auto &row : m_model.rows()) {
        if (m_tableSlices.size() == kTableLimit)
            break;
        const std::int64_t offset = row.measured ? 0 : m_model.offset();
        const auto [first, last] =
            m_model.slices(row).within({std::llround(axis.begin()) - offset, std::llround(axis.end()) - offset});
        for (std::uint32_t index = first; index < last && m_tableSlices.size() < kTableLimit; ++index) {
            const TimelineModel::Slice slice{row.measured, row.lod, index};
            const trace::Record record = m_model.record(slice);
            const trace::TaskInfo &task = m_model.task(slice);
            const trace::KindInfo &kind = m_model.kind(slice);
            Cell ratio{QStringLiteral("–"), 0.0};
            if (const auto twin = m_model.hasMeasured() ? m_model.counterpart(slice) : std::nullopt) {
                const auto other = static_cast<double>(m_model.record(*twin).duration);
                const auto own = static_cast<double>(record.duration);
                const double value = row.measured ? own / std::max(other, 1.0) : other / std::max(own, 1.0);
                ratio = {QString::number(value, 'f', 2), value};
            }
            table.rows.push_back({{qt(task.id), {}},
                                  {qt(kind.name), {}, theme().hue(kind.hue)},
                                  {qt(m_model.device(slice)), {}},
                                  {clock(row.measured), {}},
                                  {instantText(record.start), static_cast<double>(record.start)},
                                  {nanosecondsText(record.duration), static_cast<double>(record.duration)},
                                  ratio});
            m_tableSlices.push_back(slice);
        }
    }
    m_table->set(std::move(table));
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
    if (by == 0 || m_hits.empty()) {
        m_hits = m_model.search(m_search->text().toStdString());
        m_hit = 0;
    } else {
        const auto size = static_cast<std::ptrdiff_t>(m_hits.size());
        m_hit = static_cast<std::size_t>((static_cast<std::ptrdiff_t>(m_hit) + by + size) % size);
    }
    showFound();
}

void TimelineView::showFound()
{
    refreshFooter();
    if (m_search->text().isEmpty() || m_hits.empty())
        return;
    const auto hit = m_hits[m_hit];
    onPicked(m_model.task(hit).id, m_model.device(hit));
    m_canvas->viewport().reveal(hit);
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

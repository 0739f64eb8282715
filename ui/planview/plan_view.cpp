// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/plan_view.h"

#include "engine/plan/node_spans.h"
#include "engine/plan/stage_edits.h"
#include "ui/planview/plan_summary.h"
#include "ui/planview/refusal_tip.h"
#include "ui/planview/stage_figures.h"
#include "ui/planview/stage_locks.h"
#include "ui/planview/why_table.h"
#include "ui/state/plan_shape.h"
#include "planners/common/alternatives.h"
#include "ui/widgets/tabs.h"
#include "ui/widgets/text.h"

#include <QResizeEvent>
#include <QVBoxLayout>

namespace planloom::ui {

namespace {

constexpr int kSummaryLines = 2;
constexpr double kSideBySide = 2.2; // width over height from which bars and table stand beside each other

} // namespace

PlanView::PlanView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_controls(new PlanControls(state, this)),
      m_admm(new AdmmControls(state, this)),
      m_summary(new QLabel(this)),
      m_estimate(new QLabel(this)),
      m_splitter(new QSplitter(Qt::Horizontal, this)),
      m_bars(new LayerBars(this)),
      m_tabs(new QTabWidget(this)),
      m_search(new QLineEdit(this)),
      m_stages(new DataTable(this)),
      m_alternatives(new AlternativesPanel(state, this)),
      m_annotations(new DataTable(this)),
      m_exchange(new ExchangeTab(state, this)),
      m_whyTab(new QWidget(m_tabs)),
      m_whyText(new QLabel(this)),
      m_why(new DataTable(this)),
      m_seen(new WhenSeen(this, [this] { refresh(); })),
      m_predictionSeen(new WhenSeen(this, [this] { refreshPrediction(); })),
      m_selectionSeen(new WhenSeen(this, [this] { showSelection(); })),
      m_stagesSeen(new WhenSeen(m_stages, [this] { refreshStages(); })),
      m_alternativesSeen(new WhenSeen(m_alternatives, [this] { m_alternatives->refresh(); })),
      m_annotationsSeen(new WhenSeen(m_annotations, [this] { refreshAnnotations(); })),
      m_whySeen(new WhenSeen(m_whyTab, [this] { refreshWhy(); }))
{
    build();
    connectParts();
    makeCommands();
    connect(state, &StudioState::documentChanged, m_seen, &WhenSeen::ask);
    connect(state, &StudioState::simulationChanged, m_predictionSeen, &WhenSeen::ask);
    connect(state, &StudioState::busyChanged, m_predictionSeen, &WhenSeen::ask);
    connect(state, &StudioState::notesChanged, m_whySeen, &WhenSeen::ask);
    connect(state, &StudioState::selectionChanged, m_selectionSeen, &WhenSeen::ask);
    m_seen->ask();
}

/// A field that is being written in is taken over when the window goes: that must not reach a view that is half gone.
PlanView::~PlanView()
{
    disconnect(m_stages->tableModel(), nullptr, this, nullptr);
    disconnect(m_annotations->tableModel(), nullptr, this, nullptr);
}

void PlanView::build()
{
    for (QLabel *label : {m_summary, m_estimate}) {
        label->setWordWrap(true);
        label->setTextInteractionFlags(Qt::TextSelectableByMouse);
        label->setContentsMargins(8, 0, 8, 0);
    }
    // Always as high: what stands below must not move when the figures change.
    m_summary->setFixedHeight(kSummaryLines * m_summary->fontMetrics().lineSpacing());
    m_estimate->setFixedHeight(m_estimate->fontMetrics().lineSpacing());
    for (QLabel *label : {m_summary, m_estimate})
        label->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    m_summary->setAccessibleName(tr("Prediction"));
    m_estimate->setAccessibleName(tr("The planner's own estimate"));
    m_estimate->setForegroundRole(QPalette::PlaceholderText);
    m_search->setPlaceholderText(tr("Search"));
    m_search->setToolTip(tr("Show the stages and scopes with this text"));
    m_search->setClearButtonEnabled(true);
    m_search->setAccessibleName(tr("Search stages and scopes"));
    m_search->setMaximumWidth(150);
    m_stages->setAccessibleName(tr("Stages of the plan"));
    m_annotations->setAccessibleName(tr("Annotations of scopes"));
    m_tabs->setDocumentMode(true);
    m_tabs->addTab(m_stages, tr("Stages"));
    m_tabs->addTab(m_alternatives, tr("Alternatives"));
    m_tabs->addTab(m_annotations, tr("Annotations"));
    fillWhyTab();
    m_tabs->addTab(m_whyTab, tr("Why"));
    m_tabs->addTab(m_exchange, tr("Exchange"));
    m_tabs->addTab(m_admm, tr("ADMM"));
    m_tabs->addTab(m_admm->sweeps(), tr("Sweeps"));
    m_tabs->addTab(m_admm->straggler(), tr("Slow worker"));
    m_tabs->setCornerWidget(m_search);
    m_splitter->addWidget(m_bars);
    m_splitter->addWidget(m_tabs);
    m_splitter->setChildrenCollapsible(false);
    m_splitter->setSizes({440, 560});
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(2);
    layout->addWidget(m_controls);
    layout->addWidget(m_summary);
    layout->addWidget(m_estimate);
    layout->addWidget(m_splitter, 1);
}

void PlanView::fillWhyTab()
{
    m_whyText->setWordWrap(true);
    m_whyText->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_whyText->setContentsMargins(8, 4, 8, 0);
    m_whyText->setAccessibleName(tr("Limiting factor of the plan"));
    m_why->setAccessibleName(tr("Time and memory by stage"));
    auto *layout = new QVBoxLayout(m_whyTab);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(m_whyText);
    layout->addWidget(m_why, 1);
}

void PlanView::connectParts()
{
    connect(m_why, &DataTable::rowPicked, this, [this](int row) { state()->selectStage(StageId(row)); });
    connect(m_search, &QLineEdit::textChanged, m_stages, &DataTable::setFilter);
    connect(m_search, &QLineEdit::textChanged, m_annotations, &DataTable::setFilter);
    connect(m_annotations->tableModel(), &TableModel::edited, this, [this](int row, int column, const QVariant &value) {
        editAt(*state(), m_annotations->viewport(), cellRect(*m_annotations, row, column), [&] {
            return editAnnotation(*state(), m_scopes.all()[static_cast<std::size_t>(row)].name, value.toString());
        });
    });
    connect(m_annotations, &DataTable::rowPicked, this, [this](int row) {
        const AnnotationScopes::Scope &scope = m_scopes.all()[static_cast<std::size_t>(row)];
        Selection next;
        next.time = state()->selection().time;
        next.layers = {scope.first, scope.last};
        state()->select(next);
    });
    connect(m_stages, &DataTable::rowPicked, this, [this](int row) { state()->selectStage(StageId(row)); });
    connect(m_stages->tableModel(), &TableModel::edited, this, [this](int row, int column, const QVariant &value) {
        editAt(*state(), m_stages->viewport(), cellRect(*m_stages, row, column), [&] {
            return editStage(*state(), static_cast<std::size_t>(row), static_cast<StageColumn>(column), value);
        });
    });
    connect(m_alternatives, &AlternativesPanel::taken, this, &PlanView::takeAlternative);
    connect(state(), &StudioState::keptPlansChanged, this, &PlanView::refreshTables);
    connect(m_bars, &LayerBars::boundaryMoved, this, &PlanView::moveBoundaryTo);
    connect(m_bars, &LayerBars::boundaryDragged, this, &PlanView::tryBoundaryAt);
    connect(m_bars, &LayerBars::dragCancelled, this, [this] { this->state()->endTrial(); });
    connect(m_bars, &LayerBars::splitAsked, this, &PlanView::split);
    connect(m_bars, &LayerBars::mergeAsked, this, &PlanView::merge);
    connect(m_bars, &LayerBars::stageLockAsked, this,
            [this](int stage) { toggleStageLock(*state(), static_cast<std::size_t>(stage)); });
    connect(m_bars, &LayerBars::boundaryLockAsked, this,
            [this](int boundary) { toggleBoundaryLock(*state(), static_cast<std::size_t>(boundary)); });
    connect(m_bars, &LayerBars::stagePicked, this, [this](int stage) { state()->selectStage(StageId(stage)); });
    connect(m_bars, &LayerBars::cleared, this, [this] { state()->clearSelection(); });
    connect(m_bars, &LayerBars::layerPicked, this, [this](std::size_t layer) {
        Selection next;
        next.time = state()->selection().time;
        next.layers = {layer, layer + 1};
        const auto &stages = state()->document()->plan.stages;
        for (std::size_t s = 0; s < stages.size(); ++s) {
            if (layer >= stages[s].firstLayer && layer < stages[s].lastLayer)
                next.stage = StageId(static_cast<std::int64_t>(s));
        }
        state()->select(next);
    });
}

void PlanView::makeCommands()
{
    const auto add = [this](const QString &text, const std::function<void()> &run) {
        auto *action = new QAction(text, this);
        connect(action, &QAction::triggered, this, run);
        m_commands << action;
    };
    add(tr("Split the stage in two of equal time"), [this] {
        if (const int stage = pickedStage(); stage >= 0)
            split(stage, balancedCut(*state()->document(), static_cast<std::size_t>(stage)));
    });
    add(tr("Merge the stage with the next one"), [this] {
        if (const int stage = pickedStage(); stage >= 0)
            merge(stage);
    });
    add(tr("Add a replica to the stage"), [this] { changeReplicas(1); });
    add(tr("Remove a replica from the stage"), [this] { changeReplicas(-1); });
    add(tr("Recompute the stage's activations, or keep them"), [this] {
        if (const int stage = pickedStage(); stage >= 0)
            editStage(*state(), static_cast<std::size_t>(stage), StageColumn::Recompute,
                      state()->document()->plan.stages[static_cast<std::size_t>(stage)].recompute
                          == plan::Recompute::None);
    });
    add(tr("Annotate a scope"), [this] {
        m_tabs->setCurrentWidget(m_annotations);
        m_search->setFocus();
    });
    add(tr("Change the exchange between replicas"), [this] { m_tabs->setCurrentWidget(m_exchange); });
    add(tr("Plan again as annotated"), [this] { planAsAnnotated(*state()); });
    add(tr("Keep the stage when planning again, or free it"), [this] {
        if (const int stage = pickedStage(); stage >= 0)
            toggleStageLock(*state(), static_cast<std::size_t>(stage));
    });
    add(tr("Keep the boundary when planning again, or free it"), [this] {
        if (const int boundary = m_bars->currentBoundary(); boundary >= 0)
            toggleBoundaryLock(*state(), static_cast<std::size_t>(boundary));
        else
            state()->say(MessageLevel::Warning, tr("Choose a boundary first: click it, or press ] at the stages."));
    });
    add(tr("Plan again with what is kept"), [this] { planWithLocks(*state()); });
    add(tr("Keep this plan beside the alternatives"), [this] {
        state()->keepDocument();
        m_tabs->setCurrentWidget(m_alternatives);
    });
    add(tr("Show all layers"), [this] { m_bars->fit(); });
    add(tr("Next stage boundary"), [this] { m_bars->setCurrentBoundary(m_bars->currentBoundary() + 1); });
    add(tr("Find a stage"), [this] {
        m_tabs->setCurrentWidget(m_stages);
        m_search->setFocus();
    });
}

// --- edits

bool PlanView::moveBoundaryTo(int boundary, std::size_t layer)
{
    const QString what = tr("Move the boundary of stages %1 and %2").arg(boundary).arg(boundary + 1);
    if (state()->keepTrial(what)) // where it was dropped it was tried last
        return true;
    return state()->editPlan(what,
                             [=](plan::Plan &plan) { moveBoundary(plan, static_cast<std::size_t>(boundary), layer); });
}

/// While it is dragged the plan is simulated with it.
void PlanView::tryBoundaryAt(int boundary, std::size_t layer)
{
    if (!state()->document())
        return;
    plan::Plan plan = state()->document()->plan;
    moveBoundary(plan, static_cast<std::size_t>(boundary), layer);
    if (!state()->tryPlan(std::move(plan)))
        state()->endTrial(); // dropped there it is refused with the reason
}

bool PlanView::split(int stage, std::size_t layer)
{
    if (!state()->document())
        return false;
    auto plan = splitStage(*state()->document(), static_cast<std::size_t>(stage), layer);
    if (plan)
        return state()->replacePlan(tr("Split stage %1").arg(stage), std::move(*plan));
    state()->say(MessageLevel::Error, qt(plan.error().text()));
    return false;
}

bool PlanView::merge(int stage)
{
    if (!state()->document())
        return false;
    auto plan = mergeWithNext(state()->document()->plan, static_cast<std::size_t>(stage));
    if (plan)
        return state()->replacePlan(tr("Merge stages %1 and %2").arg(stage).arg(stage + 1), std::move(*plan));
    state()->say(MessageLevel::Error, qt(plan.error().text()));
    return false;
}

bool PlanView::takeAlternative(int row)
{
    const auto rows = alternativeRows(*state());
    if (row < 0 || static_cast<std::size_t>(row) >= rows.size())
        return false;
    return state()->replacePlan(tr("Use alternative %1").arg(row + 1),
                                rows[static_cast<std::size_t>(row)].candidate.plan);
}

int PlanView::pickedStage()
{
    const StageId stage = state()->selection().stage;
    if (state()->document() && stage.valid() && stage.index() < state()->document()->plan.stages.size())
        return stage.value;
    state()->say(MessageLevel::Warning, tr("Select a stage first: click it in the plan, or select its row."));
    return -1;
}

void PlanView::changeReplicas(int by)
{
    const int stage = pickedStage();
    if (stage < 0)
        return;
    const auto replicas =
        static_cast<int>(state()->document()->plan.stages[static_cast<std::size_t>(stage)].devices.size());
    editStage(*state(), static_cast<std::size_t>(stage), StageColumn::Replicas, replicas + by);
}

// --- showing

const simulate::Report *PlanView::report() const
{
    return state()->simulationCurrent() ? &state()->simulation()->report : nullptr;
}

void PlanView::refresh()
{
    const auto &document = state()->document();
    m_bars->setDocument(document);
    for (QWidget *tab : std::initializer_list<QWidget *>{m_admm, m_admm->sweeps(), m_admm->straggler()})
        m_tabs->setTabVisible(m_tabs->indexOf(tab), m_admm->applies());
    const auto count = document ? document->plan.annotations.size() : 0;
    setTabText(*m_tabs, 2, count == 0 ? tr("Annotations") : tr("Annotations (%1)").arg(count));
    m_annotationsSeen->ask();
    refreshPrediction();
    showSelection();
}

void PlanView::refreshPrediction()
{
    const auto &document = state()->document();
    m_bars->setReport(report());
    if (!document) {
        m_summary->setText(tr("No plan. Run a planner with Plan ▸ Find a plan, or open a plan file."));
        m_estimate->clear();
        return refreshTables();
    }
    const QString name = shapeText(document->plan);
    if (report()) {
        m_summary->setText(name + QStringLiteral("  ·  ")
                           + predictionText(document->plan, *report(), state()->previousReport()));
        m_summary->setToolTip(m_summary->text());
        const QString estimate = estimateText(document->plan, *report());
        m_estimate->setText(estimate);
        m_estimate->setToolTip(estimate);
    } else if (!state()->simulating()) {
        m_summary->setText(tr("%1  ·  not simulated").arg(name));
    } else if (!state()->simulation()) {
        m_summary->setText(tr("%1  ·  simulating …").arg(name));
    }
    refreshTables();
}

void PlanView::refreshTables()
{
    const std::size_t count = state()->document() ? alternativeRows(*state()).size() : 0;
    setTabText(*m_tabs, 1, count == 0 ? tr("Alternatives") : tr("Alternatives (%1)").arg(count));
    m_stagesSeen->ask();
    m_alternativesSeen->ask();
    m_whySeen->ask();
}

void PlanView::refreshStages()
{
    const auto &document = state()->document();
    m_stages->set(document ? stageTable(*document, report(), report() ? state()->why().get() : nullptr) : TableData());
    m_stages->showRow(state()->selection().stage.value);
}

void PlanView::refreshWhy()
{
    if (!report() || !state()->why()) {
        m_whyText->setText(state()->document() ? tr("Available after the simulation.") : QString());
        m_why->set({});
        return;
    }
    plan::Why why = *state()->why();
    const planners::Candidate open{state()->document()->plan, report()->iterationSeconds,
                                   planners::fullestBytes(*report())};
    why.runnerUp = planners::runnerUpAmong(open, state()->alternatives());
    const plan::Document &document = *state()->document();
    std::vector<std::string> notes = plan::nodeSpanNotes(document.plan, *document.subject.cluster, &why);
    notes.insert(notes.end(), state()->notes().begin(), state()->notes().end());
    m_whyText->setText(whyText(why, report()->iterationSeconds) + notesText(notes));
    m_why->set(whyTable(why, report()->iterationSeconds));
}

void PlanView::refreshAnnotations()
{
    if (!state()->document()) {
        m_annotations->set({});
        return;
    }
    m_scopes.read(*state()->document());
    m_annotations->set(annotationTable(*state()->document(), m_scopes));
}

void PlanView::showSelection()
{
    m_stages->showRow(state()->selection().stage.value);
    m_bars->setSelection(state()->selection());
}

void PlanView::resizeEvent(QResizeEvent *event)
{
    View::resizeEvent(event);
    m_splitter->setOrientation(width() > kSideBySide * height() ? Qt::Horizontal : Qt::Vertical);
}

} // namespace planloom::ui

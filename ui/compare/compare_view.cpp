// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/compare/compare_view.h"

#include "ui/compare/kernel_table.h"
#include "ui/state/opened_files.h"
#include "ui/state/plan_shape.h"
#include "ui/widgets/text.h"

#include <QAction>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QScrollArea>
#include <QVBoxLayout>

#include <cmath>
#include <utility>

namespace planloom::ui {

namespace {

using Kind = CompareSource::Kind;

double medianOf(const compare::Side &side) { return side.measured ? side.measured->iterationSecondsMedian : 0; }

Cell figureCell(const std::string &text, const std::optional<double> &value)
{
    return {qt(text), value ? *value : -HUGE_VAL}; // without a value: first where sorted
}

} // namespace

CompareView::CompareView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_boxes{new SourceBox(this), new SourceBox(this)},
      m_swap(new QPushButton(tr("S&wap"), this)),
      m_note(new ElidedLabel(this)),
      m_stack(new QStackedWidget(this)),
      m_seen(new WhenSeen(this, [this] { refresh(); })),
      m_job(tr("Comparing"))
{
    auto *top = new QHBoxLayout;
    for (const int side : {0, 1}) {
        auto *label = new QLabel(side == 0 ? tr("&A") : tr("&B"), this);
        label->setBuddy(m_boxes[side]);
        m_boxes[side]->setAccessibleName(side == 0 ? tr("Side A") : tr("Side B"));
        top->addWidget(label);
        top->addWidget(m_boxes[side], 1);
        connect(m_boxes[side], &SourceBox::chosen, this, [this] { m_seen->ask(); });
    }
    m_swap->setToolTip(tr("A becomes B, and B becomes A"));
    top->addWidget(m_swap);
    m_stack->addWidget(makeEmptyPage());
    m_stack->addWidget(makeTabs());
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 6, 8, 6);
    layout->addLayout(top);
    layout->addWidget(m_note);
    layout->addWidget(m_stack, 1);
    m_note->hide();
    connect(m_swap, &QPushButton::clicked, this, &CompareView::swapSides);
    auto *swap = new QAction(tr("Swap A and B"), this);
    connect(swap, &QAction::triggered, this, &CompareView::swapSides);
    auto *again = new QAction(tr("Read both again"), this);
    connect(again, &QAction::triggered, this, &CompareView::readAgain);
    m_commands = {swap, again};
    connect(state, &StudioState::documentChanged, this, [this] {
        refreshSources();
        m_seen->ask();
    });
    refreshSources();
    refreshEmptyText();
}

QWidget *CompareView::makeEmptyPage()
{
    auto *page = new QWidget(this);
    m_emptyText = new QLabel(page);
    m_emptyText->setWordWrap(true);
    m_emptyText->setAlignment(Qt::AlignHCenter);
    auto *plan = new QPushButton(tr("Choose a &plan file…"), page);
    auto *run = new QPushButton(tr("Choose a &run…"), page);
    run->setObjectName(QStringLiteral("chooseRun"));
    auto *trace = new QPushButton(tr("Choose a &trace…"), page);
    auto *buttons = new QHBoxLayout;
    buttons->addStretch(1);
    buttons->addWidget(plan);
    buttons->addWidget(run);
    buttons->addWidget(trace);
    buttons->addStretch(1);
    auto *layout = new QVBoxLayout(page);
    layout->addStretch(1);
    layout->addWidget(m_emptyText);
    layout->addLayout(buttons);
    layout->addStretch(2);
    const auto next = [this] { return m_boxes[m_boxes[0]->source().kind == Kind::None ? 0 : 1]; };
    connect(plan, &QPushButton::clicked, this, [next] { next()->askForPlan(); });
    connect(run, &QPushButton::clicked, this, [next] { next()->askForRun(); });
    connect(trace, &QPushButton::clicked, this, [next] { next()->askForTrace(); });
    return page;
}

QWidget *CompareView::makeTabs()
{
    m_tabs = new QTabWidget(this);
    m_tabs->setDocumentMode(true);
    m_figures = new DataTable(m_tabs);
    m_figures->setAccessibleName(tr("Figures of A and B"));
    m_differences = new DataTable(m_tabs);
    m_differences->setAccessibleName(tr("What changes in the plan from A to B"));
    m_waterfall = new WaterfallChart(m_tabs);
    auto *scroll = new QScrollArea(m_tabs);
    scroll->setWidget(m_waterfall);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    auto *timelines = new QWidget(m_tabs);
    m_lanes = new LanePair(timelines);
    m_legend = new Legend(timelines);
    auto *column = new QVBoxLayout(timelines);
    column->setContentsMargins(0, 0, 0, 0);
    column->addWidget(m_lanes, 1);
    column->addWidget(m_legend);
    m_histogram = new StepHistogram(m_tabs);
    m_kernels = new DataTable(m_tabs);
    m_kernels->setAccessibleName(tr("Kernels of A and B"));
    m_tabs->addTab(m_kernels, tr("Kernels"));
    m_tabs->addTab(m_figures, tr("Figures"));
    m_tabs->addTab(scroll, tr("Waterfall"));
    m_tabs->addTab(timelines, tr("Timelines"));
    m_tabs->addTab(m_histogram, tr("Step times"));
    m_tabs->addTab(m_differences, tr("Plans"));
    showTabs(false);
    return m_tabs;
}

/// Traces have kernels and timelines only.
void CompareView::showTabs(bool ofTraces)
{
    const bool changes = m_tabs->isTabVisible(m_tabs->indexOf(m_kernels)) != ofTraces;
    for (int tab = 0; tab < m_tabs->count(); ++tab) {
        const QWidget *page = m_tabs->widget(tab);
        const bool isTimelines = page->isAncestorOf(m_lanes);
        m_tabs->setTabVisible(tab, isTimelines || (page == m_kernels) == ofTraces);
    }
    if (changes)
        m_tabs->setCurrentWidget(ofTraces ? m_kernels : m_figures);
}

// --- what is compared

void CompareView::setSource(int side, const CompareSource &source)
{
    m_boxes[side]->setSource(source);
    m_seen->ask();
}

void CompareView::compareRuns(const QString &a, const QString &b)
{
    m_boxes[0]->setSource({Kind::RunFolder, QFileInfo(a).absoluteFilePath(), -1});
    m_boxes[1]->setSource({Kind::RunFolder, QFileInfo(b).absoluteFilePath(), -1});
    m_seen->ask();
}

void CompareView::swapSides()
{
    const CompareSource a = m_boxes[0]->source();
    m_boxes[0]->setSource(m_boxes[1]->source());
    m_boxes[1]->setSource(a);
    std::swap(m_read[0], m_read[1]);
    m_seen->ask();
}

void CompareView::readAgain()
{
    for (Read &read : m_read)
        read = {};
    m_seen->ask();
}

/// The open plan becomes A where nothing has been chosen; a plan that is closed is no side any more.
void CompareView::refreshSources()
{
    const bool hasPlan = state()->document() != nullptr;
    QStringList alternatives;
    for (const planners::Candidate &candidate : state()->alternatives())
        alternatives << tr("%1, %2").arg(shapeText(candidate.plan), secondsText(candidate.simulatedSeconds));
    for (SourceBox *box : m_boxes) {
        if (!hasPlan && box->source().kind == Kind::OpenPlan)
            box->setSource({});
        box->setPlans(hasPlan, alternatives);
    }
    if (hasPlan && m_boxes[0]->source().kind == Kind::None && m_boxes[1]->source().kind != Kind::OpenPlan)
        m_boxes[0]->setSource({Kind::OpenPlan, {}, -1});
}

/// Null: the source needs a plan that is not open.
std::function<Result<compare::Side>()> CompareView::readerOf(const CompareSource &source) const
{
    const auto document = state()->document();
    const std::string path = source.path.toStdString();
    const std::string name = SourceBox::textOf(source).toStdString();
    switch (source.kind) {
    case Kind::OpenPlan:
        if (document)
            return [document, name] { return compare::sideOf(*document, name); };
        break;
    case Kind::Alternative: {
        const auto &all = state()->alternatives();
        const auto place = static_cast<std::size_t>(source.alternative);
        if (document && source.alternative >= 0 && place < all.size())
            return [document, plan = all[place].plan, name] {
                return compare::sideOf({plan, document->subject}, name);
            };
        break;
    }
    case Kind::PlanFile:
        return [path]() -> Result<compare::Side> {
            auto read = plan::readPlan(path);
            return read ? compare::sideOf(*std::move(read), path) : read.error();
        };
    case Kind::RunFolder:
        return [path, read = std::vector{m_read[0].side, m_read[1].side}] { return compare::sideOfRun(path, read); };
    case Kind::TraceFile: // compared with traces only
    case Kind::None: break;
    }
    return nullptr;
}

// --- work

void CompareView::refresh()
{
    if (m_boxes[0]->source().kind == Kind::TraceFile && m_boxes[1]->source().kind == Kind::TraceFile)
        return refreshTraces();
    const auto document = state()->document();
    std::function<Result<compare::Side>()> readers[2];
    SidePtr known[2];
    for (const int side : {0, 1}) {
        const CompareSource &source = m_boxes[side]->source();
        readers[side] = readerOf(source);
        const bool ofDocument = source.kind == Kind::OpenPlan || source.kind == Kind::Alternative;
        if (m_read[side].source == source && (!ofDocument || m_read[side].document == document))
            known[side] = m_read[side].side;
    }
    if (!readers[0] || !readers[1]) {
        m_job.abandon();
        m_comparison.reset();
        m_note->hide();
        m_stack->setCurrentIndex(0);
        refreshEmptyText();
        return;
    }
    showNote(tr("Comparing"));
    m_job.ask([this, document, readA = readers[0], readB = readers[1], a = known[0],
               b = known[1]](Progress &) -> Job::Completion {
        const std::function<Result<compare::Side>()> both[2] = {readA, readB};
        const SidePtr sides[2] = {a, b};
        return [this, document, made = answer(both, sides)] { take(made, document); };
    });
}

CompareView::Answer CompareView::answer(const std::function<Result<compare::Side>()> readers[2], const SidePtr known[2])
{
    Answer made;
    for (const int side : {0, 1}) {
        made.sides[side] = known[side];
        if (made.sides[side])
            continue;
        auto read = readers[side]();
        if (!read) {
            made.problem =
                tr("%1: %2").arg(side == 0 ? QStringLiteral("A") : QStringLiteral("B"), qt(read.error().text()));
            return made;
        }
        made.sides[side] = std::make_shared<const compare::Side>(*std::move(read));
    }
    made.comparison = std::make_shared<const compare::Comparison>(compare::compare(*made.sides[0], *made.sides[1]));
    for (const int side : {0, 1})
        if (const auto &trace = made.comparison->traceOf(side == 1))
            made.indexes[side] = std::make_shared<const trace::Index>(trace);
    return made;
}

void CompareView::refreshTraces()
{
    showNote(tr("Comparing"));
    m_comparison.reset();
    m_job.ask([this, a = m_boxes[0]->source().path, b = m_boxes[1]->source().path](Progress &progress) {
        return [this, made = traceAnswer(a, b, progress)] { takeTraces(made); };
    });
}

CompareView::TraceAnswer CompareView::traceAnswer(const QString &a, const QString &b, Progress &progress)
{
    TraceAnswer made;
    std::shared_ptr<const trace::Trace> traces[2];
    for (const int side : {0, 1}) {
        auto read = readTraceFiles({side == 0 ? a : b}, progress);
        if (!read) {
            made.problem =
                tr("%1: %2").arg(side == 0 ? QStringLiteral("A") : QStringLiteral("B"), qt(read.error().text()));
            return made;
        }
        traces[side] = std::make_shared<const trace::Trace>(std::move(read->trace));
        made.indexes[side] = std::make_shared<const trace::Index>(traces[side]);
    }
    made.changes = analysis::kernelChanges(*traces[0], *traces[1]);
    return made;
}

void CompareView::takeTraces(const TraceAnswer &answer)
{
    m_stack->setCurrentIndex(answer.problem.isEmpty() ? 1 : 0);
    if (!answer.problem.isEmpty())
        return showNote(QStringLiteral("! ") + answer.problem);
    for (const int side : {0, 1})
        m_indexes[side] = answer.indexes[side];
    showTabs(true);
    m_kernels->set(kernelTable(answer.changes));
    m_lanes->set(m_indexes[0], m_indexes[1], {});
    m_legend->setKinds(m_lanes->kinds());
    showNote(kernelText(answer.changes));
}

void CompareView::take(Answer answer, const std::shared_ptr<const plan::Document> &document)
{
    for (const int side : {0, 1})
        m_read[side] = {m_boxes[side]->source(), document, answer.sides[side]};
    m_comparison = answer.comparison;
    m_indexes[0] = answer.indexes[0];
    m_indexes[1] = answer.indexes[1];
    m_stack->setCurrentIndex(m_comparison ? 1 : 0);
    showTabs(false);
    if (m_comparison)
        showComparison();
    else
        refreshEmptyText();
    showNote(answer.problem.isEmpty() ? QString() : QStringLiteral("! ") + answer.problem);
}

void CompareView::showComparison()
{
    const compare::Comparison &compared = *m_comparison;
    showFigures();
    TableData changes{{tr("From A to B")}, {}};
    for (const std::string &line : compared.differences)
        changes.rows.push_back({{qt(line), {}}});
    if (changes.rows.empty())
        changes.rows.push_back({{tr("the plans are the same"), {}}});
    m_differences->set(std::move(changes));
    m_waterfall->set(compared.waterfall);
    m_lanes->set(m_indexes[0], m_indexes[1], qt(compared.waterfall.missing));
    m_legend->setKinds(m_lanes->kinds());
    m_histogram->set(compared.histogram, medianOf(compared.a), medianOf(compared.b));
}

void CompareView::showFigures()
{
    TableData table{{tr("Group"), tr("Figure"), tr("A"), tr("B"), tr("Δ"), tr("Δ %")}, {}};
    for (const compare::Figure &figure : m_comparison->figures)
        table.rows.push_back({{qt(figure.group), {}},
                              {qt(figure.name), {}},
                              figureCell(compare::valueText(figure.unit, figure.a), figure.a),
                              figureCell(compare::valueText(figure.unit, figure.b), figure.b),
                              figureCell(compare::deltaText(figure), figure.delta()),
                              figureCell(compare::changeText(figure), figure.change())});
    m_figures->set(std::move(table));
}

/// @p problem, or what the comparison has to say of itself.
void CompareView::showNote(const QString &problem)
{
    QStringList texts;
    if (!problem.isEmpty())
        texts << problem;
    else if (m_comparison)
        for (const std::string &note : m_comparison->notes)
            texts << qt(note);
    m_note->setText(texts.join(QStringLiteral("  ·  ")));
    m_note->setVisible(!texts.isEmpty());
}

void CompareView::refreshEmptyText()
{
    const bool hasA = m_boxes[0]->source().kind != Kind::None;
    const bool isTrace = m_boxes[0]->source().kind == Kind::TraceFile || m_boxes[1]->source().kind == Kind::TraceFile;
    if (isTrace)
        return m_emptyText->setText(tr("A trace is compared with another trace: choose one on both sides."));
    m_emptyText->setText(hasA ? tr("A is chosen. Choose B: a plan or a run to compare it with.")
                              : tr("Choose two plans or runs to compare them: step time, memory, kinds of work, "
                                   "timelines; or two traces: kernels, timelines."));
}

} // namespace planloom::ui

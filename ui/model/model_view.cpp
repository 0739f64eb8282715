// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/model_view.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QFileDialog>
#include <QHBoxLayout>
#include <QPainter>
#include <QVBoxLayout>
#include <algorithm>

namespace planloom::ui {
namespace {

constexpr int kMostPixels = 16'000; // of a side of a picture

/// A picture of more boxes cannot be read, and takes long to lay out: of a larger graph a window is shown.
constexpr std::size_t kMostBoxes = 300;

bool overlap(const GraphNode &node, const LayerRange &layers)
{
    return !layers.empty() && node.firstLayer < layers.last && layers.first < node.lastLayer;
}

} // namespace

ModelView::ModelView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_summary(new QLabel(this)),
      m_search(new SearchBar(this)),
      m_cancel(new QPushButton(tr("Cancel"), this)),
      m_note(new QLabel(this)),
      m_tabs(new QTabWidget(this)),
      m_page(new GraphPage(this)),
      m_canvas(m_page->canvas()),
      m_table(new DataTable(this)),
      m_whenSeen(new WhenSeen(this, [this] { askFigures(); }))
{
    build();
    makeCommands();
    connectState();
    modelChanged();
}

void ModelView::connectState()
{
    connect(state(), &StudioState::modelChanged, this, &ModelView::modelChanged);
    connect(state(), &StudioState::clusterChanged, this, &ModelView::modelChanged);
    connect(state(), &StudioState::documentChanged, this, [this] {
        refreshTable();
        m_whenSeen->ask();
    });
    connect(state(), &StudioState::selectionChanged, this, &ModelView::selectionChanged);
    connect(&m_dot, &DotProcess::finished, this, &ModelView::laidOut);
    connect(&m_dot, &DotProcess::failed, this, [this](const QString &reason) {
        m_cancel->hide();
        m_note->setText(reason);
        m_note->show();
    });
    connect(m_cancel, &QPushButton::clicked, &m_dot, &DotProcess::cancel);
    connect(m_canvas, &GraphCanvas::activated, this, &ModelView::toggle);
    connect(m_canvas, &GraphCanvas::closeAround, this, &ModelView::closeAround);
    connect(m_canvas, &GraphCanvas::closeAsked, this,
            [this](const QString &scope) { closeScope(scope.toStdString()); });
    connect(m_canvas, &GraphCanvas::picked, this, &ModelView::pick);
    connect(m_search, &SearchBar::textChanged, m_table, &DataTable::setFilter);
    connect(m_search, &SearchBar::picked, this, [this](const QString &key) { reveal(key.toStdString()); });
    connect(m_search, &SearchBar::left, m_canvas, qOverload<>(&QWidget::setFocus));
    connect(m_tabs, &QTabWidget::currentChanged, m_search,
            [this] { m_search->setListShown(m_tabs->currentWidget() == m_page); });
    connect(m_table, &DataTable::rowPicked, this, [this](int row) {
        Selection next;
        next.layers = {static_cast<std::size_t>(row), static_cast<std::size_t>(row) + 1};
        state()->select(next);
    });
}

void ModelView::build()
{
    m_summary->setWordWrap(true);
    m_table->setAccessibleName(tr("Layers of the model"));
    m_note->setWordWrap(true);
    m_note->hide();
    m_cancel->hide();
    m_cancel->setToolTip(tr("Cancel the graph layout"));
    m_tabs->addTab(m_page, tr("Graph"));
    m_tabs->addTab(m_table, tr("Layers"));
    m_tabs->setCornerWidget(m_page->controls(), Qt::TopRightCorner);
    auto *bar = new QHBoxLayout;
    bar->addWidget(m_search, 1);
    bar->addWidget(m_cancel, 0, Qt::AlignTop);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 8, 8, 8);
    layout->addWidget(m_summary);
    layout->addLayout(bar);
    layout->addWidget(m_note);
    layout->addWidget(m_tabs, 1);
}

void ModelView::makeCommands()
{
    const auto add = [this](const QString &text, auto method, const QKeySequence &key = {}) {
        auto *action = new QAction(text, this);
        connect(action, &QAction::triggered, this, method);
        action->setShortcut(key);
        action->setShortcutContext(Qt::WidgetWithChildrenShortcut);
        addAction(action);
        m_commands.append(action);
        return action;
    };
    add(tr("Open all scopes"), &ModelView::openAll);
    add(tr("Close all scopes"), &ModelView::closeAll);
    add(tr("Fit the graph"), [this] { m_canvas->fit(); });
    add(
        tr("Find in the model"), [this] { m_search->focusField(); }, QKeySequence::Find);
    add(tr("Show the properties of the selected box"), [this] { m_page->showProperties(true); });
    add(tr("Show FLOPs and bytes in the boxes, or hide them"), [this] { showCards(!m_canvas->cardsShown()); });
    add(tr("Save the figures of all operators as CSV…"), [this] {
        const QString path = QFileDialog::getSaveFileName(this, tr("Save the figures"), QStringLiteral("operators.csv"),
                                                          tr("CSV (*.csv)"));
        if (!path.isEmpty())
            saveFigures(path);
    });
    const auto near = add(tr("Show the neighbourhood of the selected box, or widen it"), &ModelView::showNeighbourhood);
    const auto whole = add(tr("Show all boxes of the model"), &ModelView::showWhole);
    connect(m_canvas, &GraphCanvas::neighboursAsked, near, &QAction::trigger);
    connect(m_canvas, &GraphCanvas::wholeAsked, whole, &QAction::trigger);
    for (const auto &[name, by] : {std::pair(tr("stage"), ColorBy::Stage), std::pair(tr("device"), ColorBy::Device),
                                   std::pair(tr("FLOPs"), ColorBy::Flops), std::pair(tr("time"), ColorBy::Time),
                                   std::pair(tr("memory"), ColorBy::Memory)})
        add(tr("Colour the model by %1").arg(name), [this, by = by] { m_page->setColorBy(by); });
}

bool ModelView::showsGraph() const { return m_tabs->currentWidget() == m_page && !m_canvas->graph().nodes.empty(); }

QSize ModelView::pictureSize() const
{
    return showsGraph() ? m_page->pictureSize().toSize().boundedTo({kMostPixels, kMostPixels}) : View::pictureSize();
}

QString ModelView::pictureNote() const
{
    const QSizeF whole = m_page->pictureSize();
    const double larger = std::max(whole.width(), whole.height()) / kMostPixels;
    return showsGraph() && larger > 1
        ? tr("drawn at %1 of its size; close scopes for larger text").arg(percentText(1 / larger, 0))
        : QString();
}

void ModelView::paintPicture(QPainter &painter)
{
    if (!showsGraph())
        return View::paintPicture(painter);
    m_page->paintPicture(painter, pictureSize());
}

void ModelView::modelChanged()
{
    refreshTable();
    if (!state()->model()) {
        m_summary->setText(tr("No model. Open one with File ▸ Open model, or drop a file here."));
        m_search->setScopes(nullptr);
        m_page->setModel(nullptr);
        m_scopes.reset();
        m_shown.reset();
        return;
    }
    const std::shared_ptr<const graph::Graph> graph = state()->model()->graph;
    m_summary->setText(tr("%1: %2 operators, %3 of parameters")
                           .arg(qt(graph->name()))
                           .arg(graph->ops().size())
                           .arg(bytesText(graph->parameterBytes().value())));
    if (m_shown != state()->model()) {
        m_open.clear();
        m_around.clear();
        m_steps = 0;
    }
    m_search->setScopes(nullptr);
    m_page->setModel(graph);
    m_shown = state()->model();
    m_scopes = std::make_unique<ScopeGraph>(*graph, state()->subject() ? &state()->subject()->layers() : nullptr);
    m_search->setScopes(m_scopes.get());
    m_whenSeen->ask();
    openContainers();
    layOut();
}

/// Scopes that hold nothing but scopes (the list of a transformer's blocks) say little while closed: begin inside, as
/// long as all fits.
void ModelView::openContainers()
{
    bool opened = true;
    while (opened) {
        opened = false;
        const VisibleGraph before = m_scopes->visible(m_open);
        const auto found =
            std::ranges::find_if(before.nodes, [&](const GraphNode &node) { return mayOpenAtFirst(before, node); });
        if (found == before.nodes.end())
            continue;
        m_open.insert(found->key);
        opened = true;
    }
}

bool ModelView::mayOpenAtFirst(const VisibleGraph &before, const GraphNode &node) const
{
    constexpr std::size_t kFirstPicture = 40;
    const bool alone = before.nodes.size() == 1;
    if (!node.group || (node.repeats > 1 && !alone))
        return false;
    std::set<std::string> inside = m_open;
    inside.insert(node.key);
    const VisibleGraph after = m_scopes->visible(inside);
    const bool onlyScopes = std::ranges::all_of(after.nodes, [&](const GraphNode &each) {
        return each.group || !m_scopes->holds(node.key, each.firstOp());
    });
    return after.nodes.size() <= kFirstPicture && (onlyScopes || alone);
}

void ModelView::refreshTable()
{
    TableData table{{tr("Layer"), tr("Stage"), tr("Operators"), tr("Parameters"), tr("Cut before")}, {}};
    if (state()->model() && state()->subject()) {
        const graph::Graph &graph = *state()->model()->graph;
        const cost::CostModel &costs = *state()->subject()->costs;
        const graph::LayerView &view = costs.layers();
        for (std::size_t k = 0; k < view.size(); ++k) {
            const graph::Layer &layer = view.layers[k];
            const std::int64_t parameters = costs.parameterBytes(k, k + 1).value();
            const std::int64_t cut = view.cutBytes(graph, k, 1).value();
            const int operators = layer.last.value - layer.first.value;
            table.rows.push_back({{qt(layer.name), {}},
                                  stageCell(k),
                                  {QString::number(operators), operators},
                                  {bytesText(parameters), static_cast<double>(parameters)},
                                  {bytesText(cut), static_cast<double>(cut)}});
        }
    }
    m_table->set(std::move(table));
    showSelection();
}

Cell ModelView::stageCell(std::size_t layer) const
{
    if (const auto &document = state()->document()) {
        const auto &stages = document->plan.stages;
        for (std::size_t s = 0; s < stages.size(); ++s)
            if (layer >= stages[s].firstLayer && layer < stages[s].lastLayer)
                return {QString::number(s), static_cast<double>(s), theme().ofSeries(static_cast<int>(s))};
    }
    return {tr("–"), -1.0};
}

void ModelView::layOut()
{
    if (!m_scopes)
        return;
    m_whole = m_scopes->visible(m_open);
    if (m_steps > 0 && nodeAtOrIn(m_whole, m_around) >= 0)
        m_pending = neighbourhoodOf(m_whole, centre(), m_steps);
    else
        m_pending = m_whole;
    if (m_pending.nodes.size() > kMostBoxes) {
        m_pending = windowOf(m_whole, centre(), kMostBoxes);
        m_steps = 0;
    }
    showNote();
    m_cancel->show();
    m_dot.start(m_pending, m_canvas->sizesOf(m_pending));
}

void ModelView::showNote()
{
    const QString counts = tr("%L1 of %L2 operators and groups").arg(m_pending.nodes.size()).arg(m_whole.nodes.size());
    if (m_steps > 0)
        m_note->setText(tr("Showing %1, up to %2 edges away; N widens, Esc shows all").arg(counts).arg(m_steps));
    else
        m_note->setText(tr("Showing %1; search or select a layer to see others").arg(counts));
    m_note->setVisible(isWindow() || m_steps > 0);
}

/// The selected layers; where a stage or a task of it is selected without any, the stage's.
LayerRange ModelView::selectedLayers() const
{
    const Selection &selection = state()->selection();
    if (!selection.layers.empty() || !selection.stage.valid())
        return selection.layers;
    return selectionOfStage(selection.stage, state()->document().get()).layers;
}

/// The first box of the whole graph in the selected layers; -1: none.
int ModelView::selectedNode() const
{
    const LayerRange layers = selectedLayers();
    const auto found =
        std::ranges::find_if(m_whole.nodes, [&](const GraphNode &node) { return overlap(node, layers); });
    return found == m_whole.nodes.end() ? -1 : static_cast<int>(found - m_whole.nodes.begin());
}

/// The box of @p key, else the first one inside of it; -1: none.
int ModelView::nodeAtOrIn(const VisibleGraph &graph, const std::string &key) const
{
    if (const int node = graph.find(key); node >= 0 || key.empty())
        return node;
    const auto inside =
        std::ranges::find_if(graph.nodes, [&](const GraphNode &node) { return m_scopes->holds(key, node.firstOp()); });
    return inside == graph.nodes.end() ? -1 : static_cast<int>(inside - graph.nodes.begin());
}

/// The box that a window is around: what is searched for, what was opened or closed last, the selection, the top.
std::size_t ModelView::centre() const
{
    for (const int node : {nodeAtOrIn(m_whole, m_reveal), nodeAtOrIn(m_whole, m_around), selectedNode()}) {
        if (node >= 0)
            return static_cast<std::size_t>(node);
    }
    return 0;
}

void ModelView::laidOut(const PlainLayout &layout)
{
    m_cancel->hide();
    if (!m_scopes)
        return;
    const bool hadCurrent = m_canvas->current() >= 0;
    m_page->showGraph(m_pending, layout, m_around);
    const int revealed = m_reveal.empty() ? -1 : m_pending.find(m_reveal);
    m_reveal.clear();
    if (revealed >= 0) {
        m_canvas->setCurrent(revealed, true);
        selectLayersOf(m_pending.nodes[static_cast<std::size_t>(revealed)]);
    } else if (hadCurrent && m_canvas->current() < 0) { // it was opened: go inside
        m_canvas->setCurrent(nodeAtOrIn(m_pending, m_around), false);
    }
    showSelection();
}

void ModelView::toggle(int node)
{
    const GraphNode &box = m_canvas->graph().nodes[static_cast<std::size_t>(node)];
    if (!box.group) {
        closeAround(node);
        return;
    }
    m_open.insert(box.key);
    m_around = box.key;
    m_steps = 0;
    layOut();
}

void ModelView::closeAround(int node)
{
    if (m_scopes)
        closeScope(m_scopes->parentOf(m_canvas->graph().nodes[static_cast<std::size_t>(node)].key));
}

void ModelView::closeScope(const std::string &scope)
{
    if (scope.empty() || m_open.erase(scope) == 0)
        return;
    m_reveal = m_around = scope;
    m_steps = 0;
    layOut();
}

void ModelView::openAll()
{
    if (!m_scopes)
        return;
    const auto all = m_scopes->allScopes();
    m_open = {all.begin(), all.end()};
    layOut();
}

void ModelView::closeAll()
{
    m_open.clear();
    layOut();
}

/// Selects operator or scope @p key and shows its box, in a layout with the scopes around it open if there is none yet.
void ModelView::reveal(const std::string &key)
{
    if (!m_scopes)
        return;
    m_tabs->setCurrentWidget(m_page);
    if (const int node = m_canvas->graph().find(key); node >= 0 && !m_dot.running()) {
        m_canvas->setCurrent(node, true);
        pick(node);
        return;
    }
    const auto scopes = m_scopes->ancestors(key);
    m_open.insert(scopes.begin(), scopes.end());
    m_open.erase(key);
    m_reveal = m_around = key;
    m_steps = 0;
    layOut();
}

void ModelView::showNeighbourhood()
{
    if (m_canvas->current() < 0) {
        state()->say(MessageLevel::Info, tr("Select a box of the graph first."));
        return;
    }
    const GraphNode &box = m_canvas->graph().nodes[static_cast<std::size_t>(m_canvas->current())];
    m_steps = m_steps > 0 && m_around == box.key ? m_steps + 1 : 1;
    m_around = box.key;
    layOut();
}

void ModelView::showWhole()
{
    if (m_steps == 0)
        return;
    m_steps = 0;
    layOut();
}

void ModelView::selectLayersOf(const GraphNode &box)
{
    if (!state()->subject())
        return;
    Selection next = state()->selection();
    next.layers = {box.firstLayer, box.lastLayer};
    state()->select(next);
}

void ModelView::pick(int node)
{
    const GraphNode box = m_canvas->graph().nodes[static_cast<std::size_t>(node)];
    selectLayersOf(box);
    const bool atBorder = box.key == m_pending.nodes.front().key || box.key == m_pending.nodes.back().key;
    const bool atEnd = box.key == m_whole.nodes.front().key || box.key == m_whole.nodes.back().key;
    if (atBorder && !atEnd && m_steps == 0 && !m_dot.running()) { // the window goes along
        m_reveal = m_around = box.key;
        layOut();
    }
}

/// The current box follows what other views select.
void ModelView::selectionChanged()
{
    if (selectedLayers().empty())
        m_canvas->setCurrent(-1, false);
    showSelection();
}

void ModelView::showSelection()
{
    const LayerRange layers = selectedLayers();
    m_table->showRow(layers.empty() ? -1 : static_cast<int>(layers.first));
    std::vector<int> inside;
    const VisibleGraph &graph = m_canvas->graph();
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
        if (overlap(graph.nodes[n], layers))
            inside.push_back(static_cast<int>(n));
    m_canvas->highlight(inside);
    const bool elsewhere = std::ranges::find(inside, m_canvas->current()) == inside.end();
    if (!layers.empty() && elsewhere) {
        m_canvas->setCurrent(inside.empty() ? -1 : inside.front(), false);
        m_canvas->showCurrent();
    }
    if (inside.empty() && isWindow() && !m_dot.running() && selectedNode() >= 0) {
        m_around.clear();
        m_steps = 0;
        layOut();
    }
}

} // namespace planloom::ui

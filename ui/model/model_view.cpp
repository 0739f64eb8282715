// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/model_view.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QHBoxLayout>
#include <QPainter>
#include <QVBoxLayout>
#include <algorithm>

namespace planloom::ui {
namespace {

constexpr int kMostPixels = 16'000; // of a side of a picture

/// A picture of more boxes cannot be read, and takes long to lay out: of a larger graph a window is shown.
constexpr std::size_t kMostBoxes = 300;

/// The box of @p key, else the first one inside of it; -1: none.
int nodeAtOrIn(const VisibleGraph &graph, const std::string &key)
{
    if (const int node = graph.find(key); node >= 0 || key.empty())
        return node;
    const auto inside =
        std::ranges::find_if(graph.nodes, [&](const GraphNode &node) { return node.key.starts_with(key + "/"); });
    return inside == graph.nodes.end() ? -1 : static_cast<int>(inside - graph.nodes.begin());
}

} // namespace

ModelView::ModelView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_summary(new QLabel(this)),
      m_search(new QLineEdit(this)),
      m_cancel(new QPushButton(tr("Cancel"), this)),
      m_note(new QLabel(this)),
      m_tabs(new QTabWidget(this)),
      m_canvas(new GraphCanvas(this)),
      m_table(new DataTable(this))
{
    build();
    makeCommands();
    connect(state, &StudioState::modelChanged, this, &ModelView::modelChanged);
    connect(state, &StudioState::clusterChanged, this, &ModelView::modelChanged);
    connect(state, &StudioState::documentChanged, this, [this] {
        refreshTable();
        m_canvas->recolor(stageColors(m_canvas->graph()));
    });
    connect(state, &StudioState::selectionChanged, this, &ModelView::showSelection);
    connect(&m_dot, &DotProcess::finished, this, &ModelView::laidOut);
    connect(&m_dot, &DotProcess::failed, this, [this](const QString &reason) {
        m_cancel->hide();
        m_note->setText(reason);
        m_note->show();
    });
    connect(m_cancel, &QPushButton::clicked, &m_dot, &DotProcess::cancel);
    connect(m_canvas, &GraphCanvas::activated, this, &ModelView::toggle);
    connect(m_canvas, &GraphCanvas::closeAround, this, &ModelView::closeAround);
    connect(m_canvas, &GraphCanvas::picked, this, &ModelView::pick);
    connect(m_search, &QLineEdit::textChanged, m_table, &DataTable::setFilter);
    connect(m_search, &QLineEdit::returnPressed, this, &ModelView::findNext);
    connect(m_table, &DataTable::rowPicked, this, [this](int row) {
        Selection next;
        next.layers = {static_cast<std::size_t>(row), static_cast<std::size_t>(row) + 1};
        this->state()->select(next);
    });
    modelChanged();
}

void ModelView::build()
{
    m_summary->setWordWrap(true);
    m_search->setPlaceholderText(tr("Search operators and scopes; Enter goes to the next"));
    m_search->setClearButtonEnabled(true);
    m_search->setAccessibleName(tr("Search the model"));
    m_table->setAccessibleName(tr("Layers of the model"));
    m_note->setWordWrap(true);
    m_note->hide();
    m_cancel->hide();
    m_cancel->setToolTip(tr("Cancel the graph layout"));
    m_tabs->addTab(m_canvas, tr("Graph"));
    m_tabs->addTab(m_table, tr("Layers"));
    auto *bar = new QHBoxLayout;
    bar->addWidget(m_search, 1);
    bar->addWidget(m_cancel);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 8, 8, 8);
    layout->addWidget(m_summary);
    layout->addLayout(bar);
    layout->addWidget(m_note);
    layout->addWidget(m_tabs, 1);
}

void ModelView::makeCommands()
{
    const auto add = [this](const QString &text, auto method) {
        auto *action = new QAction(text, this);
        connect(action, &QAction::triggered, this, method);
        m_commands.append(action);
    };
    add(tr("Open all scopes"), &ModelView::openAll);
    add(tr("Close all scopes"), &ModelView::closeAll);
    add(tr("Fit the graph"), [this] { m_canvas->fit(); });
    add(tr("Find in the model"), [this] { m_search->setFocus(); });
}

bool ModelView::showsGraph() const { return m_tabs->currentWidget() == m_canvas && !m_canvas->graph().nodes.empty(); }

QSize ModelView::pictureSize() const
{
    return showsGraph() ? m_canvas->whole().size().toSize().boundedTo({kMostPixels, kMostPixels}) : View::pictureSize();
}

QString ModelView::pictureNote() const
{
    const QSizeF whole = m_canvas->whole().size();
    const double larger = std::max(whole.width(), whole.height()) / kMostPixels;
    return showsGraph() && larger > 1
        ? tr("drawn at %1 of its size; close scopes for larger text").arg(percentText(1 / larger, 0))
        : QString();
}

void ModelView::paintPicture(QPainter &painter)
{
    if (!showsGraph())
        return View::paintPicture(painter);
    painter.fillRect(QRect({}, pictureSize()), theme().base);
    m_canvas->paintWhole(painter, QRectF({}, pictureSize()));
}

void ModelView::modelChanged()
{
    refreshTable();
    if (!state()->model()) {
        m_summary->setText(tr("No model. Open one with File ▸ Open model, or drop a file here."));
        m_scopes.reset();
        m_shown.reset();
        m_canvas->show({}, {}, {});
        return;
    }
    const graph::Graph &graph = *state()->model()->graph;
    m_summary->setText(tr("%1: %2 operators, %3 of parameters")
                           .arg(qt(graph.name()))
                           .arg(graph.ops().size())
                           .arg(bytesText(graph.parameterBytes().value())));
    if (m_shown != state()->model()) {
        m_open.clear();
        m_around.clear();
    }
    m_shown = state()->model();
    m_scopes = std::make_unique<ScopeGraph>(graph, state()->subject() ? &state()->subject()->layers() : nullptr);
    openContainers();
    layOut();
}

/// Scopes that hold nothing but scopes (the list of a transformer's blocks) say little while closed: begin inside, as
/// long as all fits.
void ModelView::openContainers()
{
    constexpr std::size_t kFirstPicture = 40;
    bool opened = true;
    while (opened) {
        opened = false;
        const VisibleGraph before = m_scopes->visible(m_open);
        for (const GraphNode &node : before.nodes) {
            if (!node.group)
                continue;
            std::set<std::string> inside = m_open;
            inside.insert(node.key);
            const VisibleGraph after = m_scopes->visible(inside);
            const auto isInside = [&](const GraphNode &n) { return n.key.starts_with(node.key + "/"); };
            const bool onlyScopes = std::all_of(after.nodes.begin(), after.nodes.end(),
                                                [&](const GraphNode &n) { return !isInside(n) || n.group; });
            const bool alone = before.nodes.size() == 1;
            if (after.nodes.size() > kFirstPicture || !(onlyScopes || alone))
                continue;
            m_open = std::move(inside);
            opened = true;
            break;
        }
    }
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
    m_pending = windowOf(m_whole, centre(), kMostBoxes);
    m_note->setText(tr("Showing %L1 of %L2 operators and groups; search or select a layer to see others")
                        .arg(m_pending.nodes.size())
                        .arg(m_whole.nodes.size()));
    m_note->setVisible(isWindow());
    m_cancel->show();
    m_dot.start(m_pending, m_canvas->boxSizes(m_pending));
}

/// The first box of the whole graph in the selected layers; -1: none.
int ModelView::selectedNode() const
{
    const LayerRange layers = state()->selection().layers;
    const auto found = std::ranges::find_if(m_whole.nodes, [&](const GraphNode &node) {
        return node.firstLayer < layers.last && layers.first < node.lastLayer;
    });
    return layers.empty() || found == m_whole.nodes.end() ? -1 : static_cast<int>(found - m_whole.nodes.begin());
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
    m_canvas->show(m_pending, layout, stageColors(m_pending));
    if (!m_reveal.empty())
        m_canvas->setCurrent(m_pending.find(m_reveal), true);
    m_reveal.clear();
    showSelection();
}

std::vector<std::vector<QColor>> ModelView::stageColors(const VisibleGraph &graph) const
{
    std::vector<std::vector<QColor>> colors(graph.nodes.size());
    if (!state()->document())
        return colors;
    const auto &stages = state()->document()->plan.stages;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
        for (std::size_t s = 0; s < stages.size(); ++s)
            if (graph.nodes[n].firstLayer < stages[s].lastLayer && stages[s].firstLayer < graph.nodes[n].lastLayer)
                colors[n].push_back(theme().ofSeries(static_cast<int>(s)));
    return colors;
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
    layOut();
}

void ModelView::closeAround(int node)
{
    if (!m_scopes)
        return;
    const std::string parent = m_scopes->parentOf(m_canvas->graph().nodes[static_cast<std::size_t>(node)].key);
    if (parent.empty() || m_open.erase(parent) == 0)
        return;
    m_reveal = m_around = parent;
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

void ModelView::findNext()
{
    if (!m_scopes)
        return;
    const auto hits = m_scopes->search(m_search->text().toStdString());
    if (hits.empty()) {
        m_note->setText(tr("No scope or operator matches '%1'").arg(m_search->text()));
        m_note->show();
        return;
    }
    m_hit = m_search->text() == m_lastSearch ? (m_hit + 1) % hits.size() : 0;
    m_lastSearch = m_search->text();
    m_note->setText(tr("%1 of %2").arg(m_hit + 1).arg(hits.size()));
    m_note->show();
    const std::string &key = hits[m_hit];
    if (const int node = m_canvas->graph().find(key); node >= 0) {
        m_canvas->setCurrent(node, true);
        pick(node);
        return;
    }
    const auto scopes = m_scopes->ancestors(key);
    m_open.insert(scopes.begin(), scopes.end());
    m_reveal = m_around = key;
    const QString note = m_note->text();
    layOut();
    m_note->setText(note);
    m_note->show();
}

void ModelView::pick(int node)
{
    const GraphNode box = m_canvas->graph().nodes[static_cast<std::size_t>(node)];
    if (state()->subject()) {
        Selection next = state()->selection();
        next.layers = {box.firstLayer, box.lastLayer};
        state()->select(next);
    }
    const bool atBorder = box.key == m_pending.nodes.front().key || box.key == m_pending.nodes.back().key;
    const bool atEnd = box.key == m_whole.nodes.front().key || box.key == m_whole.nodes.back().key;
    if (atBorder && !atEnd && !m_dot.running()) { // the window goes along
        m_reveal = m_around = box.key;
        layOut();
    }
}

void ModelView::showSelection()
{
    const LayerRange layers = state()->selection().layers;
    m_table->showRow(layers.empty() ? -1 : static_cast<int>(layers.first));
    std::vector<int> inside;
    const VisibleGraph &graph = m_canvas->graph();
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
        if (!layers.empty() && graph.nodes[n].firstLayer < layers.last && layers.first < graph.nodes[n].lastLayer)
            inside.push_back(static_cast<int>(n));
    m_canvas->highlight(inside);
    if (inside.empty() && isWindow() && !m_dot.running() && selectedNode() >= 0) {
        m_around.clear();
        layOut();
    }
}

} // namespace planloom::ui

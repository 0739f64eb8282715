// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/cluster/cluster_view.h"

#include "ui/cluster/cluster_settings_dialog.h"
#include "ui/state/cluster_edit.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QMenu>
#include <QResizeEvent>
#include <QScrollArea>
#include <QToolButton>
#include <QVBoxLayout>

#include <tuple>
#include <utility>

namespace planloom::ui {

namespace {

constexpr double kSideBySide = 1.6; // width over height from which map and figures stand beside each other

Cell rateCell(double bytesPerSecond)
{
    return {QStringLiteral("%1 GB/s").arg(bytesPerSecond / 1e9, 0, 'g', 4), bytesPerSecond};
}

} // namespace

ClusterView::ClusterView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_summary(new QLabel(this)),
      m_splitter(new QSplitter(Qt::Vertical, this)),
      m_tabs(new QTabWidget(this)),
      m_search(new QLineEdit(this)),
      m_map(new ClusterMap(this)),
      m_devices(new DataTable(this)),
      m_links(new DataTable(this)),
      m_matrix(new ClusterMatrix(this)),
      m_inspector(new ClusterInspector(state, this)),
      m_editor(new ClusterEditor(state, this))
{
    build();
    makeCommands();
    connectEditor();
    connect(m_search, &QLineEdit::textChanged, m_devices, &DataTable::setFilter);
    connect(m_search, &QLineEdit::textChanged, m_links, &DataTable::setFilter);
    connect(m_tabs, &QTabWidget::currentChanged, this, &ClusterView::refreshTable);
    connect(m_map, &ClusterMap::devicePicked, this,
            [this](int device) { this->state()->selectDevice(DeviceId(device)); });
    connect(m_map, &ClusterMap::linkPicked, this, &ClusterView::pickLink);
    connect(m_map, &ClusterMap::cleared, this, [this] {
        pickLink(-1);
        this->state()->clearSelection();
    });
    connect(m_matrix, &ClusterMatrix::devicePicked, m_map, &ClusterMap::devicePicked);
    connect(m_matrix, &ClusterMatrix::linkPicked, this, &ClusterView::pickLink);
    connect(m_devices, &DataTable::rowPicked, this, [this](int row) { this->state()->selectDevice(DeviceId(row)); });
    connect(m_links, &DataTable::rowPicked, this, &ClusterView::pickLink);
    auto *clusterSeen = new WhenSeen(this, [this] { refreshCluster(); });
    auto *stagesSeen = new WhenSeen(this, [this] { refreshStages(); });
    auto *selectionSeen = new WhenSeen(this, [this] {
        if (this->state()->selection().device.valid()) {
            m_link = -1;
            m_part = {};
        }
        showSelection();
    });
    connect(state, &StudioState::clusterChanged, clusterSeen, &WhenSeen::ask);
    connect(state, &StudioState::clusterSettingsNeeded, this, &ClusterView::askForSettings);
    connect(state, &StudioState::documentChanged, stagesSeen, &WhenSeen::ask);
    connect(state, &StudioState::selectionChanged, selectionSeen, &WhenSeen::ask);
    clusterSeen->ask();
}

void ClusterView::build()
{
    m_summary->setWordWrap(true);
    m_summary->setContentsMargins(8, 6, 8, 2);
    m_search->setPlaceholderText(tr("Search"));
    m_search->setClearButtonEnabled(true);
    m_search->setAccessibleName(tr("Search devices and links"));
    m_search->setMaximumWidth(130);
    m_devices->setAccessibleName(tr("Devices of the cluster"));
    m_links->setAccessibleName(tr("Links of the cluster"));
    m_tabs->setDocumentMode(true);
    m_tabs->addTab(m_map, tr("Map"));
    m_tabs->addTab(m_devices, tr("Devices"));
    m_tabs->addTab(m_links, tr("Links"));
    m_matrixTab = makeMatrixTab();
    m_tabs->addTab(m_matrixTab, tr("Matrix"));
    m_tabs->setCornerWidget(m_search);
    auto *scroll = new QScrollArea(this);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidget(m_inspector);
    m_splitter->addWidget(m_tabs);
    m_splitter->addWidget(scroll);
    m_splitter->setStretchFactor(0, 2); // a low view keeps some of both
    m_splitter->setStretchFactor(1, 1);
    m_splitter->setChildrenCollapsible(false);
    m_splitter->setSizes({520, 230});
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(2);
    layout->addWidget(makeTop());
    layout->addWidget(m_splitter, 1);
}

/// What it is, and what can be done with it.
QWidget *ClusterView::makeTop()
{
    auto *top = new QWidget(this);
    auto *row = new QHBoxLayout(top);
    row->setContentsMargins(0, 0, 4, 0);
    row->setSpacing(2);
    row->addWidget(m_summary, 1);
    const auto button = [&](const QString &text, const QString &tip) {
        auto *made = new QToolButton(top);
        made->setText(text);
        made->setToolTip(tip);
        made->setAutoRaise(true);
        row->addWidget(made);
        return made;
    };
    for (const auto &[text, tip, menu] :
         {std::tuple(tr("Add"), tr("Nodes, devices, switches, cards and links"), m_editor->addMenu()),
          std::tuple(tr("What if"), tr("A link is slower, a device or node fails"), m_editor->whatIfMenu())}) {
        QToolButton *made = button(text, tip);
        made->setMenu(menu);
        made->setPopupMode(QToolButton::InstantPopup);
    }
    QToolButton *remove = button(tr("Remove"), m_editor->removeAction()->toolTip());
    connect(remove, &QToolButton::clicked, m_editor->removeAction(), &QAction::trigger);
    return top;
}

QWidget *ClusterView::makeMatrixTab()
{
    auto *tab = new QWidget(this);
    auto *what = new QComboBox(tab);
    what->addItems({tr("Bandwidth"), tr("Latency")});
    what->setAccessibleName(tr("What the matrix shows"));
    what->setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
    connect(what, &QComboBox::currentIndexChanged, m_matrix, [this](int index) { m_matrix->showLatency(index == 1); });
    auto *column = new QVBoxLayout(tab);
    column->setContentsMargins(4, 4, 0, 0);
    column->setSpacing(2);
    column->addWidget(what);
    column->addWidget(m_matrix, 1);
    return tab;
}

void ClusterView::connectEditor()
{
    m_map->addActions(m_editor->actions());
    connect(m_map, &ClusterMap::vertexPicked, this, [this](int vertex) {
        pick({ClusterPart::Kind::Vertex, static_cast<std::size_t>(vertex)});
    });
    connect(m_map, &ClusterMap::nodePicked, this, [this](int node) {
        pick({ClusterPart::Kind::Node, static_cast<std::size_t>(node)});
    });
    connect(m_map, &ClusterMap::linkEndPicked, this, [this](int vertex) {
        const auto from = static_cast<std::size_t>(m_map->linkFrom());
        m_map->setLinkFrom(-1);
        m_editor->link(from, static_cast<std::size_t>(vertex));
    });
    connect(m_map, &ClusterMap::menuAsked, this, [this](const QPoint &at) {
        QMenu menu(this);
        menu.setToolTipsVisible(true);
        m_editor->fill(menu);
        menu.exec(at);
    });
    connect(m_editor, &ClusterEditor::picked, this, &ClusterView::pick);
    connect(m_editor, &ClusterEditor::linkAsked, this, [this](int vertex) {
        m_tabs->setCurrentWidget(m_map);
        m_map->setFocus();
        m_map->setLinkFrom(vertex);
        state()->say(MessageLevel::Info, tr("Click the other end of the link; Esc ends it."));
    });
    connect(m_editor, &ClusterEditor::failedChanged, this, [this] {
        m_map->setFailed(m_editor->failed());
        refreshTable();
    });
}

void ClusterView::makeCommands()
{
    const auto add = [this](const QString &text, const std::function<void()> &run) {
        auto *action = new QAction(text, this);
        connect(action, &QAction::triggered, this, run);
        m_commands << action;
    };
    add(tr("Fit the map"), [this] {
        m_tabs->setCurrentWidget(m_map);
        m_map->fit();
    });
    add(tr("Collapse the nodes of the map, or show their devices"), [this] {
        m_tabs->setCurrentWidget(m_map);
        m_map->setCollapsed(!m_map->collapsed());
    });
    m_commands.last()->setShortcut(QKeySequence(Qt::Key_C));
    m_commands.last()->setShortcutContext(Qt::WidgetShortcut);
    m_map->addAction(m_commands.last());
    add(tr("Show the devices as a table"), [this] { m_tabs->setCurrentWidget(m_devices); });
    add(tr("Show the links as a table"), [this] { m_tabs->setCurrentWidget(m_links); });
    add(tr("Show bandwidth and latency as a matrix"), [this] { m_tabs->setCurrentWidget(m_matrixTab); });
    add(tr("Find a device or link"), [this] {
        if (m_tabs->currentWidget() == m_map || m_tabs->currentWidget() == m_matrixTab)
            m_tabs->setCurrentWidget(m_devices);
        m_search->setFocus();
    });
    m_commands << m_editor->actions();
}

// --- showing

void ClusterView::refreshCluster()
{
    const auto &cluster = state()->cluster();
    if (!cluster) {
        m_summary->setText(tr("No cluster. Open one with File ▸ Open cluster."));
    } else {
        const auto count = [](std::size_t number, const QString &one, const QString &many) {
            return QStringLiteral("%1 %2").arg(number).arg(number == 1 ? one : many);
        };
        m_summary->setText(tr("%1: %2, %3, %4")
                               .arg(qt(cluster->name()), count(cluster->nodes().size(), tr("node"), tr("nodes")),
                                    count(cluster->devices().size(), tr("device"), tr("devices")),
                                    count(cluster->links().size(), tr("link"), tr("links"))));
    }
    const std::array<std::size_t, 3> size{cluster ? cluster->nodes().size() : 0,
                                          cluster ? cluster->vertices().size() : 0,
                                          cluster ? cluster->links().size() : 0};
    if (std::exchange(m_size, size) != size) { // what was picked may be another thing now
        m_link = -1;
        m_part = {};
    }
    m_map->setCluster(cluster);
    m_map->setFailed(m_editor->failed());
    m_matrix->setCluster(cluster);
    refreshStages();
    showSelection();
}

void ClusterView::refreshStages()
{
    m_map->setStages(stagesOfDevices());
    refreshTable();
}

std::vector<std::vector<int>> ClusterView::stagesOfDevices() const
{
    if (!state()->cluster())
        return {};
    std::vector<std::vector<int>> stages(state()->cluster()->devices().size());
    if (!state()->document())
        return stages;
    const auto &planned = state()->document()->plan.stages;
    for (std::size_t s = 0; s < planned.size(); ++s) {
        for (const DeviceId device : planned[s].devices) {
            if (device.index() < stages.size())
                stages[device.index()].push_back(static_cast<int>(s));
        }
    }
    return stages;
}

/// Only the table that can be seen: a cluster may have 65,536 devices.
void ClusterView::refreshTable()
{
    if (m_tabs->currentWidget() == m_devices)
        m_devices->set(devices());
    else if (m_tabs->currentWidget() == m_links)
        m_links->set(links());
    else
        return;
    m_devices->showRow(state()->selection().device.value);
    m_links->showRow(m_link);
}

TableData ClusterView::devices() const
{
    TableData table{
        {tr("Device"), tr("Stage"), tr("Node"), tr("Type"), tr("Memory"), tr("float32"), tr("Memory bandwidth")}, {}};
    if (!state()->cluster())
        return table;
    table.rows.resize(state()->cluster()->devices().size());
    table.makeRow = [cluster = state()->cluster(), stages = stagesOfDevices(),
                     failed = m_editor->failed()](std::size_t row) {
        const cluster::Device &device = cluster->devices()[row];
        const cluster::DeviceType &type = cluster->typeOf(device.id);
        const auto peak = type.peakFlops.find("float32");
        const double rate = peak == type.peakFlops.end() ? 0 : peak->second;
        const std::vector<int> &own = stages[device.id.index()];
        Cell held{own.empty() ? tr("idle") : numbersText(own), own.empty() ? -1.0 : own.front()};
        if (!own.empty())
            held.swatch = theme().ofSeries(own.front());
        if (row < failed.size() && failed[row]) {
            held.text = tr("%1, failed").arg(held.text);
            held.warn = true;
        }
        return std::vector<Cell>{{qt(device.name), {}},
                                 held,
                                 {qt(cluster->nodes()[device.node.index()].name), {}},
                                 {qt(type.name), {}},
                                 {bytesText(type.memory.value()), static_cast<double>(type.memory.value())},
                                 {qt(format(Flops(rate))) + QStringLiteral("/s"), rate},
                                 rateCell(type.memoryBandwidth)};
    };
    return table;
}

TableData ClusterView::links() const
{
    TableData table{
        {tr("From"), tr("To"), tr("Kind"), tr("Point to point"), tr("Collective"), tr("Latency"), tr("Duplex")}, {}};
    if (!state()->cluster())
        return table;
    table.rows.resize(state()->cluster()->links().size());
    table.makeRow = [cluster = state()->cluster()](std::size_t row) {
        const cluster::Link &link = cluster->links()[row];
        return std::vector<Cell>{{qt(cluster->vertices()[link.a].name), {}},
                                 {qt(cluster->vertices()[link.b].name), {}},
                                 {QString::fromUtf8(kindName(link.kind)), {}},
                                 rateCell(link.pointToPoint),
                                 rateCell(link.collective),
                                 {secondsText(link.latency.value()), link.latency.value()},
                                 {link.fullDuplex ? tr("full") : tr("half"), {}}};
    };
    return table;
}

void ClusterView::pickLink(int link)
{
    m_link = link;
    m_part = {};
    showSelection();
}

void ClusterView::pick(const ClusterPart &part)
{
    switch (part.kind) {
    case ClusterPart::Kind::Device: state()->selectDevice(DeviceId(static_cast<std::int64_t>(part.index))); return;
    case ClusterPart::Kind::Link: pickLink(static_cast<int>(part.index)); return;
    case ClusterPart::Kind::Vertex:
    case ClusterPart::Kind::Node:
    case ClusterPart::Kind::None: break;
    }
    m_link = -1;
    m_part = part;
    state()->clearSelection();
    showSelection();
}

ClusterPart ClusterView::part() const
{
    const DeviceId device = state()->selection().device;
    if (m_link >= 0)
        return {ClusterPart::Kind::Link, static_cast<std::size_t>(m_link)};
    if (m_part.kind != ClusterPart::Kind::None)
        return m_part;
    if (state()->cluster() && device.valid() && device.index() < state()->cluster()->devices().size())
        return {ClusterPart::Kind::Device, device.index()};
    return {};
}

void ClusterView::askForSettings(const QString &source, const std::vector<import::ClusterSettingInfo> &settings)
{
    auto *dialog = new ClusterSettingsDialog(source, settings, window());
    connect(dialog, &QDialog::accepted, this, [this, dialog] { state()->loadCluster(dialog->source()); });
    dialog->open();
}

void ClusterView::showSelection()
{
    const ClusterPart picked = part();
    const bool isDevice = picked.kind == ClusterPart::Kind::Device;
    const DeviceId device = isDevice ? DeviceId(static_cast<std::int64_t>(picked.index)) : DeviceId();
    m_map->setSelection(device, state()->selection().stage.value);
    m_map->setLink(m_link);
    m_map->setPart(m_part);
    m_matrix->setSelection(device, m_link);
    m_devices->showRow(device.value);
    m_links->showRow(m_link);
    m_editor->setPart(picked);
    switch (picked.kind) {
    case ClusterPart::Kind::Link: m_inspector->showLink(picked.index); break;
    case ClusterPart::Kind::Device: m_inspector->showDevice(device); break;
    case ClusterPart::Kind::Vertex: m_inspector->showVertex(picked.index); break;
    case ClusterPart::Kind::Node: m_inspector->showNode(picked.index); break;
    case ClusterPart::Kind::None: m_inspector->showCluster(); break;
    }
}

void ClusterView::resizeEvent(QResizeEvent *event)
{
    View::resizeEvent(event);
    m_splitter->setOrientation(width() > kSideBySide * height() ? Qt::Horizontal : Qt::Vertical);
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/cluster/cluster_view.h"

#include "ui/cluster/cluster_settings_dialog.h"
#include "ui/state/cluster_edit.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QResizeEvent>
#include <QScrollArea>
#include <QVBoxLayout>

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
      m_inspector(new ClusterInspector(state, this))
{
    build();
    makeCommands();
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
    connect(m_devices, &DataTable::rowPicked, this, [this](int row) { this->state()->selectDevice(DeviceId(row)); });
    connect(m_links, &DataTable::rowPicked, this, &ClusterView::pickLink);
    auto *clusterSeen = new WhenSeen(this, [this] { refreshCluster(); });
    auto *stagesSeen = new WhenSeen(this, [this] { refreshStages(); });
    auto *selectionSeen = new WhenSeen(this, [this] {
        if (this->state()->selection().device.valid())
            m_link = -1;
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
    m_tabs->setCornerWidget(m_search);
    auto *scroll = new QScrollArea(this);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidget(m_inspector);
    m_splitter->addWidget(m_tabs);
    m_splitter->addWidget(scroll);
    m_splitter->setStretchFactor(0, 1);
    m_splitter->setChildrenCollapsible(false);
    m_splitter->setSizes({520, 230});
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(2);
    layout->addWidget(m_summary);
    layout->addWidget(m_splitter, 1);
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
    add(tr("Show the devices as a table"), [this] { m_tabs->setCurrentWidget(m_devices); });
    add(tr("Show the links as a table"), [this] { m_tabs->setCurrentWidget(m_links); });
    add(tr("Find a device or link"), [this] {
        if (m_tabs->currentWidget() == m_map)
            m_tabs->setCurrentWidget(m_devices);
        m_search->setFocus();
    });
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
    if (!cluster || m_link >= static_cast<int>(cluster->links().size()))
        m_link = -1;
    m_map->setCluster(cluster);
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
    table.makeRow = [cluster = state()->cluster(), stages = stagesOfDevices()](std::size_t row) {
        const cluster::Device &device = cluster->devices()[row];
        const cluster::DeviceType &type = cluster->typeOf(device.id);
        const auto peak = type.peakFlops.find("float32");
        const double rate = peak == type.peakFlops.end() ? 0 : peak->second;
        const std::vector<int> &own = stages[device.id.index()];
        Cell held{own.empty() ? tr("idle") : numbersText(own), own.empty() ? -1.0 : own.front()};
        if (!own.empty())
            held.swatch = theme().ofSeries(own.front());
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
    showSelection();
}

void ClusterView::askForSettings(const QString &source, const std::vector<import::ClusterSettingInfo> &settings)
{
    auto *dialog = new ClusterSettingsDialog(source, settings, window());
    connect(dialog, &QDialog::accepted, this, [this, dialog] { state()->loadCluster(dialog->source()); });
    dialog->open();
}

void ClusterView::showSelection()
{
    const Selection &selection = state()->selection();
    const auto &cluster = state()->cluster();
    const bool device = cluster && selection.device.valid() && selection.device.index() < cluster->devices().size();
    m_map->setSelection(device ? selection.device : DeviceId(), selection.stage.value);
    m_map->setLink(m_link);
    m_devices->showRow(device ? selection.device.value : -1);
    m_links->showRow(m_link);
    if (m_link >= 0)
        m_inspector->showLink(static_cast<std::size_t>(m_link));
    else if (device)
        m_inspector->showDevice(selection.device);
    else
        m_inspector->showCluster();
}

void ClusterView::resizeEvent(QResizeEvent *event)
{
    View::resizeEvent(event);
    m_splitter->setOrientation(width() > kSideBySide * height() ? Qt::Horizontal : Qt::Vertical);
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/cluster/cluster_view.h"

#include "ui/widgets/text.h"

#include <QVBoxLayout>

namespace planloom::ui {

ClusterView::ClusterView(StudioState *state, QWidget *parent)
    : View(state, parent), m_summary(new QLabel(this)), m_search(new QLineEdit(this)), m_table(new DataTable(this))
{
    m_summary->setWordWrap(true);
    m_search->setPlaceholderText(tr("Search devices"));
    m_search->setClearButtonEnabled(true);
    m_search->setAccessibleName(tr("Search devices"));
    m_table->setAccessibleName(tr("Devices of the cluster"));
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 8, 8, 8);
    layout->addWidget(m_summary);
    layout->addWidget(m_search);
    layout->addWidget(m_table, 1);
    connect(m_search, &QLineEdit::textChanged, m_table, &DataTable::setFilter);
    connect(state, &StudioState::clusterChanged, this, &ClusterView::refresh);
    connect(state, &StudioState::simulationChanged, this, &ClusterView::refresh);
    connect(state, &StudioState::selectionChanged, this, &ClusterView::showSelection);
    connect(m_table, &DataTable::rowPicked, this, [this](int row) { this->state()->selectDevice(DeviceId(row)); });
    refresh();
}

void ClusterView::refresh()
{
    if (!state()->cluster()) {
        m_summary->setText(tr("No cluster. Open one with File ▸ Open cluster."));
        m_table->set({});
        return;
    }
    const cluster::Cluster &cluster = *state()->cluster();
    m_summary->setText(tr("%1: %2 nodes, %3 devices, %4 links")
                           .arg(qt(cluster.name()))
                           .arg(cluster.nodes().size())
                           .arg(cluster.devices().size())
                           .arg(cluster.links().size()));
    TableData table{{tr("Device"), tr("Node"), tr("Type"), tr("Memory"), tr("float32")}, {}};
    for (const cluster::Device &device : cluster.devices()) {
        const cluster::DeviceType &type = cluster.typeOf(device.id);
        const auto peak = type.peakFlops.find("float32");
        const double rate = peak == type.peakFlops.end() ? 0 : peak->second;
        table.rows.push_back({{qt(device.name), {}}, {qt(cluster.nodes()[device.node.index()].name), {}}, {qt(type.name), {}},
                             {bytesText(type.memory.value()), static_cast<double>(type.memory.value())},
                             {qt(format(Flops(rate))) + QStringLiteral("/s"), rate}});
    }
    m_table->set(std::move(table));
    showSelection();
}

void ClusterView::showSelection()
{
    m_table->showRow(state()->selection().device.value);
}

} // namespace planloom::ui

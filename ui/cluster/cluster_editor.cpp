// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/cluster/cluster_editor.h"

#include "ui/state/cluster_edit.h"
#include "ui/state/cluster_parts.h"
#include "ui/state/commands.h"
#include "ui/widgets/text.h"

#include <QFileDialog>
#include <QMessageBox>
#include <QPointer>
#include <QPushButton>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {

using Kind = ClusterPart::Kind;

/// Built-in clusters whose first nodes are offered.
constexpr const char *kTemplates[] = {"b200-8",   "h200-8",        "h100-16", "a100-128",
                                      "dapple-a", "pipedream-4x4", "dapple-b"};

/// "8 × H100-SXM".
QString contentOf(const cluster::Cluster &cluster, const cluster::Node &node)
{
    return QStringLiteral("%1 × %2").arg(node.devices.size()).arg(qt(cluster.typeOf(node.devices.front()).name));
}

DeviceId deviceOf(const ClusterPart &part) { return DeviceId(static_cast<std::int64_t>(part.index)); }

bool hasPart(const cluster::Cluster &cluster, const ClusterPart &part)
{
    switch (part.kind) {
    case Kind::Device: return part.index < cluster.devices().size();
    case Kind::Vertex: return part.index < cluster.vertices().size();
    case Kind::Node: return part.index < cluster.nodes().size();
    case Kind::Link: return part.index < cluster.links().size();
    case Kind::None: break;
    }
    return true;
}

/// Empty if it has no such part.
QString nameIn(const cluster::Cluster &cluster, const ClusterPart &part)
{
    if (!hasPart(cluster, part))
        return {};
    switch (part.kind) {
    case Kind::Device: return qt(cluster.device(deviceOf(part)).name);
    case Kind::Vertex: return qt(cluster.vertices()[part.index].name);
    case Kind::Node: return qt(cluster.nodes()[part.index].name);
    case Kind::Link: {
        const cluster::Link &link = cluster.links()[part.index];
        return ClusterEditor::tr("the link %1 – %2")
            .arg(qt(cluster.vertices()[link.a].name), qt(cluster.vertices()[link.b].name));
    }
    case Kind::None: break;
    }
    return {};
}

} // namespace

ClusterEditor::ClusterEditor(StudioState *state, QWidget *window) : QObject(window), m_state(state), m_window(window)
{
    m_duplicate =
        add(tr("Duplicate"), QKeySequence(Qt::CTRL | Qt::Key_D),
            tr("The selected device or node once more, on links like its own"), [this] { return duplicate(); });
    m_remove = add(tr("Remove"), QKeySequence::Delete, tr("The selected device, switch, card, link or node"),
                   [this] { return remove(); });
    m_link = add(tr("Link to…"), QKeySequence(Qt::Key_L), tr("From the selected thing to the one that is clicked next"),
                 [this] {
                     if (m_part.kind == Kind::Device)
                         Q_EMIT linkAsked(static_cast<int>(m_state->cluster()->vertexOf(deviceOf(m_part))));
                     else if (m_part.kind == Kind::Vertex)
                         Q_EMIT linkAsked(static_cast<int>(m_part.index));
                     else
                         return say(tr("Select the first end of the link: a device, switch, card or network."));
                     return true;
                 });
    m_switch = add(tr("Add a switch"), {}, tr("In the selected node, without links as yet"),
                   [this] { return addVertex(cluster::Vertex::Kind::Switch); });
    m_nic = add(tr("Add a network card"), {}, tr("In the selected node, on links like its first card's"),
                [this] { return addVertex(cluster::Vertex::Kind::Nic); });
    m_network = add(tr("Add a network"), {}, tr("Between the nodes, without links as yet"),
                    [this] { return addVertex(cluster::Vertex::Kind::Network); });
    m_save = add(tr("Save the cluster as…"), {}, {}, [this] {
        askToSave();
        return true;
    });
    m_halve = add(tr("Halve the link's bandwidth"), QKeySequence(Qt::Key_H), tr("The plan is simulated on it at once"),
                  [this] { return halveLink(); });
    m_fail = add(tr("Mark as failed, or as whole again"), QKeySequence(Qt::Key_F),
                 tr("The selected device or node; the plan stays as it is"), [this] {
                     toggleFailed();
                     return true;
                 });
    m_planLeft = add(tr("Plan again without what failed"), {}, tr("The new plan takes the place of this one"),
                     [this] { return planWithoutFailed(); });
    m_planAgain = add(tr("Plan again on this cluster"), {}, tr("With the planner of the open plan"),
                      [this] { return m_state->planOnCluster(m_state->cluster()); });
    makeMenus();
    m_cluster = m_state->cluster();
    connect(m_state, &StudioState::clusterChanged, this, &ClusterEditor::onCluster);
}

QAction *ClusterEditor::add(const QString &text, const QKeySequence &key, const QString &tip,
                            const std::function<bool()> &run)
{
    auto *action = new QAction(text, this);
    action->setShortcut(key);
    action->setShortcutContext(Qt::WidgetShortcut);
    action->setToolTip(tip);
    connect(action, &QAction::triggered, this, [this, run] {
        if (m_state->cluster())
            run();
        else
            say(tr("No cluster. Open one with File ▸ Open cluster, or add a node."));
    });
    return action;
}

QList<QAction *> ClusterEditor::actions() const
{
    return {m_duplicate, m_remove, m_link, m_switch,   m_nic,      m_network,
            m_save,      m_halve,  m_fail, m_planLeft, m_planAgain};
}

void ClusterEditor::makeMenus()
{
    for (QMenu *menu : {&m_addMenu, &m_whatIfMenu})
        menu->setToolTipsVisible(true);
    connect(&m_addMenu, &QMenu::aboutToShow, this, &ClusterEditor::fillAddMenu);
    m_whatIfMenu.addActions({m_halve, m_fail});
    m_whatIfMenu.addSeparator();
    m_whatIfMenu.addActions({m_planLeft, m_planAgain});
}

void ClusterEditor::fillAddMenu()
{
    m_addMenu.clear();
    if (m_state->cluster()) {
        m_addMenu.addActions({m_duplicate, m_switch, m_nic, m_network, m_link});
        m_addMenu.addSeparator();
    }
    for (const char *name : kTemplates) {
        if (const auto preset = cluster::preset(name))
            m_addMenu.addAction(
                tr("Add a node of %1 (%2)").arg(contentOf(*preset, preset->nodes().front()), QString::fromUtf8(name)),
                this, [this, name] { addNodeLike(name); });
    }
    m_addMenu.addSeparator();
    m_addMenu.addAction(m_save);
}

void ClusterEditor::fill(QMenu &menu) const
{
    switch (m_part.kind) {
    case Kind::Device: menu.addActions({m_duplicate, m_remove, m_link, m_fail}); break;
    case Kind::Node: menu.addActions({m_duplicate, m_remove, m_switch, m_nic, m_fail}); break;
    case Kind::Vertex: menu.addActions({m_remove, m_link}); break;
    case Kind::Link: menu.addActions({m_remove, m_halve}); break;
    case Kind::None: menu.addActions({m_network, m_save}); break;
    }
    menu.addSeparator();
    menu.addActions({m_planLeft, m_planAgain});
}

// --- what is picked

void ClusterEditor::setPart(const ClusterPart &part)
{
    m_part = m_cluster && hasPart(*m_cluster, part) ? part : ClusterPart();
}

/// Views that are out of sight do not know of it yet: the part stays only where an edit has left it what it was. No
/// mark of a failed device outlives the undo steps, which end where another cluster is opened.
void ClusterEditor::onCluster()
{
    const auto before = std::exchange(m_cluster, m_state->cluster());
    const bool isEdited = m_state->undoStack()->count() > 0;
    const bool stays = isEdited && before && m_cluster && hasPart(*m_cluster, m_part)
        && nameIn(*before, m_part) == nameIn(*m_cluster, m_part);
    if (!stays)
        m_part = {};
    if (isEdited || m_failed.empty())
        return;
    m_failed.clear();
    Q_EMIT failedChanged();
}

std::optional<NodeId> ClusterEditor::nodeOfPart() const
{
    const auto &cluster = m_state->cluster();
    NodeId node;
    switch (m_part.kind) {
    case Kind::Node: node = NodeId(static_cast<std::int64_t>(m_part.index)); break;
    case Kind::Device: node = cluster->device(deviceOf(m_part)).node; break;
    case Kind::Vertex: node = cluster->vertices()[m_part.index].node; break;
    case Kind::Link:
    case Kind::None: break;
    }
    if (!node.valid() && cluster->nodes().size() == 1)
        node = cluster->nodes().front().id;
    return node.valid() ? std::optional(node) : std::nullopt;
}

std::vector<DeviceId> ClusterEditor::devicesOfPart() const
{
    if (m_part.kind == Kind::Device)
        return {deviceOf(m_part)};
    if (m_part.kind == Kind::Node)
        return m_state->cluster()->nodes()[m_part.index].devices;
    return {};
}

QString ClusterEditor::nameOfPart() const { return nameIn(*m_state->cluster(), m_part); }

bool ClusterEditor::say(const QString &why) const
{
    m_state->say(MessageLevel::Info, why);
    return false;
}

// --- edits

bool ClusterEditor::apply(const QString &what, Result<cluster::Cluster> changed)
{
    if (!changed) {
        m_state->say(MessageLevel::Error, qt(changed.error().text()));
        return false;
    }
    auto cluster = std::make_shared<const cluster::Cluster>(*std::move(changed));
    if (m_state->planStaysOn(*cluster))
        return m_state->editCluster(what, std::move(cluster));
    offerToPlan(cluster);
    return false;
}

void ClusterEditor::offerToPlan(const std::shared_ptr<const cluster::Cluster> &cluster)
{
    auto *box = new QMessageBox(QMessageBox::Question, tr("Plan again?"),
                                tr("The plan uses devices that the changed cluster does not have; find a new plan."),
                                QMessageBox::Cancel, m_window);
    box->setInformativeText(tr("Cluster and plan change together when it is found; undo has both again."));
    box->setAttribute(Qt::WA_DeleteOnClose);
    QPushButton *plan = box->addButton(tr("Plan again on what is left"), QMessageBox::AcceptRole);
    box->setDefaultButton(plan);
    connect(plan, &QPushButton::clicked, this, [this, cluster] { m_state->planOnCluster(cluster); });
    box->open();
}

bool ClusterEditor::duplicate()
{
    const cluster::Cluster &cluster = *m_state->cluster();
    if (m_part.kind == Kind::Device) {
        const std::size_t at =
            cluster.nodes()[cluster.device(deviceOf(m_part)).node.index()].devices.back().index() + 1;
        if (!apply(tr("Duplicate %1").arg(nameOfPart()), withDeviceLike(cluster, deviceOf(m_part))))
            return false;
        Q_EMIT picked({Kind::Device, at});
        return true;
    }
    const auto node = nodeOfPart();
    if (m_part.kind != Kind::Node && !(m_part.kind == Kind::None && node))
        return say(tr("Select the device or the node to duplicate."));
    const QString name = qt(cluster.nodes()[node->index()].name);
    if (!apply(tr("Duplicate %1").arg(name), withNodeOf(cluster, cluster, *node)))
        return false;
    Q_EMIT picked({Kind::Node, m_state->cluster()->nodes().size() - 1});
    return true;
}

bool ClusterEditor::addNodeLike(const std::string &preset)
{
    const auto from = cluster::preset(preset);
    if (!from) {
        m_state->say(MessageLevel::Error, qt(from.error().text()));
        return false;
    }
    const QString what = tr("Add a node of %1").arg(contentOf(*from, from->nodes().front()));
    if (!m_state->cluster()) { // a cluster begins
        std::vector<NodeId> others;
        for (std::size_t n = 1; n < from->nodes().size(); ++n)
            others.push_back(from->nodes()[n].id);
        return apply(what, withoutNodes(*from, others));
    }
    if (!apply(what, withNodeOf(*m_state->cluster(), *from, from->nodes().front().id)))
        return false;
    Q_EMIT picked({Kind::Node, m_state->cluster()->nodes().size() - 1});
    return true;
}

bool ClusterEditor::addVertex(cluster::Vertex::Kind kind)
{
    NodeId node;
    if (kind != cluster::Vertex::Kind::Network) {
        const auto of = nodeOfPart();
        if (!of)
            return say(tr("Select the node that gets it."));
        node = *of;
    }
    const QString what = kind == cluster::Vertex::Kind::Nic ? tr("Add a network card")
        : kind == cluster::Vertex::Kind::Network            ? tr("Add a network")
                                                            : tr("Add a switch");
    if (!apply(what, withVertex(*m_state->cluster(), kind, node)))
        return false;
    Q_EMIT picked({Kind::Vertex, m_state->cluster()->vertices().size() - 1});
    return true;
}

bool ClusterEditor::link(std::size_t a, std::size_t b)
{
    const auto &vertices = m_state->cluster()->vertices();
    if (a >= vertices.size() || b >= vertices.size())
        return say(tr("The cluster has changed; select the first end of the link again."));
    if (!apply(tr("Link %1 to %2").arg(qt(vertices[a].name), qt(vertices[b].name)),
               withLink(*m_state->cluster(), a, b)))
        return false;
    Q_EMIT picked({Kind::Link, m_state->cluster()->links().size() - 1});
    return true;
}

bool ClusterEditor::remove()
{
    const cluster::Cluster &cluster = *m_state->cluster();
    const QString what = tr("Remove %1").arg(nameOfPart());
    const ClusterPart part = m_part;
    switch (part.kind) {
    case Kind::None: return say(tr("Select a device, switch, card, link or node of the cluster first."));
    case Kind::Link: return apply(what, withoutLink(cluster, part.index));
    case Kind::Node: {
        const NodeId node(static_cast<std::int64_t>(part.index));
        return apply(what, withoutNodes(cluster, std::span(&node, 1)));
    }
    case Kind::Device:
    case Kind::Vertex: break;
    }
    const std::size_t vertex = part.kind == Kind::Device ? cluster.vertexOf(deviceOf(part)) : part.index;
    return apply(what, withoutVertices(cluster, std::span(&vertex, 1)));
}

void ClusterEditor::askToSave()
{
    const QString path =
        QFileDialog::getSaveFileName(m_window, tr("Save the cluster"),
                                     qt(m_state->cluster()->name()) + QStringLiteral(".json"), tr("Clusters (*.json)"));
    if (!path.isEmpty())
        m_state->saveCluster(path);
}

// --- what if

bool ClusterEditor::halveLink()
{
    if (m_part.kind != Kind::Link)
        return say(tr("Select a link first."));
    const std::size_t links[] = {m_part.index};
    return apply(tr("Halve %1").arg(nameOfPart()), withLinks(*m_state->cluster(), links, [](cluster::Link &link) {
                     link.pointToPoint /= 2;
                     link.collective /= 2;
                 }));
}

void ClusterEditor::toggleFailed()
{
    const std::vector<DeviceId> devices = devicesOfPart();
    if (devices.empty()) {
        say(tr("Select a device or a node first."));
        return;
    }
    std::set<std::string> names = m_failed;
    const auto nameOf = [this](DeviceId device) { return m_state->cluster()->device(device).name; };
    const bool all =
        std::all_of(devices.begin(), devices.end(), [&](DeviceId device) { return names.contains(nameOf(device)); });
    for (const DeviceId device : devices) {
        if (all)
            names.erase(nameOf(device));
        else
            names.insert(nameOf(device));
    }
    setFailed(names, (all ? tr("%1 is whole again") : tr("%1 has failed")).arg(nameOfPart()));
}

void ClusterEditor::setFailed(const std::set<std::string> &names, const QString &what)
{
    const auto set = [editor = QPointer(this)](const std::set<std::string> &to) {
        if (!editor)
            return;
        editor->m_failed = to;
        Q_EMIT editor->failedChanged();
    };
    m_state->undoStack()->push(new Replacement(
        what, [set, before = m_failed] { set(before); }, [set, names] { set(names); }));
}

std::vector<bool> ClusterEditor::failed() const
{
    std::vector<bool> failed;
    if (m_failed.empty() || !m_state->cluster())
        return failed;
    for (const cluster::Device &device : m_state->cluster()->devices())
        failed.push_back(m_failed.contains(device.name));
    return failed;
}

bool ClusterEditor::planWithoutFailed()
{
    const cluster::Cluster &cluster = *m_state->cluster();
    std::vector<std::size_t> gone;
    const std::vector<bool> marks = failed();
    for (std::size_t d = 0; d < marks.size(); ++d) {
        if (marks[d])
            gone.push_back(cluster.vertexOf(cluster.devices()[d].id));
    }
    if (gone.empty())
        return say(tr("Nothing is marked as failed; select a device or a node and mark it first."));
    auto left = withoutVertices(cluster, gone);
    if (!left || !m_state->document())
        return apply(tr("Take away what failed"), std::move(left));
    return m_state->planOnCluster(std::make_shared<const cluster::Cluster>(*std::move(left)));
}

} // namespace planloom::ui

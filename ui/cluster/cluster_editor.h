// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAction>
#include <QList>
#include <QMenu>
#include <QObject>

#include "ui/cluster/cluster_part.h"
#include "ui/state/studio_state.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace planloom::ui {

/// Commands that add and remove parts of the cluster, and that ask what if one fails or is slower; each is about the
/// picked part. Edits are undoable; one that takes devices of the open plan away offers to plan again on what is left.
class ClusterEditor final : public QObject {
    Q_OBJECT

public:
    ClusterEditor(StudioState *state, QWidget *window);

    void setPart(const ClusterPart &part); ///< what the commands are about
    [[nodiscard]] const ClusterPart &part() const { return m_part; }
    [[nodiscard]] QList<QAction *> actions() const; ///< all, for menus, keys and the palette
    [[nodiscard]] QMenu *addMenu() { return &m_addMenu; }
    [[nodiscard]] QMenu *whatIfMenu() { return &m_whatIfMenu; }
    [[nodiscard]] QAction *removeAction() { return m_remove; }
    /// What can be done with the part.
    void fill(QMenu &menu) const;

    bool duplicate();
    bool remove();
    bool addNodeLike(const std::string &preset); ///< first node of a built-in cluster
    bool addVertex(cluster::Vertex::Kind kind);  ///< in the node of the part; a network in none
    bool link(std::size_t a, std::size_t b);     ///< the new link is picked
    bool halveLink();
    void toggleFailed(); ///< all devices of the part; a switch or link cannot fail
    bool planWithoutFailed();
    /// By device of the cluster; a mark stays with a name, so that undo of an edit has it again.
    [[nodiscard]] std::vector<bool> failed() const;

Q_SIGNALS:
    void picked(const planloom::ui::ClusterPart &part); ///< a part that was just made
    void linkAsked(int vertex);                         ///< the other end is wanted
    void failedChanged();

private:
    QAction *add(const QString &text, const QKeySequence &key, const QString &tip, const std::function<bool()> &run);
    void makeMenus();
    void fillAddMenu();
    void askToSave();
    bool apply(const QString &what, Result<cluster::Cluster> changed);
    void offerToPlan(const std::shared_ptr<const cluster::Cluster> &cluster);
    void setFailed(const std::set<std::string> &names, const QString &what);
    bool say(const QString &why) const;
    void onCluster();
    [[nodiscard]] std::optional<NodeId> nodeOfPart() const;
    [[nodiscard]] std::vector<DeviceId> devicesOfPart() const;
    [[nodiscard]] QString nameOfPart() const;

    StudioState *m_state;
    QWidget *m_window;
    ClusterPart m_part;                                ///< of m_cluster, which has it
    std::shared_ptr<const cluster::Cluster> m_cluster; ///< of the state
    std::set<std::string> m_failed;                    ///< names of devices
    QMenu m_addMenu;
    QMenu m_whatIfMenu;
    QAction *m_duplicate, *m_remove, *m_link, *m_switch, *m_nic, *m_network, *m_save;
    QAction *m_halve, *m_fail, *m_planLeft, *m_planAgain;
};

} // namespace planloom::ui

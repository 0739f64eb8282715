// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QSpinBox>
#include <QSplitter>
#include <QTabWidget>

#include "ui/state/latest_job.h"
#include "ui/widgets/view.h"
#include "ui/placement/machine_board.h"
#include "ui/placement/search_panel.h"
#include "ui/placement/traffic_matrix.h"
#include "ui/widgets/data_table.h"

#include <memory>
#include <vector>

namespace planloom::ui {

/// The Placement dock: roles of sampled training on machines, what the network carries, and the search of placements.
class PlacementView final : public View {
    Q_OBJECT

public:
    explicit PlacementView(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] QString title() const override { return tr("Placement"); }
    [[nodiscard]] QWidget *focusTarget() override { return m_board; }
    [[nodiscard]] MachineBoard *board() { return m_board; }
    [[nodiscard]] TrafficMatrix *matrix() { return m_matrix; }
    [[nodiscard]] SearchPanel *search() { return m_search; }
    [[nodiscard]] DataTable *policies() { return m_policies; }
    [[nodiscard]] DataTable *connections() { return m_connections; }
    [[nodiscard]] DataTable *parts() { return m_parts; }
    [[nodiscard]] QComboBox *policy() { return m_policy; }
    [[nodiscard]] QSpinBox *prefetch() { return m_prefetch; }
    [[nodiscard]] QTabWidget *tabs() { return m_tabs; }
    [[nodiscard]] QString summary() const { return m_summary->text(); }
    [[nodiscard]] const std::shared_ptr<const PlacementFigures> &figures() const { return m_figures; }
    /// Whether figures are those of the shown document, not of the one before.
    [[nodiscard]] bool isCurrent() const { return m_figures && m_figures->document == m_document; }
    [[nodiscard]] bool computes() const
    {
        return m_planFigures.running() || m_pointFigures.running() || m_shares.running();
    }

protected:
    void resizeEvent(QResizeEvent *event) override;

private:
    void refresh();
    void takeFigures(Result<PlacementFigures> figures);
    void showDocument(const QString &problem);
    void refreshTraffic();
    void refreshPolicies();
    void refreshConnections();
    void showConnections(const PlacementFigures &figures, std::vector<ConnectionShare> shares);
    void refreshParts();
    void showFigures(const std::shared_ptr<const PlacementFigures> &figures, const QString &before);
    void moveRole(int role, int machine);
    void choosePolicy();
    void choosePrefetch();
    void searchOrStop();
    void showPoint(int point);
    void takePoint(int point);

    QLabel *m_summary;
    QComboBox *m_policy;
    QSpinBox *m_prefetch;
    MachineBoard *m_board;
    TrafficMatrix *m_matrix;
    SearchPanel *m_search;
    DataTable *m_policies;
    DataTable *m_connections;
    DataTable *m_parts;
    QTabWidget *m_tabs;
    QSplitter *m_split;
    WhenSeen *m_trafficSeen;
    WhenSeen *m_policiesSeen;
    WhenSeen *m_connectionsSeen;
    WhenSeen *m_partsSeen;
    StudioState::DocumentPtr m_document;
    std::shared_ptr<const PlacementFigures> m_figures; ///< until those of m_document are there, of the one before
    std::shared_ptr<const SearchRun> m_run;
    StudioState::DocumentPtr m_searched; ///< that m_run is of
    LatestJob m_planFigures;
    LatestJob m_pointFigures; ///< of a search
    LatestJob m_shares;
    Job m_job; ///< last, as those before: their threads end before what they post to
};

} // namespace planloom::ui

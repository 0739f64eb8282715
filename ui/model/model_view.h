// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QPushButton>
#include <QTabWidget>

#include "ui/model/dot_process.h"
#include "ui/model/graph_page.h"
#include "ui/model/search_bar.h"
#include "ui/state/latest_job.h"
#include "ui/widgets/data_table.h"
#include "ui/widgets/view.h"

#include <memory>
#include <set>

namespace planloom::ui {

/// The model as a graph of scopes that open and close, with the properties of the selected box, and as a table of
/// layers.
class ModelView final : public View {
    Q_OBJECT

public:
    explicit ModelView(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] QString title() const override { return tr("Model"); }
    [[nodiscard]] QList<QAction *> commands() const override { return m_commands; }
    [[nodiscard]] QWidget *focusTarget() override { return m_canvas; }
    /// The graph at its own scale, unless it is empty or the table is shown.
    [[nodiscard]] QSize pictureSize() const override;
    [[nodiscard]] QString pictureNote() const override;
    void paintPicture(QPainter &painter) override;
    [[nodiscard]] const GraphCanvas *canvas() const { return m_canvas; }
    [[nodiscard]] GraphPage *page() { return m_page; }
    [[nodiscard]] bool layingOut() const { return m_dot.running(); }
    /// False while the figures of the operators are computed.
    [[nodiscard]] bool figuresCurrent() const;
    /// Figures of all operators as CSV (figures_csv.h). False: message() of the state has said why.
    bool saveFigures(const QString &path);
    void showCards(bool shown); ///< FLOPs and bytes in every box

private:
    void build();
    void makeCommands();
    void connectState();
    void modelChanged();
    void openContainers();
    [[nodiscard]] bool mayOpenAtFirst(const VisibleGraph &before, const GraphNode &node) const;
    void refreshTable();
    void askFigures();
    [[nodiscard]] StudioState::DocumentPtr planOfModel() const;
    void layOut();
    void showNote();
    [[nodiscard]] bool showsGraph() const;
    [[nodiscard]] LayerRange selectedLayers() const;
    [[nodiscard]] int selectedNode() const;
    [[nodiscard]] int nodeAtOrIn(const VisibleGraph &graph, const std::string &key) const;
    [[nodiscard]] std::size_t centre() const;
    [[nodiscard]] bool isWindow() const { return m_pending.nodes.size() < m_whole.nodes.size(); }
    void laidOut(const PlainLayout &layout);
    void toggle(int node);
    void closeAround(int node);
    void closeScope(const std::string &scope);
    void openAll();
    void closeAll();
    void reveal(const std::string &key);
    void showNeighbourhood();
    void showWhole();
    void pick(int node);
    void selectLayersOf(const GraphNode &box);
    void selectionChanged();
    void showSelection();
    [[nodiscard]] Cell stageCell(std::size_t layer) const;

    QLabel *m_summary;
    SearchBar *m_search;
    QPushButton *m_cancel;
    QLabel *m_note;
    QTabWidget *m_tabs;
    GraphPage *m_page;
    GraphCanvas *m_canvas; ///< of the page
    DataTable *m_table;
    DotProcess m_dot;
    WhenSeen *m_whenSeen; ///< asks for figures
    QList<QAction *> m_commands;
    std::shared_ptr<const import::Model> m_shown; ///< keeps the data of m_scopes alive
    std::unique_ptr<ScopeGraph> m_scopes;
    std::set<std::string> m_open;
    VisibleGraph m_whole;
    VisibleGraph m_pending; ///< being laid out: m_whole, or a window or neighbourhood of it
    std::string m_around;   ///< scope or operator that was opened, closed or walked to: the window is around it
    std::string m_reveal;   ///< becomes current after the layout
    int m_steps = 0;        ///< of the neighbourhood of m_around that is shown; 0: all boxes
    GraphPage::FiguresPtr m_figures;
    LatestJob m_figuring{tr("Computing the model's figures")}; // last: its thread ends first
};

} // namespace planloom::ui

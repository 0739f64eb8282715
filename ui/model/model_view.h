// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QTabWidget>

#include "ui/model/dot_process.h"
#include "ui/model/graph_canvas.h"
#include "ui/widgets/view.h"
#include "ui/widgets/data_table.h"

#include <memory>
#include <set>

namespace planloom::ui {

/// The model as a graph of scopes that open and close, and as a table of layers.
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
    [[nodiscard]] bool layingOut() const { return m_dot.running(); }

private:
    void build();
    void makeCommands();
    void modelChanged();
    void openContainers();
    void refreshTable();
    void layOut();
    [[nodiscard]] bool showsGraph() const;
    [[nodiscard]] int selectedNode() const;
    [[nodiscard]] std::size_t centre() const;
    [[nodiscard]] bool isWindow() const { return m_pending.nodes.size() < m_whole.nodes.size(); }
    void laidOut(const PlainLayout &layout);
    void toggle(int node);
    void closeAround(int node);
    void openAll();
    void closeAll();
    void findNext();
    void pick(int node);
    void showSelection();
    [[nodiscard]] std::vector<std::vector<QColor>> stageColors(const VisibleGraph &graph) const;
    [[nodiscard]] Cell stageCell(std::size_t layer) const;

    QLabel *m_summary;
    QLineEdit *m_search;
    QPushButton *m_cancel;
    QLabel *m_note;
    QTabWidget *m_tabs;
    GraphCanvas *m_canvas;
    DataTable *m_table;
    DotProcess m_dot;
    QList<QAction *> m_commands;
    std::shared_ptr<const import::Model> m_shown; ///< keeps the data of m_scopes alive
    std::unique_ptr<ScopeGraph> m_scopes;
    std::set<std::string> m_open;
    VisibleGraph m_whole;
    VisibleGraph m_pending; ///< being laid out: m_whole, or a window of it
    std::string m_around;   ///< scope or operator that was opened, closed or walked to: the window is around it
    std::string m_reveal;   ///< becomes current after the layout
    QString m_lastSearch;
    std::size_t m_hit = 0;
};

} // namespace planloom::ui

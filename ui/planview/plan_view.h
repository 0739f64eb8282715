// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QSplitter>
#include <QTabWidget>

#include "ui/planview/admm_controls.h"
#include "ui/planview/alternatives_panel.h"
#include "ui/planview/annotation_table.h"
#include "ui/planview/exchange_tab.h"
#include "ui/planview/layer_bars.h"
#include "ui/planview/plan_controls.h"
#include "ui/planview/stage_table.h"
#include "ui/widgets/view.h"
#include "ui/widgets/data_table.h"

namespace planloom::ui {

/// The plan as spans over the layers and as a table of stages, its simulated result, and the alternatives that the
/// planner found. Every change goes through the state: undoable, or refused with the reason.
class PlanView final : public View {
    Q_OBJECT

public:
    explicit PlanView(StudioState *state, QWidget *parent = nullptr);
    ~PlanView() override;
    [[nodiscard]] QString title() const override { return tr("Plan"); }
    [[nodiscard]] QList<QAction *> commands() const override { return m_commands; }
    [[nodiscard]] QWidget *focusTarget() override { return m_bars; }

    // The edits behind the commands; false if refused.
    bool moveBoundaryTo(int boundary, std::size_t layer);
    void tryBoundaryAt(int boundary, std::size_t layer);
    bool split(int stage, std::size_t layer);
    bool merge(int stage);
    bool takeAlternative(int row); ///< of alternatives()
    [[nodiscard]] AlternativesPanel *alternatives() { return m_alternatives; }

protected:
    void resizeEvent(QResizeEvent *event) override;

private:
    void build();
    void fillWhyTab();
    void connectParts();
    void makeCommands();
    void refresh();
    void refreshPrediction();
    void refreshTables();
    void refreshStages();
    void refreshAnnotations();
    void refreshWhy();
    void showSelection();
    [[nodiscard]] const simulate::Report *report() const; ///< of the document as it is; null while it is simulated
    [[nodiscard]] int pickedStage();                      ///< -1 after a message with the reason
    void editPicked(StageColumn column, const QVariant &value);
    void changeReplicas(int by);

    PlanControls *m_controls;
    AdmmControls *m_admm; ///< a tab of plans that train by ADMM
    QLabel *m_summary;
    QLabel *m_estimate;
    QSplitter *m_splitter;
    LayerBars *m_bars;
    QTabWidget *m_tabs;
    QLineEdit *m_search;
    DataTable *m_stages;
    AlternativesPanel *m_alternatives;
    DataTable *m_annotations;
    ExchangeTab *m_exchange;
    QWidget *m_whyTab;
    QLabel *m_whyText;
    DataTable *m_why;
    WhenSeen *m_seen;
    WhenSeen *m_predictionSeen;
    WhenSeen *m_selectionSeen;
    WhenSeen *m_stagesSeen;
    WhenSeen *m_alternativesSeen;
    WhenSeen *m_annotationsSeen;
    WhenSeen *m_whySeen;
    AnnotationScopes m_scopes;
    QList<QAction *> m_commands;
};

} // namespace planloom::ui

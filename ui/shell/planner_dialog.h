// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QDialog>
#include <QFormLayout>
#include <QGroupBox>
#include <QLabel>
#include <QLineEdit>
#include <QScrollArea>
#include <QSpinBox>

#include "ui/shell/optimizer_fields.h"
#include "ui/state/studio_state.h"

#include <memory>
#include <utility>
#include <vector>

namespace planloom::ui {

/// Asks for everything that a planner needs: model, cluster, planner with its options and, where it needs one, the
/// graph that is sampled, batch, precision, ZeRO, optimizer, exchange, and the loss of a model that has none. The
/// optimizer's other settings are those of the request that it was given.
class PlannerDialog final : public QDialog {
    Q_OBJECT

public:
    explicit PlannerDialog(const StudioState &state, QWidget *parent = nullptr);
    [[nodiscard]] QString modelSource() const { return m_model->currentText().trimmed(); }
    [[nodiscard]] QString clusterSource() const { return m_cluster->currentText().trimmed(); }
    /// The losses that the model is to be loaded with (import/loss/choice.h); empty: by what it ends in.
    [[nodiscard]] std::vector<std::string> loss() const;
    [[nodiscard]] PlanRequest request() const;
    void setRequest(const PlanRequest &request);
    /// Only if the learning rate, the exchange and the losses can be read and the graph's folder holds one; else says
    /// what is wrong with them.
    void accept() override;
    [[nodiscard]] QString problem() const { return m_problem->text(); }

private:
    void fillFields(const StudioState &state);
    QFormLayout *makeForm();
    void fillSources(const StudioState &state);
    void showPlanner();
    [[nodiscard]] QLineEdit *fieldOf(const planners::OptionInfo &option, QWidget *&row);
    void addGraphRow();
    void browseGraph();
    void enableOptimizer();
    [[nodiscard]] QString wrongInput() const; ///< why it cannot be accepted; empty: it can
    void fixHeights();

    QComboBox *m_model;
    QComboBox *m_cluster;
    QComboBox *m_planner;
    QLabel *m_about;
    QSpinBox *m_batch;
    QSpinBox *m_microBatch;
    QComboBox *m_precision;
    QComboBox *m_zero;
    std::unique_ptr<OptimizerFields> m_optimizer;
    QLineEdit *m_exchange;
    QLineEdit *m_loss;
    QLabel *m_problem; ///< why it cannot be accepted
    QGroupBox *m_group;
    QScrollArea *m_scroll;
    QFormLayout *m_options;
    PlanRequest m_given; ///< values without a field in the dialog stay unchanged
    std::vector<std::pair<std::string, QLineEdit *>> m_fields;
    QLineEdit *m_graph = nullptr; ///< of planners that sample one
};

} // namespace planloom::ui

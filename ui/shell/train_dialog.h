// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>

#include "executor/agent/client.h"

namespace planloom::ui {

/// Asks for the training data, the number of steps and checkpoints. Starts only with data that can be read and a folder
/// without a run. To resume a run (its request has `resume`), its folder and seed are shown and stay.
class TrainDialog final : public QDialog {
    Q_OBJECT

public:
    explicit TrainDialog(const agent::TrainRequest &last, QWidget *parent = nullptr);
    /// Shows @p notes on cores that the plan's devices share (cluster::sharedCoreNotes).
    void setSharedCores(const QStringList &notes);
    [[nodiscard]] agent::TrainRequest request() const; ///< without a plan

private:
    void browse();
    void check();

    agent::TrainRequest m_last;
    QLineEdit *m_data;
    QSpinBox *m_steps;
    QSpinBox *m_seed;
    QSpinBox *m_checkpoints;
    QSpinBox *m_restarts;
    QSpinBox *m_kernels; ///< seconds
    QLineEdit *m_folder;
    QLabel *m_crowded; ///< on cores that devices share
    QLabel *m_problem; ///< why it cannot start
    QPushButton *m_start;
};

} // namespace planloom::ui

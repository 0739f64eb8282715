// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>

#include "executor/agent/client.h"

namespace planloom::ui {

/// Asks for the training data and the number of steps. Starts only with data that can be read and a folder without a
/// run.
class TrainDialog final : public QDialog {
    Q_OBJECT

public:
    explicit TrainDialog(const agent::TrainRequest &last, QWidget *parent = nullptr);
    [[nodiscard]] agent::TrainRequest request() const; ///< without a plan

private:
    void browse();
    void check();

    QLineEdit *m_data;
    QSpinBox *m_steps;
    QSpinBox *m_seed;
    QLineEdit *m_folder;
    QLabel *m_problem; ///< why it cannot start
    QPushButton *m_start;
};

} // namespace planloom::ui

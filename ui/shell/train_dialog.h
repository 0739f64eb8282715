// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>

#include "executor/agent/client.h"

namespace planloom::ui {

/// Asks for the training data and the number of steps.
class TrainDialog final : public QDialog {
    Q_OBJECT

public:
    explicit TrainDialog(const agent::TrainRequest &last, QWidget *parent = nullptr);
    [[nodiscard]] agent::TrainRequest request() const; ///< without a plan

private:
    void browse();

    QLineEdit *m_data;
    QSpinBox *m_steps;
    QSpinBox *m_seed;
    QLineEdit *m_folder;
    QPushButton *m_start;
};

} // namespace planloom::ui

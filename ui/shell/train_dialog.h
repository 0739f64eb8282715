// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>

#include "ui/state/run_data.h"

namespace planloom::ui {

/// Asks what to train on and for how long.
class TrainDialog final : public QDialog {
    Q_OBJECT

public:
    explicit TrainDialog(const TrainOptions &last, QWidget *parent = nullptr);
    [[nodiscard]] TrainOptions options() const;

private:
    void browse();

    QLineEdit *m_data;
    QSpinBox *m_steps;
    QSpinBox *m_seed;
    QLineEdit *m_folder;
    QPushButton *m_start;
};

} // namespace planloom::ui

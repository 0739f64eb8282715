// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QLineEdit>
#include <QSpinBox>
#include <QWidget>

#include "ui/state/studio_state.h"

#include <functional>

namespace planloom::ui {

/// The figures of the whole plan: batch, micro-batches, schedule, precision, optimizer with its rates (of a plan that
/// begins with ADMM that of the steps behind it), exchange. Every change is one undoable edit of the state; after a
/// refused one the old figure is shown again, with the reason below the field.
class PlanControls final : public QWidget {
    Q_OBJECT

public:
    explicit PlanControls(StudioState *state, QWidget *parent = nullptr);

private:
    void add(const QString &label, QWidget *widget, const QString &toolTip);
    void refresh();
    void edit(QWidget *field, const QString &what, const std::function<void(plan::Plan &)> &change);
    void setSchedule(int index);
    void setOptimizer(int index);
    void setPrecision(int index);
    void setRate(QLineEdit *field, const QString &name, double plan::Optimizer::*rate);
    void setNoDecay(bool none);
    void setExchange();

    StudioState *m_state;
    QSpinBox *m_batch;
    QSpinBox *m_microBatches;
    QComboBox *m_schedule;
    QComboBox *m_precision;
    QComboBox *m_optimizer;
    QLineEdit *m_learningRate;
    QLineEdit *m_weightDecay;
    QCheckBox *m_noDecay;
    QLineEdit *m_exchange;
    bool m_refreshing = false;
};

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QDoubleSpinBox>
#include <QFormLayout>
#include <QLineEdit>

#include "engine/plan/plan.h"

#include <vector>

namespace planloom::ui {

/// Two rows of a form: the update rule of an optimizer with its learning rate; its weight decay with the parameters
/// that are exempt from it.
class OptimizerFields {
public:
    OptimizerFields(QFormLayout *form, QWidget *parent);
    void set(const plan::Optimizer &optimizer);
    /// Writes all into @p optimizer; settings of the same rule and groups that the fields cannot express stay as they
    /// are, as does the learning rate where the field's text is no number.
    void into(plan::Optimizer &optimizer) const;
    /// Whether plans that are asked for have steps by gradients.
    void setEnabled(bool enabled);
    /// What is wrong with the learning rate; empty: nothing.
    [[nodiscard]] QString problem() const;

private:
    void takeStandards(int rule);

    QComboBox *m_rule;
    QLineEdit *m_rate;
    QDoubleSpinBox *m_decay;
    QComboBox *m_exempt;
    std::vector<plan::ParameterGroup> m_groups; ///< as given, for the choice that keeps them
};

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QDoubleSpinBox>
#include <QFormLayout>

#include "engine/plan/plan.h"

#include <vector>

namespace planloom::ui {

/// Two rows of a form: the weight decay of an optimizer, and the parameters that are exempt from it.
class DecayFields {
public:
    DecayFields(QFormLayout *form, QWidget *parent);
    void set(const plan::Optimizer &optimizer);
    /// Writes both into @p optimizer; groups that the fields cannot express stay as they are.
    void into(plan::Optimizer &optimizer) const;

private:
    QDoubleSpinBox *m_decay;
    QComboBox *m_exempt;
    std::vector<plan::ParameterGroup> m_groups; ///< as given, for the choice that keeps them
};

} // namespace planloom::ui

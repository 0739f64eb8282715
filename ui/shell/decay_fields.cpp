// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/decay_fields.h"

#include "ui/widgets/text.h"

#include <QObject>

namespace planloom::ui {

namespace {

enum Exempt { Nothing, BiasesAndNorms, AsGiven };
constexpr const char *kBiasesAndNorms = "rank<2";

Exempt kindOf(const std::vector<plan::ParameterGroup> &groups)
{
    if (groups.empty())
        return Nothing;
    const plan::ParameterGroup &first = groups.front();
    const bool usual =
        groups.size() == 1 && first.match == kBiasesAndNorms && first.weightDecay == 0 && first.learningRateFactor == 1;
    return usual ? BiasesAndNorms : AsGiven;
}

} // namespace

DecayFields::DecayFields(QFormLayout *form, QWidget *parent)
    : m_decay(new QDoubleSpinBox(parent)),
      m_exempt(new QComboBox(parent))
{
    m_decay->setObjectName(QStringLiteral("weightDecay"));
    m_decay->setDecimals(4);
    m_decay->setSingleStep(0.01);
    m_decay->setRange(0, 1000);
    m_decay->setToolTip(QObject::tr("Share of a parameter that the optimizer takes away in a step, times the learning "
                                    "rate; 0: none"));
    m_exempt->setObjectName(QStringLiteral("noDecay"));
    m_exempt->addItems({QObject::tr("no parameters"), QObject::tr("biases and norms")});
    m_exempt->setToolTip(QObject::tr("Parameters without weight decay; Megatron-LM leaves out biases and norms"));
    form->addRow(QObject::tr("&Weight decay"), m_decay);
    form->addRow(QObject::tr("E&xempt from decay"), m_exempt);
    set({});
}

void DecayFields::set(const plan::Optimizer &optimizer)
{
    m_decay->setValue(optimizer.weightDecay);
    m_groups = optimizer.groups;
    while (m_exempt->count() > AsGiven)
        m_exempt->removeItem(AsGiven);
    if (kindOf(m_groups) == AsGiven)
        m_exempt->addItem(QObject::tr("as in the plan: %1").arg(qt(m_groups.front().match)));
    m_exempt->setCurrentIndex(kindOf(m_groups));
}

void DecayFields::into(plan::Optimizer &optimizer) const
{
    optimizer.weightDecay = m_decay->value();
    switch (m_exempt->currentIndex()) {
    case Nothing: optimizer.groups.clear(); break;
    case BiasesAndNorms: optimizer.groups = {{kBiasesAndNorms, 0, 1}}; break;
    default: optimizer.groups = m_groups;
    }
}

} // namespace planloom::ui

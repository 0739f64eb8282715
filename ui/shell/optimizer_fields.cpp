// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/optimizer_fields.h"

#include "ui/widgets/text.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QObject>
#include <QSignalBlocker>

#include <cmath>

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

/// A row of two fields, each with its label.
void addRow(QFormLayout *form, const QString &first, QWidget *field, const QString &second, QWidget *other)
{
    auto *row = new QHBoxLayout;
    auto *between = new QLabel(second, field->parentWidget());
    between->setBuddy(other);
    row->addWidget(field, 1);
    row->addWidget(between);
    row->addWidget(other, 1);
    auto *label = new QLabel(first, field->parentWidget());
    label->setBuddy(field); // a row that is a layout has no field to give the label
    form->addRow(label, row);
}

/// -1: no plan chooses it.
int numberOf(const update::Rule &rule)
{
    const auto &rules = update::allRules();
    for (std::size_t i = 0; i < rules.size(); ++i)
        if (rules[i].name == rule.name)
            return static_cast<int>(i);
    return -1;
}

} // namespace

OptimizerFields::OptimizerFields(QFormLayout *form, QWidget *parent)
    : m_rule(new QComboBox(parent)),
      m_rate(new QLineEdit(parent)),
      m_decay(new QDoubleSpinBox(parent)),
      m_exempt(new QComboBox(parent))
{
    m_rule->setObjectName(QStringLiteral("optimizer"));
    m_rule->setToolTip(QObject::tr("Update rule of steps by gradients; with planner admm of those behind the "
                                   "iterations that its option \"Switch after\" has"));
    for (const update::Rule &rule : update::allRules()) {
        m_rule->addItem(qt(rule.title));
        m_rule->setItemData(m_rule->count() - 1, qt(rule.about), Qt::ToolTipRole);
    }
    m_rate->setObjectName(QStringLiteral("learningRate"));
    m_rate->setToolTip(QObject::tr("Step size of the update rule"));
    QObject::connect(m_rule, &QComboBox::currentIndexChanged, m_rule, [this](int rule) { takeStandards(rule); });
    m_decay->setObjectName(QStringLiteral("weightDecay"));
    m_decay->setDecimals(4);
    m_decay->setSingleStep(0.01);
    m_decay->setRange(0, 1000);
    m_decay->setToolTip(QObject::tr("Share of a parameter that the optimizer takes away in a step, times the learning "
                                    "rate; 0: none"));
    m_exempt->setObjectName(QStringLiteral("noDecay"));
    m_exempt->addItems({QObject::tr("no parameters"), QObject::tr("biases and norms")});
    m_exempt->setToolTip(QObject::tr("Parameters without weight decay; Megatron-LM leaves out biases and norms"));
    addRow(form, QObject::tr("&Optimizer"), m_rule, QObject::tr("Learning &rate"), m_rate);
    addRow(form, QObject::tr("&Weight decay"), m_decay, QObject::tr("E&xempt"), m_exempt);
    set({});
}

/// Another rule begins with its own rates.
void OptimizerFields::takeStandards(int rule)
{
    if (rule < 0)
        return;
    const update::Rule &chosen = update::allRules()[static_cast<std::size_t>(rule)];
    m_rate->setText(QString::number(chosen.learningRate));
    m_decay->setValue(chosen.weightDecay);
}

void OptimizerFields::setEnabled(bool enabled)
{
    for (QWidget *field : {static_cast<QWidget *>(m_rule), static_cast<QWidget *>(m_rate),
                           static_cast<QWidget *>(m_decay), static_cast<QWidget *>(m_exempt)})
        field->setEnabled(enabled);
}

QString OptimizerFields::problem() const
{
    bool isNumber = false;
    const double rate = m_rate->text().trimmed().toDouble(&isNumber);
    return isNumber && std::isfinite(rate) && rate >= 0
        ? QString()
        : QObject::tr("Learning rate: \"%1\" must be a number of at least 0; write it as 0.001").arg(m_rate->text());
}

void OptimizerFields::set(const plan::Optimizer &optimizer)
{
    const QSignalBlocker quiet(m_rule);
    m_rule->setCurrentIndex(numberOf(optimizer.rule.rule()));
    m_rate->setText(QString::number(optimizer.learningRate));
    m_rate->setCursorPosition(0);
    m_decay->setValue(optimizer.weightDecay);
    m_groups = optimizer.groups;
    while (m_exempt->count() > AsGiven)
        m_exempt->removeItem(AsGiven);
    if (kindOf(m_groups) == AsGiven)
        m_exempt->addItem(QObject::tr("as in the plan: %1").arg(qt(m_groups.front().match)));
    m_exempt->setCurrentIndex(kindOf(m_groups));
}

void OptimizerFields::into(plan::Optimizer &optimizer) const
{
    const int rule = m_rule->currentIndex();
    if (rule >= 0 && rule != numberOf(optimizer.rule.rule()))
        optimizer.rule = update::ConfiguredRule(update::allRules()[static_cast<std::size_t>(rule)]);
    const QString rate = m_rate->text().trimmed();
    if (rate != QString::number(optimizer.learningRate) && problem().isEmpty())
        optimizer.learningRate = rate.toDouble();
    optimizer.weightDecay = m_decay->value();
    switch (m_exempt->currentIndex()) {
    case Nothing: optimizer.groups.clear(); break;
    case BiasesAndNorms: optimizer.groups = {{kBiasesAndNorms, 0, 1}}; break;
    default: optimizer.groups = m_groups;
    }
}

} // namespace planloom::ui

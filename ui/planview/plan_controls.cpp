// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/plan_controls.h"

#include "ui/planview/stage_edits.h"
#include "ui/widgets/committed_undo.h"
#include "ui/widgets/text.h"
#include "ui/widgets/wrap_layout.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QStandardItemModel>

namespace planloom::ui {

namespace {

constexpr int kLargestBatch = 1'000'000'000; // as plan::validate has it

int indexOf(const update::Rule &rule) { return static_cast<int>(&rule - update::allRules().data()); }

/// That optimizerOfGradients() names, which must be there.
plan::Optimizer &optimizerIn(plan::Plan &plan) { return plan.then ? plan.then->optimizer : plan.optimizer; }

QString exchangeToolTip()
{
    QString text = PlanControls::tr("How replicas combine what they learn, as --exchange has it:");
    for (const plan::ExchangePolicyRow &row : plan::kExchangePolicies)
        text += QStringLiteral("\n%1: %2").arg(QString::fromUtf8(row.name), QString::fromUtf8(row.about));
    return text;
}

} // namespace

PlanControls::PlanControls(StudioState *state, QWidget *parent)
    : QWidget(parent),
      m_state(state),
      m_batch(new QSpinBox(this)),
      m_microBatches(new QSpinBox(this)),
      m_schedule(new QComboBox(this)),
      m_optimizer(new QComboBox(this)),
      m_learningRate(new QLineEdit(this)),
      m_exchange(new QLineEdit(this))
{
    (new WrapLayout(this, 12))->setContentsMargins(8, 0, 4, 0);
    for (QSpinBox *box : {m_batch, m_microBatches}) {
        box->setRange(1, kLargestBatch);
        box->setKeyboardTracking(false);
        box->setMinimumWidth(76);
        undoWhenCommitted(box);
    }
    for (const std::string &name : plan::scheduleNames())
        m_schedule->addItem(qt(name));
    for (const update::Rule &rule : update::allRules()) {
        m_optimizer->addItem(qt(rule.title));
        m_optimizer->setItemData(m_optimizer->count() - 1, qt(rule.about), Qt::ToolTipRole);
    }
    m_learningRate->setMaximumWidth(100);
    undoWhenCommitted(m_learningRate);
    add(tr("Batch"), m_batch, tr("Samples of one iteration, over all replicas"));
    add(tr("Micro-batches"), m_microBatches, tr("Number of parts that the batch is split into"));
    add(tr("Schedule"), m_schedule, tr("Order of forward and backward passes on each stage"));
    add(tr("Optimizer"), m_optimizer,
        tr("Update rule of steps by gradients; AdamW stores two extra values per parameter"));
    add(tr("Learning rate"), m_learningRate, tr("Step size of the update rule"));
    m_exchange->setMinimumWidth(110);
    undoWhenCommitted(m_exchange);
    add(tr("Exchange"), m_exchange, exchangeToolTip());

    connect(m_batch, &QSpinBox::valueChanged, this, [this](int value) {
        edit(tr("Batch of %1").arg(value), [value](plan::Plan &plan) { plan.globalBatch = value; });
    });
    connect(m_microBatches, &QSpinBox::valueChanged, this, [this](int value) {
        edit(tr("%1 micro-batches").arg(value), [value](plan::Plan &plan) { setMicroBatches(plan, value); });
    });
    connect(m_schedule, &QComboBox::currentIndexChanged, this, &PlanControls::setSchedule);
    connect(m_optimizer, &QComboBox::currentIndexChanged, this, &PlanControls::setOptimizer);
    connect(m_learningRate, &QLineEdit::editingFinished, this, &PlanControls::setLearningRate);
    connect(m_exchange, &QLineEdit::editingFinished, this, &PlanControls::setExchange);
    connect(state, &StudioState::documentChanged, this, &PlanControls::refresh);
    refresh();
}

void PlanControls::add(const QString &label, QWidget *widget, const QString &toolTip)
{
    auto *both = new QWidget(this);
    auto *line = new QHBoxLayout(both);
    line->setContentsMargins(0, 0, 0, 0);
    auto *name = new QLabel(label, both);
    line->addWidget(name);
    line->addWidget(widget);
    name->setBuddy(widget);
    widget->setAccessibleName(label);
    widget->setToolTip(toolTip);
    layout()->addWidget(both);
}

void PlanControls::refresh()
{
    const auto &document = m_state->document();
    setEnabled(document != nullptr);
    if (!document)
        return;
    const plan::Plan &plan = document->plan;
    m_refreshing = true;
    m_batch->setValue(static_cast<int>(plan.globalBatch));
    m_microBatches->setValue(static_cast<int>(plan.microBatches));
    m_schedule->setCurrentIndex(static_cast<int>(plan.schedule.kind));
    // A custom order lists every task; it comes with a plan file and cannot be chosen.
    auto *items = qobject_cast<QStandardItemModel *>(m_schedule->model());
    items->item(static_cast<int>(plan::ScheduleKind::Custom))
        ->setEnabled(plan.schedule.kind == plan::ScheduleKind::Custom);
    const plan::Optimizer *optimizer = optimizerOfGradients(plan);
    m_optimizer->setCurrentIndex(optimizer ? indexOf(optimizer->rule.rule()) : -1);
    m_optimizer->setEnabled(optimizer != nullptr);
    m_learningRate->setEnabled(optimizer != nullptr);
    m_learningRate->setText(optimizer ? QString::number(optimizer->learningRate) : QString());
    m_learningRate->setCursorPosition(0); // the first digits are seen where not all are
    m_exchange->setText(qt(plan::textOf(plan.exchange)));
    m_exchange->setCursorPosition(0);
    m_refreshing = false;
}

void PlanControls::edit(const QString &what, const std::function<void(plan::Plan &)> &change)
{
    if (!m_refreshing && !m_state->editPlan(what, change))
        refresh();
}

void PlanControls::setSchedule(int index)
{
    const auto kind = static_cast<plan::ScheduleKind>(index);
    edit(tr("Schedule %1").arg(QString::fromUtf8(plan::name(kind))), [kind](plan::Plan &plan) {
        plan.schedule.kind = kind;
        if (kind != plan::ScheduleKind::Custom)
            plan.schedule.order.clear();
        if (kind == plan::ScheduleKind::Interleaved1F1B) // has its own warm-up
            plan.schedule.warmup.clear();
    });
}

void PlanControls::setOptimizer(int index)
{
    edit(tr("Optimizer %1").arg(m_optimizer->itemText(index)), [index](plan::Plan &plan) {
        optimizerIn(plan).rule = update::ConfiguredRule(update::allRules()[static_cast<std::size_t>(index)]);
    });
}

void PlanControls::setLearningRate()
{
    if (!m_state->document() || !optimizerOfGradients(m_state->document()->plan))
        return;
    bool isNumber = false;
    const double rate = m_learningRate->text().toDouble(&isNumber);
    const double before = optimizerOfGradients(m_state->document()->plan)->learningRate;
    if (isNumber && QString::number(rate) == QString::number(before))
        return refresh();
    if (!isNumber) {
        m_state->say(MessageLevel::Error,
                     tr("The learning rate \"%1\" is not a number; write it as 0.001").arg(m_learningRate->text()));
        return refresh();
    }
    edit(tr("Learning rate %1").arg(rate), [rate](plan::Plan &plan) { optimizerIn(plan).learningRate = rate; });
}

void PlanControls::setExchange()
{
    if (m_refreshing || !m_state->document())
        return;
    const std::string before = plan::textOf(m_state->document()->plan.exchange);
    const std::string text = m_exchange->text().trimmed().toStdString();
    if (text == before)
        return;
    const auto exchange = plan::exchangeFromText(text);
    if (!exchange) {
        m_state->say(MessageLevel::Error, tr("Exchange: %1").arg(qt(exchange.error().message)));
        return refresh();
    }
    edit(tr("Exchange %1").arg(qt(text)), [&](plan::Plan &plan) {
        auto groups = std::move(plan.exchange.groups); // which the text does not have
        plan.exchange = *exchange;
        plan.exchange.groups = std::move(groups);
    });
}

} // namespace planloom::ui

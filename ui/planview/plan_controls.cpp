// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/plan_controls.h"

#include "engine/plan/stage_edits.h"
#include "ui/planview/refusal_tip.h"
#include "ui/widgets/committed_undo.h"
#include "ui/widgets/text.h"
#include "ui/widgets/wrap_layout.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QStandardItemModel>

#include <algorithm>
#include <iterator>

namespace planloom::ui {

namespace {

constexpr int kLargestBatch = 1'000'000'000; // as plan::validate has it

constexpr plan::Precision kPrecisions[] = {plan::Precision::Float32, plan::Precision::BFloat16};
constexpr const char *kVectors = "rank<2"; // as plan::ParameterGroup names biases and norms

bool sparesVectors(const plan::Optimizer &optimizer)
{
    return std::any_of(optimizer.groups.begin(), optimizer.groups.end(), [](const plan::ParameterGroup &group) {
        return group.match == kVectors && group.weightDecay == 0;
    });
}

void spareVectors(plan::Optimizer &optimizer, bool spares)
{
    std::erase_if(optimizer.groups, [](const plan::ParameterGroup &group) { return group.match == kVectors; });
    if (spares)
        optimizer.groups.push_back({kVectors, 0, 1});
}

int indexOf(const update::Rule &rule) { return static_cast<int>(&rule - update::allRules().data()); }

/// interleaved-1f1b has nothing to interleave where no device has a second stage.
bool hasOneChunk(const plan::Plan &plan)
{
    const auto groups = plan::stageGroups(plan);
    return plan.schedule.kind == plan::ScheduleKind::Interleaved1F1B
        && std::all_of(groups.begin(), groups.end(), [](const auto &stages) { return stages.size() == 1; });
}

QString oneChunkText()
{
    return PlanControls::tr("There is only one stage on each device, so interleaved-1f1b gives the order of 1f1b; to "
                            "interleave, give several stages the same devices (planner manual: interleave=2)");
}

QString scheduleToolTip(const plan::Plan *plan)
{
    const QString about = PlanControls::tr("Order of forward and backward passes on each stage");
    return plan && hasOneChunk(*plan) ? about + QLatin1Char('\n') + oneChunkText() : about;
}

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
      m_precision(new QComboBox(this)),
      m_optimizer(new QComboBox(this)),
      m_learningRate(new QLineEdit(this)),
      m_weightDecay(new QLineEdit(this)),
      m_noDecay(new QCheckBox(tr("Spare biases and norms"), this)),
      m_exchange(new QLineEdit(this))
{
    (new WrapLayout(this, 10))->setContentsMargins(8, 0, 4, 0);
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
    for (const plan::Precision precision : kPrecisions)
        m_precision->addItem(QString::fromUtf8(plan::name(precision)));
    for (QLineEdit *field : {m_learningRate, m_weightDecay}) {
        field->setMaximumWidth(64);
        undoWhenCommitted(field);
    }
    add(tr("Batch"), m_batch, tr("Samples of one iteration, over all replicas"));
    add(tr("Micro-batches"), m_microBatches, tr("Number of parts that the batch is split into"));
    add(tr("Schedule"), m_schedule, scheduleToolTip(nullptr));
    add(tr("Precision"), m_precision,
        tr("Number format of activations and matrix products; master weights, gradients and optimizer state stay "
           "fp32"));
    add(tr("Optimizer"), m_optimizer,
        tr("Update rule of steps by gradients; AdamW stores two extra values per parameter"));
    add(tr("Learning rate"), m_learningRate, tr("Step size of the update rule"));
    add(tr("Weight decay"), m_weightDecay,
        tr("Part of each parameter that a step takes away, times the learning rate"));
    m_noDecay->setToolTip(tr("No weight decay of parameters with less than two dimensions, as Megatron-LM has it"));
    m_noDecay->setAccessibleName(m_noDecay->text());
    layout()->addWidget(m_noDecay);
    m_exchange->setMinimumWidth(110);
    undoWhenCommitted(m_exchange);
    add(tr("Exchange"), m_exchange, exchangeToolTip());

    connect(m_batch, &QSpinBox::valueChanged, this, [this](int value) {
        edit(m_batch, tr("Batch of %1").arg(value), [value](plan::Plan &plan) { plan.globalBatch = value; });
    });
    connect(m_microBatches, &QSpinBox::valueChanged, this, [this](int value) {
        edit(m_microBatches, tr("%1 micro-batches").arg(value),
             [value](plan::Plan &plan) { setMicroBatches(plan, value); });
    });
    connect(m_schedule, &QComboBox::currentIndexChanged, this, &PlanControls::setSchedule);
    connect(m_optimizer, &QComboBox::currentIndexChanged, this, &PlanControls::setOptimizer);
    connect(m_precision, &QComboBox::currentIndexChanged, this, &PlanControls::setPrecision);
    connect(m_learningRate, &QLineEdit::editingFinished, this,
            [this] { setRate(m_learningRate, tr("Learning rate"), &plan::Optimizer::learningRate); });
    connect(m_weightDecay, &QLineEdit::editingFinished, this,
            [this] { setRate(m_weightDecay, tr("Weight decay"), &plan::Optimizer::weightDecay); });
    connect(m_noDecay, &QCheckBox::toggled, this, &PlanControls::setNoDecay);
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
    m_schedule->setToolTip(scheduleToolTip(&plan));
    // A custom order lists every task; it comes with a plan file and cannot be chosen.
    auto *items = qobject_cast<QStandardItemModel *>(m_schedule->model());
    items->item(static_cast<int>(plan::ScheduleKind::Custom))
        ->setEnabled(plan.schedule.kind == plan::ScheduleKind::Custom);
    const plan::Optimizer *optimizer = optimizerOfGradients(plan);
    m_optimizer->setCurrentIndex(optimizer ? indexOf(optimizer->rule.rule()) : -1);
    m_optimizer->setEnabled(optimizer != nullptr);
    m_precision->setCurrentIndex(static_cast<int>(
        std::find(std::begin(kPrecisions), std::end(kPrecisions), plan.precision) - std::begin(kPrecisions)));
    for (QWidget *field : std::initializer_list<QWidget *>{m_learningRate, m_weightDecay, m_noDecay})
        field->setEnabled(optimizer != nullptr);
    m_learningRate->setText(optimizer ? QString::number(optimizer->learningRate) : QString());
    m_weightDecay->setText(optimizer ? QString::number(optimizer->weightDecay) : QString());
    for (QLineEdit *field : {m_learningRate, m_weightDecay})
        field->setCursorPosition(0); // the first digits are seen where not all are
    m_noDecay->setChecked(optimizer && sparesVectors(*optimizer));
    m_exchange->setText(qt(plan::textOf(plan.exchange)));
    m_exchange->setCursorPosition(0);
    m_refreshing = false;
}

void PlanControls::edit(QWidget *field, const QString &what, const std::function<void(plan::Plan &)> &change)
{
    if (!m_refreshing && !editAt(*m_state, field, field->rect(), [&] { return m_state->editPlan(what, change); }))
        refresh();
}

void PlanControls::setSchedule(int index)
{
    const auto kind = static_cast<plan::ScheduleKind>(index);
    const bool isNew = !m_refreshing;
    edit(m_schedule, tr("Schedule %1").arg(QString::fromUtf8(plan::name(kind))),
         [kind](plan::Plan &plan) { plan::setSchedule(plan, kind); });
    if (isNew && m_state->document() && hasOneChunk(m_state->document()->plan))
        m_state->say(MessageLevel::Warning, oneChunkText());
}

void PlanControls::setOptimizer(int index)
{
    edit(m_optimizer, tr("Optimizer %1").arg(m_optimizer->itemText(index)), [index](plan::Plan &plan) {
        optimizerIn(plan).rule = update::ConfiguredRule(update::allRules()[static_cast<std::size_t>(index)]);
    });
}

void PlanControls::setPrecision(int index)
{
    if (index < 0)
        return;
    const plan::Precision precision = kPrecisions[index];
    edit(m_precision, tr("Precision %1").arg(QString::fromUtf8(plan::name(precision))),
         [precision](plan::Plan &plan) { plan.precision = precision; });
}

/// Of the optimizer, from the text of @p field; @p name is its label.
void PlanControls::setRate(QLineEdit *field, const QString &name, double plan::Optimizer::*rate)
{
    if (m_refreshing || !m_state->document() || !optimizerOfGradients(m_state->document()->plan))
        return;
    bool isNumber = false;
    const double value = field->text().toDouble(&isNumber);
    const double before = optimizerOfGradients(m_state->document()->plan)->*rate;
    if (isNumber && QString::number(value) == QString::number(before))
        return refresh();
    if (!isNumber) {
        editAt(*m_state, field, field->rect(), [&] {
            m_state->say(MessageLevel::Error,
                         tr("%1: \"%2\" is not a number; write it as 0.001").arg(name, field->text()));
            return false;
        });
        return refresh();
    }
    edit(field, tr("%1 %2").arg(name).arg(value), [=](plan::Plan &plan) { optimizerIn(plan).*rate = value; });
}

void PlanControls::setNoDecay(bool none)
{
    edit(m_noDecay, none ? tr("No weight decay of biases and norms") : tr("Weight decay of biases and norms"),
         [none](plan::Plan &plan) { spareVectors(optimizerIn(plan), none); });
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
        editAt(*m_state, m_exchange, m_exchange->rect(), [&] {
            m_state->say(MessageLevel::Error, tr("Exchange: %1").arg(qt(exchange.error().message)));
            return false;
        });
        return refresh();
    }
    edit(m_exchange, tr("Exchange %1").arg(qt(text)), [&](plan::Plan &plan) {
        auto groups = std::move(plan.exchange.groups); // which the text does not have
        plan.exchange = *exchange;
        plan.exchange.groups = std::move(groups);
    });
}

} // namespace planloom::ui

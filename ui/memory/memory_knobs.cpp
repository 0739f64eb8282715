// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/memory_knobs.h"

#include "ui/widgets/committed_undo.h"
#include "ui/widgets/text.h"
#include "ui/widgets/when_seen.h"
#include "ui/widgets/wrap_layout.h"

#include <QCoreApplication>
#include <QHBoxLayout>
#include <QLabel>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace planloom::ui {
namespace {

constexpr double kGiga = 1e9;

/// What may lie in the host tier while nothing uses it.
struct Hosted {
    const char *name;
    bool states;
    bool parameters;
};
constexpr Hosted kHosted[] = {
    {QT_TRANSLATE_NOOP("MemoryKnobs", "nothing"), false, false},
    {QT_TRANSLATE_NOOP("MemoryKnobs", "states"), true, false},
    {QT_TRANSLATE_NOOP("MemoryKnobs", "parameters"), false, true},
    {QT_TRANSLATE_NOOP("MemoryKnobs", "both"), true, true},
};

int hostedIn(const plan::Memory &memory)
{
    const auto *found = std::find_if(std::begin(kHosted), std::end(kHosted), [&](const Hosted &each) {
        return each.states == memory.hostStates && each.parameters == memory.hostParameters;
    });
    return static_cast<int>(found - std::begin(kHosted));
}

const plan::MemorySetting &settingOf(std::string_view name)
{
    const auto &all = plan::memorySettings();
    return *std::find_if(all.begin(), all.end(), [&](const plan::MemorySetting &each) { return name == each.name; });
}

/// Of the first stage that has a policy; the defaults where none has.
plan::Memory shownOf(const plan::Plan &plan)
{
    for (const plan::Stage &stage : plan.stages)
        if (stage.memory.limits())
            return stage.memory;
    return {};
}

} // namespace

MemoryKnobs::MemoryKnobs(StudioState *state, QWidget *parent)
    : QWidget(parent),
      m_state(state),
      m_policy(new QComboBox(this)),
      m_budget(new QSpinBox(this)),
      m_director(new QComboBox(this)),
      m_bandwidth(new QLineEdit(this)),
      m_clock(new QComboBox(this)),
      m_hosted(new QComboBox(this))
{
    for (const plan::MemoryFilterRow &row : plan::kMemoryFilters) {
        m_policy->addItem(QString::fromUtf8(row.name));
        m_policy->setItemData(m_policy->count() - 1, QString::fromUtf8(row.about), Qt::ToolTipRole);
    }
    for (const char *name : {"rule", "chain", "swap", "recompute"}) // in the order of plan::MemoryDirector
        m_director->addItem(QString::fromUtf8(name));
    for (const char *name : {"logical", "measured"}) // in the order of plan::MemoryClock
        m_clock->addItem(QString::fromUtf8(name));
    for (const Hosted &each : kHosted)
        m_hosted->addItem(QCoreApplication::translate("MemoryKnobs", each.name));
    m_budget->setRange(0, 100);
    m_budget->setSuffix(tr(" %"));
    m_budget->setSpecialValueText(tr("in bytes"));
    m_budget->setKeyboardTracking(false);
    m_bandwidth->setMaximumWidth(70);
    undoWhenCommitted(m_budget);
    undoWhenCommitted(m_bandwidth);
    auto *layout = new WrapLayout(this, 8);
    layout->setContentsMargins(0, 0, 0, 0);
    const auto add = [&](const QString &label, QWidget *field, const QString &toolTip) {
        auto *pair = new QWidget(this);
        auto *inside = new QHBoxLayout(pair);
        inside->setContentsMargins(0, 0, 0, 0);
        auto *name = new QLabel(label, pair);
        name->setBuddy(field);
        field->setAccessibleName(label);
        field->setToolTip(toolTip);
        inside->addWidget(name);
        inside->addWidget(field);
        layout->addWidget(pair);
    };
    add(tr("Policy"), m_policy, tr("Which activations are evicted when a device runs out of memory; for all stages"));
    add(tr("Budget"), m_budget, tr("Share of the unlimited activation memory that may be on a device at once"));
    add(tr("Director"), m_director,
        tr("How an evicted tensor is restored. rule: the cheaper of copying and recomputing; chain: counts all that "
           "would have to be recomputed"));
    add(tr("Host GB/s"), m_bandwidth, tr("Bandwidth to the host, each way; 0: the device's own"));
    add(tr("Clock"), m_clock,
        tr("Which times the policy decides by. logical: predicted ones, the same in every run; measured: a run's own, "
           "measured in its first steps. The views here show the logical clock's decisions"));
    add(tr("On host"), m_hosted,
        tr("What is on the host while nothing uses it: the optimizer's states between updates, or parameters, which "
           "then count in the budget while they are on a device"));
    // On two lines at most, the last two on the second one: more would leave a low pane no room for the curves.
    const auto widthOf = [layout](int at) { return layout->itemAt(at)->sizeHint().width(); };
    setMinimumWidth(layout->sizeHint().width() - widthOf(layout->count() - 1) - widthOf(layout->count() - 2));

    connect(m_policy, &QComboBox::activated, this, &MemoryKnobs::setPolicy);
    connect(m_budget, &QSpinBox::valueChanged, this, [this](int percent) {
        if (percent == 0)
            return refresh();
        edit(tr("Memory budget of %1 %").arg(percent), [percent](plan::Memory &memory) {
            memory.budgetBytes = 0;
            memory.budgetShare = percent / 100.0;
        });
    });
    connect(m_director, &QComboBox::activated, this, [this](int index) {
        edit(tr("Memory director %1").arg(m_director->itemText(index)),
             [index](plan::Memory &memory) { memory.director = static_cast<plan::MemoryDirector>(index); });
    });
    connect(m_clock, &QComboBox::activated, this, [this](int index) {
        edit(tr("Memory clock %1").arg(m_clock->itemText(index)),
             [index](plan::Memory &memory) { memory.clock = static_cast<plan::MemoryClock>(index); });
    });
    connect(m_hosted, &QComboBox::activated, this, [this](int index) {
        edit(tr("On the host: %1").arg(m_hosted->itemText(index)), [index](plan::Memory &memory) {
            memory.hostStates = kHosted[index].states;
            memory.hostParameters = kHosted[index].parameters;
        });
    });
    connect(m_bandwidth, &QLineEdit::editingFinished, this, &MemoryKnobs::setBandwidth);
    auto *seen = new WhenSeen(this, [this] { showDocument(); });
    connect(state, &StudioState::documentChanged, seen, &WhenSeen::ask);
    refresh();
}

/// Most edits are of something else: the fields are left alone then.
void MemoryKnobs::showDocument()
{
    const auto &document = m_state->document();
    if ((document != nullptr) != isEnabled() || (document && shownOf(document->plan) != m_shown))
        refresh();
}

void MemoryKnobs::refresh()
{
    const auto &document = m_state->document();
    setEnabled(document != nullptr);
    const plan::Memory shown = document ? shownOf(document->plan) : plan::Memory();
    m_shown = shown;
    m_refreshing = true;
    m_policy->setCurrentIndex(static_cast<int>(shown.filter));
    m_budget->setValue(shown.budgetBytes > 0 ? 0 : static_cast<int>(std::lround(shown.budgetShare * 100)));
    m_director->setCurrentIndex(static_cast<int>(shown.director));
    m_bandwidth->setText(QString::number(shown.bandwidthOut / kGiga));
    m_clock->setCurrentIndex(static_cast<int>(shown.clock));
    m_hosted->setCurrentIndex(hostedIn(shown));
    for (QWidget *field :
         {static_cast<QWidget *>(m_budget), static_cast<QWidget *>(m_director), static_cast<QWidget *>(m_bandwidth),
          static_cast<QWidget *>(m_clock), static_cast<QWidget *>(m_hosted)})
        field->setEnabled(shown.limits());
    m_refreshing = false;
}

void MemoryKnobs::edit(const QString &what, const std::function<void(plan::Memory &)> &change)
{
    if (m_refreshing || !m_state->document())
        return;
    const plan::Memory shown = shownOf(m_state->document()->plan);
    plan::Memory changed = shown;
    change(changed);
    if (changed == shown)
        return;
    const auto edited = [&](plan::Plan &plan) {
        const bool anyLimits = std::any_of(plan.stages.begin(), plan.stages.end(),
                                           [](const plan::Stage &stage) { return stage.memory.limits(); });
        for (plan::Stage &stage : plan.stages)
            if (!anyLimits || stage.memory.limits())
                change(stage.memory);
    };
    if (!m_state->editPlan(what, edited))
        refresh();
}

void MemoryKnobs::setPolicy(int index)
{
    const auto filter = static_cast<plan::MemoryFilter>(index);
    edit(tr("Memory policy %1").arg(m_policy->itemText(index)), [filter](plan::Memory &memory) {
        if (filter == plan::MemoryFilter::None)
            memory = {};
        memory.filter = filter;
    });
}

void MemoryKnobs::take(plan::MemoryFilter filter, double share)
{
    edit(tr("Memory policy %1, %2 %").arg(m_policy->itemText(static_cast<int>(filter))).arg(std::lround(share * 100)),
         [=](plan::Memory &memory) {
             memory.filter = filter;
             memory.budgetBytes = 0;
             memory.budgetShare = share;
         });
}

void MemoryKnobs::setBandwidth()
{
    const std::string text = std::to_string(m_bandwidth->text().trimmed().toDouble() * kGiga);
    bool isNumber = false;
    m_bandwidth->text().trimmed().toDouble(&isNumber);
    plan::Memory checked;
    if (!isNumber || !settingOf("bandwidth_out").set(checked, text) || !plan::check(checked)) {
        if (!m_refreshing)
            m_state->say(MessageLevel::Error,
                         tr("The bandwidth to the host is %1; give a number of GB/s, or 0 for the "
                            "device's own")
                             .arg(m_bandwidth->text()));
        return refresh();
    }
    const double bandwidth = checked.bandwidthOut;
    edit(tr("Host link of %1 GB/s").arg(m_bandwidth->text()), [bandwidth](plan::Memory &memory) {
        memory.bandwidthOut = bandwidth;
        memory.bandwidthIn = bandwidth;
    });
    m_bandwidth->setModified(false);
}

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/exchange_tab.h"

#include "engine/plan/validate_tables.h"
#include "planners/common/exchange_tables.h"
#include "planners/common/exchange_warnings.h"
#include "ui/state/cluster_edit.h"
#include "ui/widgets/committed_undo.h"
#include "ui/widgets/text.h"

#include <QResizeEvent>
#include <QVBoxLayout>

#include <algorithm>
#include <array>

namespace planloom::ui {

namespace {

constexpr int kMostLocalSteps = 1'000'000; // as plan::check has it
constexpr std::array kFactors{0.1, 0.25, 0.5, 0.8, 1.25, 2.0, 4.0, 10.0};

QComboBox *comboOf(QWidget *parent, const QString &name)
{
    auto *box = new QComboBox(parent);
    box->setObjectName(name);
    return box;
}

QSpinBox *spinOf(QWidget *parent, const QString &name, int least)
{
    auto *box = new QSpinBox(parent);
    box->setObjectName(name);
    box->setRange(least, kMostLocalSteps);
    box->setKeyboardTracking(false);
    undoWhenCommitted(box);
    return box;
}

} // namespace

ExchangeTab::ExchangeTab(StudioState *state, QWidget *parent)
    : QScrollArea(parent),
      m_state(state),
      m_tablePanel(new TablePanel(this)),
      m_averagingPanel(new AveragingPanel(this)),
      m_kind(comboOf(this, QStringLiteral("exchange-kind"))),
      m_acrossSteps(new QCheckBox(tr("may end in the next step"), this)),
      m_dense(comboOf(this, QStringLiteral("exchange-dense"))),
      m_localSteps(spinOf(this, QStringLiteral("exchange-local-steps"), 1)),
      m_delay(spinOf(this, QStringLiteral("exchange-delay"), 0)),
      m_localWeight(new QDoubleSpinBox(this)),
      m_merge(comboOf(this, QStringLiteral("exchange-merge"))),
      m_warmup(spinOf(this, QStringLiteral("exchange-warmup"), 0)),
      m_inside(comboOf(this, QStringLiteral("exchange-inside"))),
      m_scheduling(comboOf(this, QStringLiteral("exchange-scheduling"))),
      m_network(comboOf(this, QStringLiteral("exchange-network"))),
      m_warnings(new QLabel(this))
{
    build();
    connectKnobs();
    auto *seen = new WhenSeen(this, [this] { refresh(); });
    connect(state, &StudioState::documentChanged, seen, &WhenSeen::ask);
    connectPanels(); // behind what shows and hides them
    seen->ask();
}

void ExchangeTab::build()
{
    for (const plan::ExchangePolicyRow &row : plan::kExchangePolicies) {
        m_kind->addItem(QString::fromUtf8(row.name));
        m_kind->setItemData(m_kind->count() - 1, QString::fromUtf8(row.about), Qt::ToolTipRole);
    }
    for (const plan::ExchangePolicy policy : {plan::ExchangePolicy::AllReduce, plan::ExchangePolicy::DelayedAveraging})
        m_dense->addItem(QString::fromUtf8(plan::name(policy)), static_cast<int>(policy));
    for (const plan::Merge merge : {plan::Merge::Convex, plan::Merge::Corrected})
        m_merge->addItem(QString::fromUtf8(plan::name(merge)));
    for (const plan::InsideRow &row : plan::kInsides) {
        m_inside->addItem(QString::fromUtf8(row.name));
        m_inside->setItemData(m_inside->count() - 1, QString::fromUtf8(row.about), Qt::ToolTipRole);
    }
    for (const plan::ExchangeSchedulingRow &row : plan::kExchangeSchedulings)
        m_scheduling->addItem(QString::fromUtf8(row.name));
    m_network->addItem(QString()); // what it has now
    for (const double factor : kFactors)
        m_network->addItem(tr("× %1").arg(factor), factor);
    m_localWeight->setObjectName(QStringLiteral("exchange-local-weight"));
    m_localWeight->setRange(0, 0.99);
    m_localWeight->setSingleStep(0.05);
    m_localWeight->setKeyboardTracking(false);
    undoWhenCommitted(m_localWeight);
    m_acrossSteps->setObjectName(QStringLiteral("exchange-across-steps"));

    auto *knobs = new QWidget(this);
    m_form = new QFormLayout(knobs);
    const auto add = [this](const QString &label, QWidget *knob, const QString &toolTip) {
        knob->setToolTip(toolTip);
        knob->setAccessibleName(label);
        m_form->addRow(label, knob);
    };
    add(tr("Kind"), m_kind, tr("How replicas combine what they learn"));
    add(tr("Sums of gradients"), m_acrossSteps,
        tr("Each bucket is updated on its own, in front of the next forward pass that reads it"));
    add(tr("Beside tables"), m_dense, tr("How parameters that are no tables are exchanged"));
    add(tr("Local steps (τ)"), m_localSteps, tr("Steps of a round, at whose end parameters are averaged"));
    add(tr("Delay (d)"), m_delay, tr("Steps from a snapshot to the merge of its average; 0 waits for it"));
    add(tr("Local weight (ξ)"), m_localWeight, tr("How much local parameters count in a merge"));
    add(tr("Merge"), m_merge, tr("corrected keeps the steps made since the snapshot"));
    add(tr("Warm-up steps"), m_warmup, tr("Steps at the beginning that sum up gradients"));
    add(tr("Together inside"), m_inside,
        tr("Which replicas are one in local steps: machine sums up gradients inside each machine in every step"));
    add(tr("Scheduling"), m_scheduling,
        tr("Order of transfers: as they are ready, rows before sums, or prior rows before delayed ones"));
    add(tr("Network"), m_network,
        tr("The slowest link between machines, or between devices of one. A factor changes all of them in the open "
           "cluster; "
           "undo brings them back"));
    m_warnings->setWordWrap(true);
    m_warnings->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_warnings->setAccessibleName(tr("What this exchange costs or risks"));
    m_form->addRow(m_warnings);
    setWidget(buildPage(knobs));
    setWidgetResizable(true);
    setFrameShape(QFrame::NoFrame);
}

QWidget *ExchangeTab::buildPage(QWidget *knobs)
{
    auto *page = new QWidget(this);
    m_page = new QHBoxLayout(page);
    m_page->setContentsMargins(0, 0, 0, 0);
    m_page->setSpacing(0);
    m_page->addWidget(knobs, 1, Qt::AlignTop);
    auto *figures = new QVBoxLayout;
    figures->addWidget(m_tablePanel);
    figures->addWidget(m_averagingPanel);
    figures->addStretch(1);
    m_page->addLayout(figures, 2);
    return page;
}

/// They simulate while they are in sight.
void ExchangeTab::connectPanels()
{
    const auto followed = [this](auto *panel) {
        auto *seen = new WhenSeen(panel, [this, panel] {
            if (panel->isVisibleTo(this) && m_state->document())
                panel->show(m_state->document());
        });
        connect(m_state, &StudioState::documentChanged, seen, &WhenSeen::ask);
        seen->ask();
        panel->hide();
    };
    followed(m_tablePanel);
    followed(m_averagingPanel);
    connect(m_tablePanel, &TablePanel::wayPicked, this,
            [this](const plan::SparseTable &way) { setTable(way.parameter, way.strategy, way.split); });
    connect(m_averagingPanel, &AveragingPanel::delayPicked, this, &ExchangeTab::setDelay);
    connect(m_averagingPanel, &AveragingPanel::roundsPicked, this, &ExchangeTab::setRounds);
}

void ExchangeTab::resizeEvent(QResizeEvent *event)
{
    constexpr int kNarrow = 640; // pixels
    QScrollArea::resizeEvent(event);
    m_page->setDirection(width() < kNarrow ? QBoxLayout::TopToBottom : QBoxLayout::LeftToRight);
}

void ExchangeTab::connectKnobs()
{
    connect(m_kind, &QComboBox::currentIndexChanged, this,
            [this](int index) { setKind(plan::kExchangePolicies[index].policy); });
    connect(m_acrossSteps, &QCheckBox::toggled, this, [this](bool on) {
        edit(on ? tr("Sums may end in the next step") : tr("Sums end in their step"),
             [on](plan::Plan &plan) { plan.exchange.acrossSteps = on; });
    });
    connect(m_dense, &QComboBox::currentIndexChanged, this, [this](int index) {
        const auto policy = static_cast<plan::ExchangePolicy>(m_dense->itemData(index).toInt());
        edit(tr("Beside tables: %1").arg(m_dense->itemText(index)),
             [policy](plan::Plan &plan) { plan.exchange.dense = policy; });
    });
    connect(m_localSteps, &QSpinBox::valueChanged, this, [this](int steps) {
        edit(tr("Rounds of %n step(s)", nullptr, steps), [steps](plan::Plan &plan) {
            plan::DelayedAveraging &averaging = plan.exchange.averaging;
            averaging.localSteps = steps;
            averaging.delay = std::min<std::int64_t>(averaging.delay, steps);
        });
    });
    connect(m_delay, &QSpinBox::valueChanged, this, [this](int delay) {
        edit(tr("Delay of %n step(s)", nullptr, delay),
             [delay](plan::Plan &plan) { plan.exchange.averaging.delay = delay; });
    });
    connect(m_localWeight, &QDoubleSpinBox::valueChanged, this, [this](double weight) {
        edit(tr("Local weight %1").arg(weight),
             [weight](plan::Plan &plan) { plan.exchange.averaging.localWeight = weight; });
    });
    connect(m_merge, &QComboBox::currentIndexChanged, this, [this](int index) {
        edit(tr("Merge %1").arg(m_merge->itemText(index)), [index](plan::Plan &plan) {
            plan.exchange.averaging.merge = index == 0 ? plan::Merge::Convex : plan::Merge::Corrected;
        });
    });
    connect(m_warmup, &QSpinBox::valueChanged, this, [this](int steps) {
        edit(tr("Warm-up of %n step(s)", nullptr, steps),
             [steps](plan::Plan &plan) { plan.exchange.averaging.warmupSteps = steps; });
    });
    connect(m_inside, &QComboBox::currentIndexChanged, this, [this](int index) {
        edit(tr("Local steps together inside a %1").arg(m_inside->itemText(index)),
             [index](plan::Plan &plan) { plan.exchange.averaging.inside = plan::kInsides[index].inside; });
    });
    connect(m_scheduling, &QComboBox::currentIndexChanged, this, [this](int index) {
        edit(tr("Scheduling %1").arg(m_scheduling->itemText(index)), [index](plan::Plan &plan) {
            plan.exchange.sparse.scheduling = plan::kExchangeSchedulings[index].scheduling;
        });
    });
    connect(m_network, &QComboBox::activated, this, [this](int index) {
        m_network->setCurrentIndex(0);
        if (index > 0)
            scaleNetwork(m_network->itemData(index).toDouble());
    });
}

void ExchangeTab::edit(const QString &what, const std::function<void(plan::Plan &)> &change)
{
    if (!m_refreshing && !m_state->editPlan(what, change))
        refresh();
}

/// Tables of the model are exchanged by rows at first where the kind is embrace.
void ExchangeTab::setKind(plan::ExchangePolicy kind)
{
    if (m_refreshing)
        return;
    const std::vector<std::string> tables = plan::lookedUpTables(*m_state->document()->subject.graph);
    edit(tr("Exchange %1").arg(QString::fromUtf8(plan::name(kind))), [&](plan::Plan &plan) {
        plan.exchange.policy = kind;
        plan.exchange.dense = plan::ExchangePolicy::AllReduce;
        plan.exchange.sparse.tables.clear();
        for (const std::string &table : tables)
            if (kind == plan::ExchangePolicy::Sparse)
                plan.exchange.sparse.tables.push_back({table, plan::TableStrategy::AllToAll, true});
        planners::dropDecayOfRows(plan);
    });
}

/// In rounds that are no shorter.
void ExchangeTab::setDelay(std::int64_t delay)
{
    const plan::DelayedAveraging &given = m_state->document()->plan.exchange.averaging;
    if (given.delay == delay && given.localSteps >= delay)
        return;
    edit(tr("Delay of %n step(s)", nullptr, static_cast<int>(delay)), [delay](plan::Plan &plan) {
        plan::DelayedAveraging &averaging = plan.exchange.averaging;
        averaging.delay = delay;
        averaging.localSteps = std::max(averaging.localSteps, delay);
    });
}

void ExchangeTab::setRounds(std::int64_t localSteps, std::int64_t delay)
{
    edit(tr("Rounds of %n step(s), delay %1", nullptr, static_cast<int>(localSteps)).arg(delay), [=](plan::Plan &plan) {
        plan.exchange.averaging.localSteps = localSteps;
        plan.exchange.averaging.delay = delay;
    });
}

/// At once, before anything is simulated.
void ExchangeTab::refreshWarnings(const plan::Document &document)
{
    QStringList lines;
    for (const std::string &warning : planners::exchangeWarnings(document.plan))
        lines << QStringLiteral("⚠ ") + qt(warning) + QLatin1Char('.');
    m_warnings->setText(lines.join(QLatin1Char('\n')));
    m_warnings->setVisible(!lines.isEmpty());
}

void ExchangeTab::setTable(const std::string &name, plan::TableStrategy strategy, bool split)
{
    const std::vector<plan::SparseTable> &given = m_state->document()->plan.exchange.sparse.tables;
    if (std::ranges::count(given, plan::SparseTable{name, strategy, split}) > 0)
        return;
    edit(tr("Table %1: %2").arg(qt(name), QString::fromUtf8(plan::name(strategy))), [&](plan::Plan &plan) {
        std::vector<plan::SparseTable> &tables = plan.exchange.sparse.tables;
        const auto known = std::ranges::find(tables, name, &plan::SparseTable::parameter);
        plan::SparseTable &table = known != tables.end() ? *known : tables.emplace_back();
        table = {name, strategy, split};
        planners::dropDecayOfRows(plan);
    });
}

void ExchangeTab::scaleNetwork(double factor)
{
    auto changed = withNetworkSpeed(*m_state->document()->subject.cluster, factor);
    if (!changed)
        return m_state->say(MessageLevel::Error, qt(changed.error().text()));
    m_state->editCluster(tr("Network × %1").arg(factor), std::make_shared<const cluster::Cluster>(*std::move(changed)));
}

void ExchangeTab::refresh()
{
    const auto &document = m_state->document();
    setEnabled(document != nullptr);
    if (!document)
        return;
    const plan::Exchange &exchange = document->plan.exchange;
    const bool byRows = exchange.policy == plan::ExchangePolicy::Sparse;
    m_refreshing = true;
    m_kind->setCurrentIndex(static_cast<int>(exchange.policy));
    m_acrossSteps->setChecked(exchange.acrossSteps);
    m_dense->setCurrentIndex(m_dense->findData(static_cast<int>(exchange.dense)));
    m_network->setItemText(0, tr("%1 GB/s").arg(slowestNetwork(*document->subject.cluster) / 1e9, 0, 'g', 3));
    const plan::DelayedAveraging &averaging = exchange.averaging;
    m_localSteps->setValue(static_cast<int>(averaging.localSteps));
    m_delay->setMaximum(static_cast<int>(averaging.localSteps));
    m_delay->setValue(static_cast<int>(averaging.delay));
    m_localWeight->setValue(averaging.localWeight);
    m_merge->setCurrentIndex(averaging.merge == plan::Merge::Convex ? 0 : 1);
    m_warmup->setValue(static_cast<int>(averaging.warmupSteps));
    m_inside->setCurrentIndex(static_cast<int>(averaging.inside));
    m_scheduling->setCurrentIndex(static_cast<int>(exchange.sparse.scheduling));
    const auto show = [this](QWidget *knob, bool shown) {
        knob->setVisible(shown);
        m_form->labelForField(knob)->setVisible(shown);
    };
    show(m_acrossSteps, !exchange.averages());
    show(m_dense, byRows);
    show(m_scheduling, byRows);
    for (QWidget *knob :
         std::initializer_list<QWidget *>{m_localSteps, m_delay, m_localWeight, m_merge, m_warmup, m_inside})
        show(knob, exchange.averages());
    m_tablePanel->setVisible(byRows);
    m_averagingPanel->setVisible(exchange.averages());
    refreshTables(*document);
    refreshWarnings(*document);
    m_refreshing = false;
}

void ExchangeTab::refreshTables(const plan::Document &document)
{
    for (QWidget *row : m_tables)
        m_form->removeRow(row);
    m_tables.clear();
    if (document.plan.exchange.policy != plan::ExchangePolicy::Sparse)
        return;
    const auto &given = document.plan.exchange.sparse.tables;
    for (const std::string &name : plan::lookedUpTables(*document.subject.graph)) {
        const auto known = std::ranges::find(given, name, &plan::SparseTable::parameter);
        addTable(name, known != given.end() ? &*known : nullptr);
    }
}

void ExchangeTab::addTable(const std::string &name, const plan::SparseTable *given)
{
    auto *row = new QWidget(m_form->parentWidget());
    auto *strategy = comboOf(row, QStringLiteral("exchange-table-") + qt(name));
    for (const plan::TableStrategyRow &each : plan::kTableStrategies) {
        strategy->addItem(QString::fromUtf8(each.name));
        strategy->setItemData(strategy->count() - 1, QString::fromUtf8(each.about), Qt::ToolTipRole);
    }
    strategy->setCurrentIndex(given ? static_cast<int>(given->strategy) : 0);
    auto *split = new QCheckBox(tr("split"), row);
    split->setToolTip(tr("With 2d: rows that the next step does not look up travel during it"));
    split->setChecked(!given || given->split);
    auto *layout = new QHBoxLayout(row);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(strategy, 1);
    layout->addWidget(split);
    const QString label = tr("Table %1").arg(qt(name));
    strategy->setAccessibleName(label);
    m_form->insertRow(m_form->rowCount() - 1, label, row); // in front of the warnings
    m_tables.push_back(row);
    const auto changed = [this, name, strategy, split] {
        setTable(name, plan::kTableStrategies[strategy->currentIndex()].strategy, split->isChecked());
    };
    // Queued: the edit makes these rows anew.
    connect(strategy, &QComboBox::currentIndexChanged, this, changed, Qt::QueuedConnection);
    connect(split, &QCheckBox::toggled, this, changed, Qt::QueuedConnection);
}

} // namespace planloom::ui

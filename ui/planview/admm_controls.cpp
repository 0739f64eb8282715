// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/admm_controls.h"

#include "ui/widgets/committed_undo.h"
#include "ui/widgets/text.h"
#include "ui/widgets/when_seen.h"

#include <QVBoxLayout>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kMostSteps = 100; ///< inner ones, as admm::Settings::check() has it
constexpr int kMostDelay = 1024;
constexpr int kMostWorkersHere = 1 << 16;
constexpr int kRowSpacing = 4; // pixels
constexpr int kMostColumns = 4;

} // namespace

AdmmControls::AdmmControls(StudioState *state, QWidget *parent) : QScrollArea(parent), m_state(state)
{
    using admm::Duals;
    using admm::Order;
    using admm::Parallel;
    using admm::Subproblems;
    auto *page = new QWidget(this);
    m_straggler = new StragglerPanel;
    m_sweeps = new SweepChart;
    auto *all = new QVBoxLayout(page);
    all->setContentsMargins(8, 6, 8, 6);
    m_grid = new QGridLayout;
    m_grid->setVerticalSpacing(kRowSpacing);
    all->addLayout(m_grid);
    all->addStretch(1);
    setWidget(page);
    setWidgetResizable(true);
    setFrameShape(QFrame::NoFrame);
    setAccessibleName(tr("Training by ADMM"));

    addChoice(
        tr("Workers wait"), tr("For all others (synchronous), or a parameter server for some of them (asynchronous)"),
        {tr("for each other"), tr("for a server")}, [](const Settings &s) { return static_cast<int>(s.parallel); },
        [](Settings &s, int choice) { s.parallel = static_cast<Parallel>(choice); });
    m_workers = addCount(tr("Workers"), tr("Devices that share out the samples"), 1, kMostWorkersHere);
    connect(m_workers, &QSpinBox::valueChanged, this, &AdmmControls::setWorkers);
    addCountOf(tr("Barrier S"), tr("Workers that a new version of the parameters waits for"), kMostWorkersHere,
               &Settings::barrier);
    m_asynchronous.push_back(m_counts.back().first);
    addCountOf(tr("Delay D"), tr("Versions that a worker may be late"), kMostDelay, &Settings::delay);
    m_asynchronous.push_back(m_counts.back().first);
    addNumber(tr("Proximal"), tr("Weight of the distance between two versions' parameters"), &Settings::proximal);
    m_asynchronous.push_back(m_numbers.back().first);
    addNumber(tr("Penalty μ"), tr("Of the last step's hidden variables; grows with the number of samples"),
              &Settings::mu);
    addNumber(tr("γ"), tr("Step t of N has the penalty μ γ^(N − t)"), &Settings::gamma);
    addNumber(tr("Penalty ρ"), tr("Of the outputs"), &Settings::rho);
    addNumber(tr("Ridge"), tr("Half of it times the squared weights is added to the summed loss"), &Settings::ridge);
    addChoice(
        tr("Duals"), tr("Steps with dual variables: all, or the last one as published"),
        {tr("of all steps"), tr("of the last step")}, [](const Settings &s) { return static_cast<int>(s.duals); },
        [](Settings &s, int choice) { s.duals = static_cast<Duals>(choice); });
    addChoice(
        tr("Order"), tr("Sweeps walk step by step, or one kind of variable at a time"),
        {tr("interleaved"), tr("split")}, [](const Settings &s) { return static_cast<int>(s.order); },
        [](Settings &s, int choice) { s.order = static_cast<Order>(choice); });
    addChoice(
        tr("Sub-problems"),
        tr("Solved, one step on a majorant as published, or that with the signs of the authors' code"),
        {tr("exact"), tr("linearised"), tr("as released")},
        [](const Settings &s) { return static_cast<int>(s.subproblems); },
        [](Settings &s, int choice) { s.subproblems = static_cast<Subproblems>(choice); });
    addCountOf(tr("Newton steps"), tr("On each sample's outputs; exact"), kMostSteps, &Settings::newtonSteps);
    addCountOf(tr("tanh steps"), tr("On each hidden unit's input; exact"), kMostSteps, &Settings::tanhSteps);
    arrange();
    const auto followed = [this, state](QWidget *shown, const std::function<void()> &refreshed) {
        auto *seen = new WhenSeen(shown, [this, refreshed] {
            if (applies())
                refreshed();
        });
        connect(state, &StudioState::documentChanged, seen, &WhenSeen::ask);
        seen->ask();
    };
    followed(this, [this] { refresh(); });
    followed(m_straggler, [this] { m_straggler->show(m_state->document()); });
    followed(m_sweeps, [this] { m_sweeps->show(m_state->document()); });
}

void AdmmControls::resizeEvent(QResizeEvent *event)
{
    QScrollArea::resizeEvent(event);
    arrange();
}

void AdmmControls::addRow(const QString &label, QWidget *field)
{
    auto *text = new QLabel(label, widget());
    text->setBuddy(field);
    m_rows.emplace_back(text, field);
}

/// In as few columns as show all rows at this height.
void AdmmControls::arrange()
{
    const int count = static_cast<int>(m_rows.size());
    const QMargins margins = widget()->layout()->contentsMargins();
    const int room = viewport()->height() - margins.top() - margins.bottom() + kRowSpacing;
    const int fit = std::max(1, room / (m_rows.front().second->sizeHint().height() + kRowSpacing));
    const int columns = std::clamp((count + fit - 1) / fit, 1, kMostColumns);
    if (columns == std::exchange(m_columns, columns))
        return;
    const int rows = (count + columns - 1) / columns;
    for (int i = 0; i < count; ++i) {
        const auto &[label, field] = m_rows[static_cast<std::size_t>(i)];
        m_grid->addWidget(label, i % rows, 2 * (i / rows));
        m_grid->addWidget(field, i % rows, 2 * (i / rows) + 1);
    }
    for (int column = 0; column < kMostColumns; ++column)
        m_grid->setColumnStretch(2 * column + 1, column < columns ? 1 : 0);
}

bool AdmmControls::applies() const
{
    const auto &document = m_state->document();
    return document != nullptr && document->plan.admm.has_value();
}

QSpinBox *AdmmControls::addCount(const QString &label, const QString &toolTip, int least, int most)
{
    auto *box = new QSpinBox(widget());
    box->setRange(least, most);
    box->setKeyboardTracking(false);
    box->setAccessibleName(label);
    box->setToolTip(toolTip);
    undoWhenCommitted(box);
    addRow(label, box);
    return box;
}

void AdmmControls::addCountOf(const QString &label, const QString &toolTip, int most, int Settings::*member)
{
    QSpinBox *box = addCount(label, toolTip, 1, most);
    m_counts.emplace_back(box, member);
    connect(box, &QSpinBox::valueChanged, this, [this, label, member](int value) {
        change(tr("%1 %2").arg(label).arg(value), [member, value](Settings &settings) { settings.*member = value; });
    });
}

void AdmmControls::addNumber(const QString &label, const QString &toolTip, double Settings::*member)
{
    auto *field = new QLineEdit(widget());
    field->setAccessibleName(label);
    field->setToolTip(toolTip);
    undoWhenCommitted(field);
    addRow(label, field);
    m_numbers.emplace_back(field, member);
    connect(field, &QLineEdit::editingFinished, this, [this, label, field, member] {
        if (m_refreshing || !applies())
            return;
        bool isNumber = false;
        const double value = field->text().toDouble(&isNumber);
        if (!isNumber) {
            m_state->say(MessageLevel::Error, tr("%1: \"%2\" is not a number").arg(label, field->text()));
            return refresh();
        }
        if (value != (*m_state->document()->plan.admm).*member)
            change(tr("%1 %2").arg(label).arg(value),
                   [member, value](Settings &settings) { settings.*member = value; });
    });
}

void AdmmControls::addChoice(const QString &label, const QString &toolTip, const QStringList &names,
                             std::function<int(const Settings &)> get, std::function<void(Settings &, int)> set)
{
    auto *box = new QComboBox(widget());
    box->addItems(names);
    box->setAccessibleName(label);
    box->setToolTip(toolTip);
    addRow(label, box);
    m_choices.emplace_back(box, std::move(get));
    connect(box, &QComboBox::currentIndexChanged, this, [this, label, box, set = std::move(set)](int index) {
        change(tr("%1 %2").arg(label, box->itemText(index)), [&](Settings &settings) { set(settings, index); });
    });
}

/// The first devices of the cluster, with equal shares.
void AdmmControls::setWorkers(int count)
{
    if (m_refreshing || !applies())
        return;
    const auto cluster = m_state->document()->subject.cluster;
    const int ranges = m_state->document()->plan.admm->timeRanges; // a device each
    if (static_cast<std::size_t>(count) * static_cast<std::size_t>(ranges) > cluster->devices().size()) {
        m_state->say(
            MessageLevel::Error,
            ranges == 1
                ? tr("%1 workers do not fit the %2 devices of the cluster").arg(count).arg(cluster->devices().size())
                : tr("%1 workers with %2 ranges of steps do not fit the %3 devices of the cluster")
                      .arg(count)
                      .arg(ranges)
                      .arg(cluster->devices().size()));
        return refresh();
    }
    const bool edited = m_state->editPlan(tr("%1 workers").arg(count), [&](plan::Plan &plan) {
        plan::Stage &stage = plan.stages.front();
        stage.devices.clear();
        stage.replicaShares.clear();
        for (int device = 0; device < count * ranges; ++device)
            stage.devices.push_back(cluster->devices()[static_cast<std::size_t>(device)].id);
        if (ranges > 1)
            stage.mesh.front() = count;
    });
    if (!edited)
        refresh();
}

void AdmmControls::change(const QString &what, const std::function<void(Settings &)> &how)
{
    if (m_refreshing || !applies())
        return;
    if (!m_state->editPlan(what, [&how](plan::Plan &plan) { how(*plan.admm); }))
        refresh();
}

void AdmmControls::refresh()
{
    if (!applies())
        return;
    const plan::Plan &plan = m_state->document()->plan;
    const Settings &settings = *plan.admm;
    m_refreshing = true;
    m_workers->setValue(static_cast<int>(plan.stages.front().replicas()));
    for (const auto &[box, get] : m_choices)
        box->setCurrentIndex(get(settings));
    for (const auto &[box, member] : m_counts)
        box->setValue(settings.*member);
    for (const auto &[field, member] : m_numbers)
        field->setText(QString::number(settings.*member));
    for (QWidget *each : m_asynchronous)
        each->setEnabled(settings.parallel == admm::Parallel::Asynchronous);
    m_refreshing = false;
}

} // namespace planloom::ui

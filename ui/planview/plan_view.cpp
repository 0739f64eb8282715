// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/plan_view.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QVBoxLayout>

namespace planloom::ui {

PlanView::PlanView(StudioState *state, QWidget *parent)
    : View(state, parent), m_summary(new QLabel(this)), m_search(new QLineEdit(this)), m_table(new DataTable(this))
{
    m_summary->setWordWrap(true);
    m_search->setPlaceholderText(tr("Search stages"));
    m_search->setClearButtonEnabled(true);
    m_search->setAccessibleName(tr("Search stages"));
    m_table->setAccessibleName(tr("Stages of the plan"));
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 8, 8, 8);
    layout->addWidget(m_summary);
    layout->addWidget(m_search);
    layout->addWidget(m_table, 1);
    connect(m_search, &QLineEdit::textChanged, m_table, &DataTable::setFilter);
    connect(state, &StudioState::documentChanged, this, &PlanView::refresh);
    connect(state, &StudioState::simulationChanged, this, &PlanView::refresh);
    connect(state, &StudioState::selectionChanged, this, &PlanView::showSelection);
    connect(m_table, &DataTable::rowPicked, this, [this](int row) { this->state()->selectStage(StageId(row)); });
    refresh();
}

void PlanView::refresh()
{
    const auto &document = state()->document();
    if (!document) {
        m_summary->setText(tr("No plan. Run a planner with Plan ▸ Find a plan, or open a plan file."));
        m_table->set({});
        return;
    }
    const plan::Plan &plan = document->plan;
    m_summary->setText(tr("%1  ·  %2  ·  batch %3 in %4 micro-batches")
                           .arg(qt(plan::notation(plan)), QString::fromUtf8(plan::name(plan.schedule.kind)))
                           .arg(plan.globalBatch)
                           .arg(plan.microBatches));
    TableData table{{tr("Stage"), tr("Layers"), tr("Devices"), tr("Recompute")}, {}};
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const plan::Stage &stage = plan.stages[s];
        QStringList devices;
        for (const DeviceId device : stage.devices)
            devices << qt(document->subject.cluster->device(device).name);
        table.rows.push_back({{qt(stage.name), {}, theme().ofSeries(static_cast<int>(s))},
                             {tr("%1 – %2").arg(stage.firstLayer).arg(stage.lastLayer - 1), {}},
                             {devices.join(QStringLiteral(", ")), {}},
                             {stage.recompute ? tr("yes") : tr("no"), {}}});
    }
    m_table->set(std::move(table));
    showSelection();
}

void PlanView::showSelection()
{
    m_table->showRow(state()->selection().stage.value);
}

} // namespace planloom::ui

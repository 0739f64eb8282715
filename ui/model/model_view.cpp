// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/model_view.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QVBoxLayout>

namespace planloom::ui {

ModelView::ModelView(StudioState *state, QWidget *parent)
    : View(state, parent), m_summary(new QLabel(this)), m_search(new QLineEdit(this)), m_table(new DataTable(this))
{
    m_summary->setWordWrap(true);
    m_search->setPlaceholderText(tr("Search layers"));
    m_search->setClearButtonEnabled(true);
    m_search->setAccessibleName(tr("Search layers"));
    m_table->setAccessibleName(tr("Layers of the model"));
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 8, 8, 8);
    layout->addWidget(m_summary);
    layout->addWidget(m_search);
    layout->addWidget(m_table, 1);
    connect(m_search, &QLineEdit::textChanged, m_table, &DataTable::setFilter);
    connect(state, &StudioState::modelChanged, this, &ModelView::refresh);
    connect(state, &StudioState::clusterChanged, this, &ModelView::refresh);
    connect(state, &StudioState::documentChanged, this, &ModelView::refresh);
    connect(state, &StudioState::selectionChanged, this, &ModelView::showSelection);
    connect(m_table, &DataTable::rowPicked, this, [this](int row) {
        Selection next;
        next.layers = {static_cast<std::size_t>(row), static_cast<std::size_t>(row) + 1};
        this->state()->select(next);
    });
    refresh();
}

void ModelView::refresh()
{
    if (!state()->model()) {
        m_summary->setText(tr("No model. Open one with File ▸ Open model, or drop a file here."));
        m_table->set({});
        return;
    }
    const graph::Graph &graph = *state()->model()->graph;
    m_summary->setText(tr("%1: %2 operators, %3 of parameters")
                           .arg(qt(graph.name()))
                           .arg(graph.ops().size())
                           .arg(bytesText(graph.parameterBytes().value())));
    TableData table{{tr("Layer"), tr("Stage"), tr("Operators"), tr("Parameters"), tr("Cut before")}, {}};
    if (!state()->subject()) {
        m_table->set(std::move(table));
        return;
    }
    const cost::CostModel &costs = *state()->subject()->costs;
    const graph::LayerView &view = costs.layers();
    for (std::size_t k = 0; k < view.size(); ++k) {
        const graph::Layer &layer = view.layers[k];
        const std::int64_t parameters = costs.parameterBytes(k, k + 1).value();
        const std::int64_t cut = view.cutBytes(graph, k, 1).value();
        Cell stage{tr("–"), -1.0};
        if (const auto &document = state()->document()) {
            const auto &stages = document->plan.stages;
            for (std::size_t s = 0; s < stages.size(); ++s) {
                if (k >= stages[s].firstLayer && k < stages[s].lastLayer)
                    stage = {QString::number(s), static_cast<double>(s), theme().ofSeries(static_cast<int>(s))};
            }
        }
        const int operators = layer.last.value - layer.first.value;
        table.rows.push_back({{qt(layer.name), {}}, stage, {QString::number(operators), operators},
                             {bytesText(parameters), static_cast<double>(parameters)}, {bytesText(cut), static_cast<double>(cut)}});
    }
    m_table->set(std::move(table));
    showSelection();
}

void ModelView::showSelection()
{
    const LayerRange layers = state()->selection().layers;
    m_table->showRow(layers.empty() ? -1 : static_cast<int>(layers.first));
}

} // namespace planloom::ui

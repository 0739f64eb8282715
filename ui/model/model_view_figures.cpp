// SPDX-License-Identifier: GPL-3.0-or-later
// ModelView's figures of operators.
#include "engine/base/files.h"
#include "ui/model/figures_csv.h"
#include "ui/model/model_view.h"
#include "ui/widgets/text.h"

namespace planloom::ui {

/// Of the model that is shown; null: none.
StudioState::DocumentPtr ModelView::planOfModel() const
{
    const auto &document = state()->document();
    return document && m_shown && document->subject.graph == m_shown->graph ? document : nullptr;
}

bool ModelView::figuresCurrent() const
{
    return m_figures && m_shown && &m_figures->graph() == m_shown->graph.get()
        && m_figures->document() == planOfModel();
}

void ModelView::askFigures()
{
    if (!m_shown || figuresCurrent())
        return;
    m_figuring.ask([this, graph = m_shown->graph, document = planOfModel(), before = m_figures](Progress &) {
        auto made = std::make_shared<const ModelFigures>(graph, document, before.get());
        return [this, made] {
            if (!m_shown || m_shown->graph.get() != &made->graph())
                return; // another model was opened, and asks for its own
            m_figures = made;
            m_page->setFigures(made);
        };
    });
}

bool ModelView::saveFigures(const QString &path)
{
    if (!figuresCurrent()) {
        state()->say(MessageLevel::Warning,
                     m_shown ? tr("The figures are being computed; try again in a moment.") : tr("There is no model."));
        return false;
    }
    const graph::LayerView *layers = state()->subject() ? &state()->subject()->layers() : nullptr;
    const Status status = writeFileAtomically(path.toStdString(), figuresAsCsv(*m_figures, layers));
    if (!status)
        state()->say(MessageLevel::Error, qt(status.error().text()));
    return static_cast<bool>(status);
}

void ModelView::showCards(bool shown)
{
    m_page->showCards(shown);
    layOut();
}

} // namespace planloom::ui

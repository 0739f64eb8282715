// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/plan.h"
#include "ui/state/studio_state.h"
#include "ui/widgets/data_table.h"

#include <memory>
#include <string>
#include <vector>

namespace planloom::ui {

enum class AnnotationColumn { Scope, Strategy, Layers, InThePlan };

/// Scopes of a model that may be annotated, with their layers; the first is "*", whatever is not annotated. Worked out
/// once per model.
class AnnotationScopes {
public:
    struct Scope {
        std::string name;
        std::size_t first = 0;
        std::size_t last = 0;
    };
    /// Scopes of the document's model, and runs of scopes ("h/0..h/5") that its plan annotates.
    void read(const plan::Document &document);
    [[nodiscard]] const std::vector<Scope> &all() const { return m_all; }

private:
    std::shared_ptr<const graph::Graph> m_graph;
    std::vector<Scope> m_ofModel;
    std::vector<Scope> m_all;
};

/// A row per scope: its editable annotation, and whether the plan follows it.
TableData annotationTable(const plan::Document &document, const AnnotationScopes &scopes);

/// Applies the strategy that the user entered for @p scope: "split:4", "replicate:2", "replicate"; an empty text
/// removes the annotation. One undoable edit; false if it was refused, and the state has said why.
bool editAnnotation(StudioState &state, const std::string &scope, const QString &text);

/// Plans again with whale, which follows annotations, for the document's batch and optimizer.
bool planAsAnnotated(StudioState &state);

} // namespace planloom::ui

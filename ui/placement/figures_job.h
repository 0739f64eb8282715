// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/placement/placement_figures.h"
#include "ui/state/job.h"

#include <functional>
#include <optional>

namespace planloom::ui {

/// Figures of placements, computed beside the UI thread. Of several that are asked for the last counts: it cancels the
/// one that runs. Lives on the UI thread.
class FiguresJob {
public:
    using DocumentPtr = PlacementFigures::DocumentPtr;
    using Done = std::function<void(Result<PlacementFigures>)>;

    /// @p done is called on the UI thread. Without @p machineOf: as the plan has its roles.
    void ask(DocumentPtr document, std::optional<gnn::Placement> machineOf, Done done);
    /// What was asked for is not wanted any more.
    void abandon();
    [[nodiscard]] bool running() const { return m_wanted || m_job.running(); }

private:
    struct Wanted {
        DocumentPtr document;
        std::optional<gnn::Placement> machineOf;
        Done done;
    };
    void begin();

    std::optional<Wanted> m_wanted; ///< not begun
    bool m_abandoned = false;       ///< the one that runs
    Job m_job;                      ///< last: its thread ends before what it posts to
};

} // namespace planloom::ui

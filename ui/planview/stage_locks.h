// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "planners/common/kept_stages.h"
#include "ui/state/studio_state.h"

namespace planloom::ui {

// Stages and boundaries that planning again keeps, as option `keep` of the plan's planner: saved with the plan, and
// changed by undoable edits.

/// The locks of @p plan that are still of its stages: after an edit of a locked stage it is locked no more.
planners::KeptStages locksOf(const plan::Document &document);
[[nodiscard]] bool stageLocked(const planners::KeptStages &locks, const plan::Stage &stage);
/// Whether a stage has to begin with @p layer.
[[nodiscard]] bool cutLocked(const planners::KeptStages &locks, std::size_t layer);

/// One undoable edit each; false: refused, and the state has said why.
bool toggleStageLock(StudioState &state, std::size_t stage);
/// Between stages @p boundary and boundary + 1. That of a locked stage is locked with it.
bool toggleBoundaryLock(StudioState &state, std::size_t boundary);

/// Plans again with the planner of the plan where it can keep stages, else with auto, and says so.
bool planWithLocks(StudioState &state);
/// Names of the planners that can, by commas.
QString plannersWithLocks();

} // namespace planloom::ui

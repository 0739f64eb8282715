// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"
#include "ui/state/studio_state.h"
#include "ui/widgets/data_table.h"

namespace planloom::ui {

/// Columns of the table of stages, in their order.
enum class StageColumn {
    Name,
    Devices,
    Recompute,
    Keep,
    Layers,
    Replicas,
    Time,
    Parameters,
    WarmUp,
    Memory,
    Tensor,
    Zero,
    Sharding
};

/// The plan's stages as rows; @p report, if it is of this plan, gives the memory, and @p why, likewise, what stages
/// compute as simulated.
TableData stageTable(const plan::Document &document, const simulate::Report *report, const plan::Why *why = nullptr);

/// Applies the text that the user entered into cell (@p stage, @p column). False if it was refused; the state has shown
/// the reason.
bool editStage(StudioState &state, std::size_t stage, StageColumn column, const QVariant &value);

} // namespace planloom::ui

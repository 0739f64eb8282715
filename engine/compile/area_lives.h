// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/vocabulary.h"

#include <vector>

namespace planloom::compile {

/// A pass over a micro-batch, or the transfer that brings what the pass needs or takes away what it made.
struct Moment {
    Pass pass = Pass::Forward;
    bool transfer = false;
    friend bool operator==(const Moment &, const Moment &) = default;
};

/// From the start of which task to the end of which one a micro-batch has a slot of an area.
struct AreaLife {
    Area area = Area::Frame;
    Moment taken;
    Moment given;
};

/// How a stage works, as far as its buffers depend on it.
struct StageHabits {
    bool splits = false;     ///< gradients of weights are a pass of their own
    bool keepsSent = false;  ///< which reads what went back to the stage in front
    bool recomputes = false; ///< forward runs again as a whole before backward
};

/// Of every area that micro-batches take slots of, Workspace apart, which lives within a pass. Slots (slots.h) and the
/// effects of tasks are both made from it.
std::vector<AreaLife> areaLives(const StageHabits &habits);

/// The effects of the task at @p moment on the buffers of @p body. @p receives: of a transfer, that it is the receiving
/// end. @p opens, @p closes: of the runs of a pass, the first takes and reads, the last writes and gives.
std::vector<program::Effect> effectsAt(const Moment &moment, const StageHabits &habits, BodyId body, bool receives,
                                       bool opens = true, bool closes = true);

} // namespace planloom::compile

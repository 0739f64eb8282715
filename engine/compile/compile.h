// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/memory/measured_times.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"

namespace planloom::compile {

class StageCache;

/// How much of a Program is made.
struct Options {
    /// False: durations, order and memory only. Memory is the same to the byte; operators stay on the plan's subject.
    bool bodies = true;
    /// True: ranks that do the same are there once (program::Program::places says for which). Only without bodies.
    bool fold = false;
    /// Remembers stages from one compilation to the next, for searches that compile many plans for one subject
    /// (stage_cache.h). May be null.
    StageCache *stages = nullptr;
    /// Seconds that a run of the plan has measured: stages with plan::MemoryClock::Measured get the course, and the
    /// durations, that follow from them. Null: those of the cost model. Nothing is folded then. Error of the
    /// compilation: BadInput, if they are of another plan.
    const memory::RunTimes *times = nullptr;
};

/// Compiles @p plan, which must be valid for @p subject (validate() is called). Errors: those of validate, Unsupported
/// (an operator without gradient), BadInput (a custom order that cannot run, with the cycle named). Cost: O(tasks +
/// operators * distinct stages), of the tasks of the ranks that are left if they are folded, and O(devices).
Result<program::Program> compilePlan(const plan::Plan &plan, const plan::Subject &subject, const Options &options = {});

} // namespace planloom::compile

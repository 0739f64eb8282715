// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/source.h"
#include "engine/compile/stage_model.h"

namespace planloom::compile {

/// Program::lowerBound of @p program, whose tasks are complete.
Seconds lowerBound(const Program &program);

/// Program::oneDevice. @p firstStage: of the plan.
Seconds timeOnOneDevice(const Source &source, const StageModel &firstStage);

} // namespace planloom::compile

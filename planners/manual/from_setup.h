// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/setup.h"
#include "planners/planner.h"

namespace planloom::planners::manual {

/// What planner `manual` is to be asked for.
struct Request {
    Problem problem;
    Options options;
};

/// The request that @p setup stands for; options in @p own count more than what it says.
/// Errors, in the setup's file: BadInput (the model has other sizes; batches or devices do not divide), Unsupported (no transformer, where blocks count).
Result<Request> requestFrom(const plan::Setup &setup, plan::Subject subject, const Options &own = {});

} // namespace planloom::planners::manual

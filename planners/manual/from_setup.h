// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/setup.h"
#include "planners/interface/planner.h"

namespace planloom::planners::manual {

/// A request to planner `manual`.
struct Request {
    Problem problem;
    Options options;
};

/// The request for @p setup; options in @p own override it.
/// Errors, in the setup's file: BadInput (the model has other sizes; batches or devices do not divide), Unsupported (no
/// transformer, where blocks count).
Result<Request> requestFrom(const plan::Setup &setup, plan::Subject subject, const Options &own = {});

} // namespace planloom::planners::manual

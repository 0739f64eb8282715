// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/setup.h"
#include "planners/interface/planner.h"

#include <string>
#include <vector>

namespace planloom::planners::manual {

/// A request to planner `manual`.
struct Request {
    Problem problem;
    Options options;
    std::vector<std::string> notes; ///< where the plan will differ from the one that the file was exported from
};

/// The request for @p setup; options in @p own override it. A file that carries the devices of the plan that it was
/// exported from gives these again on a cluster of as many devices; on others the plan takes the first devices.
/// Errors, in the setup's file: BadInput (the model has other sizes; batches or devices do not divide), Unsupported (no
/// transformer, where blocks count).
Result<Request> requestFrom(const plan::Setup &setup, plan::Subject subject, const Options &own = {});

} // namespace planloom::planners::manual

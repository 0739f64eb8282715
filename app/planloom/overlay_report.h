// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/planloom/output.h"
#include "engine/base/result.h"
#include "engine/trace/trace.h"

#include <string>

namespace planloom::cli {

/// Whether @p path is a plan file or the folder of a run, by its first bytes.
bool holdsPlan(const std::string &path);

/// Lays @p trace, which was read from @p file, over the plan or run @p plan: the overlay for people, and where tasks
/// are the plan's own these against the prediction; returns both as JSON: {"overlay", "tasks"}. Errors: those of
/// reading the plan and of overlay::layOver.
Result<nlohmann::ordered_json> reportOverlay(const trace::Trace &trace, const std::string &file,
                                             const std::string &plan, Output &output);

/// `compare PLAN TRACE`, in either order. Errors: those of reading and of reportOverlay.
Status compareWithTrace(const std::string &plan, const std::string &file, Output &output);

} // namespace planloom::cli

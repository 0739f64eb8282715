// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/planloom/output.h"
#include "engine/base/result.h"
#include "engine/trace/trace.h"

#include <string>

namespace planloom::cli {

/// What a trace says of its devices, collectives, clocks and kernels, for people; returns the same as JSON:
/// {"devices", "hidden_share", "collectives", "clocks", "kernels"}.
nlohmann::ordered_json reportTrace(const trace::Trace &trace, Output &output);

/// Whether a file is a trace, of ours or another program's.
bool isTraceFile(const std::string &path);

/// Two traces: devices, and kernels by how much they changed. Errors: those of reading them.
Status compareTraces(const std::string &a, const std::string &b, Output &output);

} // namespace planloom::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/planloom/output.h"

#include <string>

namespace planloom::cli {

/// Of a graph's folder: sizes, neighbours, parts. Errors: data::readGraphFolder.
Status inspectGraph(const std::string &folder, Output &output);

/// Of a job: machines, roles with what they need, bytes of an iteration. Errors: loadJob().
Status inspectJob(const std::string &path, Output &output);

/// Of what `place` wrote: who is where, seconds by policy, bounds. Errors: BadInput (a field), those of reading.
Status inspectPlacement(const std::string &path, Output &output);

} // namespace planloom::cli

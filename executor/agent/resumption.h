// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/run/settings.h"

#include <string>
#include <vector>

namespace planloom::agent {

/// Takes the lease of the run in @p folder, if it has checkpoints: from here on no earlier group of workers can publish
/// one. Returns its epoch, 0 without checkpoints. @p owner is a name for people. Errors: those of checkpoint::Lease.
Result<std::int64_t> takeLease(const std::string &folder, const run::Settings &settings, const std::string &owner);

/// Where the run in @p folder goes on: at its newest whole checkpoint, or at the first step if it has none. The reasons
/// why newer ones were passed over are added to @p skipped. Errors: Io, BadInput (the run has another seed).
Result<run::Beginning> newestBeginning(const std::string &folder, const run::Settings &settings,
                                       std::vector<std::string> &skipped);

} // namespace planloom::agent

// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/plan.h"

#include <cstdint>
#include <map>

namespace planloom::ui {

/// Bytes that memory policies leave activations on each device; of a plan whose policies have shares of what these take
/// without a limit, of that. Devices without a policy are left out. Errors: those of compilation. Cost: a compilation
/// where there is a share. Any thread.
Result<std::map<DeviceId, std::int64_t>> memoryBudgets(const plan::Document &document);

} // namespace planloom::ui

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <nlohmann/json_fwd.hpp>

namespace planloom {
class JsonReader;
}

namespace planloom::plan {

/// The field `training` of a plan file.
nlohmann::json trainingToJson(const admm::Settings &settings);
/// Reads it, if it is there, and sets the optimizer that goes with it; errors are kept in @p top.
void trainingFrom(JsonReader &top, Plan &plan);

} // namespace planloom::plan

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <nlohmann/json_fwd.hpp>

namespace planloom {
class JsonReader;
}

namespace planloom::plan {

/// The field `training` of a plan file.
nlohmann::json trainingToJson(const Plan &plan);
/// An optimizer, as plans have it (plan_json.cpp).
nlohmann::json optimizerToJson(const Optimizer &optimizer);
Optimizer optimizerFrom(JsonReader reader);
/// Reads it, if it is there, and sets the optimizer that goes with it; errors are kept in @p top.
void trainingFrom(JsonReader &top, Plan &plan);

} // namespace planloom::plan

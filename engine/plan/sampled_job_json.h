// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <nlohmann/json_fwd.hpp>

namespace planloom {
class JsonReader;
}

namespace planloom::plan {

/// Fields `job` and `roles` of a plan file (resources/docs/formats/plan.md).
nlohmann::json jobToJson(const SampledJob &job);
nlohmann::json rolesToJson(const std::vector<PlacedRole> &roles);
/// Reads both into @p plan, where the file has them. Errors go to the reader.
void jobFrom(JsonReader &top, Plan &plan);

} // namespace planloom::plan

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace planloom::plan {

/// The plan file with the members of the object @p leading in front, which no reader of plans looks at.
std::string toJson(const Document &document, const nlohmann::ordered_json &leading);

} // namespace planloom::plan

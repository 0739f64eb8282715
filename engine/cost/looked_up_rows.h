// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"

#include <cstdint>
#include <string>

namespace planloom::cost {

/// How many of the @p tableRows rows of table @p table a step looks up, with @p ids ids on each of @p workers: as
/// @p profile (may be null) has counted them, for another number of ids in the proportion that Zipf's law expects;
/// where it has not, by that law alone. Cost: O(1000).
TableRows lookedUpRows(const Profile *profile, const std::string &table, std::int64_t tableRows, std::int64_t ids,
                       std::int64_t workers);

} // namespace planloom::cost

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/memory/stream.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace planloom::memory {

/// Where the storages of a stream lie if none ever leaves.
struct StayingPlaces {
    std::vector<std::int64_t> offsets; ///< per storage; -1: of what is always there
    std::int64_t bytes = 0;            ///< that all lie in, holes included
};

/// Places that no two storages share while both are needed: from their operators, hosted ones from the beginning, to
/// their last use; large ones first, each as low as it can lie. None for more than 8192 storages. Cost: O(storages²).
std::optional<StayingPlaces> stayingPlaces(const Stream &stream);

} // namespace planloom::memory

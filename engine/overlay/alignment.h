// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/overlay/kinds.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace planloom::overlay {

/// An element of what is expected: an operator of the model, in the order of execution.
struct Wanted {
    OpKind kind = OpKind::Other;
    const std::vector<std::int32_t> *scopes = nullptr; ///< Found::scope that it lies in, sorted; null: none
};

/// An element of what was found in a trace.
struct Found {
    KindSet kinds = 0;
    std::int32_t scope = -1;
};

/// That @p found is, or is a part of, @p wanted.
struct Pair {
    std::size_t wanted = 0;
    std::size_t found = 0;
    friend bool operator==(const Pair &, const Pair &) = default;
};

/// What align() found.
struct Alignment {
    std::vector<Pair> pairs; ///< in order of both; several pairs may share an element: one call of fused operators, or
                             ///< one operator that was called in pieces
    double score = 0;
};

/// The alignment of both sequences with the largest score (Needleman and Wunsch, 1970): pairs have a common kind and
/// scope, and keep the order; what either side has beyond is left out at a small loss, behind the last pair of @p found
/// at none. A pair goes on over further elements that are its parts (partsOf()). Cost: O(|wanted| * |found|), 2 bytes
/// each.
Alignment align(std::span<const Wanted> wanted, std::span<const Found> found);

} // namespace planloom::overlay

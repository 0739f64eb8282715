// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sharding/signatures.h"

#include <optional>
#include <vector>

namespace planloom::sharding {

/// An input of an operator whose signature is to be chosen.
struct Candidate {
    std::vector<Sbp> have; ///< the layouts that exist; empty: a parameter not read so far, which takes the layout of
                           ///< its first reader
    bool parameter = false;
    bool pinned = false; ///< a pinned parameter: never communicated
    bool fixed = false;  ///< written in place: always B
};

/// Layout of an output.
struct Goal {
    std::optional<Sbp> sbp;  ///< it is converted to this right away
    bool partialToo = false; ///< ... unless it is P: the gradient of a parameter that is B, which buckets add up
};

/// The signature of @p at that costs the fewest bytes of boxing, now and for the goals; nullptr if none is possible.
/// Ties go to a split where all outputs have goals (each device does less, and nothing behind it changes), then to
/// fewer conversions, then to the earlier (all-B first). Two prices are not the bytes of the conversion itself: P -> S
/// where no output is asked to be S costs as much as P -> B, as a later reader usually needs all of it, and making P
/// out of something else costs as OneFlow's PEN does, as it only postpones the conversion.
std::optional<Signature> choose(const OpAtHand &at, const std::vector<Candidate> &inputs,
                                const std::vector<Goal> &outputs);

} // namespace planloom::sharding

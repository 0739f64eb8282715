// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sharding/signatures.h"

#include <optional>
#include <vector>

namespace planloom::sharding {

/// An input of an operator whose signature is to be chosen.
struct Candidate {
    std::vector<Sbp> have; ///< the layouts that are at hand; empty: a parameter that nobody has read yet, which takes what it is first read as
    bool parameter = false;
    bool pinned = false;   ///< a pinned parameter: never communicated
    bool fixed = false;    ///< written in place: B, whatever happens
};

/// What becomes of an output.
struct Goal {
    std::optional<Sbp> sbp; ///< it is converted to this right away
    bool partialToo = false; ///< ... unless it is P: the gradient of a parameter that is B, which buckets add up
};

/// The signature of @p at that costs the fewest bytes of boxing, now and for the goals; nullptr if none is possible. Ties go to a split
/// where all outputs have goals (each device does less, and nothing behind it changes), then to fewer conversions, then to the earlier (all-B first). Two prices are not the bytes of the conversion itself: P -> S where no output is asked to be S costs as much as
/// P -> B, as somebody will want all of it, and making P out of something else costs as OneFlow's PEN does, as it only puts off what is to come.
std::optional<Signature> choose(const OpAtHand &at, const std::vector<Candidate> &inputs, const std::vector<Goal> &outputs);

} // namespace planloom::sharding

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace planloom::planners::dapple {

/// A pipeline as the literature's formulas see it: a list of resources, each with a forward and a backward time,
/// network stages among them (DAPPLE §4.1). One lane per entry, the order of early backward with warm-up `depth[s]`
/// (empty: S - s), then an all-reduce of `allReduce[s]`. gpipe: all forwards first. For planners and for worked
/// examples.
struct Chain {
    std::vector<double> forward;
    std::vector<double> backward;
    std::vector<double> allReduce;
    std::int64_t microBatches = 1;
    std::vector<int> depth;
    bool gpipe = false;
    /// Entries that are full-duplex links: forward and backward transfers do not wait for each other, and run when
    /// ready.
    std::vector<bool> fullDuplex;
};

} // namespace planloom::planners::dapple

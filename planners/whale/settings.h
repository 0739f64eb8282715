// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"
#include "planners/whale/patterns.h"

#include <cstdint>
#include <vector>

namespace planloom::planners::whale {

enum class Order : std::uint8_t { BackwardFirst, ForwardFirst, Optimizer };
enum class Sharing : std::uint8_t { Algorithm1, Time, Even };
enum class Cut : std::uint8_t { Exact, Walk, Buckets };
enum class Recompute : std::uint8_t { Never, Always, Auto };

/// The options of the planner, read.
struct Settings {
    std::size_t taskGraphs = 0;    ///< 0: several numbers are tried
    std::int64_t microBatches = 0; ///< 0: several numbers are tried
    Order order = Order::BackwardFirst;
    Sharing sharing = Sharing::Algorithm1;
    Cut cut = Cut::Exact;
    PatternChoice pattern = PatternChoice::Least;
    bool peakSpeeds = false;         ///< speeds of devices by data sheet, not by cost model
    bool proportionalMemory = false; ///< the paper's: a load's memory is proportional to it
    std::vector<bool> intraNode;     ///< placements to try
    Recompute recompute = Recompute::Never;
    std::size_t candidates = 0;
    double reserve = 0;
};

std::vector<OptionInfo> optionList();
/// Error: BadInput naming the option.
Result<Settings> readSettings(const Options &options, const Problem &problem);

/// Forwards that task graph @p index of @p all keeps in flight before its first backward: the orders of the released
/// EPL (PreferBackward, PreferForward, PreferBackwardOptimizer, which runs one ahead on all but the last).
int inFlight(Order order, std::size_t index, std::size_t all, std::int64_t microBatches);

} // namespace planloom::planners::whale

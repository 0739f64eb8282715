// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "engine/program/schedule.h"

#include <array>
#include <vector>

namespace planloom::program {

/// How many slots each area of a stage has, and which one a micro-batch takes.
struct SlotPlan {
    std::array<std::int32_t, kAreas> counts{};
    std::vector<Slots> slotTable; ///< per micro-batch
    /// Per area and micro-batch: the micro-batch that had the slot before, -1: none. Taking the slot waits for its release.
    std::array<std::vector<std::int32_t>, kAreas> previous;
};

/// Two registers let a transfer run while the next pass computes (OneFlow's double buffering).
inline constexpr std::int32_t kTransferRegisters = 2;

/// Gives out slots along the compute order. The inbox holds one micro-batch more than are in flight, so that the next can arrive early,
/// and at least as many as the stage before runs ahead (@p inFlightBefore), so that its warm-up never waits for room here.
/// @p registers, unless 0, is the number of slots at the stage's ends, within what the order needs at least.
SlotPlan planSlots(const std::vector<PassStep> &order, std::int64_t microBatches, int inFlightBefore, int registers = 0);

} // namespace planloom::program

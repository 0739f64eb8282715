// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/vocabulary.h"

#include <array>
#include <vector>

namespace planloom::compile {

/// How many slots each area of a stage has, and which one a micro-batch takes.
struct SlotPlan {
    std::array<std::int32_t, kAreas> counts{};
    std::vector<Slots> slotTable; ///< per micro-batch
    /// Per area and micro-batch: the micro-batch that had the slot before, -1: none. Taking the slot waits for its
    /// release.
    std::array<std::vector<std::int32_t>, kAreas> previous;
};

/// Two registers let a transfer run while the next pass computes (OneFlow's double buffering).
inline constexpr std::int32_t kTransferRegisters = 2;

/// Settings that decide a stage's slots beside its order.
struct SlotRules {
    int inFlightBefore =
        0;             ///< micro-batches that the stage in front runs ahead: its warm-up must not wait for room here
    int registers = 0; ///< unless 0, the number of slots at the stage's ends, within what the order needs at least
    bool keepsSent =
        false; ///< gradients of weights are a pass of their own that reads what goes back to the stage in front
    bool roomy = false; ///< what arrives never waits for a slot: one for each micro-batch
};

/// Gives out slots along the compute order of one stage. The inbox holds one micro-batch more than are in flight, so
/// that the next can arrive early. Where gradients of weights are a pass of their own, what came in stays until then.
SlotPlan planSlots(const std::vector<PassStep> &order, std::int64_t microBatches, const SlotRules &rules = {});

/// Slots of one area that stages on the same rank share, taken by forwards and given back by backwards.
struct JointSlots {
    std::int32_t count = 0;
    std::vector<std::vector<std::int32_t>> taken; ///< per stage asked for and micro-batch
};
/// @p order: of the rank. @p stages: those that take part, -1 where one does not.
JointSlots planJointSlots(const std::vector<PassStep> &order, const std::vector<std::int64_t> &stages,
                          std::int64_t microBatches);

} // namespace planloom::compile

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::schedule {

/// Where the schedule cuts the backward pass, Backward makes gradients of inputs and WeightGradient, later, those of
/// parameters.
enum class Pass : std::uint8_t { Forward, Backward, Recompute, WeightGradient };

/// One compute pass of a stage over a micro-batch. Recompute is none: it comes right before its Backward.
struct PassStep {
    Pass pass = Pass::Forward; ///< Forward, Backward or WeightGradient
    std::int32_t microBatch = 0;
    std::int32_t stage = 0;
    [[nodiscard]] bool forward() const { return pass == Pass::Forward; }
    friend auto operator<=>(const PassStep &, const PassStep &) = default;
};

/// "F", "B", "W"; "R" for Recompute.
const char *letter(Pass pass);
/// The id of the task that runs it: "s2.F.m0".
std::string textOf(const PassStep &step);
/// The pass of such an id; nothing for other texts.
std::optional<PassStep> passStepFrom(std::string_view text);
/// The stage of any task's id ("s2.AR.b0"); nothing for those of no stage.
std::optional<std::int32_t> stageOfTask(std::string_view id);

/// Early backward scheduling (DAPPLE §5.3): `depth` forwards, then one backward and one forward in turn until the
/// forwards run out, then the remaining backwards. depth == microBatches is GPipe's order.
std::vector<PassStep> earlyBackwardOrder(std::int64_t microBatches, int depth, std::int32_t stage = 0);

/// Interleaved 1F1B (Narayanan et al., 2021, §2.2) on rank @p rank of @p ranks, each with @p chunks stages, stage c *
/// ranks + rank being its chunk c. Micro-batches go through the chunks in groups of as many as there are ranks; (chunks
/// - 1) * ranks + 2 (ranks - rank - 1) forwards come first, then one forward and one backward in turn. Where
/// micro-batches do not divide so, groups are larger, as even as can be, and so is the warm-up.
std::vector<PassStep> interleavedOrder(std::int64_t microBatches, std::int32_t rank, std::int32_t ranks,
                                       std::int32_t chunks);

/// ZB-H1 (Qi et al., 2024, §2.3): the order of early backward, with the weight gradients of each micro-batch @p delay
/// backwards behind its own, so that they fill the bubble at the end. At most depth + delay micro-batches are in
/// flight.
std::vector<PassStep> zeroBubbleOrder(std::int64_t microBatches, int depth, int delay, std::int32_t stage = 0);

/// A stage of a device whose order is checked.
struct OrderedStage {
    std::int32_t stage = 0;
    bool splitsBackward = false; ///< has WeightGradient passes
};
/// Whether @p order has every pass of @p stages over @p microBatches micro-batches once, each after the one that it
/// needs. Error (BadInput): the first pass that is out of place, or a missing one, as the end of a sentence: "has
/// s0.B.m0 before its forward".
Status checkOrder(const std::vector<PassStep> &order, const std::vector<OrderedStage> &stages,
                  std::int64_t microBatches);

/// The passes of stage @p stage in @p order.
std::vector<PassStep> stepsOf(const std::vector<PassStep> &order, std::size_t stage);

/// Micro-batches at most that have begun pass @p from and not ended pass @p to of @p order, which is of one stage.
int mostBetween(const std::vector<PassStep> &order, Pass from, Pass to);
/// The pass after which nothing of a micro-batch is kept: WeightGradient where there is one, else Backward.
Pass closingPass(const std::vector<PassStep> &order);
/// Forwards that are in flight (begun, their closing pass not ended) at most.
int maxInFlight(const std::vector<PassStep> &order);

} // namespace planloom::schedule

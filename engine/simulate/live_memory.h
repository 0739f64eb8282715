// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/program/program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::simulate {

/// What a block of a rank's arena holds.
enum class BlockKind : std::uint8_t {
    Parameter,
    ParameterCopy, ///< in the type that operators read, beside float32 masters
    Gradient,      ///< the accumulator of a parameter's gradient
    OptimizerState,
    Average,  ///< copies of parameters that are averaged (delayed averaging)
    Rows,     ///< rows of tables on their way between replicas
    Constant, ///< constants, and states that the model keeps beside its parameters
    Activation,
    Message,         ///< activations that another stage has sent, or will get
    GradientMessage, ///< the same of gradients
    ActivationGradient,
    Workspace, ///< what lives within a pass
    Padding,   ///< room that is taken but not used: alignment, and parts of slots that their stage does not need
};
inline constexpr int kBlockKinds = 13;
const char *name(BlockKind kind); ///< "parameter", "optimizer state"

/// Memory of a rank that is in use from `begin` to `end`, whole or as a part of what one task takes and another gives
/// back. 88 bytes.
struct LiveBlock {
    BlockKind kind = BlockKind::Padding;
    std::int32_t name = -1;       ///< in LiveMemory::names: the tensor, or what else it is; -1: has none
    std::int32_t op = -1;         ///< likewise: the operator that makes it; -1: none, or not known
    std::int32_t microBatch = -1; ///< -1: of all
    std::int64_t offset = -1;     ///< in the arena; -1: not one place
    std::int64_t bytes = 0;       ///< as it was laid out, rounded up to the alignment
    double begin = 0;             ///< seconds
    double end = 0;               ///< infinite: it stays
    TaskId made;                  ///< the task that makes it; none: it was there before
    double madeSeconds = 0;       ///< when that ends
    TaskId last;                  ///< the last task that uses it; none: it stays
    double lastSeconds = 0;       ///< when that ends
};

/// What lies in the arena of one rank over the time of a simulation.
struct LiveMemory {
    std::vector<LiveBlock> blocks; ///< what stays first, then by begin; parts of one slot follow each other by offset
    std::vector<std::string> names;
    std::int64_t arenaBytes = 0;
    double endSeconds = 0; ///< the last end of a task

    [[nodiscard]] const std::string &nameOf(std::int32_t number) const;
    /// Numbers of the blocks in use at @p seconds, in order. Their bytes sum up to the total of the memory curve
    /// (Simulation::memory) there. Cost: O(blocks).
    [[nodiscard]] std::vector<std::size_t> at(double seconds) const;
    /// Ranges of the arena between 0 and arenaBytes in which no block lies at @p seconds. Blocks without a place are
    /// not counted: then the holes are larger by their bytes. Cost: O(blocks log blocks).
    struct Hole {
        std::int64_t begin = 0;
        std::int64_t end = 0;
        [[nodiscard]] std::int64_t bytes() const { return end - begin; }
    };
    [[nodiscard]] std::vector<Hole> holesAt(double seconds) const;
};

/// Runs @p program on the cost clock and tells what rank @p rank has in its arena when. Of a Program without bodies the
/// parts of slots have no names. While a run of a memory policy's pool lasts, its tensors are those of its fullest
/// operator. Errors: those of CostClock::run. Cost: a simulation, and O(tasks x tensors) of the rank.
Result<LiveMemory> liveMemory(const program::Program &program, RankId rank);

} // namespace planloom::simulate

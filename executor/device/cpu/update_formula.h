// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/device.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace planloom::device {

/// Runs any update formula: operator by operator over blocks of elements that stay in the nearest cache, each operator
/// a loop that vectorises. Scalars are computed in double precision, elements in float32. A plain value; run()
/// allocates nothing.
class UpdateFormula {
public:
    /// Error: Unsupported, if the formula has more intermediate results at a time than there are blocks.
    static Result<UpdateFormula> make(const update::Formula &formula);

    /// One phase over all ranges, in parallel. @p sums has room for sumsOf(ranges).
    void run(const UpdateStep &how, std::span<const UpdateRange> ranges, std::span<double> sums) const;
    [[nodiscard]] std::size_t sumsOf(std::span<const UpdateRange> ranges) const;

private:
    using Node = update::Node;
    using Operator = update::Operator;

    static constexpr std::int64_t kBlock = 512; ///< elements: 2 KiB
    static constexpr std::size_t kBlocks = 12;  ///< so that all fit a first-level cache of 32 KiB beside what is read
    static constexpr std::size_t kMostNodes = 96;

    /// Where a value lies.
    struct Place {
        enum class Kind : std::uint8_t { None, Scalar, Block, Memory };
        Kind kind = Kind::None;
        std::int16_t index = 0; ///< node, block, or of the range's memory: weight, gradient, states
    };
    struct Instruction {
        Operator type = update::Operator::Add;
        Place a, b, to;
        std::int16_t norm = -1; ///< of Norm
    };
    struct Phase {
        std::vector<Instruction> instructions;
        std::vector<std::pair<Place, Place>> copies; ///< at the end of a block: from, to
    };
    using Scalars = std::array<double, kMostNodes>;
    class Compiler;

    void compute(const UpdateStep &how, Scalars &scalars) const;
    void compute(const UpdateStep &how, const UpdateRange &range, Scalars &scalars) const;
    void computeOperator(std::size_t node, Scalars &scalars) const;
    void runPiece(const Phase &phase, const Scalars &scalars, const UpdateRange &range, std::int64_t begin,
                  std::int64_t end, double *sums) const;
    void addSquares(const UpdateStep &how, std::span<const UpdateRange> ranges, std::span<const double> sums) const;

    update::Formula m_formula;
    std::vector<Phase> m_phases;
    std::vector<std::size_t> m_ofStep;  ///< scalar nodes that are the same for all ranges
    std::vector<std::size_t> m_ofRange; ///< the others
};

} // namespace planloom::device

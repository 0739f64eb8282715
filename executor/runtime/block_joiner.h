// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/sampling.h"
#include "executor/data/data_set.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace planloom::runtime {

/// The inputs of a model in block form (graph::graphSageBlocks) from what samplers send: each row of a mini-batch once,
/// in the order in which its trees meet it, however many samplers there are. Keeps its memory: 4 bytes a node of the
/// graph.
class BlockJoiner {
public:
    BlockJoiner(const data::Needs &needs, const gnn::Fanout &fanout, std::int64_t width, std::int64_t nodes);

    /// A sample of a message: @p rows are its rows, each a number and features; @p places, of @p count samples, say for
    /// each place which of the rows it is: the seeds, then all first hops, then all second ones.
    struct Sample {
        const std::byte *rows = nullptr;
        const std::byte *places = nullptr;
        std::int64_t index = 0;
        std::int64_t count = 0;
    };
    /// @p inputs: memory by input of the model; nullptr: not wanted. Room behind the rows becomes 0.
    void join(std::span<const Sample> samples, std::span<void *const> inputs);

private:
    /// Inputs, for each of two layers but the first.
    enum Input : std::uint8_t { Rows, Own0, Offsets0, Indices0, Own1, Offsets1, Indices1, kInputs };
    /// The next element of each list.
    using Lists = std::array<std::int64_t *, kInputs>;

    void tree(const Sample &sample, std::int64_t base, Lists &lists);
    std::int64_t rowAt(const Sample &sample, std::int64_t place);
    void copyRows(std::int64_t room, float *to) const;

    gnn::Fanout m_fanout;
    std::int64_t m_width;
    std::array<std::ptrdiff_t, kInputs> m_inputAt{}; ///< among the model's inputs; -1: it has none
    std::vector<std::int32_t> m_rowOf;               ///< per node; -1: not met
    std::vector<std::int64_t> m_met;                 ///< nodes
    std::vector<const std::byte *> m_features;       ///< of each of them
    std::array<std::int64_t, 2> m_entries{};         ///< of the lists of each layer, so far
};

} // namespace planloom::runtime

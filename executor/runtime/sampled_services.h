// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/sampled_source.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace planloom::runtime {

/// A graph store's task: @p rows becomes number and features of each of @p nodes, which are of the part that was kept.
void packRows(const SampledSource &source, std::span<const std::int64_t> nodes, std::vector<std::byte> &rows);

/// The rows of one mini-batch by the part that has them: what a sampler asks its stores for, and what they answer.
/// Keeps its memory.
class AskedRows {
public:
    explicit AskedRows(std::size_t parts) : m_parts(parts) {}

    /// Cuts the rows of @p draw into parts.
    void ask(const SampledSource &source, const SampledDraw &draw);
    /// Ascending.
    [[nodiscard]] std::span<const std::int64_t> nodes(std::size_t part) const { return m_parts[part].nodes; }
    /// Where the answer goes, as packRows() makes it.
    [[nodiscard]] std::vector<std::byte> &answer(std::size_t part) { return m_parts[part].rows; }
    /// A sampler's task once all answers are there: labels, and trees or a block.
    void putTogether(const SampledSource &source, const SampledDraw &draw, const SampledRange &range,
                     const gnn::Fanout &fanout, plan::BatchForm form, std::vector<std::byte> &batch) const;

private:
    struct Part {
        std::vector<std::int64_t> nodes;
        std::vector<std::byte> rows;
    };
    using Answered = std::vector<const std::byte *>; ///< per row of a draw: its number, then its features
    [[nodiscard]] Answered answered(const SampledSource &source, const SampledDraw &draw) const;
    static void putTrees(const SampledSource &source, const SampledDraw &draw, const Answered &rows, std::byte *to);
    static void putBlock(const SampledSource &source, const SampledDraw &draw, const Answered &rows,
                         plan::BatchForm form, std::byte *to);
    std::vector<Part> m_parts;
};

} // namespace planloom::runtime

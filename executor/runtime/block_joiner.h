// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/data/block_writer.h"
#include "executor/runtime/sampled_source.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace planloom::runtime {

/// The inputs of a model in block form from what samplers send: each row of a mini-batch once, in the order in which
/// its trees meet it, however many samplers there are. Keeps its memory. Thread contract: one thread.
class BlockJoiner {
public:
    /// @p nodes: of the graph.
    BlockJoiner(data::BlockShape shape, std::int64_t nodes) : m_shape(std::move(shape)), m_nodes(nodes) {}

    /// Parts of a block as BlockLayout has them.
    struct Message {
        const std::byte *rows = nullptr;
        const std::byte *degrees = nullptr; ///< nullptr: lists have no factors
        const std::byte *places = nullptr;
        BlockCounts counts;
    };
    /// A sample of a message: places [begin, end).
    struct Sample {
        Message message;
        std::int64_t begin = 0;
        std::int64_t end = 0;
    };
    /// @p begins becomes the first place of each of @p samples trees, and the end. False: they do not fit the message,
    /// or it names rows or nodes that do not exist.
    bool findTrees(const Message &message, std::int64_t samples, std::vector<std::int64_t> &begins) const;
    /// @p inputs: memory by input of the model; nullptr: not wanted. Room behind the rows becomes 0.
    void join(std::span<const Sample> samples, std::span<void *const> inputs);

private:
    [[nodiscard]] std::int64_t nodeAt(const Message &message, std::int64_t row) const;
    [[nodiscard]] data::BlockWriter::Place placeOf(const Message &message, std::int64_t place) const;

    data::BlockShape m_shape;
    std::int64_t m_nodes;
    data::BlockScratch m_scratch;
    std::vector<data::BlockWriter::Place> m_tree;
};

} // namespace planloom::runtime

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/sampling.h"
#include "executor/data/data_set.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace planloom::data {

/// The inputs of a model in block form (graph::graphSageBlocks, graph::gcn): a mini-batch's rows once, and for each of
/// two layers the lists of entries that are added up.
struct BlockShape {
    enum class Content : std::uint8_t { Rows, Own, Offsets, Indices, Weights };
    struct Binding {
        Content content = Content::Rows;
        int layer = 0; ///< of all but rows
    };
    static constexpr std::size_t kMostInputs = 9;

    std::vector<Binding> bindings; ///< by input of the model
    gnn::Fanout fanout;
    std::int64_t width = 0; ///< features of a row
    bool loops = false;     ///< a target is an entry of its own list, as in a graph convolution
    bool factors = false;   ///< entries have factors: neighbourhoods are taken whole where they fit
};
/// Error (BadInput): the inputs are not those of a block form, by what they hold or by their sizes.
Result<BlockShape> blockShapeOf(const Needs &needs);
/// Whether the model's inputs have the names of a block form.
bool takesBlocks(const Needs &needs);

/// Memory that a BlockWriter works with, kept from one mini-batch to the next: 4 bytes a node of the graph.
struct BlockScratch {
    std::vector<std::int32_t> rowOf; ///< per node; -1: not met
    std::vector<std::int64_t> nodes; ///< in the order in which they are met
    std::vector<const void *> features;
};

/// Writes the inputs of one mini-batch, tree by tree. Rows stand in the order in which the trees meet them. Thread
/// contract: one thread.
class BlockWriter {
public:
    /// A place of a tree.
    struct Place {
        std::int64_t node = 0;
        std::int64_t degree = 0;        ///< read where entries have factors
        const void *features = nullptr; ///< BlockShape::width floats, until finish()
    };
    /// @p nodes: of the graph. @p inputs: memory by input of the model; nullptr: not wanted. All is borrowed.
    BlockWriter(const BlockShape &shape, std::int64_t nodes, std::span<void *const> inputs, BlockScratch &scratch);
    /// @p places as gnn::appendTree has them: a node, its entries, and the entries of each.
    void add(std::span<const Place> places);
    /// Once, at the end: writes the rows, and zeros into the room behind them.
    void finish();

private:
    /// The next element of a layer's lists; nullptr: not wanted.
    struct Lists {
        std::int64_t *own = nullptr;
        std::int64_t *offsets = nullptr;
        std::int64_t *indices = nullptr;
        float *weights = nullptr;
        std::int64_t entries = 0;
        void entry(std::int64_t row, double weight);
        /// Ends the list of the target that is @p row.
        void target(std::int64_t row);
    };
    [[nodiscard]] void *memoryOf(BlockShape::Content content, int layer) const;
    [[nodiscard]] Lists listsOf(int layer) const;
    std::int64_t rowOf(const Place &place);
    [[nodiscard]] double factor(const Place &target, const Place &entry, std::int64_t entries) const;
    /// The list of @p target in layer 0; returns its row.
    std::int64_t writeList(const Place &target, std::span<const Place> entries);

    const BlockShape &m_shape;
    std::span<void *const> m_inputs;
    BlockScratch &m_scratch;
    std::array<Lists, 2> m_lists; ///< by layer
    std::int64_t m_trees = 0;
};

} // namespace planloom::data

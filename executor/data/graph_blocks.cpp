// SPDX-License-Identifier: Apache-2.0
// Sampled neighbourhoods of a graph's labelled nodes in block form: each row of a mini-batch once, and lists of
// entries.
#include "executor/data/block_writer.h"
#include "executor/data/graph_folder.h"
#include "executor/data/readers.h"

#include <array>
#include <utility>

namespace planloom::data {
namespace {

class BlockData final : public DataSet {
public:
    BlockData(gnn::GraphData graph, BlockShape shape) : m_graph(std::move(graph)), m_shape(std::move(shape))
    {
        for (std::int64_t node = 0; node < m_graph.nodes(); ++node) {
            if (m_graph.labels[static_cast<std::size_t>(node)] >= 0)
                m_seeds.push_back(node);
        }
    }

    [[nodiscard]] std::int64_t samples() const override { return static_cast<std::int64_t>(m_seeds.size()); }
    [[nodiscard]] bool joinsBatches() const override { return true; }
    void fillInput(std::int64_t sample, void *out) const override { fillInputAt(0, sample, out); }

    void fillInputAt(std::size_t input, std::int64_t sample, void *out) const override
    {
        std::array<void *, BlockShape::kMostInputs> inputs{};
        inputs[input] = out;
        fillBatch({&sample, 1}, std::span(inputs).first(m_shape.bindings.size()));
    }

    void fillBatch(std::span<const std::int64_t> samples, std::span<void *const> inputs) const override
    {
        thread_local BlockScratch scratch; // grows to the largest mini-batch, then allocates nothing
        thread_local std::vector<std::int64_t> nodes;
        thread_local std::vector<BlockWriter::Place> places;
        BlockWriter writer(m_shape, m_graph.nodes(), inputs, scratch);
        const gnn::ListDraws draws{m_shape.fanout, m_shape.factors, kTreeSeed, kTreeStep};
        for (const std::int64_t sample : samples) {
            nodes.clear();
            places.clear();
            gnn::appendTree(m_graph, draws, m_seeds[static_cast<std::size_t>(sample)], nodes);
            for (const std::int64_t node : nodes)
                places.push_back({node, static_cast<std::int64_t>(m_graph.neighbours(node).size()),
                                  m_graph.features.data() + node * m_graph.width});
            writer.add(places);
        }
        writer.finish();
    }

    void fillLabels(std::int64_t sample, std::int64_t *out) const override
    {
        *out = m_graph.labels[static_cast<std::size_t>(m_seeds[static_cast<std::size_t>(sample)])];
    }

private:
    gnn::GraphData m_graph;
    BlockShape m_shape;
    std::vector<std::int64_t> m_seeds;
};

} // namespace

Result<std::unique_ptr<DataSet>> readGraphBlocks(const std::string &folder, const Needs &needs)
{
    auto shape = blockShapeOf(needs);
    if (!shape)
        return shape.error().in(folder);
    if (Status status = gnn::checkFanout(shape->fanout); !status)
        return status.error().in(folder);
    auto graph = readGraphFolder(folder);
    if (!graph)
        return graph.error();
    if (Status status = checkGraphFits(*graph, shape->width, "x", needs); !status)
        return status.error().in(folder);
    return std::unique_ptr<DataSet>(std::make_unique<BlockData>(*std::move(graph), *std::move(shape)));
}

} // namespace planloom::data

// SPDX-License-Identifier: Apache-2.0
// Sampled neighbourhoods of a graph's labelled nodes in block form: each row of a mini-batch once, and lists of
// entries.
#include "engine/gnn/sampling.h"
#include "executor/data/graph_folder.h"
#include "executor/data/readers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace planloom::data {
namespace {

/// What an input of a model in block form holds; of one layer where there are two of them.
enum class BlockInput : std::uint8_t { Rows, Own, Offsets, Indices, Weights };

struct Binding {
    BlockInput what = BlockInput::Rows;
    int layer = 0;
};

std::optional<Binding> bindingOf(const std::string &name)
{
    if (name == "x")
        return Binding{};
    constexpr std::array kNames{std::pair{"own", BlockInput::Own}, std::pair{"offsets", BlockInput::Offsets},
                                std::pair{"indices", BlockInput::Indices}, std::pair{"weights", BlockInput::Weights}};
    for (const auto &[stem, what] : kNames) {
        for (const int layer : {0, 1}) {
            if (name == stem + std::to_string(layer))
                return Binding{what, layer};
        }
    }
    return std::nullopt;
}

/// The rows of a mini-batch in the order in which they are met.
class RowNumbers {
public:
    void begin(std::int64_t nodes)
    {
        if (static_cast<std::int64_t>(m_rowOf.size()) < nodes)
            m_rowOf.resize(static_cast<std::size_t>(nodes), -1);
        for (const std::int64_t node : m_nodes)
            m_rowOf[static_cast<std::size_t>(node)] = -1;
        m_nodes.clear();
    }
    std::int64_t operator()(std::int64_t node)
    {
        std::int64_t &row = m_rowOf[static_cast<std::size_t>(node)];
        if (row < 0) {
            row = static_cast<std::int64_t>(m_nodes.size());
            m_nodes.push_back(node);
        }
        return row;
    }
    [[nodiscard]] const std::vector<std::int64_t> &nodes() const { return m_nodes; }

private:
    std::vector<std::int64_t> m_rowOf; ///< per node: -1, not met
    std::vector<std::int64_t> m_nodes;
};

/// Writes one layer's lists, where they are wanted.
class ListWriter {
public:
    ListWriter(void *own, void *offsets, void *indices, void *weights)
        : m_own(static_cast<std::int64_t *>(own)),
          m_offsets(static_cast<std::int64_t *>(offsets)),
          m_indices(static_cast<std::int64_t *>(indices)),
          m_weights(static_cast<float *>(weights))
    {
    }
    void entry(std::int64_t row, double weight)
    {
        if (m_indices != nullptr)
            *m_indices++ = row;
        if (m_weights != nullptr)
            *m_weights++ = static_cast<float>(weight);
        ++m_entries;
    }
    /// Ends the list of a target that is @p row.
    void target(std::int64_t row)
    {
        if (m_own != nullptr)
            *m_own++ = row;
        if (m_offsets != nullptr)
            *m_offsets++ = m_entries;
    }

private:
    std::int64_t *m_own;
    std::int64_t *m_offsets;
    std::int64_t *m_indices;
    float *m_weights;
    std::int64_t m_entries = 0;
};

class BlockData final : public DataSet {
public:
    /// @p loops: a target is an entry of its own list, as in a graph convolution. @p whole: a node with at most as many
    /// neighbours as are drawn has each of them once.
    BlockData(gnn::GraphData graph, gnn::Fanout fanout, std::vector<Binding> bindings, bool loops, bool whole)
        : m_graph(std::move(graph)),
          m_fanout(fanout),
          m_bindings(std::move(bindings)),
          m_loops(loops),
          m_whole(whole)
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
        std::array<void *, kMostInputs> inputs{};
        inputs[input] = out;
        fillBatch({&sample, 1}, std::span(inputs).first(m_bindings.size()));
    }

    void fillBatch(std::span<const std::int64_t> samples, std::span<void *const> inputs) const override
    {
        thread_local RowNumbers rows; // grows to the largest mini-batch, then allocates nothing
        rows.begin(m_graph.nodes());
        const auto memory = [&](BlockInput what, int layer) -> void * {
            for (std::size_t i = 0; i < m_bindings.size(); ++i) {
                if (m_bindings[i].what == what && m_bindings[i].layer == layer)
                    return inputs[i];
            }
            return nullptr;
        };
        const auto writer = [&](int layer) {
            return ListWriter(memory(BlockInput::Own, layer), memory(BlockInput::Offsets, layer),
                              memory(BlockInput::Indices, layer), memory(BlockInput::Weights, layer));
        };
        ListWriter first = writer(0);
        ListWriter second = writer(1);
        for (std::size_t i = 0; i < samples.size(); ++i)
            tree(m_seeds[static_cast<std::size_t>(samples[i])], static_cast<std::int64_t>(i), rows, first, second);
        if (void *x = memory(BlockInput::Rows, 0))
            copyRows(rows.nodes(), static_cast<std::int64_t>(samples.size()) * m_fanout.rows(),
                     static_cast<float *>(x));
    }

    void fillLabels(std::int64_t sample, std::int64_t *out) const override
    {
        *out = m_graph.labels[static_cast<std::size_t>(m_seeds[static_cast<std::size_t>(sample)])];
    }

    static constexpr std::size_t kMostInputs = 9;

private:
    /// The entries of sample @p i, whose node is @p seed. Targets of layer 0: the node, then its neighbours.
    void tree(std::int64_t seed, std::int64_t i, RowNumbers &rows, ListWriter &first, ListWriter &second) const
    {
        const std::int64_t base = i * (1 + m_fanout.first);
        const std::int64_t row = rows(seed);
        if (m_loops) {
            first.entry(row, loopWeight(seed));
            second.entry(base, loopWeight(seed));
        }
        const std::int64_t neighbours = entriesOf(seed, m_fanout.first);
        for (std::int64_t j = 0; j < neighbours; ++j) {
            const std::int64_t neighbour = firstHop(seed, j);
            const double weight = weightOf(seed, neighbour, neighbours);
            first.entry(rows(neighbour), weight);
            second.entry(base + 1 + j, weight);
        }
        first.target(row);
        second.target(base);
        for (std::int64_t j = 0; j < neighbours; ++j)
            list(seed, j, rows, first);
        for (std::int64_t j = neighbours; j < m_fanout.first; ++j)
            first.target(row); // of no list of layer 1
    }

    /// The list of entry @p j of @p seed in layer 0.
    void list(std::int64_t seed, std::int64_t j, RowNumbers &rows, ListWriter &first) const
    {
        const std::int64_t node = firstHop(seed, j);
        const std::int64_t own = rows(node);
        if (m_loops)
            first.entry(own, loopWeight(node));
        const std::int64_t neighbours = entriesOf(node, m_fanout.second);
        for (std::int64_t k = 0; k < neighbours; ++k) {
            const std::int64_t neighbour = secondHop(seed, node, j, k);
            first.entry(rows(neighbour), weightOf(node, neighbour, neighbours));
        }
        first.target(own);
    }

    [[nodiscard]] bool isWhole(std::int64_t node, std::int64_t fanout) const
    {
        const auto count = static_cast<std::int64_t>(m_graph.neighbours(node).size());
        return m_whole && count > 0 && count <= fanout;
    }
    [[nodiscard]] std::int64_t entriesOf(std::int64_t node, std::int64_t fanout) const
    {
        return isWhole(node, fanout) ? static_cast<std::int64_t>(m_graph.neighbours(node).size()) : fanout;
    }
    /// Entry @p k of seed node @p seed: a neighbour, or what is drawn.
    [[nodiscard]] std::int64_t firstHop(std::int64_t seed, std::int64_t k) const
    {
        return isWhole(seed, m_fanout.first) ? m_graph.neighbours(seed)[static_cast<std::size_t>(k)]
                                             : drawnOnce(m_graph, seed, seed, 1, k);
    }
    /// Entry @p k of @p node, which is entry @p j of @p seed.
    [[nodiscard]] std::int64_t secondHop(std::int64_t seed, std::int64_t node, std::int64_t j, std::int64_t k) const
    {
        return isWhole(node, m_fanout.second) ? m_graph.neighbours(node)[static_cast<std::size_t>(k)]
                                              : drawnOnce(m_graph, seed, node, 2, j * m_fanout.second + k);
    }

    [[nodiscard]] double degree(std::int64_t node) const
    {
        return static_cast<double>(m_graph.neighbours(node).size());
    }
    /// Of a graph convolution: 1 / sqrt((d_i + 1) (d_j + 1)), d_i / @p entries times for each of a node's entries, so
    /// that the expected sum is that over all neighbours. Without neighbours a node draws itself and counts once, as
    /// target. Else the factors make a mean.
    [[nodiscard]] double loopWeight(std::int64_t node) const { return 1 / (degree(node) + 1); }
    [[nodiscard]] double weightOf(std::int64_t node, std::int64_t neighbour, std::int64_t entries) const
    {
        if (!m_loops)
            return 1 / static_cast<double>(entries);
        const double own = degree(node);
        return own / static_cast<double>(entries) / std::sqrt((own + 1) * (degree(neighbour) + 1));
    }

    void copyRows(const std::vector<std::int64_t> &nodes, std::int64_t most, float *to) const
    {
        for (const std::int64_t node : nodes)
            to = std::copy_n(m_graph.features.begin() + node * m_graph.width, m_graph.width, to);
        std::fill_n(to, (most - static_cast<std::int64_t>(nodes.size())) * m_graph.width, 0.0F);
    }

    gnn::GraphData m_graph;
    gnn::Fanout m_fanout;
    std::vector<Binding> m_bindings; ///< per input
    bool m_loops;
    bool m_whole;
    std::vector<std::int64_t> m_seeds;
};

/// A model's inputs, as far as they are those of a block form.
struct BlockShape {
    std::vector<Binding> bindings;
    gnn::Fanout fanout;
    std::int64_t width = 0;
    bool loops = false;
    bool whole = false;
};

Result<BlockShape> shapeOf(const Needs &needs)
{
    const Error unknown = badInput("is a graph, and the model's inputs are not those of a block form; train "
                                   "zoo:graphsage-rows or zoo:gcn on it");
    BlockShape shape;
    std::int64_t rows = 0, targets = 0, entries = 0;
    std::size_t seen = 0;
    bool owns = false;
    for (const Needs::Input &input : needs.inputs) {
        const auto binding = bindingOf(input.name);
        const bool floats = binding && (binding->what == BlockInput::Rows || binding->what == BlockInput::Weights);
        if (!binding || input.type != (floats ? graph::DType::F32 : graph::DType::I64) || input.perSample < 1)
            return unknown;
        shape.bindings.push_back(*binding);
        shape.whole = shape.whole || binding->what == BlockInput::Weights;
        owns = owns || binding->what == BlockInput::Own;
        if (binding->what == BlockInput::Rows)
            rows = input.perSample;
        if (binding->layer == 0 && binding->what == BlockInput::Offsets)
            targets = input.perSample;
        if (binding->layer == 0 && binding->what == BlockInput::Indices)
            entries = input.perSample;
        ++seen;
    }
    if (seen > BlockData::kMostInputs || rows == 0 || targets < 2 || needs.labelsPerSample != 1 || needs.labels.empty())
        return unknown;
    shape.loops = shape.whole && !owns;
    const std::int64_t drawn = entries - (shape.loops ? targets : 0);
    shape.fanout.first = targets - 1;
    shape.fanout.second = drawn / shape.fanout.first - 1;
    if (shape.fanout.second < 1 || drawn != shape.fanout.first * (1 + shape.fanout.second)
        || rows % shape.fanout.rows() != 0)
        return unknown;
    shape.width = rows / shape.fanout.rows();
    for (std::size_t i = 0; i < needs.inputs.size(); ++i) {
        const std::int64_t layerTargets = shape.bindings[i].layer == 0 ? targets : 1;
        const std::int64_t layerEntries =
            shape.bindings[i].layer == 0 ? entries : shape.fanout.first + (shape.loops ? 1 : 0);
        std::int64_t wanted = rows;
        if (shape.bindings[i].what == BlockInput::Own || shape.bindings[i].what == BlockInput::Offsets)
            wanted = layerTargets;
        if (shape.bindings[i].what == BlockInput::Indices || shape.bindings[i].what == BlockInput::Weights)
            wanted = layerEntries;
        if (needs.inputs[i].perSample != wanted)
            return unknown;
    }
    return shape;
}

} // namespace

bool takesBlocks(const Needs &needs)
{
    return std::any_of(needs.inputs.begin(), needs.inputs.end(),
                       [](const Needs::Input &input) { return input.name == "offsets0"; });
}

Result<std::unique_ptr<DataSet>> readGraphBlocks(const std::string &folder, const Needs &needs)
{
    auto shape = shapeOf(needs);
    if (!shape)
        return shape.error().in(folder);
    if (Status status = gnn::checkFanout(shape->fanout); !status)
        return status.error().in(folder);
    auto graph = readGraphFolder(folder);
    if (!graph)
        return graph.error();
    if (Status status = checkGraphFits(*graph, shape->width, "x", needs); !status)
        return status.error().in(folder);
    return std::unique_ptr<DataSet>(std::make_unique<BlockData>(
        *std::move(graph), shape->fanout, std::move(shape->bindings), shape->loops, shape->whole));
}

} // namespace planloom::data

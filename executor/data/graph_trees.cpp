// SPDX-License-Identifier: Apache-2.0
// Sampled neighbourhoods of a graph's labelled nodes as samples of a model.
#include "engine/gnn/sampling.h"
#include "executor/data/graph_folder.h"
#include "executor/data/readers.h"

#include <algorithm>

namespace planloom::data {
namespace {

/// A tree of a labelled node as three inputs: its features, those of the neighbours that were drawn, and of theirs; or
/// the first of them alone.
class TreeData final : public DataSet {
public:
    TreeData(gnn::GraphData graph, gnn::Fanout fanout) : m_graph(std::move(graph)), m_fanout(fanout)
    {
        for (std::int64_t node = 0; node < m_graph.nodes(); ++node) {
            if (m_graph.labels[static_cast<std::size_t>(node)] >= 0)
                m_seeds.push_back(node);
        }
    }

    [[nodiscard]] std::int64_t samples() const override { return static_cast<std::int64_t>(m_seeds.size()); }
    void fillInput(std::int64_t sample, void *out) const override { fillInputAt(0, sample, out); }

    void fillInputAt(std::size_t input, std::int64_t sample, void *out) const override
    {
        const std::int64_t seed = m_seeds[static_cast<std::size_t>(sample)];
        auto *to = static_cast<float *>(out);
        if (input == 0) {
            copyRow(seed, to);
            return;
        }
        for (std::int64_t j = 0; j < m_fanout.first; ++j) {
            const std::int64_t neighbour = draw(seed, seed, 1, j);
            if (input == 1) {
                to = copyRow(neighbour, to);
                continue;
            }
            for (std::int64_t k = 0; k < m_fanout.second; ++k)
                to = copyRow(draw(seed, neighbour, 2, j * m_fanout.second + k), to);
        }
    }

    void fillLabels(std::int64_t sample, std::int64_t *out) const override
    {
        *out = m_graph.labels[static_cast<std::size_t>(m_seeds[static_cast<std::size_t>(sample)])];
    }

private:
    [[nodiscard]] std::int64_t draw(std::int64_t seed, std::int64_t node, std::int64_t hop, std::int64_t slot) const
    {
        return gnn::drawnNeighbour(m_graph, node, gnn::drawOf(kTreeSeed, kTreeStep, seed, hop, slot));
    }

    float *copyRow(std::int64_t node, float *to) const
    {
        return std::copy_n(m_graph.features.begin() + node * m_graph.width, m_graph.width, to);
    }

    gnn::GraphData m_graph;
    gnn::Fanout m_fanout;
    std::vector<std::int64_t> m_seeds;
};

/// The fan-out of a model with the inputs of a two-hop tree; of one that takes no neighbours {0, 0}.
Result<gnn::Fanout> fanoutOf(const Needs &needs)
{
    const auto isFeature = [](const Needs::Input &input) {
        return input.use == Needs::Use::Feature && input.type == graph::DType::F32 && input.perSample > 0;
    };
    const bool labels = needs.labelsPerSample == 1 && !needs.labels.empty();
    if (labels && needs.inputs.size() == 1 && isFeature(needs.inputs[0]))
        return gnn::Fanout{0, 0};
    const bool three = needs.inputs.size() == 3 && std::all_of(needs.inputs.begin(), needs.inputs.end(), isFeature);
    if (labels && three && needs.inputs[1].perSample % needs.inputs[0].perSample == 0
        && needs.inputs[2].perSample % needs.inputs[1].perSample == 0)
        return gnn::Fanout{needs.inputs[1].perSample / needs.inputs[0].perSample,
                           needs.inputs[2].perSample / needs.inputs[1].perSample};
    return badInput("is a graph, and the model does not take trees: float inputs of a node, of its neighbours and of "
                    "theirs (or of the node alone), and a label; train zoo:graphsage, zoo:graphsage-rows or zoo:gcn on "
                    "it");
}

} // namespace

Status checkGraphFits(const gnn::GraphData &graph, std::int64_t width, const std::string &input, const Needs &needs)
{
    if (graph.width != width)
        return badInput("has " + std::to_string(graph.width) + " features a node, and the model's input \"" + input
                        + "\" wants " + std::to_string(width)
                        + "; make the graph with another --width, or use another model");
    if (graph.classes() == 0)
        return badInput("has no labelled nodes to train on");
    if (needs.classes > 0 && graph.classes() > needs.classes)
        return badInput("has " + std::to_string(graph.classes()) + " classes, and the model tells "
                        + std::to_string(needs.classes) + " apart; use a model that fits");
    return {};
}

Result<std::unique_ptr<DataSet>> readGraphTrees(const std::string &folder, const Needs &needs)
{
    const auto fanout = fanoutOf(needs);
    if (!fanout)
        return fanout.error().in(folder);
    if (Status status = gnn::checkFanout(*fanout); needs.inputs.size() > 1 && !status)
        return status.error().in(folder);
    auto graph = readGraphFolder(folder);
    if (!graph)
        return graph.error();
    if (Status status = checkGraphFits(*graph, needs.inputs[0].perSample, needs.inputs[0].name, needs); !status)
        return status.error().in(folder);
    return std::unique_ptr<DataSet>(std::make_unique<TreeData>(*std::move(graph), *fanout));
}

} // namespace planloom::data

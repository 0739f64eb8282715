// SPDX-License-Identifier: Apache-2.0
#include "engine/export/export.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <memory>

namespace planloom::exporting {
namespace {

/// dot puts a virtual node on every rank that an edge crosses: densenet121 took more than a minute, and 20 ms with this
/// limit.
constexpr int kLongestSpan = 8;

/// Okabe-Ito's hues, light enough for black text; the stage's number is in the label, too.
constexpr std::array kStageColours = {"#f2d38c", "#a8d8f2", "#8fd3bd", "#f7f0a6",
                                      "#9fc4e3", "#f0b183", "#e3b7d0", "#c9c9c9"};

std::string dotText(std::string_view text)
{
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out += '\\';
        out += c == '\n' ? ' ' : c;
    }
    return out + '"';
}

std::string colourOf(int stage) { return kStageColours[static_cast<std::size_t>(stage) % kStageColours.size()]; }

/// Scopes as a tree: every "/"-separated part is a cluster.
struct Scope {
    std::map<std::string, std::unique_ptr<Scope>> inner;
    std::vector<OpId> ops;
};

class Drawing {
public:
    Drawing(const graph::Graph &graph, const plan::Plan *plan, const graph::LayerView *layers)
        : m_graph(graph),
          m_plan(plan),
          m_layers(layers),
          m_rank(graph.ops().size(), 0)
    {
        for (const auto &op : graph.ops()) {
            findRank(op);
            scopeOf(op.scope).ops.push_back(op.id);
        }
    }

    std::string text()
    {
        m_out =
            fmt::format("digraph {} {{\n  graph [rankdir=TB, fontname=\"DejaVu Sans\", labeljust=l];\n"
                        "  node [shape=box, style=filled, fillcolor=white, fontname=\"DejaVu Sans\", fontsize=10];\n"
                        "  edge [arrowsize=0.6];\n",
                        dotText(m_graph.name()));
        inputs();
        scope(m_root, "", "  ");
        for (const auto &op : m_graph.ops())
            edges(op);
        legend();
        return m_out + "}\n";
    }

private:
    void findRank(const graph::Op &op)
    {
        for (const TensorId id : op.inputs) {
            const OpId producer = id.valid() ? m_graph.tensor(id).producer : OpId{};
            if (producer.valid())
                m_rank[op.id.index()] = std::max(m_rank[op.id.index()], m_rank[producer.index()] + 1);
        }
    }

    Scope &scopeOf(const std::string &path)
    {
        Scope *scope = &m_root;
        std::size_t begin = 0;
        while (begin < path.size()) {
            const std::size_t end = std::min(path.find('/', begin), path.size());
            if (end > begin) {
                auto &inner = scope->inner[path.substr(begin, end - begin)];
                if (!inner)
                    inner = std::make_unique<Scope>();
                scope = inner.get();
            }
            begin = end + 1;
        }
        return *scope;
    }

    [[nodiscard]] int stageOf(OpId op) const
    {
        if (!m_plan || !m_layers)
            return -1;
        const std::size_t layer = m_layers->layerOf(op);
        for (std::size_t stage = 0; stage < m_plan->stages.size(); ++stage) {
            if (layer >= m_plan->stages[stage].firstLayer && layer < m_plan->stages[stage].lastLayer)
                return static_cast<int>(stage);
        }
        return -1;
    }

    void inputs()
    {
        for (const TensorId id : m_graph.withRole(graph::TensorRole::Input)) {
            const auto &tensor = m_graph.tensor(id);
            m_out += fmt::format("  t{} [label={}, shape=ellipse];\n", id.value,
                                 dotText(tensor.name + " " + tensor.shape.text()));
        }
    }

    void node(const graph::Op &op, const std::string &indent)
    {
        const int stage = stageOf(op.id);
        const std::string label = stage < 0 ? op.type.name() : fmt::format("{} (s{})", op.type.name(), stage);
        const std::string colour = stage < 0 ? "" : fmt::format(", fillcolor=\"{}\"", colourOf(stage));
        m_out += fmt::format("{}o{} [label={}, tooltip={}{}];\n", indent, op.id.value, dotText(label), dotText(op.name),
                             colour);
    }

    void scope(const Scope &scope, const std::string &path, const std::string &indent)
    {
        for (const OpId op : scope.ops)
            node(m_graph.op(op), indent);
        for (const auto &[name, inner] : scope.inner) {
            const std::string full = path + "/" + name;
            m_out += fmt::format("{}subgraph {} {{\n{}  label={}; color=\"#909090\";\n", indent,
                                 dotText("cluster" + full), indent, dotText(name));
            this->scope(*inner, full, indent + "  ");
            m_out += indent + "}\n";
        }
    }

    void edges(const graph::Op &op)
    {
        std::vector<TensorId> drawn;
        for (const TensorId id : op.inputs) {
            if (!id.valid() || std::find(drawn.begin(), drawn.end(), id) != drawn.end())
                continue;
            drawn.push_back(id);
            const auto &tensor = m_graph.tensor(id);
            if (tensor.role == graph::TensorRole::Input)
                edge(fmt::format("t{}", id.value), 0, tensor.name, op.id);
            else if (tensor.producer.valid())
                edge(fmt::format("o{}", tensor.producer.value), m_rank[tensor.producer.index()],
                     m_graph.op(tensor.producer).name, op.id);
        }
    }

    void edge(const std::string &from, int fromRank, const std::string &name, OpId to)
    {
        if (m_rank[to.index()] - fromRank <= kLongestSpan) {
            m_out += fmt::format("  {} -> o{};\n", from, to.value);
            return;
        }
        m_out +=
            fmt::format("  stub{} [label={}, shape=plain, fontsize=8, style=\"\"];\n  stub{} -> o{} [style=dashed];\n",
                        m_stubs, dotText("from " + name), m_stubs, to.value);
        ++m_stubs;
    }

    void legend()
    {
        if (!m_plan)
            return;
        m_out += "  subgraph \"cluster legend\" {\n    label=\"stages\"; color=\"#909090\";\n";
        for (int stage = 0; stage < static_cast<int>(m_plan->stages.size()); ++stage) {
            const auto &s = m_plan->stages[static_cast<std::size_t>(stage)];
            const std::string label =
                fmt::format("s{}: layers {} to {}, devices: {}", stage, s.firstLayer, s.lastLayer, s.devices.size());
            m_out += fmt::format("    stage{} [label={}, fillcolor=\"{}\"];\n", stage, dotText(label), colourOf(stage));
        }
        m_out += "  }\n";
    }

    const graph::Graph &m_graph;
    const plan::Plan *m_plan;
    const graph::LayerView *m_layers;
    std::vector<int> m_rank; ///< longest path from an input, by operator
    Scope m_root;
    std::string m_out;
    int m_stubs = 0;
};

} // namespace

std::string graphvizDot(const graph::Graph &graph, const plan::Plan *plan, const graph::LayerView *layers)
{
    return Drawing(graph, plan, layers).text();
}

} // namespace planloom::exporting

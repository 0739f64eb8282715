// SPDX-License-Identifier: Apache-2.0
#include "planners/oneflow/choices.h"

#include <algorithm>
#include <limits>
#include <set>

namespace planloom::planners::oneflow {
namespace {

/// Better by less than this share is rounding (the repository's tolerance).
constexpr double kTolerance = 1e-7;

/// Costs over some nodes, row-major, the last one fastest.
struct Table {
    std::vector<int> nodes; ///< ascending
    std::vector<double> values;
};

/// The neighbours of an eliminated node: its choice follows from those of its neighbours.
struct Bucket {
    int node = 0;
    std::vector<Table> tables;
};

class Elimination {
public:
    Elimination(const ChoiceGraph &graph, const SolveSettings &settings)
        : m_graph(graph),
          m_settings(settings),
          m_open(graph.nodes.size(), true),
          m_tablesOf(graph.nodes.size()),
          m_near(graph.nodes.size())
    {
        for (std::size_t n = 0; n < graph.nodes.size(); ++n)
            place({{static_cast<int>(n)}, graph.nodes[n]});
        for (const ChoiceGraph::Edge &edge : graph.edges)
            place(tableOf(edge));
    }

    Solution run(const std::vector<std::vector<int>> &seeds)
    {
        eliminate();
        m_result.states.assign(m_graph.nodes.size(), 0);
        if (m_result.kernel > 0)
            refine(seeds);
        for (auto bucket = m_buckets.rbegin(); bucket != m_buckets.rend(); ++bucket)
            m_result.states[static_cast<std::size_t>(bucket->node)] = best(bucket->node, bucket->tables);
        m_result.cost = costOf(m_graph, m_result.states);
        return std::move(m_result);
    }

private:
    [[nodiscard]] std::size_t states(int node) const { return m_graph.nodes[static_cast<std::size_t>(node)].size(); }

    Table tableOf(const ChoiceGraph::Edge &edge) const
    {
        if (edge.a < edge.b)
            return {{edge.a, edge.b}, edge.cost};
        Table table{{edge.b, edge.a}, std::vector<double>(edge.cost.size())};
        for (std::size_t i = 0; i < states(edge.a); ++i)
            for (std::size_t j = 0; j < states(edge.b); ++j)
                table.values[j * states(edge.a) + i] = edge.cost[i * states(edge.b) + j];
        return table;
    }

    void place(Table table)
    {
        for (const int node : table.nodes)
            for (const int other : table.nodes)
                if (node != other)
                    m_near[static_cast<std::size_t>(node)].insert(other);
        for (const int node : table.nodes)
            m_tablesOf[static_cast<std::size_t>(node)].push_back(m_tables.size());
        m_tables.push_back(std::move(table));
    }

    /// Entries of the table that eliminating @p node would leave.
    [[nodiscard]] double left(int node) const
    {
        double entries = 1;
        for (const int other : m_near[static_cast<std::size_t>(node)])
            entries *= static_cast<double>(states(other));
        return entries;
    }

    void eliminate()
    {
        std::set<std::pair<double, int>> queue;
        std::vector<double> size(m_graph.nodes.size());
        const auto enter = [&](int node) { queue.emplace(size[static_cast<std::size_t>(node)] = left(node), node); };
        for (std::size_t n = 0; n < m_graph.nodes.size(); ++n)
            enter(static_cast<int>(n));
        while (!queue.empty() && queue.begin()->first <= static_cast<double>(m_settings.largestTable)) {
            const int node = queue.begin()->second;
            queue.erase(queue.begin());
            const std::set<int> near = m_near[static_cast<std::size_t>(node)];
            for (const int other : near)
                queue.erase({size[static_cast<std::size_t>(other)], other});
            eliminate(node);
            for (const int other : near) {
                m_near[static_cast<std::size_t>(other)].erase(node);
                enter(other);
            }
        }
        m_result.kernel = queue.size();
        m_result.exact = queue.empty();
    }

    void eliminate(int node)
    {
        Bucket bucket{node, {}};
        m_open[static_cast<std::size_t>(node)] = false;
        for (const std::size_t index : m_tablesOf[static_cast<std::size_t>(node)])
            if (!m_tables[index].nodes.empty()) {
                bucket.tables.push_back(std::move(m_tables[index]));
                m_tables[index] = {};
            }
        const std::set<int> &near = m_near[static_cast<std::size_t>(node)];
        if (!near.empty())
            place(minimum(bucket, {near.begin(), near.end()}));
        m_buckets.push_back(std::move(bucket));
    }

    /// The bucket's sum, least over its node's states, as a table over @p over.
    Table minimum(const Bucket &bucket, std::vector<int> over)
    {
        std::size_t entries = 1;
        for (const int node : over)
            entries *= states(node);
        m_result.largestTable = std::max(m_result.largestTable, entries);
        Table result{std::move(over), std::vector<double>(entries, kNever)};
        // Per table of the bucket: how far one step of each node (and of the eliminated one) goes, and where we are.
        std::vector<std::vector<std::size_t>> strides;
        std::vector<std::size_t> own;
        for (const Table &table : bucket.tables) {
            strides.emplace_back();
            for (const int node : result.nodes)
                strides.back().push_back(stride(table, node));
            own.push_back(stride(table, bucket.node));
        }
        std::vector<std::size_t> at(bucket.tables.size(), 0);
        std::vector<std::size_t> digits(result.nodes.size(), 0);
        const std::size_t choices = states(bucket.node);
        for (std::size_t entry = 0; entry < entries; ++entry) {
            double least = kNever;
            for (std::size_t s = 0; s < choices; ++s) {
                double sum = 0;
                for (std::size_t t = 0; t < at.size(); ++t)
                    sum += bucket.tables[t].values[at[t] + s * own[t]];
                least = std::min(least, sum);
            }
            result.values[entry] = least;
            for (std::size_t d = digits.size(); d-- > 0;) {
                const bool wraps = ++digits[d] == states(result.nodes[d]);
                const std::size_t back = wraps ? digits[d] - 1 : 0;
                for (std::size_t t = 0; t < at.size(); ++t)
                    at[t] = wraps ? at[t] - back * strides[t][d] : at[t] + strides[t][d];
                if (!wraps)
                    break;
                digits[d] = 0;
            }
        }
        return result;
    }

    [[nodiscard]] std::size_t stride(const Table &table, int node) const
    {
        std::size_t step = 1;
        for (std::size_t i = table.nodes.size(); i-- > 0; step *= states(table.nodes[i]))
            if (table.nodes[i] == node)
                return step;
        return 0;
    }

    [[nodiscard]] double value(const Table &table, const std::vector<int> &chosen) const
    {
        std::size_t at = 0;
        for (const int node : table.nodes)
            at = at * states(node) + static_cast<std::size_t>(chosen[static_cast<std::size_t>(node)]);
        return table.values[at];
    }

    /// The state of @p node that costs least in @p tables, its neighbours being as chosen.
    int best(int node, const std::vector<Table> &tables)
    {
        int &state = m_result.states[static_cast<std::size_t>(node)];
        int found = 0;
        double least = kNever;
        for (state = 0; state < static_cast<int>(states(node)); ++state) {
            double sum = 0;
            for (const Table &table : tables)
                sum += value(table, m_result.states);
            if (sum < least) {
                least = sum;
                found = state;
            }
        }
        return state = found;
    }

    // --- the kernel

    [[nodiscard]] double around(int a, int b) const
    {
        double sum = 0;
        for (const std::size_t index : m_tablesOf[static_cast<std::size_t>(a)])
            if (!m_tables[index].nodes.empty())
                sum += value(m_tables[index], m_result.states);
        if (a == b)
            return sum;
        for (const std::size_t index : m_tablesOf[static_cast<std::size_t>(b)])
            if (const Table &table = m_tables[index];
                !table.nodes.empty() && !std::binary_search(table.nodes.begin(), table.nodes.end(), a))
                sum += value(table, m_result.states);
        return sum;
    }

    /// Moves both nodes (one, if they are the same) to where they cost least. True if that was better.
    bool move(int a, int b)
    {
        int &first = m_result.states[static_cast<std::size_t>(a)];
        int &second = m_result.states[static_cast<std::size_t>(b)];
        const std::pair before{first, second};
        std::pair found = before;
        const double now = around(a, b);
        double least = now;
        for (int i = 0; i < static_cast<int>(states(a)); ++i)
            for (int j = 0; j < (a == b ? 1 : static_cast<int>(states(b))); ++j) {
                second = j;
                first = i;
                if (const double sum = around(a, b); sum < least) {
                    least = sum;
                    found = {i, a == b ? i : j};
                }
            }
        second = found.second;
        first = found.first;
        return least < now * (1 - kTolerance) || (now == kNever && least < kNever);
    }

    [[nodiscard]] double kernelCost() const
    {
        double sum = 0;
        for (const Table &table : m_tables)
            if (!table.nodes.empty())
                sum += value(table, m_result.states);
        return sum;
    }

    void settle(const std::vector<int> &kernel)
    {
        constexpr int kRounds = 64;
        for (int round = 0; round < kRounds; ++round) {
            bool better = false;
            for (const int node : kernel)
                better = move(node, node) || better;
            for (const int node : kernel)
                for (const int other : m_near[static_cast<std::size_t>(node)])
                    if (other > node)
                        better = move(node, other) || better;
            if (!better)
                return;
        }
    }

    void refine(const std::vector<std::vector<int>> &seeds)
    {
        std::vector<int> kernel;
        for (std::size_t n = 0; n < m_open.size(); ++n)
            if (m_open[n])
                kernel.push_back(static_cast<int>(n));
        std::vector<std::vector<int>> starts = seeds;
        starts.emplace_back(m_graph.nodes.size(), 0);
        std::vector<int> best;
        double least = kNever;
        for (const std::vector<int> &start : starts) {
            m_result.states = start;
            settle(kernel);
            const double cost = kernelCost();
            if (best.empty() || cost < least) {
                least = cost;
                best = m_result.states;
            }
        }
        m_result.states = std::move(best);
    }

    const ChoiceGraph &m_graph;
    const SolveSettings &m_settings;
    std::vector<bool> m_open;
    std::vector<Table> m_tables;                      ///< without nodes: used up
    std::vector<std::vector<std::size_t>> m_tablesOf; ///< by node
    std::vector<std::set<int>> m_near;                ///< by node: others in one of its tables
    std::vector<Bucket> m_buckets;
    Solution m_result;
};

} // namespace

int ChoiceGraph::add(std::vector<double> costs)
{
    nodes.push_back(std::move(costs));
    return static_cast<int>(nodes.size()) - 1;
}

void ChoiceGraph::connect(int a, int b, std::vector<double> cost) { edges.push_back({a, b, std::move(cost)}); }

double costOf(const ChoiceGraph &graph, const std::vector<int> &states)
{
    double sum = 0;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
        sum += graph.nodes[n][static_cast<std::size_t>(states[n])];
    for (const ChoiceGraph::Edge &edge : graph.edges) {
        const auto columns = graph.nodes[static_cast<std::size_t>(edge.b)].size();
        sum += edge.cost[static_cast<std::size_t>(states[static_cast<std::size_t>(edge.a)]) * columns
                         + static_cast<std::size_t>(states[static_cast<std::size_t>(edge.b)])];
    }
    return sum;
}

Solution solve(const ChoiceGraph &graph, const SolveSettings &settings, const std::vector<std::vector<int>> &seeds)
{
    return Elimination(graph, settings).run(seeds);
}

} // namespace planloom::planners::oneflow

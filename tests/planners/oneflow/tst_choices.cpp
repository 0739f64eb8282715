// SPDX-License-Identifier: Apache-2.0
// The search behind the oneflow planner: elimination against trying everything, and the repository's own example by its
// own costs.
#include "engine/sharding/boxing.h"
#include "engine/sharding/signatures.h"
#include "planners/oneflow/choices.h"

#include <QTest>

#include <cmath>
#include <map>
#include <random>

using namespace planloom;
using namespace planloom::planners::oneflow;
using sharding::Sbp;
using sharding::broadcast;
using sharding::partial;
using sharding::split;

namespace {

double cheapestOfAll(const ChoiceGraph &graph)
{
    std::vector<int> states(graph.nodes.size(), 0);
    double best = kNever;
    for (std::size_t n = 0; n < states.size();) {
        best = std::min(best, costOf(graph, states));
        for (n = 0; n < states.size() && ++states[n] == static_cast<int>(graph.nodes[n].size()); ++n)
            states[n] = 0;
    }
    return best;
}

/// Nodes of one to four states; edges between @p edges random pairs, some parallel, some choices forbidden.
ChoiceGraph randomGraph(std::mt19937 &random, int nodes, int edges)
{
    std::uniform_int_distribution<int> cost(0, 50);
    std::uniform_int_distribution<int> any(0, nodes - 1);
    ChoiceGraph graph;
    const auto costs = [&](std::size_t count) {
        std::vector<double> values;
        for (std::size_t i = 0; i < count; ++i)
            values.push_back(cost(random) < 4 ? kNever : cost(random));
        return values;
    };
    for (int n = 0; n < nodes; ++n)
        graph.add(costs(1 + static_cast<std::size_t>(random() % 4)));
    for (int e = 0; e < edges; ++e) {
        const int a = any(random);
        const int b = any(random);
        if (a != b)
            graph.connect(a, b,
                          costs(graph.nodes[static_cast<std::size_t>(a)].size()
                                * graph.nodes[static_cast<std::size_t>(b)].size()));
    }
    return graph;
}

/// The training step of a two-layer perceptron as the repository's module sees it: a node per operator, bytes and
/// operations as its costs.
class Perceptron {
public:
    explicit Perceptron(double batch) : m_batch(batch)
    {
        const Sizes x{m_batch, 1024}, w1{1024, 4096}, w2{4096, 1024}, h{m_batch, 4096};
        source("X", x);
        source("W1", w1);
        source("W2", w2);
        product("H", {"X", x}, {"W1", w1}, h, {});
        pointwise("R", {"H"}, h, 2);
        product("Y", {"R", h}, {"W2", w2}, x, {});
        pointwise("dY", {"Y"}, x, 2);
        product("dR", {"dY", x}, {"W2", w2}, h, {false, true});
        product("dW2", {"R", h}, {"dY", x}, w2, {true, false});
        pointwise("dH", {"dR", "H"}, h, 3);
        product("dW1", {"X", x}, {"dH", h}, w1, {true, false});
        update("W1", "dW1", w1);
        update("W2", "dW2", w2);
    }

    ChoiceGraph graph;
    /// The layout that node @p name makes.
    [[nodiscard]] Sbp layout(const std::string &name, const Solution &solution) const
    {
        const Node &node = m_nodes.at(name);
        return node.made[static_cast<std::size_t>(solution.states[static_cast<std::size_t>(node.index)])];
    }

private:
    static constexpr int kDevices = 4;
    static constexpr double kComputing = 0.05;
    using Sizes = std::vector<double>;
    struct Node {
        int index = 0;
        std::vector<Sbp> made;
        Sizes sizes;
    };
    struct Operand {
        std::string name;
        Sizes sizes;
    };
    struct Transposed {
        bool a = false;
        bool b = false;
    };

    /// The repository's cost of a conversion on one line of devices: bytes, with a fixed cost for each that is
    /// not the identity and a penalty for making a partial sum.
    static double repositoryCost(const Sbp &have, const Sbp &want, double bytes)
    {
        constexpr double kTransfer = 1.65e4;
        if (have == want)
            return 0;
        if (sharding::isPartial(want))
            return sharding::isSplit(have) ? kNever : kTransfer + 4 * bytes * (kDevices + kDevices);
        if (sharding::isBroadcast(have))
            return kTransfer + 1;
        return kTransfer + sharding::boxingBytes(have, want, bytes, kDevices);
    }
    static double elements(const Sizes &sizes) { return sizes[0] * sizes[1]; }
    static double share(const Sbp &sbp) { return sbp.kind == Sbp::Kind::Split ? 1.0 / kDevices : 1; }

    void connect(const std::string &producer, int consumer, const std::vector<Sbp> &wanted)
    {
        const Node &from = m_nodes.at(producer);
        std::vector<double> costs;
        for (const Sbp &have : from.made)
            for (const Sbp &want : wanted)
                costs.push_back(repositoryCost(have, want, elements(from.sizes) * 4));
        graph.connect(from.index, consumer, std::move(costs));
    }

    void source(const std::string &name, const Sizes &sizes)
    {
        const std::vector<Sbp> made{split(0), split(1), broadcast()};
        std::vector<double> costs;
        for (const Sbp &sbp : made)
            costs.push_back(kComputing * elements(sizes) * share(sbp));
        m_nodes[name] = {graph.add(std::move(costs)), made, sizes};
    }

    void pointwise(const std::string &name, const std::vector<std::string> &inputs, const Sizes &sizes, double blobs)
    {
        source(name, sizes);
        const Node node = m_nodes[name];
        for (double &cost : graph.nodes[static_cast<std::size_t>(node.index)])
            cost *= blobs;
        for (const std::string &input : inputs)
            connect(input, node.index, node.made);
    }

    void product(const std::string &name, const Operand &a, const Operand &b, const Sizes &result,
                 Transposed transposed)
    {
        const int m = transposed.a ? 1 : 0, ka = 1 - m, k = transposed.b ? 1 : 0, n = 1 - k;
        const std::vector<Sbp> left{split(m), broadcast(), split(ka), partial(), broadcast(), broadcast()};
        const std::vector<Sbp> right{broadcast(), split(n), split(k), broadcast(), partial(), broadcast()};
        const std::vector<Sbp> made{split(0), split(1), partial(), partial(), partial(), broadcast()};
        std::vector<double> costs;
        for (std::size_t s = 0; s < made.size(); ++s)
            costs.push_back(kComputing * 2 * m_batch * 1024 * 4096 * std::min(share(left[s]), share(right[s])));
        m_nodes[name] = {graph.add(std::move(costs)), made, result};
        connect(a.name, m_nodes[name].index, left);
        connect(b.name, m_nodes[name].index, right);
    }

    /// The parameter must lie as the update wants it; the gradient is converted.
    void update(const std::string &parameter, const std::string &gradient, const Sizes &sizes)
    {
        const std::string name = "sgd " + parameter;
        pointwise(name, {gradient}, sizes, 2);
        std::vector<double> same(9, kNever);
        same[0] = same[4] = same[8] = 0;
        graph.connect(m_nodes[parameter].index, m_nodes[name].index, std::move(same));
    }

    double m_batch;
    std::map<std::string, Node> m_nodes;
};

} // namespace

class TestChoices : public QObject {
    Q_OBJECT

private slots:
    void eliminationIsExact()
    {
        std::mt19937 random(7);
        for (int round = 0; round < 400; ++round) {
            const int nodes = 1 + round % 8;
            const ChoiceGraph graph = randomGraph(random, nodes, round % 15);
            const Solution solution = solve(graph);
            QVERIFY(solution.exact && solution.kernel == 0);
            QCOMPARE(solution.cost, cheapestOfAll(graph));
            QCOMPARE(costOf(graph, solution.states), solution.cost);
        }
    }

    // Where tables may not grow, what is left is refined: never below the optimum, never above where it started, and
    // found where there is anything.
    void kernelsAreRefined()
    {
        std::mt19937 random(11);
        int kernels = 0;
        int optimal = 0;
        for (int round = 0; round < 200; ++round) {
            const ChoiceGraph graph = randomGraph(random, 8, 24);
            const std::vector<int> start(graph.nodes.size(), 0);
            const Solution solution = solve(graph, {4}, {start});
            const double best = cheapestOfAll(graph);
            QVERIFY(solution.cost >= best);
            QVERIFY(solution.cost <= costOf(graph, start));
            QCOMPARE(solution.exact, solution.kernel == 0);
            kernels += solution.kernel > 0 ? 1 : 0;
            optimal += solution.cost == best ? 1 : 0;
        }
        QVERIFY(kernels > 100);
        QVERIFY2(optimal > 100, qPrintable(QString("%1 of 200 are optimal").arg(optimal)));
    }

    void equalCostsGoToTheEarlier()
    {
        ChoiceGraph graph;
        graph.add({1, 1, 1});
        graph.add({2, 2});
        graph.connect(1, 0, std::vector<double>(6, 0));
        QCOMPARE(solve(graph).states, (std::vector<int>{0, 0}));
    }

    void nothingAllowed()
    {
        ChoiceGraph graph;
        graph.add({0, 1});
        graph.add({0});
        graph.connect(0, 1, {kNever, kNever});
        QCOMPARE(solve(graph).cost, kNever);
    }

    void perceptron_data()
    {
        QTest::addColumn<double>("batch");
        QTest::addColumn<double>("cost");
        QTest::addColumn<bool>("tensorParallel");
        QTest::newRow("64") << 64.0 << 35484583.2 << true;
        QTest::newRow("512") << 512.0 << 281559156.0 << true;
        QTest::newRow("2048") << 2048.0 << 1125243405.6 << true;
        QTest::newRow("the last with tensor parallel") << 8174.0 << 4490093479.2 << true;
        QTest::newRow("the first with data parallel") << 8175.0 << 4490623644.0 << false;
        QTest::newRow("16384") << 16384.0 << 8796920565.6 << false;
    }

    // Brief §5.4: with the repository's costs a small batch is laid out tensor parallel, a large one data parallel with
    // the first weight stored in parts.
    void perceptron()
    {
        QFETCH(double, batch);
        QFETCH(double, cost);
        QFETCH(bool, tensorParallel);
        const Perceptron model(batch);
        const Solution solution = solve(model.graph);
        QVERIFY(solution.exact);
        QVERIFY2(std::fabs(solution.cost - cost) < 0.2, qPrintable(QString::number(solution.cost, 'f', 1)));
        QCOMPARE(model.layout("W1", solution), tensorParallel ? split(1) : split(0));
        QCOMPARE(model.layout("W2", solution), tensorParallel ? split(0) : broadcast());
        QCOMPARE(model.layout("H", solution), tensorParallel ? split(1) : split(0));
        QCOMPARE(model.layout("Y", solution), tensorParallel ? partial() : split(0));
    }
};

QTEST_GUILESS_MAIN(TestChoices)
#include "tst_choices.moc"

// SPDX-License-Identifier: Apache-2.0
// Rules, propagation and linkage groups of the automap planner, on the worked example of two products.
#include "planners/automap/agent.h"
#include "tests/planners/automap/brute_force.h"
#include "tests/planners/planner_helpers.h"

#include "engine/graph/zoo/zoo.h"

#include <QTest>

#include <random>
#include <set>

using namespace planloom;
using namespace planloom::planners::automap;
using testing::must;

namespace {

/// H = X W1, R = relu(H), Y = R W2, and Z = Y + X. Nothing is trained: the splits of tensors are all that counts.
RuleGraph twoProducts(bool residual)
{
    graph::GraphBuilder builder("toy");
    const TensorId x = builder.input("X", graph::DType::F32, graph::Shape::of({16, 32}));
    const auto weight = [&](const char *name, std::int64_t rows, std::int64_t columns) {
        return builder.parameter(name, graph::Shape::of({rows, columns}), {});
    };
    const TensorId w1 = weight("W1", 32, 64);
    const TensorId w2 = weight("W2", 64, 32);
    const TensorId h = builder.add("MatMul", {x, w1}, {}, "H");
    const TensorId r = builder.add("Relu", {h}, {}, "R");
    const TensorId y = builder.add("MatMul", {r, w2}, {}, "Y");
    builder.output(residual ? builder.add("Add", {y, x}, {}, "Z") : y);
    graph::TrainingGraph training;
    training.graph = must(std::move(builder).build());
    training.forwardOps = training.graph.ops().size();
    training.parameters = {training.graph.find("W1"), training.graph.find("W2")};
    training.gradients = {TensorId(), TensorId()};
    return rulesOf(training, 4);
}

int tensorNamed(const RuleGraph &graph, const std::string &name)
{
    for (std::size_t t = 0; t < graph.tensors.size(); ++t)
        if (graph.tensors[t].name == name)
            return static_cast<int>(t);
    return -1;
}

/// "-1,1": the splits that are left to @p name.
QString left(const RuleGraph &graph, const Allowed &allowed, const std::string &name)
{
    QStringList splits;
    const auto t = static_cast<std::size_t>(tensorNamed(graph, name));
    for (int split = kReplicated; split < graph.tensors[t].rank; ++split)
        if (allowed[t] & bitOf(split))
            splits << QString::number(split);
    return splits.join(',');
}

QString assignment(const RuleGraph &graph, const std::vector<int> &splits, const std::vector<std::string> &names)
{
    QStringList list;
    for (const std::string &name : names)
        list << QString::number(splits[static_cast<std::size_t>(tensorNamed(graph, name))]);
    return list.join(',');
}

} // namespace

class TestAutoMapRules : public QObject {
    Q_OBJECT

private slots:
    // A product with two batch dimensions: replicated, along what is summed, each free dimension, each batch dimension.
    void rowsOfABatchedProduct()
    {
        graph::GraphBuilder builder("dot");
        const TensorId a = builder.input("a", graph::DType::F32, graph::Shape::of({4, 8, 16, 32}));
        const TensorId b = builder.input("b", graph::DType::F32, graph::Shape::of({4, 8, 32, 64}));
        builder.output(builder.add("MatMul", {a, b}, {}, "c"));
        graph::TrainingGraph training;
        training.graph = must(std::move(builder).build());
        training.forwardOps = 1;
        const RuleGraph graph = rulesOf(training, 4);
        std::set<std::vector<int>> rows;
        double reduced = 0;
        for (const Row &row : graph.instructions[0].rows) {
            rows.insert(row.splits);
            reduced += row.reduceBytes;
        }
        QCOMPARE(graph.instructions[0].rows.size(), std::size_t(6));
        QCOMPARE(rows,
                 (std::set<std::vector<int>>{{-1, -1, -1}, {3, 2, -1}, {2, -1, 2}, {-1, 3, 3}, {0, 0, 0}, {1, 1, 1}}));
        QCOMPARE(reduced, 4.0 * 8 * 16 * 64 * 4); // only what is summed needs an all-reduce of the result
    }

    void consistentAssignmentsOfTheExample()
    {
        const RuleGraph plain = twoProducts(false);
        std::set<QString> found;
        for (const auto &splits : consistentAssignments(plain))
            found.insert(assignment(plain, splits, {"X", "W1", "W2", "H", "R", "Y"}));
        QCOMPARE(found,
                 (std::set<QString>{"-1,-1,-1,-1,-1,-1", "-1,-1,1,-1,-1,1", "-1,1,0,1,1,-1", "0,-1,-1,0,0,0",
                                    "1,0,-1,-1,-1,-1", "1,0,1,-1,-1,1"}));
        const RuleGraph residual = twoProducts(true);
        found.clear();
        for (const auto &splits : consistentAssignments(residual))
            found.insert(assignment(residual, splits, {"X", "W1", "W2", "H", "R", "Y", "Z"}));
        QCOMPARE(found,
                 (std::set<QString>{"-1,-1,-1,-1,-1,-1,-1", "-1,1,0,1,1,-1,-1", "0,-1,-1,0,0,0,0", "1,0,1,-1,-1,1,1"}));
    }

    void propagation_data()
    {
        QTest::addColumn<QString>("tensor");
        QTest::addColumn<int>("split");
        QTest::addColumn<QString>("implies");
        QTest::newRow("W1 by columns") << "W1" << 1 << "X=-1 H=1 R=1 W2=0 Y=-1";
        QTest::newRow("W1 by rows") << "W1" << 0 << "X=1 H=-1 R=-1 W2=-1,1 Y=-1,1";
        QTest::newRow("W2 by rows") << "W2" << 0 << "R=1 H=1 W1=1 X=-1 Y=-1";
        QTest::newRow("W2 by columns") << "W2" << 1 << "R=-1 H=-1 Y=1 W1=-1,0 X=-1,1";
        QTest::newRow("the batch") << "X" << 0 << "W1=-1 W2=-1 H=0 R=0 Y=0";
        QTest::newRow("W1 replicated") << "W1" << -1 << "X=-1,0 H=-1,0";
    }

    void propagation()
    {
        QFETCH(QString, tensor);
        QFETCH(int, split);
        QFETCH(QString, implies);
        const RuleGraph graph = twoProducts(false);
        Allowed allowed = everything(graph);
        QVERIFY(decide(graph, allowed, tensorNamed(graph, tensor.toStdString()), split));
        for (const QString &part : implies.split(' '))
            QCOMPARE(part.section('=', 0, 0) + "=" + left(graph, allowed, part.section('=', 0, 0).toStdString()), part);
    }

    void linkageOfTheExample()
    {
        for (const bool residual : {false, true}) {
            const RuleGraph graph = twoProducts(residual);
            const int w1 = tensorNamed(graph, "W1");
            const int w2 = tensorNamed(graph, "W2");
            std::map<std::pair<int, int>, std::vector<std::pair<int, int>>> groups;
            for (const Linkage &group : linkageGroups(graph, graph.trainable, Consistency::BreadthFirst)) {
                QVERIFY(group.feasible);
                groups[{group.variable, group.split}] = group.implied;
            }
            using Implied = std::vector<std::pair<int, int>>;
            QCOMPARE((groups[{w1, 1}]), (Implied{{w2, 0}}));
            QCOMPARE((groups[{w2, 0}]), (Implied{{w1, 1}}));
            QCOMPARE((groups[{w1, 0}]), residual ? (Implied{{w2, 1}}) : Implied{});
            QCOMPARE((groups[{w2, 1}]), residual ? (Implied{{w1, 0}}) : Implied{});
        }
    }

    // States of the agent: -1 undecided, 0 whole, 1 split, for W1's dimensions, then W2's.
    void statesOfTheExample()
    {
        const RuleGraph plain = twoProducts(false);
        const RuleGraph residual = twoProducts(true);
        const auto after = [](const RuleGraph &graph, int dimension) {
            PartitionGame game(graph, graph.trainable, {});
            if (dimension >= 0) {
                game.choose(tensorNamed(graph, "W1"), dimension);
                game.act(1);
            }
            return std::make_pair(game.decisions(), game.over());
        };
        QCOMPARE(after(plain, -1), std::make_pair(std::vector<int>{-1, -1, -1, -1}, false));
        QCOMPARE(after(plain, 1),
                 std::make_pair(std::vector<int>{0, 1, 1, 0}, true)); // one step and everything is decided
        QCOMPARE(after(plain, 0), std::make_pair(std::vector<int>{1, 0, 0, -1}, false));
        QCOMPARE(after(residual, 0), std::make_pair(std::vector<int>{1, 0, 0, 1}, true));
    }

    // Following every set that shrinks implies at least what following decisions implies, and never contradicts an
    // assignment that is consistent.
    void arcConsistencyImpliesMore()
    {
        const graph::Graph model = must(graph::mlp("mlp", {32, 64, 64, 16}));
        const RuleGraph graph = rulesOf(
            must(graph::differentiate(model, OpId(0), OpId(static_cast<std::int32_t>(model.ops().size())), {}, {})), 4);
        std::size_t more = 0;
        for (const int variable : graph.trainable)
            for (int split = kReplicated; split < graph.tensors[static_cast<std::size_t>(variable)].rank; ++split) {
                Allowed first = everything(graph);
                Allowed arc = first;
                const bool possible = decide(graph, first, variable, split, Consistency::BreadthFirst);
                const bool arcPossible = decide(graph, arc, variable, split, Consistency::Arc);
                QVERIFY(possible || !arcPossible);
                for (std::size_t t = 0; arcPossible && t < arc.size(); ++t) {
                    QCOMPARE(arc[t] & ~first[t], 0U);
                    more += arc[t] != first[t] ? 1 : 0;
                }
            }
        QVERIFY(more > 0);
        const RuleGraph toy = twoProducts(true);
        for (const auto &splits : consistentAssignments(toy))
            for (const Consistency consistency : {Consistency::BreadthFirst, Consistency::Arc}) {
                Allowed allowed = everything(toy);
                for (std::size_t t = 0; t < splits.size(); ++t)
                    QVERIFY(decide(toy, allowed, static_cast<int>(t), splits[t], consistency));
            }
    }

    void conflicts()
    {
        const RuleGraph graph = twoProducts(true);
        Allowed allowed = everything(graph);
        QVERIFY(decide(graph, allowed, tensorNamed(graph, "W1"), 1));
        QVERIFY(!decide(graph, allowed, tensorNamed(graph, "W2"), 1));
    }

    // Indivisible dimensions are never split.
    void sizesMustDivide()
    {
        const graph::Graph model = must(graph::mlp("odd", {7, 9, 5}));
        const RuleGraph graph = rulesOf(
            must(graph::differentiate(model, OpId(0), OpId(static_cast<std::int32_t>(model.ops().size())), {}, {})), 4);
        for (const Linkage &group : linkageGroups(graph, graph.trainable, Consistency::BreadthFirst))
            QCOMPARE(group.feasible, group.split == kReplicated);
    }

    // In a transformer the batch is the first dimension of everything that is fed.
    void batchOfATransformer()
    {
        graph::TransformerConfig config;
        config.layers = 2;
        config.heads = 2;
        config.hidden = 32;
        config.feedForward = 64;
        config.vocabulary = 64;
        config.context = 16;
        const RuleGraph graph = batchRulesOf(must(graph::gpt(config)), 4, 4);
        QVERIFY(graph.unknown.empty());
        PartitionSettings settings;
        settings.countTensors = true;
        PartitionGame game(graph, graph.inputs, settings);
        const Outcome all = exhaust(game);
        QVERIFY(all.best.score > 0.5); // most tensors carry it
        game.reset();
        for (const std::size_t action : all.best.actions)
            game.act(action);
        for (const char *name : {"tokens", "labels", "h/1/mlp/residual", "head/logits"})
            QCOMPARE(left(graph, game.allowed(), name), QString("0"));
        QCOMPARE(left(graph, game.allowed(), "transformer.h.0.mlp.c_fc.weight"), QString("-1"));
    }
};

QTEST_GUILESS_MAIN(TestAutoMapRules)
#include "tst_automap_rules.moc"

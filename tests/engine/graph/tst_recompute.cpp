// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/layers.h"
#include "engine/graph/rewrite/recompute.h"
#include "engine/graph/zoo/zoo.h"

#include <QTest>

#include <algorithm>
#include <set>

using namespace planloom;
using namespace planloom::graph;

namespace {

TransformerConfig small(double unfusedDropout)
{
    TransformerConfig config;
    config.layers = 3;
    config.heads = 2;
    config.hidden = 16;
    config.feedForward = 32;
    config.vocabulary = 32;
    config.context = 8;
    config.unfusedDropout = unfusedDropout;
    return config;
}

TrainingGraph whole(const Graph &graph)
{
    auto training = differentiate(graph, OpId(0), OpId(static_cast<std::int32_t>(graph.ops().size())), {}, {});
    if (!training)
        qFatal("%s", training.error().text().c_str());
    return *std::move(training);
}

TrainingGraph again(const TrainingGraph &training, const std::vector<Rerun> &runs)
{
    auto made = rerun(training, runs);
    if (!made)
        qFatal("%s", made.error().text().c_str());
    return *std::move(made);
}

std::set<std::string> kept(const TrainingGraph &training)
{
    std::set<std::string> names;
    for (const TensorId id : training.stash)
        names.insert(training.graph.tensor(id).name);
    return names;
}

std::vector<Rerun> blocks(const Graph &graph)
{
    std::vector<Rerun> runs;
    for (const Layer &layer : layersOf(graph).layers)
        if (layer.name.starts_with("h/"))
            runs.push_back({layer.first.index(), layer.last.index(), false});
    return runs;
}

} // namespace

class RecomputeTest : public QObject {
    Q_OBJECT

private slots:
    /// Attention in pieces loses all that is quadratic and keeps its result; the fused one loses its result and
    /// statistics.
    void attention_data()
    {
        QTest::addColumn<double>("dropout");
        QTest::addColumn<QStringList>("lost");
        QTest::newRow("in pieces") << 0.1
                                   << QStringList{"h/0/attn/attention:1", "h/0/attn/attention:2",
                                                  "h/0/attn/attention:3"};
        QTest::newRow("fused") << 0.0 << QStringList{"h/0/attn/attention", "h/0/attn/attention:1"};
    }
    void attention()
    {
        QFETCH(double, dropout);
        QFETCH(QStringList, lost);
        const auto graph = gpt(small(dropout));
        const TrainingGraph training = whole(*graph);
        const std::vector<Rerun> cores = attentionCores(training);
        QCOMPARE(cores.size(), std::size_t(3));
        const TrainingGraph less = again(training, cores);
        QStringList gone;
        const std::set<std::string> left = kept(less);
        for (const std::string &name : kept(training))
            if (left.count(name) == 0 && name.starts_with("h/0/"))
                gone << QString::fromStdString(name);
        QCOMPARE(gone, lost);
        QCOMPARE(less.graph.ops().size(), training.graph.ops().size() + 3);
        QCOMPARE(less.forwardOps, training.forwardOps);
        QCOMPARE(less.gradients.size(), training.gradients.size());
    }

    /// Blocks keep their inputs: what the embedding made, and each block's result but the last, which the head reads.
    void blocksKeepTheirInputs()
    {
        const auto graph = gpt(small(0));
        const TrainingGraph training = whole(*graph);
        const TrainingGraph less = again(training, blocks(*graph));
        std::set<std::string> between;
        for (const std::string &name : kept(less))
            if (!name.starts_with("head"))
                between.insert(name);
        QCOMPARE(between,
                 (std::set<std::string>{"embedding/embeddings", "h/0/mlp/residual", "h/1/mlp/residual",
                                        "h/2/mlp/residual"}));
    }

    /// Each second run stands right before the first backward operator that reads it, and is complete.
    void runsStandWhereTheyAreNeeded()
    {
        const auto graph = gpt(small(0));
        const TrainingGraph training = whole(*graph);
        const std::vector<Rerun> runs = blocks(*graph);
        const TrainingGraph less = again(training, runs);
        QCOMPARE(less.graph.ops().size(), training.graph.ops().size() + 3 * (runs[0].last - runs[0].first));
        std::string before;
        std::vector<std::string> order;
        for (std::size_t i = less.forwardOps; i < less.graph.ops().size(); ++i) {
            const Op &op = less.graph.ops()[i];
            if (op.name.starts_with("again/") && !before.starts_with("again/"))
                order.push_back(op.scope.substr(0, 3));
            before = op.name;
        }
        QCOMPARE(order, (std::vector<std::string>{"h/2", "h/1", "h/0"}));
    }

    void nothingToDropChangesNothing()
    {
        const auto graph = gpt(small(0));
        const TrainingGraph training = whole(*graph);
        QCOMPARE(kept(again(training, {})), kept(training));
        QCOMPARE(again(training, {}).graph.ops().size(), training.graph.ops().size());
    }

    /// A run that updates running statistics would do it twice: it stays as it is.
    void statesAreNotUpdatedTwice()
    {
        const auto graph = resnet50();
        const TrainingGraph training = whole(*graph);
        const auto layers = layersOf(*graph);
        const Rerun first{layers.layers[1].first.index(), layers.layers[1].last.index(), false};
        QCOMPARE(kept(again(training, {first})), kept(training));
    }
};

QTEST_GUILESS_MAIN(RecomputeTest)
#include "tst_recompute.moc"

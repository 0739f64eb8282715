// SPDX-License-Identifier: Apache-2.0
// GraphSAGE and a graph convolution network on two triangles with full neighbourhoods, against numbers worked out in
// double precision.
#include "engine/graph/zoo/zoo.h"
#include "executor/device/training_runner.h"

#include <QTest>

#include <cmath>

using namespace planloom;

namespace {

/// 0-1 0-2 1-2 2-3 3-4 4-5 3-5.
const std::vector<std::vector<std::int64_t>> kNeighbours{{1, 2}, {0, 2}, {0, 1, 3}, {2, 4, 5}, {3, 5}, {3, 4}};
constexpr std::int64_t kNodes = 6;
/// A multiple of every degree: a tree with each neighbour equally often has the mean of them all.
constexpr std::int64_t kFanout = 6;
constexpr std::int64_t kWidth = 2;

Result<graph::Graph> twoByTwo()
{
    graph::GraphSageConfig config;
    config.features = kWidth;
    config.hidden = 2;
    config.classes = 2;
    config.firstFanout = config.secondFanout = kFanout;
    return graph::graphSage(config);
}

std::int64_t neighbour(std::int64_t node, std::int64_t slot)
{
    const auto &all = kNeighbours[static_cast<std::size_t>(node)];
    return all[static_cast<std::size_t>(slot) % all.size()];
}

float *row(std::int64_t node, float *to)
{
    for (std::int64_t k = 0; k < kWidth; ++k)
        *to++ = static_cast<float>(std::sin(1.0 + 2.0 * static_cast<double>(node) + 3.0 * static_cast<double>(k)));
    return to;
}

void feedParameters(test::TrainingRunner &runner, int inputs)
{
    for (int i = 0; i < inputs; ++i) {
        for (int j = 0; j < 2; ++j) {
            runner.floats("layers.0.weight")[2 * i + j] = static_cast<float>(0.5 * std::cos(1 + i + 4 * j));
            if (runner.graph().find("layers.1.weight").valid())
                runner.floats("layers.1.weight")[2 * i + j] = static_cast<float>(0.5 * std::sin(2 + 3 * i + j));
        }
    }
    runner.floats("layers.0.bias")[0] = 0.1F;
    runner.floats("layers.0.bias")[1] = -0.1F;
}

void feedLabels(test::TrainingRunner &runner)
{
    auto *labels = static_cast<std::int64_t *>(runner.data(runner.graph().find("labels")));
    for (std::int64_t node = 0; node < kNodes; ++node)
        labels[node] = node < 3 ? 0 : 1;
}

void feed(test::TrainingRunner &runner)
{
    float *x = runner.floats("x");
    float *x1 = runner.floats("x1");
    float *x2 = runner.floats("x2");
    for (std::int64_t node = 0; node < kNodes; ++node) {
        x = row(node, x);
        for (std::int64_t j = 0; j < kFanout; ++j) {
            x1 = row(neighbour(node, j), x1);
            for (std::int64_t k = 0; k < kFanout; ++k)
                x2 = row(neighbour(neighbour(node, j), k), x2);
        }
    }
    feedParameters(runner, 4);
}

/// Block form: what lists of a layer hold, one target after the other.
class Lists {
public:
    Lists(test::TrainingRunner &runner, const std::string &layer, std::int64_t targets)
        : m_offsets(ints(runner, "offsets" + layer)),
          m_indices(ints(runner, "indices" + layer)),
          m_own(ints(runner, "own" + layer)),
          m_weights(runner.graph().find("weights" + layer).valid() ? runner.floats("weights" + layer) : nullptr),
          m_targets(targets)
    {
    }
    /// All neighbours of every node; @p loops: with the node itself, and factors. Other targets have no entries.
    void fill(bool loops)
    {
        std::int64_t entries = 0;
        const auto entry = [&](std::int64_t node, std::int64_t other) {
            m_indices[entries] = other;
            if (m_weights != nullptr)
                m_weights[entries] = static_cast<float>(factor(node, other));
            ++entries;
        };
        for (std::int64_t target = 0; target < m_targets; ++target) {
            if (target < kNodes && loops)
                entry(target, target);
            for (std::size_t j = 0; target < kNodes && j < kNeighbours[static_cast<std::size_t>(target)].size(); ++j)
                entry(target, neighbour(target, static_cast<std::int64_t>(j)));
            m_offsets[target] = entries;
            if (m_own != nullptr)
                m_own[target] = target < kNodes ? target : 0;
        }
    }
    static double factor(std::int64_t node, std::int64_t other)
    {
        const auto degree = [](std::int64_t of) {
            return 1.0 + static_cast<double>(kNeighbours[static_cast<std::size_t>(of)].size());
        };
        return 1 / std::sqrt(degree(node) * degree(other));
    }

private:
    static std::int64_t *ints(test::TrainingRunner &runner, const std::string &name)
    {
        const TensorId id = runner.graph().find(name);
        return id.valid() ? static_cast<std::int64_t *>(runner.data(id)) : nullptr;
    }
    std::int64_t *m_offsets;
    std::int64_t *m_indices;
    std::int64_t *m_own;
    float *m_weights;
    std::int64_t m_targets;
};

constexpr std::int64_t kBlockFanout = 3;

graph::GraphSageConfig blocksOfTwo()
{
    graph::GraphSageConfig config;
    config.features = kWidth;
    config.hidden = 2;
    config.classes = 2;
    config.firstFanout = kBlockFanout;
    config.secondFanout = 2;
    return config;
}

void feedBlocks(test::TrainingRunner &runner, bool loops)
{
    float *x = runner.floats("x");
    std::fill_n(x, runner.elements(runner.graph().find("x")), 0.0F);
    for (std::int64_t node = 0; node < kNodes; ++node)
        x = row(node, x);
    Lists(runner, "0", kNodes * (1 + kBlockFanout)).fill(loops);
    Lists(runner, "1", kNodes).fill(loops);
    feedParameters(runner, loops ? 2 : 4);
}

/// The loss of the graph convolution network in double precision, as a function of its parameters in the order
/// layers.0.weight, layers.0.bias, layers.1.weight, layers.1.bias.
double convolutionLoss(const std::vector<double> &p)
{
    using Rows = std::vector<std::vector<double>>;
    const auto convolve = [&](const Rows &rows, std::size_t weight, std::size_t bias) {
        Rows result;
        for (std::int64_t node = 0; node < kNodes; ++node) {
            std::vector<double> sum(2);
            const auto add = [&](std::int64_t other) {
                for (std::size_t c = 0; c < 2; ++c)
                    sum[c] += Lists::factor(node, other) * rows[static_cast<std::size_t>(other)][c];
            };
            add(node);
            for (const std::int64_t other : kNeighbours[static_cast<std::size_t>(node)])
                add(other);
            result.push_back({sum[0] * p[weight] + sum[1] * p[weight + 2] + p[bias],
                              sum[0] * p[weight + 1] + sum[1] * p[weight + 3] + p[bias + 1]});
        }
        return result;
    };
    Rows x;
    for (int node = 0; node < kNodes; ++node)
        x.push_back({std::sin(1.0 + 2.0 * node), std::sin(4.0 + 2.0 * node)});
    Rows hidden = convolve(x, 0, 4);
    for (auto &values : hidden)
        for (double &value : values)
            value = std::max(0.0, value);
    const Rows logits = convolve(hidden, 6, 10);
    double loss = 0;
    for (std::size_t node = 0; node < kNodes; ++node) {
        const auto &l = logits[node];
        loss += (std::log(std::exp(l[0]) + std::exp(l[1])) - l[node < 3 ? 0 : 1]) / kNodes;
    }
    return loss;
}

void compare(const float *found, const std::vector<double> &expected, const char *what)
{
    for (std::size_t i = 0; i < expected.size(); ++i)
        QVERIFY2(
            std::abs(static_cast<double>(found[i]) - expected[i]) < 2e-7,
            qPrintable(
                QString("%1[%2] is %3, not %4").arg(what).arg(i).arg(found[i], 0, 'g', 9).arg(expected[i], 0, 'g', 9)));
}

} // namespace

class TestGraphSage : public QObject {
    Q_OBJECT

    static void verifyGolden(test::TrainingRunner &runner)
    {
        const graph::TrainingGraph *training = &runner.training();
        compare(runner.floats(training->loss), {0.695316739}, "loss");
        for (std::size_t p = 0; p < training->parameters.size(); ++p) {
            const std::string name = runner.graph().tensor(training->parameters[p]).name;
            const float *gradient = runner.floats(training->gradients[p]);
            if (name == "layers.0.weight")
                compare(gradient,
                        {0.008033687, 0.006656313, -0.006367173, -0.005018504, -0.012794276, -0.002202807, 0.013646601,
                         0.003251344},
                        "dW1");
            else if (name == "layers.0.bias")
                compare(gradient, {0.007378174, -0.005015711}, "db1");
            else if (name == "layers.1.weight")
                compare(gradient,
                        {0.015679605, -0.015679605, -0.002457618, 0.002457618, 0.000290067, -0.000290067, 0.012366991,
                         -0.012366991},
                        "dW2");
            else
                compare(gradient, {0.020464943, -0.020464943}, "db2");
        }
    }

    static Result<graph::TrainingGraph> trainingOf(const graph::Graph &model)
    {
        return graph::differentiate(model, OpId(0), OpId(static_cast<std::int64_t>(model.ops().size())), {}, {});
    }

private slots:
    void lossAndGradients()
    {
        const auto model = twoByTwo();
        QVERIFY(model.ok());
        const auto training = trainingOf(*model);
        QVERIFY(training.ok());
        auto made = test::TrainingRunner::make(*training, kNodes);
        QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
        test::TrainingRunner &runner = **made;
        feed(runner);
        feedLabels(runner);
        *runner.floats(training->lossGradient) = 1;
        runner.run();
        verifyGolden(runner);
        QCOMPARE(training->parameters.size(), std::size_t{4});
    }

    void logits()
    {
        const auto model = twoByTwo();
        const auto operators = static_cast<std::int64_t>(model->ops().size());
        const TensorId logits = model->op(OpId(operators - 1)).inputs.front();
        const auto forward = graph::differentiate(*model, OpId(0), OpId(operators - 1), {}, {logits});
        QVERIFY2(forward.ok(), forward.ok() ? "" : forward.error().text().c_str());
        auto made = test::TrainingRunner::make(*forward, kNodes);
        QVERIFY(made.ok());
        feed(**made);
        (*made)->run();
        compare((*made)->floats(forward->outputs.front()),
                {0.185198635, -0.005228600, 0.105621467, 0.007235105, -0.026076126, 0.018142476, 0.117748069,
                 -0.028177625, 0.154487492, 0.010318415, -0.023832724, 0.018551718},
                "logits");
    }

    /// The same numbers by sparse products.
    void blockForm()
    {
        const auto model = graph::graphSageBlocks(blocksOfTwo());
        QVERIFY2(model.ok(), model.ok() ? "" : model.error().text().c_str());
        const auto training = trainingOf(*model);
        QVERIFY(training.ok());
        auto made = test::TrainingRunner::make(*training, kNodes);
        QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
        feedBlocks(**made, false);
        feedLabels(**made);
        *(*made)->floats(training->lossGradient) = 1;
        (*made)->run();
        verifyGolden(**made);
    }

    void convolution()
    {
        const auto model = graph::gcn(blocksOfTwo());
        QVERIFY2(model.ok(), model.ok() ? "" : model.error().text().c_str());
        const auto training = trainingOf(*model);
        QVERIFY(training.ok());
        auto made = test::TrainingRunner::make(*training, kNodes);
        QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
        test::TrainingRunner &runner = **made;
        feedBlocks(runner, true);
        feedLabels(runner);
        *runner.floats(training->lossGradient) = 1;
        std::vector<double> parameters;
        for (const char *name : {"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"}) {
            const std::int64_t count = runner.elements(runner.graph().find(name));
            QCOMPARE(count, std::int64_t{std::string_view(name).ends_with("weight") ? 4 : 2});
            if (std::string_view(name) == "layers.1.bias")
                std::fill_n(runner.floats(name), count, 0.0F);
            parameters.insert(parameters.end(), runner.floats(name), runner.floats(name) + count);
        }
        runner.run();
        compare(runner.floats(training->loss), {convolutionLoss(parameters)}, "loss");
        std::size_t at = 0;
        for (const char *name : {"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"}) {
            const TensorId parameter = runner.graph().find(name);
            const auto found = std::find(training->parameters.begin(), training->parameters.end(), parameter);
            QVERIFY(found != training->parameters.end());
            const auto index = static_cast<std::size_t>(found - training->parameters.begin());
            std::vector<double> expected;
            for (std::int64_t i = 0; i < runner.elements(parameter); ++i, ++at) {
                constexpr double kStep = 1e-6;
                std::vector<double> moved = parameters;
                moved[at] += kStep;
                const double above = convolutionLoss(moved);
                moved[at] -= 2 * kStep;
                expected.push_back((above - convolutionLoss(moved)) / (2 * kStep));
            }
            compare(runner.floats(training->gradients[index]), expected, name);
        }
    }

    void badSizes()
    {
        graph::GraphSageConfig config;
        config.firstFanout = 0;
        QVERIFY(!graph::graphSage(config).ok());
        QVERIFY(!graph::graphSageBlocks(config).ok());
        QVERIFY(!graph::gcn(config).ok());
    }
};

QTEST_GUILESS_MAIN(TestGraphSage)
#include "tst_graphsage.moc"

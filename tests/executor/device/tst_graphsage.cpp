// SPDX-License-Identifier: Apache-2.0
// GraphSAGE on two triangles with full neighbourhoods, against numbers worked out in double precision.
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
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 2; ++j) {
            runner.floats("layers.0.weight")[2 * i + j] = static_cast<float>(0.5 * std::cos(1 + i + 4 * j));
            if (runner.graph().find("layers.1.weight").valid())
                runner.floats("layers.1.weight")[2 * i + j] = static_cast<float>(0.5 * std::sin(2 + 3 * i + j));
        }
    }
    runner.floats("layers.0.bias")[0] = 0.1F;
    runner.floats("layers.0.bias")[1] = -0.1F;
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

private slots:
    void lossAndGradients()
    {
        const auto model = twoByTwo();
        QVERIFY(model.ok());
        const auto training =
            graph::differentiate(*model, OpId(0), OpId(static_cast<std::int64_t>(model->ops().size())), {}, {});
        QVERIFY(training.ok());
        auto made = test::TrainingRunner::make(*training, kNodes);
        QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
        test::TrainingRunner &runner = **made;
        feed(runner);
        auto *labels = static_cast<std::int64_t *>(runner.data(runner.graph().find("labels")));
        for (std::int64_t node = 0; node < kNodes; ++node)
            labels[node] = node < 3 ? 0 : 1;
        *runner.floats(training->lossGradient) = 1;
        runner.run();
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

    void badSizes()
    {
        graph::GraphSageConfig config;
        config.firstFanout = 0;
        QVERIFY(!graph::graphSage(config).ok());
    }
};

QTEST_GUILESS_MAIN(TestGraphSage)
#include "tst_graphsage.moc"

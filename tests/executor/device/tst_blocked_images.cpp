// SPDX-License-Identifier: Apache-2.0
#include "executor/device/image_network.h"
#include "executor/device/training_runner.h"

#include "engine/graph/rewrite/fuse_batch_norm.h"
#include "engine/graph/rewrite/layouts.h"

#include <QTest>

#include <cmath>
#include <random>

using namespace planloom;
using namespace planloom::graph;

namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kSamples = 3;

std::map<std::string, int> countTypes(const Graph &graph)
{
    std::map<std::string, int> counts;
    for (const Op &op : graph.ops())
        ++counts[op.type.name()];
    return counts;
}

void feed(test::TrainingRunner &runner)
{
    for (const Tensor &tensor : runner.graph().tensors()) {
        if (tensor.role == TensorRole::Activation || tensor.role == TensorRole::Constant)
            continue;
        if (tensor.type == DType::I64) {
            for (std::int64_t i = 0; i < runner.elements(tensor.id); ++i)
                static_cast<std::int64_t *>(runner.data(tensor.id))[i] = i * 3 % 7;
            continue;
        }
        std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(tensor.name)));
        const bool scale = tensor.shape.rank() == 1 && tensor.name.ends_with("weight");
        std::normal_distribution<float> values(scale ? 1.0F : 0.1F, tensor.shape.rank() == 4 ? 0.3F : 0.2F);
        for (std::int64_t i = 0; i < runner.elements(tensor.id); ++i)
            runner.floats(tensor.id)[i] = tensor.name.starts_with("grad/") ? 1.0F : values(random);
    }
}

/// Largest difference relative to the largest value.
double apart(const float *a, const float *b, std::int64_t n)
{
    double difference = 0;
    double largest = 1e-3; // a bias before a normalisation has no gradient but rounding
    for (std::int64_t i = 0; i < n; ++i) {
        difference = std::max(difference, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
        largest = std::max(largest, std::fabs(static_cast<double>(a[i])));
    }
    return difference / largest;
}

} // namespace

class BlockedImages : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        auto graph = test::ImageNetwork().build();
        QVERIFY2(graph.ok(), graph ? "" : graph.error().text().c_str());
        auto plain = differentiate(*graph, OpId(0), OpId(static_cast<std::int64_t>(graph->ops().size())), {}, {});
        QVERIFY2(plain.ok(), plain ? "" : plain.error().text().c_str());
        m_plain = std::move(*plain);
        auto fused = fuseBatchNormalization(m_plain);
        QVERIFY2(fused.ok(), fused ? "" : fused.error().text().c_str());
        m_fused = std::move(*fused);
        auto blocked = chooseLayouts(m_fused);
        QVERIFY2(blocked.ok(), blocked ? "" : blocked.error().text().c_str());
        m_blocked = std::move(*blocked);
    }

    /// Five ReLUs follow a normalisation, two of them after an Add; gradients of the second residual block come in two
    /// parts.
    void fusesNormalisations()
    {
        auto before = countTypes(m_plain.graph);
        auto after = countTypes(m_fused.graph);
        QCOMPARE(after["Relu"], before["Relu"] - 5);
        QCOMPARE(after["ReluGrad"], before["ReluGrad"] - 5);
        QCOMPARE(after["Add"], before["Add"] - 2);
        QCOMPARE(after["BatchNormalization"], before["BatchNormalization"]);
        QVERIFY(after["AddN"] < before["AddN"]);
        QCOMPARE(m_fused.gradients.size(), m_plain.gradients.size());
    }

    /// Rows stand only around the normalisation of 20 channels; its input's gradient is made in rows by the convolution
    /// itself.
    void reordersAtBordersOnly()
    {
        auto counts = countTypes(m_blocked.graph);
        QCOMPARE(counts["Reorder"], 0);
        QCOMPARE(counts["ReduceSum"], 0); // the sums of both biased convolutions go with their weights
        for (const Tensor &tensor : m_blocked.graph.tensors())
            if (tensor.layout == Layout::Blocked)
                QCOMPARE(tensor.shape[1].size % 16, 0);
        QVERIFY(std::any_of(m_blocked.graph.tensors().begin(), m_blocked.graph.tensors().end(),
                            [](const Tensor &t) { return t.layout == Layout::Blocked; }));
    }

    void graphsWithoutConvolutionsStay()
    {
        GraphBuilder builder("rows");
        const TensorId x = builder.input("x", DType::F32, Shape::batched({16, 4, 4}));
        builder.output(builder.add("Relu", {x}, {}, "relu"));
        auto graph = std::move(builder).build();
        QVERIFY(graph.ok());
        TrainingGraph training;
        training.graph = *graph;
        training.forwardOps = 1;
        auto chosen = chooseLayouts(training);
        QVERIFY(chosen.ok());
        QCOMPARE(countTypes(chosen->graph), countTypes(*graph));
    }

    void sameResults_data()
    {
        QTest::addColumn<bool>("blocks");
        QTest::newRow("fused") << false;
        QTest::newRow("fused and blocked") << true;
    }

    /// Loss, gradients of all parameters and running statistics; the data of one step, then of a second with the
    /// statistics moved on.
    void sameResults()
    {
        QFETCH(const bool, blocks);
        auto expected = test::TrainingRunner::make(m_plain, kSamples);
        auto actual = test::TrainingRunner::make(blocks ? m_blocked : m_fused, kSamples);
        QVERIFY2(expected.ok(), expected ? "" : expected.error().text().c_str());
        QVERIFY2(actual.ok(), actual ? "" : actual.error().text().c_str());
        test::TrainingRunner &a = **expected;
        test::TrainingRunner &b = **actual;
        feed(a);
        feed(b);
        for (int step = 0; step < 2; ++step) {
            a.run();
            b.run();
        }
        QVERIFY(std::fabs(*a.floats(a.training().loss) - *b.floats(b.training().loss)) < 1e-5F);
        for (std::size_t p = 0; p < a.training().parameters.size(); ++p) {
            const TensorId parameter = a.training().parameters[p];
            const std::string &name = a.graph().tensor(parameter).name;
            const auto &others = b.training().parameters;
            const auto same = std::find_if(others.begin(), others.end(),
                                           [&](TensorId id) { return b.graph().tensor(id).name == name; });
            QVERIFY2(same != others.end(), name.c_str());
            const TensorId gradient = b.training().gradients[static_cast<std::size_t>(same - others.begin())];
            const double difference =
                apart(a.floats(a.training().gradients[p]), b.floats(gradient), a.elements(parameter));
            QVERIFY2(difference < 2e-4, qPrintable(QString("%1: %2").arg(name.c_str()).arg(difference)));
        }
        for (const TensorId state : a.graph().withRole(TensorRole::State))
            QVERIFY(apart(a.floats(state), b.floats(a.graph().tensor(state).name), a.elements(state)) < 1e-5);
    }

private:
    TrainingGraph m_plain, m_fused, m_blocked;
};

QTEST_GUILESS_MAIN(BlockedImages)
#include "tst_blocked_images.moc"

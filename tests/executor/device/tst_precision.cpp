// SPDX-License-Identifier: Apache-2.0
// Mixed precision: what the rewrite makes of whole models, and that they train as in float32.
#include "engine/graph/rewrite/precision.h"

#include <QTest>

#include "executor/device/graph_runner.h"

using namespace planloom;
using graph::DType;

namespace {

using Sizes = std::vector<std::int64_t>;

const graph::Initializer kZeros{graph::Initializer::Kind::Zeros, 0, 0, {}, {}};
const graph::Initializer kOnes{graph::Initializer::Kind::Ones, 0, 0, {}, {}};

/// Convolutions with and without bias and groups, normalisations, both kinds of pools, a residual sum.
class Images {
public:
    graph::Graph build() &&
    {
        const TensorId x = m_builder.input("x", DType::F32, graph::Shape::batched({3, 12, 12}));
        const TensorId labels = m_builder.input("labels", DType::I64, graph::Shape::batched({}));
        const graph::Attributes window{{"kernel_shape", Sizes{2, 2}}, {"strides", Sizes{2, 2}}};
        TensorId y = m_builder.add("MaxPool", {relu(norm(conv(x, 3, 16, 1)))}, window, "pool0");
        y = relu(m_builder.add("Add", {norm(conv(relu(norm(conv(y, 16, 16, 1))), 16, 16, 4)), y}, {}, "sum"));
        y = m_builder.add("AveragePool", {relu(conv(y, 16, 16, 1, true))}, window, "pool1");
        y = m_builder.add("Flatten", {m_builder.add("GlobalAveragePool", {y}, {}, "pool2")},
                          {{"axis", std::int64_t{1}}}, "flat");
        y = m_builder.add("Gemm", {y, weight("head.weight", {48, 16}, 0.3)}, {{"transB", std::int64_t{1}}}, "head");
        const TensorId loss = m_builder.add("SoftmaxCrossEntropyLoss", {y, labels}, {}, "loss");
        m_builder.output(loss);
        m_builder.loss(loss);
        auto made = std::move(m_builder).build();
        if (!made)
            qFatal("%s", made.error().text().c_str());
        return std::move(*made);
    }

private:
    TensorId weight(const std::string &name, const Sizes &sizes, double deviation)
    {
        return m_builder.parameter(name, graph::Shape::of(sizes),
                                   {graph::Initializer::Kind::Normal, 0, deviation, {}, {}});
    }
    TensorId conv(TensorId from, std::int64_t in, std::int64_t out, std::int64_t group, bool bias = false)
    {
        const std::string name = "conv" + std::to_string(m_count++);
        std::vector<TensorId> inputs{from, weight(name + ".weight", {out, in / group, 3, 3}, 0.2)};
        if (bias)
            inputs.push_back(m_builder.parameter(name + ".bias", graph::Shape::of({out}), kZeros));
        return m_builder.add("Conv", inputs, {{"kernel_shape", Sizes{3, 3}}, {"pads", Sizes(4, 1)}, {"group", group}},
                             name);
    }
    TensorId norm(TensorId from)
    {
        const std::string name = "norm" + std::to_string(m_count++);
        const graph::Shape shape = graph::Shape::of({16});
        return m_builder.add("BatchNormalization",
                             {from, m_builder.parameter(name + ".weight", shape, kOnes),
                              m_builder.parameter(name + ".bias", shape, kZeros),
                              m_builder.state(name + ".mean", shape, {}), m_builder.state(name + ".var", shape, {})},
                             {{"epsilon", 1e-5}, {"momentum", 0.9}}, name);
    }
    TensorId relu(TensorId from) { return m_builder.add("Relu", {from}, {}, "relu" + std::to_string(m_count++)); }

    graph::GraphBuilder m_builder{"images"};
    int m_count = 0;
};

graph::Graph model(const QString &which)
{
    if (which == "images")
        return Images().build();
    const graph::TransformerConfig config = graphrun::smallConfig();
    auto made = which == "gpt" ? graph::gpt(config)
        : which == "bert"      ? graph::bert(config)
        : which == "gemma"
        ? graph::decoder({.sizes = config, .kvHeads = 2, .norm = graph::DecoderConfig::Norm::RmsPlusOne})
        : graph::llama(config, 2, 1e4, 1e-5);
    return std::move(*made);
}

} // namespace

class Precision : public QObject {
    Q_OBJECT
private slots:
    void types_data();
    void types();
    void firstGradients_data();
    void firstGradients();
    void lossesOfTwentySteps();
    void storedWeights();
    void sumsOfLosses();
};

void Precision::types_data()
{
    QTest::addColumn<QString>("which");
    for (const char *which : {"gpt", "bert", "llama", "gemma", "images"})
        QTest::newRow(which) << which;
}

void Precision::types()
{
    QFETCH(QString, which);
    const graph::Graph graph = model(which);
    const graph::TrainingGraph plain = graphrun::wholeOf(graph);
    const auto mixed = graph::toBFloat16(plain);
    QVERIFY2(mixed.ok(), mixed ? "" : mixed.error().text().c_str());
    QCOMPARE(mixed->parameters.size(), plain.parameters.size());
    for (std::size_t p = 0; p < mixed->parameters.size(); ++p) {
        const graph::Tensor &parameter = mixed->graph.tensor(mixed->parameters[p]);
        QCOMPARE(parameter.name, plain.graph.tensor(plain.parameters[p]).name);
        QCOMPARE(parameter.type, parameter.shape.rank() > 1 ? DType::BF16 : DType::F32);
        QCOMPARE(mixed->graph.tensor(mixed->gradients[p]).type, DType::F32);
    }
    QCOMPARE(mixed->graph.tensor(mixed->loss).type, DType::F32);
    std::int64_t plainBytes = 0;
    std::int64_t mixedBytes = 0;
    for (const TensorId id : plain.stash)
        plainBytes += plain.graph.tensor(id).bytes(2).value();
    for (const TensorId id : mixed->stash)
        mixedBytes += mixed->graph.tensor(id).bytes(2).value();
    QVERIFY2(mixedBytes < plainBytes * 6 / 10, qPrintable(QString("%1 of %2").arg(mixedBytes).arg(plainBytes)));
    for (const graph::Op &op : mixed->graph.ops()) // 1 + weight of a normalisation: small steps of the weight count
        if (op.name.ends_with(".scale"))
            QCOMPARE(mixed->graph.tensor(op.inputs[0]).type, DType::F32);
    for (const graph::Op &op : mixed->graph.ops()) { // products read nothing but bfloat16
        if (op.type.name().starts_with("MatMul") || op.type == "Gemm" || op.type.name().starts_with("Conv"))
            QVERIFY2(mixed->graph.tensor(op.inputs[0]).type == DType::BF16
                         && mixed->graph.tensor(op.inputs[1]).type == DType::BF16,
                     op.name.c_str());
    }
}

void Precision::firstGradients_data() { types_data(); }

void Precision::firstGradients()
{
    QFETCH(QString, which);
    const graph::Graph graph = model(which);
    const graph::TrainingGraph plain = graphrun::wholeOf(graph);
    const auto mixed = graph::toBFloat16(plain);
    QVERIFY(mixed.ok());
    const bool images =
        which == "images"; // what is left of sums that cancel, where batches are normalised, is less exact
    const std::int64_t samples = images ? 16 : 2;
    graphrun::Runner single(plain, samples);
    graphrun::Runner half(*mixed, samples);
    const double expected = single.run();
    QVERIFY(std::abs(half.run() - expected) < 5e-3 * expected);
    const double floor = 0.05 * single.largestGradient();
    for (std::size_t p = 0; p < plain.parameters.size(); ++p) {
        const double difference = graphrun::apart(single.gradient(p), half.gradient(p), floor);
        QVERIFY2(difference < (images ? 0.1 : 0.06),
                 qPrintable(
                     QString("%1: %2").arg(plain.graph.tensor(plain.parameters[p]).name.c_str()).arg(difference)));
    }
}

void Precision::lossesOfTwentySteps()
{
    const graph::Graph graph = model("gpt");
    const graph::TrainingGraph plain = graphrun::wholeOf(graph);
    const auto mixed = graph::toBFloat16(plain);
    QVERIFY(mixed.ok());
    graphrun::Runner single(plain, 2);
    graphrun::Runner half(*mixed, 2);
    double first = 0;
    double last = 0;
    for (int step = 0; step < 20; ++step) {
        last = single.run(step);
        first = step == 0 ? last : first;
        const double loss = half.run(step);
        QVERIFY2(std::abs(loss - last) < 2e-2 * last,
                 qPrintable(QString("step %1: %2 against %3").arg(step).arg(loss).arg(last)));
        single.optimize(step);
        half.optimize(step);
    }
    QVERIFY2(last < 0.8 * first, qPrintable(QString("%1 to %2").arg(first).arg(last)));
}

// A model that brings its weights along, as an ONNX file does: the float32 values are the master's, not the copy's.
void Precision::storedWeights()
{
    graph::GraphBuilder builder("stored");
    const TensorId x = builder.input("x", DType::F32, graph::Shape::batched({4}));
    const TensorId labels = builder.input("labels", DType::I64, graph::Shape::batched({}));
    graph::Initializer data;
    data.kind = graph::Initializer::Kind::Data;
    data.data = std::make_shared<const std::vector<std::byte>>(4 * 8 * sizeof(float));
    const TensorId y = builder.add("Gemm", {x, builder.parameter("w", graph::Shape::of({8, 4}), data)},
                                   {{"transB", std::int64_t{1}}}, "product");
    builder.loss(builder.add("SoftmaxCrossEntropyLoss", {y, labels}, {}, "loss"));
    const auto graph = std::move(builder).build();
    QVERIFY(graph.ok());
    const auto mixed = graph::toBFloat16(graphrun::wholeOf(*graph));
    QVERIFY2(mixed.ok(), mixed ? "" : mixed.error().text().c_str());
    QCOMPARE(mixed->graph.tensor(mixed->parameters[0]).type, DType::BF16);
}

// What is trained is a number of the whole batch: in bfloat16 a sum of losses near 4 would change in steps of 1/64.
void Precision::sumsOfLosses()
{
    graph::GraphBuilder builder("two heads");
    const TensorId x = builder.input("x", DType::F32, graph::Shape::batched({4}));
    const TensorId targets = builder.input("targets", DType::F32, graph::Shape::batched({8}));
    const TensorId y = builder.add("MatMul", {x, builder.parameter("w", graph::Shape::of({4, 8}), {})}, {}, "product");
    const TensorId half =
        builder.add("Mul", {builder.add("HuberLoss", {y, targets}), builder.constantFloats("half", {}, 0.5)});
    builder.loss(builder.add("Add", {builder.add("MeanSquaredErrorLoss", {y, targets}), half}, {}, "loss"));
    const auto graph = std::move(builder).build();
    QVERIFY2(graph.ok(), graph ? "" : graph.error().text().c_str());
    const auto mixed = graph::toBFloat16(graphrun::wholeOf(*graph));
    QVERIFY2(mixed.ok(), mixed ? "" : mixed.error().text().c_str());
    QCOMPARE(mixed->graph.tensor(mixed->parameters[0]).type, DType::BF16);
    for (const graph::Tensor &tensor : mixed->graph.tensors())
        QVERIFY2(tensor.shape.rank() > 0 || tensor.type == DType::F32, tensor.name.c_str());
}

QTEST_GUILESS_MAIN(Precision)
#include "tst_precision.moc"

// SPDX-License-Identifier: Apache-2.0
// Fused operators against the separate ones, on whole models: the loss and every gradient.
#include "engine/graph/rewrite/fuse.h"

#include <QTest>

#include "engine/graph/rewrite/precision.h"
#include "executor/device/graph_runner.h"

using namespace planloom;

namespace {

graph::Graph model(const QString &which)
{
    const graph::TransformerConfig config = graphrun::smallConfig();
    auto made = which == "gpt" ? graph::gpt(config)
        : which == "bert"      ? graph::bert(config)
                               : graph::llama(config, 2, 1e4, 1e-5);
    return std::move(*made);
}

std::map<std::string, int> countTypes(const graph::Graph &graph)
{
    std::map<std::string, int> counts;
    for (const graph::Op &op : graph.ops())
        ++counts[op.type + (op.type == "MatMul" && op.inputs.size() > 2 ? "+bias" : "")];
    return counts;
}

} // namespace

class Fuse : public QObject {
    Q_OBJECT
private slots:
    void sameResults_data();
    void sameResults();
    void whatIsFused();
    void keepsWhatOthersRead();
    void geluOfNoRows();
};

/// A slice without samples: nothing is read or written.
void Fuse::geluOfNoRows()
{
    const auto f = [](std::vector<std::int64_t> dims) { return device::Argument{graph::DType::F32, std::move(dims)}; };
    for (const bool gradient : {false, true}) {
        graph::Op op;
        op.type = op.name = gradient ? "MatMulGeluGrad" : "MatMulGelu";
        const std::vector<device::Argument> outputs(gradient ? 1 : 2, f({0, 3}));
        auto kernel = device::makeKernel(op, {f({0, 4}), f({4, 3}), gradient ? f({0, 3}) : f({3})}, outputs);
        QVERIFY2(kernel.ok(), kernel ? "" : kernel.error().text().c_str());
        const void *inputs[] = {nullptr, nullptr, nullptr};
        void *none[] = {nullptr, nullptr};
        (*kernel)->run(inputs, {none, outputs.size()});
    }
}

void Fuse::sameResults_data()
{
    QTest::addColumn<QString>("which");
    QTest::addColumn<bool>("half");
    for (const char *which : {"gpt", "bert", "llama"}) {
        QTest::newRow(which) << which << false;
        QTest::addRow("%s in bfloat16", which) << which << true;
    }
}

void Fuse::sameResults()
{
    QFETCH(QString, which);
    QFETCH(bool, half);
    const graph::Graph graph = model(which);
    graph::TrainingGraph plain = graphrun::wholeOf(graph);
    if (half)
        plain = std::move(*graph::toBFloat16(plain));
    const auto fused = graph::fuse(plain);
    QVERIFY2(fused.ok(), fused ? "" : fused.error().text().c_str());
    QVERIFY(fused->graph.ops().size() < plain.graph.ops().size());
    graphrun::Runner separate(plain, 2);
    graphrun::Runner together(*fused, 2);
    const double tolerance =
        half ? 0.06 : 2e-6; // in bfloat16 a sum that is not rounded in between differs by a rounding
    const double expected = separate.run();
    QVERIFY(std::abs(together.run() - expected) < (half ? 5e-3 : 1e-6) * expected);
    const double floor = (half ? 0.05 : 1e-3) * separate.largestGradient();
    for (std::size_t p = 0; p < plain.parameters.size(); ++p) {
        const double difference = graphrun::apart(separate.gradient(p), together.gradient(p), floor);
        QVERIFY2(difference < tolerance,
                 qPrintable(
                     QString("%1: %2").arg(plain.graph.tensor(plain.parameters[p]).name.c_str()).arg(difference)));
    }
}

void Fuse::whatIsFused()
{
    const graph::TrainingGraph plain = graphrun::wholeOf(model("gpt"));
    const auto fused = graph::fuse(plain);
    QVERIFY(fused.ok());
    const auto counts = countTypes(fused->graph);
    QCOMPARE(counts.at("MatMul+bias"), 6); // four in each of two blocks, less those with GELU
    QCOMPARE(counts.at("MatMulGelu"), 2);
    QCOMPARE(counts.at("MatMulGeluGrad"), 2);
    QVERIFY(counts.count("Gelu") + counts.count("GeluGrad") == 0);
    QCOMPARE(counts.at("AddLayerNormalization"),
             4); // two a block and the last one, less the first, whose sum repeats positions
    QCOMPARE(counts.at("LayerNormalization"), 1);
    QCOMPARE(counts.at("Add"), 1);
    const auto before = countTypes(plain.graph);
    QCOMPARE(counts.at("LayerNormalizationGrad"), before.at("LayerNormalizationGrad"));
    QCOMPARE(before.at("AddN") - counts.at("AddN"),
             4); // every residual gradient but the last, which is the only one of its tensor
    QVERIFY(fused->forwardOps < plain.forwardOps);
}

void Fuse::keepsWhatOthersRead()
{
    const graph::Graph graph = model("gpt");
    const auto half = static_cast<std::int64_t>(graph.ops().size() / 2);
    const TensorId crossing = graph.op(OpId(half - 1)).outputs[0];
    std::vector<TensorId> outgoing; // all that later operators read
    for (const graph::Tensor &tensor : graph.tensors()) {
        const auto readers = graph.consumers(tensor.id);
        if (tensor.producer.valid() && tensor.producer.value < half && !readers.empty() && readers.back().value >= half)
            outgoing.push_back(tensor.id);
    }
    QVERIFY(std::find(outgoing.begin(), outgoing.end(), crossing) != outgoing.end());
    const auto part = graph::differentiate(graph, OpId(0), OpId(half), {}, outgoing);
    QVERIFY(part.ok());
    const auto fused = graph::fuse(*part);
    QVERIFY2(fused.ok(), fused ? "" : fused.error().text().c_str());
    for (std::size_t i = 0; i < outgoing.size(); ++i)
        QCOMPARE(fused->graph.tensor(fused->outputs[i]).name, graph.tensor(outgoing[i]).name);
    QCOMPARE(fused->parameters.size(), part->parameters.size());
    QCOMPARE(fused->gradients.size(), part->gradients.size());
}

QTEST_GUILESS_MAIN(Fuse)
#include "tst_fuse.moc"

// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/operators/operators.h"
#include "engine/graph/zoo/zoo.h"

#include <QTest>

using namespace planloom;
using namespace planloom::graph;

namespace {

struct Totals {
    double forward = 0;
    double backward = 0;
};

Totals totals(const Graph &graph, std::int64_t samples)
{
    Totals sum;
    for (const Op &op : graph.ops()) {
        const OpCostFigures one = figures(graph, op.id, samples);
        sum.forward += one.forward.value();
        sum.backward += one.backward.value();
    }
    return sum;
}

void near(double have, double want, double tolerance)
{
    QVERIFY2(std::abs(have - want) <= tolerance * want,
             qPrintable(QString("%1 is not within %2 of %3").arg(have).arg(tolerance).arg(want)));
}

TransformerConfig gpt2() { return {"gpt2", 12, 12, 768, 3072, 50257, 1024, true, 0.02}; }

TransformerConfig small() { return {"small", 2, 8, 64, 128, 100, 16, false, 0.02}; }

Result<Graph> make(const QString &name)
{
    TransformerConfig config = gpt2();
    if (name == "gpt2")
        return gpt(config);
    config.tiedEmbeddings = false;
    if (name == "gpt2 untied")
        return gpt(config);
    if (name == "bert-base")
        return bert({"bert-base", 12, 12, 768, 3072, 30522, 512, true, 0.02});
    if (name == "bert-large")
        return bert({"bert-large", 24, 16, 1024, 4096, 30522, 512, true, 0.02});
    if (name == "tinyllama 1.1B")
        return llama({"tinyllama", 22, 32, 2048, 5632, 32000, 2048, false, 0.02}, 4, 10000, 1e-5);
    if (name == "llama-3.2 1B")
        return llama({"llama-3.2-1b", 16, 32, 2048, 8192, 128256, 2048, true, 0.02}, 8, 500000, 1e-5);
    if (name == "vgg19")
        return vgg19();
    if (name == "resnet50")
        return resnet50();
    if (name == "resnet101")
        return resnet101();
    return mlp("mlp", {64, 32, 10});
}

} // namespace

class TestZoo : public QObject {
    Q_OBJECT

private slots:
    void parameterCounts_data();
    void parameterCounts();
    void flopsOfGpt2();
    void flopsOfImageNets();
    void initializers();
    void names();
    void refuses();
};

// Published counts: Hugging Face model cards and torchvision's tables; bert is BertForMaskedLM, without pooler.
void TestZoo::parameterCounts_data()
{
    QTest::addColumn<qint64>("count");
    QTest::newRow("gpt2") << qint64{124'439'808};
    QTest::newRow("gpt2 untied") << qint64{124'439'808 + 50257 * 768};
    QTest::newRow("bert-base") << qint64{109'514'298};
    QTest::newRow("bert-large") << qint64{335'174'458};
    QTest::newRow("tinyllama 1.1B") << qint64{1'100'048'384};
    QTest::newRow("llama-3.2 1B") << qint64{1'235'814'400};
    QTest::newRow("vgg19") << qint64{143'667'240};
    QTest::newRow("resnet50") << qint64{25'557'032};
    QTest::newRow("resnet101") << qint64{44'549'160};
    QTest::newRow("mlp") << qint64{64 * 32 + 32 + 32 * 10 + 10};
}

void TestZoo::parameterCounts()
{
    QFETCH(qint64, count);
    const Result<Graph> graph = make(QTest::currentDataTag());
    QVERIFY2(graph.ok(), graph.ok() ? "" : graph.error().message.c_str());
    QCOMPARE(qint64{graph->parameterCount()}, count);
    QVERIFY(graph->loss().valid());
    QCOMPARE(graph->withRole(TensorRole::Input).size(), std::size_t{2});
}

void TestZoo::flopsOfGpt2()
{
    // 6 N per token for the weights that are multiplied (the tied table once, positions not), and causal attention's
    // 2 T C per layer and token forward; backward 2.5 times that (probabilities computed again)
    const TransformerConfig config = gpt2();
    const Result<Graph> graph = gpt(config);
    QVERIFY(graph.ok());
    const auto tokens = static_cast<double>(config.context);
    const double weights = 124'439'808.0 - 1024 * 768;
    const double attention = 12 * 2.0 * tokens * 768;
    const Totals have = totals(*graph, 1);
    near(have.forward, tokens * (2 * weights + attention), 0.01);
    near(have.backward, tokens * (4 * weights + 2.5 * attention), 0.01);
    near(totals(*graph, 3).forward, 3 * have.forward, 1e-12);
}

void TestZoo::flopsOfImageNets()
{
    // torchvision's tables: 4.09 G multiply-adds for ResNet-50, 7.80 G for ResNet-101 and 19.63 G for VGG-19
    near(totals(*resnet50(), 1).forward, 2 * 4.09e9, 0.02);
    near(totals(*resnet101(), 1).forward, 2 * 7.80e9, 0.02);
    near(totals(*vgg19(), 1).forward, 2 * 19.63e9, 0.02);
    near(totals(*vgg19(), 1).backward, 4 * 19.63e9, 0.02);
}

void TestZoo::initializers()
{
    const Result<Graph> graph = gpt(gpt2());
    const auto init = [&](const char *name) { return graph->tensor(graph->find(name)).init; };
    QCOMPARE(init("transformer.wte.weight").b, 0.02);
    QCOMPARE(init("transformer.h.3.attn.c_attn.weight").b, 0.02);
    QCOMPARE(init("transformer.h.3.attn.c_proj.weight").b, 0.02 / std::sqrt(24.0));
    QCOMPARE(init("transformer.h.3.mlp.c_proj.weight").b, 0.02 / std::sqrt(24.0));
    QCOMPARE(init("transformer.h.3.mlp.c_proj.bias").kind, Initializer::Kind::Zeros);
    QCOMPARE(init("transformer.ln_f.weight").kind, Initializer::Kind::Ones);
    for (const char *name : {"gpt2", "bert-base", "resnet50", "mlp"}) {
        const Result<Graph> any = make(name);
        for (const Tensor &tensor : any->tensors())
            if (tensor.role == TensorRole::Parameter || tensor.role == TensorRole::State)
                QVERIFY2(tensor.init.kind != Initializer::Kind::None, tensor.name.c_str());
    }
}

void TestZoo::names()
{
    const Result<Graph> g = gpt(gpt2());
    QCOMPARE(g->tensor(g->find("transformer.h.11.attn.c_attn.weight")).shape, Shape::of({768, 2304}));
    QCOMPARE(g->tensor(g->find("tokens")).shape, Shape::batched({1024}));
    QVERIFY(!g->find("lm_head.weight").valid());
    const Result<Graph> b = bert(small());
    QCOMPARE(b->tensor(b->find("bert.encoder.layer.1.intermediate.dense.weight")).shape, Shape::of({128, 64}));
    QVERIFY(b->find("cls.predictions.decoder.weight").valid());
    const Result<Graph> l = llama(small(), 2, 10000, 1e-5);
    QCOMPARE(l->tensor(l->find("model.layers.0.self_attn.k_proj.weight")).shape, Shape::of({16, 64}));
    QVERIFY(l->find("lm_head.weight").valid());
    const Result<Graph> v = vgg19();
    QCOMPARE(v->tensor(v->find("features.34.weight")).shape, Shape::of({512, 512, 3, 3}));
    QCOMPARE(v->tensor(v->find("classifier.0.weight")).shape, Shape::of({4096, 25088}));
    const Result<Graph> r = resnet50();
    QCOMPARE(r->tensor(r->find("layer4.0.downsample.0.weight")).shape, Shape::of({2048, 1024, 1, 1}));
    QCOMPARE(r->tensor(r->find("layer4.2.bn3.running_var")).role, TensorRole::State);
}

void TestZoo::refuses()
{
    TransformerConfig config = small();
    config.heads = 3;
    QVERIFY(QString::fromStdString(gpt(config).error().message).contains("not a multiple of the 3 heads"));
    config = small();
    QVERIFY(QString::fromStdString(llama(config, 3, 10000, 1e-5).error().message).contains("3 key-value heads"));
    config.layers = 0;
    QVERIFY(!bert(config).ok());
    config.layers = std::int64_t{1} << 20;
    QVERIFY(!bert(config).ok());
    config = small();
    config.hidden = 24; // heads of 3
    QVERIFY(QString::fromStdString(llama(config, 8, 10000, 1e-5).error().message).contains("even head size"));
    QVERIFY(!mlp("m", {4}).ok());
    QVERIFY(!mlp("m", {4, 0}).ok());
}

QTEST_GUILESS_MAIN(TestZoo)
#include "tst_zoo.moc"

// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/transformer.h"

#include "engine/graph/zoo/zoo.h"
#include "engine/import/import.h"

#include <QTest>

using namespace planloom;
using graph::Transformer;

namespace {

QString text(const Transformer &t)
{
    return QString("%1 blocks of %2/%3, %4/%5 heads of %6, %7 tokens, %8 positions, %9 words, %10%11%12%13%14%15")
        .arg(t.blocks.size())
        .arg(t.hidden)
        .arg(t.feedForward)
        .arg(t.heads)
        .arg(t.kvHeads)
        .arg(t.headSize)
        .arg(t.sequence)
        .arg(t.positionRows)
        .arg(t.vocabulary)
        .arg(t.causal ? "causal " : "both ways ")
        .arg(t.postNorm ? "post-" : "pre-")
        .arg(t.rmsNorm ? "rms" : "layer")
        .arg(t.tiedHead ? " tied" : " untied")
        .arg(t.gated ? " gated" : "")
        .arg(t.biases == Transformer::Biases::All ? " biases" : "");
}

/// A pre-norm block with everything a test may want to spoil.
struct Spoiled {
    std::string activation = "Gelu";
    bool norm = true;
    bool loss = true;
    bool residual = true;
    std::int64_t heads = 4;
};

graph::Graph spoiled(const Spoiled &how)
{
    using graph::Shape;
    graph::GraphBuilder b("spoiled");
    const auto parameter = [&](const std::string &name, Shape shape) {
        return b.parameter(name, shape, {graph::Initializer::Kind::Normal, 0, 0.02, nullptr, {}, 0});
    };
    const TensorId tokens = b.input("tokens", graph::DType::I64, Shape::batched({8}));
    const TensorId labels = b.input("labels", graph::DType::I64, Shape::batched({8}));
    const TensorId table = parameter("table", Shape::of({32, 16}));
    TensorId x = b.add("Gather", {table, tokens}, {}, "words");
    for (int i = 0; i < 2; ++i) {
        const std::string at = std::to_string(i) + ".";
        const auto norm = [&](TensorId id, const std::string &name) {
            return how.norm ? b.add("RMSNormalization", {id, parameter(at + name + ".scale", Shape::of({16}))},
                                    {{"axis", std::int64_t{-1}}}, at + name)
                            : id;
        };
        const TensorId qkv = b.add("MatMul", {norm(x, "norm1"), parameter(at + "qkv", Shape::of({16, 48}))});
        const TensorId mixed =
            b.add("Attention", {qkv}, {{"heads", i == 0 ? std::int64_t{4} : how.heads}, {"causal", std::int64_t{1}}},
                  at + "attention");
        const TensorId out = b.add("MatMul", {mixed, parameter(at + "out", Shape::of({16, 16}))});
        x = how.residual ? b.add("Add", {x, out}, {}, at + "residual") : b.add("Mul", {x, out}, {}, at + "product");
        const TensorId up = b.add("MatMul", {norm(x, "norm2"), parameter(at + "up", Shape::of({16, 64}))});
        const TensorId active = b.add(how.activation, {up}, {}, at + "active");
        x = b.add("Add", {x, b.add("MatMul", {active, parameter(at + "down", Shape::of({64, 16}))})}, {}, at + "end");
    }
    const TensorId rows =
        b.add("Reshape", {x}, {{"shape", std::vector<std::int64_t>{8, 16}}, {"batch_axis", std::int64_t{0}}});
    const TensorId logits = b.add("MatMul", {rows, table}, {{"transB", std::int64_t{1}}}, "logits");
    const TensorId targets =
        b.add("Reshape", {labels}, {{"shape", std::vector<std::int64_t>{8}}, {"batch_axis", std::int64_t{0}}});
    const TensorId loss = how.loss ? b.add("SoftmaxCrossEntropyLoss", {logits, targets}, {}, "loss")
                                   : b.add("ReduceMean", {logits}, {}, "mean");
    b.output(loss);
    if (how.loss)
        b.loss(loss);
    auto made = std::move(b).build();
    if (!made)
        qFatal("%s", made.error().text().c_str());
    return *std::move(made);
}

} // namespace

class TestReadTransformer : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void sizes_data()
    {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QString>("expected");
        QTest::newRow("gpt2") << "zoo:gpt2"
                              << "12 blocks of 768/3072, 12/12 heads of 64, 1024 tokens, 1024 positions, 50257 words, "
                                 "causal pre-layer tied biases";
        QTest::newRow("gpt-nano")
            << "zoo:gpt-nano"
            << "4 blocks of 128/512, 4/4 heads of 32, 64 tokens, 64 positions, 256 words, causal pre-layer tied biases";
        QTest::newRow("gpt-175b-2022") << "zoo:gpt-175b-2022"
                                       << "96 blocks of 12288/49152, 96/96 heads of 128, 2048 tokens, 2048 positions, "
                                          "51200 words, causal pre-layer tied biases";
        QTest::newRow("bert-large") << "zoo:bert-large"
                                    << "24 blocks of 1024/4096, 16/16 heads of 64, 512 tokens, 512 positions, 30522 "
                                       "words, both ways post-layer tied biases";
        QTest::newRow("llama")
            << R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64,
            "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 16})"
            << "2 blocks of 64/96, 8/2 heads of 8, 16 tokens, 0 positions, 100 words, causal pre-rms untied gated";
    }

    void sizes()
    {
        QFETCH(QString, model);
        QFETCH(QString, expected);
        const auto loaded = model.startsWith("zoo:")
            ? import::loadModel(model.toStdString())
            : import::readHuggingFaceConfig(model.toStdString(), "config.json");
        QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().text().c_str());
        const auto made = graph::readTransformer(*loaded->graph);
        QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
        QCOMPARE(text(*made), expected);
    }

    void details()
    {
        const auto bert = graph::readTransformer(*import::loadModel("zoo:bert-large")->graph);
        QVERIFY(bert->headTransform && bert->tokenTypes && bert->activation == Transformer::Activation::Gelu
                && bert->normEpsilon == 1e-12);
        const auto gpt = graph::readTransformer(*import::loadModel("zoo:gpt-22b-2022")->graph);
        QVERIFY(!gpt->headTransform && !gpt->tokenTypes && gpt->activation == Transformer::Activation::GeluTanh);
        QCOMPARE(gpt->hiddenDropout, 0.1);
        QCOMPARE(gpt->attentionDropout, 0.1);
        QCOMPARE(gpt->initDeviation, 0.02);
    }

    /// A block begins with its first normalisation and ends with its last addition, in the order of the graph.
    void blocksFollowOneAnother()
    {
        const graph::Graph graph = spoiled({});
        const auto made = graph::readTransformer(graph);
        QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
        QCOMPARE(graph.op(made->blocks[0].first).name, std::string("0.norm1"));
        QCOMPARE(graph.op(made->blocks[0].last).name, std::string("0.end"));
        QCOMPARE(graph.op(made->blocks[1].first).name, std::string("1.norm1"));
        QCOMPARE(graph.op(made->head).name, std::string("logits"));
        QCOMPARE(graph.op(made->embedding).name, std::string("words"));
    }

    void refuses_data()
    {
        QTest::addColumn<QString>("what");
        QTest::addColumn<QString>("why");
        QTest::newRow("activation") << "activation"
                                    << "is no activation";
        QTest::newRow("norm") << "norm"
                              << "no normalisation follows";
        QTest::newRow("loss") << "loss"
                              << "no cross-entropy loss";
        QTest::newRow("residual") << "residual"
                                  << "where the way around is added";
        QTest::newRow("heads") << "heads"
                               << "the number of heads of 1.attention is not that of the first block";
    }

    void refuses()
    {
        QFETCH(QString, what);
        QFETCH(QString, why);
        Spoiled how;
        how.activation = what == "activation" ? "Tanh" : "Gelu";
        how.norm = what != "norm";
        how.loss = what != "loss";
        how.residual = what != "residual";
        how.heads = what == "heads" ? 2 : 4;
        const auto made = graph::readTransformer(spoiled(how));
        QVERIFY(!made.ok());
        QCOMPARE(made.error().code, ErrorCode::Unsupported);
        QVERIFY2(QString::fromStdString(made.error().message).contains(why), made.error().message.c_str());
    }

    /// What changes a decoder's results and is no size: programs that are configured by sizes would train another
    /// model.
    void changedDecodersAreRefused_data()
    {
        QTest::addColumn<QString>("config");
        QTest::addColumn<QString>("why"); // empty: it is read
        const auto row = [](const char *fields, const char *why) {
            QTest::newRow(fields)
                << QString(
                       R"({"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
                "hidden_size": 16, "intermediate_size": 24, "vocab_size": 32, "max_position_embeddings": 8, %1})")
                       .arg(fields)
                << QString(why);
        };
        row(R"("model_type": "mistral")", "");
        row(R"("model_type": "qwen2")", "");
        row(R"("model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2})", "scales the frequencies");
        row(R"("model_type": "llama", "attention_bias": true)", "some linear layers");
        row(R"("model_type": "qwen3")", "between the projections and");
        row(R"("model_type": "gemma")", "is no parameter");
        row(R"("model_type": "olmo")", "is no parameter");
        row(R"("model_type": "granite", "attention_multiplier": 0.5, "logits_scaling": 2.0)",
            "its loss is not taken of");
        row(R"("model_type": "granite", "attention_multiplier": 0.5, "residual_multiplier": 2.0)",
            "where the way around is added");
        row(R"("model_type": "olmo2")", "between the projections and");
        row(R"("model_type": "gemma3_text")", "between the projections and");
        row(R"("model_type": "phi3")", "is no activation");
        row(R"("model_type": "granite", "attention_multiplier": 0.5, "embedding_multiplier": 2.0)",
            "scales the tokens' vectors");
        row(R"("model_type": "granite", "attention_multiplier": 0.25)", "between the projections and");
        row(R"("model_type": "starcoder2")", "");
        row(R"("model_type": "opt", "ffn_dim": 24)", "begins at row 2");
        row(R"("model_type": "opt", "ffn_dim": 24, "word_embed_proj_dim": 8)", "is 8 wide, and its blocks 16");
        row(R"("model_type": "phi")", "turns a part of each head");
        row(R"("model_type": "phi", "partial_rotary_factor": 1.0)", "no normalisation follows");
        row(R"("model_type": "gpt_neox", "rotary_pct": 1.0)", "between the projections and");
        row(R"("model_type": "falcon")", "no normalisation follows");
        row(R"("model_type": "gemma2")", "has no attention");
    }
    void changedDecodersAreRefused()
    {
        QFETCH(QString, config);
        QFETCH(QString, why);
        const auto model = import::readHuggingFaceConfig(config.toStdString(), "config.json");
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        const auto made = graph::readTransformer(*model->graph);
        const QString said = made ? QString() : QString::fromStdString(made.error().message);
        QCOMPARE(made.ok(), why.isEmpty());
        QVERIFY2(said.contains(why), qPrintable(said));
    }
};

QTEST_GUILESS_MAIN(TestReadTransformer)
#include "tst_read_transformer.moc"

// SPDX-License-Identifier: Apache-2.0
// Models in the form that a framework computes them in.
#include "engine/graph/rewrite/form.h"
#include "engine/graph/zoo/zoo.h"

#include <QTest>

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

Graph gptWith(double unfusedDropout)
{
    auto made = gpt(small(unfusedDropout));
    if (!made)
        qFatal("%s", made.error().text().c_str());
    return *std::move(made);
}

/// An operator a line: type, name, scope, what it reads.
QString textOf(const Graph &graph)
{
    QString text;
    for (const Op &op : graph.ops()) {
        text += QString("%1 %2 %3:").arg(op.type.name().data(), op.name.c_str(), op.scope.c_str());
        for (const TensorId input : op.inputs)
            text += input.valid() ? QString(" ") + graph.tensor(input).name.c_str() : QString(" none");
        for (const char *attribute : {"ratio", "heads", "causal"})
            text += QString(" %1").arg(op.number(attribute, op.has(attribute) ? double(op.integer(attribute)) : -1));
        text += '\n';
    }
    return text;
}

} // namespace

class TestForm : public QObject {
    Q_OBJECT

private slots:
    /// What the zoo builds in pieces, operator by operator, and back.
    void asTheZooHasIt()
    {
        const Graph plain = gptWith(0);
        const auto pieces = inForm(plain, {false, 0.1});
        QVERIFY2(pieces.ok(), pieces ? "" : pieces.error().text().c_str());
        QCOMPARE(textOf(*pieces), textOf(gptWith(0.1)));
        QCOMPARE(pieces->parameterCount(), plain.parameterCount());
        QVERIFY(pieces->loss().valid());
        const auto back = inForm(*pieces, {true, 0.0});
        QVERIFY(back.ok());
        QCOMPARE(textOf(*back), textOf(plain));
    }

    /// Each fact alone.
    void oneFactAtATime()
    {
        const auto count = [](const Graph &graph, const char *type) {
            return std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op &op) { return op.type == type; });
        };
        const auto unfused = inForm(gptWith(0), {false, {}});
        QVERIFY(unfused.ok());
        QCOMPARE(count(*unfused, "UnfusedAttention"), 3);
        QCOMPARE(count(*unfused, "MaskedDropout"), 0);
        const auto dropped = inForm(gptWith(0), {{}, 0.2});
        QVERIFY(dropped.ok());
        QCOMPARE(count(*dropped, "Attention"), 3);
        QCOMPARE(count(*dropped, "MaskedDropout"), 7); // two of each block, one behind the embeddings
        const auto changed = inForm(*dropped, {{}, 0.3});
        QVERIFY(changed.ok());
        QCOMPARE(count(*changed, "MaskedDropout"), 7);
    }

    void sharedKeysHaveNoPieces()
    {
        const auto model = llama(small(0), 1, 10000, 1e-5);
        QVERIFY(model.ok());
        const auto pieces = inForm(*model, {false, {}});
        QVERIFY(!pieces);
        QCOMPARE(pieces.error().code, ErrorCode::Unsupported);
        QVERIFY2(pieces.error().message.find("--attention fused") != std::string::npos, pieces.error().message.c_str());
        QVERIFY(inForm(*model, {true, 0.0}).ok());
    }
};

QTEST_GUILESS_MAIN(TestForm)
#include "tst_form.moc"

// SPDX-License-Identifier: Apache-2.0
#include "engine/import/patterns/patterns.h"

#include <QTest>

#include <algorithm>
#include <cstring>

using namespace planloom;
using graph::DType;
using graph::GraphBuilder;
using graph::Shape;
using Ints = std::vector<std::int64_t>;

namespace {

constexpr std::int64_t kPositions = 6;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kSize = 4;

/// Attention as exporters spell it out, with one thing or another written in another way.
struct AttentionGraph {
    GraphBuilder b{"attention"};
    TensorId x = b.input("x", DType::F32, Shape::batched({kPositions, kHeads *kSize}));
    TensorId mask; ///< an input, if there is one
    bool dropout = false;
    float divisor = 2;

    TensorId number(float value) { return constant({}, {value}); }
    TensorId constant(const Ints &dims, const std::vector<float> &values)
    {
        std::vector<std::byte> bytes(values.size() * sizeof(float));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return b.constant("c" + std::to_string(m_constants++), DType::F32, Shape::of(dims), std::move(bytes));
    }
    TensorId whole(std::int64_t value)
    {
        std::vector<std::byte> bytes(sizeof value);
        std::memcpy(bytes.data(), &value, sizeof value);
        return b.constant("c" + std::to_string(m_constants++), DType::I64, Shape(), std::move(bytes));
    }
    TensorId heads(const std::string &name, const Ints &perm)
    {
        const TensorId weight = b.parameter(name, Shape::of({kHeads * kSize, kHeads * kSize}), {});
        const TensorId split = b.add("Reshape", {b.add("MatMul", {x, weight})},
                                     {{"shape", Ints{1, kPositions, kHeads, kSize}}, {"batch_axis", std::int64_t{0}}});
        return b.add("Transpose", {split}, {{"perm", perm}});
    }
    TensorId scores()
    {
        return b.add("Div", {b.add("MatMul", {heads("q", {0, 2, 1, 3}), heads("k", {0, 2, 3, 1})}), number(divisor)});
    }
    TensorId words(std::string name = "mask")
    {
        return mask = b.input(std::move(name), DType::I64, Shape::batched({kPositions}));
    }
    TensorId beforeKeys(TensorId id) { return b.add("Unsqueeze", {id}, {{"axes", Ints{1, 2}}}); }
    TensorId cast(TensorId id, const char *to) { return b.add("Cast", {id}, {{"to", std::string(to)}}); }
    /// The part after the mask, and the graph.
    Result<graph::Graph> finish(TensorId hidden)
    {
        TensorId weights = b.add("Softmax", {hidden}, {{"axis", std::int64_t{-1}}});
        if (dropout)
            weights = b.add("Dropout", {weights}, {{"ratio", 0.1}});
        const TensorId mixed =
            b.add("Transpose", {b.add("MatMul", {weights, heads("v", {0, 2, 1, 3})})}, {{"perm", Ints{0, 2, 1, 3}}});
        b.output(b.add("Reshape", {mixed},
                       {{"shape", Ints{1, kPositions, kHeads * kSize}}, {"batch_axis", std::int64_t{0}}}));
        auto made = std::move(b).build();
        return made ? Result<graph::Graph>(import::fusePatterns(*made)) : made;
    }

private:
    int m_constants = 0;
};

using Write = TensorId (*)(AttentionGraph &);

TensorId causalSum(AttentionGraph &g, float later, float earlier = 0)
{
    std::vector<float> values;
    for (std::int64_t i = 0; i < kPositions * kPositions; ++i)
        values.push_back(i % kPositions > i / kPositions ? later : earlier);
    return g.b.add("Add", {g.scores(), g.constant({1, 1, kPositions, kPositions}, values)});
}

TensorId keySum(AttentionGraph &g, float factor)
{
    const TensorId hidden = g.b.add("Sub", {g.number(1), g.cast(g.beforeKeys(g.words()), "float32")});
    return g.b.add("Add", {g.scores(), g.b.add("Mul", {hidden, g.number(factor)})});
}

TensorId filledWhere(AttentionGraph &g, std::int64_t padding, std::string name, bool lookedUp)
{
    const TensorId words = g.words(std::move(name));
    if (lookedUp)
        g.b.output(g.b.add("Gather", {g.b.parameter("table", Shape::of({9, 3}), {}), words}));
    const TensorId hidden = g.b.add("Equal", {g.beforeKeys(words), g.whole(padding)});
    return g.b.add("Where", {hidden, g.number(-1e30F), g.scores()});
}

} // namespace

/// Operators that hide scores, and others that must not be taken for them.
class TestPatternsAttention : public QObject {
    Q_OBJECT

private slots:
    void masks_data()
    {
        QTest::addColumn<Write>("write");
        QTest::addColumn<bool>("taken");
        QTest::addColumn<bool>("causal");
        QTest::addColumn<bool>("keys");
        const auto row = [](const char *name, Write write, bool taken, bool causal, bool keys) {
            QTest::newRow(name) << write << taken << causal << keys;
        };
        row(
            "none", [](AttentionGraph &g) { return g.scores(); }, true, false, false);
        row(
            "causal", [](AttentionGraph &g) { return causalSum(g, -1e9F); }, true, true, false);
        row(
            "causal, but weakly", [](AttentionGraph &g) { return causalSum(g, -5); }, false, false, false);
        row(
            "causal, and a bias", [](AttentionGraph &g) { return causalSum(g, -1e9F, 0.5F); }, false, false, false);
        row(
            "keys", [](AttentionGraph &g) { return keySum(g, -3e38F); }, true, false, true);
        row(
            "keys, but weakly", [](AttentionGraph &g) { return keySum(g, -10); }, false, false, false);
        row(
            "keys the other way round", [](AttentionGraph &g) { return keySum(g, 3e38F); }, false, false, false);
        row(
            "both",
            [](AttentionGraph &g) {
                return g.b.add("Add",
                               {causalSum(g, -1e9F),
                                g.b.add("Mul",
                                        {g.b.add("Sub", {g.number(1), g.cast(g.beforeKeys(g.words()), "float32")}),
                                         g.number(-1e9F)})});
            },
            true, true, true);
        row(
            "filled where 0", [](AttentionGraph &g) { return filledWhere(g, 0, "mask", false); }, true, false, true);
        row(
            "filled where a word is 0", [](AttentionGraph &g) { return filledWhere(g, 0, "words", true); }, true, false,
            true);
        row(
            "filled where a word is 1", [](AttentionGraph &g) { return filledWhere(g, 1, "words", true); }, false,
            false, false);
        row(
            "of queries",
            [](AttentionGraph &g) {
                const TensorId mask = g.b.add("Unsqueeze", {g.words()}, {{"axes", Ints{1, 3}}});
                const TensorId hidden = g.b.add("Sub", {g.number(1), g.cast(mask, "float32")});
                return g.b.add("Add", {g.scores(), g.b.add("Mul", {hidden, g.number(-1e9F)})});
            },
            false, false, false);
        row(
            "a learned bias",
            [](AttentionGraph &g) {
                return g.b.add("Add",
                               {g.scores(), g.b.parameter("bias", Shape::of({1, kHeads, kPositions, kPositions}), {})});
            },
            false, false, false);
    }
    void masks()
    {
        QFETCH(Write, write);
        QFETCH(bool, taken);
        QFETCH(bool, causal);
        QFETCH(bool, keys);
        AttentionGraph g;
        const auto made = g.finish(write(g));
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        const graph::Op *attention = find(*made, "Attention");
        QCOMPARE(attention != nullptr, taken);
        QCOMPARE(find(*made, "Softmax") == nullptr, taken);
        if (!attention)
            return;
        QCOMPARE(attention->integer("causal") != 0, causal);
        QCOMPARE(attention->inputs.size(), keys ? std::size_t(2) : std::size_t(1));
        if (keys)
            QVERIFY(made->tensor(attention->inputs[1]).role == graph::TensorRole::Input);
        for (const char *type : {"Sub", "Where", "Equal", "Unsqueeze"}) // what made the mask ready is gone
            QVERIFY2(find(*made, type) == nullptr, type);
    }

    void dropoutAfterSoftmaxStays()
    {
        AttentionGraph g;
        g.dropout = true;
        const auto made = g.finish(g.scores());
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QVERIFY(find(*made, "Dropout") && !find(*made, "Attention"));
    }

    void anotherScaleStays()
    {
        AttentionGraph g;
        g.divisor = 3;
        const auto made = g.finish(g.scores());
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QVERIFY(!find(*made, "Attention"));
    }

private:
    static const graph::Op *find(const graph::Graph &graph, std::string_view type)
    {
        const auto ops = graph.ops();
        const auto found = std::find_if(ops.begin(), ops.end(), [&](const graph::Op &op) { return op.type == type; });
        return found == ops.end() ? nullptr : &*found;
    }
};

QTEST_GUILESS_MAIN(TestPatternsAttention)
#include "tst_patterns_attention.moc"

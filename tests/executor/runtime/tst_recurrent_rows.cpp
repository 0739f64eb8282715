// SPDX-License-Identifier: Apache-2.0
// Recurrent models whose tables are exchanged by rows (EmbRace) against runs that sum up the tables' gradients: a
// language model, and an encoder with a decoder, each with a table, as in GNMT.
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/validate_tables.h"
#include "executor/runtime/tiny_training.h"

#include <QTest>

using namespace planloom;
using namespace planloom::test;
using plan::ExchangeScheduling;
using plan::TableStrategy;

namespace {

constexpr std::int64_t kVocabulary = 256, kContext = 6, kHidden = 10;

std::shared_ptr<const graph::Graph> languageModel()
{
    graph::LstmConfig config;
    config.embedding = config.hidden = kHidden;
    config.vocabulary = kVocabulary;
    config.context = kContext;
    auto graph = graph::lstmLanguageModel(config);
    return graph ? std::make_shared<const graph::Graph>(*std::move(graph)) : nullptr;
}

using graph::Shape;

class Translator {
public:
    /// The decoder reads the encoder's output beside its own table's rows. Both look up the same ids.
    std::shared_ptr<const graph::Graph> made()
    {
        const TensorId tokens = m_builder.input("tokens", graph::DType::I64, Shape::batched({kContext}));
        const TensorId labels = m_builder.input("labels", graph::DType::I64, Shape::batched({kContext}));
        const TensorId source = lstm("encoder", rowsOf("encoder", tokens));
        const TensorId joined = m_builder.add("Add", {rowsOf("decoder", tokens), source}, {}, "joined");
        const TensorId rows = m_builder.add("Reshape", {lstm("decoder", joined)}, shape({kContext, kHidden}), "rows");
        const TensorId head = m_builder.parameter("head.weight", Shape::of({kVocabulary, kHidden}), uniform(0.3));
        const TensorId logits = m_builder.add("Gemm", {rows, head}, {{"transB", std::int64_t{1}}}, "logits");
        const TensorId targets = m_builder.add("Reshape", {labels}, shape({kContext}), "targets");
        const TensorId loss =
            m_builder.add("SoftmaxCrossEntropyLoss", {logits, targets}, {{"ignore_index", std::int64_t{-100}}}, "loss");
        m_builder.output(loss);
        m_builder.loss(loss);
        auto graph = std::move(m_builder).build();
        return graph ? std::make_shared<const graph::Graph>(*std::move(graph)) : nullptr;
    }

private:
    static graph::Initializer uniform(double bound)
    {
        return {graph::Initializer::Kind::Uniform, -bound, bound, nullptr, {}, 0};
    }
    static graph::Attributes shape(const std::vector<std::int64_t> &sizes)
    {
        return {{"shape", sizes}, {"batch_axis", std::int64_t{0}}};
    }

    TensorId rowsOf(const std::string &name, TensorId ids)
    {
        m_builder.pushScope(name + "/embedding");
        const TensorId table = m_builder.parameter(name + ".table", Shape::of({kVocabulary, kHidden}), uniform(0.5));
        const TensorId rows = m_builder.add("Gather", {table, ids}, {}, "embedding");
        m_builder.popScope();
        return rows;
    }

    TensorId lstm(const std::string &name, TensorId x)
    {
        const auto parameter = [&](const char *what, const Shape &sizes) {
            return m_builder.parameter(name + what, sizes, uniform(0.3));
        };
        m_builder.pushScope(name + "/lstm");
        const TensorId y = m_builder.add("LSTM",
                                         {x, parameter(".W", Shape::of({1, 4 * kHidden, kHidden})),
                                          parameter(".R", Shape::of({1, 4 * kHidden, kHidden})),
                                          parameter(".B", Shape::of({1, 8 * kHidden}))},
                                         {{"hidden_size", kHidden}, {"layout", std::int64_t{1}}}, "lstm");
        const TensorId rows = m_builder.add("Squeeze", {y}, {{"axes", std::vector<std::int64_t>{2}}}, "output");
        m_builder.popScope();
        return rows;
    }

    graph::GraphBuilder m_builder{"translator"};
};

} // namespace

class TestRecurrentRows : public QObject {
    Q_OBJECT

private slots:
    void lossesAreThoseOfSums_data()
    {
        QTest::addColumn<bool>("translates");
        QTest::newRow("language model") << false;
        QTest::newRow("encoder and decoder") << true;
    }
    void lossesAreThoseOfSums()
    {
        QFETCH(bool, translates);
        const auto graph = translates ? Translator().made() : languageModel();
        QVERIFY(graph);
        const plan::Subject subject = plan::makeSubject(graph, cpus(4), nullptr, "test");
        const std::vector<std::string> tables = plan::lookedUpTables(*graph);
        QCOMPARE(tables.size(), translates ? 2U : 1U);
        plan::Optimizer optimizer;
        optimizer.rule = *update::ConfiguredRule::named("sgd");
        (void)optimizer.rule.set("momentum", 0);
        optimizer.learningRate = 0.5;
        optimizer.weightDecay = 0;
        plan::Plan plan = planOf(subject, {{{{0.25, 0.25, 0.25, 0.25}}}, 16, 2}, optimizer);
        const Outcome summed = trainOn(m_text.path(), subject, plan, {.steps = 10});
        QCOMPARE(summed.problem, std::string());
        QVERIFY(summed.losses.back() < summed.losses.front());
        plan.exchange.policy = plan::ExchangePolicy::Sparse;
        for (const TableStrategy strategy : {TableStrategy::AllToAll, TableStrategy::AllGather})
            for (const plan::ExchangeSchedulingRow &row : plan::kExchangeSchedulings) {
                plan.exchange.sparse = {row.scheduling, {}};
                for (const std::string &table : tables)
                    plan.exchange.sparse.tables.push_back({table, strategy, true});
                const Outcome byRows = trainOn(m_text.path(), subject, plan, {.steps = 10});
                const std::string wrong = differs(byRows, summed.losses, 1e-5);
                QVERIFY2(wrong.empty(), (plan::textOf(plan.exchange) + ": " + wrong).c_str());
            }
    }

private:
    TextFile m_text{{"a", "b", "c", "d", "e", "f", "g", "h", " "}};
};

QTEST_GUILESS_MAIN(TestRecurrentRows)
#include "tst_recurrent_rows.moc"

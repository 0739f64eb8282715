// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/import/import.h"
#include "tests/executor/runtime/one_rank.h"

#include <QTest>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace planloom;

namespace {

constexpr double kTolerance = 1e-4;

struct Counts {
    int attentions = 0, masked = 0, causal = 0, layerNorms = 0, rmsNorms = 0, gelus = 0, silus = 0;
};

int countOf(const graph::Graph &graph, const std::string &type)
{
    return static_cast<int>(
        std::count_if(graph.ops().begin(), graph.ops().end(), [&](const graph::Op &op) { return op.type == type; }));
}

plan::Optimizer optimizerOf(const nlohmann::json &how)
{
    plan::Optimizer optimizer;
    optimizer.rule = *update::ConfiguredRule::named(how["kind"].get<std::string>());
    for (const update::Setting &setting : optimizer.rule.rule().settings)
        if (const std::string name(setting.name); how.contains(name))
            (void)optimizer.rule.set(name, how[name]);
    optimizer.learningRate = how["learning_rate"];
    optimizer.weightDecay = how["weight_decay"];
    return optimizer;
}

QString folderOf(const QString &name) { return PLANLOOM_SOURCE_DIR "/tests/golden/training/" + name; }

} // namespace

/// Models that torch.onnx.export wrote in training mode train as they train in PyTorch.
class TestExports : public QObject {
    Q_OBJECT

private slots:
    void recognised_data()
    {
        QTest::addColumn<Counts>("counts");
        QTest::newRow("gpt2") << Counts{2, 0, 2, 5, 0, 2, 0};
        QTest::newRow("bert") << Counts{2, 2, 0, 6, 0, 3, 0};
        QTest::newRow("vit_b_16") << Counts{2, 0, 0, 5, 0, 2, 0};
        QTest::newRow("encoder") << Counts{2, 0, 0, 4, 0, 2, 0};
        QTest::newRow("llama") << Counts{2, 0, 2, 0, 5, 0, 2};
        QTest::newRow("variants") << Counts{3, 2, 0, 3, 0, 0, 0};
    }
    void recognised()
    {
        QFETCH(Counts, counts);
        const auto model = import::loadModel((folderOf(QTest::currentDataTag()) + "/model.onnx").toStdString());
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        const graph::Graph &graph = *model->graph;
        int masked = 0;
        int causal = 0;
        for (const graph::Op &op : graph.ops()) {
            const bool attention = op.type == "Attention";
            masked += attention && op.inputs.size() > 1 ? 1 : 0;
            causal += attention && op.integer("causal") != 0 ? 1 : 0;
            if (attention)
                QCOMPARE(op.integer("kv_heads"),
                         op.integer("heads") / (qstrcmp(QTest::currentDataTag(), "llama") == 0 ? 2 : 1));
            // Linear layers read their weights as they are stored.
            for (const TensorId id : op.inputs)
                QVERIFY2(op.type != "Transpose" || graph.tensor(id).role != graph::TensorRole::Parameter,
                         op.name.c_str());
        }
        QCOMPARE(countOf(graph, "Attention"), counts.attentions);
        QCOMPARE(masked, counts.masked);
        QCOMPARE(causal, counts.causal);
        QCOMPARE(countOf(graph, "LayerNormalization"), counts.layerNorms);
        QCOMPARE(countOf(graph, "RMSNormalization"), counts.rmsNorms);
        QCOMPARE(countOf(graph, "Gelu"), counts.gelus);
        QCOMPARE(countOf(graph, "Silu"), counts.silus);
        for (const char *type : {"Softmax", "Dropout", "Where", "Erf", "Sqrt", "Sigmoid"})
            QVERIFY2(countOf(graph, type) == 0, type);
    }

    void lossesArePyTorchs_data()
    {
        QTest::addColumn<int>("parameters");
        QTest::newRow("gpt2") << 28;
        QTest::newRow("bert") << 42;
        QTest::newRow("lstm") << 9;
        QTest::newRow("resnet50") << 38;
        QTest::newRow("vit_b_16") << 32;
        QTest::newRow("encoder") << 27;
        QTest::newRow("llama") << 21;
        QTest::newRow("variants") << 30;
    }
    void lossesArePyTorchs()
    {
        QFETCH(int, parameters);
        const QString folder = folderOf(QTest::currentDataTag());
        const auto text = readFile((folder + "/expected.json").toStdString());
        QVERIFY2(text.ok(), text ? "" : text.error().text().c_str());
        const auto expected = nlohmann::json::parse(*text);
        const auto model = import::loadModel((folder + "/model.onnx").toStdString());
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        QCOMPARE(static_cast<int>(model->graph->withRole(graph::TensorRole::Parameter).size()), parameters);
        const auto needs = data::needsOf(*model->graph);
        QVERIFY2(needs.ok(), needs ? "" : needs.error().text().c_str());
        const auto data = data::openDataSet((folder + "/data").toStdString(), *needs);
        QVERIFY2(data.ok(), data ? "" : data.error().text().c_str());
        test::OneRank::Options options;
        options.samples = expected["batch"];
        options.optimizer = optimizerOf(expected["optimizer"]);
        options.modelFolder = folder.toStdString();
        const test::InOrder inOrder(**data, options.seed);
        const auto rank = test::OneRank::make(model->graph, inOrder, options);
        QVERIFY2(rank.ok(), rank ? "" : rank.error().text().c_str());
        const auto losses = expected["losses"].get<std::vector<double>>();
        QCOMPARE(losses.size(), std::size_t(10));
        for (std::size_t step = 0; step < losses.size(); ++step) {
            const double loss = (*rank)->step();
            QVERIFY2(std::abs(loss - losses[step]) <= kTolerance * losses[step],
                     qPrintable(
                         QString("step %1: %2, not %3").arg(step).arg(loss, 0, 'g', 9).arg(losses[step], 0, 'g', 9)));
        }
    }
};

QTEST_GUILESS_MAIN(TestExports)
#include "tst_exports.moc"

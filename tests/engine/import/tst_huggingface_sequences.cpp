// SPDX-License-Identifier: Apache-2.0
#include "engine/import/model_file.h"
#include "tests/engine/import/huggingface_configs.h"

#include <QTemporaryDir>
#include <QTest>
#include <nlohmann/json.hpp>

#include <fstream>

using namespace planloom;
using namespace planloom::test;
using nlohmann::json;

namespace {

json small(const std::string &family) { return json::parse(smallConfig(family)); }

Result<import::Model> read(const json &config, std::int64_t sequence = 0)
{
    return import::readHuggingFaceConfig(config.dump(1), "config.json", {sequence});
}

} // namespace

/// How long samples are: as the configuration has it, as windows of attention allow, as --sequence says.
class TestHuggingFaceSequences : public QObject {
    Q_OBJECT

private slots:
    void sequences_data()
    {
        QTest::addColumn<QString>("family");
        QTest::addColumn<QString>("change");
        QTest::addColumn<int>("asked");
        QTest::addColumn<int>("expected"); // -1: refused
        QTest::addColumn<QString>("says");
        const QString long32 = R"({"max_position_embeddings": 32768})";
        QTest::newRow("all") << "llama"
                             << "{}" << 0 << 8 << "";
        QTest::newRow("fewer") << "llama"
                               << "{}" << 5 << 5 << "";
        QTest::newRow("more") << "llama"
                              << "{}" << 9 << -1 << "\"max_position_embeddings\": is 8";
        QTest::newRow("cut") << "llama" << long32 << 0 << 4096
                             << "samples have 4096 of the 32768 tokens that the model was made for; --sequence N";
        QTest::newRow("long") << "llama" << long32 << 32768 << 32768 << "";
        QTest::newRow("window by default") << "mistral"
                                           << R"({"sliding_window": 6})" << 0 << 6 << "6 of the 8 tokens";
        QTest::newRow("within the window") << "mistral"
                                           << R"({"sliding_window": 6})" << 6 << 6 << "";
        QTest::newRow("beyond the window") << "mistral"
                                           << R"({"sliding_window": 6})" << 7 << -1 << "\"sliding_window\": is 6";
        QTest::newRow("no window") << "mistral"
                                   << R"({"sliding_window": null})" << 8 << 8 << "";
        QTest::newRow("window left out") << "mistral" << long32 << 4097 << -1 << "\"sliding_window\": is 4096";
        QTest::newRow("window that is not used") << "qwen2"
                                                 << R"({"sliding_window": 6})" << 8 << 8 << "";
        QTest::newRow("window that is used")
            << "qwen2"
            << R"({"sliding_window": 6, "use_sliding_window": true})" << 8 << -1 << "\"sliding_window\": is 6";
        QTest::newRow("window of some layers")
            << "qwen3"
            << R"({"sliding_window": 6, "layer_types": ["full_attention", "sliding_attention"]})" << 7 << -1
            << "\"sliding_window\": is 6";
        QTest::newRow("window of Gemma's local layers")
            << "gemma3_text"
            << R"({"sliding_window": 6})" << 7 << -1 << "\"sliding_window\": is 6";
        QTest::newRow("no local layers") << "gemma3_text"
                                         << R"({"sliding_window": 6, "sliding_window_pattern": 1})" << 7 << 7 << "";
        QTest::newRow("positions stay") << "gpt2"
                                        << "{}" << 5 << 5 << "";
        QTest::newRow("positions end") << "gpt2"
                                       << "{}" << 9 << -1 << "\"n_positions\": is 8";
        QTest::newRow("bert") << "bert"
                              << "{}" << 3 << 3 << "";
        QTest::newRow("OPT's positions stay") << "opt"
                                              << "{}" << 5 << 5 << "";
        QTest::newRow("OPT's positions end") << "opt"
                                             << "{}" << 9 << -1 << "\"max_position_embeddings\": is 8";
        QTest::newRow("window of every other layer")
            << "gemma2"
            << R"({"sliding_window": 6})" << 7 << -1 << "\"sliding_window\": is 6";
        QTest::newRow("window of no layer")
            << "gemma2"
            << R"({"sliding_window": 6, "layer_types": ["full_attention", "full_attention"]})" << 7 << 7 << "";
        QTest::newRow("StarCoder's window") << "starcoder2"
                                            << R"({"sliding_window": 6})" << 7 << -1 << "\"sliding_window\": is 6";
    }
    void sequences()
    {
        QFETCH(QString, family);
        QFETCH(QString, change);
        QFETCH(int, asked);
        QFETCH(int, expected);
        QFETCH(QString, says);
        json config = small(family.toStdString());
        config.update(json::parse(change.toStdString()));
        const auto model = read(config, asked);
        QCOMPARE(model.ok(), expected >= 0);
        const QString said = model ? texts(model->warnings) : QString::fromStdString(model.error().message);
        QVERIFY2(says.isEmpty() ? said.isEmpty() : said.contains(says), qPrintable(said));
        if (!model)
            return;
        const graph::Graph &graph = *model->graph;
        QCOMPARE(graph.tensor(graph.find("tokens")).shape[1].size, std::int64_t{expected});
        QCOMPARE(graph.parameterCount(), read(config)->graph->parameterCount()); // tables keep their rows
    }

    void sequencesOfOtherSources_data()
    {
        QTest::addColumn<int>("asked");
        QTest::addColumn<QString>("says"); // empty: accepted
        QTest::newRow("zoo:gpt2") << 256 << "";
        QTest::newRow("zoo:llama-2-7b") << 128 << "";
        QTest::newRow("zoo:lstm-lm") << 70 << "";
        QTest::newRow("zoo:bert-large") << 513 << "has 512 tokens of context";
        QTest::newRow("zoo:resnet-50") << 8 << "no samples of tokens";
        QTest::newRow("zoo:bert-48") << 8 << "table of layer times";
    }
    void sequencesOfOtherSources()
    {
        QFETCH(int, asked);
        QFETCH(QString, says);
        const auto model = import::loadModel(QTest::currentDataTag(), {asked});
        QCOMPARE(model.ok(), says.isEmpty());
        if (!model) {
            QVERIFY2(QString::fromStdString(model.error().text()).contains(says), model.error().text().c_str());
            return;
        }
        QCOMPARE(model->graph->tensor(model->graph->find("tokens")).shape[1].size, std::int64_t{asked});
        QCOMPARE(model->graph->parameterCount(), import::loadModel(QTest::currentDataTag())->graph->parameterCount());
    }

    void aGraphFixesTheSequence()
    {
        QTemporaryDir folder;
        const std::string file = folder.filePath("graph.json").toStdString();
        std::ofstream(file) << graph::toJson(*read(small("llama"))->graph);
        QVERIFY(import::loadModel(file, {8}).ok());
        const auto other = import::loadModel(file, {4});
        QVERIFY(!other.ok());
        QVERIFY(other.error().text().find("fixes samples of 8 tokens") != std::string::npos);
    }

    /// A plan that was made with --sequence finds its model again.
    void plansKeepTheirSequence()
    {
        QTemporaryDir folder;
        const std::string file = folder.filePath("config.json").toStdString();
        std::ofstream(file) << small("llama").dump();
        const auto model = import::loadModel(file, {4});
        QVERIFY(model.ok());
        auto lacking = json::parse(graph::toJson(*model->graph));
        for (auto &tensor : lacking["tensors"])
            if (tensor["role"] == "parameter")
                tensor.erase("init");
        const auto left = graph::graphFromJson(lacking.dump());
        QVERIFY2(left.ok(), left ? "" : left.error().text().c_str());
        const auto whole = import::withFirstValues(std::make_shared<const graph::Graph>(*left), file);
        QVERIFY2(whole.ok(), whole ? "" : whole.error().text().c_str());
        QCOMPARE(graph::toJson(**whole), graph::toJson(*model->graph));
        const auto needed = import::needsModelFile(*left, file);
        QVERIFY2(needed.ok() && *needed, needed ? "" : needed.error().text().c_str());
    }

    /// A plan may name any file as its model's.
    void filesThatAreNotTheModel()
    {
        QTemporaryDir folder;
        const std::string file = folder.filePath("config.json").toStdString();
        const std::string other = folder.filePath("other.json").toStdString();
        std::ofstream(file) << small("llama").dump();
        std::ofstream(other) << R"({"auths": {}})";
        const auto model = import::loadModel(file, {4});
        QVERIFY(model.ok());
        const auto needs = import::needsModelFile(*model->graph, other);
        QVERIFY(needs.ok() && !*needs); // it has all values
        auto stored = json::parse(graph::toJson(*model->graph));
        for (auto &tensor : stored["tensors"])
            if (tensor["role"] == "parameter")
                tensor["init"] = {{"kind", "file"}, {"file", "model.safetensors"}, {"offset", 0}};
        const auto beside = graph::graphFromJson(stored.dump());
        QVERIFY2(beside.ok(), beside ? "" : beside.error().text().c_str());
        const auto right = import::needsModelFile(*beside, file);
        QVERIFY2(right.ok() && *right, right ? "" : right.error().text().c_str());
        QVERIFY(!import::needsModelFile(*beside, other));
        QVERIFY(!import::needsModelFile(*beside, folder.filePath("none.json").toStdString()));
        QVERIFY(!*import::needsModelFile(*beside, "zoo:gpt2"));
    }

    void imagesHaveNoSequence()
    {
        const auto model = read(small("vit"), 5);
        QVERIFY(!model.ok());
        QVERIFY2(model.error().message.find("leave --sequence out") != std::string::npos,
                 model.error().message.c_str());
    }
};

QTEST_GUILESS_MAIN(TestHuggingFaceSequences)
#include "tst_huggingface_sequences.moc"

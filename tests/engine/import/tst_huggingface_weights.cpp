// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/import/import.h"
#include "engine/weights/safetensors.h"

#include <QDir>
#include <QTemporaryDir>
#include <QTest>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

using namespace planloom;
using graph::DType;

namespace {

const std::map<std::string, std::string> kConfigs{
    {"gpt2", R"({"model_type":"gpt2","n_layer":2,"n_head":2,"n_embd":8,"vocab_size":16,"n_positions":4})"},
    {"llama",
     R"({"model_type":"llama","num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,"hidden_size":8,"intermediate_size":12,"vocab_size":16,"max_position_embeddings":4})"},
    {"bert",
     R"({"model_type":"bert","num_hidden_layers":1,"num_attention_heads":2,"hidden_size":8,"intermediate_size":12,"vocab_size":16,"max_position_embeddings":4})"},
    {"gpt_neox",
     R"({"model_type":"gpt_neox","num_hidden_layers":1,"num_attention_heads":2,"hidden_size":8,"rotary_pct":0.5,"intermediate_size":12,"vocab_size":16,"max_position_embeddings":4})"},
    {"opt",
     R"({"model_type":"opt","num_hidden_layers":1,"num_attention_heads":2,"hidden_size":8,"ffn_dim":12,"vocab_size":16,"max_position_embeddings":4})"},
    {"vit",
     R"({"model_type":"vit","num_hidden_layers":1,"num_attention_heads":2,"hidden_size":8,"intermediate_size":12,"image_size":8,"patch_size":4})"},
};

struct Stored {
    std::vector<std::int64_t> sizes;
    DType type = DType::F32;
};
using Tensors = std::map<std::string, Stored>;

/// The parameters of a configuration under the names that the model itself gives them.
Tensors parametersOf(const std::string &family)
{
    const auto model = import::readHuggingFaceConfig(kConfigs.at(family), "config.json");
    Tensors tensors;
    for (const TensorId id : model->graph->withRole(graph::TensorRole::Parameter))
        tensors[model->graph->tensor(id).name] = {model->graph->tensor(id).shape.at(1), DType::F32};
    return tensors;
}

void writeTensors(const std::string &path, const Tensors &tensors)
{
    const std::vector<std::byte> zeros(1 << 16);
    std::vector<weights::TensorToWrite> list;
    for (const auto &[name, stored] : tensors) {
        std::int64_t bytes = graph::sizeOf(stored.type);
        for (const std::int64_t size : stored.sizes)
            bytes *= size;
        list.push_back({name, stored.type, stored.sizes, std::span(zeros).first(static_cast<std::size_t>(bytes))});
    }
    QVERIFY(weights::writeSafetensors(path, list, {{"format", "pt"}}).ok());
}

Tensors renamed(const Tensors &tensors, const std::function<std::string(std::string)> &rename)
{
    Tensors result;
    for (const auto &[name, stored] : tensors)
        result[rename(name)] = stored;
    return result;
}

std::string withoutPrefix(const std::string &name, const std::string &prefix)
{
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

} // namespace

class TstHuggingFaceWeights : public QObject {
    Q_OBJECT
private slots:
    void init()
    {
        m_folder = std::make_unique<QTemporaryDir>();
        m_path = m_folder->path().toStdString();
    }

    void without() // nothing beside the configuration
    {
        const auto model = load("gpt2");
        QVERIFY(model.ok());
        QVERIFY(model->warnings.empty());
        for (const TensorId id : model->graph->withRole(graph::TensorRole::Parameter))
            QVERIFY(model->graph->tensor(id).init.kind != graph::Initializer::Kind::File);
    }

    void families_data()
    {
        QTest::addColumn<QString>("family");
        QTest::addColumn<QString>("prefix");
        for (const auto &[family, prefix] : std::map<QString, QString>{{"gpt2", "transformer."},
                                                                       {"llama", "model."},
                                                                       {"bert", "bert."},
                                                                       {"gpt_neox", "gpt_neox."},
                                                                       {"opt", "model."},
                                                                       {"vit", "vit."}}) {
            QTest::addRow("%s whole", qPrintable(family)) << family << QString();
            QTest::addRow("%s base", qPrintable(family)) << family << prefix;
        }
    }
    void families()
    {
        QFETCH(QString, family);
        QFETCH(QString, prefix);
        const auto tensors = parametersOf(family.toStdString());
        writeTensors(m_path + "/model.safetensors", renamed(tensors, [&](const std::string &name) {
                         return withoutPrefix(name, prefix.toStdString());
                     }));
        const auto model = load(family.toStdString());
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        QVERIFY(model->warnings.empty());
        const auto plain = import::readHuggingFaceConfig(kConfigs.at(family.toStdString()), "config.json");
        QCOMPARE(model->graph->tensors().size(), plain->graph->tensors().size());
        QCOMPARE(model->graph->ops().size(), plain->graph->ops().size());
        const auto file = weights::SafetensorsFile::open(m_path + "/model.safetensors");
        for (const TensorId id : model->graph->withRole(graph::TensorRole::Parameter)) {
            const auto &parameter = model->graph->tensor(id);
            QCOMPARE(parameter.name, plain->graph->tensor(id).name);
            QVERIFY(parameter.init.kind == graph::Initializer::Kind::File);
            QCOMPARE(parameter.init.file, std::string("model.safetensors"));
            QCOMPARE(parameter.init.offset,
                     file->header().find(withoutPrefix(parameter.name, prefix.toStdString()))->begin);
        }
    }

    void shardsByIndex()
    {
        Tensors halves[2];
        int count = 0;
        std::string map;
        for (const auto &[name, stored] : parametersOf("llama")) {
            const int half = count++ % 2;
            halves[half][name] = stored;
            map += (map.empty() ? "" : ",")
                + ("\"" + name + "\":\"model-0000" + std::to_string(half + 1) + "-of-00002.safetensors\"");
        }
        for (int half = 0; half < 2; ++half)
            writeTensors(m_path + "/model-0000" + std::to_string(half + 1) + "-of-00002.safetensors", halves[half]);
        std::ofstream(m_path + "/model.safetensors.index.json")
            << "{\"metadata\":{\"total_size\":1},\"weight_map\":{" + map + "}}";
        const auto model = load("llama");
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        std::set<std::string> files;
        for (const TensorId id : model->graph->withRole(graph::TensorRole::Parameter))
            files.insert(model->graph->tensor(id).init.file);
        QCOMPARE(files.size(), std::size_t{2});
    }

    /// As the hub's files of 2019 are: masks and heads in them, TensorFlow's names for normalisations, half precision.
    void oldFiles()
    {
        auto gpt = parametersOf("gpt2");
        gpt["lm_head.weight"] = {{16, 8}, DType::F32};
        gpt["h.0.attn.bias"] = {{1, 1, 4, 4}, DType::F32};
        gpt["transformer.h.1.attn.masked_bias"] = {{}, DType::F32};
        for (auto &[name, stored] : gpt)
            stored.type = DType::F16;
        writeTensors(m_path + "/model.safetensors", gpt);
        auto model = load("gpt2");
        QVERIFY2(model.ok() && model->warnings.empty(), model ? "" : model.error().text().c_str());

        auto bert = renamed(parametersOf("bert"), [](std::string name) {
            if (name.find("LayerNorm.weight") != std::string::npos)
                name.replace(name.find("weight"), 6, "gamma");
            if (name.find("LayerNorm.bias") != std::string::npos)
                name.replace(name.find("bias"), 4, "beta");
            return name;
        });
        auto neox = parametersOf("gpt_neox");
        neox["gpt_neox.layers.0.attention.bias"] = {{1, 1, 4, 4}, DType::F32};
        neox["gpt_neox.layers.0.attention.masked_bias"] = {{}, DType::F32};
        neox["gpt_neox.layers.0.attention.rotary_emb.inv_freq"] = {{1}, DType::F32};
        writeTensors(m_path + "/model.safetensors", neox);
        model = load("gpt_neox");
        QVERIFY2(model.ok() && model->warnings.empty(), model ? "" : model.error().text().c_str());

        bert["bert.pooler.dense.weight"] = {{8, 8}, DType::F32};
        bert["cls.seq_relationship.bias"] = {{2}, DType::F32};
        bert["bert.embeddings.position_ids"] = {{1, 4}, DType::I64};
        writeTensors(m_path + "/model.safetensors", bert);
        model = load("bert");
        QVERIFY2(model.ok() && model->warnings.empty(), model ? "" : model.error().text().c_str());
    }

    void whatIsLeftOverIsSaid()
    {
        auto tensors = parametersOf("gpt2");
        tensors["score.weight"] = {{2, 8}, DType::F32};
        writeTensors(m_path + "/model.safetensors", tensors);
        const auto model = load("gpt2");
        QVERIFY(model.ok());
        QCOMPARE(model->warnings.size(), std::size_t{1});
        QVERIFY(model->warnings.front().find("'score.weight'") != std::string::npos);
    }

    void whatDoesNotFitIsRefused_data()
    {
        QTest::addColumn<int>("change");
        QTest::addColumn<QString>("says");
        QTest::newRow("missing") << 0 << "1 of the model's 28 parameters";
        QTest::newRow("sizes") << 1 << "has sizes [16, 9] where config.json makes them [16, 8]";
        QTest::newRow("format") << 2 << "stored as I64";
        QTest::newRow("damaged") << 3 << "model.safetensors: ";
    }
    void whatDoesNotFitIsRefused()
    {
        QFETCH(int, change);
        QFETCH(QString, says);
        auto tensors = parametersOf("gpt2");
        if (change == 0)
            tensors.erase("transformer.ln_f.bias");
        if (change == 1)
            tensors["transformer.wte.weight"].sizes = {16, 9};
        if (change == 2)
            tensors["transformer.wte.weight"].type = DType::I64;
        const std::string path = m_path + "/model.safetensors";
        writeTensors(path, tensors);
        if (change == 3)
            std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
        const auto model = load("gpt2");
        QVERIFY(!model.ok());
        QVERIFY2(QString::fromStdString(model.error().text()).contains(says), model.error().text().c_str());
    }

    void hostileIndex_data()
    {
        QTest::addColumn<QString>("text");
        QTest::newRow("outside") << R"({"weight_map":{"a":"../model.safetensors"}})";
        QTest::newRow("absolute") << R"({"weight_map":{"a":"/etc/passwd"}})";
        QTest::newRow("other file") << R"({"weight_map":{"a":"config.json"}})";
        QTest::newRow("no map") << R"({})";
        QTest::newRow("number") << R"({"weight_map":{"a":1}})";
        QTest::newRow("no json") << "x";
    }
    void hostileIndex()
    {
        QFETCH(QString, text);
        std::ofstream(m_path + "/model.safetensors.index.json") << text.toStdString();
        const auto model = load("gpt2");
        QVERIFY(!model.ok());
        QVERIFY(model.error().text().find("model.safetensors.index.json") != std::string::npos);
    }
    /// Workers, which run elsewhere, look for the weights beside it.
    void sourceIsAWholePath()
    {
        std::ofstream(m_path + "/config.json") << kConfigs.at("gpt2");
        const QString before = QDir::currentPath();
        QVERIFY(QDir::setCurrent(QString::fromStdString(m_path)));
        const auto model = import::loadModel("./config.json");
        const std::string here = QDir::currentPath().toStdString();
        QVERIFY(QDir::setCurrent(before));
        QVERIFY2(model.ok(), model.ok() ? "" : model.error().text().c_str());
        QCOMPARE(model->source, here + "/config.json");
    }

private:
    Result<import::Model> load(const std::string &family)
    {
        std::ofstream(m_path + "/config.json") << kConfigs.at(family);
        return import::loadModel(m_path + "/config.json");
    }
    std::unique_ptr<QTemporaryDir> m_folder;
    std::string m_path;
};

QTEST_GUILESS_MAIN(TstHuggingFaceWeights)
#include "tst_huggingface_weights.moc"

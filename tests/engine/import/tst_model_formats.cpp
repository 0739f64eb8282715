// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/compile/layout.h"
#include "engine/graph/layer_profile.h"
#include "engine/graph/layers.h"
#include "engine/import/import.h"
#include "tests/layer_table.h"

#include <QTemporaryDir>
#include <QTest>

#include <fmt/format.h>

using namespace planloom;

class TestModelFormats : public QObject {
    Q_OBJECT

private slots:
    void everyZooModelLoads()
    {
        QStringList names;
        for (const import::ZooEntry &entry : import::zooEntries()) {
            const auto model = import::loadModel("zoo:" + entry.name);
            QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
            QVERIFY(graph::layersOf(*model->graph).size() > 1);
            QCOMPARE(model->source, "zoo:" + entry.name);
            names << QString::fromStdString(entry.name);
        }
        for (const char *name : {"mlp", "gpt-nano", "gpt2", "bert-large", "vgg-19", "resnet-50", "xlnet-36", "bert-48",
                                 "amoebanet-36", "gnmt-16"})
            QVERIFY2(names.contains(name), name);
    }

    void unknownNamesListTheKnownOnes()
    {
        const auto model = import::loadModel("zoo:nothing");
        QVERIFY(!model.ok());
        QCOMPARE(model.error().code, ErrorCode::NotFound);
        QVERIFY(QString::fromStdString(model.error().message).contains("gpt-nano"));
    }

    void huggingFace_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<qint64>("parameters"); // -1: refused
        QTest::addColumn<QString>("says");
        QTest::newRow("gpt2") << QByteArray(
            R"({"model_type":"gpt2","n_layer":12,"n_head":12,"n_embd":768,"vocab_size":50257,"n_positions":1024})")
                              << qint64(124439808) << "";
        QTest::newRow("llama") << QByteArray(
            R"({"model_type":"llama","num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"hidden_size":16,"intermediate_size":32,"vocab_size":20,"max_position_embeddings":8})")
                               // embedding and head 2*20*16, final norm 16, per layer: q 256, k and v 128 each, o 256,
                               // three 16x32, two norms
                               << qint64(2 * 320 + 16 + 2 * (256 + 2 * 128 + 256 + 3 * 512 + 32)) << "";
        QTest::newRow("other family") << QByteArray(R"({"model_type":"mamba"})") << qint64(-1)
                                      << "state spaces are not built; bert, falcon";
        QTest::newRow("no family") << QByteArray("{}") << qint64(-1) << "no 'model_type'";
        QTest::newRow("missing field") << QByteArray(
            R"({"model_type":"gpt2","n_layer":12,"vocab_size":9,"n_positions":4})")
                                       << qint64(-1) << "\"n_head\": is missing";
        QTest::newRow("negative") << QByteArray(
            R"({"model_type":"gpt2","n_layer":-1,"n_head":12,"n_embd":768,"vocab_size":50257,"n_positions":1024})")
                                  << qint64(-1) << "\"n_layer\": must be a whole number";
        QTest::newRow("not JSON") << QByteArray("{\n\"model_type\":\n") << qint64(-1) << "not valid JSON";
        QTest::newRow("bomb") << QByteArray(100000, '[') << qint64(-1) << "nested deeper";
        QTest::newRow("heads that do not divide") << QByteArray(
            R"({"model_type":"gpt2","n_layer":1,"n_head":5,"n_embd":768,"vocab_size":50257,"n_positions":1024})")
                                                  << qint64(-1) << "head";
    }
    void huggingFace()
    {
        QFETCH(QByteArray, text);
        QFETCH(qint64, parameters);
        QFETCH(QString, says);
        const auto model = import::readHuggingFaceConfig(text.toStdString(), "config.json");
        QCOMPARE(model.ok(), parameters >= 0);
        if (model) {
            QCOMPARE(qint64(model->graph->parameterCount()), parameters);
            return;
        }
        QCOMPARE(model.error().file, std::string("config.json"));
        QVERIFY2(QString::fromStdString(model.error().message).contains(says), model.error().message.c_str());
    }

    void layerProfile()
    {
        const char *text = "node1 -- Input -- forward_compute_time=17.0, backward_compute_time=0.0, "
                           "activation_size=4000.0, parameter_size=0.0\n"
                           "node2 -- Linear(8, 8) -- forward_compute_time=1.5, backward_compute_time=3.0, "
                           "activation_size=[64.0; 8.0], parameter_size=256.0\n"
                           "node3 -- __getitem__(1) -- forward_compute_time=0.0, backward_compute_time=0.0, "
                           "activation_size=8.0, parameter_size=0.0\n"
                           "node4 -- Head -- forward_compute_time=0.5, backward_compute_time=1.0, "
                           "activation_size=32.0, parameter_size=128.0\n"
                           "\tnode1 -- node2\n\tnode2 -- node3\n\t node2 -- node4\n";
        const auto model = import::readLayerProfile(text, "net-pbs-2.txt");
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        const auto layers = graph::layersOf(*model->graph);
        QCOMPARE(layers.size(), std::size_t(2)); // the input and the unused part are gone
        QCOMPARE(layers.cutBytes(*model->graph, 1, 2).value(), std::int64_t(72));
        QCOMPARE(model->graph->parameterBytes().value(), std::int64_t(384));
        const auto &times = model->profile->ops.at(model->graph->ops()[0].name);
        QCOMPARE(times[0].samples, 2.0);
        QCOMPARE(times[0].forward.value(), 1.5e-3);
        QCOMPARE(times[0].backward.value(), 3e-3);
    }

    // The unit comes from the file's name or from the caller; else a row is a minibatch.
    void profileUnits()
    {
        const char *text = "a -- A -- forward_compute_time=1, backward_compute_time=1, activation_size=512, "
                           "parameter_size=4\n";
        const auto unit = [&](const char *name, double samples) {
            const auto model = import::readLayerProfile(text, name, samples);
            return model ? graph::profileUnit(*model->graph) : std::nullopt;
        };
        QCOMPARE(unit("net-pbs-2.txt", 0)->samples, 2.0);
        QVERIFY(unit("net-pbs-2.txt", 0)->said);
        QCOMPARE(unit("net.txt", 128)->samples, 128.0);
        QVERIFY(unit("net.txt", 128)->said);
        QCOMPARE(unit("net.txt", 0)->samples, 1.0);
        QVERIFY(!unit("net.txt", 0)->said);
        QVERIFY(!graph::profileUnit(*import::loadModel("zoo:mlp")->graph));
        const auto model = import::readLayerProfile(text, "net.txt", 128);
        QCOMPARE(model->graph->tensor(model->graph->ops()[0].outputs[0]).bytes(1), Bytes(4));
    }

    // What works in its input's place is not kept beside it.
    void layersInPlace()
    {
        const auto row = [](const char *node, const char *about, double ms, int bytes) {
            return fmt::format("{} -- {} -- forward_compute_time={}, backward_compute_time={}, activation_size={}.0, "
                               "parameter_size=0.0\n",
                               node, about, ms, ms, bytes);
        };
        const std::string text = row("n1", "Conv2d(3, 8)", 1, 4000) + row("n2", "ReLU(inplace)", 1, 4000)
            + row("n3", "Dropout(p=0.5, inplace=False)", 1, 4000) + row("n4", "View(-1)", 0, 4000)
            + row("n5", "Add", 0, 4000) + row("n6", "Concat(1)", 0, 8000) + row("n7", "ReLU(inplace=True)", 1, 8000)
            + "\tn1 -- n2\n\tn2 -- n3\n\tn3 -- n4\n\tn4 -- n5\n\tn2 -- n5\n\tn5 -- n6\n\tn2 -- n6\n\tn6 -- n7\n";
        const auto model = import::readLayerProfile(text, "net.txt");
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        std::string inPlace;
        for (const graph::Op &op : model->graph->ops())
            inPlace += graph::worksInPlace(op) ? 'y' : 'n';
        QCOMPARE(inPlace, std::string("nynyyny"));
        // Of a micro-batch the convolution's, the dropout's and the concatenation's outputs are kept.
        const auto layers = graph::layersOf(*model->graph);
        const auto bytes = compile::estimateSlots(*model->graph, layers, 0, layers.size(), 1, false, false);
        QCOMPARE(bytes[static_cast<std::size_t>(program::Area::Frame)], std::int64_t{16000});
    }

    void brokenLayerProfile_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<int>("line");
        QTest::addColumn<QString>("says");
        const QByteArray good =
            "a -- A -- forward_compute_time=1, backward_compute_time=1, activation_size=4, parameter_size=4\n";
        QTest::newRow("empty") << QByteArray() << 0 << "holds no layers";
        QTest::newRow("prose") << QByteArray("hello\n") << 1 << "is not a node";
        QTest::newRow("negative") << QByteArray(
            good + "b -- B -- forward_compute_time=-1, backward_compute_time=1, activation_size=4, parameter_size=4\n")
                                  << 2 << "not negative";
        QTest::newRow("not a number") << QByteArray(
            "b -- B -- forward_compute_time=nan, backward_compute_time=1, activation_size=4, parameter_size=4\n")
                                      << 1 << "must be a number";
        QTest::newRow("field missing") << QByteArray("b -- B -- forward_compute_time=1\n") << 1 << "lacks one of";
        QTest::newRow("twice") << QByteArray(good + good) << 2 << "given twice";
        QTest::newRow("edge to nowhere") << QByteArray(good + "\ta -- z\n") << 2 << "'z'";
        QTest::newRow("cycle") << QByteArray(good
                                             + "b -- B -- forward_compute_time=1, backward_compute_time=1, "
                                               "activation_size=4, parameter_size=4\n\ta -- b\n\tb -- a\n")
                               << 0 << "cycle";
    }
    void brokenLayerProfile()
    {
        QFETCH(QByteArray, text);
        QFETCH(int, line);
        QFETCH(QString, says);
        const auto model = import::readLayerProfile(text.toStdString(), "p.txt");
        QVERIFY(!model.ok());
        QCOMPARE(model.error().file, std::string("p.txt"));
        QCOMPARE(model.error().line, line);
        QVERIFY2(QString::fromStdString(model.error().message).contains(says), model.error().message.c_str());
    }

    void publishedProfiles_data()
    {
        QTest::addColumn<QString>("table");
        QTest::addColumn<int>("layers");
        QTest::addColumn<double>("parameterMegabytes");
        QTest::newRow("xlnet-36") << "xlnet-36-pbs-1" << 42 << 2003.;
        QTest::newRow("vgg-19") << "vgg-19-pbs-32" << 25 << 548.05;
        QTest::newRow("amoebanet-36") << "amoeba-36-pbs-1" << 43 << 3731.1;
        QTest::newRow("gnmt-16") << "gnmt-16-pbs-64" << 77 << 1163.;
        QTest::newRow("resnet-50") << "resnet50" << 176 << 102.2;
    }
    void publishedProfiles()
    {
        QFETCH(QString, table);
        QFETCH(int, layers);
        QFETCH(double, parameterMegabytes);
        QTemporaryDir folder;
        const std::string file = folder.filePath(table + ".txt").toStdString();
        QVERIFY(writeFileAtomically(file, testing::layerProfileText(table.toStdString())));
        const auto model = import::loadModel(file);
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        QCOMPARE(int(graph::layersOf(*model->graph).size()), layers);
        const double megabytes = static_cast<double>(model->graph->parameterBytes().value()) / 1e6;
        QVERIFY2(std::abs(megabytes / parameterMegabytes - 1) < 1e-3, qPrintable(QString::number(megabytes)));
    }
};

QTEST_GUILESS_MAIN(TestModelFormats)
#include "tst_model_formats.moc"

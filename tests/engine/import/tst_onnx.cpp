// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/graph/gradients/differentiate.h"
#include "engine/graph/layers.h"
#include "engine/import/import.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>
#include <onnx/onnx_pb.h>

using namespace planloom;

namespace {

std::string fixture(const QString &name)
{
    return (QString(PLANLOOM_SOURCE_DIR "/tests/golden/onnx/") + name).toStdString();
}

onnx::ModelProto emptyModel()
{
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(17);
    auto *input = model.mutable_graph()->add_input();
    input->set_name("x");
    auto *tensor = input->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(onnx::TensorProto::FLOAT);
    tensor->mutable_shape()->add_dim()->set_dim_param("N");
    tensor->mutable_shape()->add_dim()->set_dim_value(4);
    model.mutable_graph()->add_output()->set_name("y");
    return model;
}

void addNode(onnx::ModelProto &model, const std::string &type, const std::vector<std::string> &inputs,
             const std::string &output)
{
    auto *node = model.mutable_graph()->add_node();
    node->set_op_type(type);
    node->set_name(output + "_node");
    for (const std::string &input : inputs)
        node->add_input(input);
    node->add_output(output);
}

onnx::TensorProto *addWeight(onnx::ModelProto &model, const std::string &name, const std::vector<std::int64_t> &dims)
{
    auto *weight = model.mutable_graph()->add_initializer();
    weight->set_name(name);
    weight->set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : dims)
        weight->add_dims(dim);
    return weight;
}

void setExternal(onnx::TensorProto *weight, const std::string &location)
{
    weight->set_data_location(onnx::TensorProto::EXTERNAL);
    auto *entry = weight->add_external_data();
    entry->set_key("location");
    entry->set_value(location);
}

Result<import::Model> read(const onnx::ModelProto &model, const std::string &folder = "/nonexistent",
                           const std::vector<std::string> &loss = {})
{
    return import::readOnnx(model.SerializeAsString(), "net.onnx", folder, loss);
}

} // namespace

class TestOnnx : public QObject {
    Q_OBJECT

private slots:
    void exportedModels_data()
    {
        QTest::addColumn<QString>("file");
        QTest::addColumn<qint64>("parameters");
        QTest::addColumn<QStringList>("layers");
        QTest::addColumn<QString>("output");
        QTest::newRow("mlp with weights") << "mlp.onnx" << qint64(212) << QStringList{"0", "2", "loss"} << "[N, 4]";
        QTest::newRow("gpt, batch left open")
            << "gpt.onnx" << qint64(30144) << QStringList{"wte/Gather", "h.0", "h.1", "ln_f/LayerNormalization"}
            << "[N, 16, 65]";
        QTest::newRow("gpt, batch of 3 baked in")
            << "gpt-fixed.onnx" << qint64(30144) << QStringList{"wte/Gather", "h.0", "h.1", "ln_f/LayerNormalization"}
            << "[N, 16, 65]";
        QTest::newRow("gpt with weights and a stored mask")
            << "gpt-weights.onnx" << qint64(30144) << QStringList{"wte/Gather", "h.0", "h.1", "ln_f/LayerNormalization"}
            << "[N, 16, 65]";
        QTest::newRow("transformer encoder")
            << "encoder.onnx" << qint64(17088) << QStringList{"layers.0", "layers.1", "loss"} << "[N, 16, 32]";
        QTest::newRow("resnet-18 for training")
            << "resnet18-training.onnx" << qint64(11689512) << QStringList{} << "[N, 1000]";
        QTest::newRow("resnet-50") << "resnet50.onnx" << qint64(25530472) << QStringList{} << "[N, 1000]";
        QTest::newRow("two LSTM layers") << "lstm.onnx" << qint64(5546) << QStringList{} << "[N, 7, 50]";
        QTest::newRow("two GRU layers, both ways") << "gru.onnx" << qint64(9930) << QStringList{} << "[N, 7, 50]";
        QTest::newRow("vgg-19") << "vgg19.onnx" << qint64(143667240) << QStringList{} << "[N, 1000]";
    }
    void exportedModels()
    {
        QFETCH(QString, file);
        QFETCH(qint64, parameters);
        QFETCH(QStringList, layers);
        QFETCH(QString, output);
        const auto model = import::loadModel(fixture(file));
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        const graph::Graph &graph = *model->graph;
        QCOMPARE(qint64(graph.parameterCount()), parameters);
        QCOMPARE(QString::fromStdString(graph.tensor(graph.outputs()[0]).shape.text()), output);
        QStringList names;
        for (const graph::Layer &layer : graph::layersOf(graph).layers)
            names << QString::fromStdString(layer.name);
        if (!layers.isEmpty())
            QCOMPARE(names, layers);
        QVERIFY(graph.loss().valid());
        const auto training =
            graph::differentiate(graph, OpId(0), OpId(static_cast<std::int64_t>(graph.ops().size())), {}, {});
        QVERIFY2(training.ok(), training ? "" : training.error().text().c_str());
        QCOMPARE(training->parameters.size(), graph.withRole(graph::TensorRole::Parameter).size());
    }

    void everyTruncationIsAnError()
    {
        const auto bytes = readFile(fixture("mlp.onnx"));
        QVERIFY(bytes.ok());
        for (std::size_t length = 0; length < bytes->size(); length += 7) {
            const auto model = import::readOnnx(bytes->substr(0, length), "cut.onnx", ".");
            QVERIFY2(!model.ok(), qPrintable(QString("cut at %1 was accepted").arg(length)));
            QVERIFY(model.error().file == "cut.onnx");
        }
    }

    void unknownOperatorsKeepTheirPlace()
    {
        onnx::ModelProto model = emptyModel();
        addNode(model, "MatMul", {"x", "w"}, "a");
        addWeight(model, "w", {4, 4})->set_raw_data(std::string(64, '\0'));
        addNode(model, "FancyThing", {"a"}, "b");
        addNode(model, "Relu", {"b"}, "y");
        const auto result = read(model, "/nonexistent", {"mse"});
        QVERIFY2(result.ok(), result ? "" : result.error().text().c_str());
        QCOMPARE(result->graph->ops()[1].type, std::string("FancyThing"));
        QVERIFY(QString::fromStdString(result->warnings.front()).contains("FancyThing"));
        const auto training = graph::differentiate(*result->graph, OpId(0), OpId(4), {}, {});
        QVERIFY(!training.ok());
        QVERIFY2(QString::fromStdString(training.error().message).contains("FancyThing"),
                 training.error().message.c_str());
    }

    /// A parameter that looks like a constant is not trained, which must be reported.
    void whatIsNotTrainedIsSaid()
    {
        onnx::ModelProto model = emptyModel();
        addNode(model, "MatMul", {"x", "w"}, "a");
        addWeight(model, "w", {4, 4})->set_raw_data(std::string(64, '\0'));
        addNode(model, "Mul", {"a", "alpha"}, "b");
        addWeight(model, "alpha", {1})->set_raw_data(std::string(4, '\0'));
        addNode(model, "Mul", {"b", "head.scale"}, "c");
        addWeight(model, "head.scale", {1})->set_raw_data(std::string(4, '\0'));
        addNode(model, "Add", {"c", "onnx::Add_7"}, "y");
        addWeight(model, "onnx::Add_7", {1})->set_raw_data(std::string(4, '\0'));
        const auto result = read(model);
        QVERIFY2(result.ok(), result ? "" : result.error().text().c_str());
        QCOMPARE(result->graph->withRole(graph::TensorRole::Parameter).size(), std::size_t{2});
        const QString warning = QString::fromStdString(result->warnings.front());
        QVERIFY2(warning.startsWith("is not trained") && warning.contains("'alpha';"), qPrintable(warning));
    }

    void badModels_data()
    {
        QTest::addColumn<QByteArray>("bytes");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *name, const onnx::ModelProto &model, const char *says) {
            QTest::newRow(name) << QByteArray::fromStdString(model.SerializeAsString()) << says;
        };
        QTest::newRow("empty file") << QByteArray() << "holds no graph";
        QTest::newRow("text") << QByteArray("this is not a model at all") << "not a whole ONNX file";
        row("no operators", emptyModel(), "no operators");
        onnx::ModelProto cycle = emptyModel();
        addNode(cycle, "Add", {"x", "b"}, "a");
        addNode(cycle, "Relu", {"a"}, "b");
        addNode(cycle, "Relu", {"b"}, "y");
        row("cycle", cycle, "cycle through operator 'a_node'");
        onnx::ModelProto dangling = emptyModel();
        addNode(dangling, "Relu", {"nothing"}, "y");
        row("reads what nothing makes", dangling, "reads 'nothing'");
        onnx::ModelProto twice = emptyModel();
        addNode(twice, "Relu", {"x"}, "y");
        addNode(twice, "Neg", {"x"}, "y");
        row("made twice", twice, "'y' is made twice");
        onnx::ModelProto misfit = emptyModel();
        addNode(misfit, "MatMul", {"x", "w"}, "y");
        addWeight(misfit, "w", {5, 2})->set_raw_data(std::string(40, '\0'));
        row("shapes that do not fit", misfit, "y_node");
        onnx::ModelProto fixed = misfit;
        fixed.mutable_graph()
            ->mutable_input(0)
            ->mutable_type()
            ->mutable_tensor_type()
            ->mutable_shape()
            ->mutable_dim(0)
            ->set_dim_value(3);
        row("shapes that do not fit, batch of 3 baked in", fixed,
            "exported for a batch of 3: export it with the first dimension");
        onnx::ModelProto torn = emptyModel();
        addNode(torn, "MatMul", {"x", "w"}, "y");
        addWeight(torn, "w", {4, 2})->set_raw_data("short");
        row("weight cut short", torn, "8 elements, but 5 bytes");
        onnx::ModelProto negative = emptyModel();
        addNode(negative, "MatMul", {"x", "w"}, "y");
        addWeight(negative, "w", {-4, 2});
        row("negative size", negative, "impossible size");
        onnx::ModelProto versionless = emptyModel();
        versionless.clear_opset_import();
        addNode(versionless, "Relu", {"x"}, "y");
        row("no operator version", versionless, "no version");
    }
    void badModels()
    {
        QFETCH(QByteArray, bytes);
        QFETCH(QString, says);
        const auto model = import::readOnnx(bytes.toStdString(), "net.onnx", "/nonexistent");
        QVERIFY(!model.ok());
        QCOMPARE(model.error().file, std::string("net.onnx"));
        QVERIFY2(QString::fromStdString(model.error().message).contains(says), model.error().message.c_str());
    }

    void externalData_data()
    {
        QTest::addColumn<QString>("location");
        QTest::addColumn<QString>("says");
        QTest::newRow("beneath") << "weights.bin"
                                 << "";
        QTest::newRow("in a folder beneath") << "deep/weights.bin"
                                             << "";
        QTest::newRow("upwards") << "../weights.bin"
                                 << "leads out";
        QTest::newRow("upwards in the middle") << "deep/../../weights.bin"
                                               << "leads out";
        QTest::newRow("absolute") << "/etc/passwd"
                                  << "leads out";
        QTest::newRow("symbolic link") << "link.bin"
                                       << "leads out";
        QTest::newRow("hard link") << "hard.bin"
                                   << "a hard link or not a regular file";
        QTest::newRow("folder") << "deep"
                                << "not a regular file";
        QTest::newRow("missing") << "gone.bin"
                                 << "cannot be opened";
        QTest::newRow("too short") << "short.bin"
                                   << "holds 3 bytes";
    }
    void externalData()
    {
        QFETCH(QString, location);
        QFETCH(QString, says);
        QTemporaryDir outer;
        const QDir root(outer.path());
        QVERIFY(root.mkpath("model/deep"));
        const QString folder = root.filePath("model");
        const auto put = [](const QString &path, int size) {
            QFile file(path);
            QVERIFY(file.open(QIODevice::WriteOnly));
            file.write(QByteArray(size, '\0'));
        };
        for (const char *path : {"weights.bin", "model/weights.bin", "model/deep/weights.bin", "model/original.bin"})
            put(root.filePath(path), 32);
        put(root.filePath("model/short.bin"), 3);
        QVERIFY(QFile::link(root.filePath("weights.bin"), root.filePath("model/link.bin")));
        std::filesystem::create_hard_link(root.filePath("model/original.bin").toStdString(),
                                          root.filePath("model/hard.bin").toStdString());
        onnx::ModelProto proto = emptyModel();
        addNode(proto, "MatMul", {"x", "w"}, "y");
        setExternal(addWeight(proto, "w", {4, 2}), location.toStdString());
        const auto model = read(proto, folder.toStdString());
        QCOMPARE(model.ok(), says.isEmpty());
        if (!model)
            QVERIFY2(QString::fromStdString(model.error().message).contains(says), model.error().message.c_str());
        else
            QCOMPARE(model->graph->tensor(model->graph->find("w")).init.kind, graph::Initializer::Kind::File);
    }
};

QTEST_GUILESS_MAIN(TestOnnx)
#include "tst_onnx.moc"

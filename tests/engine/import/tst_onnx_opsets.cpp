// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/claimed_operators.h"
#include "engine/import/onnx/exact.h"

#include <QTest>
#include <onnx/onnx_pb.h>

#include <cstring>

using namespace planloom;
using graph::DType;

namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, graph::Attribute>;

/// One operator as a file of some opset has it. Inputs: x of the given sizes, then constants.
struct Form {
    std::int64_t opset;
    const char *type;
    Attributes attributes = {};
    std::vector<Ints> constants = {};
    int outputs = 1;
    std::vector<float> floats = {}; ///< further constants, scalars
};

void setAttribute(onnx::NodeProto &node, const std::string &key, const graph::Attribute &value)
{
    auto *attribute = node.add_attribute();
    attribute->set_name(key);
    if (const auto *integer = std::get_if<std::int64_t>(&value)) {
        attribute->set_type(onnx::AttributeProto::INT);
        attribute->set_i(*integer);
    } else if (const auto *number = std::get_if<double>(&value)) {
        attribute->set_type(onnx::AttributeProto::FLOAT);
        attribute->set_f(static_cast<float>(*number));
    } else if (const auto *text = std::get_if<std::string>(&value)) {
        attribute->set_type(onnx::AttributeProto::STRING);
        attribute->set_s(*text);
    } else if (const auto *integers = std::get_if<Ints>(&value)) {
        attribute->set_type(onnx::AttributeProto::INTS);
        attribute->mutable_ints()->Assign(integers->begin(), integers->end());
    }
}

std::string fileOf(const Form &form)
{
    onnx::ModelProto model;
    model.add_opset_import()->set_version(form.opset);
    auto *graph = model.mutable_graph();
    graph->add_input()->set_name("x");
    auto *node = graph->add_node();
    node->set_op_type(form.type);
    node->add_input("x");
    for (std::size_t i = 0; i < form.constants.size(); ++i) {
        auto *constant = graph->add_initializer();
        constant->set_name("c" + std::to_string(i));
        constant->set_data_type(onnx::TensorProto::INT64);
        constant->add_dims(static_cast<std::int64_t>(form.constants[i].size()));
        for (const std::int64_t value : form.constants[i])
            constant->add_int64_data(value);
        node->add_input(constant->name());
    }
    for (std::size_t i = 0; i < form.floats.size(); ++i) {
        auto *constant = graph->add_initializer();
        constant->set_name("f" + std::to_string(i));
        constant->set_data_type(onnx::TensorProto::FLOAT);
        constant->add_float_data(form.floats[i]);
        node->add_input(constant->name());
    }
    for (int i = 0; i < form.outputs; ++i) {
        node->add_output("y" + std::to_string(i));
        graph->add_output()->set_name("y" + std::to_string(i));
    }
    for (const auto &[key, value] : form.attributes)
        setAttribute(*node, key, value);
    return model.SerializeAsString();
}

QString text(const graph::Attribute &value)
{
    if (const auto *integer = std::get_if<std::int64_t>(&value))
        return QString::number(*integer);
    if (const auto *number = std::get_if<double>(&value))
        return QString::number(*number);
    if (const auto *string = std::get_if<std::string>(&value))
        return QString::fromStdString(*string);
    QStringList all;
    if (const auto *integers = std::get_if<Ints>(&value))
        for (const std::int64_t one : *integers)
            all << QString::number(one);
    return "[" + all.join(" ") + "]";
}

/// "Softmax axis=1 -> [2, 12]; Reshape ..."; the error's text if it cannot be read.
QString read(const Form &form, const Ints &sizes)
{
    import::FedInput input{{"x", DType::F32, sizes, {}}, false};
    std::size_t count = sizeof(float);
    for (const std::int64_t size : sizes)
        count *= static_cast<std::size_t>(size);
    input.tensor.data.resize(count);
    const auto model = import::readOnnxExactly(fileOf(form), "net.onnx", "/nonexistent", {input});
    if (!model)
        return QString::fromStdString(model.error().text());
    QStringList ops;
    for (const graph::Op &op : model->graph->ops()) {
        QString one = QString::fromStdString(op.type);
        for (const auto &[key, value] : op.attributes)
            one += " " + QString::fromStdString(key) + "=" + text(value);
        for (const TensorId id : op.outputs)
            one += " -> " + QString::fromStdString(model->graph->tensor(id).shape.text());
        ops << one;
    }
    return ops.join("; ");
}

} // namespace

/// One form of each operator for all opsets.
class TestOnnxOpsets : public QObject {
    Q_OBJECT

private slots:
    void sameOperatorInEveryOpset_data()
    {
        QTest::addColumn<Form>("before");
        QTest::addColumn<Form>("after");
        QTest::addColumn<QList<qint64>>("sizes");
        const QList<qint64> three{2, 3, 4};
        QTest::newRow("Squeeze 13") << Form{11, "Squeeze", {{"axes", Ints{1}}}} << Form{13, "Squeeze", {}, {{1}}}
                                    << QList<qint64>{2, 1, 4};
        QTest::newRow("Unsqueeze 13") << Form{11, "Unsqueeze", {{"axes", Ints{0, 3}}}}
                                      << Form{13, "Unsqueeze", {}, {{0, 3}}} << three;
        QTest::newRow("ReduceSum 13") << Form{11, "ReduceSum", {{"axes", Ints{1}}}} << Form{13, "ReduceSum", {}, {{1}}}
                                      << three;
        QTest::newRow("ReduceMean 18") << Form{13, "ReduceMean", {{"axes", Ints{-1}}}}
                                       << Form{18, "ReduceMean", {}, {{-1}}} << three;
        QTest::newRow("ReduceL2 18") << Form{13, "ReduceL2", {{"axes", Ints{1}}}} << Form{18, "ReduceL2", {}, {{1}}}
                                     << three;
        QTest::newRow("ReduceLogSumExp 18")
            << Form{13, "ReduceLogSumExp", {{"axes", Ints{1}}}} << Form{18, "ReduceLogSumExp", {}, {{1}}} << three;
        QTest::newRow("Clip 11") << Form{6, "Clip", {{"min", 0.5}, {"max", 2.0}}}
                                 << Form{11, "Clip", {}, {}, 1, {0.5F, 2}} << three;
        QTest::newRow("Reshape 5") << Form{1, "Reshape", {{"shape", Ints{4, 6}}}} << Form{13, "Reshape", {}, {{4, 6}}}
                                   << three;
        QTest::newRow("Split 13") << Form{11, "Split", {{"axis", std::int64_t{2}}, {"split", Ints{1, 3}}}, {}, 2}
                                  << Form{13, "Split", {{"axis", std::int64_t{2}}}, {{1, 3}}, 2} << three;
        QTest::newRow("Slice 10")
            << Form{9, "Slice", {{"starts", Ints{1}}, {"ends", Ints{3}}, {"axes", Ints{2}}, {"steps", Ints{1}}}}
            << Form{10, "Slice", {}, {{1}, {3}, {2}, {1}}} << three;
        QTest::newRow("Pad 11") << Form{2, "Pad", {{"mode", std::string("reflect")}, {"pads", Ints{0, 1, 0, 0, 0, 2}}}}
                                << Form{11, "Pad", {{"mode", std::string("reflect")}}, {{0, 1, 0, 0, 0, 2}}} << three;
        QTest::newRow("Tile 6") << Form{13, "Tile", {{"repeats", Ints{1, 2, 1}}}} << Form{13, "Tile", {}, {{1, 2, 1}}}
                                << three;
        QTest::newRow("Trilu 14") << Form{14, "Trilu", {{"k", std::int64_t{-1}}}} << Form{14, "Trilu", {}, {{-1}}}
                                  << three;
        QTest::newRow("CumSum 11") << Form{11, "CumSum", {{"axis", std::int64_t{1}}}} << Form{14, "CumSum", {}, {{1}}}
                                   << three;
        QTest::newRow("Softmax of the last 13") << Form{11, "Softmax", {{"axis", std::int64_t{2}}}}
                                                << Form{13, "Softmax", {{"axis", std::int64_t{2}}}} << three;
    }

    void sameOperatorInEveryOpset()
    {
        QFETCH(Form, before);
        QFETCH(Form, after);
        QFETCH(QList<qint64>, sizes);
        const Ints dims(sizes.begin(), sizes.end());
        const QString old = read(before, dims);
        QVERIFY2(old.contains(" -> "), qPrintable(old));
        QCOMPARE(read(after, dims), old);
    }

    /// Before opset 13 softmax took all dimensions from its axis on as one.
    void oldSoftmaxFlattens()
    {
        QCOMPARE(read({11, "Softmax"}, {2, 3, 4}),
                 QString("Flatten axis=1 -> [2, 12]; Softmax axis=1 -> [2, 12]; Reshape batch_axis=-1 shape=[2 3 4] -> "
                         "[2, 3, 4]"));
        QCOMPARE(read({13, "Softmax"}, {2, 3, 4}), QString("Softmax axis=-1 -> [2, 3, 4]"));
    }

    void padsOfSomeAxes()
    {
        QCOMPARE(read({18, "Pad", {}, {{1, 2}, {0}, {-1}}}, {2, 3}), QString("Pad pads=[0 1 0 2] value=0 -> [2, 6]"));
    }

    void emptyAxesMayMeanNothing()
    {
        QCOMPARE(read({13, "ReduceSum", {{"noop_with_empty_axes", std::int64_t{1}}}, {{}}}, {2, 3}),
                 QString("Identity -> [2, 3]"));
        QVERIFY(read({13, "ReduceSum", {}, {{}}}, {2, 3}).endsWith("-> [1, 1]"));
    }

    void newerFunctionsOfOneTensor() { QCOMPARE(read({18, "Mish"}, {2, 3}), QString("Mish -> [2, 3]")); }

    void shapesAreKnownWhileReading()
    {
        QCOMPARE(read({15, "Shape", {{"start", std::int64_t{1}}}}, {2, 3, 4}), QString("Identity -> [2]"));
        QCOMPARE(read({13, "Size"}, {2, 3, 4}), QString("Identity -> []"));
    }

    void saysWhatIsNotConstant()
    {
        Form form{13, "Range"};
        QVERIFY2(read(form, {}).contains("computed at run time"), qPrintable(read(form, {})));
    }

    void outlines()
    {
        const auto outline = import::outlineOf(fileOf({13, "Slice", {}, {{1}, {3}, {2}, {1}}}));
        QVERIFY(outline.ok());
        QCOMPARE(outline->opset, 13);
        QCOMPARE(outline->inputs, std::vector<std::string>{"x"});
        QCOMPARE(outline->operators, std::vector<std::string>{"Slice"});
        QVERIFY(outline->constants.empty());
        QVERIFY(!import::outlineOf("not a model").ok());
    }

    void tensorFiles()
    {
        onnx::TensorProto proto;
        proto.set_data_type(onnx::TensorProto::DOUBLE);
        proto.add_dims(2);
        proto.add_double_data(1.5);
        QVERIFY(!import::readTensorFile(proto.SerializeAsString(), "x.pb").ok());
        proto.add_double_data(1e300);
        const auto tensor = import::readTensorFile(proto.SerializeAsString(), "x.pb");
        QVERIFY(tensor.ok());
        QCOMPARE(tensor->type, DType::F64);
        double second = 0;
        std::memcpy(&second, tensor->data.data() + 8, sizeof second);
        QCOMPARE(second, 1e300);
        proto.set_data_type(onnx::TensorProto::STRING);
        QVERIFY(!import::readTensorFile(proto.SerializeAsString(), "x.pb").ok());
    }
};

QTEST_GUILESS_MAIN(TestOnnxOpsets)
#include "tst_onnx_opsets.moc"

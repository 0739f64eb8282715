// SPDX-License-Identifier: Apache-2.0
// Which loss a model is trained with: by what it ends in, by choice, by what the file computes.
#include "engine/graph/gradients/loss.h"
#include "engine/import/import.h"
#include "engine/import/loss/attach.h"
#include "engine/import/loss/choice.h"

#include <QTest>

using namespace planloom;
using graph::DType;
using graph::GraphBuilder;
using graph::Shape;

namespace {

using Sizes = std::vector<std::int64_t>;

TensorId weight(GraphBuilder &b, const std::string &name, Sizes sizes)
{
    return b.parameter(name, Shape::of(sizes), {});
}

/// "conv" (N, channels, 4, 4) of an image with @p colours.
TensorId convolution(GraphBuilder &b, std::int64_t channels, std::int64_t colours = 1)
{
    const TensorId x = b.input("x", DType::F32, Shape::batched({colours, 4, 4}));
    return b.add("Conv", {x, weight(b, "kernel", {channels, colours, 3, 3})}, {{"pads", Sizes{1, 1, 1, 1}}}, "conv");
}

/// "linear" (N, out).
TensorId linear(GraphBuilder &b, std::int64_t out)
{
    const TensorId x = b.input("x", DType::F32, Shape::batched({5}));
    return b.add("MatMul", {x, weight(b, "w", {5, out})}, {}, "linear");
}

using Maker = TensorId (*)(GraphBuilder &);

struct Net {
    const char *name;
    Maker make;
    const char *ending; ///< the loss's term, or what says that there is none
    const char *targets = "";
};

const Net kNets[] = {
    {"classes", [](GraphBuilder &b) { return linear(b, 3); }, "linear=cross-entropy,axis=1", "labels int64 [N]"},
    {"one number", [](GraphBuilder &b) { return linear(b, 1); }, "!binary-cross-entropy, mse, l1 or huber"},
    {"softmax", [](GraphBuilder &b) { return b.add("Softmax", {linear(b, 3)}, {}, "y"); }, "y=cross-entropy,axis=1",
     "labels int64 [N]"},
    {"log-softmax", [](GraphBuilder &b) { return b.add("LogSoftmax", {linear(b, 3)}, {}, "y"); },
     "y=cross-entropy,axis=1", "labels int64 [N]"},
    {"softmax over pixels",
     [](GraphBuilder &b) {
         return b.add("Softmax", {convolution(b, 3)}, {{"axis", std::int64_t{1}}}, "y");
     },
     "y=cross-entropy,axis=1", "labels int64 [N, 4, 4]"},
    {"sigmoid", [](GraphBuilder &b) { return b.add("Sigmoid", {linear(b, 3)}, {}, "y"); }, "y=binary-cross-entropy",
     "targets float32 [N, 3]"},
    {"tanh", [](GraphBuilder &b) { return b.add("Tanh", {linear(b, 3)}, {}, "y"); }, "!mse, l1 or huber"},
    {"pixels of classes", [](GraphBuilder &b) { return convolution(b, 3); }, "conv=cross-entropy,axis=1",
     "labels int64 [N, 4, 4]"},
    {"pixels like the input's", [](GraphBuilder &b) { return convolution(b, 3, 3); }, "!an image, or classes"},
    {"pixels of one number", [](GraphBuilder &b) { return convolution(b, 1); }, "!one number for each pixel"},
    {"pixels with their classes last",
     [](GraphBuilder &b) {
         return b.add("Transpose", {convolution(b, 3)}, {{"perm", Sizes{0, 2, 3, 1}}}, "y");
     },
     "y=cross-entropy,axis=3", "labels int64 [N, 4, 4]"},
    {"four axes of unknown origin",
     [](GraphBuilder &b) {
         return b.add("Reshape", {linear(b, 8)}, {{"shape", Sizes{1, 2, 2, 2}}, {"batch_axis", std::int64_t{0}}}, "y");
     },
     "!along any axis"},
    {"a scalar",
     [](GraphBuilder &b) {
         return b.add("ReduceMean", {linear(b, 3)}, {{"keepdims", std::int64_t{0}}});
     },
     "", ""},
};

Result<import::Model> modelOf(Maker make, const std::vector<std::string> &chosen = {})
{
    GraphBuilder b("net");
    b.output(make(b));
    auto graph = std::move(b).build();
    if (!graph)
        return graph.error();
    return import::withLoss({std::make_shared<const graph::Graph>(*std::move(graph)), nullptr, "net", {}}, chosen);
}

std::string targetText(const graph::Graph &graph)
{
    std::string text;
    for (const graph::Target &target : graph::targetsOf(graph)) {
        const graph::Tensor &tensor = graph.tensor(target.input);
        text += (text.empty() ? "" : ", ") + tensor.name + " " + graph::name(tensor.type) + " " + tensor.shape.text();
    }
    return text;
}

std::string joined(const std::vector<std::string> &texts)
{
    std::string all;
    for (const std::string &text : texts)
        all += (all.empty() ? "" : " ") + text;
    return all;
}

} // namespace

class TestLossesOfModels : public QObject {
    Q_OBJECT

private slots:
    void endings_data()
    {
        QTest::addColumn<const Net *>("net");
        for (const Net &net : kNets)
            QTest::newRow(net.name) << &net;
    }
    void endings()
    {
        QFETCH(const Net *, net);
        const auto model = modelOf(net->make);
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        const graph::Graph &graph = *model->graph;
        const std::string said = joined(model->warnings);
        QCOMPARE(model->noLoss.empty(), *net->ending != '!');
        QCOMPARE(graph.loss().valid(), *net->ending != '!');
        if (*net->ending == '!') {
            QVERIFY2(model->noLoss.find(net->ending + 1) != std::string::npos, model->noLoss.c_str());
            return;
        }
        QVERIFY2(graph.loss().valid(), said.c_str());
        QCOMPARE(QString::fromStdString(joined(graph.lossOrigin().terms)), QString(net->ending));
        QCOMPARE(QString::fromStdString(targetText(graph)), QString(net->targets));
        QCOMPARE(said.empty(), *net->ending == '\0'); // what is added is said
        for (const graph::Op &op : graph.ops())       // logits are compared, nothing made of them is left
            QVERIFY(op.type != "Softmax" && op.type != "LogSoftmax" && op.type != "Sigmoid");
    }

    /// Read again with what it says of itself, a model is the same.
    void againTheSame_data() { endings_data(); }
    void againTheSame()
    {
        QFETCH(const Net *, net);
        const auto first = modelOf(net->make);
        const auto again = modelOf(net->make, first->graph->lossOrigin().terms);
        QVERIFY2(again.ok(), again ? "" : again.error().text().c_str());
        QCOMPARE(again->graph->ops().size(), first->graph->ops().size());
        QCOMPARE(again->graph->lossOrigin().terms, first->graph->lossOrigin().terms);
        const auto read = graph::graphFromJson(graph::toJson(*first->graph));
        QVERIFY2(read.ok(), read ? "" : read.error().text().c_str());
        QCOMPARE(read->lossOrigin().terms, first->graph->lossOrigin().terms);
        QCOMPARE(read->lossOrigin().kind, first->graph->lossOrigin().kind);
    }

    void choices_data()
    {
        QTest::addColumn<QStringList>("chosen");
        QTest::addColumn<QString>("targets");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *name, const QStringList &chosen, const char *targets, const char *says = "") {
            QTest::newRow(name) << chosen << targets << says;
        };
        row("values", {"mse"}, "targets float32 [N, 3, 4, 4]");
        row("masked", {"huber,delta=0.5,mask"}, "targets float32 [N, 3, 4, 4], mask bool [N, 3, 4, 4]");
        row("multi-label", {"binary-cross-entropy"}, "targets float32 [N, 3, 4, 4]");
        row("classes along another axis", {"conv=cross-entropy,axis=-1"}, "labels int64 [N, 3, 4]");
        row("an unknown name", {"hinge"}, "", "'hinge' is no loss; choose one of cross-entropy");
        row("an unknown setting", {"mse,delta=1"}, "", "'delta' is no setting of mse; it has: weight mask");
        row("a wrong number", {"huber,delta=x"}, "", "'x' is no value of 'delta'");
        row("an unknown output", {"logits=mse"}, "", "outputs of floats are 'conv' [N, 3, 4, 4]");
        row("no classes in the batch", {"cross-entropy,axis=0"}, "", "axis 0 of 'conv'");
        row("no scalar", {"own"}, "", "there is no such output");
        row("one output twice", {"l1", "conv=mse,weight=2"}, "", "'conv' is compared twice");
    }
    void choices()
    {
        QFETCH(QStringList, chosen);
        QFETCH(QString, targets);
        QFETCH(QString, says);
        std::vector<std::string> texts;
        for (const QString &text : chosen)
            texts.push_back(text.toStdString());
        const auto model = modelOf([](GraphBuilder &b) { return convolution(b, 3); }, texts);
        QCOMPARE(model.ok(), says.isEmpty());
        if (!model) {
            QVERIFY2(QString::fromStdString(model.error().message).contains(says), model.error().message.c_str());
            return;
        }
        QCOMPARE(QString::fromStdString(targetText(*model->graph)), targets);
        QCOMPARE(model->graph->lossOrigin().kind, graph::LossOrigin::Kind::Chosen);
    }

    void textsAreReadAgain_data()
    {
        QTest::addColumn<QString>("text");
        for (const char *text : {"mse", "y=cross-entropy,ignore=255,axis=1", "huber,weight=0.5,delta=0.25,mask"})
            QTest::newRow(text) << text;
    }
    void textsAreReadAgain()
    {
        QFETCH(QString, text);
        const auto choice = import::lossFromText(text.toStdString());
        QVERIFY2(choice.ok(), choice ? "" : choice.error().text().c_str());
        QCOMPARE(QString::fromStdString(import::toText(*choice)), text);
    }

    void settingsAreGivenOnce()
    {
        for (const char *text : {"huber,delta=1,delta=2", "mse,mask,mask", "y=l1,weight=1,mask,weight=1"}) {
            const auto choice = import::lossFromText(text);
            QVERIFY(!choice);
            QVERIFY2(choice.error().message.find("is given twice; leave one out") != std::string::npos,
                     choice.error().message.c_str());
        }
    }

    /// Of several outputs the first one is trained, which is said.
    void otherOutputsAreSaid()
    {
        GraphBuilder b("heads");
        const TensorId features = linear(b, 4);
        for (int head = 0; head < 5; ++head)
            b.output(b.add("Gemm", {features, weight(b, "w" + std::to_string(head), {4, 2})}, {},
                           "head" + std::to_string(head)));
        const auto graph = std::move(b).build();
        QVERIFY2(graph.ok(), graph ? "" : graph.error().text().c_str());
        const auto model = import::withLoss({std::make_shared<const graph::Graph>(*graph), nullptr, "net", {}}, {});
        QVERIFY(model.ok() && model->graph->loss().valid());
        const std::string said = joined(model->warnings);
        QVERIFY2(said.find("of 'head0' (2 classes) against the added input 'labels', and nothing of 'head1', 'head2', "
                           "'head3' and 1 more")
                     != std::string::npos,
                 said.c_str());
    }

    /// A sum over the samples differs from slice to slice.
    void sumsAreSaid()
    {
        const auto summed = modelOf([](GraphBuilder &b) {
            return b.add("ReduceSum", {linear(b, 3)}, {{"keepdims", std::int64_t{0}}});
        });
        QVERIFY(summed.ok() && summed->graph->loss().valid());
        QVERIFY(joined(summed->warnings).find("is a sum over the samples") != std::string::npos);
    }

    /// A model with its own loss is not given a second one.
    void ownLossesStay()
    {
        const auto model = import::loadModel("zoo:gpt-nano", {.sequence = 0, .loss = {"mse"}});
        QVERIFY(!model.ok());
        QVERIFY2(model.error().message.find("has its loss already") != std::string::npos,
                 model.error().message.c_str());
    }
};

QTEST_GUILESS_MAIN(TestLossesOfModels)
#include "tst_losses_of_models.moc"

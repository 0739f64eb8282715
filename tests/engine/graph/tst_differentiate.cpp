// SPDX-License-Identifier: Apache-2.0
// Structure of backward passes; their values are checked against finite differences where there are kernels.
#include "engine/graph/gradients/differentiate.h"
#include "engine/graph/layers.h"
#include "engine/graph/operators/operators.h"
#include "engine/graph/zoo/zoo.h"

#include <QTest>

#include <algorithm>
#include <set>

using namespace planloom;
using namespace planloom::graph;

namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kOne = 1;

QString name(const Graph &graph, TensorId id)
{
    return id.valid() ? QString::fromStdString(graph.tensor(id).name) : QString("-");
}

QStringList names(const Graph &graph, const std::vector<TensorId> &ids)
{
    QStringList list;
    for (const TensorId id : ids)
        list << name(graph, id);
    return list;
}

QStringList types(const TrainingGraph &part)
{
    QStringList list;
    for (const Op &op : part.graph.ops().subspan(part.forwardOps))
        list << QString::fromStdString(op.type);
    return list;
}

QString failure(const Result<TrainingGraph> &part)
{
    return part ? QString() : QString::fromStdString(part.error().text());
}

Result<TrainingGraph> whole(const Graph &graph)
{
    const std::vector<TensorId> outputs(graph.outputs().begin(), graph.outputs().end());
    return differentiate(graph, OpId(0), OpId(static_cast<std::int64_t>(graph.ops().size())), {},
                         graph.loss().valid() ? std::vector<TensorId>{} : outputs);
}

/// Invariants of any part.
void verifyPart(const TrainingGraph &part)
{
    const Graph &graph = part.graph;
    const auto isBackward = [&](OpId op) { return op.index() >= part.forwardOps; };
    QCOMPARE(part.gradients.size(), part.parameters.size());
    QCOMPARE(part.inputGradients.size(), part.inputs.size());
    QCOMPARE(part.outputGradients.size(), part.outputs.size());
    std::set<std::int32_t> distinct;
    for (std::size_t i = 0; i < part.gradients.size(); ++i) {
        if (!part.gradients[i].valid())
            continue;
        const Tensor &gradient = graph.tensor(part.gradients[i]);
        const Tensor &parameter = graph.tensor(part.parameters[i]);
        QCOMPARE(QString::fromStdString(gradient.name), QString::fromStdString("grad/" + parameter.name));
        QCOMPARE(gradient.shape, parameter.shape);
        QVERIFY(gradient.producer.valid() && isBackward(gradient.producer));
        QVERIFY(distinct.insert(gradient.id.value).second);
    }
    for (const auto &[tensors, gradients] :
         {std::pair(&part.inputs, &part.inputGradients), std::pair(&part.outputs, &part.outputGradients)})
        for (std::size_t i = 0; i < tensors->size(); ++i)
            if ((*gradients)[i].valid())
                QCOMPARE(graph.tensor((*gradients)[i]).shape, graph.tensor((*tensors)[i]).shape);

    // nothing dead: every backward operator makes something that is read or handed out
    std::vector<TensorId> handedOut = part.gradients;
    handedOut.insert(handedOut.end(), part.inputGradients.begin(), part.inputGradients.end());
    for (const Op &op : graph.ops().subspan(part.forwardOps)) {
        const bool used = std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId id) {
            return !graph.consumers(id).empty() || std::find(handedOut.begin(), handedOut.end(), id) != handedOut.end();
        });
        QVERIFY2(used, op.name.c_str());
    }
    // stash: exactly the forward activations that backward reads
    std::set<std::int32_t> stash;
    for (const TensorId id : part.stash)
        stash.insert(id.value);
    for (const Tensor &tensor : graph.tensors()) {
        const auto readers = graph.consumers(tensor.id);
        const bool kept = tensor.role == TensorRole::Activation && !isBackward(tensor.producer)
            && std::any_of(readers.begin(), readers.end(), isBackward);
        QCOMPARE(stash.count(tensor.id.value) == 1, kept);
    }
}

/// One operator type with the inputs that it is tried on.
struct Row {
    const char *type;
    Attributes attributes;
    std::vector<Shape> inputs; ///< all trained, unless `fixed` has the bit
    std::uint32_t fixed;       ///< bit i: input i is labels, indices or targets
    const char *stash;         ///< what it keeps: "x0 x1 y y1"
    DType fixedType = DType::I64;
};

Shape b(std::initializer_list<std::int64_t> sizes) { return Shape::batched(sizes); }

Shape f(std::initializer_list<std::int64_t> sizes) { return Shape::of(sizes); }

std::vector<Row> rows()
{
    const Attributes axis1{{"axis", kOne}};
    const Attributes last{{"axis", std::int64_t{-1}}, {"epsilon", 1e-5}};
    const Attributes heads{{"heads", std::int64_t{2}}, {"causal", kOne}};
    const Attributes window{{"kernel_shape", Sizes{2, 2}}, {"strides", Sizes{2, 2}}};
    const Attributes reduce{{"axes", Sizes{1}}, {"keepdims", std::int64_t{0}}};
    std::vector<Row> all{
        {"Add", {}, {b({3, 4}), f({4})}, 0, ""},
        {"Sub", {}, {b({3, 4}), f({4})}, 0, ""},
        {"Mul", {}, {b({3, 4}), f({4})}, 0, "x0 x1"},
        {"Div", {}, {b({3, 4}), f({4})}, 0, "x1 y"},
        {"Pow", {}, {b({3}), f({})}, 0, "x0 x1 y"},
        {"Min", {}, {b({3}), f({3})}, 0, "x0 x1"},
        {"Max", {}, {b({3}), f({3})}, 0, "x0 x1"},
        {"Identity", {}, {b({3})}, 0, ""},
        {"Dropout", {{"ratio", 0.0}}, {b({3})}, 0, ""},
        {"Cast", {{"to", std::string("float32")}}, {b({3})}, 0, ""},
        {"Neg", {}, {b({3})}, 0, ""},
        {"Exp", {}, {b({3})}, 0, "y"},
        {"Log", {}, {b({3})}, 0, "x0"},
        {"Reciprocal", {}, {b({3})}, 0, "y"},
        {"LayerNormalization", last, {b({3, 4}), f({4}), f({4})}, 0, "x0 x1 y1 y2"},
        {"RMSNormalization", last, {b({3, 4}), f({4})}, 0, "x0 x1 y1"},
        {"BatchNormalization", {{"epsilon", 1e-5}}, {b({3, 4}), f({3}), f({3}), f({3}), f({3})}, 0, "x0 x1 y1 y2"},
        {"MatMul", {}, {b({3, 4}), f({4, 5})}, 0, "x0 x1"},
        {"MatMul", {{"transB", kOne}}, {b({3, 4}), f({5, 4})}, 0, "x0 x1"},
        {"MatMul", {{"transA", kOne}}, {b({4, 3}), f({4, 5})}, 0, "x0 x1"},
        {"MatMul", {{"transA", kOne}, {"transB", kOne}}, {b({2, 4, 3}), b({1, 5, 4})}, 0, "x0 x1"},
        {"Gemm", {{"transB", kOne}}, {b({4}), f({5, 4}), f({5})}, 0, "x0 x1"},
        {"Gemm", {{"transA", kOne}, {"alpha", 2.0}, {"beta", 0.5}}, {f({4, 3}), f({4, 5}), f({3, 5})}, 0, "x0 x1"},
        {"Attention", heads, {b({3, 12})}, 0, "x0 y y1"},
        {"Attention", {{"heads", std::int64_t{4}}, {"kv_heads", std::int64_t{2}}}, {b({3, 16}), b({3})}, 2, "x0 y y1"},
        {"UnfusedAttention", heads, {b({3, 12})}, 0, "x0 y1 y2 y3"},
        {"MaskedDropout", {{"ratio", 0.5}}, {b({3})}, 0, "y1"},
        {"RotaryEmbedding", heads, {b({3, 12})}, 0, ""},
        {"Conv", {{"strides", Sizes{2, 2}}}, {b({2, 5, 5}), f({3, 2, 3, 3}), f({3})}, 0, "x0 x1"},
        {"MaxPool", window, {b({2, 4, 4})}, 0, "x0 y"},
        {"AveragePool", window, {b({2, 4, 4})}, 0, ""},
        {"GlobalMaxPool", {}, {b({2, 4, 4})}, 0, "x0 y"},
        {"GlobalAveragePool", {}, {b({2, 4, 4})}, 0, ""},
        {"SoftmaxCrossEntropyLoss", {}, {b({5}), b({})}, 2, "x0 y1"},
        {"MeanSquaredErrorLoss", {}, {b({5}), b({5})}, 2, "x0", DType::F32},
        {"MeanAbsoluteErrorLoss", {}, {b({5}), b({5})}, 2, "x0", DType::F32},
        {"HuberLoss", {}, {b({5}), b({5})}, 2, "x0", DType::F32},
        {"SigmoidCrossEntropyLoss", {}, {b({5}), b({5})}, 2, "x0", DType::F32},
        {"Flatten", axis1, {b({3, 4})}, 0, ""},
        {"Reshape", {{"shape", Sizes{-1, 4}}}, {b({3, 4})}, 0, ""},
        {"Squeeze", {{"axes", Sizes{1}}}, {b({1, 4})}, 0, ""},
        {"Unsqueeze", {{"axes", Sizes{0}}}, {b({4})}, 0, ""},
        {"Transpose", {{"perm", Sizes{2, 0, 1}}}, {b({3, 4})}, 0, ""},
        {"Transpose", {}, {b({3, 4})}, 0, ""},
        {"Concat", axis1, {b({3}), b({4})}, 0, ""},
        {"Split", {{"axis", kOne}, {"split", Sizes{1, 2}}}, {b({3})}, 0, ""},
        {"Slice", {{"starts", Sizes{1}}, {"ends", Sizes{3}}, {"axes", Sizes{1}}}, {b({4})}, 0, ""},
        {"Expand", {{"shape", Sizes{1, 5, 4}}, {"batch_axis", std::int64_t{0}}}, {f({4})}, 0, ""},
        {"Tile", {{"repeats", Sizes{1, 3}}}, {b({4})}, 0, ""},
        {"Pad", {{"pads", Sizes{0, 1, 0, 2}}}, {b({4})}, 0, ""},
        {"Pad", {{"pads", Sizes{0, 1, 0, 2}}, {"mode", std::string("reflect")}}, {b({4})}, 0, ""},
        {"Gather", {{"axis", std::int64_t{0}}}, {f({7, 3}), b({2})}, 2, ""},
        {"GatherElements", axis1, {b({3}), b({2})}, 2, ""},
        {"GatherND", {}, {f({7, 3}), b({2})}, 2, ""},
        {"OneHot", {{"depth", std::int64_t{5}}}, {b({2}), f({2})}, 1, ""},
        {"Trilu", {{"upper", std::int64_t{0}}}, {b({3, 3})}, 0, ""},
        {"ReduceSum", reduce, {b({3, 4})}, 0, ""},
        {"ReduceSum", {}, {b({3, 4})}, 0, ""},
        {"ReduceMean", reduce, {b({3, 4})}, 0, ""},
        {"Dropout", {{"ratio", 0.5}}, {b({3})}, 0, ""},
        {"LSTM", {{"layout", kOne}}, {b({5, 3}), f({1, 8, 3}), f({1, 8, 2}), f({1, 16})}, 0, "x0 x1 x2 x3 y y3 y4"},
        {"GRU", {{"layout", kOne}}, {b({5, 3}), f({1, 6, 3}), f({1, 6, 2})}, 0, "x0 x1 x2 y y2 y3"},
        {"RNN", {{"layout", kOne}}, {b({5, 3}), f({1, 2, 3}), f({1, 2, 2})}, 0, "x0 x1 x2 y y2"},
        {"ScatterElements", axis1, {b({6}), b({3}), b({3})}, 2, ""},
        {"ScatterND", {}, {f({7, 3}), f({2, 1}), f({2, 3})}, 2, ""},
        {"TopK", {{"k", std::int64_t{2}}, {"axis", kOne}}, {b({6})}, 0, "y1"},
        {"SpMM", {{"reduce", std::string("mean")}}, {b({}), b({}), b({3})}, 3, ""},
        {"SpMM", {}, {b({}), b({}), b({3}), b({})}, 3, "x2 x3"},
        {"ConvTranspose",
         {{"kernel_shape", Sizes{2, 2}},
          {"strides", Sizes{2, 2}},
          {"shape", Sizes{1, 3, 8, 8}},
          {"batch_axis", std::int64_t{0}}},
         {b({4, 4, 4}), f({4, 3, 2, 2})},
         0,
         "x0 x1"},
        {"ReduceMax", reduce, {b({3, 4})}, 0, "x0 y"},
        {"ReduceMin", reduce, {b({3, 4})}, 0, "x0 y"},
        {"ReduceProd", reduce, {b({3, 4})}, 0, "x0 y"},
        {"CumSum", axis1, {b({3})}, 0, ""},
        {"AddN", {}, {b({3}), b({3}), b({3})}, 0, ""},
    };
    for (const char *type : {"Relu", "Tanh", "Sigmoid", "Sqrt"})
        all.push_back({type, {}, {b({3})}, 0, "y"});
    for (const char *type : {"Softmax", "LogSoftmax"})
        all.push_back({type, axis1, {b({3})}, 0, "y"});
    for (const char *type :
         {"Gelu", "Silu", "Erf",  "Abs",  "LeakyRelu", "Elu",   "Softplus", "HardSwish", "HardSigmoid", "Clip", "Sin",
          "Cos",  "Asin", "Acos", "Atan", "Asinh",     "Acosh", "Atanh",    "Sinh",      "Cosh",        "Mish"})
        all.push_back({type, {}, {b({3})}, 0, "x0"});
    return all;
}

/// `input_i + p_i` feeds the operator as x_i, so that each x_i is an activation that trains.
Result<Graph> graphOf(const Row &row)
{
    GraphBuilder builder("row");
    std::vector<TensorId> inputs;
    for (std::size_t i = 0; i < row.inputs.size(); ++i) {
        const std::string number = std::to_string(i);
        const bool fixed = (row.fixed >> i & 1U) != 0;
        const bool isState = OpType(row.type).traits().isState(i);
        if (isState) {
            inputs.push_back(builder.state("state" + number, row.inputs[i], {}));
            continue;
        }
        const TensorId in = builder.input("in" + number, fixed ? row.fixedType : DType::F32, row.inputs[i]);
        inputs.push_back(
            fixed ? in : builder.add("Add", {in, builder.parameter("p" + number, f({}), {})}, {}, "x" + number));
    }
    std::vector<TensorId> outputs{builder.activation("y")};
    if (std::string(row.type) == "Split")
        outputs.push_back(builder.activation("y_more"));
    builder.addOp(row.type, "y", "", inputs, outputs, row.attributes);
    builder.output(outputs[0]);
    return std::move(builder).build();
}

} // namespace

class TestDifferentiate : public QObject {
    Q_OBJECT

private slots:
    void eachType_data();
    void eachType();
    void everyGradientIsTried();
    void whereKeepsItsCondition();
    void perceptronByHand();
    void tiedTableIsSummed();
    void sharedGradientIsCopiedForParameters();
    void relayedTensors();
    void stagesAgree_data();
    void stagesAgree();
    void gptBlockKeepsLittle();
    void noGradientsWithoutNeed();
    void refuses_data();
    void refuses();
};

void TestDifferentiate::eachType_data()
{
    QTest::addColumn<int>("index");
    const std::vector<Row> all = rows();
    for (int i = 0; i < static_cast<int>(all.size()); ++i)
        QTest::addRow("%s %d", all[static_cast<std::size_t>(i)].type, i) << i;
}

void TestDifferentiate::eachType()
{
    QFETCH(int, index);
    const Row row = rows()[static_cast<std::size_t>(index)];
    const Result<Graph> graph = graphOf(row);
    QVERIFY2(graph.ok(), graph.ok() ? "" : graph.error().message.c_str());
    const Result<TrainingGraph> part = whole(*graph);
    QVERIFY2(part.ok(), qPrintable(failure(part)));
    verifyPart(*part);
    for (const TensorId gradient : part->gradients)
        QVERIFY(gradient.valid());
    QStringList stash = names(part->graph, part->stash).replaceInStrings("y:", "y");
    stash.sort();
    QStringList expected = QString(row.stash).split(' ', Qt::SkipEmptyParts);
    expected.sort();
    QCOMPARE(stash, expected);
}

void TestDifferentiate::everyGradientIsTried()
{
    std::set<std::string> tried{"Where", "Mod"}; // of Mod only the first input is trained
    for (const Row &row : rows())
        tried.insert(row.type);
    for (const Operator &row : operators())
        QVERIFY2(tried.contains(row.type) == (row.gradient.flow == Gradient::Flow::Flows), row.type);
}

void TestDifferentiate::whereKeepsItsCondition()
{
    GraphBuilder builder("where");
    const TensorId p = builder.parameter("p", f({3}), {});
    const TensorId q = builder.parameter("q", f({3}), {});
    const TensorId x = builder.input("x", DType::F32, b({3}));
    const TensorId positive = builder.add("Greater", {x, builder.add("Floor", {p}, {}, "floor")}, {}, "positive");
    builder.output(builder.add("Where", {positive, p, q}, {}, "y"));
    const Result<Graph> graph = std::move(builder).build();
    QVERIFY(graph.ok());
    const Result<TrainingGraph> part = whole(*graph);
    QVERIFY2(part.ok(), qPrintable(failure(part)));
    verifyPart(*part);
    QCOMPARE(names(part->graph, part->stash), QStringList{"positive"});
    QCOMPARE(types(*part), (QStringList{"Where", "ReduceSumTo", "Where", "ReduceSumTo"})); // none for Greater and Floor
}

void TestDifferentiate::perceptronByHand()
{
    const Result<Graph> graph = mlp("mlp", {8, 6, 4});
    const Result<TrainingGraph> part = whole(*graph);
    QVERIFY2(part.ok(), qPrintable(failure(part)));
    verifyPart(*part);
    // the last layer first; a weight's gradient right after its input's; none for the pixels
    QCOMPARE(types(*part),
             (QStringList{"SoftmaxCrossEntropyLossGrad", "MatMul", "MatMulWeightGrad", "ReduceSumTo", "ReluGrad",
                          "MatMulWeightGrad", "ReduceSumTo"}));
    QCOMPARE(part->forwardOps, std::size_t{4});
    QCOMPARE(names(part->graph, part->parameters),
             (QStringList{"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"}));
    QCOMPARE(names(part->graph, part->stash), (QStringList{"layers/0/relu", "layers/1/gemm", "layers/1/loss:1"}));
    QCOMPARE(name(part->graph, part->loss), QString("layers/1/loss"));
    QCOMPARE(name(part->graph, part->lossGradient), QString("grad/layers/1/loss"));
    QCOMPARE(part->graph.tensor(part->lossGradient).role, TensorRole::Input);
    QCOMPARE(part->graph.tensor(part->lossGradient).shape, Shape());
}

void TestDifferentiate::tiedTableIsSummed()
{
    TransformerConfig config{"tiny", 1, 2, 16, 32, 50, 8, true, 0.02};
    const Result<Graph> graph = gpt(config);
    const Result<TrainingGraph> part = whole(*graph);
    QVERIFY2(part.ok(), qPrintable(failure(part)));
    verifyPart(*part);
    const TensorId gradient = part->graph.find("grad/transformer.wte.weight");
    const Op &sum = part->graph.op(part->graph.tensor(gradient).producer);
    QCOMPARE(QString::fromStdString(sum.type), QString("AddN"));
    QCOMPARE(names(part->graph, sum.inputs),
             (QStringList{"grad/transformer.wte.weight#1", "grad/transformer.wte.weight#2"}));
    QCOMPARE(sum.id.index() + 1, part->graph.ops().size());

    config.tiedEmbeddings = false;
    const Result<Graph> untied = gpt(config);
    const Result<TrainingGraph> apart = whole(*untied);
    QVERIFY(apart.ok());
    verifyPart(*apart);
    QCOMPARE(apart->parameters.size(), part->parameters.size() + 1);
}

void TestDifferentiate::sharedGradientIsCopiedForParameters()
{
    // y = p + q: both gradients equal dy, but each accumulates by itself
    GraphBuilder builder("sum");
    const TensorId p = builder.parameter("p", f({3}), {});
    const TensorId q = builder.parameter("q", f({3}), {});
    builder.output(builder.add("Add", {p, q}, {}, "y"));
    const Result<Graph> graph = std::move(builder).build();
    const Result<TrainingGraph> part = whole(*graph);
    QVERIFY2(part.ok(), qPrintable(failure(part)));
    verifyPart(*part);
    QCOMPARE(types(*part), (QStringList{"Identity", "Identity"}));
}

void TestDifferentiate::relayedTensors()
{
    // a passes through stage 1; stage 1 also reads r, and sends it on; s only passes through
    GraphBuilder builder("relay");
    const TensorId x = builder.input("x", DType::F32, b({3}));
    const TensorId ids = builder.activation("ids");
    const TensorId r = builder.add("Mul", {x, builder.parameter("p", f({3}), {})}, {}, "r");
    const TensorId s = builder.add("Mul", {x, builder.parameter("q", f({3}), {})}, {}, "s");
    builder.addOp("ArgMax", "ids", "", {r}, {ids}, {{"axis", kOne}});
    const TensorId t = builder.add("Mul", {r, builder.parameter("w", f({3}), {})}, {}, "t");
    const TensorId picked =
        builder.add("Gather", {builder.parameter("table", f({3, 3}), {}), ids}, {{"axis", std::int64_t{0}}}, "picked");
    TensorId end = builder.add("Add", {builder.add("Add", {r, s}, {}, "rs"), t}, {}, "rst");
    end = builder.add("Add", {builder.add("Squeeze", {picked}, {{"axes", Sizes{1}}}, "row"), end}, {}, "end");
    builder.loss(builder.add("ReduceMean", {end}, {{"keepdims", std::int64_t{0}}}, "loss"));
    const Result<Graph> graph = std::move(builder).build();
    QVERIFY2(graph.ok(), graph.ok() ? "" : graph.error().message.c_str());
    QCOMPARE(name(*graph, graph->loss()), QString("loss"));

    const Result<TrainingGraph> middle = differentiate(*graph, OpId(3), OpId(4), {r, s, ids}, {r, s, ids, t});
    QVERIFY2(middle.ok(), qPrintable(failure(middle)));
    verifyPart(*middle);
    const Graph &g = middle->graph;
    QCOMPARE(names(g, middle->outputGradients), (QStringList{"grad/r", "grad/s", "-", "grad/t"}));
    QCOMPARE(names(g, middle->inputGradients), (QStringList{"grad/r#sum", "grad/s", "-"}));
    QCOMPARE(middle->inputGradients[1], middle->outputGradients[1]); // handed on as it came
    const Op &sum = g.op(g.tensor(middle->inputGradients[0]).producer);
    QCOMPARE(QString::fromStdString(sum.type), QString("AddN"));
    QCOMPARE(sum.inputs.front(), middle->outputGradients[0]);
    QVERIFY(middle->stash.empty()); // r came in: it is an input, not a stash
    QVERIFY(!middle->loss.valid());
}

void TestDifferentiate::stagesAgree_data()
{
    QTest::addColumn<QString>("model");
    for (const char *model : {"gpt", "bert", "llama", "mlp", "resnet50", "vgg19"})
        QTest::newRow(model) << model;
}

void TestDifferentiate::stagesAgree()
{
    // each layer as a separate stage: a stage sends back the gradients that its neighbour waits for, and all parameters
    // are covered
    QFETCH(QString, model);
    const TransformerConfig config{"tiny", 3, 4, 16, 32, 50, 8, true, 0.02};
    const Result<Graph> graph = model == "gpt" ? gpt(config)
        : model == "bert"                      ? bert(config)
        : model == "llama"                     ? llama(config, 2, 10000, 1e-5)
        : model == "mlp"                       ? mlp("mlp", {8, 8, 8, 4})
        : model == "resnet50"                  ? resnet50()
                                               : vgg19();
    QVERIFY(graph.ok());
    const LayerView view = layersOf(*graph);
    std::set<std::string> trained;
    std::vector<QStringList> sentBack(view.size() + 1);
    std::size_t forwardOps = 0;
    for (std::size_t k = view.size(); k-- > 0;) {
        const std::vector<TensorId> outgoing = k + 1 < view.size() ? view.cuts[k + 1] : std::vector<TensorId>{};
        const Result<TrainingGraph> part =
            differentiate(*graph, view.layers[k].first, view.layers[k].last, view.cuts[k], outgoing);
        QVERIFY2(part.ok(), qPrintable(failure(part)));
        verifyPart(*part);
        forwardOps += part->forwardOps;
        QCOMPARE(part->inputGradients.size(), view.cuts[k].size());
        for (std::size_t i = 0; i < part->inputGradients.size(); ++i)
            sentBack[k] << (part->inputGradients[i].valid() ? name(*graph, view.cuts[k][i]) : QString("-"));
        QStringList awaited;
        for (std::size_t i = 0; i < part->outputGradients.size(); ++i)
            awaited << (part->outputGradients[i].valid() ? name(*graph, outgoing[i]) : QString("-"));
        QCOMPARE(awaited, sentBack[k + 1]);
        QCOMPARE(part->loss.valid(), k + 1 == view.size());
        for (std::size_t i = 0; i < part->parameters.size(); ++i)
            if (part->gradients[i].valid())
                trained.insert(part->graph.tensor(part->parameters[i]).name);
    }
    QCOMPARE(forwardOps, graph->ops().size());
    QCOMPARE(trained.size(), graph->withRole(TensorRole::Parameter).size());
}

void TestDifferentiate::gptBlockKeepsLittle()
{
    const Result<Graph> graph = gpt({"gpt", 2, 2, 16, 64, 50, 8, true, 0.02});
    const LayerView view = layersOf(*graph);
    const Result<TrainingGraph> part =
        differentiate(*graph, view.layers[1].first, view.layers[1].last, view.cuts[1], view.cuts[2]);
    QVERIFY2(part.ok(), qPrintable(failure(part)));
    verifyPart(*part);
    QCOMPARE(names(part->graph, part->stash),
             (QStringList{"h/0/ln_1", "h/0/ln_1:1", "h/0/ln_1:2", "h/0/attn/c_attn.bias", "h/0/attn/attention",
                          "h/0/attn/attention:1", "h/0/attn/residual", "h/0/ln_2", "h/0/ln_2:1", "h/0/ln_2:2",
                          "h/0/mlp/c_fc.bias", "h/0/mlp/gelu"}));
    // per token, in floats: ln_1 C, QKV 3C, attention C, residual C, ln_2 C, GELU's input and output 4C each, and
    // statistics
    std::int64_t floats = 0;
    for (const TensorId id : part->stash)
        floats += part->graph.tensor(id).shape.elements(1);
    QCOMPARE(floats, std::int64_t{8 * (15 * 16 + 4 + 2)});
}

void TestDifferentiate::noGradientsWithoutNeed()
{
    // "side" reaches no loss and "scale" depends on no parameter
    GraphBuilder builder("pruned");
    const TensorId x = builder.input("x", DType::F32, b({3}));
    const TensorId scale = builder.add("Exp", {x}, {}, "scale");
    const TensorId p = builder.parameter("p", f({3}), {});
    const TensorId unused = builder.parameter("unused", f({3}), {});
    const TensorId y = builder.add("Mul", {scale, p}, {}, "y");
    builder.output(builder.add("Mul", {y, unused}, {}, "side"));
    const TensorId loss = builder.add("ReduceSum", {y}, {{"keepdims", std::int64_t{0}}}, "loss");
    builder.output(loss);
    builder.loss(loss);
    const Result<Graph> graph = std::move(builder).build();
    const Result<TrainingGraph> part = whole(*graph);
    QVERIFY2(part.ok(), qPrintable(failure(part)));
    verifyPart(*part);
    QCOMPARE(names(part->graph, part->parameters), (QStringList{"p", "unused"}));
    QVERIFY(part->gradients[0].valid());
    QVERIFY(!part->gradients[1].valid());
    QCOMPARE(types(*part), (QStringList{"Reshape", "Expand", "Mul", "ReduceSumTo"}));
    QCOMPARE(names(part->graph, part->stash), QStringList{"scale"});
}

void TestDifferentiate::refuses_data()
{
    QTest::addColumn<QString>("type");
    QTest::addColumn<QString>("message");
    QTest::newRow("unknown") << "FancyOp"
                             << "operator 'y' (FancyOp) has no gradient";
    QTest::newRow("profile") << "ProfiledLayer"
                             << "a layer profile can be planned and simulated only";
    QTest::newRow("second output") << "RMSNormalization"
                                   << "cannot be trained through its second output";
    QTest::newRow("cut") << "cut"
                         << "operator 'y' reads 'h', which does not come into this part";
    QTest::newRow("range") << "range"
                           << "must hold at least one";
    QTest::newRow("leaves") << "leaves"
                            << "'y' leaves this part, but neither comes in";
}

void TestDifferentiate::refuses()
{
    QFETCH(QString, type);
    QFETCH(QString, message);
    const bool isType = type[0].isUpper();
    GraphBuilder builder("refused");
    const TensorId x = builder.input("x", DType::F32, b({3}));
    const TensorId p = builder.parameter("p", f({3}), {});
    const TensorId h = builder.add("Mul", {x, p}, {}, "h");
    std::vector<TensorId> outputs{builder.activation("y", DType::F32, b({3}), true)};
    std::vector<TensorId> inputs{h};
    if (type == "RMSNormalization") {
        inputs.push_back(p);
        outputs.push_back(builder.activation("statistics"));
    }
    builder.addOp(isType ? type.toStdString() : "Relu", "y", "", inputs, outputs, {{"ratio", 0.5}});
    builder.output(outputs.back());
    const Result<Graph> graph = std::move(builder).build();
    QVERIFY2(graph.ok(), graph.ok() ? "" : graph.error().message.c_str());
    const Result<TrainingGraph> part = type == "cut" ? differentiate(*graph, OpId(1), OpId(2), {}, {outputs[0]})
        : type == "range"                            ? differentiate(*graph, OpId(1), OpId(3), {h}, {})
        : type == "leaves"                           ? differentiate(*graph, OpId(0), OpId(1), {}, {outputs[0]})
                                                     : whole(*graph);
    QVERIFY(!part.ok());
    QVERIFY2(failure(part).contains(message), qPrintable(failure(part)));
    QCOMPARE(part.error().code, isType ? ErrorCode::Unsupported : ErrorCode::BadInput);
}

QTEST_GUILESS_MAIN(TestDifferentiate)
#include "tst_differentiate.moc"

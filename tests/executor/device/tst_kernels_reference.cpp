// SPDX-License-Identifier: Apache-2.0
#include "executor/device/operator_cases.h"

#include "engine/graph/operators/operators.h"
#include "executor/device/meanwhile.h"

#include <QtTest/QTest>

#include <omp.h>
#include <set>

using namespace planloom;
using namespace planloom::cases;

namespace {

/// A graph of one operator; its inputs are graph inputs, or states where the operator may write them.
Result<graph::Graph> single(const Case &c)
{
    graph::GraphBuilder builder("case");
    std::vector<TensorId> inputs;
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
        inputs.push_back(c.inputs[i].present
                             ? builder.input("x" + std::to_string(i), c.inputs[i].type, c.inputs[i].shape())
                             : TensorId{});
    std::vector<TensorId> outputs;
    for (int i = 0; i < c.outputs; ++i)
        outputs.push_back(builder.activation("y" + std::to_string(i)));
    builder.addOp(c.type, "op", {}, inputs, outputs, c.attributes);
    for (const TensorId id : outputs)
        builder.output(id);
    return std::move(builder).build();
}

const std::vector<Case> &operatorCases()
{
    static const std::vector<Case> kCases = [] {
        auto cases = allCases();
        const auto more = forwardOnlyCases();
        cases.insert(cases.end(), more.begin(), more.end());
        return cases;
    }();
    return kCases;
}

device::Argument argument(Dims dims, DType type = DType::F32) { return {type, std::move(dims), true}; }

graph::Op makeOp(const char *type, Attributes attributes = {})
{
    graph::Op op;
    op.type = type;
    op.name = "op";
    op.attributes = std::move(attributes);
    return op;
}

} // namespace

class KernelsReference : public QObject {
    Q_OBJECT

private slots:
    void agreesWithReference_data()
    {
        QTest::addColumn<int>("at");
        for (std::size_t i = 0; i < operatorCases().size(); ++i)
            QTest::addRow("%s #%d", operatorCases()[i].name, static_cast<int>(i)) << static_cast<int>(i);
    }

    void agreesWithReference()
    {
        QFETCH(int, at);
        const Case &c = operatorCases()[static_cast<std::size_t>(at)];
        auto graph = single(c);
        QVERIFY2(graph.ok(), graph.ok() ? "" : graph.error().text().c_str());
        Machine machine(*graph);
        Values values(graph->tensors().size());
        for (std::size_t i = 0; i < c.inputs.size(); ++i) {
            const TensorId id = graph->find("x" + std::to_string(i));
            if (!id.valid())
                continue;
            values[id.index()] = valuesOf(c.inputs[i], i + 1);
            machine.set(id, values[id.index()]);
        }
        const std::string problem = machine.run(0, 1);
        QVERIFY2(problem.empty(), problem.c_str());
        runReference(*graph, 0, 1, values);
        for (int i = 0; i < c.outputs; ++i) {
            const TensorId id = graph->find("y" + std::to_string(i));
            const std::string wrong = difference(machine.get(id), values[id.index()], 2e-6, 1e-5);
            QVERIFY2(wrong.empty(), wrong.c_str());
        }
    }

    /// The same bits on every run; for kernels of our own, whatever the number of threads. oneDNN may cut its sums by
    /// threads.
    void sameBitsOnEveryRun()
    {
        for (const Case &c : operatorCases()) {
            const std::string type = c.type;
            const bool byOneDnn = type == "MatMul" || type == "Gemm" || type == "Conv" || type == "LSTM"
                || type == "GRU" || type == "RNN" || type == "ConvTranspose";
            auto graph = single(c);
            QVERIFY2(graph.ok(), c.name);
            std::vector<std::vector<std::byte>> first;
            for (const int threads : {2, 2, 1, 3}) {
                if (byOneDnn && threads != 2)
                    continue;
                omp_set_num_threads(threads);
                Machine machine(*graph);
                for (std::size_t i = 0; i < c.inputs.size(); ++i)
                    if (c.inputs[i].present)
                        machine.set(graph->find("x" + std::to_string(i)), valuesOf(c.inputs[i], i + 1));
                QCOMPARE(machine.run(0, 1), std::string());
                std::vector<std::vector<std::byte>> made;
                for (int i = 0; i < c.outputs; ++i)
                    made.push_back(machine.bytes(graph->find("y" + std::to_string(i))));
                if (first.empty())
                    first = made;
                QVERIFY2(first == made, c.name);
            }
        }
        omp_set_num_threads(omp_get_num_procs());
    }

    void everyForwardKernelHasACase()
    {
        std::set<std::string> covered;
        for (const Case &c : operatorCases())
            covered.insert(c.type);
        for (const std::string &type : device::kernelTypes()) // tst_sharded_graph and tst_fuse run what rewrites make
            QVERIFY2(covered.contains(type) || graph::OpType(type).traits().origin != graph::Origin::Model,
                     type.c_str());
    }

    /// A thread's messages move on between the steps of a recurrent layer.
    void recurrentLayersTakeTurns()
    {
        int outer = 0, turns = 0, layers = 0;
        const device::Meanwhile first([&] { ++outer; });
        for (const Case &c : recurrentCases()) {
            auto graph = single(c);
            QVERIFY2(graph.ok(), c.name);
            Machine machine(*graph);
            for (std::size_t i = 0; i < c.inputs.size(); ++i)
                if (c.inputs[i].present)
                    machine.set(graph->find("x" + std::to_string(i)), valuesOf(c.inputs[i], i + 1));
            const device::Meanwhile second([&] { ++turns; });
            QCOMPARE(machine.run(0, 1), std::string());
            ++layers;
        }
        QVERIFY2(turns >= 4 * layers, qPrintable(QString("%1 turns of %2 layers").arg(turns).arg(layers)));
        QCOMPARE(outer, 0);
        device::Meanwhile::turn();
        QCOMPARE(outer, 1);
    }

    void sumsManyTensors()
    {
        const std::vector<float> a{1, 2, 3}, b{10, 20, 30}, c{100, 200, 300};
        std::vector<float> y(3);
        auto kernel =
            device::makeKernel(makeOp("AddN"), {argument({3}), argument({3}), argument({3})}, {argument({3})});
        QVERIFY(kernel.ok());
        const void *in[] = {a.data(), b.data(), c.data()};
        void *out[] = {y.data()};
        (*kernel)->run(in, out);
        QCOMPARE(y, (std::vector<float>{111, 222, 333}));
    }

    void sumsDownToAShape_data()
    {
        QTest::addColumn<QList<int>>("from");
        QTest::addColumn<QList<int>>("to");
        QTest::newRow("row") << QList<int>{4, 3, 5} << QList<int>{5};
        QTest::newRow("middle") << QList<int>{4, 3, 5} << QList<int>{3, 1};
        QTest::newRow("scalar") << QList<int>{4, 3} << QList<int>{};
        QTest::newRow("outer and inner") << QList<int>{3, 200, 4} << QList<int>{1, 200, 1};
        QTest::newRow("wide") << QList<int>{7, 300} << QList<int>{300};
        QTest::newRow("nothing to do") << QList<int>{2, 3} << QList<int>{2, 3};
    }

    void sumsDownToAShape()
    {
        QFETCH(QList<int>, from);
        QFETCH(QList<int>, to);
        const Dims dims(from.begin(), from.end());
        const Dims target(to.begin(), to.end());
        const Array x = valuesOf(real(dims), 5);
        Array expected(target);
        reference::forEach(dims, [&](const Dims &i) { expected.at(i) += x.at(i); });
        std::vector<float> values(x.values.begin(), x.values.end());
        std::vector<float> y(expected.values.size());
        auto kernel = device::makeKernel(makeOp("ReduceSumTo"), {argument(dims)}, {argument(target)});
        QVERIFY(kernel.ok());
        const void *in[] = {values.data()};
        void *out[] = {y.data()};
        (*kernel)->run(in, out);
        const std::string wrong = difference(fromBytes(DType::F32, target, y.data()), expected, 1e-6, 1e-6);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }

    void computesOnIntegers()
    {
        const std::vector<std::int64_t> a{7, -8, 9}, b{2};
        std::vector<std::int64_t> y(3);
        const void *in[] = {a.data(), b.data()};
        void *out[] = {y.data()};
        const auto run = [&](const char *type) {
            auto kernel = device::makeKernel(makeOp(type), {argument({3}, DType::I64), argument({1}, DType::I64)},
                                             {argument({3}, DType::I64)});
            if (kernel)
                (*kernel)->run(in, out);
            return y;
        };
        QCOMPARE(run("Add"), (std::vector<std::int64_t>{9, -6, 11}));
        QCOMPARE(run("Mul"), (std::vector<std::int64_t>{14, -16, 18}));
        QCOMPARE(run("Div"), (std::vector<std::int64_t>{3, -4, 4}));
        QCOMPARE(run("Min"), (std::vector<std::int64_t>{2, -8, 2}));
    }

    /// Training mode moves the running statistics; momentum is the weight of what was.
    void batchNormTracksStatistics()
    {
        const std::vector<float> x{1, 3, 5, 7}, scale{1}, bias{0};
        std::vector<float> mean{10}, variance{2}, y(4);
        const graph::Op op = makeOp("BatchNormalization", {{"momentum", 0.75}, {"epsilon", 0.0}});
        auto kernel =
            device::makeKernel(op, {argument({4, 1}), argument({1}), argument({1}), argument({1}), argument({1})},
                               {argument({4, 1})});
        QVERIFY(kernel.ok());
        const void *in[] = {x.data(), scale.data(), bias.data(), mean.data(), variance.data()};
        void *out[] = {y.data()};
        (*kernel)->run(in, out);
        QCOMPARE(mean[0], 0.75F * 10.0F + 0.25F * 4.0F);
        QCOMPARE(variance[0], 0.75F * 2.0F + 0.25F * 5.0F); // (9 + 1 + 1 + 9) / 4
        QCOMPARE(y[3], 3.0F / std::sqrt(5.0F));
    }

    void outsideIndicesShowAsNan()
    {
        const std::vector<float> table{1, 2, 3, 4};
        const std::vector<std::int64_t> indices{1, 2, -3};
        std::vector<float> y(6);
        auto kernel =
            device::makeKernel(makeOp("Gather"), {argument({2, 2}), argument({3}, DType::I64)}, {argument({3, 2})});
        QVERIFY(kernel.ok());
        const void *in[] = {table.data(), indices.data()};
        void *out[] = {y.data()};
        (*kernel)->run(in, out);
        QCOMPARE(y[1], 4.0F);
        QVERIFY(std::isnan(y[2]) && std::isnan(y[5]));

        std::vector<float> loss(1);
        auto entropy = device::makeKernel(makeOp("SoftmaxCrossEntropyLoss"),
                                          {argument({2, 2}), argument({2}, DType::I64)}, {argument({})});
        QVERIFY(entropy.ok());
        const void *lossIn[] = {table.data(), indices.data()};
        void *lossOut[] = {loss.data()};
        (*entropy)->run(lossIn, lossOut);
        QVERIFY(std::isnan(loss[0]));
    }

    void saysWhatItCannotDo_data()
    {
        QTest::addColumn<QString>("type");
        QTest::addColumn<QString>("expected");
        QTest::newRow("unknown type") << "Frobnicate"
                                      << "there is no CPU kernel";
        QTest::newRow("wrong shape") << "MatMul"
                                     << "[2, 3] times [2, 3] is not [2, 3]";
        QTest::newRow("too few inputs") << "Where"
                                        << "input 2 is missing";
        QTest::newRow("too many inputs") << "Relu"
                                         << "takes 1 inputs, got 2";
        QTest::newRow("wrong type") << "And"
                                    << "has type float32";
    }

    void saysWhatItCannotDo()
    {
        QFETCH(QString, type);
        QFETCH(QString, expected);
        const bool where = type == "Where";
        const auto kernel = device::makeKernel(makeOp(type.toUtf8().constData()),
                                               {argument({2, 3}, where ? DType::Bool : DType::F32), argument({2, 3})},
                                               {argument({2, 3})});
        QVERIFY(!kernel.ok());
        QVERIFY2(QString::fromStdString(kernel.error().text()).contains(expected), kernel.error().text().c_str());
    }
};

QTEST_GUILESS_MAIN(KernelsReference)
#include "tst_kernels_reference.moc"

// SPDX-License-Identifier: Apache-2.0
#include "executor/device/plugin/library.h"
#include "executor/device/plugin/translate.h"
#include "executor/runtime/tiny_training.h"
#include "gpu/device_training.h"

#include <QTest>

#include <bit>

using namespace planloom;
using namespace planloom::test;

namespace {

const std::string kProcessorLibrary = PLANLOOM_TEST_LIBRARIES "/processor_plugin.so";

/// The operator type that the library refuses from now on; nullptr: none.
void refuse(const char *type)
{
    if (type != nullptr)
        qputenv("PLANLOOM_TEST_HOST_OPERATOR", type);
    else
        qunsetenv("PLANLOOM_TEST_HOST_OPERATOR");
}

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

} // namespace

/// Devices behind a C table.
class TestPlugin : public QObject {
    Q_OBJECT

private slots:
    void cleanup() { refuse(nullptr); }
    void operatorsCrossTheTable();
    void formulasCrossTheTable();
    void errorsCrossTheTable();
    void modelsTrainAsWithoutATable_data();
    void modelsTrainAsWithoutATable();
    void otherLibrariesAreRefused();
    void cudaFindsItsEnvironment();
    void cudaLibraryLoadsWithoutDriver();
};

void TestPlugin::operatorsCrossTheTable()
{
    graph::Op op;
    op.type = "Conv";
    op.name = "stem";
    op.attributes = {{"group", std::int64_t{3}},
                     {"alpha", 0.25},
                     {"mode", std::string("edge")},
                     {"pads", std::vector<std::int64_t>{1, -2}},
                     {"scales", std::vector<double>{0.5, 1e300}}};
    const std::vector<device::Argument> inputs{{graph::DType::BF16, {2, 3}, true, graph::Layout::Blocked},
                                               {graph::DType::I64, {}, false}};
    const device::OperatorText text(op, inputs, {});
    const graph::Op back = device::operatorOf(text.get());
    QCOMPARE(back.type.name(), op.type.name());
    QCOMPARE(back.name, op.name);
    QVERIFY(back.attributes == op.attributes);
    const auto arguments = device::argumentsOf(text.get().inputs, text.get().inputCount);
    QCOMPARE(arguments.size(), std::size_t{2});
    QVERIFY(arguments[0].type == graph::DType::BF16 && arguments[0].layout == graph::Layout::Blocked);
    QVERIFY(arguments[0].dims == inputs[0].dims && arguments[0].present);
    QVERIFY(arguments[1].dims.empty() && !arguments[1].present);
}

void TestPlugin::formulasCrossTheTable()
{
    for (const char *rule : {"adamw", "sgd", "lamb"}) {
        const update::ConfiguredRule configured = *update::ConfiguredRule::named(rule);
        const update::Formula &formula = configured.formula();
        const device::FormulaText text(formula);
        const update::Formula back = device::formulaOf(text.get());
        QCOMPARE(back.rule, formula.rule);
        QVERIFY(back.settings == formula.settings);
        QCOMPARE(back.states, formula.states);
        QCOMPARE(back.norms, formula.norms);
        QCOMPARE(back.nodes.size(), formula.nodes.size());
        for (std::size_t i = 0; i < back.nodes.size(); ++i) {
            const update::Node &a = back.nodes[i];
            const update::Node &b = formula.nodes[i];
            QVERIFY(a.type == b.type && a.each == b.each && a.phase == b.phase && a.index == b.index);
            QVERIFY(a.arguments == b.arguments && bits(a.value) == bits(b.value));
        }
        QCOMPARE(back.stores.size(), formula.stores.size());
        for (std::size_t i = 0; i < back.stores.size(); ++i)
            QVERIFY(back.stores[i].node == formula.stores[i].node && back.stores[i].target == formula.stores[i].target);
    }
}

void TestPlugin::errorsCrossTheTable()
{
    const auto table = device::openLibrary(kProcessorLibrary);
    QVERIFY2(table.ok(), table ? "" : table.error().text().c_str());
    const auto device = device::PluginDevice::open(**table, 1);
    QVERIFY(!device);
    QVERIFY(device.error().code == ErrorCode::NotFound);
    QCOMPARE(device.error().message, std::string("there is one device"));

    const auto opened = device::PluginDevice::open(**table, 0);
    QVERIFY(opened.ok());
    graph::Op op;
    op.type = "MatMul";
    op.name = "product";
    const std::vector<device::Argument> inputs{{graph::DType::F32, {2, 3}}, {graph::DType::F32, {2, 3}}};
    const auto kernel = (*opened)->makeKernel(op, inputs, {inputs.data(), 1});
    QVERIFY(!kernel);
    QVERIFY(kernel.error().code == ErrorCode::BadInput);

    PlanloomError error;
    device::setError(error, failed(std::string(5000, 'x')));
    QCOMPARE(device::errorOf(error).message.size(), sizeof error.text - 1);
}

void TestPlugin::modelsTrainAsWithoutATable_data()
{
    QTest::addColumn<QString>("refused");
    QTest::addColumn<QString>("rule");
    QTest::newRow("all in the library") << ""
                                        << "adamw";
    QTest::newRow("one operator on the host") << "LayerNormalization"
                                              << "adamw";
    QTest::newRow("updates on the host") << "lamb"
                                         << "lamb";
    QTest::newRow("everything on the host") << "*"
                                            << "adamw";
    QTest::newRow("everything on the host, two phases") << "*"
                                                        << "lamb";
}

void TestPlugin::modelsTrainAsWithoutATable()
{
    QFETCH(QString, refused);
    QFETCH(QString, rule);
    const plan::Subject subject = tinySubject(tinyConfig(2, 2), cpus(2));
    plan::Plan plan = planOf(subject, {{StageLayout{}, StageLayout{}}, 8, 4, plan::ScheduleKind::OneF1B, {}});
    plan.optimizer.rule = *update::ConfiguredRule::named(rule.toStdString());
    plan.optimizer.clipNorm = 0.5;
    const Training how{.steps = 3};
    const Outcome expected = trainOnDevices(subject, plan, how, [](std::size_t) { return nullptr; });
    QVERIFY2(expected.problem.empty(), expected.problem.c_str());
    QCOMPARE(expected.losses.size(), std::size_t{3});

    refuse(refused.isEmpty() ? nullptr : refused.toUtf8().constData());
    const auto table = device::openLibrary(kProcessorLibrary);
    QVERIFY2(table.ok(), table ? "" : table.error().text().c_str());
    std::vector<std::unique_ptr<device::PluginDevice>> devices;
    for (int rank = 0; rank < 2; ++rank) {
        auto device = device::PluginDevice::open(**table, 0);
        QVERIFY(device.ok());
        QCOMPARE((*device)->name(), std::string("processor behind a table"));
        devices.push_back(std::move(*device));
    }
    const Outcome outcome = trainOnDevices(subject, plan, how, [&](std::size_t rank) { return devices[rank].get(); });
    QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
    QCOMPARE(outcome.losses.size(), expected.losses.size());
    for (std::size_t step = 0; step < expected.losses.size(); ++step)
        QCOMPARE(bits(outcome.losses[step]), bits(expected.losses[step]));
    QCOMPARE(bits(outcome.evaluation.loss), bits(expected.evaluation.loss));
    QCOMPARE(bits(outcome.evaluation.accuracy), bits(expected.evaluation.accuracy));
    const auto onHost = devices.front()->onHost();
    QCOMPARE(onHost.empty(), refused.isEmpty());
    if (!refused.isEmpty() && refused != "*")
        QVERIFY(onHost.contains(refused.toStdString()));
}

void TestPlugin::otherLibrariesAreRefused()
{
    const auto missing = device::openLibrary("/nonexistent/libplanloom_cuda.so");
    QVERIFY(!missing);
    QVERIFY(missing.error().code == ErrorCode::NotFound);
    const auto other = device::openLibrary("libz.so.1");
    QVERIFY(!other);
    QVERIFY(other.error().code == ErrorCode::Unsupported);
}

/// Each variable as the user has set it, or else as it is needed, from the program's begin on.
void TestPlugin::cudaFindsItsEnvironment()
{
    QVERIFY(!qEnvironmentVariableIsEmpty("CUDA_DEVICE_MAX_CONNECTIONS"));
    QVERIFY(!qEnvironmentVariableIsEmpty("CUDA_DEVICE_ORDER"));
}

void TestPlugin::cudaLibraryLoadsWithoutDriver()
{
#ifdef PLANLOOM_CUDA_LIBRARY
    const auto table = device::openLibrary(PLANLOOM_CUDA_LIBRARY);
    QVERIFY2(table.ok(), table ? "" : table.error().text().c_str());
    PlanloomError why{};
    if ((*table)->devices(&why) > 0)
        QSKIP("this machine has a GPU");
    QVERIFY2(QByteArray(why.text).startsWith("CUDA finds no GPU: "), why.text);
    QVERIFY(!device::PluginDevice::open(**table, 0).ok());
    const auto communication = device::communicationOf(**table);
    QVERIFY2(communication.ok(), communication ? "" : communication.error().text().c_str());
    const std::int32_t version = (*communication)->version(&why); // NCCL answers without a driver, too
    QVERIFY2(version >= 22200 || QByteArray(why.text).contains("libnccl.so.2 is not installed"), why.text);
#else
    QSKIP("built without CUDA's toolkit");
#endif
}

QTEST_GUILESS_MAIN(TestPlugin)
#include "tst_plugin.moc"

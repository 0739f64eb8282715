// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/host_operators.h"
#include "engine/update/configured_rule.h"
#include "engine/update/rule.h"
#include "executor/device/cpu/channel_lanes.h"
#include "executor/device/cuda/graph_convolution.h"
#include "executor/device/cuda/operators.h"
#include "gpu/emulated_gpu.h"
#include "gpu/made_operators.h"
#include "gpu/operator_parity.h"

#include <QTest>

#include <bit>
#include <chrono>
#include <thread>

using namespace planloom;
using namespace planloom::cases;
using namespace planloom::test;
using device::Argument;

/// Operators on the emulated GPU against the processor's.
class TestGpuOperators : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void casesAgree_data();
    void casesAgree();
    void forwardOnlyCasesAgree();
    void fusedOperatorsAgree();
    void madeOperatorsAgree();
    void unalignedRowsAreTurned();
    void rowsOfAnyWidthAgree();
    void imagesWithLastChannelsAgree();
    void masksAreTheProcessors();
    void reordersThereAndBack();
    void scoresAgree();
    void rulesOfUpdateAgree_data();
    void rulesOfUpdateAgree();
    void hostTurnsImages();
    void emulatedGraphsAreStrict();
    void everyKernelWasCompared();
    void copiesOfHostOperatorsWerePredicted();
    void queuesTakeTurns();
    void hostWorkTakesTurns();
    void waitsPutQueuesInOrder();
    void productsHaveEpilogues();
    void withoutLibrariesOthersCompute();
    void cleanupTestCase();

private:
    void compareWithPrediction(const graph::Graph &graph, const graph::Op &op, bool onHost);

    std::unique_ptr<device::PluginDevice> m_gpu;
    std::unique_ptr<OperatorParity> m_parity;
    QStringList m_mispredicted;
    int m_onHost = 0;
    std::int64_t m_convolutions = 0; ///< run by the library
};

void TestGpuOperators::initTestCase()
{
    EmulatedGpu::set({});
    auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY2(gpu.ok(), gpu ? "" : gpu.error().text().c_str());
    m_gpu = std::move(*gpu);
    QCOMPARE(m_gpu->name(), std::string("emulated GPU"));
    m_parity = std::make_unique<OperatorParity>(
        *m_gpu,
        OperatorParity::Watch{[this] { m_convolutions += EmulatedGpu::takeCounts().convolutions; },
                              [this](const graph::Graph &graph, const graph::Op &op, bool onHost) {
                                  compareWithPrediction(graph, op, onHost);
                              }});
}

/// Of an operator that has run: whether the host computed it, and what was copied for that besides the test's own
/// copies of all it reads and writes.
void TestGpuOperators::compareWithPrediction(const graph::Graph &graph, const graph::Op &op, bool onHost)
{
    const EmulatedGpu::Counts counts = EmulatedGpu::takeCounts();
    m_convolutions += counts.convolutions;
    m_onHost += onHost ? 1 : 0;
    const cost::HostCopies own = cost::hostCopies(graph, op, kSamples); // the test copies the same
    const cost::HostCopies expected{2 * own.copies, 2 * own.bytes};
    if (cost::hostComputes(graph, op) != onHost)
        m_mispredicted << QString::fromStdString(op.type.name()) + (onHost ? " runs on the host" : " does not");
    else if (onHost && (counts.copies != expected.copies || counts.bytes != expected.bytes))
        m_mispredicted << QString("%1: %2 copies of %3 bytes, not %4 of %5")
                              .arg(QString::fromStdString(op.type.name()))
                              .arg(counts.copies)
                              .arg(counts.bytes)
                              .arg(expected.copies)
                              .arg(expected.bytes);
}

void TestGpuOperators::casesAgree_data()
{
    QTest::addColumn<int>("at");
    const auto cases = allCases();
    for (std::size_t i = 0; i < cases.size(); ++i)
        QTest::addRow("%s #%d", cases[i].name, static_cast<int>(i)) << static_cast<int>(i);
}

void TestGpuOperators::casesAgree()
{
    QFETCH(int, at);
    const std::string wrong = m_parity->compareTrained(allCases()[static_cast<std::size_t>(at)]);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestGpuOperators::forwardOnlyCasesAgree()
{
    for (const Case &c : forwardOnlyCases()) {
        const std::string wrong = m_parity->compareForward(c);
        QVERIFY2(wrong.empty(), (c.name + (": " + wrong)).c_str());
    }
}

void TestGpuOperators::fusedOperatorsAgree()
{
    for (const bool decoder : {false, true})
        for (const bool half : {false, true}) {
            const std::string wrong = m_parity->compareFused(decoder, half);
            QVERIFY2(wrong.empty(), wrong.c_str());
        }
}

void TestGpuOperators::madeOperatorsAgree()
{
    for (const auto &family : {MadeOperators::ofShards(), MadeOperators::ofIndices(), MadeOperators::ofImages(),
                               MadeOperators::ofAttention(), MadeOperators::ofUnevenPadding()})
        for (const MadeOperator &made : family) {
            const std::string wrong =
                m_parity->compareOperator(made.op, made.inputs, made.outputs, made.values, made.tolerance);
            QVERIFY2(wrong.empty(), wrong.c_str());
        }
    QVERIFY(!m_gpu->onHost().contains("Concat"));
}

/// Products with rows at odd addresses are made of pieces whose rows are aligned.
void TestGpuOperators::unalignedRowsAreTurned()
{
    for (const auto &[rows, odd] : {std::pair(24, 37), std::pair(8, 5), std::pair(16, 61)})
        for (const MadeOperator &made : MadeOperators::ofUnalignedRows(rows, odd)) {
            static_cast<void>(EmulatedGpu::takeCounts());
            const std::string wrong =
                m_parity->compareOperator(made.op, made.inputs, made.outputs, made.values, made.tolerance);
            QVERIFY2(wrong.empty(), wrong.c_str());
            QVERIFY(EmulatedGpu::takeCounts().kernels > 0);
        }
}

void TestGpuOperators::rowsOfAnyWidthAgree()
{
    const auto onHost = m_gpu->onHost();
    for (const bool half : {false, true})
        for (const MadeOperator &made : MadeOperators::ofRows(half)) {
            const std::string wrong =
                m_parity->compareOperator(made.op, made.inputs, made.outputs, made.values, half ? 2e-2 : 1e-4);
            QVERIFY2(wrong.empty(), wrong.c_str());
        }
    QVERIFY(m_gpu->onHost() == onHost);
}

void TestGpuOperators::imagesWithLastChannelsAgree()
{
    m_convolutions = 0;
    for (const Case &c : imageCases()) {
        const std::string wrong = m_parity->compareLastChannels(c);
        QVERIFY2(wrong.empty(), (c.name + (": " + wrong)).c_str());
    }
    QVERIFY(m_convolutions > 0);
}

namespace {

/// @p in through @p op on @p device, in a pass of training.
std::vector<Buffer> drawnOn(device::Device &device, const graph::Op &op, const Argument &argument, const Buffer &in,
                            const std::vector<Argument> &outputs, const device::Draw &draw)
{
    auto kernel = device.makeKernel(op, {&argument, 1}, outputs);
    if (!kernel)
        return {};
    const auto queue = *device.makeQueue();
    const auto event = *device.makeEvent();
    const auto staged = *device.allocate(device::Space::Host, bytesOf(argument));
    const auto x = *device.allocate(device::Space::Device, bytesOf(argument));
    std::copy(in.begin(), in.end(), staged.data());
    queue->copyToDevice(x.data(), staged.data(), bytesOf(argument));
    std::vector<device::Memory> y, host;
    std::vector<void *> out;
    for (const Argument &output : outputs) {
        y.push_back(*device.allocate(device::Space::Device, bytesOf(output)));
        host.push_back(*device.allocate(device::Space::Host, bytesOf(output)));
        out.push_back(y.back().data());
    }
    if ((*kernel)->has(device::DeviceKernel::kDraws))
        queue->begin(**kernel, draw);
    const void *inputs[] = {x.data()};
    queue->run(**kernel, device::Mode::Run, inputs, out);
    for (std::size_t i = 0; i < y.size(); ++i)
        queue->copyToHost(host[i].data(), y[i].data(), bytesOf(outputs[i]));
    queue->record(*event);
    while (!*event->poll())
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    std::vector<Buffer> made;
    for (const device::Memory &memory : host)
        made.emplace_back(memory.data(), memory.data() + memory.bytes());
    return made;
}

} // namespace

void TestGpuOperators::masksAreTheProcessors()
{
    const auto atStart = m_gpu->onHost();
    for (const char *type : {"Dropout", "DropoutGrad"})
        for (const bool training : {false, true}) {
            graph::Op op;
            op.type = graph::OpType(type);
            op.name = "any/" + std::string(type);
            op.attributes = {{"ratio", 0.3}, {"key", std::string("drop")}};
            MadeOperators made;
            const auto x = made.floats({6, 40, 3});
            const device::Draw draw{7, 3, 12, 6, training};
            std::vector<Argument> outputs{x.argument};
            if (type == std::string("Dropout"))
                outputs.push_back({DType::Bool, x.argument.dims, true});
            QVERIFY(drawnOn(*m_gpu, op, x.argument, x.values, outputs, draw)
                    == drawnOn(device::cpuDevice(), op, x.argument, x.values, outputs, draw));
            // Images in blocks, or with channels last: the same masks.
            if (type != std::string("Dropout") || device::blockWidth(graph::Layout::Blocked) == 1)
                continue;
            const auto image = made.floats({6, 32, 2, 3}, true);
            const Argument rows{DType::F32, image.argument.dims, true};
            graph::Op reorder;
            reorder.type = graph::OpType("Reorder");
            reorder.name = "op";
            const auto reordered = [&](device::Device &device, const Argument &from, const Argument &to,
                                       const Buffer &values) {
                return drawnOn(device, reorder, from, values, {to}, draw).at(0);
            };
            std::vector<Buffer> results;
            for (device::Device *device : {static_cast<device::Device *>(m_gpu.get()), &device::cpuDevice()}) {
                const Buffer in = reordered(*device, rows, image.argument, image.values);
                const Buffer out = drawnOn(*device, op, image.argument, in, {image.argument}, draw).at(0);
                results.push_back(reordered(*device, image.argument, rows, out));
            }
            QVERIFY(results[0] == results[1]);
            QVERIFY(results[0] == drawnOn(device::cpuDevice(), op, rows, image.values, {rows}, draw).at(0));
        }
    QVERIFY(m_gpu->onHost() == atStart);
}

void TestGpuOperators::reordersThereAndBack()
{
    MadeOperators made;
    const auto rows = made.floats({2, 16, 3, 5});
    Argument last = rows.argument;
    last.layout = graph::Layout::Blocked;
    graph::Op op;
    op.type = graph::OpType("Reorder");
    op.name = "op";
    const Buffer there = drawnOn(*m_gpu, op, rows.argument, rows.values, {last}, {}).at(0);
    QVERIFY(there == turned(rows.values, rows.argument, true));
    QVERIFY(drawnOn(*m_gpu, op, last, there, {rows.argument}, {}).at(0) == rows.values);
}

void TestGpuOperators::scoresAgree()
{
    using Form = device::ScoredRows::Form;
    constexpr std::int64_t kRows = 300;
    constexpr std::int64_t kWidth = 7;
    MadeOperators made;
    for (const Form form : {Form::Logits, Form::HalfLogits, Form::Statistics}) {
        const std::int64_t width = form == Form::Statistics ? 3 : kWidth;
        Buffer values =
            form == Form::Statistics ? made.positive({kRows, width}).values : made.floats({kRows, width}).values;
        if (form == Form::HalfLogits)
            values = halved(values); // with many equal ones
        std::vector<std::int64_t> labels;
        for (std::int64_t row = 0; row < kRows; ++row)
            labels.push_back(row % 11 == 0 ? -100 : row * 5 % kWidth);
        std::vector<device::RowScores> scores;
        for (device::Device *device : {static_cast<device::Device *>(m_gpu.get()), &device::cpuDevice()}) {
            const auto labelBytes = static_cast<std::int64_t>(labels.size() * sizeof(std::int64_t));
            const auto valueBytes = static_cast<std::int64_t>(values.size());
            const auto queue = *device->makeQueue();
            const auto event = *device->makeEvent();
            const auto x = *device->allocate(device::Space::Device, valueBytes);
            const auto y = *device->allocate(device::Space::Device, labelBytes);
            const auto host = *device->allocate(device::Space::Host, sizeof(device::RowScores));
            queue->copyToDevice(x.data(), values.data(), valueBytes);
            queue->copyToDevice(y.data(), labels.data(), labelBytes);
            const device::ScoredRows rows{form,  x.data(), reinterpret_cast<const std::int64_t *>(y.data()),
                                          kRows, width,    -100};
            queue->score(rows, reinterpret_cast<device::RowScores *>(host.data()));
            queue->record(*event);
            while (!*event->poll())
                std::this_thread::sleep_for(std::chrono::microseconds(20));
            scores.push_back(*reinterpret_cast<const device::RowScores *>(host.data()));
        }
        QCOMPARE(scores[0].rows, scores[1].rows);
        QCOMPARE(scores[0].right, scores[1].right);
        QVERIFY(std::fabs(scores[0].crossEntropy - scores[1].crossEntropy) <= 1e-5 * std::fabs(scores[1].crossEntropy));
    }
}

void TestGpuOperators::rulesOfUpdateAgree_data()
{
    QTest::addColumn<QString>("rule");
    for (const update::Rule &rule : update::allRules())
        QTest::newRow(std::string(rule.name).c_str()) << QString::fromStdString(std::string(rule.name));
}

/// Three steps of several tensors, one of which does not count in norms, on both.
void TestGpuOperators::rulesOfUpdateAgree()
{
    QFETCH(QString, rule);
    const auto configured = update::ConfiguredRule::named(rule.toStdString());
    QVERIFY(configured.ok());
    const update::Formula &formula = configured->formula();
    const std::vector<std::int64_t> counts{1, 511, 9000, 0, 77};
    constexpr std::int64_t kAll = 9589;
    std::vector<std::vector<float>> results;
    std::vector<std::vector<double>> norms;
    for (device::Device *device : {static_cast<device::Device *>(m_gpu.get()), &device::cpuDevice()}) {
        constexpr std::int64_t kTensors = 2 + update::kMostStates;
        const auto memory = *device->allocate(device::Space::Device, kTensors * kAll * 4);
        const auto host = *device->allocate(device::Space::Host, kTensors * kAll * 4);
        const auto queue = *device->makeQueue();
        const auto event = *device->makeEvent();
        auto *floats = reinterpret_cast<float *>(memory.data());
        auto *own = reinterpret_cast<float *>(host.data());
        const auto wait = [&] {
            queue->record(*event);
            while (!*event->poll())
                std::this_thread::sleep_for(std::chrono::microseconds(20));
        };
        const auto wave = [](double phase, std::int64_t i) {
            return static_cast<float>(std::sin(phase + 0.37 * static_cast<double>(i)));
        };
        for (std::int64_t i = 0; i < kAll; ++i)
            own[i] = 0.5F * wave(1, i);
        queue->copyToDevice(memory.data(), host.data(), kTensors * kAll * 4);
        wait();
        std::vector<device::UpdateRange> ranges;
        std::int64_t first = 0;
        for (const std::int64_t count : counts) {
            device::UpdateRange range{.parameter = floats + first, .gradient = floats + kAll + first};
            for (int s = 0; s < formula.states; ++s)
                range.states[static_cast<std::size_t>(s)] = floats + (2 + s) * kAll + first;
            range.count = count;
            range.decay = 0.05F;
            range.rateFactor = first > 0 ? 0.5F : 1.0F;
            range.tensor = static_cast<std::int32_t>(ranges.size());
            range.counts = count != 511;
            ranges.push_back(range);
            first += count;
        }
        auto updates = device->makeUpdates(formula, ranges);
        QVERIFY2(updates.ok(), updates ? "" : updates.error().text().c_str());
        std::vector<double> squares(counts.size() * static_cast<std::size_t>(formula.norms) + 1, 0.0);
        for (std::int64_t step = 1; step <= 3; ++step) {
            for (std::int64_t i = 0; i < kAll; ++i)
                own[i] = 0.2F * wave(10.0 * static_cast<double>(step), i);
            queue->copyToDevice(floats + kAll, own, kAll * 4);
            for (int phase = 0; phase < formula.phases(); ++phase) {
                queue->update(**updates,
                              {.learningRate = 3e-3,
                               .step = step,
                               .gradientScale = 0.5,
                               .phase = phase,
                               .squares = squares.data(),
                               .allSquares = squares.data()});
                wait();
            }
        }
        queue->copyToHost(host.data(), memory.data(), kTensors * kAll * 4);
        wait();
        results.emplace_back(own, own + kTensors * kAll);
        norms.push_back(squares);
    }
    for (std::size_t i = 0; i < results[0].size(); ++i)
        QVERIFY2(std::fabs(results[0][i] - results[1][i]) <= 2e-6F * (1 + std::fabs(results[1][i])),
                 std::to_string(i).c_str());
    for (std::size_t i = 0; i < norms[0].size(); ++i)
        QVERIFY(std::fabs(norms[0][i] - norms[1][i]) <= 1e-5 * (1 + norms[1][i]));
    QVERIFY(!m_gpu->onHost().contains(rule.toStdString()));
}

/// An operator on images with channels last that the GPU has no kernel for.
void TestGpuOperators::hostTurnsImages()
{
    MadeOperators made;
    made.add("MaxPool", {{"kernel_shape", Ints{2, 2}}}, {made.floats({2, 16, 3, 5}, true)},
             {{2, 16, 2, 4}, {2, 16, 2, 4}}, DType::F32, true);
    MadeOperator pool = made.all().front();
    pool.outputs[1] = {DType::I64, {2, 16, 2, 4}, true};
    const std::string wrong = m_parity->compareOperator(pool.op, pool.inputs, pool.outputs, pool.values);
    QVERIFY2(wrong.empty(), wrong.c_str());
    QVERIFY(m_gpu->onHost().contains("MaxPool"));
}

/// The emulated cuDNN refuses what the real one does.
void TestGpuOperators::emulatedGraphsAreStrict()
{
    using namespace planloom::cuda;
    const GraphApi &api = *EmulatedGpu::provider().graphs;
    const std::vector<std::int64_t> dims{2, 4, 5, 6};
    const std::vector<std::int64_t> strides{120, 30, 6, 1};
    /// A tensor without one attribute, or with other strides.
    const auto tensor = [&](GraphAttribute without, const std::vector<std::int64_t> &steps,
                            std::int64_t alignment = 16) {
        GraphPart made(api, GraphObject::Tensor);
        if (without != GraphAttribute::TensorDataType)
            made.set(GraphAttribute::TensorDataType, GraphType::DataType, GraphDataType::Float);
        if (without != GraphAttribute::TensorDimensions)
            made.set(GraphAttribute::TensorDimensions, dims);
        if (without != GraphAttribute::TensorStrides)
            made.set(GraphAttribute::TensorStrides, steps);
        if (without != GraphAttribute::TensorUniqueId)
            made.set(GraphAttribute::TensorUniqueId, std::int64_t{1});
        if (without != GraphAttribute::TensorByteAlignment)
            made.set(GraphAttribute::TensorByteAlignment, alignment);
        return made.finalize();
    };
    constexpr auto kNothing = GraphAttribute::PackWorkspace;
    QVERIFY(tensor(kNothing, strides));
    for (const auto missing :
         {GraphAttribute::TensorDataType, GraphAttribute::TensorDimensions, GraphAttribute::TensorStrides,
          GraphAttribute::TensorUniqueId, GraphAttribute::TensorByteAlignment})
        QVERIFY(!tensor(missing, strides));
    QVERIFY(!tensor(kNothing, {240, 30, 6, 1})); // holes
    QVERIFY(!tensor(kNothing, {120, 30, 6}));
    QVERIFY(!tensor(kNothing, strides, 3));
    GraphPart part(api, GraphObject::Tensor);
    const float one = 1;
    part.set(GraphAttribute::TensorUniqueId, GraphType::Float, 1, &one); // another type
    QVERIFY(!part.finalize());
    GraphPart graph(api, GraphObject::OperationGraph); // of an operation that is not finished
    const GraphPart operation(api, GraphObject::ConvolutionForward);
    GraphHandle handle = nullptr;
    api.create(&handle);
    graph.set(GraphAttribute::HandleOfGraph, GraphType::Handle, 1, &handle);
    graph.set(GraphAttribute::GraphOperations, operation);
    QVERIFY(!graph.finalize());
    api.destroy(handle);
}

void TestGpuOperators::everyKernelWasCompared()
{
    for (const std::string_view type : cuda::operatorTypes())
        if (type != "Reorder" && type != "DropoutGrad") // which have tests of their own
            QVERIFY2(m_parity->seen().contains(std::string(type))
                         && m_parity->seen().at(std::string(type)).onDevice > 0,
                     std::string(type).c_str());
}

/// Of all operators that were compared before.
void TestGpuOperators::copiesOfHostOperatorsWerePredicted()
{
    QCOMPARE(m_mispredicted.join("; "), QString());
    QVERIFY2(m_onHost >= 5, std::to_string(m_onHost).c_str());
}

/// Queues share what operators on the host are staged in, and what products work in.
void TestGpuOperators::queuesTakeTurns()
{
    constexpr std::int64_t kSize = 48;
    constexpr std::size_t kQueues = 3;
    graph::Op product, whole;
    product.type = "MatMul";
    whole.type = "Cast"; // to a type that the host computes in
    product.name = whole.name = "op";
    whole.attributes["to"] = std::string("int32");
    const Argument matrix{DType::F32, {kSize, kSize}};
    const Argument integers{DType::I32, {kSize, kSize}};
    constexpr std::int64_t kBytes = kSize * kSize * 4;
    struct Lane {
        std::unique_ptr<device::Queue> queue;
        std::unique_ptr<device::Event> done;
        std::unique_ptr<device::DeviceKernel> product, whole;
        device::Memory x, y, z, host;
    };
    std::vector<Lane> lanes;
    for (std::size_t i = 0; i < kQueues; ++i) {
        const std::vector<Argument> two{matrix, matrix};
        lanes.push_back(
            {*m_gpu->makeQueue(), *m_gpu->makeEvent(), *m_gpu->makeKernel(product, two, {&matrix, 1}),
             *m_gpu->makeKernel(whole, {&matrix, 1}, {&integers, 1}), *m_gpu->allocate(device::Space::Device, kBytes),
             *m_gpu->allocate(device::Space::Device, kBytes), *m_gpu->allocate(device::Space::Device, kBytes),
             *m_gpu->allocate(device::Space::Host, kBytes)});
    }
    for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i < kQueues; ++i) {
            Lane &lane = lanes[i];
            const auto value = static_cast<float>(i + 1);
            lane.queue->fill(lane.x.data(), std::bit_cast<std::uint32_t>(value), kBytes);
            const void *x[] = {lane.x.data(), lane.x.data()};
            void *y[] = {lane.y.data()};
            const void *floats[] = {lane.y.data()};
            void *z[] = {lane.z.data()};
            lane.queue->run(*lane.product, device::Mode::Run, x, y);
            lane.queue->run(*lane.whole, device::Mode::Run, floats, z);
            lane.queue->copyToHost(lane.host.data(), lane.z.data(), kBytes);
            lane.queue->record(*lane.done);
        }
        for (std::size_t i = 0; i < kQueues; ++i) {
            while (!*lanes[i].done->poll())
                std::this_thread::sleep_for(std::chrono::microseconds(20));
            const auto *z = reinterpret_cast<const std::int32_t *>(lanes[i].host.data());
            for (std::int64_t at = 0; at < kSize * kSize; ++at)
                QCOMPARE(z[at], static_cast<std::int32_t>((i + 1) * (i + 1)) * std::int32_t{kSize});
        }
    }
}

/// Queues whose operators the host computes share one staging block.
void TestGpuOperators::hostWorkTakesTurns()
{
    constexpr std::int64_t kRows = 512;
    constexpr std::int64_t kColumns = 128;
    constexpr std::int64_t kBytes = kRows * kColumns * 4;
    constexpr int kRounds = 12;
    graph::Op sums;
    sums.type = "CumSum";
    sums.name = "op";
    sums.attributes["axis"] = std::int64_t{0};
    const Argument matrix{DType::I32, {kRows, kColumns}};
    struct Lane {
        std::unique_ptr<device::Queue> queue;
        std::unique_ptr<device::Event> done;
        std::unique_ptr<device::DeviceKernel> sums;
        device::Memory x, y, host;
    };
    std::vector<Lane> lanes;
    for (int i = 0; i < 3; ++i)
        lanes.push_back({*m_gpu->makeQueue(), *m_gpu->makeEvent(), *m_gpu->makeKernel(sums, {&matrix, 1}, {&matrix, 1}),
                         *m_gpu->allocate(device::Space::Device, kBytes),
                         *m_gpu->allocate(device::Space::Device, kBytes),
                         *m_gpu->allocate(device::Space::Host, kBytes)});
    for (int round = 0; round < kRounds; ++round)
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            Lane &lane = lanes[i];
            const void *x[] = {lane.x.data()};
            void *y[] = {lane.y.data()};
            lane.queue->fill(lane.x.data(), static_cast<std::uint32_t>(i + 1), kBytes);
            lane.queue->run(*lane.sums, device::Mode::Run, x, y);
            lane.queue->copyToHost(lane.host.data(), lane.y.data(), kBytes);
            lane.queue->record(*lane.done);
            if (round + 1 < kRounds)
                continue;
            while (!*lane.done->poll())
                std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        const auto *y = reinterpret_cast<const std::int32_t *>(lanes[i].host.data());
        for (std::int64_t at = 0; at < kRows * kColumns; ++at)
            QCOMPARE(y[at], static_cast<std::int32_t>((static_cast<std::int64_t>(i) + 1) * (at / kColumns + 1)));
    }
}

void TestGpuOperators::waitsPutQueuesInOrder()
{
    constexpr std::int64_t kBytes = 1 << 20;
    const auto first = *m_gpu->makeQueue();
    const auto second = *m_gpu->makeQueue();
    const auto filled = *m_gpu->makeEvent();
    const auto copied = *m_gpu->makeEvent();
    const auto memory = *m_gpu->allocate(device::Space::Device, kBytes);
    const auto host = *m_gpu->allocate(device::Space::Host, kBytes);
    QVERIFY(*filled->poll()); // never recorded
    for (std::uint32_t round = 1; round < 100; ++round) {
        first->fill(memory.data(), round * 0x01020304U, kBytes);
        first->record(*filled);
        second->wait(*filled);
        second->copyToHost(host.data(), memory.data(), kBytes);
        second->record(*copied);
        first->wait(*copied);
        while (!*copied->poll())
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        std::uint32_t last = 0;
        std::memcpy(&last, host.data() + kBytes - sizeof last, sizeof last);
        QCOMPARE(last, round * 0x01020304U);
    }
}

namespace {

/// Compares the operators of a small GPT, in bfloat16 if @p half, where cuBLASLt has epilogues, or none; how many of
/// them ran, or -1.
std::int64_t epiloguesOf(bool has, bool half)
{
    EmulatedGpu::Settings settings;
    settings.epilogues = has;
    EmulatedGpu::set(settings);
    const auto gpu = std::move(*device::PluginDevice::open(EmulatedGpu::table(), 0));
    OperatorParity parity(*gpu);
    static_cast<void>(EmulatedGpu::takeCounts());
    const std::string wrong = parity.compareFused(false, half);
    if (!wrong.empty())
        qWarning("%s", wrong.c_str());
    const auto onHost = gpu->onHost();
    const bool all =
        std::none_of(onHost.begin(), onHost.end(), [](const auto &each) { return each.first.starts_with("MatMul"); });
    return wrong.empty() && all ? EmulatedGpu::takeCounts().epilogues : -1;
}

} // namespace

/// Biases and GELU are parts of products; kernels of ours where cuBLASLt has no algorithm for that.
void TestGpuOperators::productsHaveEpilogues()
{
    m_parity.reset();
    m_gpu.reset();
    // In each of two layers: three products with a bias, one with GELU.
    for (const bool half : {false, true}) { // biases are float32 in both
        QCOMPARE(epiloguesOf(true, half), std::int64_t{8});
        QCOMPARE(epiloguesOf(false, half), std::int64_t{0});
    }
}

void TestGpuOperators::withoutLibrariesOthersCompute()
{
    m_parity.reset();
    m_gpu.reset();
    EmulatedGpu::Settings settings;
    settings.products = false;
    settings.graphs = false;
    EmulatedGpu::set(settings);
    m_gpu = std::move(*device::PluginDevice::open(EmulatedGpu::table(), 0));
    OperatorParity parity(*m_gpu);
    for (const Case &c : matrixCases()) {
        if (std::string(c.type) != "MatMul")
            continue;
        const std::string wrong = parity.compareTrained(c);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
    QVERIFY(m_gpu->onHost().contains("MatMul"));
    // Convolutions have kernels of ours.
    static_cast<void>(EmulatedGpu::takeCounts());
    for (const Case &c : imageCases())
        for (const bool last : {false, true}) {
            const std::string wrong = last ? parity.compareLastChannels(c) : parity.compareTrained(c);
            QVERIFY2(wrong.empty(), (c.name + (": " + wrong)).c_str());
        }
    for (const MadeOperator &made : MadeOperators::ofImages()) {
        const std::string wrong =
            parity.compareOperator(made.op, made.inputs, made.outputs, made.values, made.tolerance);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
    QVERIFY(!m_gpu->onHost().contains("Conv"));
    QCOMPARE(EmulatedGpu::takeCounts().convolutions, std::int64_t{0});
}

void TestGpuOperators::cleanupTestCase()
{
    m_gpu.reset();
    QCOMPARE(EmulatedGpu::problem(), std::string());
    QCOMPARE(EmulatedGpu::living(), std::int64_t{0});
}

QTEST_GUILESS_MAIN(TestGpuOperators)
#include "tst_gpu_operators.moc"

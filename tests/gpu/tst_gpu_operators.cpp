// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/rewrite/fuse.h"
#include "engine/graph/zoo/zoo.h"
#include "executor/device/cpu/cpu_device.h"
#include "executor/device/cuda/operators.h"
#include "executor/device/plugin/plugin_device.h"
#include "executor/device/trained_case.h"
#include "gpu/emulated_gpu.h"

#include <QTest>

#include <bit>
#include <set>
#include <thread>

using namespace planloom;
using namespace planloom::cases;
using namespace planloom::test;

namespace {

using device::Argument;
using Buffer = std::vector<std::byte>;

std::int64_t bytesOf(const Argument &argument) { return argument.elements() * graph::sizeOf(argument.type); }

/// The outputs of @p op on @p device, twice if it can add: then with the result added to @p before.
Result<std::vector<Buffer>> runOn(device::Device &device, const graph::Op &op, const std::vector<Argument> &inputs,
                                  const std::vector<Argument> &outputs, const std::vector<Buffer> &values,
                                  device::Mode mode, const Buffer &before)
{
    auto kernel = device.makeKernel(op, inputs, outputs);
    if (!kernel)
        return kernel.error();
    const auto queue = *device.makeQueue();
    const auto event = *device.makeEvent();
    std::vector<device::Memory> memory, host;
    const auto place = [&](const Argument &argument) -> std::byte * {
        if (!argument.present)
            return nullptr;
        memory.push_back(*device.allocate(device::Space::Device, bytesOf(argument)));
        host.push_back(*device.allocate(device::Space::Host, bytesOf(argument)));
        return memory.back().data();
    };
    std::vector<const void *> in;
    std::vector<void *> out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        in.push_back(place(inputs[i]));
        if (in.back() == nullptr)
            continue;
        std::copy(values[i].begin(), values[i].end(), host.back().data());
        queue->copyToDevice(memory.back().data(), host.back().data(), bytesOf(inputs[i]));
    }
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        out.push_back(place(outputs[i]));
        at.push_back(memory.size());
        if (mode == device::Mode::Add && i == 0) {
            std::copy(before.begin(), before.end(), host.back().data());
            queue->copyToDevice(memory.back().data(), host.back().data(), bytesOf(outputs[i]));
        }
    }
    queue->run(**kernel, mode, in, out);
    for (std::size_t i = 0; i < outputs.size(); ++i)
        if (outputs[i].present)
            queue->copyToHost(host[at[i] - 1].data(), out[i], bytesOf(outputs[i]));
    queue->record(*event);
    while (true) {
        const auto done = event->poll();
        if (!done)
            return done.error();
        if (*done)
            break;
        std::this_thread::yield();
    }
    std::vector<Buffer> results;
    for (std::size_t i = 0; i < outputs.size(); ++i)
        results.push_back(outputs[i].present
                              ? Buffer(host[at[i] - 1].data(), host[at[i] - 1].data() + bytesOf(outputs[i]))
                              : Buffer());
    return results;
}

Array numbersOf(const Argument &argument, const Buffer &bytes)
{
    if (argument.type != DType::BF16)
        return fromBytes(argument.type, argument.dims, bytes.data());
    Array array(argument.dims);
    for (std::int64_t i = 0; i < array.size(); ++i) {
        const auto *half = reinterpret_cast<const std::uint16_t *>(bytes.data()) + i;
        array[i] = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(*half) << 16));
    }
    return array;
}

/// float32 arguments as bfloat16, where mixed precision would have them so.
Buffer halved(const Buffer &floats)
{
    Buffer made(floats.size() / 2);
    for (std::size_t i = 0; i < made.size() / 2; ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, floats.data() + 4 * i, 4);
        const auto half = static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
        std::memcpy(made.data() + 2 * i, &half, 2);
    }
    return made;
}

} // namespace

/// Operators on the emulated GPU against the processor's.
class TestGpuOperators : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void casesAgree_data();
    void casesAgree();
    void forwardOnlyCasesAgree();
    void fusedOperatorsAgree();
    void everyKernelWasCompared();
    void queuesTakeTurns();
    void hostWorkTakesTurns();
    void waitsPutQueuesInOrder();
    void withoutProductsTheHostComputes();
    void cleanupTestCase();

private:
    /// Runs @p op on both and compares; the difference, or empty.
    std::string compare(const graph::Graph &graph, const graph::Op &op, const std::vector<Buffer> &values, bool half);
    std::string compareAs(const graph::Op &op, const std::vector<Argument> &inputs,
                          const std::vector<Argument> &outputs, const std::vector<Buffer> &values, device::Mode mode,
                          double tolerance);
    /// All operators of a graph, each with what the processor made of those before it.
    std::string compareAll(const graph::Graph &graph, Machine &machine, bool half);

    std::unique_ptr<device::PluginDevice> m_gpu;
    std::set<std::string> m_compared; ///< types that ran on the GPU
};

void TestGpuOperators::initTestCase()
{
    EmulatedGpu::set({});
    auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY2(gpu.ok(), gpu ? "" : gpu.error().text().c_str());
    m_gpu = std::move(*gpu);
    QCOMPARE(m_gpu->name(), std::string("emulated GPU"));
}

std::string TestGpuOperators::compareAs(const graph::Op &op, const std::vector<Argument> &inputs,
                                        const std::vector<Argument> &outputs, const std::vector<Buffer> &values,
                                        device::Mode mode, double tolerance)
{
    const std::map<std::string, std::int64_t> before = m_gpu->onHost();
    Buffer start(outputs[0].present ? static_cast<std::size_t>(bytesOf(outputs[0])) : 0);
    for (std::size_t i = 0; i + 4 <= start.size(); i += 4) {
        const auto x = static_cast<float>(i % 7);
        std::memcpy(start.data() + i, &x, 4);
    }
    const auto got = runOn(*m_gpu, op, inputs, outputs, values, mode, start);
    const auto expected = runOn(device::cpuDevice(), op, inputs, outputs, values, mode, start);
    if (!got || !expected)
        return !got ? got.error().text() : expected.error().text();
    if (m_gpu->onHost() == before)
        m_compared.insert(op.type.name());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (!outputs[i].present)
            continue;
        const std::string wrong =
            difference(numbersOf(outputs[i], (*got)[i]), numbersOf(outputs[i], (*expected)[i]), tolerance, tolerance);
        if (!wrong.empty())
            return op.type + " output " + std::to_string(i) + ": " + wrong;
    }
    return {};
}

std::string TestGpuOperators::compare(const graph::Graph &graph, const graph::Op &op, const std::vector<Buffer> &values,
                                      bool half)
{
    const auto arguments = [&](const std::vector<TensorId> &ids, bool isInput, std::vector<Buffer> *data) {
        std::vector<Argument> made;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            Argument argument{DType::F32, {}, false};
            if (ids[i].valid())
                argument = {graph.tensor(ids[i]).type, graph.tensor(ids[i]).shape.at(kSamples), true};
            // Statistics and sums stay float32 in mixed precision.
            const bool narrows = half && argument.present && argument.type == DType::F32 && (isInput || i == 0)
                && argument.dims.size() > 1;
            if (narrows) {
                argument.type = DType::BF16;
                if (data != nullptr)
                    (*data)[i] = halved((*data)[i]);
            }
            made.push_back(argument);
        }
        return made;
    };
    std::vector<Buffer> data = values;
    const std::vector<Argument> inputs = arguments(op.inputs, true, &data);
    const std::vector<Argument> outputs = arguments(op.outputs, false, nullptr);
    const double tolerance = half ? 2e-2 : 2e-5;
    std::string wrong = compareAs(op, inputs, outputs, data, device::Mode::Run, tolerance);
    const bool adds = op.traits().accumulates && outputs[0].type == DType::F32;
    if (wrong.empty() && adds)
        wrong = compareAs(op, inputs, outputs, data, device::Mode::Add, tolerance);
    return wrong;
}

std::string TestGpuOperators::compareAll(const graph::Graph &graph, Machine &machine, bool half)
{
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
        const graph::Op &op = graph.ops()[i];
        std::vector<Buffer> values;
        for (const TensorId id : op.inputs) {
            values.emplace_back();
            if (!id.valid())
                continue;
            const Buffer &all = machine.bytes(id);
            values.back().assign(all.begin(), all.end() - 1); // the last one is a mark
        }
        if (std::string problem = machine.run(i, i + 1); !problem.empty())
            return problem;
        if (std::string wrong = compare(graph, op, values, half); !wrong.empty())
            return wrong;
    }
    return {};
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
    const Case c = allCases()[static_cast<std::size_t>(at)];
    const TrainedCase trained = TrainedCaseBuilder(c).build();
    QVERIFY2(trained.part.has_value(), trained.problem.c_str());
    Machine machine(trained.part->graph);
    feed(trained, startValues(trained), machine);
    const std::string wrong = compareAll(trained.part->graph, machine, false);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestGpuOperators::forwardOnlyCasesAgree()
{
    for (const Case &c : forwardOnlyCases()) {
        graph::GraphBuilder builder("case");
        std::vector<TensorId> inputs, outputs;
        for (std::size_t i = 0; i < c.inputs.size(); ++i)
            inputs.push_back(builder.input("x" + std::to_string(i), c.inputs[i].type, c.inputs[i].shape()));
        for (int i = 0; i < c.outputs; ++i)
            outputs.push_back(builder.activation("y" + std::to_string(i)));
        builder.addOp(c.type, "op", {}, inputs, outputs, c.attributes);
        for (const TensorId id : outputs)
            builder.output(id);
        const auto graph = std::move(builder).build();
        QVERIFY2(graph.ok(), c.name);
        Machine machine(*graph);
        for (std::size_t i = 0; i < c.inputs.size(); ++i)
            machine.set(graph->find("x" + std::to_string(i)), valuesOf(c.inputs[i], i + 1));
        const std::string wrong = compareAll(*graph, machine, false);
        QVERIFY2(wrong.empty(), (c.name + (": " + wrong)).c_str());
    }
}

void TestGpuOperators::fusedOperatorsAgree()
{
    graph::TransformerConfig config;
    config.layers = 2;
    config.heads = 2;
    config.hidden = 16;
    config.feedForward = 24;
    config.vocabulary = 20;
    config.context = 6;
    for (const bool decoder : {false, true}) {
        const auto model = decoder ? graph::llama(config, 1, 10000, 1e-6) : graph::gpt(config);
        QVERIFY(model.ok());
        const auto training =
            graph::differentiate(*model, OpId(0), OpId(static_cast<std::int64_t>(model->ops().size())), {}, {});
        QVERIFY(training.ok());
        const auto fused = graph::fuse(*training);
        QVERIFY(fused.ok());
        for (const bool half : {false, true}) {
            Machine machine(fused->graph);
            std::uint64_t seed = 1;
            for (const graph::Tensor &tensor : fused->graph.tensors()) {
                if (tensor.role == graph::TensorRole::Activation || tensor.role == graph::TensorRole::Constant)
                    continue;
                const Dims dims = tensor.shape.at(kSamples);
                machine.set(tensor.id, valuesOf(tensor.type == DType::I64 ? index(dims, 20) : real(dims), ++seed));
            }
            const std::string wrong = compareAll(fused->graph, machine, half);
            QVERIFY2(wrong.empty(), wrong.c_str());
        }
    }
}

void TestGpuOperators::everyKernelWasCompared()
{
    for (const std::string_view type : cuda::operatorTypes())
        if (type != "ShardGather") // made by shardings: as Gather
            QVERIFY2(m_compared.contains(std::string(type)), std::string(type).c_str());
}

/// Queues share what operators on the host are staged in, and what products work in.
void TestGpuOperators::queuesTakeTurns()
{
    constexpr std::int64_t kSize = 48;
    constexpr std::size_t kQueues = 3;
    graph::Op product, sums;
    product.type = "MatMul";
    sums.type = "CumSum";
    product.name = sums.name = "op";
    sums.attributes["axis"] = std::int64_t{0};
    const Argument matrix{DType::F32, {kSize, kSize}};
    constexpr std::int64_t kBytes = kSize * kSize * 4;
    struct Lane {
        std::unique_ptr<device::Queue> queue;
        std::unique_ptr<device::Event> done;
        std::unique_ptr<device::DeviceKernel> product, sums;
        device::Memory x, y, z, host;
    };
    std::vector<Lane> lanes;
    for (std::size_t i = 0; i < kQueues; ++i) {
        const std::vector<Argument> two{matrix, matrix};
        lanes.push_back(
            {*m_gpu->makeQueue(), *m_gpu->makeEvent(), *m_gpu->makeKernel(product, two, {&matrix, 1}),
             *m_gpu->makeKernel(sums, {&matrix, 1}, {&matrix, 1}), *m_gpu->allocate(device::Space::Device, kBytes),
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
            const void *summed[] = {lane.y.data()};
            void *z[] = {lane.z.data()};
            lane.queue->run(*lane.product, device::Mode::Run, x, y);
            lane.queue->run(*lane.sums, device::Mode::Run, summed, z);
            lane.queue->copyToHost(lane.host.data(), lane.z.data(), kBytes);
            lane.queue->record(*lane.done);
        }
        for (std::size_t i = 0; i < kQueues; ++i) {
            while (!*lanes[i].done->poll())
                std::this_thread::yield();
            const auto *z = reinterpret_cast<const float *>(lanes[i].host.data());
            for (std::int64_t at = 0; at < kSize * kSize; ++at)
                QCOMPARE(z[at], static_cast<float>((i + 1) * (i + 1)) * kSize * static_cast<float>(at / kSize + 1));
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
    const Argument matrix{DType::F32, {kRows, kColumns}};
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
            lane.queue->fill(lane.x.data(), std::bit_cast<std::uint32_t>(static_cast<float>(i + 1)), kBytes);
            lane.queue->run(*lane.sums, device::Mode::Run, x, y);
            lane.queue->copyToHost(lane.host.data(), lane.y.data(), kBytes);
            lane.queue->record(*lane.done);
            if (round + 1 < kRounds)
                continue;
            while (!*lane.done->poll())
                std::this_thread::yield();
        }
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        const auto *y = reinterpret_cast<const float *>(lanes[i].host.data());
        for (std::int64_t at = 0; at < kRows * kColumns; ++at)
            QCOMPARE(y[at], static_cast<float>((static_cast<std::int64_t>(i) + 1) * (at / kColumns + 1)));
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
            std::this_thread::yield();
        std::uint32_t last = 0;
        std::memcpy(&last, host.data() + kBytes - sizeof last, sizeof last);
        QCOMPARE(last, round * 0x01020304U);
    }
}

void TestGpuOperators::withoutProductsTheHostComputes()
{
    m_gpu.reset();
    EmulatedGpu::Settings settings;
    settings.products = false;
    EmulatedGpu::set(settings);
    m_gpu = std::move(*device::PluginDevice::open(EmulatedGpu::table(), 0));
    for (const Case &c : matrixCases()) {
        if (std::string(c.type) != "MatMul")
            continue;
        const TrainedCase trained = TrainedCaseBuilder(c).build();
        Machine machine(trained.part->graph);
        feed(trained, startValues(trained), machine);
        const std::string wrong = compareAll(trained.part->graph, machine, false);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
    QVERIFY(m_gpu->onHost().contains("MatMul"));
}

void TestGpuOperators::cleanupTestCase()
{
    m_gpu.reset();
    QCOMPARE(EmulatedGpu::problem(), std::string());
    QCOMPARE(EmulatedGpu::living(), std::int64_t{0});
}

QTEST_GUILESS_MAIN(TestGpuOperators)
#include "tst_gpu_operators.moc"

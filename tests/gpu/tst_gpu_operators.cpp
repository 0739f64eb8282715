// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/operators.h"
#include "gpu/emulated_gpu.h"
#include "gpu/operator_parity.h"

#include <QTest>

#include <bit>
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
    void everyKernelWasCompared();
    void queuesTakeTurns();
    void hostWorkTakesTurns();
    void waitsPutQueuesInOrder();
    void withoutProductsTheHostComputes();
    void cleanupTestCase();

private:
    std::unique_ptr<device::PluginDevice> m_gpu;
    std::unique_ptr<OperatorParity> m_parity;
};

void TestGpuOperators::initTestCase()
{
    EmulatedGpu::set({});
    auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY2(gpu.ok(), gpu ? "" : gpu.error().text().c_str());
    m_gpu = std::move(*gpu);
    QCOMPARE(m_gpu->name(), std::string("emulated GPU"));
    m_parity = std::make_unique<OperatorParity>(*m_gpu);
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

void TestGpuOperators::everyKernelWasCompared()
{
    for (const std::string_view type : cuda::operatorTypes())
        if (type != "ShardGather") // made by shardings: as Gather
            QVERIFY2(m_parity->seen().contains(std::string(type))
                         && m_parity->seen().at(std::string(type)).onDevice > 0,
                     std::string(type).c_str());
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
    m_parity.reset();
    m_gpu.reset();
    EmulatedGpu::Settings settings;
    settings.products = false;
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
}

void TestGpuOperators::cleanupTestCase()
{
    m_gpu.reset();
    QCOMPARE(EmulatedGpu::problem(), std::string());
    QCOMPARE(EmulatedGpu::living(), std::int64_t{0});
}

QTEST_GUILESS_MAIN(TestGpuOperators)
#include "tst_gpu_operators.moc"

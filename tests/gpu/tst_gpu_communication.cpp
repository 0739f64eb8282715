// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/zoo/zoo.h"
#include "executor/runtime/tiny_training.h"
#include "gpu/device_training.h"
#include "gpu/emulated_gpu.h"
#include "gpu/emulated_nccl.h"

#include <QTest>

#include <chrono>
#include <numeric>

using namespace planloom;
using namespace planloom::test;
using comm::Collective;
using comm::Element;

namespace {

constexpr int kRanks = 4;
constexpr std::chrono::seconds kLong{240}; ///< on a busy machine, too
#ifdef __SANITIZE_THREAD__                 // a step takes seconds
constexpr std::chrono::seconds kShort{20}; ///< of runs that have to end by it
#else
constexpr std::chrono::seconds kShort{2};
#endif

/// Two convolutions with a residual between, as in a ResNet's block.
Result<graph::Graph> residualNet()
{
    using Ints = std::vector<std::int64_t>;
    graph::GraphBuilder b("small-residual");
    const graph::Initializer init = graph::normal(0.1);
    const graph::Initializer zeros{graph::Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0};
    const graph::Initializer ones{graph::Initializer::Kind::Ones, 0, 0, nullptr, {}, 0};
    const graph::Attributes window{{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}};
    const TensorId x = b.input("x", graph::DType::F32, graph::Shape::batched({3, 8, 8}));
    const TensorId labels = b.input("labels", graph::DType::I64, graph::Shape::batched({}));
    const auto normalized = [&](TensorId y, const std::string &name) {
        return b.add("BatchNormalization",
                     {y, b.parameter(name + ".scale", graph::Shape::of({8}), ones),
                      b.parameter(name + ".bias", graph::Shape::of({8}), zeros),
                      b.state(name + ".mean", graph::Shape::of({8}), zeros),
                      b.state(name + ".variance", graph::Shape::of({8}), ones)},
                     {}, name);
    };
    b.pushScope("stem");
    TensorId y = b.add("Conv", {x, b.parameter("stem.weight", graph::Shape::of({8, 3, 3, 3}), init)}, window, "stem");
    y = b.add("Relu", {normalized(y, "stem.norm")}, {}, "stem.relu");
    b.popScope();
    b.pushScope("block");
    TensorId z = b.add("Conv", {y, b.parameter("block.weight", graph::Shape::of({8, 8, 3, 3}), init)}, window, "block");
    z = b.add("Add", {normalized(z, "block.norm"), y}, {}, "block.sum");
    z = b.add("Relu", {z}, {}, "block.relu");
    b.popScope();
    b.pushScope("head");
    z = b.add("MaxPool", {z}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, "pool");
    z = b.add("Flatten", {z}, {{"axis", std::int64_t{1}}}, "flat");
    z = b.add("Gemm",
              {z, b.parameter("head.weight", graph::Shape::of({8 * 16, 10}), init),
               b.parameter("head.bias", graph::Shape::of({10}), zeros)},
              {}, "head");
    b.loss(b.add("SoftmaxCrossEntropyLoss", {z, labels}, {}, "loss"));
    b.popScope();
    return std::move(b).build();
}

Result<graph::Graph> modelCalled(const QString &name)
{
    if (name == "residual")
        return residualNet();
    if (name == "lstm") {
        graph::LstmConfig config;
        config.layers = 2;
        config.embedding = config.hidden = 24;
        config.vocabulary = 48;
        config.context = 6;
        return graph::lstmLanguageModel(config);
    }
    const graph::TransformerConfig config = tinyConfig(2, 2, false);
    return name == "bert" ? graph::bert(config) : graph::gpt(config);
}

plan::Subject subjectOf(const QString &model)
{
    auto graph = modelCalled(model);
    if (!graph) {
        qWarning("%s", graph.error().text().c_str());
        return {};
    }
    return plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)), cpus(kRanks), nullptr,
                             "zoo:test");
}

/// The emulated NCCL's counts are of what follows.
void countFromHere() { [[maybe_unused]] const EmulatedNccl::Counts before = EmulatedNccl::takeCounts(); }

/// Of 4 ranks.
plan::Plan layoutCalled(const QString &layout, const QString &model, const plan::Subject &subject)
{
    const StageLayout one;
    const StageLayout two{{0.5, 0.5}};
    if (layout == "pipeline") {
        if (subject.layers().size() >= kRanks)
            return planOf(subject, {{one, one, one, one}, 8, 4, plan::ScheduleKind::OneF1B, {}});
        return planOf(subject, {{two, two}, 8, 2, plan::ScheduleKind::OneF1B, {}});
    }
    plan::Plan plan = planOf(subject, {{StageLayout{{0.25, 0.25, 0.25, 0.25}}}, 16, 2, plan::ScheduleKind::OneF1B, {}});
    plan::Stage &stage = plan.stages[0];
    if (layout == "averages") {
        plan.exchange.policy = plan::ExchangePolicy::DelayedAveraging;
        plan.exchange.averaging = {2, 1, 0.25, plan::Merge::Corrected, 0};
        return plan;
    }
    if (layout == "data")
        return plan;
    stage.replicaShares.clear();
    stage.mesh = {kRanks};
    if (layout == "ZeRO 1" || layout == "ZeRO 3") {
        stage.zero = layout == "ZeRO 1" ? 1 : 3;
        return plan;
    }
    stage.mesh = {2, 2}; // replicas by shards
    if (model == "gpt")
        stage.shardings = {{"*.mlp.c_fc.weight", "B,S(1)"},
                           {"*.mlp.c_fc.bias", "B,S(0)"},
                           {"*.mlp.c_proj.weight", "B,S(0)"}};
    else if (model == "bert")
        stage.shardings = {{"*.intermediate.dense.weight", "B,S(0)"}, {"*.intermediate.dense.bias", "B,S(0)"}};
    else
        stage.shardings = {{model == "lstm" ? "*head*weight" : "head.weight", "B,S(0)"}};
    return plan;
}

/// Emulated GPUs 0 to @p count - 1, one for each rank; ranks beyond that share them.
class Gpus {
public:
    Gpus(int count, std::uint64_t seed, bool copies = false)
    {
        EmulatedGpu::Settings settings;
        settings.exports = copies;
        settings.devices = count;
        settings.seed = seed;
        EmulatedGpu::set(settings);
        for (int rank = 0; rank < kRanks; ++rank)
            if (auto gpu = device::PluginDevice::open(EmulatedGpu::table(), rank % count))
                m_gpus.push_back(std::move(*gpu));
    }
    [[nodiscard]] device::PluginDevice *of(std::size_t rank) const { return m_gpus[rank].get(); }

private:
    std::vector<std::unique_ptr<device::PluginDevice>> m_gpus;
};

/// @p work for each of 4 ranks on GPUs of their own and, if @p gpus is nullptr, on processors; their problems.
QStringList onRanks(const Gpus *gpus, const std::function<Status(comm::Communicator &, device::Device &)> &work)
{
    comm::LocalGroup group(kRanks);
    std::vector<std::string> problems(kRanks);
    {
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank < kRanks; ++rank)
            threads.emplace_back([&, rank] {
                const auto inner = group.end(static_cast<int>(rank));
                const auto table = Result<const PlanloomCommunicationTable *>(&EmulatedNccl::table());
                const auto made =
                    runtime::GpuCommunicator::create(*inner, gpus != nullptr ? gpus->of(rank) : nullptr, table, kLong);
                Status done = made ? Status() : Status(made.error());
                if (done)
                    done = *made ? work(**made, *gpus->of(rank)) : work(*inner, device::cpuDevice());
                if (done)
                    done = inner->barrier(kLong);
                if (done && *made)
                    (*made)->leave(kLong);
                if (!done) {
                    problems[rank] = done.error().text();
                    inner->abort(problems[rank]);
                }
            });
    }
    QStringList all;
    for (const std::string &problem : problems)
        if (!problem.empty())
            all << QString::fromStdString(problem);
    return all;
}

/// Device memory with values, and back.
class Block {
public:
    Block(device::Device &device, std::int64_t bytes)
        : m_queue(std::move(*device.makeQueue())),
          m_event(std::move(*device.makeEvent())),
          m_host(std::move(*device.allocate(device::Space::Host, bytes))),
          m_device(std::move(*device.allocate(device::Space::Device, bytes)))
    {
    }
    template <class T>
    void fill(const std::function<T(std::int64_t)> &value)
    {
        for (std::int64_t i = 0; i < m_host.bytes() / static_cast<std::int64_t>(sizeof(T)); ++i)
            reinterpret_cast<T *>(m_host.data())[i] = value(i);
        m_queue->copyToDevice(m_device.data(), m_host.data(), m_host.bytes());
        settle();
    }
    [[nodiscard]] QByteArray bytes()
    {
        m_queue->copyToHost(m_host.data(), m_device.data(), m_host.bytes());
        settle();
        return {reinterpret_cast<const char *>(m_host.data()), static_cast<qsizetype>(m_host.bytes())};
    }
    [[nodiscard]] std::byte *data() const { return m_device.data(); }

private:
    void settle()
    {
        if (!runtime::drain(*m_queue, *m_event, kLong))
            qFatal("a copy fails");
    }
    std::unique_ptr<device::Queue> m_queue;
    std::unique_ptr<device::Event> m_event;
    device::Memory m_host, m_device;
};

std::uint16_t half(float value)
{
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<std::uint16_t>(bits >> 16U);
}

struct CollectiveResults {
    std::vector<QByteArray> values; ///< of a rank, one after the other
    std::array<std::int64_t, cost::kCollectives> sent{};
};

/// All collectives of groups of @p comm, with values that sums are exact of.
Status runCollectives(comm::Communicator &comm, device::Device &device, CollectiveResults &results)
{
    const int rank = comm.rank();
    const std::vector<int> all{0, 1, 2, 3};
    const std::vector<int> pair = rank % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3};
    const auto group = comm.makeGroup(all);
    std::vector<Result<comm::Group>> pairs;
    for (const auto &ranks : {std::vector<int>{0, 2}, std::vector<int>{1, 3}})
        pairs.push_back(comm.makeGroup(ranks));
    if (!group || !pairs[0] || !pairs[1])
        return failed("no groups");
    if (const Status settled = comm.settle(kLong); !settled)
        return settled;
    const comm::Group two = *pairs[static_cast<std::size_t>(rank % 2)];
    constexpr std::int64_t kCount = 40000; // more than a piece of a message
    Block floats(device, kCount * 4);
    Block halves(device, kCount * 2);
    Block doubles(device, 8 * 8);
    Block wide(device, kCount * 4);
    Block target(device, kCount * 4);
    std::vector<Result<comm::Request>> under;
    const auto finish = [&]() -> Status {
        for (auto &request : under) {
            if (!request)
                return request.error();
            if (const Status done = comm.wait(*request, kLong, "a collective"); !done)
                return done;
        }
        under.clear();
        return {};
    };
    const auto keep = [&](std::initializer_list<Block *> blocks) {
        for (Block *block : blocks)
            results.values.push_back(block->bytes());
    };
    const auto numbers = [&](std::int64_t i) { return static_cast<float>((i * 7 + rank * 3) % 64 - 20); };
    floats.fill<float>(numbers);
    halves.fill<std::uint16_t>([&](std::int64_t i) { return half(static_cast<float>((i + rank) % 16)); });
    doubles.fill<double>([&](std::int64_t i) { return static_cast<double>(i + rank) * 0.125; });
    wide.fill<float>(numbers);
    // Several under way at once, of two groups.
    under.push_back(comm.allReduce(*group, Element::Float32, floats.data(), kCount));
    under.push_back(comm.allReduce(two, Element::BFloat16, halves.data(), kCount));
    under.push_back(comm.allReduce(*group, Element::Float64, doubles.data(), 8));
    under.push_back(comm.reduceScatter(two, Element::Float32, wide.data(), target.data(), kCount / 2));
    if (const Status done = finish(); !done)
        return done;
    keep({&floats, &halves, &doubles, &target});
    target.fill<float>(numbers);
    const std::int64_t part = kCount * 4 / 4;
    under.push_back(comm.allGather(*group, target.data() + rank * part, target.data(), part));
    if (const Status done = finish(); !done)
        return done;
    keep({&target});
    floats.fill<float>(numbers);
    under.push_back(comm.allToAll(*group, floats.data(), target.data(), part));
    if (const Status done = finish(); !done)
        return done;
    keep({&target});
    // Member i gets 100 * (rank + i) bytes from this one; some nothing.
    std::vector<std::int64_t> to, from;
    for (int peer = 0; peer < kRanks; ++peer) {
        to.push_back(peer == 1 && rank == 2 ? 0 : 100 * (rank + peer));
        from.push_back(rank == 1 && peer == 2 ? 0 : 100 * (rank + peer));
    }
    target.fill<float>([](std::int64_t) { return 0.0F; });
    under.push_back(comm.allToAll(*group, floats.data(), to, target.data(), from));
    if (const Status done = finish(); !done)
        return done;
    keep({&target});
    floats.fill<float>(numbers);
    under.push_back(comm.broadcast(*group, 2, floats.data(), kCount * 4));
    if (const Status done = finish(); !done)
        return done;
    keep({&floats});
    for (std::size_t kind = 0; kind < cost::kCollectives; ++kind)
        results.sent[kind] = comm.bytesSent(static_cast<Collective>(kind));
    return {};
}

} // namespace

/// Communication between emulated GPUs by the emulated NCCL, against processors.
class TestGpuCommunication : public QObject {
    Q_OBJECT

private slots:
    void init() { EmulatedNccl::set({}); }
    void cleanup();
    void collectivesAreThoseOfProcessors();
    void messagesFindTheirReceives();
    void layoutsTrainAsProcessors_data();
    void layoutsTrainAsProcessors();
    void othersGoThroughTheHost_data();
    void othersGoThroughTheHost();
    void ranksShareAGpuByCopies_data();
    void ranksShareAGpuByCopies();
    void pathsAreNamed();
    void teamsAreAbortedTogether();
    void membersThatEndAwaitTheirReaders();
    void asynchronousErrorsEndTheRun();
    void membersThatAreGoneEndTheRun();
    void communicatorsThatAreNeverReadyEndTheRun();
    void brokenDevicesEndTheRun();
    void oldLibrariesAreNamed();
};

void TestGpuCommunication::cleanup()
{
    countFromHere();
    QCOMPARE(EmulatedGpu::problem(), std::string());
    QCOMPARE(EmulatedNccl::living(), std::int64_t{0});
    QCOMPARE(EmulatedNccl::problem(), std::string());
}

void TestGpuCommunication::collectivesAreThoseOfProcessors()
{
    std::vector<CollectiveResults> expected(kRanks);
    QCOMPARE(onRanks(nullptr,
                     [&](comm::Communicator &comm, device::Device &device) {
                         return runCollectives(comm, device, expected[static_cast<std::size_t>(comm.rank())]);
                     }),
             QStringList());
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
        const bool copies = seed == 4; // all on one GPU
        const Gpus gpus(copies ? 1 : kRanks, seed, copies);
        std::vector<CollectiveResults> results(kRanks);
        countFromHere();
        QCOMPARE(onRanks(&gpus,
                         [&](comm::Communicator &comm, device::Device &device) {
                             return runCollectives(comm, device, results[static_cast<std::size_t>(comm.rank())]);
                         }),
                 QStringList());
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            QCOMPARE(results[rank].values.size(), expected[rank].values.size());
            for (std::size_t i = 0; i < results[rank].values.size(); ++i)
                QVERIFY2(results[rank].values[i] == expected[rank].values[i],
                         qPrintable(QString("rank %1, result %2").arg(rank).arg(i)));
            auto sent = expected[rank].sent; // the ids of the teams are sent besides
            sent[static_cast<std::size_t>(Collective::Broadcast)] =
                results[rank].sent[static_cast<std::size_t>(Collective::Broadcast)];
            QVERIFY(results[rank].sent == sent);
        }
        const EmulatedNccl::Counts counts = EmulatedNccl::takeCounts();
        if (copies) {
            QCOMPARE(counts.collectives, std::int64_t{0});
            continue;
        }
        QCOMPARE(counts.collectives, std::int64_t{kRanks * 6});
        QVERIFY(counts.delayed > 0 && counts.messages > 0 && counts.registered > 0);
        QCOMPARE(counts.left, std::int64_t{kRanks * 2});
        QCOMPARE(counts.aborted, std::int64_t{0});
    }
}

/// In another order than they are sent, from two ranks at once, in groups.
void TestGpuCommunication::messagesFindTheirReceives()
{
    for (const std::uint64_t seed : {1U, 2U}) {
        const bool copies = seed == 2; // all on one GPU
        const Gpus gpus(copies ? 1 : kRanks, seed, copies);
        countFromHere();
        const auto work = [](comm::Communicator &comm, device::Device &device) -> Status {
            const int next = (comm.rank() + 1) % kRanks;
            const int before = (comm.rank() + kRanks - 1) % kRanks;
            const std::array to{next, before};
            if (const Status connected = comm.connect(to, to); !connected)
                return connected;
            if (const Status settled = comm.settle(kLong); !settled)
                return settled;
            constexpr std::int64_t kBytes = 120000;
            Block out(device, 3 * kBytes);
            out.fill<std::uint8_t>(
                [&](std::int64_t i) { return static_cast<std::uint8_t>(i / kBytes * 50 + i % 13 + 3 * comm.rank()); });
            for (const auto &[peer, source] : {std::pair(next, before), std::pair(before, next)}) {
                Block in(device, 3 * kBytes);
                std::vector<comm::Request> requests;
                for (const int number : {2, 0, 1}) { // messages 2, 0, 1 are expected
                    const auto request = comm.irecv(in.data() + number * kBytes, kBytes, source, 10 + number);
                    if (!request)
                        return request.error();
                    requests.push_back(*request);
                }
                for (const int number : {0, 1, 2}) {
                    const auto request = comm.isend(out.data() + number * kBytes, kBytes, peer, 10 + number);
                    if (!request)
                        return request.error();
                    requests.push_back(*request);
                }
                for (comm::Request &request : requests)
                    if (const Status done = comm.wait(request, kLong, "a message"); !done)
                        return done;
                const QByteArray got = in.bytes();
                for (std::int64_t i = 0; i < got.size(); ++i)
                    if (static_cast<std::uint8_t>(got.at(i))
                        != static_cast<std::uint8_t>(i / kBytes * 50 + i % 13 + 3 * source))
                        return failed("byte " + std::to_string(i) + " is wrong");
            }
            return {};
        };
        QCOMPARE(onRanks(&gpus, work), QStringList());
        const EmulatedNccl::Counts counts = EmulatedNccl::takeCounts();
        QCOMPARE(counts.messages, copies ? std::int64_t{0} : std::int64_t{kRanks * 2 * 6});
        QVERIFY(copies || counts.groups < counts.messages);
    }
}

void TestGpuCommunication::layoutsTrainAsProcessors_data()
{
    QTest::addColumn<QString>("model");
    QTest::addColumn<QString>("layout");
    for (const char *model : {"gpt", "bert", "lstm", "residual"})
        for (const char *layout : {"data", "tensor", "pipeline", "ZeRO 3"})
            QTest::addRow("%s, %s", model, layout) << model << layout;
    for (const char *layout : {"ZeRO 1", "averages"})
        QTest::addRow("gpt, %s", layout) << "gpt" << layout;
}

void TestGpuCommunication::layoutsTrainAsProcessors()
{
    QFETCH(QString, model);
    QFETCH(QString, layout);
    const plan::Subject subject = subjectOf(model);
    QVERIFY(subject.graph != nullptr);
    const plan::Plan plan = layoutCalled(layout, model, subject);
    const Training how{.steps = 5};
    const Outcome expected = trainOnDevices(subject, plan, how, [](std::size_t) { return nullptr; });
    QVERIFY2(expected.problem.empty(), expected.problem.c_str());
    QCOMPARE(expected.losses.size(), std::size_t{5});
    const Gpus gpus(kRanks, 7);
    countFromHere();
    const Outcome outcome = trainOnDevices(subject, plan, how, [&](std::size_t rank) { return gpus.of(rank); }, {},
                                           {&EmulatedNccl::table()});
    const std::string wrong = differs(outcome, expected.losses);
    QVERIFY2(wrong.empty(), wrong.c_str());
    QVERIFY2(std::fabs(outcome.evaluation.loss - expected.evaluation.loss) <= 1e-4 * expected.evaluation.loss,
             qPrintable(QString("%1, not %2").arg(outcome.evaluation.loss).arg(expected.evaluation.loss)));
    QVERIFY(outcome.peaks == expected.peaks); // as planned: trainOnDevices compares
    QVERIFY(outcome.collectiveBytes == expected.collectiveBytes);
    const EmulatedNccl::Counts counts = EmulatedNccl::takeCounts();
    QVERIFY(counts.collectives + counts.messages > 0);
    QVERIFY(layout != "pipeline" || counts.messages > 0);
    QCOMPARE(counts.aborted, std::int64_t{0});
}

void TestGpuCommunication::othersGoThroughTheHost_data()
{
    QTest::addColumn<int>("devices");
    QTest::addColumn<bool>("missing");
    QTest::addColumn<int>("processor");
    QTest::newRow("4 ranks on 2 GPUs, replicas by NCCL, stages through the host") << 2 << false << -1;
    QTest::newRow("4 ranks on 1 GPU") << 1 << false << -1;
    QTest::newRow("no NCCL") << 4 << true << -1;
    QTest::newRow("a processor among them") << 4 << false << 1;
}

void TestGpuCommunication::othersGoThroughTheHost()
{
    QFETCH(int, devices);
    QFETCH(bool, missing);
    QFETCH(int, processor);
    EmulatedNccl::Faults faults;
    faults.missing = missing;
    EmulatedNccl::set(faults);
    const plan::Subject subject = subjectOf("gpt");
    const StageLayout two{{0.5, 0.5}};
    const plan::Plan plan = planOf(subject, {{two, two}, 8, 2, plan::ScheduleKind::GPipe, {}});
    const Training how{.steps = 3};
    const Outcome expected = trainOnDevices(subject, plan, how, [](std::size_t) { return nullptr; });
    const Gpus gpus(devices, 5);
    countFromHere();
    const Outcome outcome =
        trainOnDevices(subject, plan, how,
                       [&](std::size_t rank) { return static_cast<int>(rank) == processor ? nullptr : gpus.of(rank); },
                       {}, {&EmulatedNccl::table()});
    const std::string wrong = differs(outcome, expected.losses);
    QVERIFY2(wrong.empty(), wrong.c_str());
    const EmulatedNccl::Counts counts = EmulatedNccl::takeCounts();
    QCOMPARE(counts.collectives > 0, devices > 1 && !missing);
    QCOMPARE(counts.messages > 0, processor >= 0); // ranks 0 and 2, 3 have GPUs of their own
}

void TestGpuCommunication::ranksShareAGpuByCopies_data()
{
    QTest::addColumn<QString>("layout");
    QTest::addColumn<bool>("missing");
    QTest::newRow("replicas and no NCCL") << "data" << true;
    QTest::newRow("shards") << "tensor" << false;
    QTest::newRow("stages") << "pipeline" << false;
    QTest::newRow("ZeRO 3") << "ZeRO 3" << false;
}

void TestGpuCommunication::ranksShareAGpuByCopies()
{
    QFETCH(QString, layout);
    QFETCH(bool, missing);
    EmulatedNccl::Faults faults;
    faults.missing = missing;
    EmulatedNccl::set(faults);
    const plan::Subject subject = subjectOf("gpt");
    const plan::Plan plan = layoutCalled(layout, "gpt", subject);
    const Training how{.steps = 3};
    const Outcome expected = trainOnDevices(subject, plan, how, [](std::size_t) { return nullptr; });
    const Gpus gpus(1, 5, true);
    countFromHere();
    Outcome before;
    for (int time = 0; time < 2; ++time) {
        const Outcome outcome = trainOnDevices(subject, plan, how, [&](std::size_t rank) { return gpus.of(rank); }, {},
                                               {&EmulatedNccl::table()});
        const std::string wrong = differs(outcome, expected.losses);
        QVERIFY2(wrong.empty(), wrong.c_str());
        QVERIFY(outcome.peaks == expected.peaks);
        QVERIFY(outcome.collectiveBytes == expected.collectiveBytes);
        QVERIFY(time == 0 || outcome.losses == before.losses);
        before = outcome;
    }
    const EmulatedNccl::Counts counts = EmulatedNccl::takeCounts();
    QCOMPARE(counts.collectives + counts.messages, std::int64_t{0});
}

void TestGpuCommunication::pathsAreNamed()
{
    const auto gpu = [](std::int32_t version, const char *name) {
        runtime::GpuMember member;
        member.onGpu = 1;
        member.version = version;
        std::strncpy(member.identity.data(), name, member.identity.size() - 1);
        return member;
    };
    const auto shared = [&](std::int32_t version) {
        runtime::GpuMember member = gpu(version, "a");
        member.shares = 1;
        return member;
    };
    const runtime::GpuMember processor;
    bool host = false;
    QCOMPARE(runtime::describePaths(std::array{gpu(22809, "a"), gpu(22809, "b")}, host),
             std::string("ranks exchange data between GPUs by NCCL"));
    QVERIFY(!host);
    QCOMPARE(runtime::describePaths(std::array{gpu(22809, "a"), gpu(22809, "a"), gpu(22809, "b")}, host),
             std::string(
                 "ranks exchange data between GPUs by NCCL, and through the host's memory: 0 and 1 (one GPU for "
                 "both)"));
    QVERIFY(host);
    QCOMPARE(runtime::describePaths(std::array{gpu(22809, "a"), gpu(21900, "b"), processor}, host),
             std::string("ranks exchange data through the host's memory: 0 and 1 (other versions of NCCL), 0 and 2 (a "
                         "processor), 1 and 2 (a processor)"));
    QCOMPARE(runtime::describePaths(std::array{gpu(22809, "a"), processor, processor}, host), // 1 and 2 need no GPU
             std::string("ranks exchange data through the host's memory: 0 and 1 (a processor), 0 and 2 (a "
                         "processor)"));
    QCOMPARE(runtime::describePaths(std::array{gpu(0, ""), gpu(0, "")}, host),
             std::string("ranks exchange data through the host's memory: 0 and 1 (no NCCL)"));
    QCOMPARE(runtime::describePaths(std::array{shared(0), shared(0)}, host),
             std::string("ranks exchange data on one GPU by copies, a way to try a plan, not to time it: 0 and 1"));
    QVERIFY(host);
    QCOMPARE(runtime::describePaths(std::array{shared(22809), shared(22809), gpu(22809, "b"), processor}, host),
             std::string("ranks exchange data between GPUs by NCCL, on one GPU by copies, a way to try a plan, not to "
                         "time it: 0 and 1, and through the host's memory: 0 and 3 (a processor), 1 and 3 (a "
                         "processor), 2 and 3 (a processor)"));
}

/// To abort one of them waits for what its GPU does for the others, which wait for members that never come.
void TestGpuCommunication::teamsAreAbortedTogether()
{
    const Gpus gpus(kRanks, 2);
    countFromHere();
    const auto work = [](comm::Communicator &comm, device::Device &device) -> Status {
        const auto all = comm.makeGroup(std::vector{0, 1, 2, 3});
        const auto pair = comm.makeGroup(std::vector{0, 1});
        const auto others = comm.makeGroup(std::vector{2, 3});
        if (!all || !pair || !others)
            return failed("no groups");
        if (const Status settled = comm.settle(kLong); !settled)
            return settled;
        Block one(device, 1024);
        Block other(device, 1024);
        if (comm.rank() == 0)
            for (auto &[group, block] : {std::pair(*all, &one), std::pair(*pair, &other)}) {
                auto request = comm.allReduce(group, Element::Float32, block->data(), 256);
                if (!request)
                    return request.error();
                for (int polls = 0; polls < 200; ++polls) // until its kernel waits
                    if (const auto done = comm.test(*request); !done || *done)
                        return failed("a collective of one member ends");
            }
        static_cast<runtime::GpuCommunicator &>(comm).abortTeams();
        return {};
    };
    QCOMPARE(onRanks(&gpus, work), QStringList());
    QCOMPARE(EmulatedNccl::takeCounts().aborted, std::int64_t{2 * kRanks});
}

/// Two ranks on a GPU: the first one ends while the other's copy from its memory stands behind a command that takes
/// long.
void TestGpuCommunication::membersThatEndAwaitTheirReaders()
{
    const Gpus gpus(1, 6, true);
    const PlanloomCommunicationTable &table = EmulatedNccl::table();
    std::array<char, PLANLOOM_TEAM_ID_BYTES> id{};
    PlanloomError why{};
    QCOMPARE(table.makeId(1, id.data(), &why), 0);
    struct {
        std::atomic<bool> asked{false}; ///< the first one for the collective
        std::atomic<bool> given{false}; ///< the copy
        std::atomic<bool> goesOn{false};
        std::atomic<bool> ended{false}; ///< the first one
        std::atomic<bool> readsLate{false};
    } all;
    const auto until = [](const std::atomic<bool> &flag, std::chrono::nanoseconds longest) {
        const auto end = std::chrono::steady_clock::now() + longest;
        while (!flag && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        return flag.load();
    };
    const auto member = [&](int position, const std::function<bool(device::Team &, device::Queue &)> &work) {
        device::PluginDevice &device = *gpus.of(static_cast<std::size_t>(position));
        const Block block(device, 1024);
        const auto queue = device.makeQueue();
        const auto team = device::Team::join(table, device, {id.data(), 2, position, 0, 1});
        if (!queue || !team)
            return false;
        for (Result<bool> joined = false; !*joined; joined = (*team)->poll())
            if (!joined)
                return false;
        PlanloomCollective what{};
        what.kind = static_cast<std::int32_t>(Collective::Broadcast);
        what.from = what.to = block.data();
        what.count = 1024;
        if (position == 1) {
            const auto hold = [](void *flag) {
                while (!*static_cast<std::atomic<bool> *>(flag))
                    std::this_thread::sleep_for(std::chrono::microseconds(20));
            };
            EmulatedGpu::table().call(device.handleOf(**queue), hold, &all.goesOn);
        }
        return (*team)->use(block.data(), 1024).ok() && (*team)->collective(**queue, what).ok()
            && work(**team, **queue);
    };
    bool first = false;
    std::jthread ends([&] {
        first = member(0, [&](device::Team &team, device::Queue &) {
            all.asked = true;
            const bool given = until(all.given, kLong);
            device::Team::abort(std::array{&team});
            all.ended = true;
            return given;
        });
    });
    const bool second = member(1, [&](device::Team &team, device::Queue &queue) {
        if (!until(all.asked, kLong) || !team.poll())
            return false;
        const auto look = [](void *flags) {
            auto &of = *static_cast<decltype(all) *>(flags);
            of.readsLate = of.ended.load();
        };
        EmulatedGpu::table().call(gpus.of(1)->handleOf(queue), look, &all); // behind the copy
        all.given = true;
        while (team.poll()) // until it hears of the end
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        until(all.ended, std::chrono::milliseconds(200));
        all.goesOn = true;
        device::Team::abort(std::array{&team});
        return true;
    });
    all.goesOn = true;
    ends.join();
    QVERIFY(first && second);
    QVERIFY(!all.readsLate);
}

void TestGpuCommunication::asynchronousErrorsEndTheRun()
{
    EmulatedNccl::Faults faults;
    faults.failsAfter = 2;
    EmulatedNccl::set(faults);
    const plan::Subject subject = subjectOf("gpt");
    const Gpus gpus(kRanks, 3);
    const Outcome outcome =
        trainOnDevices(subject, layoutCalled("data", "gpt", subject), {.steps = 5},
                       [&](std::size_t rank) { return gpus.of(rank); }, {}, {&EmulatedNccl::table(), kLong});
    const QString problem = QString::fromStdString(outcome.problem);
    QVERIFY2(problem.contains(": all-reduce of ")
                 && problem.contains(" over ranks 0, 1, 2, 3: all-reduce failed: NCCL: remote process exited or there "
                                     "was a network error (its last error: emulated: connection closed by a remote "
                                     "peer); look at"),
             outcome.problem.c_str());
    QVERIFY(EmulatedNccl::takeCounts().aborted >= kRanks);
}

void TestGpuCommunication::membersThatAreGoneEndTheRun()
{
    EmulatedNccl::Faults faults;
    faults.silentAfter = 3;
    EmulatedNccl::set(faults);
    const plan::Subject subject = subjectOf("gpt");
    const QString late = QString("%1 s").arg(kShort.count());
    for (const char *layout : {"data", "pipeline"}) {
        const Gpus gpus(kRanks, 4);
        const Outcome outcome =
            trainOnDevices(subject, layoutCalled(layout, "gpt", subject), {.steps = 5},
                           [&](std::size_t rank) { return gpus.of(rank); }, {}, {&EmulatedNccl::table(), kShort});
        const QString problem = QString::fromStdString(outcome.problem);
        const bool named = problem.contains(layout == QString("data") ? "all-reduce of " : "message of ");
        QVERIFY2(named && problem.contains("rank ")
                     && (problem.contains("did not end in " + late) || problem.contains("was not sent within " + late)
                         || problem.contains("saw no communication end for " + late)),
                 outcome.problem.c_str());
    }
}

void TestGpuCommunication::communicatorsThatAreNeverReadyEndTheRun()
{
    EmulatedNccl::Faults faults;
    faults.neverReady = true;
    EmulatedNccl::set(faults);
    const plan::Subject subject = subjectOf("gpt");
    const QString late = QString("%1 s").arg(kShort.count());
    const Gpus gpus(kRanks, 3);
    const Outcome outcome =
        trainOnDevices(subject, layoutCalled("data", "gpt", subject), {.steps = 5},
                       [&](std::size_t rank) { return gpus.of(rank); }, {}, {&EmulatedNccl::table(), kShort});
    QVERIFY2(QString::fromStdString(outcome.problem)
                 .contains("waited " + late + " for ranks 0, 1, 2, 3 to join in the GPUs' library (NCCL)"),
             outcome.problem.c_str());
}

void TestGpuCommunication::brokenDevicesEndTheRun()
{
    constexpr int kIllegalAddress = 700;
    const plan::Subject subject = subjectOf("gpt");
    const Gpus gpus(kRanks, 3);
    countFromHere();
    std::atomic<bool> broken{false};
    std::jthread breaker([&](const std::stop_token &stop) {
        std::int64_t calls = 0;
        while (calls < 8 && !stop.stop_requested()) {
            calls += EmulatedNccl::takeCounts().collectives;
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        broken = calls >= 8;
        EmulatedGpu::breakDown(kIllegalAddress);
    });
    const Outcome outcome =
        trainOnDevices(subject, layoutCalled("data", "gpt", subject), {.steps = 100000},
                       [&](std::size_t rank) { return gpus.of(rank); }, {}, {&EmulatedNccl::table(), kLong});
    breaker.request_stop();
    breaker.join();
    EmulatedGpu::breakDown(0);
    QVERIFY(broken);
    // The device says it, or, if it is asked first, the library.
    const QString problem = QString::fromStdString(outcome.problem);
    QVERIFY2(problem.contains("an illegal memory access was encountered")
                 || problem.contains(
                     "NCCL: unhandled cuda error (run with NCCL_DEBUG=INFO for details) (its last error: "
                     "the GPU has failed)"),
             outcome.problem.c_str());
}

void TestGpuCommunication::oldLibrariesAreNamed()
{
    EmulatedNccl::Faults faults;
    faults.version = 22105; // aborts communicators one by one
    EmulatedNccl::set(faults);
    PlanloomError why{};
    QVERIFY(EmulatedNccl::table().version(&why) < 0);
    QVERIFY2(QByteArray(why.text).contains("2.21.5 is older than 2.22"), why.text);
}

QTEST_GUILESS_MAIN(TestGpuCommunication)
#include "tst_gpu_communication.moc"

// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/zoo/zoo.h"
#include "executor/device/image_network.h"
#include "executor/device/plugin/plugin_device.h"
#include "executor/runtime/observed_communicator.h"
#include "executor/runtime/tiny_training.h"
#include "gpu/device_training.h"
#include "gpu/emulated_gpu.h"

#include <QTest>

#include <algorithm>

using namespace planloom;
using namespace planloom::test;

namespace {

Result<graph::Graph> convolutionNet()
{
    using Ints = std::vector<std::int64_t>;
    graph::GraphBuilder b("small-conv");
    const graph::Initializer init = graph::normal(0.1);
    const graph::Attributes window{{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}};
    const TensorId x = b.input("x", graph::DType::F32, graph::Shape::batched({3, 8, 8}));
    const TensorId labels = b.input("labels", graph::DType::I64, graph::Shape::batched({}));
    b.pushScope("conv");
    TensorId y = b.add("Conv", {x, b.parameter("conv.weight", graph::Shape::of({16, 3, 3, 3}), init)}, window, "conv");
    const graph::Initializer zeros{graph::Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0};
    const graph::Initializer ones{graph::Initializer::Kind::Ones, 0, 0, nullptr, {}, 0};
    y = b.add("BatchNormalization",
              {y, b.parameter("norm.scale", graph::Shape::of({16}), ones),
               b.parameter("norm.bias", graph::Shape::of({16}), zeros),
               b.state("norm.mean", graph::Shape::of({16}), zeros),
               b.state("norm.variance", graph::Shape::of({16}), ones)},
              {}, "norm");
    y = b.add("Relu", {y}, {}, "relu");
    y = b.add("MaxPool", {y}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, "pool");
    b.popScope();
    b.pushScope("head");
    y = b.add("Flatten", {y}, {{"axis", std::int64_t{1}}}, "flat");
    y = b.add("Gemm",
              {y, b.parameter("head.weight", graph::Shape::of({16 * 16, 10}), init),
               b.parameter("head.bias", graph::Shape::of({10}), zeros)},
              {}, "head");
    b.loss(b.add("SoftmaxCrossEntropyLoss", {y, labels}, {}, "loss"));
    b.popScope();
    return std::move(b).build();
}

/// A perceptron that draws.
Result<graph::Graph> droppingNet()
{
    graph::GraphBuilder b("dropping");
    const graph::Initializer init = graph::normal(0.3);
    TensorId x = b.input("x", graph::DType::F32, graph::Shape::batched({16}));
    const TensorId labels = b.input("labels", graph::DType::I64, graph::Shape::batched({}));
    b.pushScope("body");
    for (const char *name : {"first", "second"}) {
        x = b.add("MatMul", {x, b.parameter(std::string(name) + ".weight", graph::Shape::of({16, 16}), init)}, {},
                  std::string(name) + ".product");
        x = b.add("Tanh", {x}, {}, std::string(name) + ".tanh");
        x = b.add("Dropout", {x}, {{"ratio", 0.3}}, std::string(name) + ".drop");
        x = b.add("Sigmoid", {x}, {}, std::string(name) + ".sigmoid");
    }
    b.popScope();
    b.pushScope("head");
    x = b.add("MatMul", {x, b.parameter("head.weight", graph::Shape::of({16, 4}), init)}, {}, "head");
    b.loss(b.add("SoftmaxCrossEntropyLoss", {x, labels}, {}, "loss"));
    b.popScope();
    return std::move(b).build();
}

std::shared_ptr<const cluster::Cluster> oneGpu()
{
    cluster::RegularCluster spec;
    spec.name = "gpu";
    spec.type = *cluster::knownDeviceType("H100-SXM");
    spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e10;
    return std::make_shared<const cluster::Cluster>(*cluster::regular(spec));
}

Result<graph::Graph> modelNamed(const QString &name)
{
    if (name == "dropping")
        return droppingNet();
    if (name == "conv")
        return convolutionNet();
    if (name == "resnet")
        return ImageNetwork(0.25).build();
    if (name == "lstm") {
        graph::LstmConfig config;
        config.layers = 2;
        config.embedding = config.hidden = 24;
        config.vocabulary = 50;
        config.context = 6;
        return graph::lstmLanguageModel(config);
    }
    graph::TransformerConfig config = tinyConfig(2, 2);
    if (name == "llama")
        return graph::llama(config, 1, 10000, 1e-6);
    if (name == "bert")
        return graph::bert(config);
    return graph::gpt(config);
}

} // namespace

/// Whole trainings on the emulated GPU, against the processor's.
class TestGpuTraining : public QObject {
    Q_OBJECT

private slots:
    void modelsTrainAsOnTheProcessor_data();
    void modelsTrainAsOnTheProcessor();
    void layoutsTrainAsOneRank_data();
    void layoutsTrainAsOneRank();
    void sameSeedSameBits();
    void graphsTrainAsCommands_data();
    void graphsTrainAsCommands();
    void nothingIsMadeAfterTheFirstStep_data();
    void nothingIsMadeAfterTheFirstStep();
    void samplesComeAheadInTheirOrder();
    void capturesRefuseWhatTheyMayNotHave();
    void faultsEndTheRun();
    void tooLittleMemoryIsOneError();
    void missingDriverIsOneError();
    void otherErrorsOfMemoryAreNamed();
    void oldDevicesAreLeftOut();
    void librariesThatDoNotStartAreLeftOut();
    void refusedCapturesAreAskedForOnce();
    void devicesStayCurrent();
    void hostWorkEndsBeforeItsKernels();
};

void TestGpuTraining::modelsTrainAsOnTheProcessor_data()
{
    QTest::addColumn<QString>("model");
    QTest::addColumn<bool>("half");
    QTest::addColumn<QString>("rule");
    QTest::newRow("GPT") << "gpt" << false << "adamw";
    QTest::newRow("GPT, SGD") << "gpt" << false << "sgd";
    QTest::newRow("GPT, LAMB") << "gpt" << false << "lamb";
    QTest::newRow("GPT in bfloat16") << "gpt" << true << "adamw";
    QTest::newRow("LLaMA") << "llama" << false << "adamw";
    QTest::newRow("BERT") << "bert" << false << "adamw";
    QTest::newRow("LSTM") << "lstm" << false << "adamw";
    QTest::newRow("convolutions") << "conv" << false << "sgd";
    QTest::newRow("residual blocks") << "resnet" << false << "adamw";
    QTest::newRow("residual blocks in bfloat16") << "resnet" << true << "adamw";
}

void TestGpuTraining::modelsTrainAsOnTheProcessor()
{
    QFETCH(QString, model);
    QFETCH(bool, half);
    QFETCH(QString, rule);
    auto graph = modelNamed(model);
    QVERIFY2(graph.ok(), graph ? "" : graph.error().text().c_str());
    // What a GPU's plan has otherwise: in bfloat16, images between convolutions have their channels last.
    const auto where = half ? oneGpu() : cpus(1);
    const plan::Subject subject =
        plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)), where, nullptr, "zoo:test");
    plan::Plan plan = planOf(subject, {{StageLayout{}}, 8, 2, plan::ScheduleKind::OneF1B, {}});
    plan.optimizer.rule = *update::ConfiguredRule::named(rule.toStdString());
    plan.optimizer.clipNorm = 1;
    if (rule == "sgd")
        plan.optimizer.learningRate = 0.05;
    if (half)
        plan.precision = plan::Precision::BFloat16;
    const Training how{.steps = 5};
    const Outcome expected = trainOnDevices(subject, plan, how, [](std::size_t) { return nullptr; });
    QVERIFY2(expected.problem.empty(), expected.problem.c_str());
    QCOMPARE(expected.losses.size(), std::size_t{5});
    for (const std::uint64_t seed : {1U, 2U}) {
        EmulatedGpu::Settings settings;
        settings.seed = seed;
        EmulatedGpu::set(settings);
        auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
        QVERIFY(gpu.ok());
        const Outcome outcome = trainOnDevices(subject, plan, how, [&](std::size_t) { return gpu->get(); });
        QVERIFY2((*gpu)->onHost().empty(), (*gpu)->onHost().begin()->first.c_str());
        const std::string wrong = differs(outcome, expected.losses, half ? 1e-2 : 1e-4);
        QVERIFY2(wrong.empty(), wrong.c_str());
        const double evaluated = outcome.evaluation.loss - expected.evaluation.loss;
        QVERIFY(std::fabs(evaluated) <= (half ? 1e-2 : 1e-4) * expected.evaluation.loss);
        const EmulatedGpu::Counts counts = EmulatedGpu::takeCounts();
        QVERIFY(counts.kernels > 0 && counts.products > 0 && counts.copies > 0);
    }
    QCOMPARE(EmulatedGpu::problem(), std::string());
    QCOMPARE(EmulatedGpu::living(), std::int64_t{0});
}

void TestGpuTraining::layoutsTrainAsOneRank_data()
{
    QTest::addColumn<int>("layout");
    const char *names[] = {"2 data-parallel",       "2 stages",          "tensor parallel",    "ZeRO 1", "ZeRO 3",
                           "a GPU and a processor", "4 ranks on 2 GPUs", "2 stages on one GPU"};
    for (int i = 0; i < static_cast<int>(std::size(names)); ++i)
        QTest::newRow(names[i]) << i;
}

void TestGpuTraining::layoutsTrainAsOneRank()
{
    QFETCH(int, layout);
    const plan::Subject subject = tinySubject(tinyConfig(2, 2), cpus(4));
    const StageLayout one;
    const StageLayout two{{0.5, 0.5}};
    const auto mesh = [](plan::Plan &plan, std::vector<int> dims, int zero) {
        plan.stages[0].replicaShares.clear();
        plan.stages[0].mesh = std::move(dims);
        plan.stages[0].zero = zero;
    };
    plan::Plan plan = planOf(subject, {{two}, 8, 2, plan::ScheduleKind::OneF1B, {}});
    if (layout == 1 || layout == 5)
        plan = planOf(subject, {{one, one}, 8, 4, plan::ScheduleKind::OneF1B, {}});
    if (layout == 2) {
        mesh(plan, {1, 2}, 0);
        plan.stages[0].shardings = {{"*.mlp.c_fc.weight", "B,S(1)"},
                                    {"*.mlp.c_fc.bias", "B,S(0)"},
                                    {"*.mlp.c_proj.weight", "B,S(0)"}};
    }
    if (layout == 3 || layout == 4)
        mesh(plan, {2}, layout == 3 ? 1 : 3);
    if (layout == 6)
        plan = planOf(subject, {{two, two}, 8, 2, plan::ScheduleKind::GPipe, {}});
    if (layout == 7) {
        plan = planOf(subject, {{one, one}, 8, 2, plan::ScheduleKind::GPipe, {}});
        plan.stages[1].devices = plan.stages[0].devices;
    }
    const Training how{.steps = 4};
    const plan::Plan alone = planOf(subject, {{one}, 8, 1, plan::ScheduleKind::OneF1B, {}});
    const Outcome expected = trainOnDevices(subject, alone, how, [](std::size_t) { return nullptr; });
    QVERIFY2(expected.problem.empty(), expected.problem.c_str());
    EmulatedGpu::Settings settings;
    settings.devices = 2;
    settings.seed = static_cast<std::uint64_t>(layout) + 10;
    EmulatedGpu::set(settings);
    {
        std::vector<std::unique_ptr<device::PluginDevice>> gpus;
        for (int rank = 0; rank < 4; ++rank)
            gpus.push_back(std::move(*device::PluginDevice::open(EmulatedGpu::table(), rank % 2)));
        const Outcome outcome = trainOnDevices(subject, plan, how, [&](std::size_t rank) {
            return layout == 5 && rank == 1 ? nullptr : gpus[rank].get();
        });
        for (const auto &gpu : gpus)
            QVERIFY2(gpu->onHost().empty(), gpu->onHost().begin()->first.c_str());
        const std::string wrong = differs(outcome, expected.losses);
        QVERIFY2(wrong.empty(), wrong.c_str());
        QVERIFY(expected.evaluation.samples > 0);
        QCOMPARE(outcome.evaluation.samples, expected.evaluation.samples);
        QVERIFY(std::fabs(outcome.evaluation.loss - expected.evaluation.loss) <= 1e-4 * expected.evaluation.loss);
    }
    QCOMPARE(EmulatedGpu::problem(), std::string());
    QCOMPARE(EmulatedGpu::living(), std::int64_t{0});
}

void TestGpuTraining::sameSeedSameBits()
{
    const plan::Subject subject = tinySubject(tinyConfig(2, 2), cpus(1));
    const plan::Plan plan = planOf(subject, {{StageLayout{}}, 8, 2, plan::ScheduleKind::OneF1B, {}});
    std::vector<double> first;
    for (const std::uint64_t seed : {3U, 4U}) {
        EmulatedGpu::Settings settings;
        settings.seed = seed;
        EmulatedGpu::set(settings);
        auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
        QVERIFY(gpu.ok());
        const Outcome outcome = trainOnDevices(subject, plan, {.steps = 3}, [&](std::size_t) { return gpu->get(); });
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        if (first.empty())
            first = outcome.losses;
        QVERIFY(outcome.losses == first);
    }
}

void TestGpuTraining::graphsTrainAsCommands_data()
{
    QTest::addColumn<QString>("model");
    QTest::addColumn<int>("microBatches");
    QTest::addColumn<QString>("memory");
    QTest::newRow("GPT") << "gpt" << 2 << "";
    QTest::newRow("micro-batches of two sizes") << "gpt" << 3 << "";
    QTest::newRow("dropout") << "dropping" << 2 << "";
    QTest::newRow("operators on the host") << "conv" << 2 << "";
    QTest::newRow("a memory budget") << "gpt" << 2 << "lru,budget=70%";
}

/// Whatever changes from step to step is not frozen into graphs: learning rate, step number, random numbers, samples.
void TestGpuTraining::graphsTrainAsCommands()
{
    QFETCH(QString, model);
    QFETCH(int, microBatches);
    QFETCH(QString, memory);
    auto graph = modelNamed(model);
    QVERIFY2(graph.ok(), graph ? "" : graph.error().text().c_str());
    const plan::Subject subject =
        plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)), cpus(1), nullptr, "zoo:test");
    plan::Plan plan = planOf(subject, {{StageLayout{}}, 8, microBatches, plan::ScheduleKind::OneF1B, {}});
    plan.optimizer.schedule = {plan::LearningRateSchedule::Kind::Cosine, 2, 0, 0.1};
    plan.optimizer.clipNorm = 1;
    if (!memory.isEmpty())
        plan.stages[0].memory = *plan::memoryFromText(memory.toStdString());
    constexpr std::int64_t kSteps = 6;
    std::vector<double> losses;
    for (const bool graphs : {false, true}) {
        EmulatedGpu::Settings settings;
        settings.seed = graphs ? 5 : 6;
        EmulatedGpu::set(settings);
        EmulatedGpu::refuseCaptures(!graphs);
        auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
        QVERIFY(gpu.ok());
        static_cast<void>(EmulatedGpu::takeCounts());
        const Outcome outcome =
            trainOnDevices(subject, plan, {.steps = kSteps}, [&](std::size_t) { return gpu->get(); });
        EmulatedGpu::refuseCaptures(false);
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        QCOMPARE(outcome.losses.size(), static_cast<std::size_t>(kSteps));
        const EmulatedGpu::Counts counts = EmulatedGpu::takeCounts();
        if (graphs)
            QVERIFY(counts.graphs > 0 && counts.replays >= counts.graphs * (kSteps - 1));
        else
            QVERIFY(counts.graphs == 0 && counts.replays == 0);
        if (losses.empty())
            losses = outcome.losses;
        QVERIFY(outcome.losses == losses);
    }
    std::ranges::sort(losses);
    QVERIFY(std::ranges::adjacent_find(losses) == losses.end());
    const Outcome expected = trainOnDevices(subject, plan, {.steps = kSteps}, [](std::size_t) { return nullptr; });
    const std::vector<double> sorted = [&] {
        std::vector<double> all = expected.losses;
        std::ranges::sort(all);
        return all;
    }();
    for (std::size_t i = 0; i < sorted.size(); ++i)
        QVERIFY(std::fabs(losses[i] - sorted[i]) <= 1e-4 * sorted[i]);
    QCOMPARE(EmulatedGpu::problem(), std::string());
    QCOMPARE(EmulatedGpu::living(), std::int64_t{0});
}

void TestGpuTraining::nothingIsMadeAfterTheFirstStep_data()
{
    QTest::addColumn<QString>("model");
    QTest::addColumn<int>("ranks");
    QTest::newRow("GPT") << "gpt" << 1;
    QTest::newRow("operators on the host") << "conv" << 1;
    QTest::newRow("2 stages") << "gpt" << 2;
}

void TestGpuTraining::nothingIsMadeAfterTheFirstStep()
{
    QFETCH(QString, model);
    QFETCH(int, ranks);
    auto graph = modelNamed(model);
    QVERIFY(graph.ok());
    const plan::Subject subject =
        plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)), cpus(2), nullptr, "zoo:test");
    plan::Plan plan =
        planOf(subject, {{static_cast<std::size_t>(ranks), StageLayout{}}, 8, 4, plan::ScheduleKind::OneF1B, {}});
    plan.optimizer.clipNorm = 1;
    EmulatedGpu::set({});
    std::vector<std::unique_ptr<device::PluginDevice>> gpus;
    for (int rank = 0; rank < ranks; ++rank)
        gpus.push_back(std::move(*device::PluginDevice::open(EmulatedGpu::table(), 0)));
    static_cast<void>(EmulatedGpu::takeCounts());
    std::vector<EmulatedGpu::Counts> counts;
    const Outcome outcome = trainOnDevices(
        subject, plan, {.steps = 4}, [&](std::size_t rank) { return gpus[rank].get(); },
        [&](std::int64_t) { counts.push_back(EmulatedGpu::takeCounts()); });
    QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
    QCOMPARE(counts.size(), std::size_t{4});
    QVERIFY(counts[0].made > 0 && counts[0].graphs > 0);
    // The step in which the ranks of a pipeline note theirs is known to the first rank alone: the second counts, too.
    std::int64_t made = ranks == 1 ? counts[1].made : 0;
    for (std::size_t step = 2; step < counts.size(); ++step) {
        made += counts[step].made;
        QVERIFY(counts[step].replays > 0);
    }
    QCOMPARE(made, std::int64_t{0});
}

/// Many passes are given at once: what comes ahead neither overtakes those that read what was there before, nor is it
/// overtaken by them.
void TestGpuTraining::samplesComeAheadInTheirOrder()
{
    constexpr std::int64_t kCount = 2;
    constexpr std::int64_t kPasses = 12;
    const plan::Subject subject = tinySubject(tinyConfig(2, 2), cpus(1));
    const plan::Plan plan = planOf(subject, {{StageLayout{}}, 8, 4, plan::ScheduleKind::OneF1B, {}});
    const auto program = compile::compilePlan(plan, subject);
    const auto needs = data::needsOf(*subject.graph);
    QVERIFY(program.ok() && needs.ok());
    const MadeUpData data(*needs, 64);
    const runtime::Feed feed{&data, *needs, data::SampleOrder(data.samples(), 1, 0.25)};
    const program::Body &body = program->body(program->ranks[0].bodies[0]);
    const data::Needs::Input &input = needs->inputs[0];
    const TensorId tensor = body.training.graph.find(input.name);
    QVERIFY(tensor.valid());
    const auto bytes = input.perSample * kCount * static_cast<std::int64_t>(graph::sizeOf(input.type));
    EmulatedGpu::set({});
    {
        const auto gpu = *device::PluginDevice::open(EmulatedGpu::table(), 0);
        const auto kept = *gpu->allocate(device::Space::Host, 2 * kPasses * bytes);
        auto arena = *runtime::Arena::allocate(*gpu, program->ranks[0].arenaBytes);
        const auto compute = *gpu->makeQueue();
        const auto copies = *gpu->makeQueue();
        const auto done = *gpu->makeEvent();
        const runtime::ComputeContext context{*gpu, *compute, arena, std::chrono::seconds(60), nullptr, copies.get()};
        runtime::SlotAddresses addresses(body, arena);
        addresses.select(0);
        auto feeder = runtime::Feeder::create(*program, body, context, feed);
        QVERIFY(feeder.ok());
        const runtime::Place place = runtime::placeOf(body, body.forwardPlaces, tensor, kCount);
        for (std::int64_t pass = 0; pass < 2 * kPasses; ++pass) {
            const auto batch = [](std::int64_t number) { return std::pair(number / 4, number % 4 * kCount); };
            const auto [step, begin] = batch(pass);
            QVERIFY(pass < kPasses ? feeder->training(addresses, step, begin, kCount).ok()
                                   : feeder->heldOut(addresses, (pass - kPasses) * kCount, kCount).ok());
            compute->copyToHost(kept.data() + pass * bytes, addresses.at(place), bytes);
            const auto [nextStep, nextBegin] = batch(pass + 1);
            if (pass + 1 < kPasses || pass + 1 == 2 * kPasses) // the last one is not taken any more
                QVERIFY(feeder->bringAhead(nextStep, nextBegin, kCount).ok());
        }
        { // goes while the last samples are on their way
            const runtime::Feeder ended = std::move(*feeder);
        }
        QVERIFY(runtime::drain(*compute, *done, std::chrono::seconds(60)).ok());
        std::vector<std::byte> expected(static_cast<std::size_t>(bytes));
        for (std::int64_t pass = 0; pass < 2 * kPasses; ++pass) {
            for (std::int64_t i = 0; i < kCount; ++i) {
                const std::int64_t number = (pass < kPasses ? pass % 4 : pass - kPasses) * kCount + i;
                data.fillInputAt(0,
                                 pass < kPasses ? feed.order.sampleIndex(pass / 4, program->globalBatch, number)
                                                : feed.order.heldOutIndex(number % feed.order.heldOut()),
                                 expected.data() + i * bytes / kCount);
            }
            QVERIFY2(std::equal(expected.begin(), expected.end(), kept.data() + pass * bytes),
                     std::to_string(pass).c_str());
        }
    }
    QCOMPARE(EmulatedGpu::problem(), std::string());
    QCOMPARE(EmulatedGpu::living(), std::int64_t{0});
}

void TestGpuTraining::capturesRefuseWhatTheyMayNotHave()
{
    EmulatedGpu::set({});
    const cuda::RuntimeApi &api = EmulatedGpu::provider().runtime;
    cuda::Stream stream = nullptr;
    cuda::EventHandle event = nullptr;
    QCOMPARE(api.streamCreate(&stream, 0), 0);
    QCOMPARE(api.eventCreate(&event, 0), 0);
    void *data = nullptr;
    QCOMPARE(api.malloc(&data, 64), 0);
    const std::vector<std::function<int()>> refused{[&] {
                                                        void *more = nullptr;
                                                        return api.malloc(&more, 64);
                                                    },
                                                    [&] {
                                                        void *more = nullptr;
                                                        return api.hostAlloc(&more, 64, 0);
                                                    },
                                                    [&] { return api.memset(data, 0, 64); },
                                                    [&] { return api.streamSynchronize(stream); },
                                                    [&] { return api.eventQuery(event); },
                                                    [&] { return api.streamWaitEvent(stream, event, 0); },
                                                    [&] {
                                                        cuda::Stream more = nullptr;
                                                        return api.streamCreate(&more, 0);
                                                    }};
    for (const auto &call : refused) {
        QCOMPARE(api.streamBeginCapture(stream, cuda::kCaptureThreadLocal), 0);
        QCOMPARE(api.memsetAsync(data, 1, 64, stream), 0);
        QVERIFY(call() >= 900);
        cuda::CapturedGraph graph = nullptr;
        QCOMPARE(api.streamEndCapture(stream, &graph), 901);
        QVERIFY(graph == nullptr);
    }
    QCOMPARE(api.free(data), 0);
    QCOMPARE(api.eventDestroy(event), 0);
    QCOMPARE(api.streamDestroy(stream), 0);
    // A queue whose capture fails goes on command by command.
    auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY(gpu.ok());
    const auto queue = *(*gpu)->makeQueue();
    const auto done = *(*gpu)->makeEvent();
    const auto memory = *(*gpu)->allocate(device::Space::Device, 8);
    auto *floats = reinterpret_cast<float *>(memory.data());
    EmulatedGpu::refuseCaptures(true);
    QVERIFY(queue->beginCapture());
    queue->accumulate(floats, floats + 1, 1);
    const auto captured = queue->endCapture();
    EmulatedGpu::refuseCaptures(false);
    QVERIFY(!captured.ok());
    QVERIFY2(captured.error().message.find("not permitted when stream is capturing") != std::string::npos,
             captured.error().message.c_str());
    queue->accumulate(floats, floats + 1, 1);
    QVERIFY(runtime::drain(*queue, *done, std::chrono::seconds(60)).ok());
}

void TestGpuTraining::faultsEndTheRun()
{
    EmulatedGpu::set({});
    auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY(gpu.ok());
    const auto event = *(*gpu)->makeEvent();
    const auto queue = *(*gpu)->makeQueue();
    queue->record(*event);
    constexpr int kIllegalAddress = 700;
    EmulatedGpu::breakDown(kIllegalAddress);
    const Status status = runtime::drain(*queue, *event, std::chrono::seconds(60));
    EmulatedGpu::breakDown(0);
    QVERIFY(!status.ok());
    QVERIFY2(status.error().message.find("an illegal memory access was encountered") != std::string::npos,
             status.error().message.c_str());
    QVERIFY(!event->poll().ok()); // it stays so
}

void TestGpuTraining::tooLittleMemoryIsOneError()
{
    EmulatedGpu::Settings settings;
    settings.memoryBytes = (std::int64_t{32} << 20) + 100000; // cuBLASLt's workspace and little more
    EmulatedGpu::set(settings);
    auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY2(gpu.ok(), gpu ? "" : gpu.error().text().c_str());
    const plan::Subject subject = tinySubject(tinyConfig(2, 2), cpus(1));
    const plan::Plan plan = planOf(subject, {{StageLayout{}}, 8, 2, plan::ScheduleKind::OneF1B, {}});
    const Outcome outcome = trainOnDevices(subject, plan, {.steps = 1}, [&](std::size_t) { return gpu->get(); });
    QVERIFY2(QString::fromStdString(outcome.problem).contains("of memory free (out of memory)"),
             outcome.problem.c_str());
}

void TestGpuTraining::missingDriverIsOneError()
{
    EmulatedGpu::Settings settings;
    settings.devices = 0;
    EmulatedGpu::set(settings);
    PlanloomError why{};
    QVERIFY(EmulatedGpu::table().devices(&why) < 0);
    QVERIFY(QByteArray(why.text).contains("driver version is insufficient"));
    QVERIFY(!device::PluginDevice::open(EmulatedGpu::table(), 0).ok());
}

void TestGpuTraining::otherErrorsOfMemoryAreNamed()
{
    constexpr int kLaunchFailure = 719;
    EmulatedGpu::set({});
    auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY(gpu.ok());
    EmulatedGpu::refuseMemory(kLaunchFailure);
    const auto memory = (*gpu)->allocate(device::Space::Device, 64);
    EmulatedGpu::refuseMemory(0);
    QVERIFY(!memory.ok());
    const std::string &text = memory.error().message;
    QVERIFY2(text.find("GPU 0: memory failed: unknown error; the GPU itself works on") == 0, text.c_str());
}

void TestGpuTraining::oldDevicesAreLeftOut()
{
    EmulatedGpu::Settings settings;
    settings.capability = 75;
    EmulatedGpu::set(settings);
    PlanloomError why{};
    QVERIFY(EmulatedGpu::table().devices(&why) < 0);
    QCOMPARE(QByteArray(why.text),
             QByteArray("GPU 0 has compute capability 7.5; plans train on GPUs of 8.0 (Ampere) and "
                        "newer, and on processors"));
    QVERIFY(!device::PluginDevice::open(EmulatedGpu::table(), 0).ok());
    settings.devices = 2; // the second one is new
    EmulatedGpu::set(settings);
    QCOMPARE(EmulatedGpu::table().devices(&why), std::int32_t{1});
    const auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY(gpu.ok());
    QVERIFY((*gpu)->allocate(device::Space::Device, 64).ok());
    QCOMPARE(EmulatedGpu::currentDevice(), 1);
    QVERIFY(!device::PluginDevice::open(EmulatedGpu::table(), 1).ok());
}

void TestGpuTraining::librariesThatDoNotStartAreLeftOut()
{
    EmulatedGpu::Settings settings;
    settings.starts = false;
    EmulatedGpu::set(settings);
    auto graph = modelNamed("conv");
    QVERIFY(graph.ok());
    const plan::Subject subject =
        plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)), cpus(1), nullptr, "zoo:test");
    const plan::Plan plan = planOf(subject, {{StageLayout{}}, 8, 4, plan::ScheduleKind::OneF1B, {}});
    const Outcome expected = trainOnDevices(subject, plan, {.steps = 2}, [](std::size_t) { return nullptr; });
    const auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY2(gpu.ok(), gpu ? "" : gpu.error().text().c_str());
    const Outcome outcome = trainOnDevices(subject, plan, {.steps = 2}, [&](std::size_t) { return gpu->get(); });
    QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
    QCOMPARE(outcome.losses.size(), std::size_t{2});
    for (std::size_t step = 0; step < 2; ++step)
        QVERIFY(std::fabs(outcome.losses[step] - expected.losses[step]) <= 1e-4 * expected.losses[step]);
    QVERIFY((*gpu)->onHost().contains("Gemm") && !(*gpu)->onHost().contains("Conv"));
}

void TestGpuTraining::refusedCapturesAreAskedForOnce()
{
    EmulatedGpu::set({});
    auto gpu = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY(gpu.ok());
    const plan::Subject subject = tinySubject(tinyConfig(2, 2), cpus(1));
    const plan::Plan plan = planOf(subject, {{StageLayout{}}, 8, 2, plan::ScheduleKind::OneF1B, {}});
    EmulatedGpu::refuseBegins(true);
    const Outcome outcome = trainOnDevices(subject, plan, {.steps = 2}, [&](std::size_t) { return gpu->get(); });
    QCOMPARE(EmulatedGpu::refuseBegins(false), std::int64_t{1});
    QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
}

/// One thread opens two: what it asks the first for is not done by the second.
void TestGpuTraining::devicesStayCurrent()
{
    EmulatedGpu::Settings settings;
    settings.devices = 2;
    EmulatedGpu::set(settings);
    const auto first = device::PluginDevice::open(EmulatedGpu::table(), 0);
    QVERIFY(first.ok() && (*first)->allocate(device::Space::Device, 64).ok());
    const auto second = device::PluginDevice::open(EmulatedGpu::table(), 1);
    QVERIFY(second.ok() && (*first)->allocate(device::Space::Device, 64).ok());
    QCOMPARE(EmulatedGpu::currentDevice(), 0);
    QVERIFY((*second)->allocate(device::Space::Device, 64).ok());
    QCOMPARE(EmulatedGpu::currentDevice(), 1);
}

namespace {

/// Fails, for all ranks, when it is asked how far something is for the @p tests th time.
class FailingCommunicator final : public ObservedCommunicator {
public:
    FailingCommunicator(comm::Communicator &inner, int tests)
        : ObservedCommunicator(inner),
          m_failing(inner),
          m_tests(tests)
    {
    }

private:
    void begins(std::initializer_list<Range> /*ranges*/) override {}
    Result<comm::Request> begun(Result<comm::Request> request) override { return request; }
    void testBegins() override {}
    Result<bool> tested(const comm::Request & /*request*/, Result<bool> done) override
    {
        if (m_tests-- != 0)
            return done;
        m_failing.abort("the cable is out"); // at once: what is under way is of memory that goes with the rank
        return failed("the cable is out");
    }
    comm::Communicator &m_failing;
    int m_tests;
};

} // namespace

/// A run that ends in the middle of a pass leaves commands behind which call what computes on the host.
void TestGpuTraining::hostWorkEndsBeforeItsKernels()
{
    EmulatedGpu::Settings settings;
    settings.products = false;
    EmulatedGpu::set(settings);
    const plan::Subject subject = tinySubject(tinyConfig(2, 2), cpus(2));
    const plan::Plan plan = planOf(subject, {{StageLayout{}, StageLayout{}}, 8, 2, plan::ScheduleKind::OneF1B, {}});
    const auto program = compile::compilePlan(plan, subject);
    const auto needs = data::needsOf(*subject.graph);
    const MadeUpData data(*needs, 64);
    for (const int tests : {40, 90, 200}) {
        const runtime::Feed feed{&data, *needs, data::SampleOrder(data.samples(), 1, 0.25)};
        comm::LocalGroup group(2);
        auto train = [&](comm::Communicator &communicator, device::Device *device) -> Status {
            trace::Ring ring(1 << 12);
            runtime::ExecutorOptions options;
            options.steps = 1000;
            options.optimizer = plan.optimizer;
            options.device = device;
            auto executor = runtime::RankExecutor::create(*program, *subject.graph, communicator, feed, ring, options);
            return executor ? (*executor)->run() : Status(executor.error());
        };
        std::jthread other([&] {
            omp_set_num_threads(1);
            const auto end = group.end(1);
            [[maybe_unused]] const Status ended = train(*end, nullptr);
        });
        const auto gpu = *device::PluginDevice::open(EmulatedGpu::table(), 0);
        const auto end = group.end(0);
        FailingCommunicator failing(*end, tests);
        Status status;
        {
            const auto staged = runtime::StagedCommunicator::create(failing, *gpu);
            QVERIFY(staged.ok());
            status = train(**staged, gpu.get());
        }
        end->abort("the other one");
        QVERIFY(!status.ok());
        QVERIFY2(status.error().message.find("the cable is out") != std::string::npos, status.error().message.c_str());
    }
    QCOMPARE(EmulatedGpu::living(), std::int64_t{0});
}

QTEST_GUILESS_MAIN(TestGpuTraining)
#include "tst_gpu_training.moc"

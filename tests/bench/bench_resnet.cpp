// SPDX-License-Identifier: Apache-2.0
// ResNet-50's training step (forward, backward, SGD with momentum) against PyTorch's channels_last, steps in turn, from
// the same weights on the same images: seconds of both, their ratio, and how far the losses are apart.
//     bench_resnet [STEPS [BATCH [IMAGE [PYTHON]]]]        default 6 8 224 /usr/bin/python3
//     bench_resnet operators [BATCH [REPETITIONS]]         this engine alone: seconds by operator, with and without
//     fused batch normalisation and
//                                                          blocked layouts
// Seconds by processor count all cores: waiting threads sleep, so that they do not count.
#include "engine/graph/rewrite/fuse_batch_norm.h"
#include "engine/graph/rewrite/layouts.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/import/import.h"
#include "executor/runtime/sleeping_threads.h"
#include "tests/bench/peer_process.h"
#include "tests/executor/device/training_runner.h"
#include "tests/executor/runtime/one_rank.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace {

using namespace planloom;

constexpr int kWarmUp = 1; ///< first steps that are not timed

// --- Against PyTorch ------------------------------------------------------------------------------------------------

struct Options {
    std::int64_t steps = 6;
    std::int64_t batch = 8;
    std::int64_t image = 224;
    std::string python = "/usr/bin/python3";
};

plan::Optimizer optimizerOf(const std::filesystem::path &folder)
{
    plan::Optimizer optimizer;
    optimizer.rule = *update::ConfiguredRule::named("sgd");
    std::ifstream settings(folder / "settings.txt");
    std::string key;
    double value = 0;
    while (settings >> key >> value) {
        if (key == "learning_rate")
            optimizer.learningRate = value;
        else if (key == "momentum")
            optimizer.rule = *update::ConfiguredRule::named("sgd", {{"momentum", value}});
        else if (key == "weight_decay")
            optimizer.weightDecay = value;
    }
    return optimizer;
}

Status compareSteps(bench::Peer &peer, const std::filesystem::path &folder, const Options &options)
{
    const auto model = import::loadModel((folder / "model.onnx").string());
    if (!model)
        return model.error();
    const auto needs = data::needsOf(*model->graph);
    if (!needs)
        return needs.error();
    const auto data = data::openDataSet((folder / "data").string(), *needs);
    if (!data)
        return data.error();
    test::OneRank::Options how;
    how.samples = options.batch;
    how.optimizer = optimizerOf(folder);
    how.modelFolder = folder.string();
    const test::InOrder inOrder(**data, how.seed);
    const auto ours = test::OneRank::make(model->graph, inOrder, how);
    if (!ours)
        return ours.error();
    bench::Times ourTimes;
    bench::Times peerTimes;
    double worst = 0;
    for (std::int64_t step = 0; step < options.steps + kWarmUp; ++step) {
        double ourLoss = 0;
        double peerLoss = 0;
        const bench::Spent ourSpent = bench::spentBy([&] { ourLoss = (*ours)->step(); });
        bench::Spent peerSpent;
        if (!peer.step(&peerLoss, &peerSpent))
            return Error{ErrorCode::Failed, "the peer stopped", options.python, 0};
        const double apart = std::abs(ourLoss - peerLoss) / std::abs(peerLoss);
        worst = std::max(worst, apart);
        std::printf("step %3ld   loss %.6f %.6f (%.1e)   seconds %.3f %.3f   of processor %.3f %.3f\n",
                    static_cast<long>(step), ourLoss, peerLoss, apart, ourSpent.clock, peerSpent.clock,
                    ourSpent.processor, peerSpent.processor);
        std::fflush(stdout);
        if (step < kWarmUp)
            continue;
        ourTimes.add(ourSpent);
        peerTimes.add(peerSpent);
    }
    const auto print = [](const char *what, const std::vector<double> &a, const std::vector<double> &b) {
        std::printf("median step %s: ours %.3f s, PyTorch channels_last %.3f s, ratio %.2f\n", what, bench::median(a),
                    bench::median(b), bench::median(b) / bench::median(a));
    };
    print("by the clock", ourTimes.clock, peerTimes.clock);
    print("by processor time per core", ourTimes.processor, peerTimes.processor);
    std::printf("largest relative difference of losses: %.2e\n", worst);
    return {};
}

int againstPeer(const Options &options)
{
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("planloom-resnet-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    Status status;
    {
        const auto text = [](auto value) { return std::to_string(value); };
        bench::Peer peer(options.python, PLANLOOM_PEERS "/resnet50.py",
                         {folder.string(), text(options.batch), text(options.image), text(options.steps + kWarmUp),
                          text(std::thread::hardware_concurrency())});
        status = peer.waitUntilReady() ? compareSteps(peer, folder, options)
                                       : Status(unsupported(options.python + " with torch and torchvision is needed"));
    }
    std::filesystem::remove_all(folder);
    if (!status)
        std::fprintf(stderr, "bench_resnet: %s\n", status.error().text().c_str());
    return status ? 0 : 1;
}

// --- By operator ----------------------------------------------------------------------------------------------------

std::unique_ptr<test::TrainingRunner> prepare(const Result<graph::TrainingGraph> &training, std::int64_t batch)
{
    if (!training) {
        std::fprintf(stderr, "%s\n", training.error().text().c_str());
        return nullptr;
    }
    auto made = test::TrainingRunner::make(*training, batch);
    if (!made) {
        std::fprintf(stderr, "%s\n", made.error().text().c_str());
        return nullptr;
    }
    test::TrainingRunner &runner = **made;
    for (const graph::Tensor &tensor : runner.graph().tensors()) {
        if (tensor.role == graph::TensorRole::Parameter || tensor.role == graph::TensorRole::State)
            (void)device::initialize(tensor, tensor.shape.elements(1), 1, "", runner.data(tensor.id));
        if (tensor.role != graph::TensorRole::Input || tensor.type != graph::DType::F32)
            continue;
        float *values = runner.floats(tensor.id);
        for (std::int64_t i = 0; i < runner.elements(tensor.id); ++i)
            values[i] = tensor.name == "x" ? static_cast<float>(std::sin(0.37 * static_cast<double>(i % 10007))) : 1.0F;
    }
    return std::move(*made);
}

double step(test::TrainingRunner &runner)
{
    const double begin = test::TrainingRunner::processorSeconds();
    runner.run();
    return test::TrainingRunner::processorSeconds() - begin;
}

void print(const char *what, const test::TrainingRunner &runner, int steps)
{
    std::printf("%s, ms a step, %.2f GB:\n", what, static_cast<double>(runner.bytes()) * 1e-9);
    for (const auto &[type, seconds] : runner.seconds())
        std::printf("  %-28s %8.2f\n", type.c_str(), seconds / steps * 1e3);
}

int byOperator(std::int64_t batch, int repetitions)
{
    const auto model = graph::resnet50();
    if (!model)
        return 1;
    const auto plain =
        graph::differentiate(*model, OpId(0), OpId(static_cast<std::int64_t>(model->ops().size())), {}, {});
    if (!plain)
        return 1;
    auto fused = graph::fuseBatchNormalization(*plain);
    if (fused)
        fused = graph::chooseLayouts(*fused);
    const auto a = prepare(plain, batch);
    const auto b = prepare(fused, batch);
    if (!a || !b)
        return 1;
    double bestPlain = 1e9;
    double bestFused = 1e9;
    for (int i = 0; i < repetitions; ++i) {
        bestPlain = std::min(bestPlain, step(*a));
        bestFused = std::min(bestFused, step(*b));
    }
    print("as differentiated", *a, repetitions);
    print("fused and blocked", *b, repetitions);
    const double lossA = static_cast<double>(*a->floats(a->training().loss));
    const double lossB = static_cast<double>(*b->floats(b->training().loss));
    std::printf("plain %.1f ms, fused %.1f ms: %.2f times as fast; losses %.7f and %.7f\n", bestPlain * 1e3,
                bestFused * 1e3, bestPlain / bestFused, lossA, lossB);
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    runtime::restartWithSleepingThreads(argv);
    const auto number = [&](int at, std::int64_t otherwise) {
        return argc > at ? std::strtol(argv[at], nullptr, 10) : otherwise;
    };
    if (argc > 1 && std::string(argv[1]) == "operators")
        return byOperator(number(2, 8), static_cast<int>(number(3, 3)));
    Options options;
    options.steps = number(1, options.steps);
    options.batch = number(2, options.batch);
    options.image = number(3, options.image);
    if (argc > 4)
        options.python = argv[4];
    return againstPeer(options);
}

// SPDX-License-Identifier: Apache-2.0
// ResNet-50, forward and backward, as differentiated against with fused batch normalisation and blocked layouts: seconds of each by operator
// type, their ratio, and how far the losses are apart. Seconds are those of the processor, over all cores: set OMP_WAIT_POLICY=passive, or
// waiting counts. Arguments: batch (8), repetitions (3).
#include "engine/graph/fuse_batch_norm.h"
#include "engine/graph/layouts.h"
#include "engine/graph/zoo.h"
#include "tests/executor/device/training_runner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace {

using namespace planloom;

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

} // namespace

int main(int argc, char **argv)
{
    const std::int64_t batch = argc > 1 ? std::atoll(argv[1]) : 8;
    const int repetitions = argc > 2 ? std::atoi(argv[2]) : 3;
    const auto model = graph::resnet50();
    if (!model)
        return 1;
    const auto plain = graph::differentiate(*model, OpId(0), OpId(static_cast<std::int64_t>(model->ops().size())), {}, {});
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
    std::printf("plain %.1f ms, fused %.1f ms: %.2f times as fast; losses %.7f and %.7f\n", bestPlain * 1e3, bestFused * 1e3, bestPlain / bestFused, lossA, lossB);
    return 0;
}

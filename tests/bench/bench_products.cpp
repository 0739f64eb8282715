// SPDX-License-Identifier: Apache-2.0
// Matrix products of this engine's own against oneDNN's, in turn, in processor time: the shapes of a GPT-2 step,
// squares from small to large, odd ones.
//     bench_products [RUNS]        default 7
// The last lines add up GPT-2's (weights times how often a step has them) and give the ratio; where the processor has
// AVX-512 only oneDNN's are used.
#include "executor/device/cpu/onednn.h"
#include "executor/device/cpu/packed_product.h"
#include "executor/device/cpu/cpu_device.h"
#include "executor/runtime/arena.h"
#include "executor/runtime/sleeping_threads.h"
#include "tests/bench/peer_process.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace planloom;

struct Shape {
    std::string name;
    bool transposeA = false, transposeB = false;
    std::int64_t m = 0, n = 0, k = 0;
    int perStep = 0; ///< of GPT-2 on 1,024 tokens
};

std::vector<Shape> shapes()
{
    constexpr std::int64_t kTokens = 1024;
    constexpr std::int64_t kWidth = 768;
    struct Layer {
        const char *name;
        std::int64_t in, out;
        bool table; ///< the weight lies as (out, in)
        int count;
    };
    constexpr std::array<Layer, 5> kLayers = {{{"qkv", kWidth, 3 * kWidth, false, 12},
                                               {"projection", kWidth, kWidth, false, 12},
                                               {"up", kWidth, 4 * kWidth, false, 12},
                                               {"down", 4 * kWidth, kWidth, false, 12},
                                               {"head", kWidth, 50257, true, 1}}};
    std::vector<Shape> all;
    for (const Layer &layer : kLayers) {
        const std::string name = layer.name;
        all.push_back({name, false, layer.table, kTokens, layer.out, layer.in, layer.count});
        all.push_back({name + " dX", false, !layer.table, kTokens, layer.in, layer.out, layer.count});
        all.push_back({name + " dW", true, false, layer.table ? layer.out : layer.in,
                       layer.table ? layer.in : layer.out, kTokens, layer.count});
    }
    for (const std::int64_t size : {96, 128, 192, 256, 384, 512, 1024, 2048})
        all.push_back({"square " + std::to_string(size), false, false, size, size, size, 0});
    all.push_back({"few rows", false, false, 96, 3072, 768, 0});
    all.push_back({"few columns", false, false, 4096, 64, 768, 0});
    all.push_back({"few terms", false, false, 2048, 2048, 64, 0});
    all.push_back({"odd", false, true, 1001, 777, 333, 0});
    all.push_back({"odd dW", true, false, 333, 777, 1001, 0});
    return all;
}

/// Per core.
double now() { return bench::processorSeconds() / bench::cores(); }

/// Lower quartiles of the seconds of both, taken in turn.
std::array<double, 2> compare(int runs, const std::function<void()> &first, const std::function<void()> &second,
                              int repeat)
{
    std::array<std::vector<double>, 2> seconds;
    for (int run = 0; run <= runs; ++run) {
        for (std::size_t which = 0; which < 2; ++which) {
            const double begin = now();
            for (int i = 0; i < repeat; ++i)
                which == 0 ? first() : second();
            if (run > 0) // the first warms up
                seconds[which].push_back((now() - begin) / repeat);
        }
    }
    for (auto &of : seconds)
        std::sort(of.begin(), of.end());
    return {seconds[0][seconds[0].size() / 4], seconds[1][seconds[1].size() / 4]};
}

} // namespace

int main(int argc, char **argv)
{
    runtime::restartWithSleepingThreads(argv);
    if (!device::PackedProduct::possible())
        return std::fprintf(stderr,
                            "bench_products: this processor has no AVX2, so that all products are left to oneDNN\n"),
               1;
    const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
    constexpr std::int64_t kFloats = 50304 * 1024;
    auto arena = runtime::Arena::allocate(device::cpuDevice(), 3 * kFloats * 4);
    if (!arena)
        return std::fprintf(stderr, "bench_products: %s\n", arena.error().text().c_str()), 1;
    auto *a = reinterpret_cast<float *>(arena->use(0, kFloats * 4));
    auto *b = reinterpret_cast<float *>(arena->use(kFloats * 4, kFloats * 4));
    auto *c = reinterpret_cast<float *>(arena->use(2 * kFloats * 4, kFloats * 4));
    for (std::int64_t i = 0; i < kFloats; ++i) {
        a[i] = static_cast<float>(i * 7919 % 1013) / 506.5F - 1.0F;
        b[i] = static_cast<float>(i * 6007 % 1009) / 504.5F - 1.0F;
    }
    double stepOurs = 0;
    double stepTheirs = 0;
    double flops = 0;
    std::printf("%-14s %22s %9s %9s %6s %s\n", "", "m x n x k", "ours", "oneDNN", "ratio", "GFLOP/s");
    for (const Shape &s : shapes()) {
        const device::PackedProduct ours{s.m,
                                         s.n,
                                         s.k,
                                         s.transposeA ? device::MatrixStrides{1, s.m} : device::MatrixStrides{s.k, 1},
                                         s.transposeB ? device::MatrixStrides{1, s.k} : device::MatrixStrides{s.n, 1},
                                         s.n};
        auto theirs =
            device::onednn::matmul({{s.m, s.k}, {ours.a.row, ours.a.column}}, {{s.k, s.n}, {ours.b.row, ours.b.column}},
                                   {{s.m, s.n}, {s.n, 1}}, device::onednn::Bias::None, 1.0F);
        if (!theirs)
            return std::fprintf(stderr, "bench_products: %s\n", theirs.error().text().c_str()), 1;
        theirs->set(0, a);
        theirs->set(1, b);
        theirs->set(2, c);
        const double work = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
        const int repeat = static_cast<int>(std::max(1.0, 1e9 / work));
        const auto [own, other] = compare(
            runs, [&] { ours.run(a, b, nullptr, c, false); }, [&] { theirs->run(); }, repeat);
        stepOurs += s.perStep * own;
        stepTheirs += s.perStep * other;
        flops += s.perStep * work;
        const std::string size = std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k);
        std::printf("%-14s %22s %6.2f ms %6.2f ms %6.3f %.0f %.0f%s\n", s.name.c_str(), size.c_str(), own * 1e3,
                    other * 1e3, other / own, work / own * 1e-9, work / other * 1e-9,
                    ours.pays() ? "" : "  (left to oneDNN)");
    }
    std::printf("\nGPT-2 step: ours %.3f s (%.1f GFLOP/s), oneDNN %.3f s (%.1f GFLOP/s), ratio %.3f\n", stepOurs,
                flops / stepOurs * 1e-9, stepTheirs, flops / stepTheirs * 1e-9, stepTheirs / stepOurs);
    return 0;
}

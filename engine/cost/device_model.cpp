// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/device_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::cost {
namespace {

using graph::DType;

/// Efficiency of kernels against a family's nominal rates, which lie with the device types
/// (engine/cluster/presets.cpp). Sources: resources/docs/cost.md.
struct Family {
    const char *name;
    int processors;     ///< streaming multiprocessors that are switched on (the chips' white papers)
    double tensorCores; ///< of the dense 16 bit rate, by the largest products; 0: the chip has none
    double plain; ///< of the float32 rate, by the largest products. TF32 is left out, as PyTorch leaves it out unless
                  ///< it is asked for
    double attention; ///< of the largest products' rate, by fused attention
    double memory;    ///< of the memory's rate, by long copies and sums
};

// A100: at its power limit the clock lies near 1.3 GHz of 1.41, of which the best kernels use 0.87 (settled with
// tst_megatron in view). H100, H200: 790 to 800 TFLOP/s for 8192^3 in bfloat16 on random data. V100, T4, P100: large
// products in NVIDIA's own figures and in the micro-benchmarks of Jia et al. (arXiv 1804.06826, 1903.07486); a T4
// throttles at its 70 W. Attention: FlashAttention-2 (arXiv 2307.08691) on Ampere and before, -3 (arXiv 2407.08608) on
// Hopper.
constexpr Family kFamilies[] = {
    {"V100", 80, 0.80, 0.90, 0.45, 0.87},  {"P100", 56, 0.85, 0.88, 0.45, 0.80},  {"T4", 40, 0.55, 0.60, 0.45, 0.80},
    {"A100", 108, 0.80, 0.93, 0.75, 0.85}, {"H100", 132, 0.83, 0.80, 0.70, 0.88}, {"H200", 132, 0.83, 0.80, 0.70, 0.88},
    {"B200", 148, 0.78, 0.80, 0.70, 0.87},
};

/// Tiles that libraries choose from, and how fast each is in its main loop: a smaller one reads more for what it
/// computes. The ratios are those of NVIDIA's guide to matrix multiplication (Figure on tile efficiency), rounded.
struct Tile {
    double rows, columns, rate;
};
constexpr Tile kTiles[] = {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.94}, {128, 64, 0.8},
                           {64, 128, 0.8},  {64, 64, 0.62},  {32, 64, 0.35}};
/// Few tiles with long sums are split along them; each part beyond the first costs a pass over the result in float32.
constexpr double kSplits[] = {1, 2, 4, 8, 16};
/// Steps along the inner dimension that filling the pipeline and writing the tile take.
constexpr double kRamp = 64;
/// A kernel's launch, its first loads and its last stores, when launches are queued ahead.
constexpr double kLaunch = 4e-6;
/// Neither a product nor a stream, such as recurrent cells step by step.
constexpr double kComputing = 0.4;

double peakOf(const cluster::DeviceType &type, std::initializer_list<const char *> names)
{
    for (const char *name : names)
        if (const auto found = type.peakFlops.find(name); found != type.peakFlops.end())
            return found->second;
    return 0;
}

} // namespace

std::optional<DeviceModel> DeviceModel::of(const cluster::DeviceType &type)
{
    for (const Family &family : kFamilies) {
        if (!type.name.starts_with(family.name))
            continue;
        DeviceModel model;
        const double plain = peakOf(type, {"float32"}) * family.plain;
        // A family without bfloat16 has float16 at the rate that counts here.
        const double half = std::max(plain, peakOf(type, {"bfloat16", "float16"}) * family.tensorCores);
        model.m_rates.fill(plain);
        model.m_rates[static_cast<std::size_t>(DType::BF16)] = half;
        model.m_rates[static_cast<std::size_t>(DType::F16)] = half;
        model.m_rates[static_cast<std::size_t>(DType::F64)] =
            std::max(plain / 32, peakOf(type, {"float64"}) * family.plain);
        model.m_attention = family.attention;
        model.m_processors = family.processors;
        model.m_bytesPerSecond = type.memoryBandwidth * family.memory;
        model.m_launch = kLaunch;
        model.m_ramp = kRamp;
        return model;
    }
    return std::nullopt;
}

DeviceModel DeviceModel::with(const Reached &reached) const
{
    DeviceModel model = *this;
    for (double &rate : model.m_rates)
        rate *= reached.products;
    model.m_attention *= reached.attention;
    model.m_ramp += reached.ramp;
    return model;
}

std::vector<std::string> DeviceModel::families()
{
    std::vector<std::string> names;
    for (const Family &family : kFamilies)
        names.emplace_back(family.name);
    return names;
}

Seconds DeviceModel::streaming(double bytes) const { return Seconds(bytes / m_bytesPerSecond + m_launch); }

Seconds DeviceModel::product(double rows, double columns, double inner, double batch, double bytes, DType type) const
{
    const double perProcessor = productRate(type) / m_processors;
    double best = std::numeric_limits<double>::infinity();
    for (const Tile &tile : kTiles) {
        const double tiles = batch * std::ceil(rows / tile.rows) * std::ceil(columns / tile.columns);
        const double tileRate = perProcessor * tile.rate;
        for (const double split : kSplits) {
            const double waves = std::ceil(tiles * split / m_processors);
            const double main = waves * 2 * tile.rows * tile.columns * (inner / split + m_ramp) / tileRate;
            const double moved = bytes + (split > 1 ? 8 * split * batch * rows * columns : 0);
            best = std::min(best, std::max(main, moved / m_bytesPerSecond));
            if (tiles * split >= m_processors)
                break;
        }
    }
    return Seconds(best + m_launch);
}

Seconds DeviceModel::seconds(const KernelWork &work, double samples) const
{
    const double bytes = work.bytes.at(samples);
    const double rate = productRate(work.type);
    switch (work.kind) {
    case KernelWork::Kind::Product:
        return product(work.rows.at(samples), work.columns.at(samples), work.inner.at(samples), work.batch.at(samples),
                       bytes, work.type);
    case KernelWork::Kind::Attention:
        return Seconds(std::max(work.flops.at(samples) / (rate * m_attention), bytes / m_bytesPerSecond) + m_launch);
    case KernelWork::Kind::Computing:
        return Seconds(std::max(work.flops.at(samples) / (rate * kComputing), bytes / m_bytesPerSecond) + m_launch);
    case KernelWork::Kind::Streaming: break;
    }
    return streaming(bytes);
}

Seconds DeviceModel::seconds(std::span<const KernelWork> work, double samples) const
{
    Seconds sum(0);
    for (const KernelWork &kernel : work)
        sum += seconds(kernel, samples);
    return sum;
}

} // namespace planloom::cost

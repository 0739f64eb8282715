// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/parameter_updates.h"

#include "executor/device/cuda/operator_support.h"

#include <cmath>

namespace planloom::cuda {

namespace {

constexpr std::int64_t kNormBlocks = 1024; // all that a GPU runs at a time

std::vector<ParameterRange> listOf(std::span<const device::UpdateRange> ranges)
{
    std::vector<ParameterRange> list;
    std::int64_t first = 0;
    std::int64_t quads = 0;
    for (const device::UpdateRange &range : ranges) {
        if (range.count == 0)
            continue;
        ParameterRange made{};
        made.parameter = range.parameter;
        made.gradient = range.gradient;
        std::copy(range.states.begin(), range.states.end(), made.states);
        made.copy = range.copy;
        made.count = range.count;
        made.first = first;
        made.firstQuad = quads;
        made.rateFactor = range.rateFactor;
        made.decay = range.decay;
        made.tensor = range.tensor;
        first += range.count;
        quads += ParameterRanges::quadsIn(range.count);
        list.push_back(made);
    }
    return list;
}

} // namespace

Result<std::unique_ptr<device::Updates>> ParameterUpdates::make(CudaDevice &device, const update::Formula &formula,
                                                                std::span<const device::UpdateRange> ranges)
{
    std::unique_ptr<ParameterUpdates> made(new ParameterUpdates(formula));
    const std::vector<ParameterRange> list = listOf(ranges);
    auto onDevice = uploaded(device, list.data(), static_cast<std::int64_t>(list.size() * sizeof(ParameterRange)));
    auto sums = device.allocate(device::Space::Device, (kNormBlocks + 1) * std::int64_t{sizeof(double)});
    if (!onDevice || !sums)
        return !onDevice ? onDevice.error() : sums.error();
    made->m_list = std::move(**onDevice);
    made->m_sums = std::move(*sums);
    made->m_ranges = {reinterpret_cast<const ParameterRange *>(made->m_list.data()),
                      static_cast<std::int64_t>(list.size()), list.empty() ? 0 : list.back().first + list.back().count,
                      list.empty() ? 0 : list.back().firstQuad + ParameterRanges::quadsIn(list.back().count)};
    if (formula.rule != "adamw" && formula.rule != "sgd") {
        auto rule = FormulaUpdate::make(device, formula, ranges, made->m_ranges);
        if (!rule)
            return rule.error();
        made->m_rule.emplace(std::move(*rule));
    }
    return std::unique_ptr<device::Updates>(std::move(made));
}

void ParameterUpdates::update(CudaQueue &queue, const device::UpdateStep &how)
{
    if (m_rule) {
        m_rule->run(queue, how);
        return;
    }
    if (m_formula.rule == "adamw") {
        adamW(queue, how);
        return;
    }
    Sgd kernel;
    kernel.ranges = m_ranges;
    kernel.rate = static_cast<float>(how.learningRate);
    kernel.momentum = static_cast<float>(m_formula.setting("momentum"));
    kernel.scale = static_cast<float>(how.gradientScale);
    queue.items(kernel, m_ranges.elements);
}

void ParameterUpdates::adamW(CudaQueue &queue, const device::UpdateStep &how)
{
    const double beta1 = m_formula.setting("beta1");
    const double beta2 = m_formula.setting("beta2");
    const auto step = static_cast<double>(how.step);
    AdamW kernel;
    kernel.ranges = m_ranges;
    kernel.rate = static_cast<float>(how.learningRate);
    kernel.beta1 = static_cast<float>(beta1);
    kernel.restOf1 = static_cast<float>(1.0 - beta1);
    kernel.beta2 = static_cast<float>(beta2);
    kernel.restOf2 = static_cast<float>(1.0 - beta2);
    kernel.epsilon = static_cast<float>(m_formula.setting("epsilon"));
    kernel.scale = static_cast<float>(how.gradientScale);
    kernel.rootScale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, step)));
    kernel.inverseCorrection1 = 1.0 / (1.0 - std::pow(beta1, step));
    queue.items(kernel, (m_ranges.quads + ParameterRanges::kEach - 1) / ParameterRanges::kEach);
}

void ParameterUpdates::squaredNorm(CudaQueue &queue, double *host)
{
    SquaredNorm parts;
    parts.ranges = m_ranges;
    parts.sums = reinterpret_cast<double *>(m_sums.data());
    queue.rows(parts, kNormBlocks);
    SumOfSums whole;
    whole.sums = parts.sums;
    whole.result = parts.sums + kNormBlocks;
    whole.count = kNormBlocks;
    queue.rows(whole, 1);
    queue.copyToHost(host, whole.result, sizeof *host);
}

} // namespace planloom::cuda

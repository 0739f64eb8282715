// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/reference.h"

#include <algorithm>

namespace planloom::reference {

inline Function softmax(bool logarithm)
{
    return [logarithm](const Call &c) {
        const std::size_t axis = c.axis(-1, c.in[0].dims.size());
        forEach(c.out[0].dims, [&](const Dims &index) {
            double sum = 0;
            Dims other = index;
            for (other[axis] = 0; other[axis] < c.in[0].dims[axis]; ++other[axis])
                sum += std::exp(c.in[0].at(other) - c.in[0].at(index));
            c.out[0].at(index) = logarithm ? -std::log(sum) : 1.0 / sum;
        });
    };
}

/// Rows of trailing dimensions; RMS normalisation where not centred.
inline Function layerNorm(bool centred)
{
    return [centred](const Call &c) {
        const std::size_t axis = c.axis(-1, c.in[0].dims.size());
        const std::int64_t n =
            Array::count(Dims(c.in[0].dims.begin() + static_cast<std::ptrdiff_t>(axis), c.in[0].dims.end()));
        for (std::int64_t row = 0; row < c.in[0].size() / n; ++row) {
            double mean = 0;
            double square = 0;
            for (std::int64_t i = 0; i < n && centred; ++i)
                mean += c.in[0][row * n + i] / static_cast<double>(n);
            for (std::int64_t i = 0; i < n; ++i)
                square += std::pow(c.in[0][row * n + i] - mean, 2) / static_cast<double>(n);
            const double inverse = 1.0 / std::sqrt(square + c.op.number("epsilon", 1e-5));
            for (std::int64_t i = 0; i < n; ++i)
                c.out[0][row * n + i] =
                    (c.in[0][row * n + i] - mean) * inverse * c.in[1][i] + (c.has(2) ? c.in[2][i] : 0.0);
            if (c.makes(1))
                c.out[1][row] = centred ? mean : inverse;
            if (c.makes(2))
                c.out[2][row] = inverse;
        }
    };
}

/// With the statistics of the batch, or the running ones; the running ones are not updated here.
inline void batchNorm(const Call &c)
{
    const bool training = c.op.integer("training_mode", 1) != 0;
    const std::int64_t samples = c.in[0].dims[0];
    const std::int64_t channels = c.in[0].dims[1];
    const std::int64_t area = c.in[0].size() / samples / channels;
    for (std::int64_t ch = 0; ch < channels; ++ch) {
        const auto forChannel = [&](auto f) {
            for (std::int64_t s = 0; s < samples; ++s) {
                for (std::int64_t i = 0; i < area; ++i)
                    f((s * channels + ch) * area + i);
            }
        };
        double mean = training ? 0.0 : c.in[3][ch];
        double variance = training ? 0.0 : c.in[4][ch];
        const auto count = static_cast<double>(samples * area);
        if (training) {
            forChannel([&](std::int64_t i) { mean += c.in[0][i] / count; });
            forChannel([&](std::int64_t i) { variance += std::pow(c.in[0][i] - mean, 2) / count; });
        }
        const double inverse = 1.0 / std::sqrt(variance + c.op.number("epsilon", 1e-5));
        forChannel([&](std::int64_t i) { c.out[0][i] = (c.in[0][i] - mean) * inverse * c.in[1][ch] + c.in[2][ch]; });
        if (c.makes(1))
            c.out[1][ch] = mean;
        if (c.makes(2))
            c.out[2][ch] = inverse;
    }
}

inline void crossEntropy(const Call &c)
{
    const std::int64_t classes = c.in[0].dims.back();
    double sum = 0;
    double counted = 0;
    for (std::int64_t row = 0; row < c.in[0].size() / classes; ++row) {
        const auto first = c.in[0].values.begin() + row * classes;
        const double maximum = *std::max_element(first, first + classes);
        double total = 0;
        for (std::int64_t i = 0; i < classes; ++i)
            total += std::exp(first[i] - maximum);
        const double logSumExp = maximum + std::log(total);
        if (c.makes(1)) {
            c.out[1][2 * row] = maximum;
            c.out[1][2 * row + 1] = logSumExp;
        }
        const double label = c.in[1][row];
        if (label == static_cast<double>(c.op.integer("ignore_index", -100)))
            continue;
        counted += 1;
        sum += logSumExp - first[static_cast<std::ptrdiff_t>(label)];
    }
    c.out[0][0] = sum / std::max(1.0, counted);
}

/// The mean of @p f over the elements whose mask is not 0.
template <class F>
Function elementLoss(F f)
{
    return [f](const Call &c) {
        double sum = 0;
        double counted = 0;
        for (std::int64_t i = 0; i < c.in[0].size(); ++i) {
            if (c.has(2) && c.in[2][i] == 0)
                continue;
            counted += 1;
            sum += f(c.op, c.in[0][i], c.in[1][i]);
        }
        c.out[0][0] = c.op.number("share", 1) * sum / std::max(1.0, counted);
    };
}

inline double huber(const graph::Op &op, double x, double target)
{
    const double delta = op.number("delta", 1);
    const double size = std::abs(x - target);
    return size <= delta ? size * size / 2 : delta * (size - delta / 2);
}

/// By probabilities; the logits of the cases are small.
inline double logistic(const graph::Op &, double x, double target)
{
    const double probability = 1 / (1 + std::exp(-x));
    return -target * std::log(probability) - (1 - target) * std::log(1 - probability);
}

inline void addNormalisation(Table &t)
{
    using graph::Op;
    t["MeanSquaredErrorLoss"] = elementLoss([](const Op &, double x, double y) { return (x - y) * (x - y); });
    t["MeanAbsoluteErrorLoss"] = elementLoss([](const Op &, double x, double y) { return std::abs(x - y); });
    t["HuberLoss"] = elementLoss(huber);
    t["SigmoidCrossEntropyLoss"] = elementLoss(logistic);
    t["Softmax"] = softmax(false);
    t["LogSoftmax"] = softmax(true);
    t["LayerNormalization"] = layerNorm(true);
    t["RMSNormalization"] = layerNorm(false);
    t["BatchNormalization"] = batchNorm;
    t["SoftmaxCrossEntropyLoss"] = crossEntropy;
}

} // namespace planloom::reference

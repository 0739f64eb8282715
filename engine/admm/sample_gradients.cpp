// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/sample_gradients.h"

#include "engine/admm/gradients.h"

#include <algorithm>

namespace planloom::admm {
namespace {

/// Row by row.
Matrix asMatrix(std::span<const float> values, std::int64_t rows, std::int64_t columns)
{
    using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    return Eigen::Map<const RowMajor>(values.data(), rows, columns).cast<double>();
}

/// A column a sample becomes a row a sample.
std::vector<double> byRow(const Matrix &columns) { return {columns.data(), columns.data() + columns.size()}; }

} // namespace

SampleGradients sampleGradients(const Pattern &pattern, const PlainParameters &parameters, std::span<const float> x,
                                std::span<const std::int64_t> labels)
{
    const auto count = static_cast<std::int64_t>(labels.size());
    Samples samples{std::vector<Matrix>(static_cast<std::size_t>(pattern.steps), Matrix(pattern.inputs, count)), {}};
    for (const std::int64_t label : labels)
        samples.labels.push_back(static_cast<int>(std::clamp<std::int64_t>(label, 0, pattern.classes - 1)));
    const Matrix all = asMatrix(x, count, pattern.steps * pattern.inputs);
    for (std::int64_t t = 0; t < pattern.steps; ++t)
        samples.x[static_cast<std::size_t>(t)] = all.middleCols(t * pattern.inputs, pattern.inputs).transpose();
    const Matrix bias = asMatrix(parameters.bias, 2, pattern.hidden);
    const Matrix v = pattern.transposed ? Matrix(asMatrix(parameters.v, pattern.hidden, pattern.classes).transpose())
                                        : asMatrix(parameters.v, pattern.classes, pattern.hidden);
    const Parameters plain{asMatrix(parameters.u, pattern.hidden, pattern.inputs),
                           asMatrix(parameters.w, pattern.hidden, pattern.hidden), bias.colwise().sum().transpose(), v,
                           asMatrix(parameters.c, pattern.classes, 1)};
    const Gradients gradients = gradientsOf(plain, samples, 0);
    SampleGradients result;
    for (std::size_t t = 0; t < gradients.a.size(); ++t) {
        result.a.push_back(byRow(gradients.a[t]));
        result.h.push_back(byRow(gradients.h[t]));
    }
    result.o = byRow(gradients.o);
    return result;
}

} // namespace planloom::admm

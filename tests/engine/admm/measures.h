// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/gradients.h"
#include "tests/engine/admm/synchronous.h"

#include <cmath>
#include <vector>

namespace planloom::admm {

inline double augmented(const Matrix &residual, const Matrix &dual, double penalty)
{
    return penalty / 2 * residual.squaredNorm() - residual.cwiseProduct(dual).sum();
}

/// The augmented Lagrangian with the ridge, summed over workers and samples.
inline double lagrangian(const Training &training)
{
    const Method &method = training.method;
    double sum = penaltyOf(training.parameters, method.settings.ridge);
    for (const Worker &worker : training.workers) {
        const Blocks &blocks = worker.blocks;
        sum += crossEntropy(blocks.o, worker.samples.labels);
        sum += augmented(outputResidual(blocks, training.parameters), blocks.l3, method.settings.rho);
        for (int step = 0; step < worker.samples.steps(); ++step) {
            const auto t = static_cast<std::size_t>(step);
            sum += augmented(inputResidual(worker, training.parameters, step), blocks.l1[t], method.penalty[t]);
            sum += augmented(hiddenResidual(blocks, step), blocks.l2[t], method.penalty[t]);
        }
    }
    return sum;
}

/// The same to more digits: what it changes by is what the variables do, not how it is added up.
inline long double exactLagrangian(const Training &training)
{
    using Wide = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;
    const auto wide = [](const auto &matrix) -> Wide { return matrix.template cast<long double>(); };
    const auto augmentedBy = [](const Wide &residual, const Wide &dual, long double penalty) {
        return penalty / 2 * residual.squaredNorm() - residual.cwiseProduct(dual).sum();
    };
    const Parameters &parameters = training.parameters;
    const Method &method = training.method;
    const auto ridge = static_cast<long double>(method.settings.ridge);
    long double sum = ridge / 2
        * (wide(parameters.u).squaredNorm() + wide(parameters.w).squaredNorm() + wide(parameters.v).squaredNorm());
    for (const Worker &worker : training.workers) {
        const Blocks &blocks = worker.blocks;
        for (std::size_t t = 0; t < worker.samples.x.size(); ++t) {
            Wide made = wide(parameters.u) * wide(worker.samples.x[t]);
            if (t > 0)
                made += wide(parameters.w) * wide(blocks.h[t - 1]);
            made.colwise() += wide(parameters.b).col(0);
            const Wide state = wide(blocks.a[t]).unaryExpr([](long double input) { return std::tanh(input); });
            sum += augmentedBy(wide(blocks.a[t]) - made, wide(blocks.l1[t]), method.penalty[t]);
            sum += augmentedBy(wide(blocks.h[t]) - state, wide(blocks.l2[t]), method.penalty[t]);
        }
        const Wide o = wide(blocks.o);
        Wide made = wide(parameters.v) * wide(blocks.h.back());
        made.colwise() += wide(parameters.c).col(0);
        sum += augmentedBy(o - made, wide(blocks.l3), method.settings.rho);
        for (Eigen::Index m = 0; m < o.cols(); ++m) {
            const long double largest = o.col(m).maxCoeff();
            const Wide exponentials = o.col(m).unaryExpr([&](long double x) { return std::exp(x - largest); });
            sum += largest + std::log(exponentials.sum()) - o(worker.samples.labels[static_cast<std::size_t>(m)], m);
        }
    }
    return sum;
}

/// Share of samples whose largest output is the label's.
inline double accuracy(const Parameters &parameters, const Samples &samples)
{
    Worker worker(samples, parameters);
    restart(worker, parameters);
    int right = 0;
    for (Eigen::Index m = 0; m < samples.count(); ++m) {
        Eigen::Index best = 0;
        worker.blocks.o.col(m).maxCoeff(&best);
        right += best == samples.labels[static_cast<std::size_t>(m)] ? 1 : 0;
    }
    return right / static_cast<double>(samples.count());
}

/// Norms of the residuals, over all workers. All of them, not the last step's alone, tell whether a training has
/// converged.
struct Residuals {
    std::vector<double> input, hidden; ///< by step
    double output = 0;
};
inline Residuals residualsOf(const Training &training)
{
    const auto steps = training.method.penalty.size();
    Residuals result{std::vector<double>(steps), std::vector<double>(steps), 0};
    for (const Worker &worker : training.workers) {
        for (std::size_t t = 0; t < steps; ++t) {
            result.input[t] += inputResidual(worker, training.parameters, static_cast<int>(t)).squaredNorm();
            result.hidden[t] += hiddenResidual(worker.blocks, static_cast<int>(t)).squaredNorm();
        }
        result.output += outputResidual(worker.blocks, training.parameters).squaredNorm();
    }
    for (std::size_t t = 0; t < steps; ++t) {
        result.input[t] = std::sqrt(result.input[t]);
        result.hidden[t] = std::sqrt(result.hidden[t]);
    }
    result.output = std::sqrt(result.output);
    return result;
}

} // namespace planloom::admm

// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/measures.h"

#include <algorithm>
#include <cmath>

namespace planloom::admm {
namespace {

double crossEntropy(const Matrix &logits, const std::vector<int> &labels)
{
    double sum = 0;
    for (Eigen::Index m = 0; m < logits.cols(); ++m) {
        const double largest = logits.col(m).maxCoeff();
        sum += largest + std::log((logits.col(m).array() - largest).exp().sum())
            - logits(labels[static_cast<std::size_t>(m)], m);
    }
    return sum;
}

double penaltyOf(const Parameters &parameters, double ridge)
{
    return ridge / 2 * (parameters.u.squaredNorm() + parameters.w.squaredNorm() + parameters.v.squaredNorm());
}

double augmented(const Matrix &residual, const Matrix &dual, double penalty)
{
    return penalty / 2 * residual.squaredNorm() - residual.cwiseProduct(dual).sum();
}

} // namespace

double lagrangian(const Training &training)
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

double Gradients::largest() const
{
    return std::max({parameters.u.cwiseAbs().maxCoeff(), parameters.w.cwiseAbs().maxCoeff(),
                     parameters.b.cwiseAbs().maxCoeff(), parameters.v.cwiseAbs().maxCoeff(),
                     parameters.c.cwiseAbs().maxCoeff()});
}

Gradients gradientsOf(const Parameters &parameters, const Samples &samples, double ridge)
{
    Worker worker(samples, parameters);
    restart(worker, parameters);
    const Blocks &blocks = worker.blocks;
    const std::size_t steps = samples.x.size();
    Gradients result;
    result.objective = crossEntropy(blocks.o, samples.labels) + penaltyOf(parameters, ridge);
    result.o = outputGradient(blocks.o, samples.labels);
    result.parameters = {ridge * parameters.u, ridge * parameters.w, Vector::Zero(parameters.b.size()),
                         ridge * parameters.v + result.o * blocks.h.back().transpose(), result.o.rowwise().sum()};
    result.h.resize(steps);
    result.a.resize(steps);
    for (std::size_t t = steps; t-- > 0;) {
        result.h[t] = t + 1 == steps ? Matrix(parameters.v.transpose() * result.o)
                                     : Matrix(parameters.w.transpose() * result.a[t + 1]);
        result.a[t] = result.h[t].array() * (1 - blocks.h[t].array().square());
        result.parameters.u += result.a[t] * samples.x[t].transpose();
        result.parameters.b += result.a[t].rowwise().sum();
        if (t > 0)
            result.parameters.w += result.a[t] * blocks.h[t - 1].transpose();
    }
    return result;
}

double accuracy(const Parameters &parameters, const Samples &samples)
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

Residuals residualsOf(const Training &training)
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

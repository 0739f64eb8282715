// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/gradients.h"

#include <algorithm>
#include <cmath>

namespace planloom::admm {

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

} // namespace planloom::admm

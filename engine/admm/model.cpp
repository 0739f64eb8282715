// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/model.h"

namespace planloom::admm {

Samples Samples::slice(Eigen::Index first, Eigen::Index count) const
{
    Samples result;
    for (const Matrix &step : x)
        result.x.emplace_back(step.middleCols(first, count));
    result.labels.assign(labels.begin() + first, labels.begin() + first + count);
    return result;
}

Blocks::Blocks(const Samples &samples, const Parameters &parameters)
    : a(samples.x.size(), Matrix::Zero(parameters.b.size(), samples.count())),
      h(a),
      l1(a),
      l2(a),
      o(Matrix::Zero(parameters.c.size(), samples.count())),
      l3(o)
{
}

Worker::Worker(Samples given, const Parameters &parameters) : samples(std::move(given)), blocks(samples, parameters) {}

void restart(Worker &worker, const Parameters &parameters)
{
    Blocks &blocks = worker.blocks;
    for (std::size_t t = 0; t < worker.samples.x.size(); ++t) {
        blocks.a[t] = (parameters.u * worker.samples.x[t]).colwise() + parameters.b;
        if (t > 0)
            blocks.a[t] += parameters.w * blocks.h[t - 1];
        blocks.h[t] = tanhOf(blocks.a[t]);
    }
    blocks.o = (parameters.v * blocks.h.back()).colwise() + parameters.c;
}

Matrix inputResidual(const Worker &worker, const Parameters &parameters, int step)
{
    const auto t = static_cast<std::size_t>(step);
    Matrix residual = worker.blocks.a[t] - parameters.u * worker.samples.x[t];
    residual.colwise() -= parameters.b;
    if (t > 0)
        residual -= parameters.w * worker.blocks.h[t - 1];
    return residual;
}

Matrix hiddenResidual(const Blocks &blocks, int step)
{
    const auto t = static_cast<std::size_t>(step);
    return blocks.h[t] - tanhOf(blocks.a[t]);
}

Matrix outputResidual(const Blocks &blocks, const Parameters &parameters)
{
    return (blocks.o - parameters.v * blocks.h.back()).colwise() - parameters.c;
}

Matrix tanhOf(const Matrix &a) { return 1 - 2 / ((2 * a.array()).exp() + 1); }

Matrix softmax(const Matrix &logits)
{
    const Eigen::RowVectorXd largest = logits.colwise().maxCoeff();
    Matrix result = (logits.rowwise() - largest).array().exp();
    const Eigen::RowVectorXd sums = result.colwise().sum();
    return result.array().rowwise() / sums.array();
}

Matrix outputGradient(const Matrix &logits, const std::vector<int> &labels)
{
    Matrix result = softmax(logits);
    for (Eigen::Index m = 0; m < result.cols(); ++m)
        result(labels[static_cast<std::size_t>(m)], m) -= 1;
    return result;
}

} // namespace planloom::admm

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/settings.h"

#include <Eigen/Core>

#include <vector>

/// The variables of P-ADMMiRNN (arXiv 2006.05622) in double precision, under the paper's letters. A column is a sample;
/// steps in time are numbered from 0 here.
namespace planloom::admm {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

/// a_t = u x_t + w h_(t-1) + b, h_t = tanh(a_t), o = v h_N + c; h_0 = 0.
struct Parameters {
    Matrix u; ///< hidden x inputs
    Matrix w; ///< hidden x hidden
    Vector b; ///< hidden
    Matrix v; ///< classes x hidden
    Vector c; ///< classes
};

/// What a worker trains on.
struct Samples {
    std::vector<Matrix> x;   ///< by step: inputs x samples
    std::vector<int> labels; ///< by sample: 0 .. classes - 1

    [[nodiscard]] int steps() const { return static_cast<int>(x.size()); }
    [[nodiscard]] Eigen::Index count() const { return x.front().cols(); }
    /// Samples @p first .. @p first + @p count - 1.
    [[nodiscard]] Samples slice(Eigen::Index first, Eigen::Index count) const;
};

/// The variables that belong to samples: they stay with the samples from iteration to iteration.
struct Blocks {
    std::vector<Matrix> a, h;   ///< by step: hidden x samples
    std::vector<Matrix> l1, l2; ///< duals of a_t - u x_t - w h_(t-1) - b and of h_t - tanh(a_t)
    Matrix o, l3;               ///< classes x samples; the dual of o - v h_N - c

    /// Zeros of the right shapes.
    Blocks(const Samples &samples, const Parameters &parameters);
};

/// Samples with their variables.
struct Worker {
    Samples samples;
    Blocks blocks;

    Worker(Samples samples, const Parameters &parameters);
};

/// a, h and o of a forward pass. The duals stay.
void restart(Worker &worker, const Parameters &parameters);

/// Residuals: a_t - u x_t - w h_(t-1) - b, h_t - tanh(a_t), o - v h_N - c.
Matrix inputResidual(const Worker &worker, const Parameters &parameters, int step);
Matrix hiddenResidual(const Blocks &blocks, int step);
Matrix outputResidual(const Blocks &blocks, const Parameters &parameters);

/// Element by element, to 4e-16: by an exponential function, which Eigen computes for several elements at once.
Matrix tanhOf(const Matrix &a);
/// Columns of probabilities.
Matrix softmax(const Matrix &logits);
/// softmax(@p logits) less one at each column's label: the gradient of the summed cross-entropy.
Matrix outputGradient(const Matrix &logits, const std::vector<int> &labels);

} // namespace planloom::admm

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/sums.h"

#include <vector>

namespace planloom::admm {

/// Of the softmax of @p logits (classes x samples), summed over samples.
double crossEntropy(const Matrix &logits, const std::vector<int> &labels);
/// ridge / 2 * squares of u, w, v.
double penaltyOf(const Parameters &parameters, double ridge);

/// The objective of a forward pass, with its gradients by back-propagation: what the duals converge to.
struct Gradients {
    double objective = 0; ///< summed cross-entropy + ridge / 2 * squares of u, w, v
    Parameters parameters;
    Matrix o;                 ///< classes x samples
    std::vector<Matrix> h, a; ///< by step: hidden x samples

    /// The largest absolute value among the parameters' gradients.
    [[nodiscard]] double largest() const;
};
Gradients gradientsOf(const Parameters &parameters, const Samples &samples, double ridge);

} // namespace planloom::admm

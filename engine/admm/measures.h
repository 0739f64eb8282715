// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/synchronous.h"

namespace planloom::admm {

/// The augmented Lagrangian with the ridge, summed over workers and samples.
double lagrangian(const Training &training);

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

/// Share of samples whose largest output is the label's.
double accuracy(const Parameters &parameters, const Samples &samples);

/// Norms of the residuals, over all workers. All of them, not the last step's alone, tell whether a training has
/// converged.
struct Residuals {
    std::vector<double> input, hidden; ///< by step
    double output = 0;
};
Residuals residualsOf(const Training &training);

} // namespace planloom::admm

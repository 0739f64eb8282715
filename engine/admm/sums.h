// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/updates.h"

/// The sub-problems of the parameters, which need nothing of the samples but sums: workers add theirs, and each then
/// solves the same small system. The sums are accumulated and factored in double: they square the data's condition
/// number.
namespace planloom::admm {

/// gram = Σ p z zᵀ and product = Σ p y zᵀ of a layer y ≈ K z.
struct Sums {
    Matrix gram;    ///< columns x columns, symmetric
    Matrix product; ///< rows x columns

    Sums &operator+=(const Sums &other);
    /// Numbers that an exchange carries: the gram's triangle and the product.
    [[nodiscard]] std::int64_t elements() const;
};

/// Of [u w b], with z = [x_t; h_(t-1); 1] over all steps.
Sums sumsIn(const Worker &worker, const Method &method);
/// Of [v c], with z = [h_N; 1].
Sums sumsOut(const Worker &worker, const Method &method);

/// K of K (gram + ridge on all but the last column + proximal) = product + proximal * @p old; @p old is K before.
/// Error: BadInput, the sum has no Cholesky factor, and what to raise.
Result<Matrix> solve(const Sums &sums, const Settings &settings, const Matrix &old);

/// [u w b] and [v c] as one matrix each, and back.
Matrix packedIn(const Parameters &parameters);
Matrix packedOut(const Parameters &parameters);
void unpackIn(const Matrix &packed, Parameters &parameters);
void unpackOut(const Matrix &packed, Parameters &parameters);

/// A shared block of the linearised form.
enum class Shared : std::uint8_t { U, W, B, V, C };
/// Its step: block + numerator / norm.
struct Step {
    Matrix numerator;
    double norm = 0;

    Step &operator+=(const Step &other);
};
Step stepOf(Shared block, const Worker &worker, const Parameters &parameters, const Method &method);
/// A block whose norm and ridge are both 0 stays.
void takeStep(Shared block, const Step &step, const Settings &settings, Parameters &parameters);

} // namespace planloom::admm

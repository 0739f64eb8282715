// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace planloom::device {

/// GELU (Hendrycks and Gimpel, 2016) of n floats: with the error function, or with the approximation by tanh.
void geluErf(const float *x, float *y, std::int64_t n);
void geluTanh(const float *x, float *y, std::int64_t n);

/// dx = dy * GELU'(x). dx may be dy.
void geluErfGrad(const float *dy, const float *x, float *dx, std::int64_t n);
void geluTanhGrad(const float *dy, const float *x, float *dx, std::int64_t n);

} // namespace planloom::device

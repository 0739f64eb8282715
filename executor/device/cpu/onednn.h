// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <memory>
#include <vector>

// The only door to oneDNN: nothing outside onednn*.cpp knows its version. Everything is row-major at the border, and
// float32 by default; the layout that a primitive prefers inside, and the copies into and out of it, are
// settled when it is made.
namespace planloom::device::onednn {

/// A tensor argument with explicit strides, in elements.
struct View {
    std::vector<std::int64_t> dims;
    std::vector<std::int64_t> strides;
    bool half = false; ///< bfloat16, not float32
};

/// A primitive made ready. Arguments are given in the order that its maker states. Not thread-safe.
class Primitive {
public:
    struct State;
    explicit Primitive(std::unique_ptr<State> state);
    Primitive(Primitive &&) noexcept;
    Primitive &operator=(Primitive &&) noexcept;
    ~Primitive();

    void set(std::size_t argument, const void *data);
    void run();

private:
    std::unique_ptr<State> m_state;
};

enum class Bias { None, Float, Half };

/// y = alpha * a b + bias, or y += with @p add. Arguments: a (.., m, k), b (.., k, n), y (.., m, n), bias (.., 1, n) if
/// there is one. Leading dimensions are equal in number; one that is 1 repeats. Sums are float32 whatever the arguments
/// are. Errors: Unsupported, among them bfloat16 on a processor without its products (oneDNN wants AVX-512).
Result<Primitive> matmul(const View &a, const View &b, const View &y, Bias bias, float alpha, bool add = false);

/// c = alpha * op(a) op(b) + beta * c for small row-major matrices, on the calling thread's share of the cores (one,
/// inside an OpenMP loop).
void gemm(bool transposeA, bool transposeB, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float *a,
          std::int64_t lda, const float *b, std::int64_t ldb, float beta, float *c, std::int64_t ldc);

} // namespace planloom::device::onednn

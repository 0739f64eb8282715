// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_device.h"

namespace planloom::cuda {

/// Y = A B, or Y += A B, of row-major matrices; several pairs at fixed distances.
struct ProductShape {
    std::int64_t rows = 0, inner = 0, columns = 0; ///< A (rows, inner), B (inner, columns) after transposition
    bool transA = false, transB = false;
    std::int64_t batch = 1;
    std::int64_t strideA = 0, strideB = 0; ///< elements from one matrix to the next; 0: all the same
    std::int64_t leadingA = 0, leadingY = 0; ///< elements from one row to the next; 0: rows follow each other
    Kind kindA = Kind::F32, kindB = Kind::F32, kindY = Kind::F32;
    bool adds = false;
    Epilogue epilogue = Epilogue::None; ///< of batch 1
    /// Bytes, of all addresses. Tensors have more: arenas place them by 64 bytes, buckets their parameters by 32
    /// elements.
    std::uint32_t alignment = 16;
};

/// What an epilogue reads, or writes: a row that is added to all of Y, and a matrix of Y's shape; both of Y's type.
struct EpilogueData {
    const void *bias = nullptr;
    const void *auxiliary = nullptr;
};

/// One product by cuBLASLt, with an algorithm chosen when it is made.
class MatrixProduct {
public:
    /// Errors: Unsupported (cuBLASLt is not there, or has no algorithm for this).
    static Result<MatrixProduct> make(CudaDevice &device, const ProductShape &shape);
    MatrixProduct(MatrixProduct &&other) noexcept;
    MatrixProduct &operator=(MatrixProduct &&other) = delete;
    ~MatrixProduct();

    void run(CudaQueue &queue, const void *a, const void *b, void *y, const EpilogueData &with = {}) const;
    /// Y += A B.
    void add(CudaQueue &queue, const void *a, const void *b, void *y) const { start(queue, a, b, y, 1); }

private:
    explicit MatrixProduct(CudaDevice &device) : m_device(&device) {}
    bool describe(const ProductShape &shape);
    bool layout(MatrixLayout &made, Kind kind, std::int64_t rows, std::int64_t columns, std::int64_t batch,
                std::int64_t stride, std::int64_t leading = 0);
    bool describeEpilogue(const ProductShape &shape);
    int point(const EpilogueData &with) const;
    bool choose(std::uint32_t alignment);
    void start(CudaQueue &queue, const void *a, const void *b, void *y, float beta) const;

    CudaDevice *m_device;
    ProductDescription m_description = nullptr;
    MatrixLayout m_a = nullptr, m_b = nullptr, m_y = nullptr; ///< as cuBLASLt sees them: column-major, B first
    ProductHeuristic m_chosen{};
    bool m_adds = false;
    Epilogue m_epilogue = Epilogue::None;
};

} // namespace planloom::cuda

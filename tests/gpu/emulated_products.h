// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_api.h"
#include "executor/device/cuda/kernels/language.h"

#include <cstring>
#include <vector>

// cuBLASLt as far as it is used: descriptions are kept, products are plain loops over column-major matrices.
namespace planloom::cuda {

struct ProductContext {};
struct ProductDescriptionObject {
    std::int32_t transA = 0, transB = 0;
};
struct MatrixLayoutObject {
    DataKind kind = DataKind::Float32;
    std::int64_t rows = 0, columns = 0, leading = 0;
    std::int32_t batch = 1;
    std::int64_t stride = 0;
};
struct ProductPreferenceObject {
    std::uint64_t workspaceBytes = 0;
};

} // namespace planloom::cuda

namespace planloom::test {

inline constexpr int kWrongValue = 7; // CUBLAS_STATUS_INVALID_VALUE

/// D = alpha op(A) op(B) + beta D.
struct EmulatedProduct {
    cuda::ProductDescriptionObject description;
    cuda::MatrixLayoutObject a, b, d;
    float alpha = 1, beta = 0;

    [[nodiscard]] bool fits() const
    {
        const bool ta = description.transA != 0;
        const bool tb = description.transB != 0;
        return (ta ? a.columns : a.rows) == d.rows && (tb ? b.rows : b.columns) == d.columns
            && (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) && a.batch == b.batch && a.batch == d.batch
            && a.kind == b.kind;
    }

    void run(const void *aData, const void *bData, void *dData) const
    {
        for (std::int64_t i = 0; i < d.batch; ++i)
            one(from(aData, a), i * a.stride, from(bData, b), i * b.stride, {dData, kindOf(d)}, i * d.stride);
    }

    void spoil(void *dData) const { cuda::To{dData, kindOf(d)}.put(0, NAN); }

private:
    static cuda::Kind kindOf(const cuda::MatrixLayoutObject &layout)
    {
        return layout.kind == cuda::DataKind::BFloat16 ? cuda::Kind::BF16 : cuda::Kind::F32;
    }
    static cuda::From from(const void *data, const cuda::MatrixLayoutObject &layout) { return {data, kindOf(layout)}; }

    void one(cuda::From x, std::int64_t atX, cuda::From y, std::int64_t atY, cuda::To z, std::int64_t atZ) const
    {
        const std::int64_t inner = description.transA != 0 ? a.rows : a.columns;
        const std::int64_t rowX = description.transA != 0 ? a.leading : 1;
        const std::int64_t innerX = description.transA != 0 ? 1 : a.leading;
        const std::int64_t columnY = description.transB != 0 ? 1 : b.leading;
        const std::int64_t innerY = description.transB != 0 ? b.leading : 1;
        std::vector<float> column(static_cast<std::size_t>(d.rows));
        for (std::int64_t j = 0; j < d.columns; ++j) {
            std::fill(column.begin(), column.end(), 0.0F);
            for (std::int64_t k = 0; k < inner; ++k) {
                const float factor = y.at(atY + j * columnY + k * innerY);
                for (std::int64_t i = 0; i < d.rows; ++i)
                    column[static_cast<std::size_t>(i)] += factor * x.at(atX + i * rowX + k * innerX);
            }
            for (std::int64_t i = 0; i < d.rows; ++i) {
                const std::int64_t at = atZ + j * d.leading + i;
                const float before = beta == 0 ? 0 : beta * cuda::From{z.data, z.kind}.at(at);
                z.put(at, alpha * column[static_cast<std::size_t>(i)] + before);
            }
        }
    }
};

template <class T>
int keep(T &to, const void *value, std::size_t bytes)
{
    if (bytes != sizeof to)
        return kWrongValue;
    std::memcpy(&to, value, bytes);
    return 0;
}

/// All functions but the product, which belongs to a stream.
inline cuda::ProductApi emulatedProducts(decltype(cuda::ProductApi::product) product)
{
    using namespace cuda;
    ProductApi api{};
    api.create = [](ProductHandle *handle) { return *handle = new ProductContext, 0; };
    api.destroy = [](ProductHandle handle) { return delete handle, 0; };
    api.createDescription = [](ProductDescription *made, ComputeKind compute, DataKind scale) {
        *made = new ProductDescriptionObject;
        return compute == ComputeKind::Float32 && scale == DataKind::Float32 ? 0 : kWrongValue;
    };
    api.destroyDescription = [](ProductDescription description) { return delete description, 0; };
    api.setDescription = [](ProductDescription description, ProductAttribute what, const void *value,
                            std::size_t bytes) {
        return keep(what == ProductAttribute::TransA ? description->transA : description->transB, value, bytes);
    };
    api.createLayout = [](MatrixLayout *made, DataKind kind, std::uint64_t rows, std::uint64_t columns,
                          std::int64_t leading) {
        *made = new MatrixLayoutObject{
            kind, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading, 1, 0};
        return leading >= static_cast<std::int64_t>(rows) ? 0 : kWrongValue;
    };
    api.destroyLayout = [](MatrixLayout layout) { return delete layout, 0; };
    api.setLayout = [](MatrixLayout layout, LayoutAttribute what, const void *value, std::size_t bytes) {
        return what == LayoutAttribute::BatchCount ? keep(layout->batch, value, bytes)
                                                   : keep(layout->stride, value, bytes);
    };
    api.createPreference = [](ProductPreference *made) { return *made = new ProductPreferenceObject, 0; };
    api.destroyPreference = [](ProductPreference preference) { return delete preference, 0; };
    api.setPreference = [](ProductPreference preference, PreferenceAttribute, const void *value, std::size_t bytes) {
        return keep(preference->workspaceBytes, value, bytes);
    };
    api.heuristic = [](ProductHandle, ProductDescription description, MatrixLayout a, MatrixLayout b, MatrixLayout,
                       MatrixLayout d, ProductPreference, int, ProductHeuristic *found, int *count) {
        *found = {};
        *count = EmulatedProduct{*description, *a, *b, *d}.fits() ? 1 : 0;
        return 0;
    };
    api.product = product;
    return api;
}

} // namespace planloom::test

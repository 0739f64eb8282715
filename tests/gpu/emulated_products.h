// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_api.h"
#include "executor/device/cuda/kernels/elementwise.h"

#include <cstdint>
#include <cstring>
#include <vector>

// cuBLASLt as far as it is used: descriptions are kept, products are plain loops over column-major matrices.
namespace planloom::cuda {

struct ProductContext {};
struct ProductDescriptionObject {
    std::int32_t transA = 0, transB = 0;
    Epilogue epilogue = Epilogue::None;
    const void *bias = nullptr;
    const void *auxiliary = nullptr;
    std::int64_t leading = 0; ///< of auxiliary
    [[nodiscard]] bool usesBias() const { return epilogue == Epilogue::Bias || epilogue == Epilogue::GeluBias; }
    [[nodiscard]] bool usesAuxiliary() const { return epilogue == Epilogue::GeluBias; }
};
struct MatrixLayoutObject {
    DataKind kind = DataKind::Float32;
    std::int64_t rows = 0, columns = 0, leading = 0;
    std::int32_t batch = 1;
    std::int64_t stride = 0;
};
struct ProductPreferenceObject {
    std::uint64_t workspaceBytes = 0;
    std::uint32_t alignment[4] = {256, 256, 256, 256}; ///< bytes, of A to D, as the library takes it for granted
};

} // namespace planloom::cuda

namespace planloom::test {

inline constexpr int kWrongValue = 7; // CUBLAS_STATUS_INVALID_VALUE
inline constexpr int kUnaligned = 15; // CUBLAS_STATUS_NOT_SUPPORTED

/// D = alpha op(A) op(B) + beta D, then the epilogue.
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
            && a.kind == b.kind && epilogueFits();
    }
    /// All that an algorithm was asked for lies at multiples of @p alignment; matrices at those that were said.
    [[nodiscard]] static bool isAligned(const void *data, std::uint64_t alignment)
    {
        return data != nullptr && reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
    }

    [[nodiscard]] bool epilogueFits() const
    {
        const auto &e = description;
        return (e.epilogue == cuda::Epilogue::None || d.batch == 1)
            && (!e.usesBias() || isAligned(e.bias, kEpilogueAlignment))
            && (!e.usesAuxiliary()
                || (isAligned(e.auxiliary, kEpilogueAlignment) && e.leading % 8 == 0 && e.leading >= d.rows));
    }

    void run(const void *aData, const void *bData, void *dData) const
    {
        for (std::int64_t i = 0; i < d.batch; ++i)
            one(from(aData, a), i * a.stride, from(bData, b), i * b.stride, {dData, kindOf(d)}, i * d.stride);
    }

    void spoil(void *dData) const { cuda::To{dData, kindOf(d)}.put(0, NAN); }

private:
    static constexpr std::uint64_t kEpilogueAlignment = 16;
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
                z.put(at, epilogueOf(alpha * column[static_cast<std::size_t>(i)] + before, i, j));
            }
        }
    }

    /// What becomes of the sum at row @p i and column @p j. Its bias and auxiliary matrix are of D's type.
    [[nodiscard]] float epilogueOf(float sum, std::int64_t i, std::int64_t j) const
    {
        const auto &e = description;
        if (e.usesBias())
            sum += cuda::From{e.bias, kindOf(d)}.at(i);
        const std::int64_t at = j * e.leading + i;
        if (e.epilogue != cuda::Epilogue::GeluBias)
            return sum;
        cuda::To{const_cast<void *>(e.auxiliary), kindOf(d)}.put(at, sum);
        return cuda::function::GeluTanh::at(sum, 0, 0);
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

inline int askAlgorithm(cuda::ProductHandle /*handle*/, cuda::ProductDescription description, cuda::MatrixLayout a,
                        cuda::MatrixLayout b, cuda::MatrixLayout /*c*/, cuda::MatrixLayout d,
                        cuda::ProductPreference preference, int /*asked*/, cuda::ProductHeuristic *found, int *count)
{
    *found = {};
    for (int i = 0; i < 4; ++i)
        found->algorithm.data[i] = preference->alignment[i];
    *count = EmulatedProduct{*description, *a, *b, *d}.fits() ? 1 : 0;
    return 0;
}

/// All functions but the product, which belongs to a stream. Without @p epilogues no algorithm has one.
inline cuda::ProductApi emulatedProducts(decltype(cuda::ProductApi::product) product, bool epilogues)
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
        switch (what) {
        case ProductAttribute::TransA: return keep(description->transA, value, bytes);
        case ProductAttribute::TransB: return keep(description->transB, value, bytes);
        case ProductAttribute::Epilogue: return keep(description->epilogue, value, bytes);
        case ProductAttribute::BiasPointer: return keep(description->bias, value, bytes);
        case ProductAttribute::AuxiliaryPointer: return keep(description->auxiliary, value, bytes);
        case ProductAttribute::AuxiliaryLeading: break;
        }
        return keep(description->leading, value, bytes);
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
    api.setPreference = [](ProductPreference preference, PreferenceAttribute what, const void *value,
                           std::size_t bytes) {
        if (what == PreferenceAttribute::MaxWorkspaceBytes)
            return keep(preference->workspaceBytes, value, bytes);
        return keep(preference->alignment[static_cast<int>(what) - static_cast<int>(PreferenceAttribute::AlignmentA)],
                    value, bytes);
    };
    api.heuristic = askAlgorithm;
    if (!epilogues)
        api.heuristic = [](ProductHandle, ProductDescription description, MatrixLayout a, MatrixLayout b,
                           MatrixLayout c, MatrixLayout d, ProductPreference preference, int asked,
                           ProductHeuristic *found, int *count) {
            *count = 0;
            return description->epilogue == Epilogue::None
                ? askAlgorithm({}, description, a, b, c, d, preference, asked, found, count)
                : 0;
        };
    api.product = product;
    return api;
}

} // namespace planloom::test

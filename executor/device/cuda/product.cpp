// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/product.h"

#include <cstdint>
#include <utility>

namespace planloom::cuda {

namespace {

DataKind dataKind(Kind kind) { return kind == Kind::BF16 ? DataKind::BFloat16 : DataKind::Float32; }

} // namespace

// A row-major matrix is a column-major one transposed: Y' = B' A', with B' as the first factor.
Result<MatrixProduct> MatrixProduct::make(CudaDevice &device, const ProductShape &shape)
{
    if (device.products() == nullptr)
        return unsupported("cuBLASLt is not there");
    const bool kinds = shape.kindA == shape.kindB && (shape.kindA == Kind::F32 || shape.kindA == Kind::BF16)
        && (shape.kindY == Kind::F32 || shape.kindY == shape.kindA);
    if (!kinds || shape.rows <= 0 || shape.inner <= 0 || shape.columns <= 0 || shape.batch <= 0)
        return unsupported("no product of these types or sizes");
    MatrixProduct made(device);
    if (!made.describe(shape) || !made.choose(shape.alignment))
        return unsupported("cuBLASLt has no algorithm for this product");
    return made;
}

MatrixProduct::MatrixProduct(MatrixProduct &&other) noexcept
    : m_device(other.m_device),
      m_description(std::exchange(other.m_description, nullptr)),
      m_a(std::exchange(other.m_a, nullptr)),
      m_b(std::exchange(other.m_b, nullptr)),
      m_y(std::exchange(other.m_y, nullptr)),
      m_chosen(other.m_chosen),
      m_adds(other.m_adds),
      m_epilogue(other.m_epilogue)
{
}

MatrixProduct::~MatrixProduct()
{
    const ProductApi *api = m_device->provider().products;
    for (MatrixLayout each : {m_a, m_b, m_y})
        if (each != nullptr)
            api->destroyLayout(each);
    if (m_description != nullptr)
        api->destroyDescription(m_description);
}

bool MatrixProduct::describe(const ProductShape &shape)
{
    const ProductApi &api = *m_device->provider().products;
    m_adds = shape.adds;
    m_epilogue = shape.epilogue;
    const std::int32_t first = shape.transB ? 1 : 0;
    const std::int32_t second = shape.transA ? 1 : 0;
    return api.createDescription(&m_description, ComputeKind::Float32, DataKind::Float32) == 0
        && api.setDescription(m_description, ProductAttribute::TransA, &first, sizeof first) == 0
        && api.setDescription(m_description, ProductAttribute::TransB, &second, sizeof second) == 0
        && describeEpilogue(shape)
        && layout(m_b, shape.kindB, shape.transB ? shape.inner : shape.columns,
                  shape.transB ? shape.columns : shape.inner, shape.batch, shape.strideB)
        && layout(m_a, shape.kindA, shape.transA ? shape.rows : shape.inner, shape.transA ? shape.inner : shape.rows,
                  shape.batch, shape.strideA, shape.leadingA)
        && layout(m_y, shape.kindY, shape.columns, shape.rows, shape.batch, shape.rows * shape.columns, shape.leadingY);
}

bool MatrixProduct::describeEpilogue(const ProductShape &shape)
{
    if (m_epilogue == Epilogue::None)
        return true;
    const ProductApi &api = *m_device->provider().products;
    const std::int64_t leading = shape.columns;
    const bool keeps = m_epilogue != Epilogue::Bias;
    if (shape.batch != 1 || shape.adds || (keeps && leading % 8 != 0)) // the library's rule
        return false;
    // Algorithms are asked for before there is memory: these say how it is aligned.
    const auto *aligned = reinterpret_cast<const void *>(std::uintptr_t{shape.alignment});
    return api.setDescription(m_description, ProductAttribute::Epilogue, &m_epilogue, sizeof m_epilogue) == 0
        && (!keeps
            || api.setDescription(m_description, ProductAttribute::AuxiliaryLeading, &leading, sizeof leading) == 0)
        && point({aligned, aligned}) == 0;
}

/// Where the next product finds what its epilogue uses.
int MatrixProduct::point(const EpilogueData &with) const
{
    const ProductApi &api = *m_device->provider().products;
    int error = 0;
    if (m_epilogue == Epilogue::Bias || m_epilogue == Epilogue::GeluBias)
        error = api.setDescription(m_description, ProductAttribute::BiasPointer, &with.bias, sizeof with.bias);
    if (error == 0 && m_epilogue == Epilogue::GeluBias)
        error = api.setDescription(m_description, ProductAttribute::AuxiliaryPointer, &with.auxiliary,
                                   sizeof with.auxiliary);
    return error;
}

bool MatrixProduct::layout(MatrixLayout &made, Kind kind, std::int64_t rows, std::int64_t columns, std::int64_t batch,
                           std::int64_t stride, std::int64_t leading)
{
    const ProductApi &api = *m_device->provider().products;
    const auto count = static_cast<std::int32_t>(batch);
    return api.createLayout(&made, dataKind(kind), static_cast<std::uint64_t>(rows),
                            static_cast<std::uint64_t>(columns), leading > 0 ? leading : rows)
        == 0
        && (batch == 1
            || (api.setLayout(made, LayoutAttribute::BatchCount, &count, sizeof count) == 0
                && api.setLayout(made, LayoutAttribute::BatchStride, &stride, sizeof stride) == 0));
}

bool MatrixProduct::choose(std::uint32_t alignment)
{
    const ProductApi &api = *m_device->provider().products;
    const auto most = static_cast<std::uint64_t>(CudaDevice::kWorkspaceBytes);
    ProductPreference preference = nullptr;
    int found = 0;
    const auto align = [&](PreferenceAttribute what) {
        return api.setPreference(preference, what, &alignment, sizeof alignment) == 0;
    };
    const bool chosen = api.createPreference(&preference) == 0
        && api.setPreference(preference, PreferenceAttribute::MaxWorkspaceBytes, &most, sizeof most) == 0
        && align(PreferenceAttribute::AlignmentA) && align(PreferenceAttribute::AlignmentB)
        && align(PreferenceAttribute::AlignmentC) && align(PreferenceAttribute::AlignmentD)
        && api.heuristic(m_device->products(), m_description, m_b, m_a, m_y, m_y, preference, 1, &m_chosen, &found) == 0
        && found > 0 && m_chosen.state == 0;
    if (preference != nullptr)
        api.destroyPreference(preference);
    return chosen;
}

void MatrixProduct::run(CudaQueue &queue, const void *a, const void *b, void *y, const EpilogueData &with) const
{
    if (m_device->checkOther(point(with), "an epilogue of a product"))
        start(queue, a, b, y, m_adds ? 1 : 0);
}

void MatrixProduct::start(CudaQueue &queue, const void *a, const void *b, void *y, float beta) const
{
    const float alpha = 1;
    m_device->checkOther(
        m_device->provider().products->product(m_device->products(), m_description, &alpha, b, m_b, a, m_a, &beta, y,
                                               m_y, y, m_y, &m_chosen.algorithm, m_device->workspace(queue),
                                               static_cast<std::size_t>(CudaDevice::kWorkspaceBytes), queue.stream()),
        "a product of matrices");
}

} // namespace planloom::cuda

// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/shape.h"

#include <algorithm>
#include <array>
#include <limits>

namespace planloom::graph {
namespace {

struct TypeFacts {
    DType type;
    const char *name;
    std::int64_t size;
};

constexpr std::array kTypes{
    TypeFacts{DType::F32, "float32", 4}, TypeFacts{DType::F16, "float16", 2}, TypeFacts{DType::BF16, "bfloat16", 2},
    TypeFacts{DType::F64, "float64", 8}, TypeFacts{DType::I64, "int64", 8},   TypeFacts{DType::I32, "int32", 4},
    TypeFacts{DType::I8, "int8", 1},     TypeFacts{DType::U8, "uint8", 1},    TypeFacts{DType::Bool, "bool", 1},
};

/// Sizes from a file may be absurd: products stop here instead of overflowing, so that bytes (times 8) still fit.
constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max() / 16;

std::int64_t cappedProduct(std::int64_t a, std::int64_t b)
{
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product) || product > kMostElements)
        return kMostElements;
    return product;
}

} // namespace

std::int64_t sizeOf(DType type) { return kTypes[static_cast<std::size_t>(type)].size; }

const char *name(DType type) { return kTypes[static_cast<std::size_t>(type)].name; }

bool fromName(const std::string &text, DType &type)
{
    const auto found =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeFacts &facts) { return text == facts.name; });
    if (found == kTypes.end())
        return false;
    type = found->type;
    return true;
}

Shape Shape::of(std::initializer_list<std::int64_t> sizes) { return of(std::vector<std::int64_t>(sizes)); }

Shape Shape::of(const std::vector<std::int64_t> &sizes)
{
    std::vector<Dim> dims;
    dims.reserve(sizes.size());
    for (const std::int64_t size : sizes)
        dims.push_back({size, false});
    return Shape(std::move(dims));
}

Shape Shape::batched(std::initializer_list<std::int64_t> sizes, std::int64_t perSample)
{
    std::vector<Dim> dims{{perSample, true}};
    for (const std::int64_t size : sizes)
        dims.push_back({size, false});
    return Shape(std::move(dims));
}

bool Shape::batched() const
{
    return std::any_of(m_dims.begin(), m_dims.end(), [](const Dim &dim) { return dim.batch; });
}

bool Shape::batchLeading() const
{
    if (m_dims.empty() || !m_dims.front().batch)
        return false;
    return std::none_of(m_dims.begin() + 1, m_dims.end(), [](const Dim &dim) { return dim.batch; });
}

std::int64_t Shape::elements(std::int64_t samples) const
{
    std::int64_t count = 1;
    for (const Dim &dim : m_dims)
        count = cappedProduct(count, dim.batch ? cappedProduct(dim.size, samples) : dim.size);
    return count;
}

std::vector<std::int64_t> Shape::at(std::int64_t samples) const
{
    std::vector<std::int64_t> sizes;
    sizes.reserve(m_dims.size());
    for (const Dim &dim : m_dims)
        sizes.push_back(dim.at(samples));
    return sizes;
}

std::string Shape::text() const
{
    std::string text = "[";
    for (const Dim &dim : m_dims) {
        if (text.size() > 1)
            text += ", ";
        if (!dim.batch || dim.size != 1)
            text += std::to_string(dim.size);
        if (dim.batch)
            text += "N";
    }
    return text + "]";
}

} // namespace planloom::graph

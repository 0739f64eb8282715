// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/known_value.h"

#include "engine/weights/convert.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::import {
namespace {

using graph::DType;

template <class T>
void append(std::vector<std::byte> &bytes, T value)
{
    const auto *raw = reinterpret_cast<const std::byte *>(&value);
    bytes.insert(bytes.end(), raw, raw + sizeof value);
}

} // namespace

std::int64_t Number::integer() const
{
    constexpr double kEdge = 9.2e18;
    if (std::isnan(value))
        return 0;
    if (value >= kEdge)
        return std::numeric_limits<std::int64_t>::max();
    if (value <= -kEdge)
        return std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(value);
}

KnownValue KnownValue::ints(const std::vector<std::int64_t> &values)
{
    KnownValue value{DType::I64, {static_cast<std::int64_t>(values.size())}, {}};
    for (const std::int64_t one : values)
        value.elements.push_back({static_cast<double>(one), false});
    return value;
}

KnownValue KnownValue::shapeOf(const graph::Shape &shape)
{
    KnownValue value{DType::I64, {static_cast<std::int64_t>(shape.rank())}, {}};
    for (const graph::Dim &dim : shape.dims())
        value.elements.push_back({static_cast<double>(dim.size), dim.batch});
    return value;
}

bool KnownValue::symbolic() const
{
    return std::any_of(elements.begin(), elements.end(), [](const Number &number) { return number.batch; });
}

std::vector<std::int64_t> KnownValue::integers() const
{
    std::vector<std::int64_t> values;
    values.reserve(elements.size());
    for (const Number &number : elements)
        values.push_back(number.integer());
    return values;
}

std::vector<std::byte> KnownValue::bytes() const
{
    std::vector<std::byte> result;
    for (const Number &number : elements) {
        switch (type) {
        case DType::F32: append(result, static_cast<float>(number.value)); break;
        case DType::F64: append(result, number.value); break;
        case DType::I64: append(result, number.integer()); break;
        case DType::I32: append(result, static_cast<std::int32_t>(number.integer())); break;
        case DType::I8: append(result, static_cast<std::int8_t>(number.integer())); break;
        case DType::U8: append(result, static_cast<std::uint8_t>(number.integer())); break;
        case DType::Bool: append(result, static_cast<std::uint8_t>(number.value != 0)); break;
        case DType::F16: append(result, weights::toHalf(static_cast<float>(number.value))); break;
        case DType::BF16: append(result, weights::toBFloat16(static_cast<float>(number.value))); break;
        }
    }
    return result;
}

std::optional<KnownValue> foldShape(const graph::Op &op, const graph::Shape &shape)
{
    const KnownValue all = KnownValue::shapeOf(shape);
    if (op.type == "Size") {
        KnownValue size = KnownValue::scalar(DType::I64, 1);
        for (const Number &dim : all.elements) {
            if (dim.batch && size.elements[0].batch)
                return {};
            size.elements[0] = {size.elements[0].value * dim.value, size.elements[0].batch || dim.batch};
        }
        return size;
    }
    const auto rank = static_cast<std::int64_t>(all.elements.size());
    const auto inside = [rank](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const std::int64_t start = inside(op.integer("start"));
    const std::int64_t end = std::max(start, inside(op.integer("end", rank)));
    return KnownValue{DType::I64, {end - start}, {all.elements.begin() + start, all.elements.begin() + end}};
}

} // namespace planloom::import

// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/tensor.h"

#include "engine/base/files.h"
#include "engine/weights/convert.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace planloom::import {
namespace {

using graph::DType;
using onnx::TensorProto;

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

Result<std::int64_t> countOf(const TensorProto &proto)
{
    std::int64_t count = 1;
    for (const std::int64_t dim : proto.dims()) {
        if (dim < 0 || (dim > 0 && count > kMostElements / dim))
            return badInput(fmt::format("tensor '{}' has an impossible size; the file is damaged", proto.name()));
        count *= dim;
    }
    return count;
}

std::int64_t storedSize(int onnxType)
{
    switch (onnxType) {
    case TensorProto::DOUBLE:
    case TensorProto::INT64: return 8;
    case TensorProto::FLOAT:
    case TensorProto::INT32: return 4;
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16: return 2;
    default: return 1;
    }
}

std::vector<std::byte> fromRaw(int onnxType, std::string_view raw, DType type)
{
    DType stored{};
    dataType(onnxType, stored, Floats::AsStored);
    std::vector<std::byte> out(raw.size() / static_cast<std::size_t>(graph::sizeOf(stored))
                               * static_cast<std::size_t>(graph::sizeOf(type)));
    weights::convert({reinterpret_cast<const std::byte *>(raw.data()), raw.size()}, stored, type, out.data());
    return out;
}

template <class To, class Field>
std::vector<std::byte> fromField(const Field &field)
{
    std::vector<std::byte> out(static_cast<std::size_t>(field.size()) * sizeof(To));
    for (int i = 0; i < field.size(); ++i) {
        const auto value = static_cast<To>(field.Get(i));
        std::memcpy(out.data() + static_cast<std::size_t>(i) * sizeof(To), &value, sizeof value);
    }
    return out;
}

std::vector<std::byte> fromFields(const TensorProto &proto, DType type)
{
    switch (proto.data_type()) {
    case TensorProto::FLOAT: return fromField<float>(proto.float_data());
    case TensorProto::DOUBLE:
        return type == DType::F64 ? fromField<double>(proto.double_data()) : fromField<float>(proto.double_data());
    case TensorProto::INT64: return fromField<std::int64_t>(proto.int64_data());
    case TensorProto::INT32: return fromField<std::int32_t>(proto.int32_data());
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16: {
        const auto bits = fromField<std::uint16_t>(proto.int32_data());
        return fromRaw(proto.data_type(), {reinterpret_cast<const char *>(bits.data()), bits.size()}, type);
    }
    default: return fromField<std::int8_t>(proto.int32_data());
    }
}

Result<StoredTensor> readExternal(const TensorProto &proto, const std::string &folder, StoredTensor tensor,
                                  std::int64_t count)
{
    std::string location;
    std::int64_t offset = 0;
    std::int64_t length = count * storedSize(proto.data_type());
    for (const auto &entry : proto.external_data()) {
        std::int64_t number = 0;
        const std::string &text = entry.value();
        const bool numeric = std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc{};
        if (entry.key() == "location")
            location = text;
        else if (entry.key() == "offset" && numeric)
            offset = number;
        else if (entry.key() == "length" && numeric && number != length)
            return badInput(fmt::format("tensor '{}' needs {} bytes of external data, but {} are named", proto.name(),
                                        length, number));
    }
    if (location.empty())
        return badInput(
            fmt::format("tensor '{}' has external data without a location; the file is damaged", proto.name()));
    if (const Status there = checkBeneath(folder, location, offset, length); !there)
        return there.error();
    if (storedSize(proto.data_type()) != graph::sizeOf(tensor.type)) {
        const auto raw = readBeneath(folder, location, offset, length);
        if (!raw)
            return raw.error();
        tensor.init.kind = graph::Initializer::Kind::Data;
        tensor.init.data =
            std::make_shared<const std::vector<std::byte>>(fromRaw(proto.data_type(), *raw, tensor.type));
        return tensor;
    }
    tensor.init.kind = graph::Initializer::Kind::File;
    tensor.init.file = location;
    tensor.init.offset = offset;
    return tensor;
}

double fromHalfOrBFloat(DType type, const std::byte *at)
{
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return static_cast<double>(type == DType::F16 ? weights::fromHalf(bits) : weights::fromBFloat16(bits));
}

} // namespace

bool dataType(int onnxType, DType &type, Floats floats)
{
    const bool single = floats == Floats::Single;
    switch (onnxType) {
    case TensorProto::FLOAT: type = DType::F32; return true;
    case TensorProto::DOUBLE: type = single ? DType::F32 : DType::F64; return true;
    case TensorProto::FLOAT16: type = single ? DType::F32 : DType::F16; return true;
    case TensorProto::BFLOAT16: type = single ? DType::F32 : DType::BF16; return true;
    case TensorProto::INT64: type = DType::I64; return true;
    case TensorProto::INT32: type = DType::I32; return true;
    case TensorProto::INT8: type = DType::I8; return true;
    case TensorProto::UINT8: type = DType::U8; return true;
    case TensorProto::BOOL: type = DType::Bool; return true;
    default: return false;
    }
}

Result<StoredTensor> readTensor(const TensorProto &proto, const std::string &folder, Floats floats)
{
    StoredTensor tensor;
    if (!dataType(proto.data_type(), tensor.type, floats))
        return unsupported(
            fmt::format("tensor '{}' has ONNX element type {}, which is not supported; convert it to float32 or int64",
                        proto.name(), proto.data_type()));
    const auto count = countOf(proto);
    if (!count)
        return count.error();
    tensor.dims.assign(proto.dims().begin(), proto.dims().end());
    if (proto.data_location() == TensorProto::EXTERNAL)
        return readExternal(proto, folder, std::move(tensor), *count);
    if (proto.has_raw_data()
        && static_cast<std::int64_t>(proto.raw_data().size()) != *count * storedSize(proto.data_type()))
        return badInput(fmt::format("tensor '{}' has {} elements, but {} bytes of data; the file is damaged",
                                    proto.name(), *count, proto.raw_data().size()));
    auto bytes = proto.has_raw_data() ? fromRaw(proto.data_type(), proto.raw_data(), tensor.type)
                                      : fromFields(proto, tensor.type);
    if (static_cast<std::int64_t>(bytes.size()) != *count * graph::sizeOf(tensor.type))
        return badInput(fmt::format("tensor '{}' has {} elements, but its data does not; the file is damaged",
                                    proto.name(), *count));
    tensor.init.kind = graph::Initializer::Kind::Data;
    tensor.init.data = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    return tensor;
}

std::optional<KnownValue> knownValue(const StoredTensor &tensor)
{
    if (tensor.init.kind != graph::Initializer::Kind::Data)
        return {};
    const auto &bytes = *tensor.init.data;
    const auto size = static_cast<std::size_t>(graph::sizeOf(tensor.type));
    const std::size_t count = bytes.size() / size;
    if (static_cast<std::int64_t>(count) > kMostFoldedElements)
        return {};
    KnownValue value{tensor.type, tensor.dims, std::vector<Number>(count)};
    for (std::size_t i = 0; i < count; ++i) {
        const std::byte *at = bytes.data() + i * size;
        const auto load = [at](auto sample) {
            std::memcpy(&sample, at, sizeof sample);
            return static_cast<double>(sample);
        };
        switch (tensor.type) {
        case DType::F32: value.elements[i].value = load(float{}); break;
        case DType::F64: value.elements[i].value = load(double{}); break;
        case DType::F16:
        case DType::BF16: value.elements[i].value = fromHalfOrBFloat(tensor.type, at); break;
        case DType::I64: value.elements[i].value = load(std::int64_t{}); break;
        case DType::I32: value.elements[i].value = load(std::int32_t{}); break;
        case DType::I8: value.elements[i].value = load(std::int8_t{}); break;
        default: value.elements[i].value = load(std::uint8_t{}); break;
        }
    }
    return value;
}

} // namespace planloom::import

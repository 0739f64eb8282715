// SPDX-License-Identifier: Apache-2.0
// First values. Random ones come from a counter-based generator keyed by (seed, tensor name): element i depends on
// nothing but the key and i, whatever the thread or the rank that makes it.
#include "engine/base/files.h"
#include "engine/weights/convert.h"
#include "engine/weights/safetensors.h"
#include "executor/device/kernel.h"
#include "executor/device/cpu/parallel.h"

#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

namespace planloom::device {

namespace {

using graph::DType;
using graph::Initializer;

/// Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011).
std::array<std::uint32_t, 4> philox(std::uint64_t counter, std::uint64_t key)
{
    std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0,
                                   0};
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
        c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
             static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    return c;
}

std::uint64_t keyOf(std::int64_t seed, const std::string &name)
{
    std::uint64_t hash = 0xcbf29ce484222325ULL; // FNV-1a over the name, then over the seed
    for (const char letter : name)
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
    for (int byte = 0; byte < 8; ++byte)
        hash = (hash ^ (static_cast<std::uint64_t>(seed) >> (8 * byte) & 0xFF)) * 0x100000001b3ULL;
    return hash;
}

/// In (0, 1), from 53 of 64 bits.
double unit(std::uint32_t high, std::uint32_t low)
{
    const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
    return (static_cast<double>(bits) + 0.5) * 0x1.0p-53;
}

/// Elements 2 i and 2 i + 1 of a standard normal sequence (Box and Muller).
std::array<double, 2> normalPair(std::uint64_t i, std::uint64_t key)
{
    const auto random = philox(i, key);
    const double radius = std::sqrt(-2.0 * std::log(unit(random[0], random[1])));
    const double angle = 2.0 * std::numbers::pi * unit(random[2], random[3]);
    return {radius * std::cos(angle), radius * std::sin(angle)};
}

std::array<double, 2> uniformPair(std::uint64_t i, std::uint64_t key)
{
    const auto random = philox(i, key);
    return {unit(random[0], random[1]), unit(random[2], random[3])};
}

template <class T>
void fillRandom(const Initializer &how, std::uint64_t key, std::int64_t elements, T *data)
{
    const bool normal = how.kind == Initializer::Kind::Normal;
    const double scale = normal ? how.b : how.b - how.a;
    parallelFor((elements + 1) / 2, kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const auto pair = normal ? normalPair(static_cast<std::uint64_t>(i), key)
                                     : uniformPair(static_cast<std::uint64_t>(i), key);
            data[2 * i] = static_cast<T>(how.a + scale * pair[0]);
            if (2 * i + 1 < elements)
                data[2 * i + 1] = static_cast<T>(how.a + scale * pair[1]);
        }
    });
}

template <class T>
void fillWith(T value, std::int64_t elements, void *data)
{
    std::fill_n(static_cast<T *>(data), elements, value);
}

Status fillOnes(const graph::Tensor &tensor, std::int64_t elements, void *data)
{
    switch (tensor.type) {
    case DType::F32: fillWith(1.0F, elements, data); return {};
    case DType::F64: fillWith(1.0, elements, data); return {};
    case DType::I64: fillWith(std::int64_t{1}, elements, data); return {};
    case DType::I32: fillWith(std::int32_t{1}, elements, data); return {};
    case DType::I8:
    case DType::U8:
    case DType::Bool: fillWith(std::uint8_t{1}, elements, data); return {};
    case DType::F16: fillWith(std::uint16_t{0x3C00}, elements, data); return {};
    case DType::BF16: fillWith(std::uint16_t{0x3F80}, elements, data); return {};
    }
    return {};
}

Status copyStored(const graph::Tensor &tensor, std::int64_t bytes, const void *stored, std::size_t size, void *data)
{
    if (size != static_cast<std::size_t>(bytes))
        return badInput("tensor '" + tensor.name + "' needs " + std::to_string(bytes) + " bytes but "
                        + std::to_string(size) + " are stored; the model and its data do not belong together");
    if (size > 0)
        std::memcpy(data, stored, size);
    return {};
}

/// From a safetensors file, in whichever number format it holds them: the tensor whose data begin at the model's
/// offset.
Status fromSafetensors(const graph::Tensor &tensor, std::int64_t elements, const std::string &modelFolder, void *data)
{
    if (tensor.init.file.find('/') != std::string::npos)
        return badInput("tensor '" + tensor.name + "' comes from '" + tensor.init.file
                        + "', which is not a file in the model's folder");
    const std::string path = (modelFolder.empty() ? std::string(".") : modelFolder) + "/" + tensor.init.file;
    const auto file = weights::SafetensorsFile::open(path);
    if (!file)
        return file.error();
    for (const weights::StoredTensor &stored : file->header().tensors) {
        if (stored.begin != tensor.init.offset || stored.bytes() == 0)
            continue;
        if (!stored.type || !weights::convertible(*stored.type, tensor.type)
            || stored.bytes() != elements * graph::sizeOf(*stored.type))
            break;
        weights::convert(file->data(stored), *stored.type, tensor.type, static_cast<std::byte *>(data));
        return {};
    }
    return badInput("does not hold '" + tensor.name + "' where it did when the model was loaded; load the model again")
        .in(path);
}

Status randomValues(const graph::Tensor &tensor, std::int64_t elements, std::int64_t seed, void *data)
{
    const std::uint64_t key = keyOf(seed, tensor.name);
    if (tensor.type == DType::F32)
        fillRandom(tensor.init, key, elements, static_cast<float *>(data));
    else if (tensor.type == DType::F64)
        fillRandom(tensor.init, key, elements, static_cast<double *>(data));
    else
        return unsupported("tensor '" + tensor.name + "' of type " + graph::name(tensor.type)
                           + " cannot start from random values; store its data");
    return {};
}

} // namespace

Status initialize(const graph::Tensor &tensor, std::int64_t elements, std::int64_t seed, const std::string &modelFolder,
                  void *data)
{
    const std::int64_t bytes = elements * graph::sizeOf(tensor.type);
    switch (tensor.init.kind) {
    case Initializer::Kind::None:
        return badInput("tensor '" + tensor.name + "' has no first value; give its data or an initializer");
    case Initializer::Kind::Zeros: std::memset(data, 0, static_cast<std::size_t>(bytes)); return {};
    case Initializer::Kind::Ones: return fillOnes(tensor, elements, data);
    case Initializer::Kind::Normal:
    case Initializer::Kind::Uniform: return randomValues(tensor, elements, seed, data);
    case Initializer::Kind::Data:
        if (!tensor.init.data)
            return badInput("tensor '" + tensor.name + "' has lost its stored data; load the model again");
        return copyStored(tensor, bytes, tensor.init.data->data(), tensor.init.data->size(), data);
    case Initializer::Kind::File: {
        if (tensor.init.file.ends_with(".safetensors"))
            return fromSafetensors(tensor, elements, modelFolder, data);
        auto stored = readBeneath(modelFolder, tensor.init.file, tensor.init.offset, bytes);
        if (!stored)
            return stored.error();
        return copyStored(tensor, bytes, stored->data(), stored->size(), data);
    }
    }
    return {};
}

} // namespace planloom::device

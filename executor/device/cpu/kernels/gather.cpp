// SPDX-License-Identifier: Apache-2.0
// Operators that pick single elements or slices by index tensors, their gradients, and one-hot vectors.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/strided.h"

#include <cstring>
#include <limits>

namespace planloom::device {

namespace {

/// int64 or int32 indices, the latter widened one by one.
struct Indices {
    const void *data = nullptr;
    bool wide = true;
    [[nodiscard]] std::int64_t operator[](std::int64_t i) const
    {
        return wide ? ints(data)[i] : static_cast<const std::int32_t *>(data)[i];
    }
};

bool areIndices(graph::DType type) { return type == graph::DType::I64 || type == graph::DType::I32; }

/// Counts from the end where negative; -1 where outside.
std::int64_t within(std::int64_t index, std::int64_t size)
{
    const std::int64_t at = index < 0 ? index + size : index;
    return at >= 0 && at < size ? at : -1;
}

/// Elements outside read as NaN (integers: 0).
void missing(graph::DType type, std::int64_t bytes, char *target)
{
    std::memset(target, 0, static_cast<std::size_t>(bytes));
    if (type != graph::DType::F32)
        return;
    for (std::int64_t i = 0; i < bytes; i += static_cast<std::int64_t>(sizeof(float)))
        *reinterpret_cast<float *>(target + i) = std::numeric_limits<float>::quiet_NaN();
}

/// GatherElements: the position in the data of the element that each index picks, -1 where there is none.
struct ElementMap {
    Dims dims, dataDims, dataStrides; ///< of the indices; of the data
    std::size_t axis = 0;

    /// Calls f(i, position) for the indices [begin, end) in order.
    template <class F>
    void each(const Indices &indices, std::int64_t begin, std::int64_t end, F f) const
    {
        for (std::int64_t i = begin; i < end; ++i) {
            std::int64_t rest = i;
            std::int64_t position = 0;
            for (std::size_t d = dims.size(); d-- > 0;) {
                if (d != axis)
                    position += rest % dims[d] * dataStrides[d];
                rest /= dims[d];
            }
            const std::int64_t row = within(indices[i], dataDims[axis]);
            f(i, row < 0 ? -1 : position + row * dataStrides[axis]);
        }
    }
};

Result<ElementMap> elementMap(const Request &request, const Dims &data, const Argument &indices)
{
    const auto axis = resolveAxis(request, request.op.integer("axis"), data.size());
    if (!axis)
        return axis.error();
    if (!areIndices(indices.type))
        return cannot(request, std::string("indices of type ") + graph::name(indices.type));
    bool fits = indices.dims.size() == data.size();
    for (std::size_t d = 0; fits && d < data.size(); ++d)
        fits = d == *axis || indices.dims[d] <= data[d];
    if (!fits)
        return wrong(request, text(indices.dims) + " does not index " + text(data));
    return ElementMap{indices.dims, data, rowMajorStrides(data), *axis};
}

Made makeGatherElements(const Request &request)
{
    auto made = elementMap(request, request.in(0), request.inputs[1]);
    if (!made)
        return made.error();
    const graph::DType type = request.inputs[0].type;
    if (request.out() != request.in(1) || request.outputs[0].type != type)
        return wrong(request, "the output should have the shape of the indices and the type of the data");
    return makeFunction([map = *made, type, wide = request.inputs[1].type == graph::DType::I64,
                         n = product(request.out())](Inputs in, Outputs out) {
        const std::int64_t size = graph::sizeOf(type);
        parallelFor(n, kGrain / 4, [&](std::int64_t begin, std::int64_t end) {
            map.each({in[1], wide}, begin, end, [&](std::int64_t i, std::int64_t position) {
                char *target = static_cast<char *>(out[0]) + i * size;
                if (position < 0)
                    missing(type, size, target);
                else
                    std::memcpy(target, static_cast<const char *>(in[0]) + position * size,
                                static_cast<std::size_t>(size));
            });
        });
    });
}

/// Adds each gradient to the element that was picked, one after the other: several may be the same.
Made makeGatherElementsGrad(const Request &request)
{
    auto made = elementMap(request, request.out(), request.inputs[1]);
    if (!made)
        return made.error();
    if (request.in(0) != request.in(1))
        return wrong(request, "the gradient should have the shape of the indices");
    return makeFunction([map = *made, wide = request.inputs[1].type == graph::DType::I64, n = product(request.in(0)),
                         all = product(request.out())](Inputs in, Outputs out) {
        std::fill_n(floats(out[0]), all, 0.0F);
        map.each({in[1], wide}, 0, n, [&](std::int64_t i, std::int64_t position) {
            if (position >= 0)
                floats(out[0])[position] += floats(in[0])[i];
        });
    });
}

/// GatherND: slices of `slice` elements, each at a position that `depth` indices name, within blocks of the batch
/// dimensions.
struct SliceMap {
    std::int64_t perBlock = 1; ///< slices that one block of the data gives
    std::int64_t block = 1;    ///< elements of one
    std::int64_t slice = 1;
    Dims sizes, strides; ///< of the indexed dimensions
    std::int64_t slices = 0;

    [[nodiscard]] std::int64_t position(const Indices &indices, std::int64_t i) const
    {
        const auto depth = static_cast<std::int64_t>(sizes.size());
        std::int64_t at = i / perBlock * block;
        for (std::int64_t k = 0; k < depth; ++k) {
            const auto d = static_cast<std::size_t>(k);
            const std::int64_t row = within(indices[i * depth + k], sizes[d]);
            if (row < 0)
                return -1;
            at += row * strides[d];
        }
        return at;
    }
};

Result<SliceMap> sliceMap(const Request &request, const Dims &data, const Argument &indices, const Argument &picked)
{
    const std::int64_t blocks = request.op.integer("batch_dims");
    const auto rank = static_cast<std::int64_t>(data.size());
    const auto indexRank = static_cast<std::int64_t>(indices.dims.size());
    if (!areIndices(indices.type))
        return cannot(request, std::string("indices of type ") + graph::name(indices.type));
    if (indexRank < 1 || blocks < 0 || blocks >= indexRank || blocks + indices.dims.back() > rank)
        return wrong(request, text(indices.dims) + " does not index " + text(data));
    const auto first = static_cast<std::size_t>(blocks);
    const std::size_t last = first + static_cast<std::size_t>(indices.dims.back());
    SliceMap map;
    map.perBlock = std::max<std::int64_t>(1, product(indices.dims, first, indices.dims.size() - 1));
    map.block = product(data, first, data.size());
    map.slice = product(data, last, data.size());
    map.slices = product(indices.dims, 0, indices.dims.size() - 1);
    const Dims strides = rowMajorStrides(data);
    map.sizes.assign(data.begin() + blocks, data.begin() + static_cast<std::ptrdiff_t>(last));
    map.strides.assign(strides.begin() + blocks, strides.begin() + static_cast<std::ptrdiff_t>(last));
    if (picked.elements() != map.slices * map.slice || product(indices.dims, 0, first) != product(data, 0, first))
        return wrong(request, text(data) + " indexed by " + text(indices.dims) + " is not " + text(picked.dims));
    return map;
}

Made makeGatherNd(const Request &request)
{
    auto made = sliceMap(request, request.in(0), request.inputs[1], request.outputs[0]);
    if (!made)
        return made.error();
    const graph::DType type = request.inputs[0].type;
    if (request.outputs[0].type != type)
        return wrong(request, "data and output have different data types");
    return makeFunction(
        [map = *made, type, wide = request.inputs[1].type == graph::DType::I64](Inputs in, Outputs out) {
            const std::int64_t size = graph::sizeOf(type);
            parallelFor(map.slices, rowGrain(map.slice), [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                    const std::int64_t from = map.position({in[1], wide}, i);
                    char *target = static_cast<char *>(out[0]) + i * map.slice * size;
                    if (from < 0)
                        missing(type, map.slice * size, target);
                    else
                        std::memcpy(target, static_cast<const char *>(in[0]) + from * size,
                                    static_cast<std::size_t>(map.slice * size));
                }
            });
        });
}

Made makeGatherNdGrad(const Request &request)
{
    auto made = sliceMap(request, request.out(), request.inputs[1], request.inputs[0]);
    if (!made)
        return made.error();
    return makeFunction([map = *made, wide = request.inputs[1].type == graph::DType::I64,
                         all = product(request.out())](Inputs in, Outputs out) {
        std::fill_n(floats(out[0]), all, 0.0F);
        for (std::int64_t i = 0; i < map.slices; ++i) {
            const std::int64_t to = map.position({in[1], wide}, i);
            for (std::int64_t k = 0; to >= 0 && k < map.slice; ++k)
                floats(out[0])[to + k] += floats(in[0])[i * map.slice + k];
        }
    });
}

std::int64_t indexAt(graph::DType type, const void *data, std::int64_t i)
{
    if (type == graph::DType::F32)
        return static_cast<std::int64_t>(floats(data)[i]);
    return Indices{data, type == graph::DType::I64}[i];
}

/// values[0] everywhere and values[1] at the index, along a new axis of `depth` elements.
Made makeOneHot(const Request &request)
{
    const Dims &from = request.in(0);
    const graph::DType indexType = request.inputs[0].type;
    const auto axis = resolveAxis(request, request.op.integer("axis", -1), from.size() + 1);
    if (!axis)
        return axis.error();
    const std::int64_t depth = request.op.integer("depth");
    Dims expected = from;
    expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(*axis), depth);
    if (request.out() != expected || request.inputs[1].elements() != 2
        || request.inputs[1].type != request.outputs[0].type)
        return wrong(request,
                     "indices " + text(from) + " in " + std::to_string(depth) + " columns are not "
                         + text(request.out()));
    if (!areIndices(indexType) && indexType != graph::DType::F32)
        return cannot(request, std::string("indices of type ") + graph::name(indexType));
    const AxisView view = viewAt(expected, *axis);
    const std::int64_t size = graph::sizeOf(request.outputs[0].type);
    return makeFunction([=](Inputs in, Outputs out) {
        const char *values = static_cast<const char *>(in[1]);
        parallelFor(view.outer, rowGrain(view.n * view.inner), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t o = begin; o < end; ++o) {
                for (std::int64_t i = 0; i < view.n * view.inner; ++i) {
                    const bool hot =
                        within(indexAt(indexType, in[0], o * view.inner + i % view.inner), view.n) == i / view.inner;
                    std::memcpy(static_cast<char *>(out[0]) + (o * view.n * view.inner + i) * size,
                                values + (hot ? size : 0), static_cast<std::size_t>(size));
                }
            }
        });
    });
}

constexpr KernelEntry kEntries[] = {
    {"GatherElements", "**", "*", makeGatherElements},
    {"GatherElementsGrad", "f*", "f", makeGatherElementsGrad},
    {"GatherND", "**", "*", makeGatherNd},
    {"GatherNDGrad", "f*", "f", makeGatherNdGrad},
    {"OneHot", "**", "*", makeOneHot},
};

} // namespace

std::span<const KernelEntry> gatherKernels() { return kEntries; }

} // namespace planloom::device

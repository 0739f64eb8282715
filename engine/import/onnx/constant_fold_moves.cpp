// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/constant_fold_shared.h"

#include <algorithm>
#include <cstdlib>

namespace planloom::import {
namespace {

std::vector<std::int64_t> strides(const std::vector<std::int64_t> &dims)
{
    std::vector<std::int64_t> result(dims.size(), 1);
    for (std::size_t i = dims.size(); i-- > 1;)
        result[i - 1] = result[i] * dims[i];
    return result;
}

std::optional<std::size_t> axisOf(std::int64_t axis, std::size_t rank)
{
    if (axis < 0)
        axis += static_cast<std::int64_t>(rank);
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank))
        return {};
    return static_cast<std::size_t>(axis);
}

Folded foldAxes(const graph::Op &op, const KnownInputs &in, bool insert)
{
    KnownValue value = *in[0];
    const auto axes = op.integers("axes");
    const std::size_t rank = insert ? value.dims.size() + axes.size() : value.dims.size();
    std::vector<bool> marked(rank, false);
    for (const std::int64_t axis : axes) {
        const auto at = axisOf(axis, rank);
        if (!at)
            return {};
        marked[*at] = true;
    }
    std::vector<std::int64_t> dims;
    std::size_t next = 0;
    for (std::size_t i = 0; i < rank; ++i) {
        if (insert)
            dims.push_back(marked[i] || next >= value.dims.size() ? 1 : value.dims[next++]);
        else if (!(marked[i] || (axes.empty() && value.dims[i] == 1)))
            dims.push_back(value.dims[i]);
    }
    if (elementsOf(dims) != static_cast<std::int64_t>(value.elements.size()))
        return {};
    value.dims = dims;
    return value;
}

} // namespace

std::int64_t elementsOf(const std::vector<std::int64_t> &dims)
{
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) {
        if (dim < 0 || (dim > 0 && count > kMostFoldedElements / dim))
            return -1;
        count *= dim;
    }
    return count;
}

Folded buildKnown(graph::DType type, const std::vector<std::int64_t> &dims,
                  const std::function<Number(const std::vector<std::int64_t> &)> &element)
{
    const std::int64_t count = elementsOf(dims);
    if (count < 0)
        return {};
    KnownValue value{type, dims, {}};
    value.elements.reserve(static_cast<std::size_t>(count));
    std::vector<std::int64_t> index(dims.size(), 0);
    for (std::int64_t i = 0; i < count; ++i) {
        value.elements.push_back(element(index));
        for (std::size_t axis = dims.size(); axis-- > 0;) {
            if (++index[axis] < dims[axis])
                break;
            index[axis] = 0;
        }
    }
    return value;
}

Folded foldGather(const graph::Op &op, const KnownInputs &in)
{
    const auto axis = in.size() == 2 ? axisOf(op.integer("axis"), in[0]->dims.size()) : std::nullopt;
    if (!axis || in[1]->symbolic())
        return {};
    const KnownValue &data = *in[0];
    const KnownValue &indices = *in[1];
    std::vector<std::int64_t> dims(data.dims.begin(), data.dims.begin() + static_cast<std::ptrdiff_t>(*axis));
    dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
    dims.insert(dims.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, data.dims.end());
    const auto dataStrides = strides(data.dims);
    const auto indexStrides = strides(indices.dims);
    bool inRange = true;
    auto value = buildKnown(data.type, dims, [&](const auto &index) {
        std::int64_t offset = 0;
        std::int64_t which = 0;
        for (std::size_t i = 0; i < dims.size(); ++i) {
            if (i < *axis)
                offset += index[i] * dataStrides[i];
            else if (i < *axis + indices.dims.size())
                which += index[i] * indexStrides[i - *axis];
            else
                offset += index[i] * dataStrides[i - indices.dims.size() + 1];
        }
        std::int64_t at = indices.elements[static_cast<std::size_t>(which)].integer();
        at += at < 0 ? data.dims[*axis] : 0;
        inRange = inRange && at >= 0 && at < data.dims[*axis];
        return inRange ? data.elements[static_cast<std::size_t>(offset + at * dataStrides[*axis])] : Number{};
    });
    return inRange ? value : Folded{};
}

Folded foldConcat(const graph::Op &op, const KnownInputs &in)
{
    const auto axis = in.empty() ? std::nullopt : axisOf(op.integer("axis"), in[0]->dims.size());
    if (!axis)
        return {};
    std::vector<std::int64_t> dims = in[0]->dims;
    dims[*axis] = 0;
    for (const KnownValue *part : in) {
        if (part->dims.size() != dims.size())
            return {};
        for (std::size_t i = 0; i < dims.size(); ++i)
            if (i != *axis && part->dims[i] != dims[i])
                return {};
        dims[*axis] += part->dims[*axis];
    }
    return buildKnown(in[0]->type, dims, [&](std::vector<std::int64_t> index) {
        std::size_t part = 0;
        while (index[*axis] >= in[part]->dims[*axis])
            index[*axis] -= in[part++]->dims[*axis];
        std::int64_t offset = 0;
        for (std::size_t i = 0; i < dims.size(); ++i)
            offset = offset * in[part]->dims[i] + index[i];
        return in[part]->elements[static_cast<std::size_t>(offset)];
    });
}

/// Attributes starts, ends, axes, steps, already normalised by the reader.
Folded foldSlice(const graph::Op &op, const KnownInputs &in)
{
    const KnownValue &data = *in[0];
    const auto starts = op.integers("starts");
    const auto ends = op.integers("ends");
    const auto axes = op.integers("axes");
    const auto steps = op.integers("steps", std::vector<std::int64_t>(starts.size(), 1));
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
        return {};
    std::vector<std::int64_t> dims = data.dims;
    std::vector<std::int64_t> from(dims.size(), 0);
    std::vector<std::int64_t> step(dims.size(), 1);
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const auto axis = axisOf(axes[i], dims.size());
        if (!axis || steps[i] == 0 || std::abs(steps[i]) > kMostFoldedElements)
            return {};
        const std::int64_t size = data.dims[*axis];
        const bool ahead = steps[i] > 0;
        const auto inside = [&](std::int64_t at) {
            return std::clamp(at < 0 ? at + size : at, ahead ? std::int64_t{0} : std::int64_t{-1},
                              ahead ? size : size - 1);
        };
        const std::int64_t first = inside(starts[i]);
        const std::int64_t last = ends[i] < -size && !ahead ? -1 : inside(ends[i]);
        const std::int64_t span = ahead ? last - first : first - last;
        dims[*axis] = std::max<std::int64_t>(0, (span + std::abs(steps[i]) - 1) / std::abs(steps[i]));
        from[*axis] = first;
        step[*axis] = steps[i];
    }
    return buildKnown(data.type, dims, [&](const auto &index) {
        std::int64_t offset = 0;
        for (std::size_t i = 0; i < dims.size(); ++i)
            offset = offset * data.dims[i] + from[i] + index[i] * step[i];
        return data.elements[static_cast<std::size_t>(offset)];
    });
}

Folded foldTranspose(const graph::Op &op, const KnownInputs &in)
{
    const KnownValue &data = *in[0];
    std::vector<std::int64_t> fallback(data.dims.size());
    for (std::size_t i = 0; i < fallback.size(); ++i)
        fallback[i] = static_cast<std::int64_t>(fallback.size() - 1 - i);
    const auto perm = op.integers("perm", fallback);
    if (perm.size() != data.dims.size())
        return {};
    std::vector<std::int64_t> dims;
    for (const std::int64_t axis : perm) {
        if (axis < 0 || axis >= static_cast<std::int64_t>(perm.size()))
            return {};
        dims.push_back(data.dims[static_cast<std::size_t>(axis)]);
    }
    const auto dataStrides = strides(data.dims);
    if (elementsOf(dims) != elementsOf(data.dims))
        return {};
    return buildKnown(data.type, dims, [&](const auto &index) {
        std::int64_t offset = 0;
        for (std::size_t i = 0; i < dims.size(); ++i)
            offset += index[i] * dataStrides[static_cast<std::size_t>(perm[i])];
        return data.elements[static_cast<std::size_t>(offset)];
    });
}

/// Gives @p value the dims of attribute `shape`, which may hold one -1 and zeros (keep).
Folded foldReshape(const graph::Op &op, const KnownInputs &in)
{
    KnownValue value = *in[0];
    std::vector<std::int64_t> dims = op.integers("shape");
    std::int64_t known = 1;
    std::size_t open = dims.size();
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == 0 && i < value.dims.size() && op.integer("allowzero") == 0)
            dims[i] = value.dims[i];
        if (dims[i] == -1)
            open = i;
        else if (__builtin_mul_overflow(known, dims[i], &known))
            return {};
    }
    const auto count = static_cast<std::int64_t>(value.elements.size());
    if (open < dims.size() && known > 0)
        dims[open] = count / known;
    if (op.integer("batch_axis", -1) >= 0 || elementsOf(dims) != count)
        return {};
    value.dims = dims;
    return value;
}

Folded foldUnsqueeze(const graph::Op &op, const KnownInputs &in) { return foldAxes(op, in, true); }
Folded foldSqueeze(const graph::Op &op, const KnownInputs &in) { return foldAxes(op, in, false); }

Folded foldTrilu(const graph::Op &op, const KnownInputs &in)
{
    KnownValue value = *in[0];
    const std::size_t rank = value.dims.size();
    if (rank < 2)
        return {};
    const std::int64_t rows = value.dims[rank - 2];
    const std::int64_t columns = value.dims[rank - 1];
    const std::int64_t k = op.integer("k");
    const bool upper = op.integer("upper", 1) != 0;
    for (std::size_t i = 0; i < value.elements.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const std::int64_t column = at % columns;
        const std::int64_t row = at / columns % rows;
        if (upper ? column < row + k : column > row + k)
            value.elements[i] = {};
    }
    return value;
}

} // namespace planloom::import

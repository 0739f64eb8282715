// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/reference.h"

#include <algorithm>
#include <limits>

namespace planloom::reference {

inline void sameElements(const Call &c) { c.out[0].values = c.in[0].values; }

inline void transpose(const Call &c)
{
    Dims perm = c.op.integers("perm");
    if (perm.empty()) {
        for (std::size_t d = c.in[0].dims.size(); d-- > 0;)
            perm.push_back(static_cast<std::int64_t>(d));
    }
    forEach(c.out[0].dims, [&](const Dims &index) {
        Dims source(index.size());
        for (std::size_t d = 0; d < index.size(); ++d)
            source[static_cast<std::size_t>(perm[d])] = index[d];
        c.out[0].at(index) = c.in[0].at(source);
    });
}

inline void tile(const Call &c)
{
    forEach(c.out[0].dims, [&](const Dims &index) {
        Dims source = index;
        for (std::size_t d = 0; d < index.size(); ++d)
            source[d] %= c.in[0].dims[d];
        c.out[0].at(index) = c.in[0].at(source);
    });
}

inline void slice(const Call &c)
{
    const Dims &whole = c.in[0].dims;
    Dims start(whole.size(), 0);
    Dims step(whole.size(), 1);
    const auto starts = c.op.integers("starts");
    Dims axes = c.op.integers("axes");
    for (std::size_t i = axes.size(); i < starts.size(); ++i)
        axes.push_back(static_cast<std::int64_t>(i));
    const auto steps = c.op.integers("steps", Dims(starts.size(), 1));
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const auto axis =
            static_cast<std::size_t>(axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(whole.size()) : axes[i]);
        const std::int64_t from = starts[i] < 0 ? starts[i] + whole[axis] : starts[i];
        start[axis] = steps[i] < 0 ? std::min(from, whole[axis] - 1) : from;
        step[axis] = steps[i];
    }
    forEach(c.out[0].dims, [&](const Dims &index) {
        Dims source = index;
        for (std::size_t d = 0; d < index.size(); ++d)
            source[d] = start[d] + index[d] * step[d];
        c.out[0].at(index) = c.in[0].at(source);
    });
}

inline void pad(const Call &c)
{
    const auto pads = c.op.integers("pads");
    forEach(c.out[0].dims, [&](const Dims &index) {
        Dims source = index;
        bool inside = true;
        for (std::size_t d = 0; d < index.size(); ++d) {
            source[d] -= pads[d];
            inside = inside && source[d] >= 0 && source[d] < c.in[0].dims[d];
        }
        c.out[0].at(index) = inside ? c.in[0].at(source) : c.op.number("value");
    });
}

inline void concat(const Call &c)
{
    const std::size_t axis = c.axis(0, c.out[0].dims.size());
    std::int64_t offset = 0;
    for (const Array &part : c.in) {
        forEach(part.dims, [&](const Dims &index) {
            Dims target = index;
            target[axis] += offset;
            c.out[0].at(target) = part.at(index);
        });
        offset += part.dims[axis];
    }
}

inline void split(const Call &c)
{
    const std::size_t axis = c.axis(0, c.in[0].dims.size());
    std::int64_t offset = 0;
    for (Array &part : c.out) {
        forEach(part.dims, [&](const Dims &index) {
            Dims source = index;
            source[axis] += offset;
            part.at(index) = c.in[0].at(source);
        });
        offset += part.dims[axis];
    }
}

inline void gather(const Call &c)
{
    const std::size_t axis = c.axis(0, c.in[0].dims.size());
    const std::size_t depth = c.in[1].dims.size();
    forEach(c.out[0].dims, [&](const Dims &index) {
        const auto from = index.begin() + static_cast<std::ptrdiff_t>(axis);
        const auto to = from + static_cast<std::ptrdiff_t>(depth);
        const double raw = c.in[1].at(Dims(from, to));
        const double row = raw < 0 ? raw + static_cast<double>(c.in[0].dims[axis]) : raw;
        if (row < 0 || row >= static_cast<double>(c.in[0].dims[axis])) {
            c.out[0].at(index) = std::numeric_limits<double>::quiet_NaN();
            return;
        }
        Dims source(index.begin(), from);
        source.push_back(static_cast<std::int64_t>(row));
        source.insert(source.end(), to, index.end());
        c.out[0].at(index) = c.in[0].at(source);
    });
}

inline void trilu(const Call &c)
{
    const bool upper = c.op.integer("upper", 1) != 0;
    const std::int64_t k = c.op.integer("k");
    forEach(c.out[0].dims, [&](const Dims &index) {
        const std::int64_t distance = index.back() - index[index.size() - 2];
        c.out[0].at(index) = (upper ? distance >= k : distance <= k) ? c.in[0].at(index) : 0.0;
    });
}

inline void addShapes(Table &t)
{
    for (const char *type : {"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
        t[type] = sameElements;
    t["Transpose"] = transpose;
    t["Expand"] = [](const Call &c) {
        forEach(c.out[0].dims, [&](const Dims &index) { c.out[0].at(index) = c.in[0].at(index); });
    };
    t["Tile"] = tile;
    t["Slice"] = slice;
    t["Pad"] = pad;
    t["Concat"] = concat;
    t["Split"] = split;
    t["Gather"] = gather;
    t["Trilu"] = trilu;
    t["ConstantOfShape"] = [](const Call &c) {
        std::fill(c.out[0].values.begin(), c.out[0].values.end(), c.op.number("value"));
    };
}

/// Calls f(output position, input position) for every input element of a reduction.
template <class F>
void forReduced(const Call &c, F f)
{
    const Dims &dims = c.in[0].dims;
    std::vector<bool> reduced(dims.size(), c.op.integers("axes").empty());
    for (const std::int64_t axis : c.op.integers("axes"))
        reduced[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(dims.size()) : axis)] = true;
    std::int64_t from = 0;
    forEach(dims, [&](const Dims &index) {
        std::int64_t to = 0;
        for (std::size_t d = 0; d < dims.size(); ++d)
            to = reduced[d] ? to : to * dims[d] + index[d];
        f(to, from++);
    });
}

inline Function reduction(double start, double (*join)(double, double), bool mean = false)
{
    return [=](const Call &c) {
        std::fill(c.out[0].values.begin(), c.out[0].values.end(), start);
        forReduced(c, [&](std::int64_t to, std::int64_t from) { c.out[0][to] = join(c.out[0][to], c.in[0][from]); });
        const double count = static_cast<double>(c.in[0].size()) / static_cast<double>(c.out[0].size());
        for (double &value : c.out[0].values)
            value = mean ? value / count : value;
    };
}

inline void cumSum(const Call &c)
{
    const std::size_t axis = c.axis(0, c.in[0].dims.size());
    const bool reverse = c.op.integer("reverse") != 0;
    const bool exclusive = c.op.integer("exclusive") != 0;
    forEach(c.out[0].dims, [&](const Dims &index) {
        double sum = 0;
        for (Dims other = index, i{0}; i[0] < c.in[0].dims[axis]; ++i[0]) {
            other[axis] = i[0];
            const std::int64_t behind = reverse ? i[0] - index[axis] : index[axis] - i[0];
            if (behind > 0 || (behind == 0 && !exclusive))
                sum += c.in[0].at(other);
        }
        c.out[0].at(index) = sum;
    });
}

inline void argMax(const Call &c)
{
    const std::size_t axis = c.axis(0, c.in[0].dims.size());
    Dims lines = c.in[0].dims;
    lines[axis] = 1;
    std::int64_t at = 0;
    forEach(lines, [&](const Dims &line) {
        Dims best = line;
        for (Dims other = line; other[axis] < c.in[0].dims[axis]; ++other[axis])
            best = c.in[0].at(other) > c.in[0].at(best) ? other : best;
        c.out[0][at++] = static_cast<double>(best[axis]);
    });
}

inline void addReductions(Table &t)
{
    t["ReduceSum"] = reduction(0, [](double a, double b) { return a + b; });
    t["ReduceMean"] = reduction(
        0, [](double a, double b) { return a + b; }, true);
    t["ReduceProd"] = reduction(1, [](double a, double b) { return a * b; });
    t["ReduceMax"] = reduction(-INFINITY, [](double a, double b) { return std::max(a, b); });
    t["ReduceMin"] = reduction(INFINITY, [](double a, double b) { return std::min(a, b); });
    t["CumSum"] = cumSum;
    t["ArgMax"] = argMax;
}

} // namespace planloom::reference

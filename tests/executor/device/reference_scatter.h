// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/reference.h"

#include <algorithm>
#include <numeric>

namespace planloom::reference {

inline double reduced(const std::string &how, double old, double update)
{
    return how == "add" ? old + update : how == "mul" ? old * update : update;
}

inline void scatterElements(const Call &c)
{
    const std::size_t axis = c.axis(0, c.in[0].dims.size());
    c.out[0].values = c.in[0].values;
    forEach(c.in[1].dims, [&](const Dims &index) {
        Dims target = index;
        const auto to = static_cast<std::int64_t>(c.in[1].at(index));
        target[axis] = to < 0 ? to + c.in[0].dims[axis] : to;
        c.out[0].at(target) = reduced(c.op.text("reduction"), c.out[0].at(target), c.in[2].at(index));
    });
}

inline void scatterNd(const Call &c)
{
    c.out[0].values = c.in[0].values;
    const std::size_t rows = c.in[1].dims.size() - 1;
    forEach(c.in[2].dims, [&](const Dims &index) {
        Dims target;
        Dims at(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(rows));
        at.push_back(0);
        for (; at.back() < c.in[1].dims.back(); ++at.back())
            target.push_back(static_cast<std::int64_t>(c.in[1].at(at)));
        target.insert(target.end(), index.begin() + static_cast<std::ptrdiff_t>(rows), index.end());
        c.out[0].at(target) = reduced(c.op.text("reduction"), c.out[0].at(target), c.in[2].at(index));
    });
}

inline void topK(const Call &c)
{
    const std::size_t axis = c.axis(-1, c.in[0].dims.size());
    const double sign = c.op.integer("largest", 1) != 0 ? 1 : -1;
    Dims lines = c.in[0].dims;
    lines[axis] = 1;
    forEach(lines, [&](const Dims &line) {
        std::vector<std::int64_t> order(static_cast<std::size_t>(c.in[0].dims[axis]));
        std::iota(order.begin(), order.end(), 0);
        const auto value = [&](std::int64_t i) {
            Dims index = line;
            index[axis] = i;
            return c.in[0].at(index);
        };
        std::stable_sort(order.begin(), order.end(),
                         [&](std::int64_t a, std::int64_t b) { return sign * value(a) > sign * value(b); });
        for (std::int64_t i = 0; i < c.out[0].dims[axis]; ++i) {
            Dims index = line;
            index[axis] = i;
            c.out[0].at(index) = value(order[static_cast<std::size_t>(i)]);
            c.out[1].at(index) = static_cast<double>(order[static_cast<std::size_t>(i)]);
        }
    });
}

/// Every input element puts its weighted window into the result.
inline void convTranspose(const Call &c)
{
    const Array &x = c.in[0];
    const Array &w = c.in[1];
    const std::size_t n = x.dims.size() - 2;
    const std::int64_t group = c.op.integer("group", 1);
    const auto strides = c.op.integers("strides", Dims(n, 1));
    const auto dilations = c.op.integers("dilations", Dims(n, 1));
    const auto pads = c.op.integers("pads", Dims(2 * n, 0));
    forEach(x.dims, [&](const Dims &from) {
        const Dims window(w.dims.begin() + 1, w.dims.end()); // output channels of the group, taps
        forEach(window, [&](const Dims &tap) {
            Dims to{from[0], from[1] / (x.dims[1] / group) * w.dims[1] + tap[0]};
            bool inside = true;
            for (std::size_t d = 0; d < n; ++d) {
                to.push_back(from[d + 2] * strides[d] - pads[d] + tap[d + 1] * dilations[d]);
                inside = inside && to.back() >= 0 && to.back() < c.out[0].dims[d + 2];
            }
            Dims weight{from[1]};
            weight.insert(weight.end(), tap.begin(), tap.end());
            if (inside)
                c.out[0].at(to) += x.at(from) * w.at(weight);
        });
    });
}

/// Row by row, entry by entry. Lists end within the entries, and an index that names no row makes its row NaN.
inline void spMM(const Call &c)
{
    const Array &offsets = c.in[0];
    const auto inside = [&](std::int64_t row) {
        return std::clamp<std::int64_t>(static_cast<std::int64_t>(offsets[row]), 0, c.in[1].size());
    };
    for (std::int64_t row = 0; row < c.out[0].dims[0]; ++row) {
        const std::int64_t begin = row == 0 ? 0 : inside(row - 1);
        const std::int64_t end = std::max(begin, inside(row));
        for (std::int64_t e = begin; e < end; ++e) {
            const auto source = static_cast<std::int64_t>(c.in[1][e]);
            const bool exists = source >= 0 && source < c.in[2].dims[0];
            const double weight = c.in.size() > 3 && c.in[3].present ? c.in[3][e] : 1;
            for (std::int64_t column = 0; column < c.out[0].dims[1]; ++column)
                c.out[0].at({row, column}) += exists ? weight * c.in[2].at({source, column}) : std::nan("");
        }
        for (std::int64_t column = 0; c.op.text("reduce", "sum") == "mean" && column < c.out[0].dims[1]; ++column)
            c.out[0].at({row, column}) /= static_cast<double>(std::max<std::int64_t>(1, end - begin));
    }
}

inline void addScatter(Table &t)
{
    t["ScatterElements"] = scatterElements;
    t["ScatterND"] = scatterNd;
    t["TopK"] = topK;
    t["SpMM"] = spMM;
    t["ConvTranspose"] = convTranspose;
}

} // namespace planloom::reference

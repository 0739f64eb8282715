// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/reference.h"

#include <algorithm>

namespace planloom::reference {

/// An index that may count from the end.
inline std::int64_t counted(double index, std::int64_t size)
{
    return static_cast<std::int64_t>(index < 0 ? index + static_cast<double>(size) : index);
}

inline void gatherElements(const Call &c)
{
    const std::size_t axis = c.axis(0, c.in[0].dims.size());
    forEach(c.out[0].dims, [&](const Dims &index) {
        Dims source = index;
        source[axis] = counted(c.in[1].at(index), c.in[0].dims[axis]);
        std::int64_t at = 0; // not position(): a dimension of one element is not repeated here
        for (std::size_t d = 0; d < source.size(); ++d)
            at = at * c.in[0].dims[d] + source[d];
        c.out[0].at(index) = c.in[0][at];
    });
}

inline void gatherNd(const Call &c)
{
    const auto blocks = static_cast<std::size_t>(c.op.integer("batch_dims"));
    const auto depth = static_cast<std::size_t>(c.in[1].dims.back());
    const std::size_t prefix = c.in[1].dims.size() - 1;
    forEach(c.out[0].dims, [&](const Dims &index) {
        Dims source(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(blocks));
        for (std::size_t k = 0; k < depth; ++k) {
            Dims at(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(prefix));
            at.push_back(static_cast<std::int64_t>(k));
            source.push_back(counted(c.in[1].at(at), c.in[0].dims[blocks + k]));
        }
        source.insert(source.end(), index.begin() + static_cast<std::ptrdiff_t>(prefix), index.end());
        c.out[0].at(index) = c.in[0].at(source);
    });
}

inline void oneHot(const Call &c)
{
    const std::size_t axis = c.axis(-1, c.out[0].dims.size());
    forEach(c.out[0].dims, [&](const Dims &index) {
        Dims source = index;
        source.erase(source.begin() + static_cast<std::ptrdiff_t>(axis));
        const bool hot = counted(c.in[0].at(source), c.op.integer("depth")) == index[axis];
        c.out[0].at(index) = c.in[1][hot ? 1 : 0];
    });
}

/// Steps back and forth, or stays, or starts again, until it is inside.
inline std::int64_t inside(std::int64_t at, std::int64_t size, const std::string &mode)
{
    while (at < 0 || at >= size) {
        if (mode == "edge")
            at = at < 0 ? 0 : size - 1;
        else if (mode == "wrap")
            at += at < 0 ? size : -size;
        else
            at = at < 0 ? -at : 2 * (size - 1) - at;
    }
    return at;
}

inline void mirroredPad(const Call &c)
{
    const auto pads = c.op.integers("pads");
    forEach(c.out[0].dims, [&](const Dims &index) {
        Dims source = index;
        for (std::size_t d = 0; d < index.size(); ++d)
            source[d] = inside(index[d] - pads[d], c.in[0].dims[d], c.op.text("mode"));
        c.out[0].at(index) = c.in[0].at(source);
    });
}

/// The first (or last) of the smallest or largest elements of each line.
inline Function extremeIndex(bool largest)
{
    return [largest](const Call &c) {
        const std::size_t axis = c.axis(0, c.in[0].dims.size());
        const bool last = c.op.integer("select_last_index") != 0;
        Dims lines = c.in[0].dims;
        lines[axis] = 1;
        std::int64_t at = 0;
        forEach(lines, [&](const Dims &line) {
            Dims best = line;
            for (Dims other = line; other[axis] < c.in[0].dims[axis]; ++other[axis]) {
                const double difference = (c.in[0].at(other) - c.in[0].at(best)) * (largest ? 1 : -1);
                best = difference > 0 || (last && difference == 0) ? other : best;
            }
            c.out[0][at++] = static_cast<double>(best[axis]);
        });
    };
}

inline Function pointwise(double (*f)(double))
{
    return [f](const Call &c) {
        std::transform(c.in[0].values.begin(), c.in[0].values.end(), c.out[0].values.begin(), f);
    };
}

inline Function pairwise(double (*f)(double, double))
{
    return [f](const Call &c) {
        std::int64_t i = 0;
        forEach(c.out[0].dims, [&](const Dims &index) { c.out[0][i++] = f(c.in[0].at(index), c.in[1].at(index)); });
    };
}

/// After addShapes and addReductions: Pad and ArgMax are extended here.
inline void addIndexing(Table &t)
{
    t["GatherElements"] = gatherElements;
    t["GatherND"] = gatherNd;
    t["OneHot"] = oneHot;
    t["Pad"] = [constant = t["Pad"]](const Call &c) {
        c.op.text("mode", "constant") == "constant" ? constant(c) : mirroredPad(c);
    };
    t["ArgMax"] = extremeIndex(true);
    t["ArgMin"] = extremeIndex(false);
    t["Xor"] = pairwise([](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; });
    t["LessOrEqual"] = pairwise([](double a, double b) { return a <= b ? 1.0 : 0.0; });
    t["GreaterOrEqual"] = pairwise([](double a, double b) { return a >= b ? 1.0 : 0.0; });
    t["Mod"] = [](const Call &c) {
        const bool truncates = c.op.integer("fmod") != 0;
        std::int64_t i = 0;
        forEach(c.out[0].dims, [&](const Dims &index) {
            const double a = c.in[0].at(index);
            const double b = c.in[1].at(index);
            c.out[0][i++] = a - b * (truncates ? std::trunc(a / b) : std::floor(a / b));
        });
    };
    t["Acos"] = pointwise([](double x) { return std::acos(x); });
    t["Acosh"] = pointwise([](double x) { return std::acosh(x); });
    t["Asin"] = pointwise([](double x) { return std::asin(x); });
    t["Asinh"] = pointwise([](double x) { return std::asinh(x); });
    t["Atan"] = pointwise([](double x) { return std::atan(x); });
    t["Atanh"] = pointwise([](double x) { return std::atanh(x); });
    t["Cosh"] = pointwise([](double x) { return std::cosh(x); });
    t["Sinh"] = pointwise([](double x) { return std::sinh(x); });
}

} // namespace planloom::reference

// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/resample.h"

#include <algorithm>
#include <cmath>

namespace planloom::import {
namespace {

using graph::Dim;
using graph::DType;
using Ints = std::vector<std::int64_t>;

/// One axis that is resized.
struct Axis {
    std::int64_t in = 1, out = 1;
    double scale = 1;
    double start = 0, end = 1; ///< region, for tf_crop_and_resize
};

struct How {
    std::string mode, coordinates, nearest;
    double cubic = -0.75;
    bool excludeOutside = false;
    double extrapolation = 0;
};

How howOf(const Steps &s)
{
    How how;
    how.mode = s.text("mode", "nearest");
    const bool first = s.opset() < 11 || s.node().op_type() == "Upsample";
    how.coordinates = first ? "asymmetric" : s.text("coordinate_transformation_mode", "half_pixel");
    how.nearest = first ? "floor" : s.text("nearest_mode", "round_prefer_floor");
    how.cubic = s.number("cubic_coeff_a", -0.75);
    how.excludeOutside = s.integer("exclude_outside", 0) != 0;
    how.extrapolation = s.number("extrapolation_value", 0);
    return how;
}

/// Where output element @p i lies among the input's. The length of the result is taken before it is rounded down.
double position(const How &how, const Axis &axis, std::int64_t i)
{
    const auto x = static_cast<double>(i);
    const auto in = static_cast<double>(axis.in);
    const double length = in * axis.scale;
    if (how.coordinates == "asymmetric")
        return x / axis.scale;
    if (how.coordinates == "align_corners")
        return length == 1 ? 0 : x * (in - 1) / (length - 1);
    if (how.coordinates == "tf_half_pixel_for_nn")
        return (x + 0.5) / axis.scale;
    if (how.coordinates == "tf_crop_and_resize")
        return axis.out > 1 ? axis.start * (in - 1) + x * (axis.end - axis.start) * (in - 1) / (length - 1)
                            : 0.5 * (axis.start + axis.end) * (in - 1);
    if (how.coordinates == "pytorch_half_pixel" && axis.out <= 1)
        return 0;
    return (x + 0.5) / axis.scale - 0.5;
}

bool outside(const How &how, const Axis &axis, double x)
{
    return how.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(axis.in - 1));
}

std::int64_t inside(const Axis &axis, double i)
{
    return static_cast<std::int64_t>(std::clamp(i, 0.0, static_cast<double>(axis.in - 1)));
}

double nearest(const How &how, double x)
{
    if (how.nearest == "floor")
        return std::floor(x);
    if (how.nearest == "ceil")
        return std::ceil(x);
    const bool half = x - std::floor(x) == 0.5;
    return half ? (how.nearest == "round_prefer_ceil" ? std::ceil(x) : std::floor(x)) : std::round(x);
}

/// Weights of the neighbours floor(x) - 1 ... floor(x) + 2.
std::vector<double> weights(const How &how, double x)
{
    const double t = x - std::floor(x);
    if (how.mode == "linear")
        return {0, 1 - t, t, 0};
    const double a = how.cubic;
    const auto far = [a](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    const auto near = [a](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

/// (out, in): each row the weights of the input's elements.
std::vector<double> matrix(const How &how, const Axis &axis)
{
    std::vector<double> rows(static_cast<std::size_t>(axis.in * axis.out), 0.0);
    for (std::int64_t i = 0; i < axis.out; ++i) {
        const double x = position(how, axis, i);
        std::vector<double> each = weights(how, x);
        double sum = 0;
        for (std::size_t k = 0; k < each.size(); ++k) {
            const double at = std::floor(x) - 1 + static_cast<double>(k);
            if (how.excludeOutside && (at < 0 || at > static_cast<double>(axis.in - 1)))
                each[k] = 0;
            sum += each[k];
        }
        for (std::size_t k = 0; k < each.size(); ++k)
            rows[static_cast<std::size_t>(i * axis.in + inside(axis, std::floor(x) - 1 + static_cast<double>(k)))] +=
                how.excludeOutside ? each[k] / sum : each[k];
    }
    return rows;
}

/// Sizes and scales of all axes; empty if they are not known or do not fit.
std::vector<Axis> axesOf(const Steps &s)
{
    const bool first = s.opset() < 11 || s.node().op_type() == "Upsample";
    const auto rank = static_cast<std::size_t>(s.rank());
    const KnownValue *scales = s.known(first ? 1 : 2);
    const KnownValue *sizes = first ? nullptr : s.known(3);
    const KnownValue *region = first ? nullptr : s.known(1);
    std::vector<double> factors;
    if (const auto *stored = s.attribute("scales"))
        factors.assign(stored->floats().begin(), stored->floats().end());
    for (std::size_t i = 0; scales && i < scales->elements.size(); ++i)
        factors.push_back(scales->elements[i].value);
    const bool bySize = sizes && sizes->elements.size() == rank;
    if (!bySize && factors.size() != rank)
        return {};
    std::vector<Axis> axes(rank);
    for (std::size_t i = 0; i < rank; ++i) {
        axes[i].in = s.shape()[i].size;
        axes[i].out = bySize ? sizes->elements[i].integer()
                             : static_cast<std::int64_t>(std::floor(static_cast<double>(axes[i].in) * factors[i]));
        if (s.shape()[i].batch)
            axes[i].out = axes[i].in;
        axes[i].scale = bySize || s.shape()[i].batch
            ? static_cast<double>(axes[i].out) / static_cast<double>(axes[i].in)
            : factors[i];
        if (region && region->elements.size() == 2 * rank) {
            axes[i].start = region->elements[i].value;
            axes[i].end = region->elements[i + rank].value;
        }
        constexpr std::int64_t kMost = 1 << 16;
        constexpr std::int64_t kMostWeights = 1 << 24;
        if (axes[i].in < 1 || axes[i].out < 1 || axes[i].in > kMost || axes[i].out > kMost
            || axes[i].in * axes[i].out > kMostWeights)
            return {};
    }
    return axes;
}

/// @p dims: in, the shape of x; out, that of the result.
std::string alongAxis(Steps &s, const How &how, const Axis &axis, std::size_t at, const std::string &x,
                      std::vector<Dim> &dims)
{
    dims[at].size = axis.out;
    if (how.mode == "nearest") {
        std::vector<double> indices;
        for (std::int64_t i = 0; i < axis.out; ++i)
            indices.push_back(static_cast<double>(inside(axis, nearest(how, position(how, axis, i)))));
        return s.add("Gather", {x, s.constant(DType::I64, {axis.out}, indices)},
                     {{"axis", static_cast<std::int64_t>(at)}});
    }
    const std::string rows = s.constant(DType::F32, {axis.out, axis.in}, matrix(how, axis));
    if (at + 1 == dims.size())
        return s.add("MatMul", {x, s.add("Transpose", {rows}, {{"perm", Ints{1, 0}}})});
    std::vector<Dim> folded(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(at));
    folded.push_back({axis.in, false});
    Dim rest;
    for (std::size_t i = at + 1; i < dims.size(); ++i)
        rest = {rest.size * dims[i].size, rest.batch || dims[i].batch};
    folded.push_back(rest);
    return s.reshape(s.add("MatMul", {rows, s.reshape(x, folded)}), dims);
}

/// Elements outside of the region get one value.
std::string extrapolate(Steps &s, const How &how, const std::vector<Axis> &axes, std::string x)
{
    for (std::size_t a = 0; a < axes.size(); ++a) {
        std::vector<double> lies;
        for (std::int64_t i = 0; i < axes[a].out; ++i)
            lies.push_back(outside(how, axes[a], position(how, axes[a], i)) ? 1 : 0);
        if (std::find(lies.begin(), lies.end(), 1.0) == lies.end())
            continue;
        Ints dims(axes.size() - a, 1);
        dims[0] = axes[a].out;
        x = s.add("Where", {s.constant(DType::Bool, dims, lies), s.constant(DType::F32, {}, {how.extrapolation}), x});
    }
    return x;
}

} // namespace

void resize(Steps &s)
{
    const How how = howOf(s);
    const std::vector<Axis> axes = axesOf(s);
    if (axes.empty() || (how.mode != "nearest" && how.mode != "linear" && how.mode != "cubic")
        || s.integer("antialias", 0) != 0)
        return;
    std::string x = s.x();
    std::vector<Dim> dims = s.shape().dims();
    for (std::size_t i = 0; i < axes.size(); ++i)
        if (axes[i].in != axes[i].out || axes[i].scale != 1 || how.coordinates == "tf_crop_and_resize")
            if (!dims[i].batch)
                x = alongAxis(s, how, axes[i], i, x, dims);
    if (how.coordinates == "tf_crop_and_resize")
        extrapolate(s, how, axes, x);
    if (x == s.x())
        s.add("Identity", {x});
    s.nameOutput();
}

} // namespace planloom::import

// SPDX-License-Identifier: Apache-2.0
#include "engine/import/known_value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

namespace planloom::import {
namespace {

using graph::DType;
using Inputs = std::vector<const KnownValue *>;
using Folded = std::optional<KnownValue>;

std::int64_t product(const std::vector<std::int64_t> &dims)
{
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) {
        if (dim < 0 || (dim > 0 && count > kMostFoldedElements / dim))
            return -1;
        count *= dim;
    }
    return count;
}

bool isInteger(DType type) { return type == DType::I64 || type == DType::I32 || type == DType::I8 || type == DType::U8 || type == DType::Bool; }

std::vector<std::int64_t> strides(const std::vector<std::int64_t> &dims)
{
    std::vector<std::int64_t> result(dims.size(), 1);
    for (std::size_t i = dims.size(); i-- > 1;)
        result[i - 1] = result[i] * dims[i];
    return result;
}

/// Makes a value of shape @p dims, each element from its multi-index.
Folded build(DType type, const std::vector<std::int64_t> &dims, const std::function<Number(const std::vector<std::int64_t> &)> &element)
{
    const std::int64_t count = product(dims);
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

/// The element of @p value that broadcasting pairs with @p index.
const Number &broadcastAt(const KnownValue &value, const std::vector<std::int64_t> &index)
{
    std::int64_t offset = 0;
    std::int64_t stride = 1;
    for (std::size_t back = 0; back < value.dims.size(); ++back) {
        const std::size_t axis = value.dims.size() - 1 - back;
        if (value.dims[axis] != 1)
            offset += index[index.size() - 1 - back] * stride;
        stride *= value.dims[axis];
    }
    return value.elements[static_cast<std::size_t>(offset)];
}

std::optional<std::vector<std::int64_t>> broadcastDims(const Inputs &inputs)
{
    std::vector<std::int64_t> dims;
    for (const KnownValue *input : inputs) {
        if (input->dims.size() > dims.size())
            dims.insert(dims.begin(), input->dims.size() - dims.size(), 1);
        for (std::size_t back = 0; back < input->dims.size(); ++back) {
            std::int64_t &out = dims[dims.size() - 1 - back];
            const std::int64_t in = input->dims[input->dims.size() - 1 - back];
            if (out != 1 && in != 1 && out != in)
                return {};
            out = out == 1 ? in : out;
        }
    }
    return dims;
}

/// An arithmetic rule on numbers; no result where a batch multiple would become something else.
using Rule = std::function<std::optional<Number>(const Number &, const Number &, bool integer)>;

std::optional<Number> plain(double value) { return Number{value, false}; }

Rule arithmetic(double (*onFloats)(double, double))
{
    return [onFloats](const Number &a, const Number &b, bool integer) -> std::optional<Number> {
        if (a.batch || b.batch)
            return {};
        const double value = onFloats(a.value, b.value);
        return plain(integer ? std::trunc(value) : value);
    };
}

std::optional<Number> add(const Number &a, const Number &b, double sign)
{
    if (a.batch == b.batch || b.value == 0)
        return Number{a.value + sign * b.value, a.batch};
    if (a.value == 0)
        return Number{sign * b.value, b.batch};
    return {};
}

std::optional<Number> multiply(const Number &a, const Number &b)
{
    if (a.batch && b.batch)
        return {};
    return Number{a.value * b.value, (a.batch || b.batch) && a.value * b.value != 0};
}

std::optional<Number> divide(const Number &a, const Number &b, bool integer)
{
    if (b.value == 0 || (b.batch && !a.batch))
        return {};
    const double value = a.value / b.value;
    if (a.batch && !b.batch && integer && value != std::trunc(value))
        return {};
    return Number{integer ? std::trunc(value) : value, a.batch && !b.batch};
}

std::optional<Number> compare(const Number &a, const Number &b, bool (*test)(double, double))
{
    if (a.batch != b.batch && (a.value != 0 && b.value != 0)) // a positive multiple of the batch against a marker such as -1
        return plain(test(a.batch ? 1e9 * a.value : a.value, b.batch ? 1e9 * b.value : b.value) ? 1 : 0);
    return plain(test(a.value, b.value) ? 1 : 0);
}

const std::map<std::string, Rule, std::less<>> &binaryRules()
{
    static const std::map<std::string, Rule, std::less<>> rules = {
        {"Add", [](const Number &a, const Number &b, bool) { return add(a, b, 1); }},
        {"Sub", [](const Number &a, const Number &b, bool) { return add(a, b, -1); }},
        {"Mul", [](const Number &a, const Number &b, bool) { return multiply(a, b); }},
        {"Div", divide},
        {"Mod", arithmetic([](double a, double b) { return b == 0 ? 0 : a - std::floor(a / b) * b; })},
        {"Pow", arithmetic([](double a, double b) { return std::pow(a, b); })},
        {"Min", arithmetic([](double a, double b) { return std::min(a, b); })},
        {"Max", arithmetic([](double a, double b) { return std::max(a, b); })},
        {"And", arithmetic([](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; })},
        {"Or", arithmetic([](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; })},
        {"Equal", [](const Number &a, const Number &b, bool) { return compare(a, b, [](double x, double y) { return x == y; }); }},
        {"Less", [](const Number &a, const Number &b, bool) { return compare(a, b, [](double x, double y) { return x < y; }); }},
        {"Greater", [](const Number &a, const Number &b, bool) { return compare(a, b, [](double x, double y) { return x > y; }); }},
        {"LessOrEqual", [](const Number &a, const Number &b, bool) { return compare(a, b, [](double x, double y) { return x <= y; }); }},
        {"GreaterOrEqual", [](const Number &a, const Number &b, bool) { return compare(a, b, [](double x, double y) { return x >= y; }); }},
    };
    return rules;
}

bool yieldsBool(const std::string &type)
{
    return type == "Equal" || type == "Less" || type == "Greater" || type == "LessOrEqual" || type == "GreaterOrEqual" || type == "And" || type == "Or";
}

Folded foldBinary(const graph::Op &op, const Rule &rule, const Inputs &in)
{
    if (in.size() != 2 || op.integer("fmod") != 0) // the rule of Mod takes the divisor's sign
        return {};
    const auto dims = broadcastDims(in);
    if (!dims)
        return {};
    bool possible = true;
    const bool integer = isInteger(in[0]->type);
    auto value = build(yieldsBool(op.type) ? DType::Bool : in[0]->type, *dims, [&](const auto &index) {
        const auto number = rule(broadcastAt(*in[0], index), broadcastAt(*in[1], index), integer);
        possible = possible && number.has_value();
        return number.value_or(Number{});
    });
    return possible ? value : Folded{};
}

const std::map<std::string, double (*)(double), std::less<>> &unaryRules()
{
    static const std::map<std::string, double (*)(double), std::less<>> rules = {
        {"Neg", [](double x) { return -x; }},   {"Abs", [](double x) { return std::abs(x); }},
        {"Sqrt", [](double x) { return std::sqrt(x); }}, {"Exp", [](double x) { return std::exp(x); }},
        {"Log", [](double x) { return std::log(x); }},   {"Floor", [](double x) { return std::floor(x); }},
        {"Ceil", [](double x) { return std::ceil(x); }}, {"Sin", [](double x) { return std::sin(x); }},
        {"Cos", [](double x) { return std::cos(x); }},   {"Reciprocal", [](double x) { return 1 / x; }},
        {"Not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
    };
    return rules;
}

Folded foldUnary(double (*rule)(double), const Inputs &in)
{
    if (in.size() != 1 || in[0]->symbolic())
        return {};
    KnownValue value = *in[0];
    for (Number &number : value.elements)
        number.value = rule(number.value);
    return value;
}

std::optional<std::size_t> axisOf(std::int64_t axis, std::size_t rank)
{
    if (axis < 0)
        axis += static_cast<std::int64_t>(rank);
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank))
        return {};
    return static_cast<std::size_t>(axis);
}

Folded foldGather(const graph::Op &op, const Inputs &in)
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
    auto value = build(data.type, dims, [&](const auto &index) {
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

Folded foldConcat(const graph::Op &op, const Inputs &in)
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
    return build(in[0]->type, dims, [&](std::vector<std::int64_t> index) {
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
Folded foldSlice(const graph::Op &op, const Inputs &in)
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
        const auto inside = [&](std::int64_t at) { return std::clamp(at < 0 ? at + size : at, ahead ? std::int64_t{0} : std::int64_t{-1}, ahead ? size : size - 1); };
        const std::int64_t first = inside(starts[i]);
        const std::int64_t last = ends[i] < -size && !ahead ? -1 : inside(ends[i]);
        const std::int64_t span = ahead ? last - first : first - last;
        dims[*axis] = std::max<std::int64_t>(0, (span + std::abs(steps[i]) - 1) / std::abs(steps[i]));
        from[*axis] = first;
        step[*axis] = steps[i];
    }
    return build(data.type, dims, [&](const auto &index) {
        std::int64_t offset = 0;
        for (std::size_t i = 0; i < dims.size(); ++i)
            offset = offset * data.dims[i] + from[i] + index[i] * step[i];
        return data.elements[static_cast<std::size_t>(offset)];
    });
}

Folded foldTranspose(const graph::Op &op, const Inputs &in)
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
    if (product(dims) != product(data.dims))
        return {};
    return build(data.type, dims, [&](const auto &index) {
        std::int64_t offset = 0;
        for (std::size_t i = 0; i < dims.size(); ++i)
            offset += index[i] * dataStrides[static_cast<std::size_t>(perm[i])];
        return data.elements[static_cast<std::size_t>(offset)];
    });
}

/// Gives @p value the dims of attribute `shape`, which may hold one -1 and zeros (keep).
Folded foldReshape(const graph::Op &op, const Inputs &in)
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
    if (op.integer("batch_axis", -1) >= 0 || product(dims) != count)
        return {};
    value.dims = dims;
    return value;
}

Folded foldAxes(const graph::Op &op, const Inputs &in, bool insert)
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
    if (product(dims) != static_cast<std::int64_t>(value.elements.size()))
        return {};
    value.dims = dims;
    return value;
}

Folded foldRange(const Inputs &in)
{
    if (in.size() != 3 || in[0]->elements.empty() || in[1]->elements.empty() || in[2]->elements.empty())
        return {};
    const Number start = in[0]->elements[0];
    const Number limit = in[1]->elements[0];
    const Number delta = in[2]->elements[0];
    if (start.batch || limit.batch || delta.batch || delta.value == 0)
        return {};
    const double count = std::max(0.0, std::ceil((limit.value - start.value) / delta.value));
    if (!(count <= static_cast<double>(kMostFoldedElements)))
        return {};
    return build(in[0]->type, {static_cast<std::int64_t>(count)},
                 [&](const auto &index) { return Number{start.value + static_cast<double>(index[0]) * delta.value, false}; });
}

Folded foldTrilu(const graph::Op &op, const Inputs &in)
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

Folded foldReduce(const Inputs &in, bool multiplyAll)
{
    KnownValue result = KnownValue::scalar(in[0]->type, multiplyAll ? 1 : 0);
    Number &total = result.elements[0];
    for (const Number &number : in[0]->elements) {
        const auto next = multiplyAll ? multiply(total, number) : add(total, number, 1);
        if (!next)
            return {};
        total = *next;
    }
    return result;
}

Folded foldWhere(const Inputs &in)
{
    const auto dims = in.size() == 3 ? broadcastDims(in) : std::nullopt;
    if (!dims)
        return {};
    return build(in[1]->type, *dims, [&](const auto &index) { return broadcastAt(*in[broadcastAt(*in[0], index).value != 0 ? 1 : 2], index); });
}

Folded foldFilled(const graph::Op &op, const KnownValue *pattern)
{
    if (op.integer("batch_axis", -1) >= 0)
        return {};
    std::vector<std::int64_t> dims = op.integers("shape");
    if (!pattern) {
        DType type = DType::F32;
        graph::fromName(op.text("to", "float32"), type);
        return build(type, dims, [&](const auto &) { return Number{op.number("value"), false}; });
    }
    const KnownValue target{DType::I64, dims, {}};
    const auto both = broadcastDims({pattern, &target});
    if (!both)
        return {};
    return build(pattern->type, *both, [&](const auto &index) { return broadcastAt(*pattern, index); });
}

Folded foldCast(const graph::Op &op, const Inputs &in)
{
    KnownValue value = *in[0];
    if (!graph::fromName(op.text("to"), value.type))
        return {};
    for (Number &number : value.elements) {
        if (value.type == DType::Bool)
            number = {number.value != 0 ? 1.0 : 0.0, false};
        else if (isInteger(value.type))
            number.value = std::trunc(number.value);
    }
    return value;
}

using Folder = std::function<Folded(const graph::Op &, const Inputs &)>;

const std::map<std::string, Folder, std::less<>> &folders()
{
    static const std::map<std::string, Folder, std::less<>> table = {
        {"Gather", foldGather},
        {"Concat", foldConcat},
        {"Slice", foldSlice},
        {"Transpose", foldTranspose},
        {"Reshape", foldReshape},
        {"Unsqueeze", [](const graph::Op &op, const Inputs &in) { return foldAxes(op, in, true); }},
        {"Squeeze", [](const graph::Op &op, const Inputs &in) { return foldAxes(op, in, false); }},
        {"Range", [](const graph::Op &, const Inputs &in) { return foldRange(in); }},
        {"Trilu", foldTrilu},
        {"Where", [](const graph::Op &, const Inputs &in) { return foldWhere(in); }},
        {"ReduceProd", [](const graph::Op &op, const Inputs &in) { return op.has("axes") && in[0]->dims.size() > 1 ? Folded{} : foldReduce(in, true); }},
        {"ReduceSum", [](const graph::Op &op, const Inputs &in) { return op.has("axes") && in[0]->dims.size() > 1 ? Folded{} : foldReduce(in, false); }},
        {"Cast", foldCast},
        {"Identity", [](const graph::Op &, const Inputs &in) { return Folded(*in[0]); }},
        {"ConstantOfShape", [](const graph::Op &op, const Inputs &) { return foldFilled(op, nullptr); }},
        {"Expand", [](const graph::Op &op, const Inputs &in) { return foldFilled(op, in[0]); }},
    };
    return table;
}

} // namespace

std::optional<KnownValue> fold(const graph::Op &op, const std::vector<const KnownValue *> &inputs)
{
    for (const KnownValue *input : inputs)
        if (!input || static_cast<std::int64_t>(input->elements.size()) > kMostFoldedElements)
            return {};
    if (const auto rule = binaryRules().find(op.type); rule != binaryRules().end())
        return foldBinary(op, rule->second, inputs);
    if (const auto rule = unaryRules().find(op.type); rule != unaryRules().end())
        return foldUnary(rule->second, inputs);
    const auto folder = folders().find(op.type);
    const bool needsInput = op.type != "ConstantOfShape" && op.type != "Concat";
    if (folder == folders().end() || (needsInput && inputs.empty()))
        return {};
    return folder->second(op, inputs);
}

} // namespace planloom::import

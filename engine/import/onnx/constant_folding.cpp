// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/constant_fold_shared.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

namespace planloom::import {
namespace {

using graph::DType;
bool isInteger(DType type)
{
    return type == DType::I64 || type == DType::I32 || type == DType::I8 || type == DType::U8 || type == DType::Bool;
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

std::optional<std::vector<std::int64_t>> broadcastDims(const KnownInputs &inputs)
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
using FoldingRule = std::function<std::optional<Number>(const Number &, const Number &, bool integer)>;

std::optional<Number> plain(double value) { return Number{value, false}; }

FoldingRule arithmetic(double (*onFloats)(double, double))
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
    if (a.batch != b.batch
        && (a.value != 0 && b.value != 0)) // a positive multiple of the batch against a marker such as -1
        return plain(test(a.batch ? 1e9 * a.value : a.value, b.batch ? 1e9 * b.value : b.value) ? 1 : 0);
    return plain(test(a.value, b.value) ? 1 : 0);
}

const std::map<std::string, FoldingRule, std::less<>> &binaryRules()
{
    static const std::map<std::string, FoldingRule, std::less<>> rules = {
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
        {"Equal",
         [](const Number &a, const Number &b, bool) {
             return compare(a, b, [](double x, double y) { return x == y; });
         }},
        {"Less",
         [](const Number &a, const Number &b, bool) {
             return compare(a, b, [](double x, double y) { return x < y; });
         }},
        {"Greater",
         [](const Number &a, const Number &b, bool) {
             return compare(a, b, [](double x, double y) { return x > y; });
         }},
        {"LessOrEqual",
         [](const Number &a, const Number &b, bool) {
             return compare(a, b, [](double x, double y) { return x <= y; });
         }},
        {"GreaterOrEqual",
         [](const Number &a, const Number &b, bool) {
             return compare(a, b, [](double x, double y) { return x >= y; });
         }},
    };
    return rules;
}

bool yieldsBool(const std::string &type)
{
    return type == "Equal" || type == "Less" || type == "Greater" || type == "LessOrEqual" || type == "GreaterOrEqual"
        || type == "And" || type == "Or";
}

Folded foldBinary(const graph::Op &op, const FoldingRule &rule, const KnownInputs &in)
{
    if (in.size() != 2 || op.integer("fmod") != 0) // the rule of Mod takes the divisor's sign
        return {};
    const auto dims = broadcastDims(in);
    if (!dims)
        return {};
    bool possible = true;
    const bool integer = isInteger(in[0]->type);
    auto value = buildKnown(yieldsBool(op.type) ? DType::Bool : in[0]->type, *dims, [&](const auto &index) {
        const auto number = rule(broadcastAt(*in[0], index), broadcastAt(*in[1], index), integer);
        possible = possible && number.has_value();
        return number.value_or(Number{});
    });
    return possible ? value : Folded{};
}

const std::map<std::string, double (*)(double), std::less<>> &unaryRules()
{
    static const std::map<std::string, double (*)(double), std::less<>> rules = {
        {"Neg", [](double x) { return -x; }},
        {"Abs", [](double x) { return std::abs(x); }},
        {"Sqrt", [](double x) { return std::sqrt(x); }},
        {"Exp", [](double x) { return std::exp(x); }},
        {"Log", [](double x) { return std::log(x); }},
        {"Floor", [](double x) { return std::floor(x); }},
        {"Ceil", [](double x) { return std::ceil(x); }},
        {"Sin", [](double x) { return std::sin(x); }},
        {"Cos", [](double x) { return std::cos(x); }},
        {"Reciprocal", [](double x) { return 1 / x; }},
        {"Not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
    };
    return rules;
}

Folded foldUnary(double (*rule)(double), const KnownInputs &in)
{
    if (in.size() != 1 || in[0]->symbolic())
        return {};
    KnownValue value = *in[0];
    for (Number &number : value.elements)
        number.value = rule(number.value);
    return value;
}

Folded foldRange(const KnownInputs &in)
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
    return buildKnown(in[0]->type, {static_cast<std::int64_t>(count)}, [&](const auto &index) {
        return Number{start.value + static_cast<double>(index[0]) * delta.value, false};
    });
}

Folded foldReduce(const KnownInputs &in, bool multiplyAll)
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

Folded foldWhere(const KnownInputs &in)
{
    const auto dims = in.size() == 3 ? broadcastDims(in) : std::nullopt;
    if (!dims)
        return {};
    return buildKnown(in[1]->type, *dims, [&](const auto &index) {
        return broadcastAt(*in[broadcastAt(*in[0], index).value != 0 ? 1 : 2], index);
    });
}

Folded foldFilled(const graph::Op &op, const KnownValue *pattern)
{
    if (op.integer("batch_axis", -1) >= 0)
        return {};
    std::vector<std::int64_t> dims = op.integers("shape");
    if (!pattern) {
        DType type = DType::F32;
        graph::fromName(op.text("to", "float32"), type);
        return buildKnown(type, dims, [&](const auto &) { return Number{op.number("value"), false}; });
    }
    const KnownValue target{DType::I64, dims, {}};
    const auto both = broadcastDims({pattern, &target});
    if (!both)
        return {};
    return buildKnown(pattern->type, *both, [&](const auto &index) { return broadcastAt(*pattern, index); });
}

Folded foldCast(const graph::Op &op, const KnownInputs &in)
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

using Folder = std::function<Folded(const graph::Op &, const KnownInputs &)>;

const std::map<std::string, Folder, std::less<>> &folders()
{
    static const std::map<std::string, Folder, std::less<>> table = {
        {"Gather", foldGather},
        {"Concat", foldConcat},
        {"Slice", foldSlice},
        {"Transpose", foldTranspose},
        {"Reshape", foldReshape},
        {"Unsqueeze", foldUnsqueeze},
        {"Squeeze", foldSqueeze},
        {"Range", [](const graph::Op &, const KnownInputs &in) { return foldRange(in); }},
        {"Trilu", foldTrilu},
        {"Where", [](const graph::Op &, const KnownInputs &in) { return foldWhere(in); }},
        {"ReduceProd",
         [](const graph::Op &op, const KnownInputs &in) {
             return op.has("axes") && in[0]->dims.size() > 1 ? Folded{} : foldReduce(in, true);
         }},
        {"ReduceSum",
         [](const graph::Op &op, const KnownInputs &in) {
             return op.has("axes") && in[0]->dims.size() > 1 ? Folded{} : foldReduce(in, false);
         }},
        {"Cast", foldCast},
        {"Identity", [](const graph::Op &, const KnownInputs &in) { return Folded(*in[0]); }},
        {"ConstantOfShape", [](const graph::Op &op, const KnownInputs &) { return foldFilled(op, nullptr); }},
        {"Expand", [](const graph::Op &op, const KnownInputs &in) { return foldFilled(op, in[0]); }},
    };
    return table;
}

} // namespace

std::optional<KnownValue> fold(const graph::Op &op, const std::vector<const KnownValue *> &inputs)
{
    for (const KnownValue *input : inputs)
        if (!input || static_cast<std::int64_t>(input->elements.size()) > kMostFoldedElements)
            return {};
    if (const auto rule = binaryRules().find(op.type.name()); rule != binaryRules().end())
        return foldBinary(op, rule->second, inputs);
    if (const auto rule = unaryRules().find(op.type.name()); rule != unaryRules().end())
        return foldUnary(rule->second, inputs);
    const auto folder = folders().find(op.type.name());
    const bool needsInput = op.type != "ConstantOfShape" && op.type != "Concat";
    if (folder == folders().end() || (needsInput && inputs.empty()))
        return {};
    return folder->second(op, inputs);
}

} // namespace planloom::import

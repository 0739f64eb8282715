// SPDX-License-Identifier: Apache-2.0
// Layers spelled with simpler operators, which train as they are: normalisations, losses, transposed convolution.
#include "engine/import/onnx/resample.h"
#include "engine/import/onnx/steps.h"

#include <algorithm>

namespace planloom::import {
namespace {

using graph::Dim;
using graph::DType;
using Ints = std::vector<std::int64_t>;

Ints integersBetween(std::int64_t first, std::int64_t last)
{
    Ints values;
    for (std::int64_t i = first; i < last; ++i)
        values.push_back(i);
    return values;
}

std::string mean(Steps &s, const std::string &x, const Ints &axes)
{
    return s.add("ReduceMean", {x}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
}

struct Centred {
    std::string mean, difference, variance;
};

Centred centred(Steps &s, const Ints &axes)
{
    Centred made;
    made.mean = mean(s, s.x(), axes);
    made.difference = s.add("Sub", {s.x(), made.mean});
    made.variance = mean(s, s.add("Mul", {made.difference, made.difference}), axes);
    return made;
}

/// Input @p i, one number for each channel, so that it broadcasts to (N, C, ...).
std::string perChannel(Steps &s, std::size_t i)
{
    return s.rank() > 2 ? s.add("Unsqueeze", {s.x(i)}, {{"axes", integersBetween(1, s.rank() - 1)}}) : s.x(i);
}

std::string scaled(Steps &s, const Centred &of, double epsilon)
{
    const std::string deviation = s.add("Sqrt", {s.add("Add", {of.variance, s.scalar(epsilon)})});
    const std::string normal = s.add("Div", {of.difference, deviation});
    const std::string product = s.add("Mul", {normal, perChannel(s, 1)});
    return s.add("Add", {product, perChannel(s, 2)});
}

void instanceNormalization(Steps &s)
{
    if (!s.given(1) || !s.given(2) || s.rank() < 3)
        return;
    scaled(s, centred(s, integersBetween(2, s.rank())), s.number("epsilon", 1e-5));
    s.nameOutput();
}

/// In training form, for files that are run as they are: running statistics are outputs.
void expandBatchNormalization(Steps &s)
{
    if (!s.exact() || s.integer("training_mode", 0) == 0 || !s.given(4) || s.rank() < 2)
        return;
    Ints axes{0};
    for (std::int64_t i = 2; i < s.rank(); ++i)
        axes.push_back(i);
    const Centred parts = centred(s, axes);
    scaled(s, parts, s.number("epsilon", 1e-5));
    s.nameOutput();
    const double momentum = s.number("momentum", 0.9);
    const std::string current[] = {parts.mean, parts.variance};
    for (int i = 0; i < 2; ++i) {
        const std::string now = s.reshape(current[i], {s.shape()[1]});
        const std::string kept = s.add("Mul", {s.x(static_cast<std::size_t>(3 + i)), s.scalar(momentum)});
        s.add("Add", {kept, s.add("Mul", {now, s.scalar(1 - momentum)})});
        s.nameOutput(1 + i);
    }
}

void meanVariance(Steps &s)
{
    const Centred parts = centred(s, s.integers("axes", {0, 2, 3}));
    constexpr double kEpsilon = 1e-9;
    s.add("Div", {parts.difference, s.add("Add", {s.add("Sqrt", {parts.variance}), s.scalar(kEpsilon)})});
    s.nameOutput();
}

/// Sums over neighbouring channels are averages that count the padding, times the size, which `alpha` is divided by.
void localResponse(Steps &s)
{
    const std::int64_t size = s.integer("size", 1);
    if (s.rank() < 3 || size < 1)
        return;
    Dim area;
    for (std::size_t i = 2; i < s.shape().rank(); ++i)
        area.size *= s.shape()[i].size;
    const std::string squares = s.reshape(s.add("Mul", {s.x(), s.x()}), {s.shape()[0], Dim{}, s.shape()[1], area});
    const std::string pooled = s.add("AveragePool", {squares},
                                     {{"kernel_shape", Ints{size, 1}},
                                      {"pads", Ints{(size - 1) / 2, 0, size / 2, 0}},
                                      {"count_include_pad", std::int64_t{1}}});
    const std::string back = s.reshape(pooled, s.shape().dims());
    const std::string sum =
        s.add("Add", {s.add("Mul", {back, s.scalar(s.number("alpha", 1e-4))}), s.scalar(s.number("bias", 1))});
    s.add("Div", {s.x(), s.add("Pow", {sum, s.scalar(s.number("beta", 0.75))})});
    s.nameOutput();
}

void lpPool(Steps &s)
{
    double taps = 1;
    for (const std::int64_t size : s.integers("kernel_shape"))
        taps *= static_cast<double>(size);
    const auto p = static_cast<double>(s.integer("p", 2));
    const std::string powers = s.add("Pow", {s.add("Abs", {s.x()}), s.scalar(p)});
    std::string pooled = s.add("AveragePool", {powers}, {{"count_include_pad", std::int64_t{1}}});
    s.copyAttributes("p");
    pooled = s.add("Mul", {pooled, s.scalar(taps)});
    s.add("Pow", {pooled, s.scalar(1 / p)});
    s.nameOutput();
}

/// Bytes go through floats, which hold all of them.
void maxPool(Steps &s)
{
    const DType type = s.typeOf();
    if ((type != DType::U8 && type != DType::I8) || s.makes(1))
        return;
    const std::string wide = s.add("Cast", {s.x()}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
    const std::string pooled = s.add("MaxPool", {wide});
    s.copyAttributes();
    s.add("Cast", {pooled}, {{"to", std::int64_t{onnxType(type)}}});
    s.nameOutput();
}

/// -x[label], times the label's weight where there are any; ignored labels weigh nothing.
void negativeLogLikelihood(Steps &s)
{
    if (!s.given(1) || s.rank() < 2)
        return;
    const std::string label = s.add("Cast", {s.x(1)}, {{"to", std::int64_t{onnx::TensorProto::INT64}}});
    const bool ignores = s.attribute("ignore_index") != nullptr;
    std::string safe = label;
    std::string weight;
    std::string counts;
    if (ignores) {
        const std::string ignored =
            s.add("Equal", {label, s.constant(DType::I64, {}, {static_cast<double>(s.integer("ignore_index", 0))})});
        counts = s.add("Cast", {s.add("Not", {ignored})}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
        safe = s.add("Where", {ignored, s.constant(DType::I64, {}, {0}), label});
    }
    if (s.given(2))
        weight = s.add("Gather", {s.x(2), safe}, {{"axis", std::int64_t{0}}});
    if (ignores)
        weight = weight.empty() ? counts : s.add("Mul", {weight, counts});
    const std::string row = s.add("Unsqueeze", {safe}, {{"axes", Ints{1}}});
    const std::string picked =
        s.add("Squeeze", {s.add("GatherElements", {s.x(), row}, {{"axis", std::int64_t{1}}})}, {{"axes", Ints{1}}});
    std::string loss = s.add("Neg", {picked});
    if (!weight.empty())
        loss = s.add("Mul", {loss, weight});
    const std::string reduction = s.text("reduction", "mean");
    const std::map<std::string, graph::Attribute> all{{"keepdims", std::int64_t{0}}};
    if (reduction == "sum")
        s.add("ReduceSum", {loss}, all);
    else if (reduction == "mean" && weight.empty())
        s.add("ReduceMean", {loss}, all);
    else if (reduction == "mean")
        s.add("Div", {s.add("ReduceSum", {loss}, all), s.add("ReduceSum", {weight}, all)});
    s.nameOutput();
}

/// Classes in the last axis and all else in rows, for the fused operator.
void crossEntropyOfRows(Steps &s)
{
    const std::vector<Dim> &dims = s.shape().dims();
    Ints order{0};
    Dim rows = dims[0];
    for (std::size_t i = 2; i < dims.size(); ++i) {
        order.push_back(static_cast<std::int64_t>(i));
        rows.size *= dims[i].size;
    }
    order.push_back(1);
    const std::string logits = s.reshape(s.add("Transpose", {s.x()}, {{"perm", order}}), {rows, dims[1]});
    s.add("SoftmaxCrossEntropyLoss", {logits, s.reshape(s.x(1), {rows})});
    s.copyAttributes();
    s.nameOutput();
}

/// Cases that the fused operator does not cover as they are.
void crossEntropy(Steps &s)
{
    const bool fused = s.inputs() == 2 && s.text("reduction", "mean") == "mean" && !s.makes(1) && s.given(1)
        && s.typeOf(1) == DType::I64;
    if ((fused && s.rank() == 2) || !s.given(1) || s.rank() < 2)
        return;
    if (fused && s.typeOf() == DType::F32 && s.rank(1) == s.rank() - 1)
        return crossEntropyOfRows(s);
    std::string logarithms;
    if (s.opset() >= 13 || s.rank() == 2) {
        logarithms = s.add("LogSoftmax", {s.x()}, {{"axis", std::int64_t{1}}});
    } else { // before, only the last axis was normalised alone
        Ints there{0};
        for (std::int64_t i = 2; i < s.rank(); ++i)
            there.push_back(i);
        there.push_back(1);
        Ints back{0, s.rank() - 1};
        for (std::int64_t i = 1; i + 1 < s.rank(); ++i)
            back.push_back(i);
        const std::string moved =
            s.add("LogSoftmax", {s.add("Transpose", {s.x()}, {{"perm", there}})}, {{"axis", s.rank() - 1}});
        logarithms = s.add("Transpose", {moved}, {{"perm", back}});
    }
    logarithms = s.nameOutput(1);
    Names inputs{logarithms, s.x(1)};
    if (s.given(2))
        inputs.push_back(s.x(2));
    s.add("NegativeLogLikelihoodLoss", inputs);
    s.copyAttributes();
    s.nameOutput();
}

/// Spatial sizes of a transposed convolution's result, and its pads.
struct Grown {
    Ints sizes, pads;
};

Grown grow(const Steps &s, const Ints &kernel, const Ints &strides, const Ints &dilations)
{
    const std::size_t n = kernel.size();
    const Ints extra = s.integers("output_padding", Ints(n, 0));
    const std::string mode = s.text("auto_pad", "NOTSET");
    Ints wanted = s.integers("output_shape");
    if (wanted.size() > n)
        wanted.erase(wanted.begin(), wanted.end() - static_cast<std::ptrdiff_t>(n));
    Grown grown{Ints(n), s.integers("pads", Ints(2 * n, 0))};
    for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t in = s.shape()[i + 2].size;
        const std::int64_t whole = strides[i] * (in - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1;
        const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
        if (wanted.empty() && !same) {
            grown.sizes[i] = whole - grown.pads[i] - grown.pads[i + n];
            continue;
        }
        grown.sizes[i] = wanted.empty() ? in * strides[i] : wanted[i];
        const std::int64_t total = std::max<std::int64_t>(0, whole - grown.sizes[i]);
        grown.pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
        grown.pads[i + n] = total - grown.pads[i];
    }
    return grown;
}

/// Sizes and pads written out, and the bias on its own.
void convTranspose(Steps &s)
{
    if (s.attribute("shape") || !s.given(1) || s.rank() < 3 || s.rank(1) != s.rank())
        return;
    Ints kernel;
    for (std::size_t i = 2; i < s.shape(1).rank(); ++i)
        kernel.push_back(s.shape(1)[i].size);
    const std::size_t n = kernel.size();
    const Ints strides = s.integers("strides", Ints(n, 1));
    const Ints dilations = s.integers("dilations", Ints(n, 1));
    const std::int64_t group = s.integer("group", 1);
    if (strides.size() != n || dilations.size() != n || s.integers("pads", Ints(2 * n, 0)).size() != 2 * n
        || s.integers("output_padding", Ints(n, 0)).size() != n)
        return;
    constexpr std::int64_t kMost = 1 << 16;
    for (const char *key : {"strides", "dilations", "pads", "output_padding", "output_shape"})
        for (const std::int64_t value : s.integers(key))
            if (value < 0 || value > kMost)
                return;
    if (group < 1 || group > kMost || s.integers("output_shape", Ints(n)).size() < n)
        return;
    const Grown grown = grow(s, kernel, strides, dilations);
    Ints shape{s.shape()[0].size, s.shape(1)[1].size * group};
    shape.insert(shape.end(), grown.sizes.begin(), grown.sizes.end());
    const std::string y = s.add("ConvTranspose", {s.x(), s.x(1)},
                                {{"kernel_shape", kernel},
                                 {"strides", strides},
                                 {"dilations", dilations},
                                 {"pads", grown.pads},
                                 {"group", group},
                                 {"shape", shape},
                                 {"batch_axis", std::int64_t{s.shape()[0].batch ? 0 : -1}}});
    if (s.given(2))
        s.add("Add", {y, perChannel(s, 2)});
    s.nameOutput();
}

} // namespace

const std::map<std::string, StepRule, std::less<>> &layerRules()
{
    static const std::map<std::string, StepRule, std::less<>> table = {
        {"InstanceNormalization", instanceNormalization},
        {"BatchNormalization", expandBatchNormalization},
        {"MeanVarianceNormalization", meanVariance},
        {"LRN", localResponse},
        {"LpPool", lpPool},
        {"MaxPool", maxPool},
        {"NegativeLogLikelihoodLoss", negativeLogLikelihood},
        {"SoftmaxCrossEntropyLoss", crossEntropy},
        {"ConvTranspose", convTranspose},
        {"Resize", resize},
        {"Upsample", resize},
        {"Einsum", einsum},
    };
    return table;
}

} // namespace planloom::import

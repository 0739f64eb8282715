// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/expand.h"

#include "engine/import/onnx/steps.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

namespace planloom::import {
namespace {

using graph::DType;
using Ints = std::vector<std::int64_t>;

/// Two at a time: numpy's broadcasting makes the shape grow on the way.
void chain(Steps &s, const std::string &type)
{
    std::string all = s.x();
    for (std::size_t i = 1; i < s.inputs(); ++i)
        all = s.add(type, {all, s.x(i)});
}

void extreme(Steps &s)
{
    if (s.inputs() == 1)
        s.add("Identity", {s.x()});
    else if (s.inputs() > 2)
        chain(s, s.node().op_type());
}

void expandSum(Steps &s)
{
    bool alike = true;
    for (std::size_t i = 1; i < s.inputs(); ++i)
        alike = alike && s.given(i) && s.shape(i) == s.shape();
    if (!alike && s.inputs() > 2)
        chain(s, "Add");
}

void mean(Steps &s)
{
    if (s.inputs() == 1) {
        s.add("Identity", {s.x()});
        return;
    }
    std::string all = s.x();
    for (std::size_t i = 1; i < s.inputs(); ++i)
        all = s.add("Add", {all, s.x(i)});
    s.add("Div", {all, s.scalar(static_cast<double>(s.inputs()))});
}

void softsign(Steps &s) { s.add("Div", {s.x(), s.add("Add", {s.add("Abs", {s.x()}), s.scalar(1)})}); }

void tangent(Steps &s)
{
    const std::string sine = s.add("Sin", {s.x()});
    s.add("Div", {sine, s.add("Cos", {s.x()})});
}

void selu(Steps &s)
{
    const bool first = s.opset() < 6;
    const std::string elu =
        s.add("Elu", {s.x()}, {{"alpha", s.number("alpha", first ? 1.6732 : 1.67326319217681884765625)}});
    s.add("Mul", {elu, s.scalar(s.number("gamma", first ? 1.0507 : 1.05070102214813232421875))});
}

void thresholdedRelu(Steps &s)
{
    const std::string above = s.add("Greater", {s.x(), s.scalar(s.number("alpha", 1))});
    s.add("Where", {above, s.x(), s.scalar(0)});
}

void parametricRelu(Steps &s)
{
    if (!s.given(1))
        return;
    std::string slope = s.x(1);
    if (s.opset() < 7 && s.rank(1) == 1 && s.shape(1).elements(1) > 1 && s.rank() > 2) { // one for each channel
        Ints axes;
        for (std::int64_t axis = 1; axis + 1 < s.rank(); ++axis)
            axes.push_back(axis);
        slope = s.add("Unsqueeze", {slope}, {{"axes", axes}});
    }
    const std::string below = s.add("Less", {s.x(), s.scalar(0)});
    s.add("Where", {below, s.add("Mul", {s.x(), slope}), s.x()});
}

void reduceAbsolute(Steps &s) { s.reduce("ReduceSum", s.add("Abs", {s.x()}), s.integer("keepdims", 1)); }
void reduceSquares(Steps &s) { s.reduce("ReduceSum", s.add("Mul", {s.x(), s.x()}), s.integer("keepdims", 1)); }
void reduceLength(Steps &s)
{
    s.add("Sqrt", {s.reduce("ReduceSum", s.add("Mul", {s.x(), s.x()}), s.integer("keepdims", 1))});
}
void reduceLog(Steps &s) { s.add("Log", {s.reduce("ReduceSum", s.x(), s.integer("keepdims", 1))}); }

/// The largest is taken out first, so that no exponential overflows; an infinite one would leave nothing to subtract
/// from.
void reduceLogOfExponentials(Steps &s)
{
    constexpr double kLargest = std::numeric_limits<float>::max();
    const auto limited = [&](std::int64_t keep) {
        return s.add("Clip", {s.reduce("ReduceMax", s.x(), keep), s.scalar(-kLargest), s.scalar(kLargest)});
    };
    const std::int64_t keep = s.integer("keepdims", 1);
    const std::string exponentials = s.add("Exp", {s.add("Sub", {s.x(), limited(1)})});
    const std::string logarithm = s.add("Log", {s.reduce("ReduceSum", exponentials, keep)});
    s.add("Add", {logarithm, limited(keep)});
}

constexpr std::int64_t kLargestBlock = 1 << 10;

/// [N, C, H, W] cut by blocks: reshaped, transposed, reshaped.
void blocks(Steps &s, const Ints &cut, const Ints &order, const Ints &joined)
{
    s.add("Reshape", {s.add("Transpose", {s.add("Reshape", {s.x()}, {{"shape", cut}})}, {{"perm", order}})},
          {{"shape", joined}});
}

void depthToSpace(Steps &s)
{
    const std::int64_t block = s.integer("blocksize", 0);
    if (s.rank() != 4 || block < 1 || block > kLargestBlock || s.shape()[1].size % (block * block) != 0)
        return;
    const std::int64_t channels = s.shape()[1].size / (block * block);
    const std::int64_t height = s.shape()[2].size;
    const std::int64_t width = s.shape()[3].size;
    const auto *mode = s.attribute("mode");
    const Ints joined{0, channels, height * block, width * block};
    if (mode && mode->s() == "CRD")
        blocks(s, {0, channels, block, block, height, width}, {0, 1, 4, 2, 5, 3}, joined);
    else
        blocks(s, {0, block, block, channels, height, width}, {0, 3, 4, 1, 5, 2}, joined);
}

void spaceToDepth(Steps &s)
{
    const std::int64_t block = s.integer("blocksize", 0);
    if (s.rank() != 4 || block < 1 || block > kLargestBlock || s.shape()[2].size % block != 0
        || s.shape()[3].size % block != 0)
        return;
    const std::int64_t channels = s.shape()[1].size;
    const std::int64_t height = s.shape()[2].size / block;
    const std::int64_t width = s.shape()[3].size / block;
    blocks(s, {0, channels, height, block, width, block}, {0, 3, 5, 1, 2, 4},
           {0, channels * block * block, height, width});
}

/// Before opset 13 everything from `axis` on was one dimension.
void expandSoftmax(Steps &s)
{
    std::int64_t axis = s.integer("axis", 1);
    axis += axis < 0 ? s.rank() : 0;
    if (s.opset() >= 13 || axis < 0 || axis >= s.rank() - 1)
        return;
    Ints shape;
    std::int64_t batchAxis = -1;
    for (std::int64_t i = 0; i < s.rank(); ++i) {
        const graph::Dim &dim = s.shape()[static_cast<std::size_t>(i)];
        batchAxis = dim.batch ? i : batchAxis;
        shape.push_back(dim.size);
    }
    const std::string flat = s.add("Flatten", {s.x()}, {{"axis", axis}});
    s.add("Reshape", {s.add(s.node().op_type(), {flat}, {{"axis", std::int64_t{1}}})},
          {{"shape", shape}, {"batch_axis", batchAxis}});
}

/// Before opset 7 the second operand could be lined up at any dimension of the first.
void lineUp(Steps &s)
{
    if (s.opset() >= 7 || !s.attribute("axis") || !s.given(1))
        return;
    std::int64_t axis = s.integer("axis", 0);
    axis += axis < 0 ? s.rank() : 0;
    if (axis < 0 || axis > s.rank())
        return;
    Ints missing;
    for (std::int64_t i = axis + s.rank(1); i < s.rank(); ++i)
        missing.push_back(i - axis);
    if (!missing.empty())
        s.add(s.node().op_type(), {s.x(), s.add("Unsqueeze", {s.x(1)}, {{"axes", missing}})});
}

const std::map<std::string, StepRule, std::less<>> &stepRules()
{
    static const std::map<std::string, StepRule, std::less<>> table = {
        {"Max", extreme},
        {"Min", extreme},
        {"Sum", expandSum},
        {"Mean", mean},
        {"Softsign", softsign},
        {"Tan", tangent},
        {"Selu", selu},
        {"ThresholdedRelu", thresholdedRelu},
        {"PRelu", parametricRelu},
        {"ReduceL1", reduceAbsolute},
        {"ReduceL2", reduceLength},
        {"ReduceSumSquare", reduceSquares},
        {"ReduceLogSum", reduceLog},
        {"ReduceLogSumExp", reduceLogOfExponentials},
        {"DepthToSpace", depthToSpace},
        {"SpaceToDepth", spaceToDepth},
        {"Softmax", expandSoftmax},
        {"LogSoftmax", expandSoftmax},
        {"Add", lineUp},
        {"Sub", lineUp},
        {"Mul", lineUp},
        {"Div", lineUp},
        {"Pow", lineUp},
        {"And", lineUp},
        {"Or", lineUp},
        {"Xor", lineUp},
        {"Equal", lineUp},
        {"Greater", lineUp},
        {"Less", lineUp},
    };
    return table;
}

/// Whether sizes computed from an input's shape could overflow; the checks of the graph refuse such a tensor.
bool isHuge(const NodeInput &input)
{
    std::int64_t elements = 1;
    constexpr std::int64_t kMost = std::int64_t{1} << 48U;
    for (std::size_t i = 0; input.info && i < input.info->shape.rank(); ++i)
        if (__builtin_mul_overflow(elements, std::max<std::int64_t>(1, input.info->shape[i].size), &elements)
            || elements > kMost)
            return true;
    return false;
}

} // namespace

std::vector<onnx::NodeProto> expandNode(const onnx::NodeProto &node, const std::vector<NodeInput> &inputs,
                                        const Reading &reading)
{
    if (std::any_of(inputs.begin(), inputs.end(), isHuge))
        return {};
    const bool own = node.domain().empty() || node.domain() == "ai.onnx";
    if (!own || inputs.empty() || !inputs[0].info || node.output_size() == 0)
        return {};
    if (const auto layer = layerRules().find(node.op_type()); layer != layerRules().end()) {
        Steps steps(node, inputs, reading);
        layer->second(steps);
        return steps.takeNamed();
    }
    const auto rule = stepRules().find(node.op_type());
    if (rule == stepRules().end() || node.output_size() != 1 || node.output(0).empty())
        return {};
    Steps steps(node, inputs, reading);
    rule->second(steps);
    return steps.take();
}

} // namespace planloom::import

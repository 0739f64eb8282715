// SPDX-License-Identifier: Apache-2.0
// Operators that work element by element, with numpy's broadcasting, and their gradients.
#include "engine/graph/operators/families.h"

namespace planloom::graph {
namespace {

Result<Infos> inferBinary(const OpView &view)
{
    if (view.inputs[0]->type != view.inputs[1]->type)
        return badInput(std::string("types ") + name(view.inputs[0]->type) + " and " + name(view.inputs[1]->type)
                        + " differ; insert a Cast");
    Result<Shape> shape = broadcast(view.inputs[0]->shape, view.inputs[1]->shape);
    if (!shape)
        return shape.error();
    return Infos{{view.inputs[0]->type, std::move(*shape)}};
}

Result<Infos> inferPow(const OpView &view)
{
    Result<Shape> shape = broadcast(view.inputs[0]->shape, view.inputs[1]->shape);
    if (!shape)
        return shape.error();
    return Infos{{view.inputs[0]->type, std::move(*shape)}};
}

Result<Infos> inferComparison(const OpView &view)
{
    Result<Infos> infos = inferBinary(view);
    if (infos)
        infos->front().type = DType::Bool;
    return infos;
}

Result<Infos> inferNot(const OpView &view) { return Infos{{DType::Bool, view.inputs[0]->shape}}; }

Result<Infos> inferWhere(const OpView &view)
{
    if (view.inputs[1]->type != view.inputs[2]->type)
        return badInput("the two values have different types; insert a Cast");
    const Result<Shape> values = broadcast(view.inputs[1]->shape, view.inputs[2]->shape);
    if (!values)
        return values.error();
    Result<Shape> shape = broadcast(view.inputs[0]->shape, *values);
    if (!shape)
        return shape.error();
    return Infos{{view.inputs[1]->type, std::move(*shape)}};
}

Result<Infos> inferCast(const OpView &view)
{
    DType type{};
    const std::string to = view.op.text("to");
    if (!fromName(to, type))
        return badInput("attribute 'to' is '" + to + "'; a data type such as float32 is expected");
    return Infos{{type, view.inputs[0]->shape}};
}

Result<Infos> inferDropout(const OpView &view)
{
    Infos infos{{view.inputs[0]->type, view.inputs[0]->shape}};
    if (view.op.outputs.size() > 1)
        infos.push_back({DType::Bool, view.inputs[0]->shape});
    return infos;
}

Result<Infos> inferSameShapes(const OpView &view)
{
    for (const Tensor *input : view.inputs)
        if (!input || input->shape != view.inputs[0]->shape)
            return badInput("all inputs must have one shape");
    return likeFirst(view);
}

Result<Infos> inferReduceSumTo(const OpView &view)
{
    Result<Shape> shape = shapeOfAttributes(view.op);
    if (!shape)
        return shape.error();
    const Result<Shape> back = broadcast(*shape, view.inputs[0]->shape);
    if (!back || *back != view.inputs[0]->shape)
        return badInput("shape " + view.inputs[0]->shape.text() + " is no broadcast of " + shape->text());
    return Infos{{sumType(view.inputs[0]->type), std::move(*shape)}};
}

Result<Infos> inferMinMaxGrad(const OpView &view)
{
    const std::string which = view.op.text("op");
    if (which != "Min" && which != "Max")
        return badInput("attribute 'op' is '" + which + "'; Min or Max is expected");
    return likeFirst(view);
}

void addGrad(Backward &b)
{
    for (std::size_t i = 0; i < 2; ++i)
        if (b.wants(i))
            b.give(i, b.sumTo(i, b.dy()));
}

/// Of any number of tensors.
void sumGrad(Backward &b)
{
    for (std::size_t i = 0; i < b.op().inputs.size(); ++i)
        if (b.wants(i))
            b.give(i, b.dy());
}

void subGrad(Backward &b)
{
    if (b.wants(0))
        b.give(0, b.sumTo(0, b.dy()));
    if (b.wants(1))
        b.give(1, b.emit("Neg", {b.sumTo(1, b.dy())}));
}

void mulGrad(Backward &b)
{
    for (std::size_t i = 0; i < 2; ++i)
        if (b.wants(i))
            b.give(i, b.sumTo(i, b.emit("Mul", {b.dy(), b.x(1 - i)})));
}

/// y = a / b: da = dy / b, db = -dy * y / b.
void divGrad(Backward &b)
{
    if (b.wants(0))
        b.give(0, b.sumTo(0, b.emit("Div", {b.dy(), b.x(1)})));
    if (b.wants(1)) {
        const TensorId ratio = b.emit("Div", {b.emit("Mul", {b.dy(), b.y()}), b.x(1)});
        b.give(1, b.emit("Neg", {b.sumTo(1, ratio)}));
    }
}

/// y = a^e: da = dy * e * a^(e - 1), de = dy * y * log a.
void powGrad(Backward &b)
{
    if (b.input(1).type != DType::F32) {
        b.refuse("its exponent is not float32; cast it");
        return;
    }
    if (b.wants(0)) {
        const TensorId lower = b.emit("Pow", {b.x(0), b.emit("Sub", {b.x(1), b.scalar(1)})});
        b.give(0, b.sumTo(0, b.emit("Mul", {b.dy(), b.emit("Mul", {lower, b.x(1)})})));
    }
    if (b.wants(1))
        b.give(1, b.sumTo(1, b.emit("Mul", {b.emit("Mul", {b.dy(), b.y()}), b.emit("Log", {b.x(0)})})));
}

void minMaxGrad(Backward &b)
{
    for (std::size_t i = 0; i < 2; ++i)
        if (b.wants(i))
            b.give(i,
                   b.sumTo(i,
                           b.emit("MinMaxGrad", {b.dy(), b.x(0), b.x(1)},
                                  {{"op", b.op().type}, {"which", static_cast<std::int64_t>(i)}})));
}

void whereGrad(Backward &b)
{
    if (b.wants(1))
        b.give(1, b.sumTo(1, b.emit("Where", {b.x(0), b.dy(), b.scalar(0)})));
    if (b.wants(2))
        b.give(2, b.sumTo(2, b.emit("Where", {b.x(0), b.scalar(0), b.dy()})));
}

void passOn(Backward &b) { b.give(0, b.dy()); }

void dropoutGrad(Backward &b)
{
    const double ratio = b.op().number("ratio", 0);
    const bool drops = ratio > 0; // the mask is drawn again, under the forward operator's name
    b.give(0, drops ? b.emit("DropoutGrad", {b.dy()}, {{"ratio", ratio}, {"key", b.op().name}}) : b.dy());
}

void castGrad(Backward &b) { b.give(0, b.emit("Cast", {b.dy()}, {{"to", std::string(name(b.input(0).type))}})); }

void negGrad(Backward &b) { b.give(0, b.emit("Neg", {b.dy()})); }

/// y = 1 / x: dx = -dy * y * y.
void reciprocalGrad(Backward &b) { b.give(0, b.emit("Neg", {b.emit("Mul", {b.emit("Mul", {b.dy(), b.y()}), b.y()})})); }

void expGrad(Backward &b) { b.give(0, b.emit("Mul", {b.dy(), b.y()})); }

void logGrad(Backward &b) { b.give(0, b.emit("Div", {b.dy(), b.x()})); }

TensorId squared(Backward &b) { return b.emit("Mul", {b.x(), b.x()}); }

/// dx = sign * dy / sqrt(@p inner).
void overRoot(Backward &b, TensorId inner, bool negative)
{
    const TensorId gradient = b.emit("Div", {b.dy(), b.emit("Sqrt", {inner})});
    b.give(0, negative ? b.emit("Neg", {gradient}) : gradient);
}

void asinGrad(Backward &b) { overRoot(b, b.emit("Sub", {b.scalar(1), squared(b)}), false); }
void acosGrad(Backward &b) { overRoot(b, b.emit("Sub", {b.scalar(1), squared(b)}), true); }
void asinhGrad(Backward &b) { overRoot(b, b.emit("Add", {squared(b), b.scalar(1)}), false); }
void acoshGrad(Backward &b) { overRoot(b, b.emit("Sub", {squared(b), b.scalar(1)}), false); }
void atanGrad(Backward &b) { b.give(0, b.emit("Div", {b.dy(), b.emit("Add", {squared(b), b.scalar(1)})})); }
void atanhGrad(Backward &b) { b.give(0, b.emit("Div", {b.dy(), b.emit("Sub", {b.scalar(1), squared(b)})})); }
void sinhGrad(Backward &b) { b.give(0, b.emit("Mul", {b.dy(), b.emit("Cosh", {b.x()})})); }
void coshGrad(Backward &b) { b.give(0, b.emit("Mul", {b.dy(), b.emit("Sinh", {b.x()})})); }

/// a - b * floor(a / b), of which the second factor is taken as fixed.
void modGrad(Backward &b) { b.give(0, b.sumTo(0, b.dy())); }

/// A function of one tensor, with its gradient.
Operator unary(const char *type, double flops, void (*gradient)(Backward &), OpTraits more = {})
{
    more.cost = CostClass::MemoryBound;
    more.elementWise = ElementWise::Computes;
    return {
        .type = type, .infer = likeFirst, .flops = perOutput(flops), .gradient = gradientBy(gradient), .traits = more};
}

/// TYPEGrad(dy, x or y).
Operator unaryGradient(const char *type, double flops, OpTraits more = {})
{
    more.cost = CostClass::MemoryBound;
    more.origin = Origin::Gradient;
    more.elementWise = ElementWise::Computes;
    more.linear = Linear::InFirst;
    return {.type = type, .inputs = {2, 2}, .infer = inferSameShapes, .flops = perOutput(flops), .traits = more};
}

Operator arithmetic(const char *type, void (*gradient)(Backward &), OpTraits more = {})
{
    more.cost = CostClass::MemoryBound;
    more.elementWise = ElementWise::Computes;
    return {.type = type,
            .inputs = {2, 2},
            .infer = inferBinary,
            .flops = perOutput(1),
            .gradient = gradientBy(gradient),
            .traits = more};
}

/// Rounding and signs: the gradient is zero wherever there is one.
Operator step(const char *type)
{
    Operator row = unary(type, 1, nullptr);
    row.gradient = kNoGradient;
    return row;
}

Operator comparison(const char *type)
{
    Operator row = arithmetic(type, nullptr);
    row.infer = inferComparison;
    row.gradient = kNoGradient;
    return row;
}

constexpr OpTraits kHalfWidth{.precision = kHalf};
constexpr OpTraits kBlocks{.blocked = Blocked::Follows};
constexpr OpTraits kHalfBlocks{.precision = kHalf, .blocked = Blocked::Follows};
constexpr OpTraits kMoves{.cost = CostClass::MemoryBound, .elementWise = ElementWise::Moves};

/// An operator of one tensor comes with its gradient's, where that is a separate one.
void addUnaries(std::vector<Operator> &rows)
{
    rows.insert(rows.end(),
                {
                    unary("Relu", 1, gradientFromOutput, kHalfBlocks),
                    unaryGradient("ReluGrad", 2, kHalfBlocks),
                    unary("Tanh", kTranscendental, gradientFromOutput, kHalfWidth),
                    unaryGradient("TanhGrad", 2, kHalfWidth),
                    unary("Sigmoid", kTranscendental, gradientFromOutput, kHalfBlocks),
                    unaryGradient("SigmoidGrad", 2, kHalfBlocks),
                    unary("Gelu", kTranscendental, gradientFromInput, kHalfWidth),
                    unaryGradient("GeluGrad", kTranscendental, kHalfWidth),
                    unary("Silu", kTranscendental, gradientFromInput, kHalfBlocks),
                    unaryGradient("SiluGrad", kTranscendental, kHalfBlocks),
                    unary("Mish", 2 * kTranscendental, gradientFromInput, kHalfBlocks),
                    unaryGradient("MishGrad", 2 * kTranscendental, kHalfBlocks),
                    unary("LeakyRelu", 1, gradientFromInput, kBlocks),
                    unaryGradient("LeakyReluGrad", 2, kBlocks),
                    unary("HardSwish", 1, gradientFromInput, kBlocks),
                    unaryGradient("HardSwishGrad", 2, kBlocks),
                    unary("Clip", 1, gradientFromInput, kBlocks),
                    unaryGradient("ClipGrad", 2, kBlocks),
                    unary("Elu", kTranscendental, gradientFromInput),
                    unaryGradient("EluGrad", kTranscendental),
                    unary("Softplus", kTranscendental, gradientFromInput),
                    unaryGradient("SoftplusGrad", kTranscendental),
                    unary("HardSigmoid", 1, gradientFromInput),
                    unaryGradient("HardSigmoidGrad", 2),
                    unary("Erf", kTranscendental, gradientFromInput),
                    unaryGradient("ErfGrad", kTranscendental),
                    unary("Abs", 1, gradientFromInput),
                    unaryGradient("AbsGrad", 2),
                    unary("Sqrt", kTranscendental, gradientFromOutput),
                    unaryGradient("SqrtGrad", 2),
                    unary("Sin", kTranscendental, gradientFromInput),
                    unaryGradient("SinGrad", kTranscendental),
                    unary("Cos", kTranscendental, gradientFromInput),
                    unaryGradient("CosGrad", kTranscendental),
                    unary("Exp", kTranscendental, expGrad),
                    unary("Log", kTranscendental, logGrad),
                    unary("Reciprocal", 1, reciprocalGrad),
                    unary("Neg", 1, negGrad, {.linear = Linear::InAll}),
                    unary("Asin", kTranscendental, asinGrad),
                    unary("Acos", kTranscendental, acosGrad),
                    unary("Atan", kTranscendental, atanGrad),
                    unary("Asinh", kTranscendental, asinhGrad),
                    unary("Acosh", kTranscendental, acoshGrad),
                    unary("Atanh", kTranscendental, atanhGrad),
                    unary("Sinh", kTranscendental, sinhGrad),
                    unary("Cosh", kTranscendental, coshGrad),
                    step("Floor"),
                    step("Ceil"),
                    step("Round"),
                    step("Sign"),
                });
}

void addArithmetic(std::vector<Operator> &rows)
{
    OpTraits sums{.linear = Linear::InAll, .precision = kHalf};
    rows.push_back(arithmetic("Sub", subGrad, sums));
    sums.blocked = Blocked::Follows;
    rows.push_back(arithmetic("Add", addGrad, sums));
    rows.push_back(arithmetic("Mul", mulGrad, kHalfWidth));
    rows.push_back(arithmetic("Div", divGrad, {.linear = Linear::InFirst}));
    rows.push_back(arithmetic("Min", minMaxGrad));
    rows.push_back(arithmetic("Max", minMaxGrad));
    rows.push_back(arithmetic("Mod", modGrad));
    rows.back().gradient.inputs = 1U;
    rows.push_back(arithmetic("Pow", powGrad));
    rows.back().infer = inferPow;
    rows.back().flops = perOutput(kTranscendental);
    for (const char *type : {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor"})
        rows.push_back(comparison(type));
    rows.push_back(step("Not"));
    rows.back().infer = inferNot;
}

} // namespace

std::vector<Operator> elementwiseOperators()
{
    OpTraits same = kMoves;
    same.linear = Linear::InAll;
    OpTraits identity = same;
    identity.storage = Storage::View;
    identity.cost = CostClass::View;
    identity.precision = kHalf;
    identity.blocked = Blocked::Follows;
    OpTraits drops = kMoves;
    drops.random = true;
    drops.blocked = Blocked::Follows;
    OpTraits dropsAgain = kMoves;
    dropsAgain.origin = Origin::Gradient;
    dropsAgain.random = true;
    OpTraits extremes = kGradientPass;
    extremes.elementWise = ElementWise::Computes;
    extremes.linear = Linear::InFirst;
    OpTraits sum = kMemoryBound;
    sum.elementWise = ElementWise::Computes;
    sum.linear = Linear::InAll;
    sum.precision = {"+", "+"};
    sum.blocked = Blocked::Follows;
    OpTraits sumTo = kGradientPass;
    sumTo.precision = {"-", "f"};
    std::vector<Operator> rows{
        {.type = "Where",
         .inputs = {3, 3},
         .infer = inferWhere,
         .flops = perOutput(1),
         .gradient = gradientBy(whereGrad, 6U),
         .traits = kMoves},
        {.type = "Cast", .infer = inferCast, .gradient = gradientBy(castGrad), .traits = same},
        {.type = "Identity", .infer = likeFirst, .gradient = gradientBy(passOn), .traits = identity},
        {.type = "Dropout",
         .inputs = {1, 3},
         .infer = inferDropout,
         .gradient = gradientBy(dropoutGrad, 1U),
         .traits = drops},
        {.type = "DropoutGrad", .infer = likeFirst, .flops = perOutput(2), .traits = dropsAgain},
        {.type = "MinMaxGrad", .inputs = {3, 3}, .infer = inferMinMaxGrad, .flops = perOutput(2), .traits = extremes},
        {.type = "AddN",
         .inputs = {1, -1},
         .infer = inferSameShapes,
         .flops =
             [](const OpView &view, const Infos &outputs, std::int64_t samples) {
                 return static_cast<double>(view.inputs.size() - 1)
                     * static_cast<double>(outputs[0].shape.elements(samples));
             },
         .gradient = gradientBy(sumGrad),
         .traits = sum},
        {.type = "ReduceSumTo", .infer = inferReduceSumTo, .flops = perInput(1), .traits = sumTo},
    };
    addUnaries(rows);
    addArithmetic(rows);
    return rows;
}

} // namespace planloom::graph

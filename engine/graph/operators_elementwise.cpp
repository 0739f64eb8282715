// SPDX-License-Identifier: Apache-2.0
// Operators that work element by element, with numpy's broadcasting, and their gradients.
#include "engine/graph/operators_families.h"

namespace planloom::graph {
namespace {

Result<Infos> inferBinary(const OpView &view)
{
    if (view.inputs[0]->type != view.inputs[1]->type)
        return badInput(std::string("types ") + name(view.inputs[0]->type) + " and " + name(view.inputs[1]->type) + " differ; insert a Cast");
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

Result<Infos> inferNot(const OpView &view)
{
    return Infos{{DType::Bool, view.inputs[0]->shape}};
}

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

} // namespace

std::vector<OpSchema> elementwiseSchemas()
{
    std::vector<OpSchema> rows;
    for (const char *type : {"Add", "Sub", "Mul", "Div", "Min", "Max", "Mod"})
        rows.push_back({type, 2, 2, inferBinary, perOutput(1)});
    rows.push_back({"Pow", 2, 2, inferPow, perOutput(kTranscendental)});
    for (const char *type : {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor"})
        rows.push_back({type, 2, 2, inferComparison, perOutput(1)});
    rows.push_back({"Not", 1, 1, inferNot, perOutput(1)});
    rows.push_back({"Where", 3, 3, inferWhere, perOutput(1)});
    rows.push_back({"Cast", 1, 1, inferCast, noFlops});
    rows.push_back({"Identity", 1, 1, likeFirst, noFlops});
    rows.push_back({"Dropout", 1, 3, inferDropout, noFlops});
    rows.push_back({"DropoutGrad", 1, 1, likeFirst, perOutput(2)});
    for (const char *type : {"Neg", "Abs", "Relu", "Clip", "Floor", "Ceil", "Round", "Sign", "LeakyRelu", "HardSigmoid", "HardSwish", "Reciprocal"})
        rows.push_back({type, 1, 1, likeFirst, perOutput(1)});
    for (const char *type : {"Sqrt", "Exp", "Log", "Erf", "Tanh", "Sigmoid", "Elu", "Softplus", "Gelu", "Silu", "Sin", "Cos", "Acos", "Acosh", "Asin",
                             "Asinh", "Atan", "Atanh", "Cosh", "Sinh"})
        rows.push_back({type, 1, 1, likeFirst, perOutput(kTranscendental)});

    for (const char *type : {"ReluGrad", "TanhGrad", "SigmoidGrad", "SqrtGrad", "AbsGrad", "LeakyReluGrad", "HardSwishGrad", "HardSigmoidGrad", "ClipGrad"})
        rows.push_back({type, 2, 2, inferSameShapes, perOutput(2)});
    for (const char *type : {"GeluGrad", "SiluGrad", "ErfGrad", "EluGrad", "SoftplusGrad", "SinGrad", "CosGrad"})
        rows.push_back({type, 2, 2, inferSameShapes, perOutput(kTranscendental)});
    rows.push_back({"MinMaxGrad", 3, 3, inferMinMaxGrad, perOutput(2)});
    rows.push_back({"AddN", 1, -1, inferSameShapes, [](const OpView &view, const Infos &outputs, std::int64_t samples) {
                        return static_cast<double>(view.inputs.size() - 1) * static_cast<double>(outputs[0].shape.elements(samples));
                    }});
    rows.push_back({"ReduceSumTo", 1, 1, inferReduceSumTo, perInput(1)});
    return rows;
}

} // namespace planloom::graph

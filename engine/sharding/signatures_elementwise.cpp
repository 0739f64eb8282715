// SPDX-License-Identifier: Apache-2.0
// Element-wise operators: any axis of the output can be split; inputs that are repeated along it are whole (OneFlow §2.4, broadcast add/mul/div).
#include "engine/sharding/signature_rules.h"

namespace planloom::sharding {
namespace {

void everyAxis(const OpAtHand &at, Proposals &to)
{
    const graph::Shape &out = at.outputs[0]->shape;
    for (std::size_t axis = 0; axis < out.rank(); ++axis) {
        std::vector<int> inputs;
        for (const graph::Tensor *input : at.inputs)
            inputs.push_back(input ? aligned(input->shape, axis, out) : kAll);
        to.row(std::move(inputs), std::vector<int>(at.outputs.size(), static_cast<int>(axis)));
    }
}

/// Linear in all inputs together: sums of parts are parts of the sum.
void linearInAll(const OpAtHand &at, Proposals &to)
{
    everyAxis(at, to);
    to.linear();
}

/// Linear in the first input, the others given: gradients, and a quotient.
void linearInFirst(const OpAtHand &at, Proposals &to)
{
    everyAxis(at, to);
    to.plainRow({kSum}, {kSum});
}

void product(const OpAtHand &at, Proposals &to)
{
    everyAxis(at, to);
    to.plainRow({kSum, kAll}, {kSum});
    to.plainRow({kAll, kSum}, {kSum});
}

void where(const OpAtHand &at, Proposals &to)
{
    everyAxis(at, to);
    to.plainRow({kAll, kSum, kSum}, {kSum});
}

/// What drops draws its mask by the element's place, forward and backward: both must see the whole tensor.
void dropout(const OpAtHand &at, Proposals &to)
{
    if (at.op.number("ratio", 0) > 0)
        return;
    everyAxis(at, to);
    if (at.outputs.size() == 1)
        to.plainRow({kSum}, {kSum});
}

void sumTo(const OpAtHand &at, Proposals &to)
{
    const graph::Shape &in = at.inputs[0]->shape;
    for (std::size_t axis = 0; axis < in.rank(); ++axis) {
        const int out = aligned(at.outputs[0]->shape, axis, in);
        to.row({static_cast<int>(axis)}, {out == kAll ? kSum : out});
    }
    to.linear();
}

} // namespace

std::vector<SignatureRule> elementwiseRules()
{
    std::vector<SignatureRule> rules;
    for (const char *type : {"Min", "Max", "Pow", "Equal", "Less", "Greater", "And", "Or", "Not", "Abs", "Relu", "Clip", "Floor", "Ceil", "Round", "Sign",
                             "LeakyRelu", "HardSigmoid", "HardSwish", "Reciprocal", "Sqrt", "Exp", "Log", "Erf", "Tanh", "Sigmoid", "Elu", "Softplus", "Gelu",
                             "Silu", "Sin", "Cos", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Xor", "LessOrEqual", "GreaterOrEqual",
                             "Mod"})
        rules.push_back({type, everyAxis});
    for (const char *type : {"Add", "Sub", "AddN", "Neg", "Identity", "Cast"})
        rules.push_back({type, linearInAll});
    for (const char *type : {"Div", "ReluGrad", "TanhGrad", "SigmoidGrad", "SqrtGrad", "AbsGrad", "LeakyReluGrad", "HardSwishGrad", "HardSigmoidGrad", "ClipGrad",
                             "GeluGrad", "SiluGrad", "ErfGrad", "EluGrad", "SoftplusGrad", "SinGrad", "CosGrad", "MinMaxGrad"})
        rules.push_back({type, linearInFirst});
    rules.push_back({"Mul", product});
    rules.push_back({"Where", where});
    rules.push_back({"Dropout", dropout});
    rules.push_back({"DropoutGrad", dropout});
    rules.push_back({"MaskedDropout", everyAxis}); // the mask lies with what it masks
    rules.push_back({"MaskedDropoutGrad", everyAxis});
    rules.push_back({"ReduceSumTo", sumTo, localizeShape});
    return rules;
}

} // namespace planloom::sharding

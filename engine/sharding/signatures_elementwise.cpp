// SPDX-License-Identifier: Apache-2.0
// Element-wise operators: any axis of the output can be split; inputs that are repeated along it are whole (OneFlow
// §2.4, broadcast add/mul/div). Most have no row here: their traits suffice.
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

/// Dropout draws its mask by the element's place, forward and backward: both must see the whole tensor.
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

const SignatureRule *ruleByTraits(const graph::OpTraits &traits)
{
    static constexpr SignatureRule kNonlinear{"", everyAxis};
    static constexpr SignatureRule kInFirst{"", linearInFirst};
    static constexpr SignatureRule kInAll{"", linearInAll};
    if (traits.elementWise == graph::ElementWise::No)
        return nullptr;
    switch (traits.linear) {
    case graph::Linear::InFirst: return &kInFirst;
    case graph::Linear::InAll: return &kInAll;
    case graph::Linear::No: break;
    }
    return &kNonlinear;
}

std::vector<SignatureRule> elementwiseRules()
{
    return {
        {"Mul", product},
        {"Where", where},
        {"Dropout", dropout},
        {"DropoutGrad", dropout},
        {"ReduceSumTo", sumTo, localizeShape},
    };
}

} // namespace planloom::sharding

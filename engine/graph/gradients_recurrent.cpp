// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: one fused gradient operator each, that also takes the gradients of the final states.
#include "engine/graph/gradients.h"

namespace planloom::graph {
namespace {

/// @p states: Y_h and LSTM's Y_c; @p inputs: how many the forward operator may have; @p saved: outputs kept for here.
void recurrentGrad(Backward &b, std::size_t states, std::size_t inputs, std::size_t saved)
{
    const Op &op = b.op();
    const bool batchFirst = op.integer("layout") != 0;
    if (b.input(0).shape[batchFirst ? 1 : 0].batch)
        b.refuse("the batch lies along its time axis; feed samples along the other one");
    if (op.number("clip") > 0 || op.integer("input_forget") != 0)
        b.refuse("clipped and coupled gates are not trained; leave out 'clip' and 'input_forget'");
    std::vector<TensorId> arguments;
    for (std::size_t i = 0; i <= states; ++i)
        arguments.push_back(b.dy(i));
    std::vector<std::size_t> of; // the inputs whose gradients come out
    constexpr std::size_t kLengths = 4;
    for (std::size_t i = 0; i < inputs; ++i) {
        arguments.push_back(b.hasInput(i) ? b.x(i) : TensorId{});
        if (b.hasInput(i) && i != kLengths)
            of.push_back(i);
    }
    arguments.push_back(b.y(0));
    for (std::size_t i = 0; i < saved; ++i)
        arguments.push_back(b.y(1 + states + i));
    const auto gradients = b.emit(op.type + "Grad", std::move(arguments), op.attributes, of.size());
    for (std::size_t k = 0; k < of.size(); ++k)
        if (b.wants(of[k]))
            b.give(of[k], gradients[k]);
}

void lstmGrad(Backward &b)
{
    recurrentGrad(b, 2, 8, 2);
}

void gruGrad(Backward &b)
{
    recurrentGrad(b, 1, 6, 2);
}

void rnnGrad(Backward &b)
{
    recurrentGrad(b, 1, 6, 1);
}

constexpr std::uint32_t kAllButLengths = ~(1U << 4);

} // namespace

std::vector<GradientRule> recurrentGradients()
{
    return {
        {"LSTM", lstmGrad, kAllButLengths, true},
        {"GRU", gruGrad, kAllButLengths, true},
        {"RNN", rnnGrad, kAllButLengths, true},
    };
}

} // namespace planloom::graph

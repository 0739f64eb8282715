// SPDX-License-Identifier: Apache-2.0
#include "engine/update/rule.h"

namespace planloom::update {

namespace {

void writeSgd(Draft &f)
{
    const double momentum = f.setting("momentum");
    const Value gradient = f.gradient() + f.weightDecay() * f.weight();
    const Value direction = momentum == 0 ? gradient : momentum * f.state("momentum_buffer") + gradient;
    if (momentum != 0)
        f.setState("momentum_buffer", direction);
    f.setWeight(f.weight() - f.learningRate() * direction);
}

} // namespace

Rule sgd()
{
    return {.name = "sgd",
            .title = "SGD",
            .about = "stochastic gradient descent, with momentum if it is not 0",
            .learningRate = 3e-4,
            .weightDecay = 0,
            .settings = {{"momentum", 0, {0, true, 1}, "share of the last step's direction that is kept"}},
            .states = {{"momentum_buffer", "moment1", "momentum"}},
            .write = writeSgd};
}

} // namespace planloom::update

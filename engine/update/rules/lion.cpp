// SPDX-License-Identifier: Apache-2.0
#include "engine/update/rule.h"

namespace planloom::update {

namespace {

void writeLion(Draft &f)
{
    const Value g = f.gradient();
    const Value m = f.state("exp_avg");
    const Value direction = sign(movingAverage(f.setting("beta1"), m, g));
    f.setState("exp_avg", movingAverage(f.setting("beta2"), m, g));
    f.setWeight(f.weight() * (1 - f.learningRate() * f.weightDecay()) - f.learningRate() * direction);
}

} // namespace

Rule lion()
{
    return {.name = "lion",
            .title = "Lion",
            .about = "steps by the sign of a mean gradient, one state (Chen et al., 2023, algorithm 2)",
            .learningRate = 1e-4,
            .weightDecay = 0.1,
            .settings = {{"beta1", 0.9, {0, true, 1}, "share of the mean gradient in the direction"},
                         {"beta2", 0.99, {0, true, 1}, "decay of the mean gradient"}},
            .states = {{"exp_avg", {}, {}}},
            .write = writeLion};
}

} // namespace planloom::update

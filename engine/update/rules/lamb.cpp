// SPDX-License-Identifier: Apache-2.0
#include "engine/update/rule.h"

namespace planloom::update {

namespace {

/// Each tensor moves by the learning rate times its own length; phi is the identity. A tensor or a direction of length
/// 0 is not scaled.
void writeLamb(Draft &f)
{
    const double beta1 = f.setting("beta1"), beta2 = f.setting("beta2");
    const Value g = f.gradient();
    const Value m = movingAverage(beta1, f.state("exp_avg"), g);
    const Value v = movingAverage(beta2, f.state("exp_avg_sq"), g * g);
    const Value mean = m * (1 / (1 - power(beta1, f.step())));
    const Value root = squareRoot(v * (1 / (1 - power(beta2, f.step()))));
    const Value direction = mean / (root + f.setting("epsilon")) + f.weightDecay() * f.weight();
    const Value length = norm(f.weight());
    const Value step = norm(direction);
    const Value one = f.constant(1);
    const Value trust = wherePositive(length, wherePositive(step, length / step, one), one);
    f.setState("exp_avg", m);
    f.setState("exp_avg_sq", v);
    f.setWeight(f.weight() - (f.learningRate() * trust) * direction);
}

} // namespace

Rule lamb()
{
    return {.name = "lamb",
            .title = "LAMB",
            .about = "AdamW with a rate for each tensor, for large batches (You et al., 2020, algorithm 2)",
            .learningRate = 1e-3,
            .weightDecay = 0.01,
            .settings = {{"beta1", 0.9, {0, true, 1}, "decay of the mean gradient"},
                         {"beta2", 0.999, {0, true, 1}, "decay of the mean squared gradient"},
                         {"epsilon", 1e-6, {0, false, 1e9}, "added to the root of the mean square"}},
            .states = {{"exp_avg", {}, {}}, {"exp_avg_sq", {}, {}}},
            .write = writeLamb};
}

} // namespace planloom::update

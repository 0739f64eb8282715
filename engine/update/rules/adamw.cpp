// SPDX-License-Identifier: Apache-2.0
#include "engine/update/rule.h"

namespace planloom::update {

namespace {

void writeAdamW(Draft &f)
{
    const double beta1 = f.setting("beta1"), beta2 = f.setting("beta2");
    const Value g = f.gradient();
    const Value m = movingAverage(beta1, f.state("exp_avg"), g);
    const Value v = movingAverage(beta2, f.state("exp_avg_sq"), g * g);
    const Value root = squareRoot(v) * (1 / squareRoot(1 - power(beta2, f.step())));
    const Value rate = f.learningRate() / (1 - power(beta1, f.step()));
    f.setState("exp_avg", m);
    f.setState("exp_avg_sq", v);
    f.setWeight(f.weight() * (1 - f.learningRate() * f.weightDecay()) - rate * m / (root + f.setting("epsilon")));
}

} // namespace

Rule adamw()
{
    return {.name = "adamw",
            .title = "AdamW",
            .about = "Adam with decoupled weight decay (Loshchilov and Hutter, 2019, algorithm 2)",
            .learningRate = 3e-4, // without warm-up 1e-3 makes small transformers spike
            .weightDecay = 0.01,
            .settings = {{"beta1", 0.9, {0, true, 1}, "decay of the mean gradient"},
                         {"beta2", 0.999, {0, true, 1}, "decay of the mean squared gradient"},
                         {"epsilon", 1e-8, {0, false, 1e9}, "added to the root of the mean square"}},
            .states = {{"exp_avg", "moment1", {}}, {"exp_avg_sq", "moment2", {}}},
            .write = writeAdamW};
}

} // namespace planloom::update

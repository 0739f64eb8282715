// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/hosted_parameters.h"

#include "engine/plan/validate.h"

#include <fmt/format.h>
#include <string>

namespace planloom::plan {

Status checkHostedParameters(const Plan &plan, std::size_t index)
{
    const Stage &stage = plan.stages[index];
    if (!stage.memory.hostParameters)
        return {};
    const auto refused = [&](const std::string &why) {
        return badInput(stageLabel(plan, index) + " has its parameters on the host (memory.parameters), and " + why
                        + ", or memory.parameters to device");
    };
    if (stage.zero > 0)
        return refused(fmt::format("ZeRO {} cuts what replicas have of them; set memory.zero to 0", stage.zero));
    if (plan.precision != Precision::Float32)
        return refused(fmt::format("operators read copies of them in {}; set precision to {} (in bfloat16 "
                                   "optimizer_state=host has the float32 parameters on the host)",
                                   name(plan.precision), name(Precision::Float32)));
    if (plan.admm || plan.job)
        return refused("the plan trains by ADMM or has a sampled job; plan ordinary steps");
    if (plan.exchange.averages() || plan.exchange.acrossSteps || plan.exchange.hasTables()
        || plan.exchange.policy == ExchangePolicy::ParameterServer)
        return refused("the exchange averages them, updates them in the next step, has rows of them or serves them; "
                       "set exchange.kind to all-reduce");
    if (plan.optimizer.rule.formula().norms > 0)
        return refused(fmt::format("update rule {} takes norms of whole parameters before it updates them; set "
                                   "optimizer.kind to one without norms, such as sgd or adamw",
                                   plan.optimizer.rule.name()));
    return {};
}

} // namespace planloom::plan

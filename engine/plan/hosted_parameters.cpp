// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/hosted_parameters.h"

#include "engine/plan/validate.h"

#include <fmt/format.h>
#include <string>

namespace planloom::plan {
namespace {

/// Why @p exchange needs parameters on the device, with the field that says so and its fix; empty: it does not.
std::string exchangeThatNeedsThem(const Exchange &exchange)
{
    const auto needs = [](ExchangePolicy policy) -> const char * {
        switch (policy) {
        case ExchangePolicy::DelayedAveraging: return "averages them";
        case ExchangePolicy::ParameterServer: return "serves them";
        case ExchangePolicy::Sparse: return "has rows of them";
        case ExchangePolicy::AllReduce: break;
        }
        return nullptr;
    };
    if (exchange.policy != ExchangePolicy::Sparse && needs(exchange.policy) != nullptr)
        return fmt::format("the exchange {}; set exchange.kind to all-reduce", needs(exchange.policy));
    for (std::size_t g = 0; g < exchange.groups.size(); ++g)
        if (const char *why = needs(exchange.groups[g].policy))
            return fmt::format("the exchange of {} (exchange.groups[{}]) {}; set exchange.groups[{}].kind to "
                               "all-reduce",
                               exchange.groups[g].match, g, why, g);
    if (exchange.policy == ExchangePolicy::Sparse && needs(exchange.dense) != nullptr)
        return fmt::format("the exchange of what is no table {}; set exchange.dense to all-reduce",
                           needs(exchange.dense));
    if (exchange.hasTables())
        return fmt::format("the exchange {}; set exchange.kind, or the strategy of each of exchange.tables, to "
                           "all-reduce",
                           needs(ExchangePolicy::Sparse));
    if (exchange.acrossSteps)
        return "the exchange updates them in the next step; set exchange.across_steps to false";
    return {};
}

} // namespace

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
    if (const std::string exchange = exchangeThatNeedsThem(plan.exchange); !exchange.empty())
        return refused(exchange);
    if (plan.optimizer.rule.formula().norms > 0)
        return refused(fmt::format("update rule {} takes norms of whole parameters before it updates them; set "
                                   "optimizer.kind to one without norms, such as sgd or adamw",
                                   plan.optimizer.rule.name()));
    return {};
}

} // namespace planloom::plan

// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/exchange.h"

#include "engine/plan/training.h"

#include <fmt/format.h>

namespace planloom::plan {

const char *name(ExchangePolicy policy)
{
    for (const ExchangePolicyRow &row : kExchangePolicies)
        if (row.policy == policy)
            return row.name;
    return "unknown";
}

Result<ExchangePolicy> findExchangePolicy(std::string_view name)
{
    std::string known;
    for (const ExchangePolicyRow &row : kExchangePolicies) {
        if (name == row.name)
            return row.policy;
        known += (known.empty() ? "" : ", ") + std::string(row.name);
    }
    return badInput(fmt::format("gradient exchange \"{}\" is not known; there is {}", name, known));
}

std::size_t Exchange::groupOf(std::string_view parameter, std::size_t rank) const
{
    for (std::size_t i = 0; i < groups.size(); ++i)
        if (matchesParameter(groups[i].match, parameter, rank))
            return i + 1;
    return 0;
}

} // namespace planloom::plan

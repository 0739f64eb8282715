// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::plan {

/// How replicas combine the gradients of a parameter; a row of kExchangePolicies.
enum class ExchangePolicy : std::uint8_t { AllReduce };

struct ExchangePolicyRow {
    ExchangePolicy policy;
    const char *name;  ///< in plans
    const char *about; ///< one line
};
inline constexpr ExchangePolicyRow kExchangePolicies[] = {
    {ExchangePolicy::AllReduce, "all-reduce", "summed over replicas in buckets, each when its last gradient is ready"},
};

/// "unknown" for a value without a row.
const char *name(ExchangePolicy policy);
/// Error: BadInput that lists the names.
Result<ExchangePolicy> findExchangePolicy(std::string_view name);

/// Parameters with a policy of their own. They share no bucket with others.
struct ExchangeGroup {
    std::string match; ///< a name, a pattern with `*`, or "rank<2", as in ParameterGroup
    ExchangePolicy policy = ExchangePolicy::AllReduce;
};

/// The gradients' exchange between replicas.
struct Exchange {
    ExchangePolicy policy = ExchangePolicy::AllReduce; ///< of parameters that no group matches
    std::vector<ExchangeGroup> groups;                 ///< the first that matches a parameter counts

    /// Of a parameter with @p rank axes: 0 in no group, else the group's place, from 1.
    [[nodiscard]] std::size_t groupOf(std::string_view parameter, std::size_t rank) const;
    [[nodiscard]] ExchangePolicy policyOf(std::size_t group) const
    {
        return group == 0 ? policy : groups[group - 1].policy;
    }
};

} // namespace planloom::plan

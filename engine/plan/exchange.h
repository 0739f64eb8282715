// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/plan/sparse_exchange.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::plan {

/// How replicas combine what they learn of a parameter; a row of kExchangePolicies.
enum class ExchangePolicy : std::uint8_t { AllReduce, Sparse, DelayedAveraging, ParameterServer };

/// The policy as the plan file and the studio name it.
struct ExchangePolicyRow {
    ExchangePolicy policy;
    const char *name;  ///< in plans
    const char *about; ///< one line
};
inline constexpr ExchangePolicyRow kExchangePolicies[] = {
    {ExchangePolicy::AllReduce, "all-reduce", "summed over replicas in buckets, each when its last gradient is ready"},
    {ExchangePolicy::Sparse, "embrace", "tables by the rows that a batch looks up; other parameters by all-reduce"},
    {ExchangePolicy::DelayedAveraging, "dasgd",
     "replicas step on gradients of their own; every few steps their parameters are averaged, merged steps later"},
    {ExchangePolicy::ParameterServer, "parameter-server",
     "gradients go to servers, which update a part of the parameters each and hand them out; in plans with a job"},
};

/// "unknown" for a value without a row.
const char *name(ExchangePolicy policy);
/// Error: BadInput that lists the names.
Result<ExchangePolicy> findExchangePolicy(std::string_view name);

/// How a replica takes up an average a of snapshots s, with local weight x; w is the parameter by then.
enum class Merge : std::uint8_t {
    Convex,    ///< w = x w + (1 - x) a: what was learned since the snapshot counts x only
    Corrected, ///< w = w + (1 - x)(a - s): keeps the steps made since the snapshot
};
const char *name(Merge merge); ///< "convex", "corrected"
/// Error: BadInput that lists the names.
Result<Merge> findMerge(std::string_view name);

/// Which replicas are one in local steps, as they sum up their gradients in each; a row of kInsides.
enum class Inside : std::uint8_t {
    Replica, ///< each for itself
    Machine, ///< those whose devices lie on the same machines, stage by stage
};
/// The choice as the plan file and the studio name it.
struct InsideRow {
    Inside inside;
    const char *name;  ///< in plans
    const char *about; ///< one line
};
inline constexpr InsideRow kInsides[] = {
    {Inside::Replica, "replica", "each replica takes local steps for itself"},
    {Inside::Machine, "machine", "replicas on one machine sum up their gradients in every step"},
};
const char *name(Inside inside); ///< "replica", "machine"
/// Error: BadInput that lists the names.
Result<Inside> findInside(std::string_view name);

/// Local steps with delayed averaging (Zhou et al., DaSGD, arXiv 2006.00441, 2020). Rounds of `localSteps` steps begin
/// behind the warm-up, whose steps sum up gradients; at the end of a round each replica takes a snapshot, and the
/// average of all snapshots, weighted by the replicas' shares of samples, is merged `delay` steps later. Delay 0 is
/// local SGD.
struct DelayedAveraging {
    std::int64_t localSteps = 4;
    std::int64_t delay = 2;    ///< steps, 0 to localSteps
    double localWeight = 0.25; ///< 0 to below 1
    Merge merge = Merge::Corrected;
    std::int64_t warmupSteps = 0;
    Inside inside = Inside::Replica;

    /// The step (from 0) in which the first average is merged.
    [[nodiscard]] std::int64_t firstMerge() const { return warmupSteps + localSteps - 1 + delay; }
    /// The share of local steps' progress that the merges keep, for small learning rates.
    [[nodiscard]] double effectiveShare() const
    {
        return merge == Merge::Corrected
            ? 1
            : 1 - (1 - localWeight) * static_cast<double>(delay) / static_cast<double>(localSteps);
    }
    friend bool operator==(const DelayedAveraging &, const DelayedAveraging &) = default;
};

/// Parameters with a policy of their own. They share no bucket with others.
struct ExchangeGroup {
    std::string match; ///< a name, a pattern with `*`, or "rank<2", as in ParameterGroup
    ExchangePolicy policy = ExchangePolicy::AllReduce;
    friend bool operator==(const ExchangeGroup &, const ExchangeGroup &) = default;
};

/// The exchange between replicas.
struct Exchange {
    ExchangePolicy policy = ExchangePolicy::AllReduce; ///< of parameters that no group matches
    std::vector<ExchangeGroup> groups;                 ///< the first that matches a parameter counts
    DelayedAveraging averaging;                        ///< of all parameters whose policy is that
    SparseExchange sparse;                             ///< if `policy` is that
    ExchangePolicy dense = ExchangePolicy::AllReduce;  ///< if `policy` is Sparse: of parameters that are no tables
    /// A bucket is updated on its own, in front of the next forward pass that reads it: sums of gradients may end in
    /// the step behind theirs.
    bool acrossSteps = false;

    /// Of a parameter with @p rank axes: 0 in no group, else the group's place, from 1; behind the groups come tables
    /// that are exchanged by rows, or summed up while other parameters are averaged.
    [[nodiscard]] std::size_t groupOf(std::string_view parameter, std::size_t rank) const;
    [[nodiscard]] ExchangePolicy policyOf(std::size_t group) const
    {
        if (group > groups.size())
            return isByRows(sparse.tables[group - groups.size() - 1]) ? ExchangePolicy::Sparse
                                                                      : ExchangePolicy::AllReduce;
        const ExchangePolicy rest = policy == ExchangePolicy::Sparse ? dense : policy;
        return group > 0 ? groups[group - 1].policy : rest;
    }
    /// The table of that name if it is exchanged by rows, else nullptr.
    [[nodiscard]] const SparseTable *tableOf(std::string_view parameter) const;
    /// True if any table is exchanged by rows.
    [[nodiscard]] bool hasTables() const;
    /// True if any parameters are averaged.
    [[nodiscard]] bool averages() const;
};

/// "dasgd,local_steps=4,delay=2,local_weight=0.25,merge=corrected,warmup_steps=0": the policy and its settings, without
/// groups, and behind them "inside=machine" if so; "embrace,dense=dasgd,local_steps=4,...,scheduling=2d,tables=...":
/// both. Behind the policy "across_steps=true" if so.
std::string textOf(const Exchange &exchange);
/// The reverse; settings that are left out have their default. Error: BadInput that names the setting and the fix.
Result<Exchange> exchangeFromText(std::string_view text);
/// Error: BadInput, if `dense` is none that parameters beside tables can have.
Status checkDense(const Exchange &exchange);
/// Error: BadInput, if a setting is out of its range.
Status check(const DelayedAveraging &averaging);

} // namespace planloom::plan

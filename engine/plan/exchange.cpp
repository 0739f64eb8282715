// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/exchange.h"

#include "engine/plan/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <type_traits>

namespace planloom::plan {
namespace {

/// A row of @p table by name; @p what says what is asked for.
template <class Row, std::size_t n>
const Row *rowOf(const Row (&table)[n], std::string_view name)
{
    const auto found =
        std::find_if(std::begin(table), std::end(table), [&](const Row &row) { return name == row.name; });
    return found == std::end(table) ? nullptr : found;
}

template <class Row, std::size_t n>
std::string namesOf(const Row (&table)[n])
{
    std::string names;
    for (const Row &row : table)
        names += (names.empty() ? "" : ", ") + std::string(row.name);
    return names;
}

struct MergeRow {
    Merge merge;
    const char *name;
};
constexpr MergeRow kMerges[] = {{Merge::Convex, "convex"}, {Merge::Corrected, "corrected"}};

template <class Number>
Status read(std::string_view key, std::string_view text, Number &number)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size())
        return {};
    constexpr const char *kWanted = std::is_integral_v<Number> ? "a whole number" : "a number";
    return badInput(fmt::format("exchange setting {} is \"{}\"; give {}", key, text, kWanted));
}

Status set(DelayedAveraging &averaging, std::string_view key, std::string_view value)
{
    if (key == "local_steps")
        return read(key, value, averaging.localSteps);
    if (key == "delay")
        return read(key, value, averaging.delay);
    if (key == "local_weight")
        return read(key, value, averaging.localWeight);
    if (key == "warmup_steps")
        return read(key, value, averaging.warmupSteps);
    if (key != "merge")
        return badInput(fmt::format("exchange dasgd has no setting \"{}\"; it has local_steps, delay, local_weight, "
                                    "merge and warmup_steps",
                                    key));
    const auto merge = findMerge(value);
    if (!merge)
        return merge.error();
    averaging.merge = *merge;
    return {};
}

} // namespace

const char *name(ExchangePolicy policy)
{
    for (const ExchangePolicyRow &row : kExchangePolicies)
        if (row.policy == policy)
            return row.name;
    return "unknown";
}

Result<ExchangePolicy> findExchangePolicy(std::string_view name)
{
    if (const ExchangePolicyRow *row = rowOf(kExchangePolicies, name))
        return row->policy;
    return badInput(
        fmt::format("gradient exchange \"{}\" is not known; there is {}", name, namesOf(kExchangePolicies)));
}

const char *name(Merge merge) { return merge == Merge::Convex ? kMerges[0].name : kMerges[1].name; }

Result<Merge> findMerge(std::string_view name)
{
    if (const MergeRow *row = rowOf(kMerges, name))
        return row->merge;
    return badInput(fmt::format("merge rule \"{}\" is not known; there is {}", name, namesOf(kMerges)));
}

std::size_t Exchange::groupOf(std::string_view parameter, std::size_t rank) const
{
    if (const SparseTable *table = tableOf(parameter))
        return groups.size() + 1 + static_cast<std::size_t>(table - sparse.tables.data());
    for (std::size_t i = 0; i < groups.size(); ++i)
        if (matchesParameter(groups[i].match, parameter, rank))
            return i + 1;
    return 0;
}

const SparseTable *Exchange::tableOf(std::string_view parameter) const
{
    if (policy != ExchangePolicy::Sparse)
        return nullptr;
    const std::size_t place = sparse.placeOf(parameter);
    return place > 0 && sparse.tables[place - 1].strategy != TableStrategy::AllReduce ? &sparse.tables[place - 1]
                                                                                      : nullptr;
}

bool Exchange::hasTables() const
{
    return policy == ExchangePolicy::Sparse
        && std::any_of(sparse.tables.begin(), sparse.tables.end(),
                       [](const SparseTable &table) { return table.strategy != TableStrategy::AllReduce; });
}

bool Exchange::averages() const
{
    return policy == ExchangePolicy::DelayedAveraging
        || std::any_of(groups.begin(), groups.end(),
                       [](const ExchangeGroup &group) { return group.policy == ExchangePolicy::DelayedAveraging; });
}

std::string textOf(const Exchange &exchange)
{
    std::string text = name(exchange.policy);
    if (const DelayedAveraging &a = exchange.averaging; exchange.averages())
        text += fmt::format(",local_steps={},delay={},local_weight={},merge={},warmup_steps={}", a.localSteps, a.delay,
                            a.localWeight, name(a.merge), a.warmupSteps);
    if (exchange.policy == ExchangePolicy::Sparse)
        text += "," + textOf(exchange.sparse);
    return text;
}

Result<Exchange> exchangeFromText(std::string_view text)
{
    Exchange exchange;
    std::size_t comma = text.find(',');
    const auto policy = findExchangePolicy(text.substr(0, comma));
    if (!policy)
        return policy.error();
    exchange.policy = *policy;
    std::set<std::string_view> given;
    while (comma != std::string_view::npos) {
        text.remove_prefix(comma + 1);
        comma = text.find(',');
        const std::string_view setting = text.substr(0, comma);
        const std::size_t equals = setting.find('=');
        if (*policy == ExchangePolicy::AllReduce)
            return badInput(fmt::format("exchange {} has no setting \"{}\"; leave it out", name(*policy), setting));
        if (equals == std::string_view::npos)
            return badInput(fmt::format("exchange setting \"{}\" has no value; write KEY=VALUE", setting));
        if (!given.insert(setting.substr(0, equals)).second)
            return badInput(
                fmt::format("exchange setting {} is given twice; leave one out", setting.substr(0, equals)));
        const std::string_view key = setting.substr(0, equals);
        const std::string_view value = setting.substr(equals + 1);
        if (Status status = *policy == ExchangePolicy::Sparse ? set(exchange.sparse, key, value)
                                                              : set(exchange.averaging, key, value);
            !status)
            return status.error();
    }
    if (Status status = check(exchange.averaging); !status)
        return status.error();
    return exchange;
}

Status check(const DelayedAveraging &averaging)
{
    if (averaging.localSteps < 1 || averaging.localSteps > 1'000'000)
        return badInput(fmt::format("parameters are averaged every {} steps; give local_steps from 1 to 1000000",
                                    averaging.localSteps));
    if (averaging.delay < 0 || averaging.delay > averaging.localSteps)
        return badInput(fmt::format("an average is merged {} steps after its snapshot, of which there is one every {} "
                                    "steps; give a delay from 0 to local_steps",
                                    averaging.delay, averaging.localSteps));
    if (!(averaging.localWeight >= 0 && averaging.localWeight < 1))
        return badInput(fmt::format("local parameters count {} in a merge; give a local_weight from 0 to below 1",
                                    averaging.localWeight));
    if (averaging.warmupSteps < 0 || averaging.warmupSteps > std::int64_t{1} << 40)
        return badInput(fmt::format("gradients are summed for {} warm-up steps; give warmup_steps of 0 or more",
                                    averaging.warmupSteps));
    return {};
}

} // namespace planloom::plan

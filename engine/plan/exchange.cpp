// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/exchange.h"

#include "engine/plan/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
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
    if (key == "inside") {
        const auto inside = findInside(value);
        if (inside)
            averaging.inside = *inside;
        return inside ? Status() : inside.error();
    }
    if (key != "merge")
        return badInput(fmt::format("exchange dasgd has no setting \"{}\"; it has local_steps, delay, local_weight, "
                                    "merge, warmup_steps and inside",
                                    key));
    const auto merge = findMerge(value);
    if (!merge)
        return merge.error();
    averaging.merge = *merge;
    return {};
}

constexpr std::string_view kDense = "dense";
constexpr std::string_view kAcrossSteps = "across_steps";

using Settings = std::map<std::string_view, std::string_view>; // in no order, as none depends on another but `dense`

/// Of ",KEY=VALUE,...".
Result<Settings> settingsOf(ExchangePolicy policy, std::string_view text)
{
    Settings settings;
    while (!text.empty()) {
        text.remove_prefix(1);
        const std::string_view setting = text.substr(0, text.find(','));
        text.remove_prefix(setting.size());
        const std::size_t equals = setting.find('=');
        const std::string_view key = setting.substr(0, equals);
        if ((policy == ExchangePolicy::AllReduce && key != kAcrossSteps) || policy == ExchangePolicy::ParameterServer)
            return badInput(fmt::format("exchange {} has no setting \"{}\"; leave it out", name(policy), setting));
        if (equals == std::string_view::npos)
            return badInput(fmt::format("exchange setting \"{}\" has no value; write KEY=VALUE", setting));
        if (!settings.emplace(key, setting.substr(equals + 1)).second)
            return badInput(fmt::format("exchange setting {} is given twice; leave one out", key));
    }
    return settings;
}

Status setDense(Exchange &exchange, std::string_view value)
{
    const auto dense = findExchangePolicy(value);
    if (!dense)
        return badInput(fmt::format("exchange setting {} is \"{}\"; give all-reduce or dasgd", kDense, value));
    exchange.dense = *dense;
    return checkDense(exchange);
}

bool isOfAverages(std::string_view key)
{
    constexpr std::string_view kKeys[] = {"local_steps", "delay", "local_weight", "merge", "warmup_steps", "inside"};
    return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

Status setAcrossSteps(Exchange &exchange, std::string_view value)
{
    if (value != "true" && value != "false")
        return badInput(fmt::format("exchange setting {} is \"{}\"; give true, false or auto", kAcrossSteps, value));
    exchange.acrossSteps = value == "true";
    return {};
}

Status set(Exchange &exchange, std::string_view key, std::string_view value)
{
    if (key == kAcrossSteps)
        return setAcrossSteps(exchange, value);
    if (key == kDense && exchange.policy == ExchangePolicy::Sparse)
        return {}; // before all others
    if (exchange.policy == ExchangePolicy::DelayedAveraging)
        return set(exchange.averaging, key, value);
    if (!isOfAverages(key))
        return set(exchange.sparse, key, value);
    if (exchange.averages())
        return set(exchange.averaging, key, value);
    return badInput(
        fmt::format("exchange setting {} is of averages, and exchange embrace sums up parameters that are no "
                    "tables; add dense=dasgd, or leave {} out",
                    key, key));
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

const char *name(Inside inside) { return kInsides[static_cast<std::size_t>(inside)].name; }

Result<Inside> findInside(std::string_view name)
{
    if (const InsideRow *row = rowOf(kInsides, name))
        return row->inside;
    return badInput(
        fmt::format("local steps are taken together inside a \"{}\"; there is {}", name, namesOf(kInsides)));
}

std::size_t Exchange::groupOf(std::string_view parameter, std::size_t rank) const
{
    const std::size_t place = policy == ExchangePolicy::Sparse ? sparse.placeOf(parameter) : 0;
    if (place > 0 && (isByRows(sparse.tables[place - 1]) || averages()))
        return groups.size() + place;
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
    return place > 0 && isByRows(sparse.tables[place - 1]) ? &sparse.tables[place - 1] : nullptr;
}

bool Exchange::hasTables() const
{
    return policy == ExchangePolicy::Sparse && std::any_of(sparse.tables.begin(), sparse.tables.end(), isByRows);
}

bool Exchange::averages() const
{
    return policyOf(0) == ExchangePolicy::DelayedAveraging
        || std::any_of(groups.begin(), groups.end(),
                       [](const ExchangeGroup &group) { return group.policy == ExchangePolicy::DelayedAveraging; });
}

std::string textOf(const Exchange &exchange)
{
    std::string text = name(exchange.policy);
    if (exchange.acrossSteps)
        text += fmt::format(",{}=true", kAcrossSteps);
    if (exchange.policy == ExchangePolicy::Sparse && exchange.dense != ExchangePolicy::AllReduce)
        text += fmt::format(",{}={}", kDense, name(exchange.dense));
    if (const DelayedAveraging &a = exchange.averaging; exchange.averages())
        text += fmt::format(",local_steps={},delay={},local_weight={},merge={},warmup_steps={}", a.localSteps, a.delay,
                            a.localWeight, name(a.merge), a.warmupSteps)
            + (a.inside == Inside::Machine ? fmt::format(",inside={}", name(a.inside)) : "");
    if (exchange.policy == ExchangePolicy::Sparse)
        text += "," + textOf(exchange.sparse);
    return text;
}

Result<Exchange> exchangeFromText(std::string_view text)
{
    Exchange exchange;
    const std::size_t comma = text.find(',');
    const auto policy = findExchangePolicy(text.substr(0, comma));
    if (!policy)
        return policy.error();
    exchange.policy = *policy;
    const auto settings =
        settingsOf(*policy, comma == std::string_view::npos ? std::string_view() : text.substr(comma));
    if (!settings)
        return settings.error();
    if (const auto dense = settings->find(kDense); dense != settings->end())
        if (Status status = setDense(exchange, dense->second); !status)
            return status.error();
    for (const auto &[key, value] : *settings)
        if (Status status = set(exchange, key, value); !status)
            return status.error();
    if (Status status = check(exchange.averaging); !status)
        return status.error();
    return exchange;
}

Status checkDense(const Exchange &exchange)
{
    if (exchange.policy != ExchangePolicy::Sparse && exchange.dense != ExchangePolicy::AllReduce)
        return badInput(
            fmt::format("exchange {} has no setting \"dense\", which is how parameters beside the tables of "
                        "exchange embrace are exchanged; leave it out",
                        name(exchange.policy)));
    if (exchange.dense == ExchangePolicy::ParameterServer)
        return badInput(
            "parameter servers update all parameters, and exchange embrace none but those beside its tables; "
            "give dense=dasgd, or all-reduce");
    if (exchange.dense == ExchangePolicy::Sparse)
        return badInput(
            "parameters that are no tables have no rows for an exchange dense=embrace; give dense=dasgd, or "
            "all-reduce");
    return {};
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

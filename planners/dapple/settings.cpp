// SPDX-License-Identifier: Apache-2.0
#include "planners/dapple/settings.h"

#include "planners/interface/options.h"

#include <algorithm>

namespace planloom::planners::dapple {
namespace {

const std::vector<std::string> kFamilies{"dp", "two-stage", "straight", "replicated", "free"};
const std::vector<std::string> kPolicies{"fresh", "append", "scatter"};
const std::vector<std::string> kEvaluators{"simulation", "formula", "shipped"};
const std::vector<std::string> kOrders{"dapple", "1f1b", "gpipe"};
const std::vector<std::string> kWarmups{"auto", "a", "b"};
const std::vector<std::string> kRemainders{"spread", "drop"};
const std::vector<std::string> kRescores{"auto", "chain", "program", "none"};
const std::vector<std::string> kDuplexes{"auto", "half", "full"};
const std::vector<std::string> kScatters{"used", "all"};

/// The value whose position in @p names is that of @p text.
template <class Enum>
Enum valueOf(const std::vector<std::string> &names, const std::string &text)
{
    return static_cast<Enum>(std::find(names.begin(), names.end(), text) - names.begin());
}

template <class Enum>
std::vector<Enum> valuesOf(const std::vector<std::string> &names, const std::vector<std::string> &texts)
{
    std::vector<Enum> values;
    for (const std::string &text : texts)
        values.push_back(valueOf<Enum>(names, text));
    return values;
}

} // namespace

std::vector<OptionInfo> optionList()
{
    return {
        {"evaluator", "simulation",
         "objective of the search: simulation (events), formula (the paper's eq. 1-2) or shipped (the released "
         "planner's)",
         "", kEvaluators},
        {"families", "dp,two-stage,straight",
         "plan shapes to search, by commas: dp, two-stage, straight, replicated, free (the paper's recursion); or all"},
        {"policies", "fresh,append,scatter", "placement policies, by commas; or all"},
        {"scatter", "used",
         "Scatter First spreads over used machines (the paper) or all machines (the released planner)", "", kScatters},
        {"max_stages", "0", "most pipeline stages; 0: any number", "0"},
        {"schedule", "dapple", "order of passes: dapple (early backward), 1f1b or gpipe", "", kOrders},
        {"warmup", "auto", "DAPPLE's warm-up policy: a, b or auto (the faster of both)", "", kWarmups},
        {"max_in_flight", "0", "cap D on a stage's micro-batches in flight, besides the limit by memory; 0: none"},
        {"recompute",
         "never",
         "never, or auto: recompute a stage's forward pass where it does not fit otherwise",
         "auto",
         {"never", "auto"}},
        {"memory_reserve", "0.05", "share of a device's memory left to driver, libraries and fragmentation"},
        {"remainder", "spread",
         "a batch that micro-batches do not divide: spread over them, or drop from the time as the published figures "
         "do",
         "", kRemainders},
        {"duplex", "auto",
         "links carry activations and gradients at once (full) or in turn (half); auto: half with two-level rates, "
         "else as the cluster says",
         "", kDuplexes},
        {"rescore", "auto",
         "ranking of the best candidates: chain (events, fractional slices), program (compiled, exact slices) or none "
         "(the evaluator alone); auto: chain for layer profiles, else program",
         "", kRescores},
        {"candidates", "32", "plans kept for re-scoring"},
        {"beam", "1", "prefixes kept per state of the free search; the paper keeps 1"},
        keepOption(),
    };
}

Result<Settings> readSettings(const Options &options, std::size_t layers)
{
    OptionReader reader(options, optionList());
    Settings settings;
    settings.evaluator = valueOf<Evaluator>(kEvaluators, reader.choice("evaluator"));
    settings.families = valuesOf<Family>(kFamilies, reader.choices("families", kFamilies));
    settings.placements = valuesOf<Placement>(kPolicies, reader.choices("policies", kPolicies));
    settings.scatter = valueOf<ScatterOver>(kScatters, reader.choice("scatter"));
    settings.maxStages = static_cast<std::size_t>(reader.integer("max_stages", 0, 100000));
    settings.order = valueOf<Order>(kOrders, reader.choice("schedule"));
    settings.warmup = valueOf<WarmupChoice>(kWarmups, reader.choice("warmup"));
    settings.maxInFlight = static_cast<int>(reader.integer("max_in_flight", 0, 1000000));
    settings.recompute = reader.choice("recompute") == "auto";
    settings.memoryReserve = reader.number("memory_reserve", 0, 0.9);
    settings.remainder = valueOf<Remainder>(kRemainders, reader.choice("remainder"));
    settings.duplex = valueOf<Duplex>(kDuplexes, reader.choice("duplex"));
    settings.rescore = valueOf<Rescore>(kRescores, reader.choice("rescore"));
    settings.candidates = static_cast<std::size_t>(reader.integer("candidates", 1, 10000));
    settings.beam = static_cast<std::size_t>(reader.integer("beam", 1, 1000));
    if (!reader.status())
        return reader.status().error();
    Result<KeptStages> keep = keptStages(options, layers);
    if (!keep)
        return keep.error();
    settings.keep = *std::move(keep);
    return settings;
}

} // namespace planloom::planners::dapple

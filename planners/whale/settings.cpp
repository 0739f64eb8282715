// SPDX-License-Identifier: Apache-2.0
#include "planners/whale/settings.h"

#include "planners/interface/options.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::planners::whale {

std::vector<OptionInfo> optionList()
{
    return {
        {"task_graphs", "0", "task graphs that a model without annotations is cut into; 0: 1, 2, 4, 8 and 16 are tried",
         "0"},
        {"balance",
         "memory",
         "shares of unequal devices: memory (in proportion to speed, moved where memory is short), time (shortest "
         "slowest device) or even",
         "memory",
         {"memory", "time", "even"}},
        {"micro_batches", "0", "micro-batches of an iteration; 0: several numbers are tried", "0"},
        {"order",
         "backward",
         "which runs first where two passes could: backward, forward, or optimizer (backward, one forward further "
         "ahead)",
         "",
         {"backward", "forward", "optimizer"}},
        {"cut",
         "exact",
         "how task graphs are cut: exact (fastest slowest), walk (the paper's, operators to the nearest target) or "
         "buckets (the released one's)",
         "",
         {"exact", "walk", "buckets"}},
        {"pattern",
         "least",
         "sharding of split tensors: least (bytes sent), layers (attention and feed-forward layers as units) or single "
         "(operator by operator)",
         "",
         {"least", "layers", "single"}},
        {"speed",
         "measured",
         "speed of a device: measured (by the cost model) or peak (its float32 data sheet)",
         "",
         {"measured", "peak"}},
        {"memory",
         "fixed",
         "memory of a share: fixed (weights in full, the rest in proportion) or proportional (all of it, as the paper "
         "has it)",
         "",
         {"fixed", "proportional"}},
        {"place", "all",
         "inside (a copy of the model within a node), across (over the nodes in turn), or all: both are tried", "all"},
        {"recompute",
         "never",
         "run forward again before backward: never, always, or auto (task graphs that do not fit otherwise)",
         "auto",
         {"never", "always", "auto"}},
        {"candidates", "8", "plans that are simulated whole before the fastest is chosen"},
        {"memory_reserve", "0.05", "share of a device's memory left to driver, libraries and fragmentation"}};
}

Result<Settings> readSettings(const Options &options, const Problem &problem)
{
    OptionReader reader(options, optionList());
    Settings settings;
    settings.taskGraphs = static_cast<std::size_t>(reader.integer("task_graphs", 0, 1000000));
    settings.microBatches = reader.integer("micro_batches", 0, 1000000000);
    const std::string order = reader.choice("order");
    settings.order = order == "forward" ? Order::ForwardFirst
        : order == "optimizer"          ? Order::Optimizer
                                        : Order::BackwardFirst;
    const std::string balance = reader.choice("balance");
    settings.sharing = balance == "time" ? Sharing::Time : balance == "even" ? Sharing::Even : Sharing::Algorithm1;
    const std::string cut = reader.choice("cut");
    settings.cut = cut == "walk" ? Cut::Walk : cut == "buckets" ? Cut::Buckets : Cut::Exact;
    const std::string pattern = reader.choice("pattern");
    settings.pattern = pattern == "layers" ? PatternChoice::Layers
        : pattern == "single"              ? PatternChoice::Single
                                           : PatternChoice::Least;
    settings.peakSpeeds = reader.choice("speed") == "peak";
    settings.proportionalMemory = reader.choice("memory") == "proportional";
    for (const std::string &place : reader.choices("place", {"inside", "across"}))
        settings.intraNode.push_back(place == "inside");
    const std::string recompute = reader.choice("recompute");
    settings.recompute = recompute == "always" ? Recompute::Always
        : recompute == "auto"                  ? Recompute::Auto
                                               : Recompute::Never;
    settings.candidates = static_cast<std::size_t>(reader.integer("candidates", 1, 100));
    settings.reserve = reader.number("memory_reserve", 0, 0.9);
    if (!reader.status())
        return reader.status().error();
    const std::size_t layers = problem.subject.layers().size();
    const std::size_t devices = problem.subject.cluster->devices().size();
    if (settings.taskGraphs > 0 && !problem.annotations.empty())
        return badInput(
            "option task_graphs and annotations exclude each other, as both define the task graphs; leave one out");
    if (settings.taskGraphs > std::min(layers, devices))
        return badInput(fmt::format("option task_graphs={} is more than {} layers on {} devices allow; give at most {}",
                                    settings.taskGraphs, layers, devices, std::min(layers, devices)));
    if (settings.microBatches > problem.globalBatch)
        return badInput(fmt::format("option micro_batches={} is more than the batch of {} samples; give at most that",
                                    settings.microBatches, problem.globalBatch));
    return settings;
}

int inFlight(Order order, std::size_t index, std::size_t all, std::int64_t microBatches)
{
    if (order == Order::ForwardFirst)
        return static_cast<int>(microBatches);
    const std::size_t ahead = order == Order::Optimizer && index + 1 < all ? 1 : 0;
    return static_cast<int>(std::min<std::int64_t>(static_cast<std::int64_t>(all - index + ahead), microBatches));
}

} // namespace planloom::planners::whale

// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/gnn_sources.h"
#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "engine/base/units.h"
#include "engine/export/export.h"
#include "engine/gnn/schedule_trace.h"
#include "planners/gnn/joint.h"

#include <chrono>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace placing = planners::gnn;
namespace {

placing::SearchOptions searchOptions(const PlaceOptions &options, gnn::TransferPolicy policy)
{
    placing::SearchOptions how;
    how.kind = options.search == "initial" ? placing::SearchKind::Initial
        : options.search == "exhaustive"   ? placing::SearchKind::Exhaustive
                                           : placing::SearchKind::Explore;
    how.explore.beta = options.beta;
    how.explore.proposals = options.proposals;
    how.explore.patience = options.patience;
    how.explore.seed = static_cast<std::uint64_t>(options.seed);
    how.explore.policy = policy;
    return how;
}

ordered_json placementResult(const gnn::Job &job, const gnn::Placement &machineOf, Output &output)
{
    ordered_json roles = ordered_json::array();
    Table table({"machine", "roles"});
    for (std::size_t machine = 0; machine < job.machines.size(); ++machine) {
        std::string here;
        for (std::size_t role = 0; role < job.roles.size(); ++role) {
            if (machineOf[role] != static_cast<std::int32_t>(machine))
                continue;
            here += (here.empty() ? "" : " ") + job.roles[role].name;
        }
        table.row({job.machines[machine].name, here});
    }
    table.print(output);
    for (std::size_t role = 0; role < job.roles.size(); ++role)
        roles.push_back({{"name", job.roles[role].name},
                         {"kind", gnn::name(job.roles[role].kind)},
                         {"machine", job.machines[static_cast<std::size_t>(machineOf[role])].name}});
    return roles;
}

/// Seconds under every policy, beside what no schedule can beat; of large jobs under their own alone.
ordered_json policiesResult(const gnn::Job &job, const gnn::Placement &machineOf, gnn::TransferPolicy own, double lower,
                            Output &output)
{
    constexpr std::size_t kLarge = 20'000; // steps; of 50,000 max-min and iteration-first take some 10 s each
    const bool all = gnn::networkOf(job).steps() <= kLarge;
    ordered_json result = ordered_json::object();
    Table table({"transfers", "all iterations", "over the bound"});
    for (const gnn::TransferPolicy policy : gnn::kTransferPolicies) {
        if (!all && policy != own)
            continue;
        const double seconds = placing::Evaluation(job, policy).seconds(machineOf);
        const double over = lower > 0 ? seconds / lower : 1; // nothing that takes time
        table.row({gnn::name(policy), format(Seconds(seconds)), fmt::format("{:.3f}", over)});
        result[gnn::name(policy)] = seconds;
    }
    table.print(output);
    if (!all)
        output.line("the job is large: see other ways to share cards with --policy");
    return result;
}

ordered_json searchResult(const placing::SearchResult &found, Output &output)
{
    ordered_json result{{"initial_seconds", found.initialSeconds}};
    std::string text = fmt::format("first feasible placement {}", format(Seconds(found.initialSeconds)));
    if (found.colocatedSeconds) {
        result["colocated_seconds"] = *found.colocatedSeconds;
        text += fmt::format(", colocated {}", format(Seconds(*found.colocatedSeconds)));
    }
    if (found.balanced) {
        result["balanced"] = {{"changes", found.balanced->changes.size()},
                              {"busiest_card_before", found.balanced->busiestBefore},
                              {"busiest_card", found.balanced->busiest}};
        text += fmt::format("; {} changes by the load of the cards", found.balanced->changes.size());
    }
    if (found.balancedSeconds) {
        result["balanced"]["seconds"] = *found.balancedSeconds;
        text += fmt::format(" lead to {}", format(Seconds(*found.balancedSeconds)));
    }
    if (found.all) {
        const placing::Exhaustive &all = *found.all;
        result["feasible"] = all.feasible;
        result["tried"] = all.tried;
        result["median_seconds"] = all.medianSeconds;
        result["worst_seconds"] = all.worstSeconds;
        text += fmt::format("; the best of {} is {}, the median {}, the worst {}",
                            all.cancelled()
                                ? fmt::format("the {} of {} that were tried", count(all.tried), count(all.feasible))
                                : "all " + count(all.feasible),
                            format(Seconds(all.bestSeconds)), format(Seconds(all.medianSeconds)),
                            format(Seconds(all.worstSeconds)));
    }
    if (found.exploration) {
        const placing::Exploration &exploration = *found.exploration;
        result["proposals"] = exploration.proposals;
        result["evaluated"] = exploration.evaluated;
        result["best_at"] = exploration.bestAt;
        result["optimal"] = exploration.optimal;
        ordered_json accepted = ordered_json::array();
        for (const placing::Accepted &step : exploration.accepted)
            accepted.push_back({{"proposal", step.number}, {"seconds", step.seconds}});
        result["accepted"] = std::move(accepted);
        text += fmt::format("; explored {} in {} proposals, {} accepted, the best at {}",
                            format(Seconds(found.seconds)), count(exploration.proposals),
                            count(static_cast<std::int64_t>(exploration.accepted.size())), count(exploration.bestAt));
    }
    output.line(text);
    return result;
}

/// What each choice of the joint search was worth: the seconds with each of its values and all others as chosen.
ordered_json choicesResult(const placing::JointResult &found, Output &output)
{
    ordered_json tried = ordered_json::array();
    Table table({"choice", "value", "all iterations", "over the chosen", ""});
    std::map<std::string, double> chosen;
    for (const placing::TriedChoice &choice : found.tried) {
        if (choice.chosen)
            chosen[choice.what] = choice.seconds;
    }
    for (const placing::TriedChoice &choice : found.tried) {
        const std::string note =
            choice.chosen ? (choice.given ? "chosen, as given" : "chosen") : (choice.given ? "as given" : "");
        table.row({choice.what, choice.value, format(Seconds(choice.seconds)),
                   fmt::format("{:.3f}", choice.seconds / chosen[choice.what]), note});
        tried.push_back({{"choice", choice.what},
                         {"value", choice.value},
                         {"seconds", choice.seconds},
                         {"given", choice.given},
                         {"chosen", choice.chosen}});
    }
    table.print(output);
    output.line(fmt::format("with everything as given {}, as chosen {}; a cache of {} and mini-batches of {} a sampler",
                            format(Seconds(found.givenSeconds)), format(Seconds(found.search.seconds)),
                            format(Bytes(found.cacheBytes)), format(Bytes(found.prefetchBytes))));
    output.line();
    return {{"given_seconds", found.givenSeconds},
            {"partition", placing::name(found.chosen.parts)},
            {"exchange", gnn::name(found.chosen.exchange)},
            {"cache", found.chosen.cacheShare},
            {"prefetch", found.chosen.prefetch},
            {"cache_bytes", found.cacheBytes},
            {"prefetch_bytes", found.prefetchBytes},
            {"tried", std::move(tried)}};
}

/// What trying every placement takes. Nothing where the search is another one, or will say itself why it cannot.
void announce(const gnn::Job &job, const placing::SearchOptions &how, Output &output)
{
    if (how.kind != placing::SearchKind::Exhaustive)
        return;
    std::int64_t feasible = 0;
    std::chrono::duration<double> one{};
    {
        TerminalProgress progress(output.showsProgress()); // gone from the line before the text comes
        progress.report(-1, "counting placements");
        const auto counted = placing::countFeasible(job, how.mostPlacements, progress);
        const auto first = counted ? placing::initialPlacement(job, progress) : counted.error();
        if (!first || *counted > how.mostPlacements)
            return;
        feasible = *counted;
        placing::Evaluation evaluation(job, how.explore.policy);
        evaluation.seconds(first->machineOf); // takes its memory
        const auto begin = std::chrono::steady_clock::now();
        evaluation.seconds(first->machineOf);
        one = std::chrono::steady_clock::now() - begin;
    }
    output.line(fmt::format("{} feasible placements, a schedule of some {} each: about {}; Ctrl-C ends the search with "
                            "the best so far",
                            count(feasible), format(Seconds(one.count())),
                            format(Seconds(one.count() * static_cast<double>(feasible)))));
}

/// The timeline of the placement under its policy.
Status writeTimeline(const gnn::Job &job, const gnn::Placement &machineOf, gnn::TransferPolicy policy,
                     const std::string &path)
{
    gnn::StepLabels labels;
    const gnn::Network network = gnn::networkOf(job, &labels);
    const std::vector<gnn::Port> ports = gnn::portsOf(job);
    gnn::StepTimes times;
    gnn::Scheduler(network, ports).run(machineOf, policy, &times);
    const trace::Trace timeline = gnn::traceOf(job, network, labels, times, machineOf);
    return exporting::writeTraceAs(timeline, path);
}

} // namespace

Status place(const PlaceOptions &options, Output &output)
{
    const auto policy = gnn::transferPolicyFromName(options.policy);
    if (!policy)
        return policy.error();
    for (const std::string &path : {options.out, options.trace}) {
        if (Status status = checkWritable(path); !status)
            return status;
    }
    auto loaded = loadJob(options.job);
    if (!loaded)
        return loaded.error();
    gnn::Job &job = loaded->job;
    const placing::SearchOptions how = searchOptions(options, *policy);
    ordered_json result{{"schema", kPlacementSchema},
                        {"job", options.job},
                        {"policy", options.policy},
                        {"iterations", job.volumes.iterations}};
    placing::SearchResult found;
    bool complete = true;
    if (options.joint) {
        placing::SampledFrom from{loaded->graph ? &*loaded->graph : nullptr, loaded->sampling, loaded->homes};
        placing::JointOptions joint;
        joint.search = how;
        auto together = [&] {
            announce(job, how, output);
            TerminalProgress progress(output.showsProgress());
            return placing::searchJointly(job, from, joint, progress);
        }();
        if (!together)
            return together.error().in(options.job);
        result["choices"] = choicesResult(*together, output);
        complete = together->complete;
        job = std::move(together->job);
        found = std::move(together->search);
    } else {
        auto alone = [&] {
            announce(job, how, output);
            TerminalProgress progress(output.showsProgress());
            return placing::searchPlacement(job, how, progress);
        }();
        if (!alone)
            return alone.error().in(options.job);
        complete = alone->complete();
        found = *std::move(alone);
    }
    const gnn::Bounds bounds = placing::Evaluation(job, *policy).bounds(found.machineOf);
    result["seconds"] = found.seconds;
    result["roles"] = placementResult(job, found.machineOf, output);
    output.line();
    result["policies"] = policiesResult(job, found.machineOf, *policy, bounds.lower(), output);
    output.line(
        fmt::format("critical path {}, busiest card {} ({} {}); at most {} connections share a direction",
                    format(Seconds(bounds.criticalPath)), format(Seconds(bounds.port)),
                    bounds.portOut ? "out of" : "into",
                    bounds.portMachine >= 0 ? job.machines[static_cast<std::size_t>(bounds.portMachine)].name : "none",
                    bounds.sharing));
    result["bounds"] = {{"critical_path_seconds", bounds.criticalPath},
                        {"port_seconds", bounds.port},
                        {"sharing", bounds.sharing}};
    result["search"] = searchResult(found, output);
    if (!options.out.empty()) {
        if (Status status = writeFileAtomically(options.out, result.dump(1) + "\n"); !status)
            return status;
        output.line("written to " + options.out);
    }
    if (!options.trace.empty()) {
        if (Status status = writeTimeline(job, found.machineOf, *policy, options.trace); !status)
            return status;
        output.line("timeline written to " + options.trace);
    }
    if (!complete)
        output.stoppedEarly("the placement is the best that was found until then");
    output.result(result);
    return {};
}

} // namespace planloom::cli

// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "engine/base/units.h"
#include "engine/export/export.h"
#include "engine/gnn/job_json.h"
#include "engine/gnn/schedule_trace.h"
#include "executor/data/graph_folder.h"
#include "planners/gnn/exhaustive.h"
#include "planners/gnn/explore.h"
#include "planners/gnn/initial.h"

#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace placing = planners::gnn;
namespace {

/// Reads the job and counts its volumes where it names a graph.
Result<gnn::Job> loadJob(const std::string &path)
{
    const auto text = readFile(path);
    if (!text)
        return text.error();
    auto file = gnn::jobFromJson(*text);
    if (!file)
        return file.error().in(path, file.error().line);
    if (!file->graphFolder.empty()) {
        const auto folder = std::filesystem::path(path).parent_path() / file->graphFolder;
        const auto graph = data::readGraphFolder(folder.string());
        if (!graph)
            return graph.error();
        auto volumes = gnn::sampledVolumes(*graph, file->homes, file->iterations, file->sampling);
        if (!volumes)
            return volumes.error().in(path);
        file->job.volumes = *std::move(volumes);
        file->job.volumes.model = file->modelBytes;
    }
    if (Status status = gnn::checkJob(file->job); !status)
        return status.error().in(path);
    return std::move(file->job);
}

/// A placement and how it was found.
struct Found {
    gnn::Placement machineOf;
    double seconds = 0;
    double initialSeconds = 0;
    std::optional<double> colocatedSeconds;
    bool exhaustive = false;
    std::optional<placing::Exploration> exploration;
    std::optional<placing::Exhaustive> all;
};

Result<Found> findPlacement(const gnn::Job &job, const PlaceOptions &options, gnn::TransferPolicy policy,
                            Progress &progress)
{
    const auto initial = placing::initialPlacement(job, progress);
    if (!initial)
        return initial.error();
    placing::Evaluation evaluation(job, policy);
    Found found;
    found.machineOf = initial->machineOf;
    found.seconds = found.initialSeconds = evaluation.seconds(found.machineOf);
    if (const auto colocated = placing::colocatedPlacement(job))
        found.colocatedSeconds = evaluation.seconds(*colocated);
    if (options.search == "initial")
        return found;
    if (options.search == "exhaustive") {
        constexpr std::int64_t kMostPlacements = 1 << 20;
        auto all = placing::exhaustivePlacement(job, policy, kMostPlacements, progress);
        if (!all)
            return all.error();
        found.machineOf = all->best;
        found.seconds = all->bestSeconds;
        found.all = *std::move(all);
        return found;
    }
    placing::ExploreOptions how;
    how.beta = options.beta;
    how.proposals = options.proposals;
    how.patience = options.patience;
    how.seed = static_cast<std::uint64_t>(options.seed);
    how.policy = policy;
    found.exploration = placing::explore(job, found.machineOf, how, progress);
    found.machineOf = found.exploration->machineOf;
    found.seconds = found.exploration->seconds;
    return found;
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

/// Seconds under every policy, beside what no schedule can beat.
ordered_json policiesResult(const gnn::Job &job, const gnn::Placement &machineOf, double lower, Output &output)
{
    ordered_json result = ordered_json::object();
    Table table({"transfers", "all iterations", "over the bound"});
    for (const gnn::TransferPolicy policy : gnn::kTransferPolicies) {
        const double seconds = placing::Evaluation(job, policy).seconds(machineOf);
        table.row({gnn::name(policy), format(Seconds(seconds)), fmt::format("{:.3f}", seconds / lower)});
        result[gnn::name(policy)] = seconds;
    }
    table.print(output);
    return result;
}

ordered_json searchResult(const Found &found, Output &output)
{
    ordered_json result{{"initial_seconds", found.initialSeconds}};
    std::string text = fmt::format("first feasible placement {}", format(Seconds(found.initialSeconds)));
    if (found.colocatedSeconds) {
        result["colocated_seconds"] = *found.colocatedSeconds;
        text += fmt::format(", colocated {}", format(Seconds(*found.colocatedSeconds)));
    }
    if (found.all) {
        result["feasible"] = found.all->feasible;
        result["median_seconds"] = found.all->medianSeconds;
        result["worst_seconds"] = found.all->worstSeconds;
        text += fmt::format("; the best of all {} is {}, the median {}, the worst {}", count(found.all->feasible),
                            format(Seconds(found.seconds)), format(Seconds(found.all->medianSeconds)),
                            format(Seconds(found.all->worstSeconds)));
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
    return path.ends_with(".json") ? exporting::writeChromeTrace(timeline, path) : trace::writeTrace(timeline, path);
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
    const auto job = loadJob(options.job);
    if (!job)
        return job.error();
    Result<Found> found = [&] {
        TerminalProgress progress(output.showsProgress());
        return findPlacement(*job, options, *policy, progress);
    }();
    if (!found)
        return found.error().in(options.job);
    const gnn::Bounds bounds = placing::Evaluation(*job, *policy).bounds(found->machineOf);
    ordered_json result{{"job", options.job}, {"policy", options.policy}, {"iterations", job->volumes.iterations}};
    result["seconds"] = found->seconds;
    result["roles"] = placementResult(*job, found->machineOf, output);
    output.line();
    result["policies"] = policiesResult(*job, found->machineOf, bounds.lower(), output);
    output.line(
        fmt::format("critical path {}, busiest card {} ({} {}); at most {} connections share a direction",
                    format(Seconds(bounds.criticalPath)), format(Seconds(bounds.port)),
                    bounds.portOut ? "out of" : "into",
                    bounds.portMachine >= 0 ? job->machines[static_cast<std::size_t>(bounds.portMachine)].name : "none",
                    bounds.sharing));
    result["bounds"] = {{"critical_path_seconds", bounds.criticalPath},
                        {"port_seconds", bounds.port},
                        {"sharing", bounds.sharing}};
    result["search"] = searchResult(*found, output);
    if (!options.out.empty()) {
        if (Status status = writeFileAtomically(options.out, result.dump(1) + "\n"); !status)
            return status;
        output.line("written to " + options.out);
    }
    if (!options.trace.empty()) {
        if (Status status = writeTimeline(*job, found->machineOf, *policy, options.trace); !status)
            return status;
        output.line("timeline written to " + options.trace);
    }
    if (found->exploration && found->exploration->cancelled)
        output.stoppedEarly("the placement is the best that was found until then");
    output.result(result);
    return {};
}

} // namespace planloom::cli

// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/link_report.h"
#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "engine/import/import.h"
#include "engine/import/model_file.h"
#include "executor/agent/launch.h"
#include "executor/remote/measure.h"
#include "profiler/link_times.h"
#include "profiler/profile_model.h"
#include "profiler/sampling_times.h"
#include "profiler/transport.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unistd.h>

namespace planloom::cli {
namespace {

/// The measurement and its settings.
struct Task {
    std::shared_ptr<const graph::Graph> graph;
    profiler::ProfileOptions how;
    std::optional<plan::Document> plan; ///< whose operators are measured as well, as its ranks execute them
    std::string sampled;                ///< folder of the graph that its job samples; empty: that is not measured
    std::string data;                   ///< whose rows of tables are counted
};

constexpr const char *kProcessors = "cpu";

/// The type of the plan's first device that is no processor; empty: there is none.
std::string gpuTypeOf(const plan::Document &document)
{
    for (const DeviceId id : plan::devicesOf(document.plan)) {
        const cluster::DeviceType &type = document.subject.cluster->typeOf(id);
        if (!type.isProcessor())
            return type.name;
    }
    return {};
}

Result<Task> taskOf(const ProfileOptions &options)
{
    Task task;
    if (options.model.empty() == options.plan.empty())
        return badInput("nothing to measure; give --model or --plan");
    if (!options.plan.empty()) {
        auto document = plan::readPlan(options.plan);
        if (!document)
            return document.error();
        auto whole = import::withFirstValues(document->subject.graph, document->plan.modelSource);
        if (!whole)
            return whole.error();
        document->subject.graph = *std::move(whole);
        task.graph = document->subject.graph;
        task.how.samples = profiler::samplesOf(document->plan);
        task.how.ranks = profiler::ranksOfMachine(document->plan, *document->subject.cluster);
        if (!document->plan.admm) // else measured with the plan alone
            task.how.optimizer = document->plan.optimizer;
        else // the same operators, without a parameter server
            document->plan.admm->parallel = admm::Parallel::Synchronous;
        for (plan::Stage &stage : document->plan.stages)
            stage.memory = {}; // operators are measured one by one, with all that they read in its place
        task.plan = std::move(*document);
        task.data = options.data;
    } else {
        auto model = import::loadModel(options.model, {options.sequence, options.loss, 0});
        if (!model)
            return model.error();
        task.graph = model->graph;
    }
    if (!options.graph.empty() && !task.plan)
        return badInput("--graph measures what samplers of a plan do; give the plan with --plan");
    task.sampled = options.graph;
    task.how.device = options.device;
    if (task.plan && options.device.starts_with("cuda:")) {
        task.how.deviceType = gpuTypeOf(*task.plan);
        if (task.how.deviceType.empty())
            return badInput("the plan has no GPUs: all its devices are of type CPU; measure it with --device cpu");
    }
    if (!options.samples.empty()) {
        const std::set<std::int64_t> sorted(options.samples.begin(), options.samples.end());
        task.how.samples.assign(sorted.begin(), sorted.end());
    }
    task.how.ranks = options.ranks > 0 ? options.ranks : task.how.ranks;
    task.how.threads = options.threads;
    task.how.repetitions = options.repetitions;
    return task;
}

/// Runs the ranks that measure messages and collectives, and waits for them.
Status runRanks(int ranks, const std::string &file, Progress &progress)
{
    // Of groups of each size; the slowest network takes some 60 s, where each of five collectives ends just below the
    // longest round.
    const std::chrono::seconds limit = std::chrono::seconds(120) * std::bit_width(static_cast<unsigned>(ranks));
    constexpr int kReadMilliseconds = 50;
    const agent::Scratch scratch;
    const auto command = agent::ranksCommand(ranks, {"transport", "--out", file}, scratch);
    if (!command)
        return command.error();
    auto child = agent::Child::start(*command);
    if (!child)
        return child.error();
    const auto end = std::chrono::steady_clock::now() + limit;
    std::string said;
    auto exit = child->poll();
    for (; !exit; exit = child->poll()) {
        said += child->read(kReadMilliseconds);
        if (progress.stopped())
            return cancelled();
        if (std::chrono::steady_clock::now() > end)
            return failed(
                fmt::format("the ranks that measure messages did not end within {} s: {}", limit.count(), said));
    }
    if (exit->status != 0 || exit->signal != 0)
        return failed(fmt::format("the ranks that measure messages ended with {}: {}", agent::describe(*exit),
                                  said + child->read(0)));
    return {};
}

/// Times of messages and collectives among as many ranks as the profile is for, between real processes.
Result<profiler::TransportFigures> measureBetweenRanks(int ranks, Progress &progress)
{
    progress.report(1, "measuring messages and collectives");
    const std::string file =
        (std::filesystem::temp_directory_path() / fmt::format("planloom-transport-{}.json", ::getpid())).string();
    const Status ran = runRanks(ranks, file, progress);
    const auto text = ran ? readFile(file) : Result<std::string>(ran.error());
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
    if (!text)
        return text.error();
    return profiler::transportFromText(*text);
}

Result<std::map<std::string, cost::TableRows>> countRows(const Task &task)
{
    const auto needs = data::needsOf(*task.graph);
    if (!needs)
        return needs.error();
    const auto data = data::openDataSet(task.data, *needs);
    if (!data)
        return data.error();
    if (!task.plan->plan.exchange.hasTables())
        return badInput("the plan exchanges no table by rows, so that there are none to count; leave --data out, or "
                        "plan with --exchange "
                        "embrace");
    return profiler::countTableRows(task.plan->plan, task.plan->subject, **data, task.how.seed);
}

Result<cost::Profile> measure(const Task &task, Progress &progress)
{
    // A plan's ranks disturb each other; other measurements only fill gaps.
    constexpr double kPlanSeconds = 2;
    constexpr double kFillInSeconds = 0.3;
    profiler::ProfileOptions how = task.how;
    how.seconds = task.plan ? kFillInSeconds : how.seconds;
    auto profile = profiler::profileModel(task.graph, how, progress);
    if (!profile)
        return profile.error();
    if (task.plan) {
        how.seconds = kPlanSeconds;
        const auto own = profiler::profilePlan(task.plan->plan, task.plan->subject, how, progress);
        if (!own)
            return own.error();
        for (const auto &[signature, times] : own->kernels)
            profile->kernels[signature] = times;
        for (const auto &[key, value] : own->extra)
            profile->extra[key] = value;
        if (!task.sampled.empty()) {
            const plan::BatchForm form = plan::batchFormOf(*task.plan->subject.graph);
            if (const Status sampled =
                    profiler::measureSampling(task.plan->plan, form, task.sampled, task.how.ranks, *profile);
                !sampled)
                return sampled.error();
        }
    }
    if (task.how.ranks > 1 && task.how.device == kProcessors) {
        auto figures = measureBetweenRanks(task.how.ranks, progress);
        if (!figures)
            return figures.error();
        profiler::addTransport(*profile, *std::move(figures));
    }
    return profile;
}

double total(const cost::Profile &profile, double samples, bool backward)
{
    double seconds = 0;
    for (const auto &[name, times] : profile.ops) {
        for (const auto &time : times)
            seconds += time.samples == samples ? (backward ? time.backward : time.forward).value() : 0;
    }
    return seconds;
}

void printProfile(const cost::Profile &profile, const Task &task, Output &output)
{
    output.line(
        fmt::format("profile       {} on {}, {} operators", profile.model, profile.deviceType, profile.ops.size()));
    output.line(fmt::format("source        {}", profile.source));
    Table table({"SAMPLES", "FORWARD", "BACKWARD"});
    for (const std::int64_t samples : task.how.samples) {
        const auto n = static_cast<double>(samples);
        table.row({std::to_string(samples), format(Seconds(total(profile, n, false))),
                   format(Seconds(total(profile, n, true)))});
    }
    table.print(output);
    output.line(fmt::format("kernels       {}", profile.kernels.size()));
    output.line(fmt::format("curves        {}", profile.curves.size()));
    for (const auto &[name, rows] : profile.tables)
        output.line(fmt::format("table         {}: {:.0f} ids a replica and step, {:.1f} rows, {:.0f} % of them prior",
                                name, rows.ids, rows.unique, 100 * rows.prior / rows.unique));
    for (const auto &[key, value] : profile.extra)
        output.line(fmt::format("{:<32} {:.6g}", key, value));
}

/// Where another machine measures, and what of links.
struct Away {
    remote::Target target;
    std::shared_ptr<const cluster::Cluster> cluster; ///< whose links are measured; nullptr: none
};

/// @p task: of operators; nullptr: links alone.
Result<Away> awayOf(const ProfileOptions &options, const Task *task)
{
    const auto target = remote::findTarget(options.on, remote::targetsFile());
    if (!target)
        return target.error();
    if (target->isLocal())
        return badInput("the target local is this machine; leave --on out, or give ssh://user@host");
    Away away{*target, nullptr};
    if (!options.cluster.empty()) {
        const auto cluster = import::loadCluster(options.cluster);
        if (!cluster)
            return cluster.error();
        away.cluster = *cluster;
    } else if (task != nullptr && task->plan && task->plan->subject.cluster->nodes().size() > 1
               && !task->plan->subject.cluster->nodes().front().host.address.empty()) {
        away.cluster = task->plan->subject.cluster;
    }
    if (const Status good = away.cluster ? remote::checkLinks(*away.cluster) : Status(); !good)
        return good.error();
    if (!options.links.empty() && !away.cluster)
        return badInput("no links are measured; give --cluster, or --plan with a plan whose nodes have addresses");
    return away;
}

Result<remote::OperatorsRequest> requestOf(const ProfileOptions &options)
{
    const auto plan = options.plan.empty() ? Result<std::string>(std::string()) : readFile(options.plan);
    if (!plan)
        return plan.error();
    std::error_code unknown;
    const bool isFile = std::filesystem::is_regular_file(options.model, unknown);
    return remote::OperatorsRequest{*plan,
                                    isFile ? absolutePath(options.model) : options.model,
                                    options.device,
                                    options.samples,
                                    options.sequence,
                                    options.ranks,
                                    options.threads,
                                    options.repetitions};
}

Result<cost::Profile> measureAway(const Away &away, const ProfileOptions &options, Output &output, Progress &progress,
                                  const std::atomic<bool> &stop)
{
    const auto request = requestOf(options);
    if (!request)
        return request.error();
    const auto text = remote::measureOperators(
        away.target, *request, [&](const std::string &line) { output.note(line); }, import::needsModelFile, progress,
        stop);
    if (!text)
        return text.error();
    auto profile = cost::profileFromJson(*text);
    if (profile)
        profile->source = fmt::format("on {}: {}", away.target.url(), profile->source);
    return profile;
}

/// What was measured.
struct Measurements {
    std::optional<cost::Profile> profile;
    std::shared_ptr<const cluster::Cluster> nominal;
    std::optional<cluster::Cluster> links; ///< the same with measured figures
};

Result<Measurements> measureAll(const ProfileOptions &options, const Task *task, Output &output,
                                TerminalProgress &progress)
{
    if (options.on.empty()) {
        auto profile = measure(*task, progress);
        return profile ? Measurements{*std::move(profile), {}, {}} : Result<Measurements>(profile.error());
    }
    const auto away = awayOf(options, task);
    if (!away)
        return away.error();
    std::atomic<bool> stop = false;
    const InterruptWatch watch([&] { stop = true; });
    Measurements answer;
    if (task != nullptr) {
        auto profile = measureAway(*away, options, output, progress, stop);
        if (!profile)
            return profile.error();
        answer.profile = *std::move(profile);
    }
    if (!away->cluster)
        return answer;
    const auto text = remote::measureLinks(away->target, *away->cluster, progress, stop);
    const auto times = text ? profiler::linksFromText(*text, away->cluster->nodes().size())
                            : Result<profiler::LinkTimes>(text.error());
    auto links = times ? profiler::withMeasuredLinks(*away->cluster, *times) : Result<cluster::Cluster>(times.error());
    if (!links)
        return links.error();
    answer.nominal = away->cluster;
    answer.links = *std::move(links);
    return answer;
}

/// Writes the profile, and notes it in the workspace.
Status keepProfile(const cost::Profile &profile, const ProfileOptions &options,
                   std::optional<store::Workspace> &workspace)
{
    const std::string text = cost::toJson(profile);
    if (!options.out.empty()) {
        if (auto written = writeFileAtomically(options.out, text); !written)
            return written;
    }
    if (!workspace)
        return {};
    const auto put = workspace->put(store::Kind::Profile, fmt::format("{} on {}", profile.model, profile.deviceType),
                                    options.out, text);
    return put ? Status() : put.error();
}

/// The same of measured links.
Status printLinks(const Measurements &answer, const ProfileOptions &options, Output &output)
{
    const std::string text = cluster::toJson(*answer.links);
    if (!options.links.empty()) {
        if (auto written = writeFileAtomically(options.links, text + "\n"); !written)
            return written;
    }
    const auto links = reportLinks(*answer.nominal, *answer.links, {"NOMINAL", "MEASURED"}, output);
    if (!links)
        return links.error();
    if (!options.links.empty())
        output.line("written to " + options.links);
    nlohmann::ordered_json result{{"links", *links}, {"cluster", nlohmann::ordered_json::parse(text)}};
    if (answer.profile)
        result["profile"] = nlohmann::ordered_json::parse(cost::toJson(*answer.profile));
    output.result(result);
    return {};
}

} // namespace

Status profile(const ProfileOptions &options, Output &output)
{
    for (const std::string &path : {options.out, options.links}) {
        if (auto good = checkWritable(path); !good)
            return good;
    }
    const bool linksAlone = !options.cluster.empty() && options.model.empty();
    if (linksAlone && !options.out.empty())
        return badInput("links alone are no profile; write them with --links, or give --model, too");
    const auto task = linksAlone ? Result<Task>(Task()) : taskOf(options);
    if (!task)
        return task.error();
    auto workspace = openWorkspace(options.workspace);
    if (!workspace)
        return workspace.error();
    TerminalProgress progress(output.showsProgress());
    auto answer = measureAll(options, linksAlone ? nullptr : &*task, output, progress);
    if (answer && answer->profile && !task->data.empty()) {
        progress.report(1, "counting the rows of tables");
        auto tables = countRows(*task);
        if (tables)
            answer->profile->tables = *std::move(tables);
        else
            answer = tables.error();
    }
    progress.clear();
    if (!answer)
        return answer.error();
    if (answer->profile) {
        if (const Status kept = keepProfile(*answer->profile, options, *workspace); !kept)
            return kept;
        printProfile(*answer->profile, *task, output);
        if (!options.out.empty())
            output.line("written to " + options.out);
    }
    if (answer->links)
        return printLinks(*answer, options, output);
    const std::string text = cost::toJson(*answer->profile);
    output.json(text.substr(0, text.find_last_not_of('\n') + 1));
    return {};
}

} // namespace planloom::cli

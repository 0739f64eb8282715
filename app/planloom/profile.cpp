// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "engine/import/import.h"
#include "executor/agent/launch.h"
#include "profiler/profile_model.h"
#include "profiler/sampling_times.h"
#include "profiler/transport.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
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
        task.how.ranks = profiler::ranksOf(document->plan);
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
    if (!task.data.empty()) {
        progress.report(1, "counting the rows of tables");
        auto tables = countRows(task);
        if (!tables)
            return tables.error();
        profile->tables = *std::move(tables);
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

} // namespace

Status profile(const ProfileOptions &options, Output &output)
{
    if (auto good = checkWritable(options.out); !good)
        return good;
    const auto task = taskOf(options);
    if (!task)
        return task.error();
    auto workspace = openWorkspace(options.workspace);
    if (!workspace)
        return workspace.error();
    TerminalProgress progress(output.showsProgress());
    const auto measured = measure(*task, progress);
    progress.clear();
    if (!measured)
        return measured.error();
    const std::string text = cost::toJson(*measured);
    if (!options.out.empty()) {
        if (auto written = writeFileAtomically(options.out, text); !written)
            return written;
    }
    if (*workspace) {
        if (const auto put =
                (*workspace)
                    ->put(store::Kind::Profile, fmt::format("{} on {}", measured->model, measured->deviceType),
                          options.out, text);
            !put)
            return put.error();
    }
    printProfile(*measured, *task, output);
    if (!options.out.empty())
        output.line("written to " + options.out);
    output.json(text.substr(0, text.find_last_not_of('\n') + 1));
    return {};
}

} // namespace planloom::cli

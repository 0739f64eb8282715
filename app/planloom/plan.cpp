// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/report.h"
#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "engine/import/setup/setup.h"
#include "engine/plan/plan_json.h"
#include "engine/plan/training.h"
#include "engine/update/rule_text.h"
#include "executor/data/graph_folder.h"
#include "planners/common/exchange.h"
#include "planners/common/memory_policy.h"
#include "planners/common/explain.h"
#include "planners/common/unlimited_memory.h"
#include "planners/common/why.h"
#include "planners/manual/from_setup.h"
#include "planners/registry.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

/// Beyond this no training is known, and tables of micro-batches would fill the memory.
constexpr std::int64_t kLargestBatch = std::int64_t{1} << 24;

Result<plan::Optimizer> optimizerOf(const PlanOptions &options)
{
    auto rule = update::ruleFromText(options.optimizer);
    if (!rule)
        return badInput("--optimizer: " + rule.error().message);
    if (options.momentum)
        if (const Status known = rule->set("momentum", *options.momentum); !known)
            return badInput("--momentum goes with --optimizer sgd; leave it out or change the optimizer");
    if (const Status good = rule->check(); !good)
        return badInput("--optimizer: " + good.error().message);
    plan::Optimizer optimizer;
    optimizer.learningRate = options.learningRate.value_or(rule->rule().learningRate);
    optimizer.weightDecay = options.weightDecay.value_or(rule->rule().weightDecay);
    optimizer.rule = *std::move(rule);
    optimizer.clipNorm = options.clipNorm;
    optimizer.schedule.kind = plan::learningRateKindFromName(options.learningRateSchedule)
                                  .value_or(plan::LearningRateSchedule::Kind::Constant);
    optimizer.schedule.warmupSteps = options.warmupSteps;
    optimizer.schedule.totalSteps = options.decaySteps;
    optimizer.schedule.minimum = options.minimumLearningRate;
    for (const std::string &pattern : options.noDecay)
        optimizer.groups.push_back({pattern, 0, 1});
    return optimizer;
}

/// Settings of the configuration must not be given twice.
Status checkFrom(const PlanOptions &options)
{
    const PlanOptions untouched;
    if (options.planner != untouched.planner && options.planner != "manual")
        return badInput(fmt::format("--from plans with planner manual, not {}; leave out --planner", options.planner));
    if (!options.annotate.empty())
        return badInput(
            "--annotate and --from exclude each other (planner manual reads no annotations); leave one out");
    if (options.optimizer != untouched.optimizer || options.learningRate || options.momentum || options.weightDecay
        || !options.noDecay.empty() || options.clipNorm != 0
        || options.learningRateSchedule != untouched.learningRateSchedule || options.warmupSteps != 0
        || options.decaySteps != 0 || options.minimumLearningRate != 0 || options.precision != untouched.precision
        || options.zero != 0)
        return badInput("--from sets the training: optimizer, learning rate, precision, ZeRO; leave out these options, "
                        "or change FILE");
    return checkWritable(options.out);
}

/// True if --memory is about the search, not a policy of the plan.
bool isLimit(const std::string &memory) { return memory == "limit" || memory == "ignore"; }

/// An optimizer that would never be asked.
Status checkAdmm(const PlanOptions &options)
{
    const auto after = options.set.find("switch_after");
    if (options.planner != "admm" || !options.optimizerGiven || (after != options.set.end() && after->second != "0"))
        return {};
    return badInput(
        "--optimizer: training by ADMM has no optimizer; leave out --optimizer and its settings "
        "(--learning-rate, --momentum, --weight-decay), or give --set switch_after=3 to go on with it behind "
        "3 iterations");
}

Status checkOptions(const PlanOptions &options)
{
    if (const auto memory = planners::memoryRequest(options.memory); !isLimit(options.memory) && !memory)
        return badInput("--memory: " + memory.error().message
                        + "; --memory limit and --memory ignore are without a policy");
    if (const auto exchange = planners::exchangeRequest(options.exchange); !options.exchange.empty() && !exchange)
        return badInput("--exchange: " + exchange.error().message);
    if (!options.from.empty())
        return checkFrom(options);
    if (const Status admm = checkAdmm(options); !admm)
        return admm;
    if (options.batch < 1 || options.batch > kLargestBatch)
        return badInput(
            fmt::format("--batch {} is not a batch that can be planned; give 1 to {}", options.batch, kLargestBatch));
    if (options.microBatch && (*options.microBatch < 1 || *options.microBatch > options.batch))
        return badInput(fmt::format("--micro-batch {} does not fit a batch of {}; give 1 to {}", *options.microBatch,
                                    options.batch, options.batch));
    if (const auto optimizer = optimizerOf(options); !optimizer)
        return optimizer.error();
    if ((options.decaySteps > 0 || options.minimumLearningRate > 0) && options.learningRateSchedule == "constant")
        return badInput("--decay-steps and --lr-minimum go with --lr-schedule linear or cosine; leave them out or "
                        "change the schedule");
    return checkWritable(options.out);
}

Result<std::vector<plan::Annotation>> annotationsOf(const PlanOptions &options)
{
    std::vector<plan::Annotation> annotations;
    for (const std::string &text : options.annotate) {
        auto annotation = plan::annotationFromText(text);
        if (!annotation)
            return badInput("--annotate " + annotation.error().message);
        annotations.push_back(*std::move(annotation));
    }
    return annotations;
}

std::int64_t largestPeak(const simulate::Report &report)
{
    std::int64_t largest = 0;
    for (const simulate::DeviceReport &device : report.devices)
        largest = std::max(largest, device.peakBytes);
    return largest;
}

ordered_json candidatesJson(const std::vector<planners::Candidate> &candidates)
{
    ordered_json all = ordered_json::array();
    for (const auto &candidate : candidates) {
        ordered_json json = ordered_json::object();
        json["notation"] = plan::notation(candidate.plan);
        json["micro_batches"] = candidate.plan.microBatches;
        json["schedule"] = plan::name(candidate.plan.schedule.kind);
        json["iteration_seconds"] = candidate.simulatedSeconds;
        if (candidate.peakBytes > 0)
            json["peak_bytes"] = candidate.peakBytes;
        all.push_back(json);
    }
    return all;
}

/// The result of one planner of `--planner all`.
struct Row {
    const planners::Planner *planner = nullptr;
    Result<planners::PlanReport> report = cancelled("not run");
};

ordered_json comparisonJson(const std::vector<Row> &rows)
{
    ordered_json all = ordered_json::array();
    for (const Row &row : rows) {
        ordered_json json = ordered_json::object();
        json["planner"] = row.planner->name();
        if (row.report) {
            json["notation"] = plan::notation(row.report->plan);
            json["micro_batches"] = row.report->plan.microBatches;
            json["schedule"] = plan::name(row.report->plan.schedule.kind);
            json["iteration_seconds"] = row.report->predicted.iterationSeconds;
            json["peak_bytes"] = largestPeak(row.report->predicted);
            json["search_seconds"] = row.report->plan.planner.searchSeconds;
            json["complete"] = row.report->complete;
        } else {
            json["error"] = row.report.error().text();
        }
        all.push_back(json);
    }
    return all;
}

/// The plan file with the search's figures in front: itself a plan file, so that `planloom plan --json > PLAN`
/// works, too.
std::string resultJson(const plan::Document &document, const planners::PlanReport &report, const std::vector<Row> &rows)
{
    ordered_json json = ordered_json::object();
    json["notation"] = plan::notation(document.plan);
    json["block_split"] = plan::blockSplit(document.plan, document.subject.layers());
    json["search_seconds"] = document.plan.planner.searchSeconds;
    json["complete"] = report.complete;
    if (!report.space.empty())
        json["space"] = report.space;
    if (!report.notes.empty())
        json["notes"] = report.notes;
    json["alternatives"] = candidatesJson(report.alternatives);
    if (!report.pareto.empty())
        json["pareto"] = candidatesJson(report.pareto);
    if (!rows.empty())
        json["comparison"] = comparisonJson(rows);
    std::string text = plan::toJson(document, json);
    text.pop_back(); // the file's last line end
    return text;
}

void printResult(const plan::Document &document, const planners::PlanReport &report, Output &output)
{
    printPlan(document.plan, document.subject, output);
    output.line();
    output.line("predicted by the simulator");
    printReport(report.predicted, output);
    if (document.plan.why) {
        output.line();
        printWhy(*document.plan.why, report.predicted.iterationSeconds, output);
    }
    if (!document.plan.estimate.empty()) {
        output.line();
        output.line("the planner's own estimate");
        for (const auto &[key, value] : document.plan.estimate)
            output.line(fmt::format("  {:<32} {:.6g}", key, value));
    }
    if (!report.space.empty()) {
        output.line();
        output.line("the plans that the bound is of");
        for (const std::string &choice : report.space)
            output.line("  " + choice);
    }
    if (!report.alternatives.empty()) {
        output.line();
        Table table({"RUNNER-UP", "MICRO-BATCHES", "SCHEDULE", "ITERATION"});
        for (const auto &candidate : report.alternatives)
            table.row({plan::notation(candidate.plan), std::to_string(candidate.plan.microBatches),
                       plan::name(candidate.plan.schedule.kind), format(Seconds(candidate.simulatedSeconds))});
        table.print(output);
    }
    if (report.pareto.size() > 1) {
        output.line();
        Table table({"LESS MEMORY", "PLAN", "MICRO-BATCHES", "SCHEDULE", "ITERATION"});
        for (const auto &candidate : report.pareto)
            table.row({format(Bytes(candidate.peakBytes)), plan::notation(candidate.plan),
                       std::to_string(candidate.plan.microBatches), plan::name(candidate.plan.schedule.kind),
                       format(Seconds(candidate.simulatedSeconds))});
        table.print(output);
    }
    for (const std::string &note : report.notes)
        output.line("note          " + note);
    output.line();
    output.line(fmt::format("searched for {}{}", format(Seconds(document.plan.planner.searchSeconds)),
                            report.complete ? "" : "; stopped early, this is the best so far"));
}

/// Fastest first; then planners without a plan, with the reason.
void printComparison(const std::vector<Row> &rows, Output &output)
{
    Table table({"PLANNER", "PLAN", "MICRO-BATCHES", "SCHEDULE", "ITERATION", "AGAINST BEST", "PEAK", "SEARCH"});
    for (const Row &row : rows) {
        if (!row.report)
            continue;
        const planners::PlanReport &report = *row.report;
        table.row({row.planner->name(), plan::notation(report.plan), std::to_string(report.plan.microBatches),
                   plan::name(report.plan.schedule.kind), format(Seconds(report.predicted.iterationSeconds)),
                   fmt::format("{:.3f} x",
                               report.predicted.iterationSeconds / rows.front().report->predicted.iterationSeconds),
                   format(Bytes(largestPeak(report.predicted))),
                   format(Seconds(report.plan.planner.searchSeconds)) + (report.complete ? "" : ", stopped")});
    }
    table.print(output);
    for (const Row &row : rows) {
        if (!row.report)
            output.line(fmt::format("{} found none: {}", row.planner->name(), row.report.error().text()));
    }
    output.line();
}

Status save(const PlanOptions &options, const plan::Document &document, Output &output)
{
    if (!options.out.empty()) {
        if (auto written = writePlanTo(document, options.out, output); !written)
            return written;
    }
    auto workspace = openWorkspace(options.workspace);
    if (!workspace)
        return workspace.error();
    if (!*workspace)
        return {};
    const std::string name =
        fmt::format("{} on {}: {}", document.plan.modelName, document.plan.clusterName, plan::notation(document.plan));
    const auto put = (*workspace)->put(store::Kind::Plan, name, options.out, plan::toJson(document));
    return put ? Status{} : Status(put.error());
}

/// The problem of one planner.
struct Asked {
    planners::Problem problem;
    planners::Options set;
    std::optional<planners::Problem> unlimited;             ///< the problem to search instead, where memory is ignored
    std::optional<planners::MemoryRequest> memory = {};     ///< policy of the plan that is found; none: the planner's
    std::optional<planners::ExchangeRequest> exchange = {}; ///< of the plan that is found; none: the planner's
    [[nodiscard]] const planners::Problem &searched() const { return unlimited ? *unlimited : problem; }
};

/// Runs the planner and notes how long it took.
Result<planners::PlanReport> search(const planners::Planner &planner, const Asked &asked, const planners::Options &set,
                                    Output &output)
{
    TerminalProgress progress(output.showsProgress());
    const auto begun = std::chrono::steady_clock::now();
    auto report = planner.plan(asked.searched(), set, progress);
    progress.clear();
    if (!report)
        return report;
    report->plan.planner.searchSeconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (asked.exchange)
        report = planners::withExchange(*std::move(report), asked.searched(), *asked.exchange);
    if (report && asked.unlimited)
        report = planners::onDevicesOf(asked.problem, *std::move(report));
    if (report && asked.memory)
        report = planners::withMemoryPolicy(*std::move(report), asked.problem, *asked.memory);
    return report ? planners::explained(*std::move(report), asked.problem) : report;
}

/// Why there is no plan, with a remedy.
Error helped(Error error, const planners::Planner &planner, const planners::Problem &problem,
             const planners::Options &set, Output &output)
{
    TerminalProgress progress(output.showsProgress());
    return planners::withRemedy(std::move(error), planner, problem, set, progress);
}

/// The best of all was preferred to the second planner's plan, if that is better than its own planner's runner-up.
void preferred(std::vector<Row> &rows)
{
    if (rows.size() < 2 || !rows[1].report || !rows[0].report->plan.why)
        return;
    const planners::PlanReport &second = *rows[1].report;
    plan::Plan &best = rows[0].report->plan;
    if (!best.why->runnerUp || second.predicted.iterationSeconds < best.why->runnerUp->iterationSeconds)
        best.why->runnerUp = planners::runnerUpOf(best, second.plan, second.predicted.iterationSeconds);
}

/// Every planner that searches and ran before the user stopped it, fastest answer first. Error: of the
/// first planner, if none found a plan.
Result<std::vector<Row>> searchAll(const Asked &asked, const PlanOptions &options, Output &output)
{
    if (!options.set.empty())
        return badInput("--set goes with one planner, not with --planner all; leave it out or name the planner");
    std::vector<Row> rows;
    for (const planners::Planner *planner : planners::allPlanners()) {
        if (planner->name() == "manual") // it does not search
            continue;
        if (!rows.empty() && interrupted())
            break;
        rows.push_back({planner, search(*planner, asked, {}, output)});
    }
    std::stable_sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
        if (!a.report || !b.report)
            return static_cast<bool>(a.report) && !b.report;
        return a.report->predicted.iterationSeconds < b.report->predicted.iterationSeconds;
    });
    if (!rows.front().report && interrupted())
        return cancelled("stopped on request; no plan was written");
    if (!rows.front().report)
        return helped(rows.front().report.error(), *rows.front().planner, asked.searched(), {}, output);
    preferred(rows);
    if (interrupted()) { // the others were not asked, or not to their end
        rows.front().report->complete = false;
        rows.front().report->plan.estimate["stopped_early"] = 1;
    }
    return rows;
}

/// The graph that is sampled, where one is given.
Status readSampledGraph(const PlanOptions &options, planners::Problem &problem)
{
    if (options.graph.empty())
        return {};
    if (options.planner != "gnn")
        return badInput("--graph is for --planner gnn, which places sampled training; leave it out, or name that "
                        "planner");
    auto graph = data::readGraphFolder(options.graph);
    if (!graph)
        return graph.error();
    const auto note = readFile(options.graph + "/graph.json");
    if (!note)
        return note.error();
    problem.sampledGraph = std::make_shared<const gnn::GraphData>(*std::move(graph));
    problem.sampledGraphHash = sha256(*note);
    return {};
}

/// By the options, or by the configuration of another program.
Result<Asked> askedOf(const PlanOptions &options, Output &output)
{
    auto subject = loadSubject(options.model, {options.sequence, options.loss, options.profileSamples}, options.cluster,
                               options.profile, output);
    const auto precision = plan::precisionFromName(options.precision).value_or(plan::Precision::Float32);
    if (subject)
        subject = asComputedBy(options.framework, *std::move(subject), precision);
    if (!subject)
        return subject.error();
    if (!options.from.empty()) {
        const auto setup = import::loadSetup(options.from);
        if (!setup)
            return setup.error();
        auto request = planners::manual::requestFrom(*setup, *std::move(subject), options.set);
        if (!request)
            return request.error();
        output.note(fmt::format("{}: {}", options.from, setup->format));
        for (const std::string &note : setup->notes)
            output.note(fmt::format("{}: {}", options.from, note));
        for (const std::string &note : request->notes)
            output.note(fmt::format("{}: {}", options.from, note));
        return Asked{std::move(request->problem), std::move(request->options), std::nullopt};
    }
    auto annotations = annotationsOf(options);
    if (!annotations)
        return annotations.error();
    if (precision == plan::Precision::BFloat16 && subject->profile && !subject->profile->ops.empty()
        && subject->profile->kernels.empty())
        output.note("warning: the profile's times were measured in float32 and are taken as they are: bf16 saves "
                    "memory in this prediction, not time");
    return Asked{{plan::inPrecision(*subject, precision), options.batch, options.microBatch, *optimizerOf(options),
                  precision, options.zero, *std::move(annotations)},
                 options.set,
                 std::nullopt};
}

/// @p asked with @p batch samples, in one micro-batch of which each device has an equal share.
Asked withBatch(Asked asked, std::int64_t batch)
{
    for (planners::Problem *problem : {&asked.problem, asked.unlimited ? &*asked.unlimited : nullptr}) {
        if (problem == nullptr)
            continue;
        problem->globalBatch = batch;
        const auto devices = static_cast<std::int64_t>(problem->subject.cluster->devices().size());
        problem->microBatch = std::max<std::int64_t>(1, batch / devices);
    }
    return asked;
}

/// The largest multiple of the batch that was asked for with which the plan fits: doubled until it does not, then by
/// halving what is between. Error: why the first does not fit.
Result<std::int64_t> largestBatch(const planners::Planner &planner, const Asked &asked, Output &output)
{
    const std::int64_t unit = asked.problem.globalBatch;
    const auto tried = [&](std::int64_t units) -> Status {
        const auto report = search(planner, withBatch(asked, units * unit), asked.set, output);
        if (!report)
            return report.error();
        return report->predicted.fits ? Status() : Status(infeasible("the plan does not fit its devices"));
    };
    if (Status first = tried(1); !first)
        return first.error();
    std::int64_t fits = 1;
    std::int64_t fails = 2;
    for (; fails <= kLargestBatch / unit && tried(fails); fails *= 2)
        fits = fails;
    while (fails - fits > 1 && !interrupted()) {
        const std::int64_t middle = fits + (fails - fits) / 2;
        (tried(middle) ? fits : fails) = middle;
    }
    return fits * unit;
}

} // namespace

Status plan(const PlanOptions &options, Output &output)
{
    if (auto good = checkOptions(options); !good)
        return good;
    const bool all = options.planner == "all";
    const std::string name = options.from.empty() ? options.planner : "manual";
    const Result<const planners::Planner *> planner =
        all ? planners::allPlanners().front() : planners::findPlanner(name);
    if (!planner)
        return planner.error();
    auto asked = askedOf(options, output);
    if (asked) {
        if (Status read = readSampledGraph(options, asked->problem); !read)
            return read.error();
    }
    if (asked && !options.exchange.empty())
        asked->exchange = *planners::exchangeRequest(options.exchange); // checkOptions() has read it
    if (asked && !isLimit(options.memory))
        asked->memory = *planners::memoryRequest(options.memory); // checkOptions() has read it
    if (asked && options.memory != "limit" && !(asked->memory && !asked->memory->memory.limits())) {
        auto unlimited = planners::withoutMemoryLimit(asked->problem);
        if (!unlimited)
            return unlimited.error();
        asked->unlimited = *std::move(unlimited);
    }
    if (interrupted())
        return cancelled("stopped on request; no plan was made");
    if (!asked)
        return asked.error();
    if (options.largestBatch) {
        if (all)
            return badInput("--largest-batch searches with one planner; give --planner a name");
        const auto batch = largestBatch(**planner, *asked, output);
        if (!batch)
            return batch.error();
        asked = withBatch(*std::move(asked), *batch);
    }
    const planners::Problem &problem = asked->problem;

    std::vector<Row> rows;
    if (all) {
        auto found = searchAll(*asked, options, output);
        if (!found)
            return found.error();
        rows = *std::move(found);
    }
    const auto report = all ? rows.front().report : search(**planner, *asked, asked->set, output);
    if (!report && interrupted())
        return cancelled("stopped on request; no plan was written");
    if (!report)
        return all ? report.error() : helped(report.error(), **planner, asked->searched(), asked->set, output);
    const plan::Document document{report->plan, problem.subject};
    if (auto saved = save(options, document, output); !saved)
        return saved;
    if (all)
        printComparison(rows, output);
    printResult(document, *report, output);
    if (!options.out.empty())
        output.line("written to " + options.out);
    output.json(resultJson(document, *report, rows));
    if (!report->complete)
        output.stoppedEarly(fmt::format("stopped on request; the plan{} is the best of an incomplete search",
                                        options.out.empty() ? "" : " in " + options.out));
    return {};
}

} // namespace planloom::cli

// SPDX-License-Identifier: Apache-2.0
#include "engine/compare/side.h"

#include "engine/base/files.h"
#include "engine/compile/compile.h"
#include "engine/memory/measured_times.h"
#include "engine/plan/fingerprint.h"
#include "engine/run/settings.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace planloom::compare {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTasksOfAMicroBatch = 8; ///< passes, transfers and collectives of a rank, about

/// Whether a step of the plan has few enough tasks to be traced.
bool isTraced(const plan::Plan &plan)
{
    const auto stages = static_cast<std::int64_t>(plan.stages.size());
    std::int64_t ranks = 0;
    for (const plan::Stage &stage : plan.stages)
        ranks += static_cast<std::int64_t>(stage.devices.size());
    return ranks * plan.microBatches * kTasksOfAMicroBatch <= kMostTasks && stages > 0;
}

std::int64_t bytesInCollectives(const program::Program &program)
{
    double bytes = 0;
    for (const program::Task &task : program.tasks)
        bytes += static_cast<double>(task.bytes()) * program.shareOfSteps(task);
    return static_cast<std::int64_t>(bytes);
}

/// Activations that go to the next stage, and their gradients that come back.
std::int64_t bytesBetweenStages(const plan::Document &document)
{
    const plan::Plan &plan = document.plan;
    const plan::Subject subject = plan::inPrecision(document.subject, plan.precision);
    double bytes = 0;
    for (std::size_t s = 1; s < plan.stages.size(); ++s) {
        if (plan.stages[s].devices == plan.stages[s - 1].devices)
            continue; // copied on the device
        const Bytes cut = subject.layers().cutBytes(*subject.graph, plan.stages[s].firstLayer, plan.globalBatch);
        bytes += 2 * static_cast<double>(cut.value()) * subject.costs->transferShare();
    }
    return static_cast<std::int64_t>(bytes);
}

Status predictSide(Side &side)
{
    const plan::Document &document = side.document;
    if (!isTraced(document.plan)) {
        auto simulation = simulate::simulatePlan(document.plan, document.subject, {false, false});
        if (!simulation)
            return simulation.error().in(side.name);
        side.predicted = std::move(simulation->report);
        return {};
    }
    const auto program = compile::compilePlan(document.plan, document.subject, {.bodies = false});
    if (!program)
        return program.error().in(side.name);
    auto simulation = simulate::simulate(*program, *document.subject.cluster, {true, false});
    if (!simulation)
        return simulation.error().in(side.name);
    side.predicted = std::move(simulation->report);
    side.collectiveBytes = bytesInCollectives(*program);
    side.predictedStep = stepParts(simulation->trace);
    side.predictedTrace = std::make_shared<const trace::Trace>(std::move(simulation->trace));
    return {};
}

/// The records that touch @p window, clipped to it, with times from its begin.
std::shared_ptr<const trace::Trace> cutOut(const trace::Trace &trace, trace::Window window)
{
    auto cut = std::make_shared<trace::Trace>();
    static_cast<trace::Tables &>(*cut) = trace;
    cut->clock = trace.clock;
    cut->plan = trace.plan;
    for (trace::Record record : trace.records) {
        const std::int64_t begin = std::max(record.start, window.begin);
        const std::int64_t end = std::min(record.start + record.duration, window.end);
        if (begin >= end || trace.lane(record.lane).work == trace::Work::Device)
            continue;
        record.start = begin - window.begin;
        record.duration = end - begin;
        record.step = 0;
        cut->records.push_back(record);
    }
    return cut;
}

/// The trace of the run's steps, and of its first course, where it went on with another.
Status traceSide(Side &side, const fs::path &folder)
{
    std::error_code unknown;
    bool newest = true;
    for (const char *name : {run::kMeasuredTraceFile, "trace.pltrace"}) {
        if (!fs::exists(folder / name, unknown))
            continue;
        const auto trace = trace::readTrace((folder / name).string());
        if (!trace)
            return trace.error();
        if (trace->records.empty())
            continue;
        const StepParts parts = stepParts(*trace);
        if (parts.length == 0)
            continue;
        const auto median = cutOut(*trace, parts.window);
        if (std::exchange(newest, false)) {
            side.measuredStep = parts;
            side.measuredTrace = median;
        }
        side.firstStep = parts;
        side.firstTrace = median;
    }
    return {};
}

/// Median of the steps [@p from, @p end), without the first of them, which warms up.
double medianOf(const std::vector<run::StepMetrics> &steps, std::int64_t from, std::int64_t end)
{
    std::vector<run::StepMetrics> chosen;
    for (const run::StepMetrics &step : steps)
        if (step.step >= from && step.step < end)
            chosen.push_back(step);
    return run::medianSeconds(chosen);
}

Status addCourses(Side &side, const fs::path &folder)
{
    const auto change = courseChange(side.document, folder.string());
    if (!change)
        return change.error();
    if (*change)
        side.courses = coursesOf(**change, side.steps, side.predicted.iterationSeconds);
    return {};
}

Status addSteps(Side &side, const fs::path &folder)
{
    const fs::path file = folder / "metrics.jsonl";
    std::error_code unknown;
    if (!fs::exists(file, unknown))
        return {};
    const auto text = readFile(file);
    if (!text)
        return text.error();
    auto steps = run::metricsFromJson(*text);
    if (!steps)
        return steps.error().in(file.string());
    side.steps = *std::move(steps);
    return {};
}

} // namespace

Result<std::optional<CourseChange>> courseChange(const plan::Document &document, const std::string &folder)
{
    const bool measures =
        std::ranges::any_of(document.plan.stages, [](const plan::Stage &stage) { return stage.memory.measures(); });
    const fs::path file = fs::path(folder) / run::kMeasuredTimesFile;
    std::error_code unknown;
    if (!measures || !fs::exists(file, unknown))
        return std::optional<CourseChange>();
    const auto text = readFile(file);
    if (!text)
        return text.error();
    const auto times = memory::runTimesFromJson(*text);
    if (!times)
        return times.error().in(file.string());
    const auto later = simulate::simulatePlan(document.plan, document.subject, {false, false, nullptr, &*times});
    if (!later)
        return later.error().in(file.string());
    std::int64_t begin = 0;
    const fs::path asked = fs::path(folder) / "request.json";
    if (fs::exists(asked, unknown)) { // a run that was resumed measures anew
        const auto request = run::readRequest(asked.string());
        if (!request)
            return request.error();
        begin = std::min(times->fromStep, request->from.step);
    }
    return std::optional(CourseChange{begin, times->fromStep, later->report.iterationSeconds});
}

std::vector<Course> coursesOf(const CourseChange &change, const std::vector<run::StepMetrics> &steps, double logical)
{
    const std::int64_t from = change.fromStep;
    const std::int64_t end = steps.empty() ? from : std::max(from, steps.back().step + 1);
    return {{false, change.begin, from - change.begin, medianOf(steps, change.begin, from), logical},
            {true, from, end - from, medianOf(steps, from, end), change.predicted}};
}

std::int64_t Side::peakPredicted() const
{
    std::int64_t peak = 0;
    for (const auto &device : predicted.devices)
        peak = std::max(peak, device.peakBytes);
    return peak;
}

Result<Side> sideOf(plan::Document document, std::string name)
{
    Side side;
    side.name = std::move(name);
    side.document = std::move(document);
    side.planHash = plan::fingerprint(side.document);
    side.work = plan::modelWork(side.document);
    side.transferBytes = bytesBetweenStages(side.document);
    if (const Status predicted = predictSide(side); !predicted)
        return predicted.error();
    return side;
}

namespace {

Result<Side> withMeasured(Side side, std::optional<run::Summary> summary, const std::string &folder)
{
    side.isRun = true;
    side.measured = std::move(summary);
    for (const auto add : {addSteps, addCourses, traceSide})
        if (const Status added = add(side, fs::path(folder)); !added)
            return added.error();
    return side;
}

/// What is predicted of @p other.
Side predictedOf(const Side &other, std::string name)
{
    Side side;
    side.name = std::move(name);
    side.document = other.document;
    side.planText = other.planText;
    side.planHash = other.planHash;
    side.work = other.work;
    side.predicted = other.predicted;
    side.collectiveBytes = other.collectiveBytes;
    side.transferBytes = other.transferBytes;
    side.predictedStep = other.predictedStep;
    side.predictedTrace = other.predictedTrace;
    return side;
}

/// Of the plan in @p file of the run in @p folder.
Result<Side> predictedOfFile(const fs::path &file, const std::string &folder,
                             const std::vector<std::shared_ptr<const Side>> &others)
{
    auto text = readFile(file);
    if (!text)
        return text.error();
    for (const auto &other : others)
        if (other && other->planText && *other->planText == *text)
            return predictedOf(*other, folder);
    auto document = plan::readPlan(file.string());
    if (!document)
        return document.error();
    auto side = sideOf(*std::move(document), folder);
    if (side)
        side->planText = std::make_shared<const std::string>(*std::move(text));
    return side;
}

} // namespace

Result<Side> sideOfRun(plan::Document document, std::optional<run::Summary> summary, const std::string &folder)
{
    auto side = sideOf(std::move(document), folder);
    return side ? withMeasured(*std::move(side), std::move(summary), folder) : side;
}

Result<Side> sideOfRun(const std::string &folder, const std::vector<std::shared_ptr<const Side>> &others)
{
    const fs::path base(folder);
    std::error_code unknown;
    if (!fs::exists(base / "plan.json", unknown))
        return notFound("is not the folder of a run (it has no plan.json); choose one that planloom train made")
            .in(folder);
    auto side = predictedOfFile(base / "plan.json", folder, others);
    if (!side)
        return side;
    std::optional<run::Summary> summary;
    if (const fs::path file = base / "summary.json"; fs::exists(file, unknown)) {
        const auto text = readFile(file);
        if (!text)
            return text.error();
        auto read = run::summaryFromJson(*text);
        if (!read)
            return read.error().in(file.string());
        summary = *std::move(read);
    }
    return withMeasured(*std::move(side), std::move(summary), folder);
}

} // namespace planloom::compare

// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/report.h"
#include "app/planloom/sources.h"
#include "app/planloom/verbs.h"
#include "engine/plan/difference.h"
#include "engine/simulate/simulate.h"
#include "profiler/comparison.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

/// A plan with its simulated or, for a run, its measured figures.
struct Side {
    std::string path;
    plan::Document document;
    simulate::Report predicted;
    std::optional<run::Summary> measured;
    bool isRun = false;

    /// The figure to compare: measured if available.
    [[nodiscard]] double iterationSeconds() const
    {
        return measured ? measured->iterationSecondsMedian : predicted.iterationSeconds;
    }
    [[nodiscard]] double samplesPerSecond() const
    {
        const double seconds = iterationSeconds();
        return seconds > 0 ? predicted.samplesPerIteration() / seconds : 0;
    }
    [[nodiscard]] std::int64_t peakBytes() const
    {
        std::int64_t peak = 0;
        for (const auto &device : predicted.devices)
            peak = std::max(peak, device.peakBytes);
        return measured && !measured->peakBytesMeasured.empty()
            ? *std::max_element(measured->peakBytesMeasured.begin(), measured->peakBytesMeasured.end())
            : peak;
    }
};

Result<Side> load(const std::string &path)
{
    Side side;
    side.path = path;
    side.isRun = isRunFolder(path);
    if (side.isRun) {
        auto run = readRun(path);
        if (!run)
            return run.error();
        side.document = std::move(run->document);
        side.measured = run->summary;
    } else {
        auto document = plan::readPlan(path);
        if (!document)
            return document.error();
        side.document = *std::move(document);
    }
    auto simulation = simulate::simulatePlan(side.document.plan, side.document.subject, {false, false});
    if (!simulation)
        return simulation.error().in(path);
    side.predicted = std::move(simulation->report);
    return side;
}

/// The time of each task: measured for a run, else predicted.
Result<trace::Trace> traceOf(const Side &side)
{
    if (side.isRun)
        return readRunTrace(side.path);
    auto simulation = simulate::simulatePlan(side.document.plan, side.document.subject, {true, false});
    if (!simulation)
        return simulation.error().in(side.path);
    return std::move(simulation->trace);
}

/// Task by task, where the two have the same tasks and something was measured and traced.
struct TaskComparison {
    std::optional<profiler::Comparison> tasks;
    std::string missing; ///< why there are none, where one would look for them
};

std::string whyNoRecords(const Side &side)
{
    const bool changes = side.measured && side.measured->thenFrom > 0;
    return fmt::format("tasks are not compared: the trace of {} is empty; {}", side.path,
                       changes
                           ? "of such a plan the iterations by ADMM alone are traced, and it made none since it was "
                             "resumed, or was not to record them (train --trace)"
                           : "its steps were not recorded (train --trace)");
}

Result<TaskComparison> compareTasks(const Side &a, const Side &b, bool samePlan)
{
    if (!samePlan || !(a.measured || b.measured))
        return TaskComparison();
    const auto first = traceOf(a);
    if (!first)
        return first.error();
    const auto second = traceOf(b);
    if (!second)
        return second.error();
    if (first->records.empty() || second->records.empty())
        return TaskComparison{std::nullopt, whyNoRecords(first->records.empty() ? a : b)};
    // A prediction is laid over a measurement, whichever was named first.
    return TaskComparison{b.isRun ? profiler::compare(*first, *second) : profiler::compare(*second, *first), {}};
}

ordered_json sideJson(const Side &side)
{
    ordered_json json = ordered_json::object();
    json["path"] = side.path;
    json["kind"] = side.isRun ? "run" : "plan";
    json["model"] = side.document.plan.modelName;
    json["cluster"] = side.document.plan.clusterName;
    json["notation"] = plan::notation(side.document.plan);
    json["iteration_seconds"] = side.iterationSeconds();
    json["samples_per_second"] = side.samplesPerSecond();
    json["peak_bytes"] = side.peakBytes();
    json["predicted"] = ordered_json::parse(simulate::toJson(side.predicted));
    json["summary"] = side.measured ? ordered_json::parse(run::toJson(*side.measured)) : ordered_json();
    return json;
}

void printSides(const Side &a, const Side &b, Output &output)
{
    Table table({"", "A", "B"});
    const auto row = [&](const char *what, const auto &value) { table.row({what, value(a), value(b)}); };
    row("", [](const Side &side) { return side.path; });
    row("model", [](const Side &side) { return side.document.plan.modelName; });
    row("cluster", [](const Side &side) { return side.document.plan.clusterName; });
    row("plan", [](const Side &side) { return plan::notation(side.document.plan); });
    row("planner", [](const Side &side) { return side.document.plan.planner.name; });
    row("schedule", [](const Side &side) { return std::string(plan::name(side.document.plan.schedule.kind)); });
    row("batch", [](const Side &side) {
        return fmt::format("{} in {}", side.document.plan.globalBatch, side.document.plan.microBatches);
    });
    row("predicted", [](const Side &side) { return format(Seconds(side.predicted.iterationSeconds)); });
    row("measured", [](const Side &side) {
        return side.measured ? format(Seconds(side.measured->iterationSecondsMedian)) : std::string("-");
    });
    if ((a.measured && a.measured->thenFrom > 0) || (b.measured && b.measured->thenFrom > 0))
        row("then, by gradients", [](const Side &side) {
            return side.measured && side.measured->thenFrom > 0 ? format(Seconds(side.measured->thenSecondsMedian))
                                                                : std::string("-");
        });
    row("samples/s", [](const Side &side) { return fmt::format("{:.4g}", side.samplesPerSecond()); });
    row("bubble", [](const Side &side) { return percent(side.predicted.bubbleFraction); });
    row("fullest device", [](const Side &side) { return format(Bytes(side.peakBytes())); });
    row("last loss", [](const Side &side) {
        return side.measured ? fmt::format("{:.6g}", side.measured->lossLast) : std::string("-");
    });
    table.print(output);
    for (const Side *side : {&a, &b}) {
        if (side->measured)
            noteOnProcessors(side->path, *side->measured, output);
    }
}

} // namespace

Status compare(const CompareOptions &options, Output &output)
{
    if (isGpuCheck(options.a) || isGpuCheck(options.b))
        return compareGpuChecks(options, output);
    const auto a = load(options.a);
    if (!a)
        return a.error();
    const auto b = load(options.b);
    if (!b)
        return b.error();
    auto differences = plan::difference(a->document.plan, b->document.plan);
    const bool samePlan = differences.empty();
    for (std::string &line : plan::difference(a->document.subject, b->document.subject))
        differences.push_back(std::move(line));
    const double speedup = b->iterationSeconds() > 0 ? a->iterationSeconds() / b->iterationSeconds() : 0;
    const auto tasks = compareTasks(*a, *b, samePlan);
    if (!tasks)
        return tasks.error();
    printSides(*a, *b, output);
    output.line();
    if (speedup > 0)
        output.line(fmt::format("B takes {:.3g} times as long as A", 1 / speedup));
    for (const auto &[name, side] : {std::pair("A", &*a), std::pair("B", &*b)})
        if (side->isRun && !side->measured)
            output.line(fmt::format("{} is a run without a summary: its prediction counts", name));
    if (differences.empty())
        output.line("the plans are the same");
    for (const auto &difference : differences)
        output.line("  " + difference);
    if (tasks->tasks) {
        output.line();
        const bool twoRuns = a->isRun && b->isRun;
        output.line(
            profiler::toText(*tasks->tasks, twoRuns ? profiler::ComparedNames{"A", "B"} : profiler::ComparedNames()));
    }
    if (!tasks->missing.empty())
        output.line(tasks->missing);
    output.result(
        ordered_json{{"a", sideJson(*a)},
                     {"b", sideJson(*b)},
                     {"speedup_of_b", speedup},
                     {"differences", differences},
                     {"tasks", tasks->tasks ? ordered_json::parse(profiler::toJson(*tasks->tasks)) : ordered_json()},
                     {"tasks_missing", tasks->missing}});
    return {};
}

} // namespace planloom::cli

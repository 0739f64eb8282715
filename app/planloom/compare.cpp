// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/link_report.h"
#include "app/planloom/overlay_report.h"
#include "app/planloom/report.h"
#include "app/planloom/sources.h"
#include "app/planloom/trace_report.h"
#include "app/planloom/verbs.h"
#include "engine/compare/comparison.h"
#include "engine/plan/difference.h"
#include "engine/simulate/simulate.h"
#include "profiler/comparison.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

using compare::Side;

/// The figure to compare: measured if available.
double iterationSeconds(const Side &side)
{
    return side.measured ? side.measured->iterationSecondsMedian : side.predicted.iterationSeconds;
}

double samplesPerSecond(const Side &side)
{
    const double seconds = iterationSeconds(side);
    return seconds > 0 ? side.predicted.samplesPerIteration() / seconds : 0;
}

bool isMeasured(const Side &side) { return side.measured && side.measured->iterationSecondsMedian > 0; }

std::int64_t peakBytes(const Side &side)
{
    return side.measured && !side.measured->peakBytesMeasured.empty()
        ? *std::ranges::max_element(side.measured->peakBytesMeasured)
        : side.peakPredicted();
}

Result<Side> load(const std::string &path)
{
    if (isRunFolder(path)) {
        auto run = readRun(path);
        if (!run)
            return run.error();
        return compare::sideOfRun(std::move(run->document), std::move(run->summary), path);
    }
    auto document = plan::readPlan(path);
    if (!document)
        return document.error();
    return compare::sideOf(*std::move(document), path);
}

/// The time of each task: measured for a run, else predicted.
Result<trace::Trace> traceOf(const Side &side)
{
    if (side.isRun)
        return readRunTrace(side.name);
    auto simulation = simulate::simulatePlan(side.document.plan, side.document.subject, {true, false});
    if (!simulation)
        return simulation.error().in(side.name);
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
    return fmt::format("tasks are not compared: the trace of {} is empty; {}", side.name,
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
    json["path"] = side.name;
    json["kind"] = side.isRun ? "run" : "plan";
    json["model"] = side.document.plan.modelName;
    json["cluster"] = side.document.plan.clusterName;
    json["notation"] = plan::notation(side.document.plan);
    json["iteration_seconds"] = iterationSeconds(side);
    json["samples_per_second"] = samplesPerSecond(side);
    json["peak_bytes"] = peakBytes(side);
    json["predicted"] = ordered_json::parse(simulate::toJson(side.predicted));
    json["summary"] = side.measured ? ordered_json::parse(run::toJson(*side.measured)) : ordered_json();
    return json;
}

/// Sides and their figures, with the differences of those that are the same quantity.
void printSides(const compare::Comparison &compared, Output &output)
{
    const Side &a = compared.a;
    const Side &b = compared.b;
    Table table({"", "A", "B", "Δ", "Δ %"});
    const auto row = [&](const char *what, const auto &value) { table.row({what, value(a), value(b), "", ""}); };
    /// With differences, unless one is measured and the other predicted, and they are of different plans.
    const auto figure = [&](const char *what, compare::Unit unit, const auto &number, const auto &value) {
        const bool alike = !compared.basis.firstCourse && compared.basis.measuredA == isMeasured(a)
            && compared.basis.measuredB == isMeasured(b);
        const compare::Figure both{{}, {}, {}, unit, number(a), number(b), alike};
        table.row({what, value(a), value(b), compare::deltaText(both), compare::changeText(both)});
    };
    const auto predictedOnly = [&](const char *what, compare::Unit unit, const auto &number, const auto &value) {
        const compare::Figure both{{}, {}, {}, unit, number(a), number(b)};
        table.row({what, value(a), value(b), compare::deltaText(both), compare::changeText(both)});
    };
    row("", [](const Side &side) { return side.name; });
    row("model", [](const Side &side) { return side.document.plan.modelName; });
    row("cluster", [](const Side &side) { return side.document.plan.clusterName; });
    row("plan", [](const Side &side) { return plan::notation(side.document.plan); });
    row("planner", [](const Side &side) { return side.document.plan.planner.name; });
    row("schedule", [](const Side &side) { return std::string(plan::name(side.document.plan.schedule.kind)); });
    row("batch", [](const Side &side) {
        return fmt::format("{} in {}", side.document.plan.globalBatch, side.document.plan.microBatches);
    });
    using compare::Unit;
    predictedOnly(
        "predicted", Unit::Seconds, [](const Side &side) { return side.predicted.iterationSeconds; },
        [](const Side &side) { return format(Seconds(side.predicted.iterationSeconds)); });
    const auto measuredOrNone = [](const Side &side, double run::Summary::*value) {
        return side.measured ? std::optional((*side.measured).*value) : std::nullopt;
    };
    figure(
        "measured", Unit::Seconds,
        [&](const Side &side) { return measuredOrNone(side, &run::Summary::iterationSecondsMedian); },
        [](const Side &side) {
            return side.measured ? format(Seconds(side.measured->iterationSecondsMedian)) : std::string("-");
        });
    const auto changes = [](const Side &side) { return side.measured && side.measured->thenFrom > 0; };
    if (changes(a) || changes(b))
        row("then, by gradients", [&](const Side &side) {
            return changes(side) ? format(Seconds(side.measured->thenSecondsMedian)) : std::string("-");
        });
    figure("samples/s", Unit::Rate, samplesPerSecond,
           [](const Side &side) { return fmt::format("{:.4g}", samplesPerSecond(side)); });
    predictedOnly(
        "bubble", Unit::Share, [](const Side &side) { return side.predicted.bubbleFraction; },
        [](const Side &side) { return percent(side.predicted.bubbleFraction); });
    figure(
        "fullest device", Unit::Bytes, [](const Side &side) { return static_cast<double>(peakBytes(side)); },
        [](const Side &side) { return format(Bytes(peakBytes(side))); });
    figure(
        "last loss", Unit::Value, [&](const Side &side) { return measuredOrNone(side, &run::Summary::lossLast); },
        [](const Side &side) {
            return side.measured ? fmt::format("{:.6g}", side.measured->lossLast) : std::string("-");
        });
    table.print(output);
    for (const Side *side : {&a, &b}) {
        if (side->measured)
            noteOnProcessors(side->name, *side->measured, output);
    }
}

/// All figures, by groups.
void printFigures(const compare::Comparison &compared, Output &output)
{
    std::string group;
    Table table({"", "A", "B", "Δ", "Δ %"});
    for (const compare::Figure &figure : compared.figures) {
        if (figure.group != group)
            table.row({figure.group, "", "", "", ""});
        group = figure.group;
        table.row({"  " + figure.name, compare::valueText(figure.unit, figure.a),
                   compare::valueText(figure.unit, figure.b), compare::deltaText(figure), compare::changeText(figure)});
    }
    output.line();
    table.print(output);
}

/// From A's step to B's, kind by kind.
void printWaterfall(const compare::Waterfall &waterfall, Output &output)
{
    if (!waterfall.missing.empty())
        return;
    const auto time = [](std::int64_t nanoseconds) { return format(Seconds(static_cast<double>(nanoseconds) * 1e-9)); };
    Table table({"FROM A TO B", "BY", "AT"});
    std::int64_t at = waterfall.from;
    table.row({"step of A", "", time(at)});
    for (const compare::Waterfall::Delta &delta : waterfall.deltas) {
        at += delta.change;
        table.row({delta.kind.name, (delta.change < 0 ? "-" : "+") + time(std::abs(delta.change)), time(at)});
    }
    table.row({"step of B", "", time(waterfall.to)});
    output.line();
    table.print(output);
}

/// A line per bin that has steps.
void printHistogram(const compare::Histogram &histogram, Output &output)
{
    if (histogram.empty())
        return;
    Table table({"STEPS THAT TOOK", "A", "B"});
    for (std::size_t bin = 0; bin < histogram.a.size(); ++bin) {
        if (histogram.a[bin] == 0 && histogram.b[bin] == 0)
            continue;
        const double from = histogram.begin + histogram.width * static_cast<double>(bin);
        const bool open = histogram.lastIsOpen && bin + 1 == histogram.a.size();
        table.row({open ? format(Seconds(from)) + " or more"
                        : format(Seconds(from)) + " to " + format(Seconds(from + histogram.width)),
                   std::to_string(histogram.a[bin]), std::to_string(histogram.b[bin])});
    }
    output.line();
    table.print(output);
}

/// How B's step compares with A's, what is missing, and in what the plans differ.
void printDifferences(const compare::Comparison &compared, double speedup, Output &output)
{
    output.line();
    if (speedup > 0)
        output.line(fmt::format("B takes {:.3g} times as long as A", 1 / speedup));
    for (const std::string &note : compared.notes)
        output.line(note);
    if (compared.differences.empty())
        output.line("the plans are the same");
    for (const std::string &difference : compared.differences)
        output.line("  " + difference);
}

void printTasks(const TaskComparison &tasks, bool twoRuns, Output &output)
{
    if (tasks.tasks) {
        output.line();
        output.line(
            profiler::toText(*tasks.tasks, twoRuns ? profiler::ComparedNames{"A", "B"} : profiler::ComparedNames()));
    }
    if (!tasks.missing.empty())
        output.line(tasks.missing);
}

} // namespace

Status compare(const CompareOptions &options, Output &output)
{
    if (isGpuCheck(options.a) || isGpuCheck(options.b))
        return compareGpuChecks(options, output);
    const auto isForeign = [](const std::string &path) { return isTraceFile(path) && !path.ends_with(".pltrace"); };
    if (isForeign(options.b) && holdsPlan(options.a))
        return compareWithTrace(options.a, options.b, output);
    if (isForeign(options.a) && holdsPlan(options.b))
        return compareWithTrace(options.b, options.a, output);
    if (isTraceFile(options.a) || isTraceFile(options.b))
        return compareTraces(options.a, options.b, output);
    if (isCluster(options.a) && isCluster(options.b))
        return compareClusters(options.a, options.b, output);
    auto a = load(options.a);
    if (!a)
        return a.error();
    auto b = load(options.b);
    if (!b)
        return b.error();
    const bool samePlan = plan::difference(a->document.plan, b->document.plan).empty();
    const auto tasks = compareTasks(*a, *b, samePlan);
    if (!tasks)
        return tasks.error();
    const compare::Comparison compared = compare::compare(*std::move(a), *std::move(b));
    const compare::Figure &step = compared.figures.front(); // of equal quantities, whichever those are
    const double speedup = step.a && step.b ? *step.a / *step.b : 0;
    printSides(compared, output);
    printFigures(compared, output);
    printWaterfall(compared.waterfall, output);
    printHistogram(compared.histogram, output);
    printDifferences(compared, speedup, output);
    printTasks(*tasks, compared.a.isRun && compared.b.isRun, output);
    output.result(
        ordered_json{{"a", sideJson(compared.a)},
                     {"b", sideJson(compared.b)},
                     {"speedup_of_b", speedup},
                     {"differences", compared.differences},
                     {"tasks", tasks->tasks ? ordered_json::parse(profiler::toJson(*tasks->tasks)) : ordered_json()},
                     {"tasks_missing", tasks->missing},
                     {"compared", ordered_json::parse(compare::toJson(compared))}});
    return {};
}

} // namespace planloom::cli

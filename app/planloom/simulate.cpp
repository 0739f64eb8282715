// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/simulate.h"

#include "app/planloom/gate.h"
#include "app/planloom/report.h"
#include "app/planloom/sources.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "engine/compile/compile.h"
#include "engine/compile/memory_figures.h"
#include "engine/export/decisions.h"
#include "engine/export/export.h"
#include "engine/import/pytorch_schedule.h"
#include "engine/plan/fingerprint.h"
#include "executor/runtime/measured_course.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

/// Gives the plan the order of the schedule in @p file, if one is named.
Status takeOrder(const std::string &file, plan::Document &document)
{
    if (file.empty())
        return {};
    const auto text = readFile(file);
    if (!text)
        return text.error();
    auto schedule = import::readPytorchSchedule(*text, file, document.plan, *document.subject.cluster);
    if (!schedule)
        return schedule.error();
    document.plan.schedule = *std::move(schedule);
    return {};
}

/// With the names of tensors, which only bodies have.
Status writeDecisions(const plan::Document &document, const memory::RunTimes *times, const std::string &file)
{
    const auto program = compile::compilePlan(document.plan, document.subject, {.times = times});
    if (!program)
        return program.error();
    return writeFileAtomically(file, exporting::decisionLog(*program, *document.subject.cluster));
}

/// Of the file that is named; nothing: none is.
Result<std::optional<memory::RunTimes>> measuredTimes(const SimulateOptions &options, const plan::Plan &plan)
{
    if (options.times.empty())
        return std::optional<memory::RunTimes>();
    if (!runtime::decidesByMeasured(plan))
        return badInput("no memory policy of the plan decides by measured times; leave out --times, or plan with "
                        "--memory POLICY,clock=measured")
            .in(options.plan);
    auto times = readMeasuredTimes(options.times);
    return times ? Result<std::optional<memory::RunTimes>>(*std::move(times)) : times.error();
}

/// Whose seconds policies decide by, where a run would not go on with those.
std::string clockOf(const plan::Plan &plan, const std::optional<memory::RunTimes> &times)
{
    if (times)
        return fmt::format("clock         what a run has measured, for its steps from {} on", times->fromStep);
    return runtime::decidesByMeasured(plan) ? fmt::format(
               "clock         logical: policies are predicted by the cost model's seconds; a run decides anew by "
               "what it measures in its first {} steps",
               runtime::OperatorTimes::kSteps)
                                            : std::string();
}

/// The report with what memory policies do, where a stage has one (memory_clock, memory_stall_seconds,
/// memory_fragmented), and the verdicts, where limits were given (limits).
std::string jsonOf(const simulate::Report &report, const std::optional<compile::MemoryFigures> &memory, bool measured,
                   const std::vector<Verdict> &verdicts)
{
    std::string text = simulate::toJson(report);
    text.pop_back(); // the end of the object
    if (memory)
        text += fmt::format(",\"memory_clock\":\"{}\",\"memory_stall_seconds\":{},\"memory_fragmented\":{}",
                            measured ? "measured" : "logical", memory->stallSeconds, memory->fragmented);
    ordered_json limits = ordered_json::array();
    for (const Verdict &verdict : verdicts)
        limits.push_back(
            ordered_json{{"limit", verdict.condition.text},
                         {"value", verdict.value},
                         {"device", verdict.device.empty() ? ordered_json() : ordered_json(verdict.device)},
                         {"passed", verdict.failed}});
    if (!verdicts.empty())
        text += fmt::format(",\"limits\":{}", limits.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    return text + "}";
}

void printVerdicts(const std::vector<Verdict> &verdicts, Output &output)
{
    std::string passed;
    for (const Verdict &verdict : verdicts) {
        const std::string text = fmt::format("{}: is {}", verdict.condition.text, verdict.valueText());
        output.line(fmt::format("limit         {}{}", text, verdict.failed ? ", PASSED" : ""));
        if (verdict.failed)
            passed += (passed.empty() ? "" : "; ") + text;
    }
    if (!passed.empty())
        output.limitPassed("the prediction passes a limit of --fail-if: " + passed);
}

} // namespace

Status simulate(const SimulateOptions &options, Output &output)
{
    const auto conditions = parseConditions(options.failIf);
    if (!conditions)
        return conditions.error();
    for (const std::string &file : {options.trace, options.csv, options.out, options.decisions})
        if (auto good = checkWritable(file); !good)
            return good;
    auto document = readPlanOrRun(options.plan);
    if (!document)
        return document.error();
    auto computed = asComputedBy(options.framework, document->subject, document->plan.precision);
    if (!computed)
        return computed.error();
    if (computed->costs != document->subject.costs)
        document->subject = plan::inPrecision(*computed, document->plan.precision);
    if (const Status ordered = takeOrder(options.order, *document); !ordered)
        return ordered;
    const auto times = measuredTimes(options, document->plan);
    if (!times)
        return times.error();
    const memory::RunTimes *timesOf = *times ? &**times : nullptr;
    auto simulation = simulate::simulatePlan(document->plan, document->subject,
                                             {!options.trace.empty() || !options.csv.empty(), false, nullptr, timesOf});
    if (!simulation)
        return simulation.error().in(options.plan);
    std::optional<compile::MemoryFigures> memory;
    if (std::ranges::any_of(document->plan.stages, [](const plan::Stage &stage) { return stage.memory.limits(); })) {
        const auto figures = compile::memoryFigures(document->plan, document->subject, timesOf);
        if (!figures)
            return figures.error();
        memory = *figures;
    }
    if (!options.trace.empty()) {
        simulation->trace.plan = plan::fingerprint(*document);
        if (auto written = exporting::writeTraceAs(simulation->trace, options.trace); !written)
            return written;
    }
    if (!options.csv.empty())
        if (auto written = exporting::writeTaskTable(simulation->trace, options.csv); !written)
            return written;
    if (!options.decisions.empty())
        if (auto written = writeDecisions(*document, timesOf, options.decisions); !written)
            return written;
    if (!options.out.empty()) {
        document->plan.predictedJson = simulate::toJson(simulation->report);
        if (auto written = writePlanTo(*document, options.out, output); !written)
            return written;
    }
    printPlan(document->plan, document->subject, output);
    output.line();
    printReport(simulation->report, output);
    if (memory)
        output.line(fmt::format(
            "policies      operators of all devices wait {} for copies; free memory was fragmented {} time{}",
            format(Seconds(memory->stallSeconds)), memory->fragmented, memory->fragmented == 1 ? "" : "s"));
    if (const std::string clock = clockOf(document->plan, *times); !clock.empty())
        output.line(clock);
    if (!options.trace.empty())
        output.line("trace written to " + options.trace);
    if (!options.csv.empty())
        output.line("tasks written to " + options.csv);
    const std::vector<Verdict> verdicts = judge(*conditions, simulation->report);
    printVerdicts(verdicts, output);
    output.json(jsonOf(simulation->report, memory, timesOf != nullptr, verdicts));
    return {};
}

} // namespace planloom::cli

// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/measured_run.h"

#include "app/planloom/sources.h"
#include "engine/base/files.h"
#include "engine/compile/compile.h"
#include "engine/run/summary.h"
#include "engine/simulate/simulate.h"
#include "executor/runtime/measured_course.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace planloom::cli {

Result<std::optional<MeasuredRun>> readMeasuredRun(const plan::Document &document, const std::string &folder,
                                                   bool withTrace)
{
    const std::string file = folder + "/" + runtime::kMeasuredTimes;
    if (!runtime::decidesByMeasured(document.plan) || !std::filesystem::exists(file))
        return std::optional<MeasuredRun>();
    const auto times = readMeasuredTimes(file);
    if (!times)
        return times.error();
    auto program = compile::compilePlan(document.plan, document.subject, {.times = &*times});
    if (!program)
        return program.error().in(file);
    MeasuredRun measured{times->fromStep, *std::move(program), {}};
    const std::string traced = folder + "/" + runtime::kMeasuredTrace;
    if (withTrace && std::filesystem::exists(traced)) {
        auto trace = trace::readTrace(traced);
        if (!trace)
            return trace.error();
        measured.trace = *std::move(trace);
    }
    return std::optional<MeasuredRun>(std::move(measured));
}

Status printMeasuredSeconds(const MeasuredRun &measured, const plan::Document &document,
                            const std::vector<run::StepMetrics> &steps, Output &output)
{
    std::vector<run::StepMetrics> later;
    std::copy_if(steps.begin(), steps.end(), std::back_inserter(later),
                 [&](const run::StepMetrics &step) { return step.step >= measured.fromStep; });
    const auto predicted = simulate::simulate(measured.program, *document.subject.cluster, {false, false});
    if (!predicted)
        return predicted.error();
    const double seconds = run::medianSeconds(later);
    const double expected = predicted->report.iterationSeconds;
    output.line(fmt::format("from step {:<4}{} (median) by measured times, predicted by them {}{}", measured.fromStep,
                            format(Seconds(seconds)), format(Seconds(expected)),
                            seconds > 0 ? fmt::format(" ({:+.1f} %)", (expected / seconds - 1) * 100) : std::string()));
    output.result(nlohmann::ordered_json{{"measured_course",
                                          {{"from_step", measured.fromStep},
                                           {"iteration_seconds_median", seconds},
                                           {"predicted_iteration_seconds", expected}}}});
    return {};
}

} // namespace planloom::cli

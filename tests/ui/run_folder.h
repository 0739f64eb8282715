// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/files.h"
#include "engine/compile/compile.h"
#include "engine/memory/measured_times.h"
#include "engine/plan/fingerprint.h"
#include "engine/run/settings.h"
#include "engine/run/summary.h"
#include "engine/simulate/simulate.h"

#include <QDir>
#include <QString>

#include <optional>
#include <string>

namespace planloom::ui::testing {

/// What a run folder that was not trained says of itself.
struct MadeRun {
    std::int64_t steps = 5;
    double stretch = 2; ///< every task takes so many times what the plan's simulation says; step k one percent more
    double lossLast = 2;
    bool traced = true;
    std::int64_t ranksOnProcessors = 0;
};

/// Writes the folder of a run of @p document whose trace is its simulation, stretched. False if it could not.
inline bool writeRun(const QString &folder, const plan::Document &document, const MadeRun &made = {})
{
    const auto simulation = simulate::simulatePlan(document.plan, document.subject);
    if (!simulation || !QDir().mkpath(folder))
        return false;
    const auto write = [&](const char *file, const std::string &text) {
        return writeFileAtomically((folder + QLatin1Char('/') + QLatin1String(file)).toStdString(), text).ok();
    };
    run::Request request;
    request.settings.data = "/data";
    request.settings.steps = made.steps;
    trace::Trace trace = simulation->trace;
    trace.clock = "wall";
    trace.plan = plan::fingerprint(document);
    trace.records.clear();
    std::string metrics;
    std::vector<run::StepMetrics> steps;
    std::int64_t begin = 0;
    for (std::int64_t step = 0; step < made.steps; ++step) {
        const double factor = made.stretch * (1 + 0.01 * static_cast<double>(step));
        std::int64_t end = begin;
        for (trace::Record record : simulation->trace.records) {
            record.start = begin + static_cast<std::int64_t>(static_cast<double>(record.start) * factor);
            record.duration = static_cast<std::int64_t>(static_cast<double>(record.duration) * factor);
            record.step = static_cast<std::int32_t>(step);
            end = std::max(end, record.start + record.duration);
            trace.records.push_back(record);
        }
        const double seconds = simulation->report.iterationSeconds * factor;
        begin = end + 1000;
        steps.push_back({step,
                         4 + (made.lossLast - 4) * static_cast<double>(step + 1) / static_cast<double>(made.steps),
                         seconds, static_cast<double>(document.plan.globalBatch) / seconds});
        metrics += run::toJson(steps.back()) + "\n";
    }
    run::Summary summary;
    summary.steps = made.steps;
    summary.lossFirst = steps.front().loss;
    summary.lossLast = steps.back().loss;
    summary.iterationSecondsMedian = run::medianSeconds(steps);
    summary.predictedIterationSeconds = simulation->report.iterationSeconds;
    summary.predictionError = summary.predictedIterationSeconds / summary.iterationSecondsMedian - 1;
    summary.ranksOnProcessors = made.ranksOnProcessors;
    summary.planHash = trace.plan;
    for (const auto &device : simulation->report.devices)
        summary.peakBytesMeasured.push_back(device.peakBytes);
    summary.peakBytesPredicted = summary.peakBytesMeasured;
    trace.sort();
    return write("plan.json", plan::toJson(document)) && write("request.json", run::toJson(request))
        && write("metrics.jsonl", metrics) && write("summary.json", run::toJson(summary))
        && (!made.traced || trace::writeTrace(trace, (folder + QStringLiteral("/trace.pltrace")).toStdString()).ok());
}

/// Where the run in @p folder, of @p document with a memory policy of clock=measured, goes on by measured times.
inline constexpr std::int64_t kCourseChange = 4;

/// Adds what such a run measures, each operator @p seconds, and the trace of the steps that follow from it: a
/// simulation of them, which is returned. Nothing if it could not.
inline std::optional<simulate::Simulation> addMeasuredCourse(const QString &folder, const plan::Document &document,
                                                             double seconds)
{
    const auto program = compile::compilePlan(document.plan, document.subject);
    if (!program)
        return std::nullopt;
    memory::RunTimes times{kCourseChange, {}};
    for (const program::Rank &rank : program->ranks) {
        const std::size_t operators = program->body(rank.bodies.front()).training.graph.ops().size();
        times.ranks.push_back(
            {std::vector<double>(operators * static_cast<std::size_t>(document.plan.microBatches), seconds), 1 << 20,
             seconds, seconds});
    }
    auto simulation = simulate::simulatePlan(document.plan, document.subject, {true, false, nullptr, &times});
    const std::string base = folder.toStdString() + "/";
    if (!simulation || !writeFileAtomically(base + run::kMeasuredTimesFile, memory::toJson(times)))
        return std::nullopt;
    trace::Trace trace = simulation->trace;
    trace.clock = "wall";
    trace.plan = plan::fingerprint(document);
    for (trace::Record &record : trace.records)
        record.step = static_cast<std::int32_t>(kCourseChange);
    return trace::writeTrace(trace, base + run::kMeasuredTraceFile) ? std::optional(*std::move(simulation))
                                                                    : std::nullopt;
}

} // namespace planloom::ui::testing

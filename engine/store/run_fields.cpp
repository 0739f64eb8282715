// SPDX-License-Identifier: Apache-2.0
#include "engine/store/run_fields.h"

#include "engine/base/units.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <limits>

namespace planloom::store {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kHashLetters = 10; ///< shown of a hash

double known(double value) { return value > 0 ? value : kUnknown; }

std::string dateText(std::int64_t seconds)
{
    if (seconds <= 0)
        return {};
    const auto time = static_cast<std::time_t>(seconds);
    std::tm parts{};
    ::localtime_r(&time, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
    return text;
}

/// predicted / measured - 1 where the two are comparable.
double errorOfPrediction(const Run &run)
{
    const bool comparable =
        run.ranksOnProcessors == 0 && run.iterationSecondsMedian > 0 && run.predictedIterationSeconds > 0;
    return comparable ? run.predictedIterationSeconds / run.iterationSecondsMedian - 1 : kUnknown;
}

/// The same of the fullest rank's memory: of arenas, which are as large on any device.
double errorOfMemory(const Run &run)
{
    const bool known = run.peakBytesMeasured > 0 && run.peakBytesPredicted > 0;
    return known ? static_cast<double>(run.peakBytesPredicted) / static_cast<double>(run.peakBytesMeasured) - 1
                 : kUnknown;
}

std::string precisionText(const std::string &precision)
{
    return precision == "bfloat16" ? "bf16" : precision == "float32" ? "fp32" : precision;
}

} // namespace

const std::vector<RunField> &runFields()
{
    static const std::vector<RunField> fields{
        {"name", "Run", Measure::Text, "name of the run's folder",
         [](const Run &run) { return std::filesystem::path(run.folder).filename().string(); }},
        {"model", "Model", Measure::Text, "the plan's model", [](const Run &run) { return run.model; }},
        {"plan", "Plan", Measure::Text, "stages and devices, in the literature's notation",
         [](const Run &run) { return run.plan; }},
        {"hash", "Hash", Measure::Text,
         "beginning of the hash of plan, model, cluster and profile: equal for runs that one prediction is of",
         [](const Run &run) { return run.planHash.substr(0, kHashLetters); }},
        {"cluster", "Cluster", Measure::Text, "the plan's cluster", [](const Run &run) { return run.cluster; }},
        {"state", "State", Measure::Text, "running, finished, stopped, failed, or unfinished: without a result",
         [](const Run &run) { return run.state; }},
        {"started", "Started", Measure::Date, "when the run began, local time",
         [](const Run &run) { return dateText(run.startedAt); }},
        {"steps", "Steps", Measure::Count, "training steps done", nullptr,
         [](const Run &run) { return known(static_cast<double>(run.steps)); }},
        {"iteration", "Iteration", Measure::Seconds, "median time of a step, without the first", nullptr,
         [](const Run &run) { return known(run.iterationSecondsMedian); }},
        {"samples", "Samples/s", Measure::Rate, "samples per second, by the median step", nullptr,
         [](const Run &run) { return known(run.samplesPerSecond); }},
        {"tokens", "Tokens/s", Measure::Rate, "tokens per second, of models with a sequence", nullptr,
         [](const Run &run) { return known(run.tokensPerSecond); }},
        {"mfu", "MFU", Measure::Share,
         "model FLOPs utilisation: model FLOPs per second, as a share of the nominal peak of the plan's devices in the "
         "precision that is named",
         nullptr, [](const Run &run) { return known(run.mfu); }},
        {"loss", "Last loss", Measure::Value, "loss of the last step", nullptr,
         [](const Run &run) { return run.steps > 0 && run.lossLast != 0 ? run.lossLast : kUnknown; }},
        {"error", "Prediction error", Measure::Share,
         "predicted / measured time of a step, less 1; only of runs on the devices of the plan", nullptr,
         errorOfPrediction},
        {"memory_error", "Memory error", Measure::Share, "predicted / measured peak memory of the fullest rank, less 1",
         nullptr, errorOfMemory},
        {"tags", "Tags", Measure::Text, "your words for the run", [](const Run &run) { return run.tags; }},
        {"notes", "Notes", Measure::Text, "your notes", [](const Run &run) { return run.notes; }},
        {"folder", "Folder", Measure::Text, "where the run lies", [](const Run &run) { return run.folder; }},
    };
    return fields;
}

const RunField *findRunField(std::string_view key)
{
    const auto &fields = runFields();
    const auto found = std::ranges::find_if(fields, [&](const RunField &field) { return field.key == key; });
    return found == fields.end() ? nullptr : &*found;
}

std::string textOf(const RunField &field, const Run &run)
{
    if (field.text != nullptr)
        return field.text(run);
    const double value = field.number(run);
    if (std::isnan(value))
        return "–";
    switch (field.measure) {
    case Measure::Count: return fmt::format("{:.0f}", value);
    case Measure::Seconds: return format(Seconds(value));
    case Measure::Rate: return value < 1000 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
    case Measure::Share: {
        const bool isMfu = std::string_view(field.key) == "mfu";
        return isMfu ? fmt::format("{:.3g} % {}", value * 100, precisionText(run.mfuPrecision))
                     : fmt::format("{:+.1f} %", value * 100);
    }
    default: return fmt::format("{:.5g}", value);
    }
}

} // namespace planloom::store

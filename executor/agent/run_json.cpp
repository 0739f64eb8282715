// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json_reader.h"
#include "executor/agent/client.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace planloom::agent {
namespace {

using nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// JSON has no NaN: a loss that is none is written as null.
double numberOrNaN(JsonReader &reader, const char *key)
{
    return reader.has(key) && reader.value()[key].is_null() ? kNaN : reader.number(key);
}

std::vector<std::int64_t> bytesList(JsonReader &reader, const char *key)
{
    std::vector<std::int64_t> list;
    reader.each(key, [&](JsonReader &entry) { list.push_back(entry.asInteger(0, std::numeric_limits<std::int64_t>::max())); });
    return list;
}

} // namespace

std::string toJson(const RunSummary &summary)
{
    ordered_json json{
        {"steps", summary.steps},
        {"loss_first", summary.lossFirst},
        {"loss_last", summary.lossLast},
        {"iteration_seconds_median", summary.iterationSecondsMedian},
        {"predicted_iteration_seconds", summary.predictedIterationSeconds},
        {"prediction_error", summary.predictionError},
        {"peak_bytes_predicted", summary.peakBytesPredicted},
        {"peak_bytes_measured", summary.peakBytesMeasured},
        {"trace_dropped", summary.traceDropped},
        {"trace", summary.tracePath},
    };
    if (summary.evaluationSamples > 0) {
        json["evaluation_samples"] = summary.evaluationSamples;
        json["evaluation_loss"] = summary.evaluationLoss;
        json["evaluation_accuracy"] = summary.evaluationAccuracy;
    }
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<RunSummary> summaryFromJson(std::string_view text)
{
    const auto json = parseJson(text);
    if (!json)
        return json.error();
    JsonReader reader(*json);
    RunSummary summary;
    summary.steps = reader.integer("steps", 0);
    summary.lossFirst = numberOrNaN(reader, "loss_first");
    summary.lossLast = numberOrNaN(reader, "loss_last");
    summary.iterationSecondsMedian = reader.number("iteration_seconds_median");
    summary.predictedIterationSeconds = reader.number("predicted_iteration_seconds");
    summary.predictionError = numberOrNaN(reader, "prediction_error");
    summary.peakBytesPredicted = bytesList(reader, "peak_bytes_predicted");
    summary.peakBytesMeasured = bytesList(reader, "peak_bytes_measured");
    summary.traceDropped = reader.integerOr("trace_dropped", 0, 0, std::numeric_limits<std::int64_t>::max());
    summary.tracePath = reader.text("trace", "");
    summary.evaluationSamples = reader.integerOr("evaluation_samples", 0, 0, std::numeric_limits<std::int64_t>::max());
    if (summary.evaluationSamples > 0) {
        summary.evaluationLoss = numberOrNaN(reader, "evaluation_loss");
        summary.evaluationAccuracy = numberOrNaN(reader, "evaluation_accuracy");
    }
    if (const Status good = reader.failure(); !good)
        return good.error();
    return summary;
}

std::string toJson(const StepMetrics &metrics)
{
    return ordered_json{{"step", metrics.step}, {"loss", metrics.loss}, {"seconds", metrics.seconds}, {"samples_per_second", metrics.samplesPerSecond}}.dump();
}

Result<std::vector<StepMetrics>> metricsFromJson(std::string_view text)
{
    std::vector<StepMetrics> all;
    int line = 1;
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n'), ++line) {
        const auto json = parseJson(text.substr(0, end));
        text.remove_prefix(end + 1);
        if (!json)
            return json.error().in({}, line);
        JsonReader reader(*json);
        StepMetrics metrics;
        metrics.step = reader.integer("step", 0);
        metrics.loss = numberOrNaN(reader, "loss");
        metrics.seconds = reader.number("seconds");
        metrics.samplesPerSecond = reader.number("samples_per_second");
        if (const Status good = reader.failure(); !good)
            return good.error().in({}, line);
        all.push_back(metrics);
    }
    return all;
}

} // namespace planloom::agent

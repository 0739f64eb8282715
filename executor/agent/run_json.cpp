// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "executor/agent/client.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace planloom::agent {
namespace {

using nlohmann::ordered_json;

constexpr const char *kValidation = "validation";
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

/// Calls @p visit with the object of each whole line. Error: BadInput, naming the line.
template <class Visit>
Status eachLine(std::string_view text, Visit visit)
{
    int line = 1;
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n'), ++line) {
        const auto json = parseJson(text.substr(0, end));
        text.remove_prefix(end + 1);
        if (!json)
            return json.error().in({}, line);
        JsonReader reader(*json);
        visit(reader);
        if (const Status good = reader.failure(); !good)
            return good.error().in({}, line);
    }
    return {};
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
        {"beyond_arena_bytes", summary.beyondArenaBytes},
        {"shared_bytes", summary.sharedBytes},
        {"trace_dropped", summary.traceDropped},
        {"trace", summary.tracePath},
    };
    if (summary.evaluationSamples > 0) {
        json["evaluation_samples"] = summary.evaluationSamples;
        json["evaluation_loss"] = summary.evaluationLoss;
        json["evaluation_accuracy"] = summary.evaluationAccuracy;
        json["evaluation_perplexity"] = std::exp(summary.evaluationLoss);
    }
    if (summary.restarts > 0)
        json["restarts"] = summary.restarts;
    if (summary.stoppedEarly)
        json["stopped_early"] = true;
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
    if (reader.has("beyond_arena_bytes")) { // runs of before do not say
        summary.beyondArenaBytes = bytesList(reader, "beyond_arena_bytes");
        summary.sharedBytes = bytesList(reader, "shared_bytes");
    }
    summary.traceDropped = reader.integerOr("trace_dropped", 0, 0, std::numeric_limits<std::int64_t>::max());
    summary.tracePath = reader.text("trace", "");
    summary.evaluationSamples = reader.integerOr("evaluation_samples", 0, 0, std::numeric_limits<std::int64_t>::max());
    if (summary.evaluationSamples > 0) {
        summary.evaluationLoss = numberOrNaN(reader, "evaluation_loss");
        summary.evaluationAccuracy = numberOrNaN(reader, "evaluation_accuracy");
    }
    summary.restarts = reader.integerOr("restarts", 0, 0, std::numeric_limits<int>::max());
    summary.stoppedEarly = reader.flag("stopped_early", false);
    if (const Status good = reader.failure(); !good)
        return good.error();
    return summary;
}

std::string toJson(const StepMetrics &metrics)
{
    ordered_json json{{"step", metrics.step},
                      {"loss", metrics.loss},
                      {"seconds", metrics.seconds},
                      {"samples_per_second", metrics.samplesPerSecond},
                      {"learning_rate", metrics.learningRate}};
    if (metrics.gradientNorm > 0)
        json["gradient_norm"] = metrics.gradientNorm;
    return json.dump();
}

std::string toJson(const Validation &validation)
{
    const ordered_json json{{"step", validation.step},
                            {"loss", validation.loss},
                            {"accuracy", validation.accuracy},
                            {"perplexity", validation.perplexity},
                            {"samples", validation.samples}};
    return ordered_json{{kValidation, json}}.dump();
}

Result<std::vector<StepMetrics>> metricsFromJson(std::string_view text)
{
    std::vector<StepMetrics> all;
    const Status read = eachLine(text, [&](JsonReader &reader) {
        if (!reader.has(kValidation))
            all.push_back({reader.integer("step", 0), numberOrNaN(reader, "loss"), reader.number("seconds"), reader.number("samples_per_second"),
                           reader.number("learning_rate", 0), reader.number("gradient_norm", 0)});
    });
    if (!read)
        return read.error();
    return all;
}

Result<std::vector<Validation>> validationsFromJson(std::string_view text)
{
    std::vector<Validation> all;
    const Status read = eachLine(text, [&](JsonReader &line) {
        if (!line.has(kValidation))
            return;
        JsonReader reader = line.object(kValidation);
        all.push_back({reader.integer("step", 0), numberOrNaN(reader, "loss"), numberOrNaN(reader, "accuracy"), numberOrNaN(reader, "perplexity"),
                       reader.integer("samples", 0)});
    });
    if (!read)
        return read.error();
    return all;
}

Result<TrainRequest> requestFromJson(const std::string &path)
{
    const auto text = readFile(path);
    if (!text)
        return text.error();
    const auto json = parseJson(*text);
    if (!json)
        return json.error().in(path);
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    JsonReader reader(*json);
    TrainRequest request;
    request.dataPath = reader.text("data");
    request.steps = reader.integer("steps", 1, kMost);
    request.seed = reader.integer("seed", std::numeric_limits<std::int64_t>::min());
    request.holdout = reader.number("holdout", 0);
    request.checkpointEvery = reader.integerOr("checkpoint_every", 0, 0, kMost);
    request.traceEvery = reader.integerOr("trace_every", 1, 0, kMost);
    request.validateEvery = reader.integerOr("validate_every", 0, 0, kMost);
    request.earlyStop = static_cast<int>(reader.integerOr("early_stop", 0, 0, 1 << 20));
    if (const Status good = reader.failure(*text); !good)
        return good.error().in(path);
    return request;
}

} // namespace planloom::agent

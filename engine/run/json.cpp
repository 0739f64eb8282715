// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/run/settings.h"
#include "engine/run/summary.h"

#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>
#include <variant>

namespace planloom::run {
namespace {

using nlohmann::ordered_json;
using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
constexpr std::int64_t kMostOften = 1 << 20; ///< checkpoints, validations
constexpr int kMostThreads = 4096;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

enum class Presence : std::uint8_t {
    Required,
    OrNull,  ///< required; a number that is none is null
    Filled,  ///< always written; where it is missing the value keeps its default
    WhenSet, ///< written where it is not the default
    Absent,  ///< neither written nor read
};

/// One field of a value: its key in files and its member.
template <class Value>
struct Field {
    const char *key;
    std::variant<std::int64_t Value::*, double Value::*, bool Value::*, std::string Value::*, Integers Value::*,
                 double (Value::*)() const> ///< the last is only written
        member;
    Presence presence = Presence::Required;
    std::int64_t least = 0;
    std::int64_t most = kLargest;
};

constexpr Field<StepMetrics> kStep[] = {
    {"step", &StepMetrics::step},
    {"loss", &StepMetrics::loss, Presence::OrNull},
    {"seconds", &StepMetrics::seconds},
    {"samples_per_second", &StepMetrics::samplesPerSecond},
    {"learning_rate", &StepMetrics::learningRate, Presence::Filled},
    {"gradient_norm", &StepMetrics::gradientNorm, Presence::WhenSet},
    {"consensus_distance", &StepMetrics::consensusDistance, Presence::WhenSet},
    {"objective", &StepMetrics::objective, Presence::WhenSet},
    {"lagrangian", &StepMetrics::lagrangian, Presence::WhenSet},
    {"primal_residual", &StepMetrics::primalResidual, Presence::WhenSet},
    {"dual_residual", &StepMetrics::dualResidual, Presence::WhenSet},
};

constexpr Field<Validation> kValidation[] = {
    {"step", &Validation::step},
    {"loss", &Validation::loss, Presence::OrNull},
    {"accuracy", &Validation::accuracy, Presence::OrNull},
    {"perplexity", &Validation::perplexity},
    {"samples", &Validation::samples},
};

constexpr Field<Summary> kSummary[] = {
    {"steps", &Summary::steps},
    {"loss_first", &Summary::lossFirst, Presence::OrNull},
    {"loss_last", &Summary::lossLast, Presence::OrNull},
    {"iteration_seconds_median", &Summary::iterationSecondsMedian},
    {"predicted_iteration_seconds", &Summary::predictedIterationSeconds},
    {"prediction_error", &Summary::predictionError, Presence::OrNull},
    {"samples_per_second", &Summary::samplesPerSecond, Presence::WhenSet},
    {"tokens_per_second", &Summary::tokensPerSecond, Presence::WhenSet},
    {"mfu", &Summary::mfu, Presence::WhenSet},
    {"mfu_precision", &Summary::mfuPrecision, Presence::WhenSet},
    {"plan_hash", &Summary::planHash, Presence::WhenSet},
    {"then_from", &Summary::thenFrom, Presence::WhenSet},
    {"then_seconds_median", &Summary::thenSecondsMedian, Presence::WhenSet},
    {"then_seconds_predicted", &Summary::thenSecondsPredicted, Presence::WhenSet},
    {"peak_bytes_predicted", &Summary::peakBytesPredicted},
    {"peak_bytes_measured", &Summary::peakBytesMeasured},
    {"beyond_arena_bytes", &Summary::beyondArenaBytes, Presence::Filled},
    {"shared_bytes", &Summary::sharedBytes, Presence::Filled},
    {"sent_bytes", &Summary::sentBytes, Presence::Filled},
    {"trace_dropped", &Summary::traceDropped, Presence::Filled},
    {"trace", &Summary::tracePath, Presence::Filled},
};
/// Between the two, where there is one: Summary::evaluation.
constexpr Field<Validation> kEvaluation[] = {
    {"evaluation_samples", &Validation::samples},
    {"evaluation_loss", &Validation::loss, Presence::OrNull},
    {"evaluation_accuracy", &Validation::accuracy, Presence::OrNull},
    {"evaluation_perplexity", &Validation::perplexity},
};
constexpr Field<Summary> kSummaryEnd[] = {
    {"restarts", &Summary::restarts, Presence::WhenSet},
    {"ranks_on_processors", &Summary::ranksOnProcessors, Presence::WhenSet},
    {"stopped_early", &Summary::stoppedEarly, Presence::WhenSet},
};

constexpr Field<Settings> kSettings[] = {
    {"data", &Settings::data},
    {"steps", &Settings::steps, Presence::Required, 1, kMostSteps},
    {"seed", &Settings::seed, Presence::Required, std::numeric_limits<std::int64_t>::min()},
    {"holdout", &Settings::holdout, Presence::WhenSet},
    {"threads", &Settings::threads, Presence::WhenSet, 0, kMostThreads},
    {"timeout_seconds", &Settings::timeoutSeconds, Presence::WhenSet},
    {"checkpoint_every", &Settings::checkpointEvery, Presence::WhenSet, 0, kMostSteps},
    {"keep", &Settings::keep, Presence::Filled, 0, kMostOften},
    {"trace_every", &Settings::traceEvery, Presence::WhenSet, 0, kMostSteps},
    {"kernel_seconds", &Settings::kernelSeconds, Presence::WhenSet},
    {"paced", &Settings::paced, Presence::WhenSet, 0, 1},
    {"validate_every", &Settings::validateEvery, Presence::WhenSet, 0, kMostSteps},
    {"early_stop", &Settings::earlyStop, Presence::WhenSet, 0, kMostOften},
    {"arrivals", &Settings::arrivals, Presence::WhenSet},
    {"restarts", &Settings::restarts, Presence::Absent},
    {"hung_seconds", &Settings::hungSeconds, Presence::Absent},
};

constexpr Field<Beginning> kBeginning[] = {
    {"first_step", &Beginning::step, Presence::WhenSet, 0, kMostSteps},
    {"first_sample", &Beginning::sample, Presence::WhenSet, -1, kLargest},
    {"lease", &Beginning::lease, Presence::WhenSet},
    {"checkpoint", &Beginning::checkpoint, Presence::WhenSet},
};

/// Whether a field that need not be written is.
template <class Type>
bool isSet(const Type &value, const Type &unset)
{
    if constexpr (std::is_same_v<Type, double>)
        return std::isfinite(value) && value != unset;
    return value != unset;
}

template <class Value, std::size_t N>
void write(ordered_json &json, const Value &value, const Field<Value> (&fields)[N])
{
    const Value unset;
    for (const Field<Value> &field : fields) {
        std::visit(
            [&](auto member) {
                const auto now = std::invoke(member, value);
                const bool wanted = field.presence != Presence::WhenSet || isSet(now, std::invoke(member, unset));
                if (field.presence != Presence::Absent && wanted)
                    json[field.key] = now;
            },
            field.member);
    }
}

/// Reads one field; @p into keeps its value where it may be missing and is.
template <class Value>
struct FieldReader {
    JsonReader &reader;
    const Field<Value> &field;
    Value &into;

    [[nodiscard]] bool missing() const
    {
        return (field.presence == Presence::Filled || field.presence == Presence::WhenSet) && !reader.has(field.key);
    }
    void operator()(std::int64_t Value::*member) const
    {
        into.*member = reader.integer(field.key, field.least, field.most);
    }
    void operator()(double Value::*member) const
    {
        const bool null =
            field.presence == Presence::OrNull && reader.has(field.key) && reader.value()[field.key].is_null();
        into.*member = null ? kNaN : reader.number(field.key);
    }
    void operator()(bool Value::*member) const { into.*member = reader.flag(field.key, false); }
    void operator()(std::string Value::*member) const { into.*member = reader.text(field.key); }
    void operator()(Integers Value::*member) const
    {
        reader.each(field.key,
                    [&](JsonReader &entry) { (into.*member).push_back(entry.asInteger(field.least, field.most)); });
    }
    void operator()(double (Value::*)() const) const {}
};

template <class Value, std::size_t N>
void read(JsonReader &reader, Value &value, const Field<Value> (&fields)[N])
{
    for (const Field<Value> &field : fields) {
        const FieldReader<Value> one{reader, field, value};
        if (field.presence != Presence::Absent && !one.missing())
            std::visit(one, field.member);
    }
}

std::string textOf(const ordered_json &json, int indent = -1)
{
    return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

constexpr const char *kValidationLine = "validation";

/// Calls @p visit with the object of each whole line.
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

std::string toJson(const StepMetrics &metrics)
{
    ordered_json json;
    write(json, metrics, kStep);
    return textOf(json);
}

std::string toJson(const Validation &validation)
{
    ordered_json json;
    write(json[kValidationLine], validation, kValidation);
    return textOf(json);
}

Result<std::vector<StepMetrics>> metricsFromJson(std::string_view text)
{
    std::vector<StepMetrics> all;
    const Status done = eachLine(text, [&](JsonReader &line) {
        if (!line.has(kValidationLine))
            read(line, all.emplace_back(), kStep);
    });
    if (!done)
        return done.error();
    return all;
}

Result<std::vector<Validation>> validationsFromJson(std::string_view text)
{
    std::vector<Validation> all;
    const Status done = eachLine(text, [&](JsonReader &line) {
        if (!line.has(kValidationLine))
            return;
        JsonReader reader = line.object(kValidationLine);
        read(reader, all.emplace_back(), kValidation);
    });
    if (!done)
        return done.error();
    return all;
}

std::string toJson(const Summary &summary)
{
    ordered_json json;
    write(json, summary, kSummary);
    if (summary.evaluation)
        write(json, *summary.evaluation, kEvaluation);
    write(json, summary, kSummaryEnd);
    return textOf(json);
}

Result<Summary> summaryFromJson(std::string_view text)
{
    const auto json = parseJson(text);
    if (!json)
        return json.error();
    JsonReader reader(*json);
    Summary summary;
    read(reader, summary, kSummary);
    if (reader.has(kEvaluation[0].key))
        read(reader, summary.evaluation.emplace(), kEvaluation);
    read(reader, summary, kSummaryEnd);
    if (const Status good = reader.failure(); !good)
        return good.error();
    return summary;
}

std::string toJson(const Request &request)
{
    ordered_json json;
    write(json, request.settings, kSettings);
    if (request.settings.checkpointEvery == 0)
        json.erase("keep");
    write(json, request.from, kBeginning);
    return textOf(json, 2) + "\n";
}

Result<Request> readRequest(const std::string &path)
{
    const Result<std::string> text = readFile(path);
    if (!text)
        return text.error();
    const auto json = parseJson(*text);
    if (!json)
        return json.error().in(path);
    JsonReader reader(*json);
    Request request;
    read(reader, request.settings, kSettings);
    read(reader, request.from, kBeginning);
    const double timeout = request.settings.timeoutSeconds;
    if (!(request.settings.holdout >= 0 && request.settings.holdout < 1))
        reader.fail("holdout", "must be at least 0 and less than 1");
    if (reader.has("timeout_seconds") && !(timeout > 0 && timeout < 1e9))
        reader.fail("timeout_seconds", "must be more than 0");
    if (const Status good = reader.failure(*text); !good)
        return good.error().in(path);
    return request;
}

Settings merged(const Settings &before, const Settings &now, const std::set<std::string> &given)
{
    Settings settings = before;
    for (const Field<Settings> &field : kSettings) {
        const auto take = [&](auto member) {
            if constexpr (std::is_member_object_pointer_v<decltype(member)>)
                settings.*member = now.*member;
        };
        if (given.contains(field.key))
            std::visit(take, field.member);
    }
    return settings;
}

} // namespace planloom::run

// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/wire.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

namespace planloom::agent {
namespace {

/// A number of a value and the field of the message that carries it.
template <class Value, class Type, class Message, class Field>
struct Row {
    Type Value::*member;
    Field (Message::*get)() const;
    void (Message::*set)(Field);
};

constexpr std::tuple kStep{
    Row{&run::StepMetrics::step, &wire::Step::step, &wire::Step::set_step},
    Row{&run::StepMetrics::loss, &wire::Step::loss, &wire::Step::set_loss},
    Row{&run::StepMetrics::seconds, &wire::Step::seconds, &wire::Step::set_seconds},
    Row{&run::StepMetrics::samplesPerSecond, &wire::Step::samples_per_second, &wire::Step::set_samples_per_second},
    Row{&run::StepMetrics::learningRate, &wire::Step::learning_rate, &wire::Step::set_learning_rate},
    Row{&run::StepMetrics::gradientNorm, &wire::Step::gradient_norm, &wire::Step::set_gradient_norm},
    Row{&run::StepMetrics::consensusDistance, &wire::Step::consensus_distance, &wire::Step::set_consensus_distance},
    Row{&run::StepMetrics::objective, &wire::Step::objective, &wire::Step::set_objective},
    Row{&run::StepMetrics::primalResidual, &wire::Step::primal_residual, &wire::Step::set_primal_residual},
    Row{&run::StepMetrics::dualResidual, &wire::Step::dual_residual, &wire::Step::set_dual_residual},
    Row{&run::StepMetrics::lagrangian, &wire::Step::lagrangian, &wire::Step::set_lagrangian},
};

constexpr std::tuple kValidation{
    Row{&run::Validation::step, &wire::Validation::step, &wire::Validation::set_step},
    Row{&run::Validation::loss, &wire::Validation::loss, &wire::Validation::set_loss},
    Row{&run::Validation::accuracy, &wire::Validation::accuracy, &wire::Validation::set_accuracy},
    Row{&run::Validation::samples, &wire::Validation::samples, &wire::Validation::set_samples},
};

using run::Summary;
constexpr std::tuple kSummary{
    Row{&Summary::steps, &wire::Summary::steps, &wire::Summary::set_steps},
    Row{&Summary::lossFirst, &wire::Summary::loss_first, &wire::Summary::set_loss_first},
    Row{&Summary::lossLast, &wire::Summary::loss_last, &wire::Summary::set_loss_last},
    Row{&Summary::iterationSecondsMedian, &wire::Summary::iteration_seconds_median,
        &wire::Summary::set_iteration_seconds_median},
    Row{&Summary::predictedIterationSeconds, &wire::Summary::predicted_iteration_seconds,
        &wire::Summary::set_predicted_iteration_seconds},
    Row{&Summary::predictionError, &wire::Summary::prediction_error, &wire::Summary::set_prediction_error},
    Row{&Summary::thenFrom, &wire::Summary::then_from, &wire::Summary::set_then_from},
    Row{&Summary::thenSecondsMedian, &wire::Summary::then_seconds_median, &wire::Summary::set_then_seconds_median},
    Row{&Summary::thenSecondsPredicted, &wire::Summary::then_seconds_predicted,
        &wire::Summary::set_then_seconds_predicted},
    Row{&Summary::samplesPerSecond, &wire::Summary::samples_per_second, &wire::Summary::set_samples_per_second},
    Row{&Summary::tokensPerSecond, &wire::Summary::tokens_per_second, &wire::Summary::set_tokens_per_second},
    Row{&Summary::mfu, &wire::Summary::mfu, &wire::Summary::set_mfu},
    Row{&Summary::traceDropped, &wire::Summary::trace_dropped, &wire::Summary::set_trace_dropped},
    Row{&Summary::ranksOnProcessors, &wire::Summary::ranks_on_processors, &wire::Summary::set_ranks_on_processors},
    Row{&Summary::restarts, &wire::Summary::restarts, &wire::Summary::set_restarts},
    Row{&Summary::stoppedEarly, &wire::Summary::stopped_early, &wire::Summary::set_stopped_early},
};

using run::Settings;
constexpr std::tuple kSettings{
    Row{&Settings::steps, &wire::Settings::steps, &wire::Settings::set_steps},
    Row{&Settings::seed, &wire::Settings::seed, &wire::Settings::set_seed},
    Row{&Settings::holdout, &wire::Settings::holdout, &wire::Settings::set_holdout},
    Row{&Settings::threads, &wire::Settings::threads, &wire::Settings::set_threads},
    Row{&Settings::timeoutSeconds, &wire::Settings::timeout_seconds, &wire::Settings::set_timeout_seconds},
    Row{&Settings::checkpointEvery, &wire::Settings::checkpoint_every, &wire::Settings::set_checkpoint_every},
    Row{&Settings::keep, &wire::Settings::keep, &wire::Settings::set_keep},
    Row{&Settings::restarts, &wire::Settings::restarts, &wire::Settings::set_restarts},
    Row{&Settings::validateEvery, &wire::Settings::validate_every, &wire::Settings::set_validate_every},
    Row{&Settings::earlyStop, &wire::Settings::early_stop, &wire::Settings::set_early_stop},
    Row{&Settings::traceEvery, &wire::Settings::trace_every, &wire::Settings::set_trace_every},
    Row{&Settings::kernelSeconds, &wire::Settings::kernel_seconds, &wire::Settings::set_kernel_seconds},
    Row{&Settings::paced, &wire::Settings::paced, &wire::Settings::set_paced},
    Row{&Settings::hungSeconds, &wire::Settings::hung_seconds, &wire::Settings::set_hung_seconds},
};

template <class Value, class Message, class... Rows>
void write(Message &message, const Value &value, const std::tuple<Rows...> &rows)
{
    std::apply([&](const auto &...row) { ((message.*row.set)(value.*row.member), ...); }, rows);
}

template <class Value, class Message, class... Rows>
void read(const Message &message, Value &value, const std::tuple<Rows...> &rows)
{
    std::apply([&](const auto &...row) { ((value.*row.member = (message.*row.get)()), ...); }, rows);
}

using Integers = std::vector<std::int64_t>;
using WireIntegers = google::protobuf::RepeatedField<std::int64_t>;
WireIntegers toWire(const Integers &list) { return {list.begin(), list.end()}; }
Integers fromWire(const WireIntegers &list) { return {list.begin(), list.end()}; }

wire::Summary toWire(const run::Summary &summary)
{
    wire::Summary message;
    write(message, summary, kSummary);
    message.set_trace_path(summary.tracePath);
    message.set_mfu_precision(summary.mfuPrecision);
    message.set_plan_hash(summary.planHash);
    *message.mutable_peak_bytes_predicted() = toWire(summary.peakBytesPredicted);
    *message.mutable_peak_bytes_measured() = toWire(summary.peakBytesMeasured);
    *message.mutable_beyond_arena_bytes() = toWire(summary.beyondArenaBytes);
    *message.mutable_shared_bytes() = toWire(summary.sharedBytes);
    *message.mutable_sent_bytes() = toWire(summary.sentBytes);
    if (summary.evaluation)
        *message.mutable_evaluation() = agent::toWire(*summary.evaluation);
    return message;
}

template <class Enumeration>
Enumeration bounded(int value, Enumeration last)
{
    return static_cast<Enumeration>(std::clamp(value, 0, static_cast<int>(last)));
}

} // namespace

wire::TrainRequest toWire(const TrainRequest &request)
{
    wire::TrainRequest message;
    message.set_plan_json(request.planJson);
    message.set_run_dir(request.runDir);
    message.set_resume(request.resume);
    message.set_meeting(request.meeting.folder);
    message.mutable_cores()->Assign(request.meeting.cores.begin(), request.meeting.cores.end());
    write(*message.mutable_settings(), request.settings, kSettings);
    message.mutable_settings()->set_data(request.settings.data);
    message.mutable_settings()->set_arrivals(request.settings.arrivals);
    return message;
}

TrainRequest fromWire(const wire::TrainRequest &message)
{
    TrainRequest request;
    request.planJson = message.plan_json();
    request.runDir = message.run_dir();
    request.resume = message.resume();
    request.meeting = {message.meeting(), {message.cores().begin(), message.cores().end()}};
    read(message.settings(), request.settings, kSettings);
    request.settings.data = message.settings().data();
    request.settings.arrivals = message.settings().arrivals();
    return request;
}

wire::Tables toWire(const trace::Tables &tables)
{
    wire::Tables message;
    for (const auto &rank : tables.ranks)
        message.add_devices(rank.device);
    for (const auto &task : tables.tasks) {
        auto *added = message.add_tasks();
        added->set_id(task.id);
        added->set_kind(static_cast<int>(task.kind));
        added->set_stage(task.stage);
        added->set_micro_batch(task.microBatch);
        added->set_group(task.group);
    }
    for (const auto &lane : tables.lanes) {
        auto *added = message.add_lanes();
        added->set_name(lane.name);
        added->set_work(static_cast<int>(lane.work));
        added->set_capacity(lane.capacity);
    }
    for (const auto &kind : tables.kinds) {
        auto *added = message.add_kinds();
        added->set_name(kind.name);
        added->set_work(static_cast<int>(kind.work));
        added->set_hue(kind.hue);
        added->set_texture(kind.texture);
        added->set_legend(kind.legend);
    }
    message.mutable_rounds()->set_steps(tables.rounds.steps);
    message.mutable_rounds()->set_from(tables.rounds.from);
    message.mutable_rounds()->set_overlap(tables.rounds.overlap);
    return message;
}

trace::Tables fromWire(const wire::Tables &message)
{
    trace::Tables tables;
    for (const auto &device : message.devices())
        tables.ranks.push_back({device});
    constexpr auto kUnknown = static_cast<trace::Kind>(std::numeric_limits<std::uint8_t>::max());
    for (const auto &task : message.tasks())
        tables.tasks.push_back(
            {task.id(), bounded(task.kind(), kUnknown), task.stage(), task.micro_batch(), task.group()});
    for (const auto &lane : message.lanes())
        tables.lanes.push_back({lane.name(), bounded(lane.work(), trace::kLastWork), lane.capacity()});
    for (const auto &kind : message.kinds())
        tables.kinds.push_back(
            {kind.name(), bounded(kind.work(), trace::kLastWork), kind.hue(), kind.texture(), kind.legend()});
    tables.rounds = {std::max(message.rounds().steps(), 1), std::max<std::int64_t>(message.rounds().from(), 0),
                     message.rounds().overlap()};
    return tables;
}

wire::Records toWire(std::span<const trace::Record> records, std::int64_t dropped)
{
    wire::Records message;
    message.set_packed(records.data(), records.size_bytes());
    message.set_dropped(dropped);
    return message;
}

std::vector<trace::Record> fromWire(const wire::Records &message)
{
    std::vector<trace::Record> records(message.packed().size() / sizeof(trace::Record));
    if (!records.empty())
        std::memcpy(records.data(), message.packed().data(), records.size() * sizeof(trace::Record));
    return records;
}

wire::TrainEvent toWire(const RunEvent &event)
{
    wire::TrainEvent message;
    if (const auto *change = std::get_if<StateChange>(&event)) {
        message.mutable_state()->set_state(static_cast<int>(change->state));
        message.mutable_state()->set_message(change->message);
    } else if (const auto *step = std::get_if<run::StepMetrics>(&event)) {
        *message.mutable_step() = toWire(*step);
    } else if (const auto *validation = std::get_if<run::Validation>(&event)) {
        *message.mutable_validation() = toWire(*validation);
    } else if (const auto *summary = std::get_if<run::Summary>(&event)) {
        *message.mutable_summary() = toWire(*summary);
    }
    return message;
}

wire::Step toWire(const run::StepMetrics &step)
{
    wire::Step message;
    write(message, step, kStep);
    return message;
}

run::StepMetrics fromWire(const wire::Step &message)
{
    run::StepMetrics step;
    read(message, step, kStep);
    return step;
}

wire::Validation toWire(const run::Validation &validation)
{
    wire::Validation message;
    write(message, validation, kValidation);
    return message;
}

run::Validation fromWire(const wire::Validation &message)
{
    run::Validation validation;
    read(message, validation, kValidation);
    return validation;
}

run::Summary fromWire(const wire::Summary &message)
{
    run::Summary summary;
    read(message, summary, kSummary);
    summary.tracePath = message.trace_path();
    summary.mfuPrecision = message.mfu_precision();
    summary.planHash = message.plan_hash();
    summary.peakBytesPredicted = fromWire(message.peak_bytes_predicted());
    summary.peakBytesMeasured = fromWire(message.peak_bytes_measured());
    summary.beyondArenaBytes = fromWire(message.beyond_arena_bytes());
    summary.sharedBytes = fromWire(message.shared_bytes());
    summary.sentBytes = fromWire(message.sent_bytes());
    if (message.has_evaluation())
        summary.evaluation = fromWire(message.evaluation());
    return summary;
}

RunState stateFromWire(int state) { return bounded(state, RunState::Restarting); }

ErrorCode codeFromWire(int code) { return bounded(code, ErrorCode::Failed); }

wire::Outcome toWire(const Status &status)
{
    wire::Outcome message;
    message.set_ok(status.ok());
    if (status)
        return message;
    const Error &error = status.error();
    message.set_code(static_cast<int>(error.code));
    message.set_message(error.message);
    message.set_file(error.file);
    message.set_line(error.line);
    return message;
}

Status fromWire(const wire::Outcome &message)
{
    if (message.ok())
        return {};
    return Error{codeFromWire(message.code()), message.message(), message.file(), message.line()};
}

} // namespace planloom::agent

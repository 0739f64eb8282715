// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/wire.h"

#include <algorithm>
#include <cstring>

namespace planloom::agent {
namespace {

wire::Step toWire(const StepMetrics &step)
{
    wire::Step message;
    message.set_step(step.step);
    message.set_loss(step.loss);
    message.set_seconds(step.seconds);
    message.set_samples_per_second(step.samplesPerSecond);
    message.set_learning_rate(step.learningRate);
    message.set_gradient_norm(step.gradientNorm);
    return message;
}

wire::Summary toWire(const RunSummary &summary)
{
    wire::Summary message;
    message.set_steps(summary.steps);
    message.set_loss_first(summary.lossFirst);
    message.set_loss_last(summary.lossLast);
    message.set_iteration_seconds_median(summary.iterationSecondsMedian);
    message.set_predicted_iteration_seconds(summary.predictedIterationSeconds);
    message.set_prediction_error(summary.predictionError);
    message.mutable_peak_bytes_predicted()->Assign(summary.peakBytesPredicted.begin(), summary.peakBytesPredicted.end());
    message.mutable_peak_bytes_measured()->Assign(summary.peakBytesMeasured.begin(), summary.peakBytesMeasured.end());
    message.mutable_beyond_arena_bytes()->Assign(summary.beyondArenaBytes.begin(), summary.beyondArenaBytes.end());
    message.mutable_shared_bytes()->Assign(summary.sharedBytes.begin(), summary.sharedBytes.end());
    message.set_trace_dropped(summary.traceDropped);
    message.set_trace_path(summary.tracePath);
    message.set_evaluation_loss(summary.evaluationLoss);
    message.set_evaluation_accuracy(summary.evaluationAccuracy);
    message.set_evaluation_samples(summary.evaluationSamples);
    message.set_restarts(summary.restarts);
    message.set_stopped_early(summary.stoppedEarly);
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
    message.set_data_path(request.dataPath);
    message.set_steps(request.steps);
    message.set_seed(request.seed);
    message.set_run_dir(request.runDir);
    message.set_holdout(request.holdout);
    message.set_threads(request.threads);
    message.set_timeout_seconds(request.timeoutSeconds);
    message.set_checkpoint_every(request.checkpointEvery);
    message.set_keep(request.keep);
    message.set_resume(request.resume);
    message.set_restarts(request.restarts);
    message.set_validate_every(request.validateEvery);
    message.set_early_stop(request.earlyStop);
    message.set_hung_seconds(request.hungSeconds);
    message.set_trace_every(request.traceEvery);
    return message;
}

TrainRequest fromWire(const wire::TrainRequest &message)
{
    TrainRequest request;
    request.planJson = message.plan_json();
    request.dataPath = message.data_path();
    request.steps = message.steps();
    request.seed = message.seed();
    request.runDir = message.run_dir();
    request.holdout = message.holdout();
    request.threads = message.threads();
    request.timeoutSeconds = message.timeout_seconds();
    request.checkpointEvery = message.checkpoint_every();
    request.keep = message.keep();
    request.resume = message.resume();
    request.restarts = message.restarts();
    request.validateEvery = message.validate_every();
    request.earlyStop = message.early_stop();
    request.hungSeconds = message.hung_seconds();
    request.traceEvery = message.has_trace_every() ? message.trace_every() : 1;
    return request;
}

wire::Tables toWire(const std::vector<trace::RankInfo> &ranks, const std::vector<trace::TaskInfo> &tasks)
{
    wire::Tables message;
    for (const auto &rank : ranks)
        message.add_devices(rank.device);
    for (const auto &task : tasks) {
        auto *added = message.add_tasks();
        added->set_id(task.id);
        added->set_kind(static_cast<int>(task.kind));
        added->set_stage(task.stage);
        added->set_micro_batch(task.microBatch);
    }
    return message;
}

void fromWire(const wire::Tables &message, std::vector<trace::RankInfo> &ranks, std::vector<trace::TaskInfo> &tasks)
{
    for (const auto &device : message.devices())
        ranks.push_back({device});
    for (const auto &task : message.tasks())
        tasks.push_back({task.id(), bounded(task.kind(), trace::kLastKind), static_cast<std::int16_t>(task.stage()), task.micro_batch()});
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
    } else if (const auto *step = std::get_if<StepMetrics>(&event)) {
        *message.mutable_step() = toWire(*step);
    } else if (const auto *validation = std::get_if<Validation>(&event)) {
        *message.mutable_validation() = toWire(*validation);
    } else if (const auto *summary = std::get_if<RunSummary>(&event)) {
        *message.mutable_summary() = toWire(*summary);
    }
    return message;
}

wire::Validation toWire(const Validation &validation)
{
    wire::Validation message;
    message.set_step(validation.step);
    message.set_loss(validation.loss);
    message.set_accuracy(validation.accuracy);
    message.set_perplexity(validation.perplexity);
    message.set_samples(validation.samples);
    return message;
}

Validation fromWire(const wire::Validation &message)
{
    return {message.step(), message.loss(), message.accuracy(), message.perplexity(), message.samples()};
}

StepMetrics fromWire(const wire::Step &message)
{
    return {message.step(), message.loss(), message.seconds(), message.samples_per_second(), message.learning_rate(), message.gradient_norm()};
}

RunSummary fromWire(const wire::Summary &message)
{
    RunSummary summary;
    summary.steps = message.steps();
    summary.lossFirst = message.loss_first();
    summary.lossLast = message.loss_last();
    summary.iterationSecondsMedian = message.iteration_seconds_median();
    summary.predictedIterationSeconds = message.predicted_iteration_seconds();
    summary.predictionError = message.prediction_error();
    summary.peakBytesPredicted.assign(message.peak_bytes_predicted().begin(), message.peak_bytes_predicted().end());
    summary.peakBytesMeasured.assign(message.peak_bytes_measured().begin(), message.peak_bytes_measured().end());
    summary.beyondArenaBytes.assign(message.beyond_arena_bytes().begin(), message.beyond_arena_bytes().end());
    summary.sharedBytes.assign(message.shared_bytes().begin(), message.shared_bytes().end());
    summary.traceDropped = message.trace_dropped();
    summary.tracePath = message.trace_path();
    summary.evaluationLoss = message.evaluation_loss();
    summary.evaluationAccuracy = message.evaluation_accuracy();
    summary.evaluationSamples = message.evaluation_samples();
    summary.restarts = message.restarts();
    summary.stoppedEarly = message.stopped_early();
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

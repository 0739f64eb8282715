// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/json_text.h"
#include "app/planloom/report.h"
#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "executor/agent/client.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>

namespace planloom::cli {
namespace {

namespace fs = std::filesystem;

std::string absolute(const std::string &path)
{
    std::error_code unknown;
    return path.empty() ? path : fs::absolute(path, unknown).lexically_normal().string();
}

Result<std::unique_ptr<agent::Client>> connect(const TrainOptions &options)
{
    return options.agent.empty() ? agent::Client::startLocal() : agent::Client::connect(options.agent);
}

/// What is noted of the run in a workspace, if one is given.
class Record {
public:
    Record(std::optional<store::Workspace> workspace, const plan::Plan &plan) : m_workspace(std::move(workspace))
    {
        m_run.plan = plan::notation(plan);
        m_run.model = plan.modelName;
        m_run.cluster = plan.clusterName;
    }

    void begin(const std::string &folder)
    {
        if (!m_workspace)
            return;
        m_run.folder = folder;
        const auto id = m_workspace->recordRun(m_run);
        if (id)
            m_run.id = *id;
        else
            m_status = id.error();
    }

    void add(const agent::StepMetrics &step, std::int64_t samples)
    {
        m_steps.push_back({step.step, step.loss, step.seconds, step.learningRate, step.gradientNorm, samples});
        constexpr std::size_t kBatch = 1024;
        if (m_steps.size() >= kBatch)
            flush();
    }
    void add(const agent::Validation &seen) { m_validations.push_back({seen.step, seen.loss, seen.accuracy, seen.perplexity, seen.samples}); }

    void summary(const agent::RunSummary &summary)
    {
        m_run.steps = summary.steps;
        m_run.lossFirst = summary.lossFirst;
        m_run.lossLast = summary.lossLast;
        m_run.iterationSecondsMedian = summary.iterationSecondsMedian;
        m_run.predictedIterationSeconds = summary.predictedIterationSeconds;
        const auto fullest = std::max_element(summary.peakBytesMeasured.begin(), summary.peakBytesMeasured.end());
        if (fullest == summary.peakBytesMeasured.end())
            return;
        const auto rank = static_cast<std::size_t>(fullest - summary.peakBytesMeasured.begin());
        m_run.peakBytesMeasured = *fullest;
        m_run.peakBytesPredicted = rank < summary.peakBytesPredicted.size() ? summary.peakBytesPredicted[rank] : 0;
    }

    /// Error: the first thing that could not be recorded.
    Status end(const Status &outcome)
    {
        flush();
        if (!m_workspace || m_run.id == 0)
            return m_status;
        m_run.state = outcome ? "finished" : outcome.error().code == ErrorCode::Cancelled ? "stopped" : "failed";
        m_run.error = outcome ? "" : outcome.error().text();
        m_run.endedAt = now();
        const Status updated = m_workspace->updateRun(m_run);
        return m_status ? updated : m_status;
    }

private:
    void flush()
    {
        if (m_workspace && m_run.id != 0 && m_status)
            m_status = m_workspace->record(m_run.id, m_steps, m_validations);
        m_steps.clear();
        m_validations.clear();
    }

    std::optional<store::Workspace> m_workspace;
    store::Run m_run;
    std::vector<store::Step> m_steps;
    std::vector<store::Validation> m_validations;
    Status m_status;
};

void printSummary(const agent::RunSummary &summary, const std::vector<trace::RankInfo> &ranks, const std::string &folder, Output &output)
{
    output.line();
    output.line(fmt::format("steps         {}", summary.steps));
    output.line(fmt::format("loss          {:.6g} -> {:.6g}", summary.lossFirst, summary.lossLast));
    output.line(fmt::format("iteration     {} (median), predicted {} ({:+.1f} %)", format(Seconds(summary.iterationSecondsMedian)),
                            format(Seconds(summary.predictedIterationSeconds)), summary.predictionError * 100));
    if (summary.evaluationSamples > 0)
        output.line(fmt::format("held out      {} samples: {}", summary.evaluationSamples,
                                scores(summary.evaluationLoss, summary.evaluationAccuracy, std::exp(summary.evaluationLoss))));
    if (summary.stoppedEarly)
        output.line("stopped       early: the loss of what is held out got no better");
    if (summary.restarts > 0)
        output.line(fmt::format("restarts      {}", summary.restarts));
    Table table({"RANK", "DEVICE", "PEAK PREDICTED", "PEAK MEASURED", "BEYOND THE ARENA"});
    for (std::size_t rank = 0; rank < summary.peakBytesMeasured.size(); ++rank) {
        const std::int64_t predicted = rank < summary.peakBytesPredicted.size() ? summary.peakBytesPredicted[rank] : 0;
        table.row({std::to_string(rank), rank < ranks.size() ? ranks[rank].device : "?", count(predicted), count(summary.peakBytesMeasured[rank]),
                   rank < summary.beyondArenaBytes.size() ? format(Bytes(summary.beyondArenaBytes[rank])) : "?"});
    }
    table.print(output);
    if (summary.traceDropped > 0)
        output.line(fmt::format("trace         {} records were lost", summary.traceDropped));
    output.line("run           " + folder);
}

/// What an earlier part of the run was asked for fills in what is not given now.
Result<TrainOptions> complete(TrainOptions options)
{
    std::error_code unknown;
    if (fs::is_directory(options.plan, unknown)) {
        if (!options.resume)
            return badInput(fmt::format("{} is a folder; name a plan file, or say --resume to go on with the run in it", options.plan));
        if (options.runDir.empty())
            options.runDir = options.plan;
        options.plan += "/plan.json";
    }
    if (options.resume && options.runDir.empty())
        return badInput("--resume needs the run's folder; name it with --run-dir");
    if (options.resume) {
        const auto before = agent::requestFromJson(options.runDir + "/request.json");
        if (!before)
            return before.error();
        if (options.data.empty())
            options.data = before->dataPath;
        options.steps = options.steps.value_or(before->steps);
        options.seed = options.seed.value_or(before->seed);
        options.holdout = options.holdout.value_or(before->holdout);
        if (options.trace.empty())
            options.trace = std::to_string(before->traceEvery);
        if (options.checkpointEvery == 0)
            options.checkpointEvery = before->checkpointEvery;
        if (options.validateEvery == 0 && options.earlyStop == 0) {
            options.validateEvery = before->validateEvery;
            options.earlyStop = before->earlyStop;
        }
    }
    if (options.data.empty())
        return badInput("--data is missing: a text, token file, .npy, CSV(.gz), IDX or a folder of .npy files; see planloom train --help");
    constexpr std::int64_t kSteps = 100;
    options.steps = options.steps.value_or(kSteps);
    options.seed = options.seed.value_or(1);
    return options;
}

/// Of "on", "off" or a number, which the command line has checked.
std::int64_t traceEvery(const std::string &which)
{
    if (which.empty() || which == "on")
        return 1;
    return which == "off" ? 0 : std::stoll(which);
}

agent::TrainRequest requestOf(const TrainOptions &options, const std::string &planJson)
{
    agent::TrainRequest request;
    request.planJson = planJson;
    request.dataPath = absolute(options.data);
    request.steps = *options.steps;
    request.seed = *options.seed;
    request.runDir = absolute(options.runDir);
    request.holdout = options.holdout.value_or(0);
    request.threads = options.threads;
    request.checkpointEvery = options.checkpointEvery;
    request.keep = options.keep;
    request.resume = options.resume;
    request.restarts = options.restarts;
    request.validateEvery = options.validateEvery;
    request.earlyStop = options.earlyStop;
    request.hungSeconds = options.hungAfter;
    request.traceEvery = traceEvery(options.trace);
    return request;
}

/// A line a step on a terminal of people's: all of the first ten, then as many as can be read.
bool worthPrinting(std::int64_t step, std::int64_t steps)
{
    const std::int64_t every = std::max<std::int64_t>(1, steps / 20);
    return step < 5 || step % every == 0 || step + 1 == steps;
}

} // namespace

Status train(const TrainOptions &given, Output &output)
{
    const auto completed = complete(given);
    if (!completed)
        return completed.error();
    const TrainOptions &options = *completed;
    const auto document = plan::readPlan(options.plan);
    if (!document)
        return document.error();
    const auto planJson = readFile(options.plan);
    if (!planJson)
        return planJson.error();
    auto workspace = openWorkspace(options.workspace);
    if (!workspace)
        return workspace.error();
    Record record(std::move(*workspace), document->plan);
    auto client = connect(options);
    if (!client)
        return client.error();
    TerminalProgress progress(output.showsProgress());
    std::string folder;
    std::vector<trace::RankInfo> ranks;
    std::optional<agent::RunSummary> last;
    agent::RunEvents events;
    events.onTraceTables = [&](const std::vector<trace::RankInfo> &infos, const std::vector<trace::TaskInfo> &) { ranks = infos; };
    events.onStarted = [&](const std::string &, const std::string &runDir) {
        folder = runDir;
        record.begin(runDir);
        printPlan(document->plan, document->subject, output);
        output.line();
    };
    events.onStep = [&](const agent::StepMetrics &step) {
        output.json(agent::toJson(step));
        record.add(step, document->plan.globalBatch);
        if (output.isText() && worthPrinting(step.step, *options.steps)) {
            progress.clear();
            output.line(fmt::format("step {:>6}  loss {:<10.6g}  {:>9}  {:.4g} samples/s", step.step, step.loss, format(Seconds(step.seconds)), step.samplesPerSecond));
        }
        progress.report(static_cast<double>(step.step + 1) / static_cast<double>(*options.steps), "training");
    };
    events.onValidation = [&](const agent::Validation &seen) {
        output.json(agent::toJson(seen));
        record.add(seen);
        progress.clear();
        output.line(fmt::format("step {:>6}  held out: {}", seen.step, scores(seen.loss, seen.accuracy, seen.perplexity)));
    };
    events.onState = [&](agent::RunState state, const std::string &message) {
        if (state == agent::RunState::Starting && !message.empty())
            output.line("resumed       " + message);
        if (state != agent::RunState::Restarting)
            return;
        output.json(JsonObject().add("state", "restarting").add("message", message).text());
        progress.clear();
        output.line("restarting    " + message);
    };
    events.onSummary = [&](const agent::RunSummary &summary) { last = summary; };

    const agent::TrainRequest request = requestOf(options, *planJson);
    Status outcome;
    {
        const InterruptWatch watch([&client] { (*client)->stop(); });
        outcome = (*client)->train(request, events);
    }
    progress.clear();
    if (last) {
        record.summary(*last);
        printSummary(*last, ranks, folder, output);
        output.json(JsonObject().raw("summary", agent::toJson(*last)).text());
    }
    const Status recorded = record.end(outcome);
    return outcome ? recorded : outcome;
}

} // namespace planloom::cli

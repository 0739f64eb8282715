// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/measured_run.h"
#include "app/planloom/report.h"
#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "engine/compile/compile.h"
#include "engine/export/decisions.h"
#include "engine/graph/gradients/loss.h"
#include "engine/import/model_file.h"
#include "engine/run/summary.h"
#include "executor/agent/client.h"
#include "executor/remote/client.h"
#include "executor/runtime/measured_course.h"
#include "executor/runtime/parameter_server.h"
#include "executor/runtime/rank_gpu.h"
#include "executor/runtime/sampled_source.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

namespace fs = std::filesystem;

constexpr const char *kItsTarget = "the run's own"; ///< no target's name

/// Where a run that is resumed has trained so far.
Result<remote::Target> itsTarget(const std::string &folder)
{
    auto target = remote::targetOfRun(folder);
    if (!target)
        return target.error();
    return *target ? **target : remote::Target{};
}

/// Where the run goes.
Result<remote::Target> targetOf(const TrainOptions &options)
{
    return options.on == kItsTarget
        ? itsTarget(options.runDir)
        : remote::findTarget(options.on.empty() ? "local" : options.on, remote::targetsFile());
}

/// A target's lines for people are notes.
Result<std::unique_ptr<agent::Client>> connect(const remote::Target &target, const TrainOptions &options,
                                               Output &output)
{
    if (!target.isLocal())
        return remote::connect(
            target, [&output](const std::string &line) { output.note(line); }, import::needsModelFile);
    return options.agent.empty() ? agent::Client::startLocal() : agent::Client::connect(options.agent);
}

/// The entry of the run in a workspace, if one is given.
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

    void add(const run::StepMetrics &step)
    {
        m_steps.push_back(step);
        constexpr std::size_t kBatch = 1024;
        if (m_steps.size() >= kBatch)
            flush();
    }
    void add(const run::Validation &seen) { m_validations.push_back(seen); }

    /// Error: the first thing that could not be recorded.
    Status end(const Status &outcome, const std::optional<run::Summary> &summary)
    {
        flush();
        if (!m_workspace || m_run.id == 0)
            return m_status;
        store::conclude(m_run, outcome, summary);
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
    std::vector<run::StepMetrics> m_steps;
    std::vector<run::Validation> m_validations;
    Status m_status;
};

void printSummary(const run::Summary &summary, const std::vector<trace::RankInfo> &ranks, const std::string &folder,
                  Output &output)
{
    output.line();
    output.line(fmt::format("steps         {}", summary.steps));
    output.line(fmt::format("loss          {:.6g} -> {:.6g}", summary.lossFirst, summary.lossLast));
    const std::string expected = format(Seconds(summary.predictedIterationSeconds));
    if (summary.iterationSecondsMedian > 0)
        output.line(fmt::format("iteration     {} (median), predicted {} {}",
                                format(Seconds(summary.iterationSecondsMedian)), expected,
                                summary.ranksOnProcessors > 0
                                    ? std::string("on GPUs; it was trained on processors")
                                    : fmt::format("({:+.1f} %)", summary.predictionError * 100)));
    if (summary.samplesPerSecond > 0) {
        std::string speed = fmt::format("{:.4g} samples/s", summary.samplesPerSecond);
        if (summary.tokensPerSecond > 0)
            speed += fmt::format(", {:.4g} tokens/s", summary.tokensPerSecond);
        if (summary.mfu > 0)
            speed += fmt::format(", {} of the devices' {} peak", percent(summary.mfu), summary.mfuPrecision);
        output.line("speed         " + speed);
    }
    if (summary.thenFrom > 0) {
        const bool comparable = summary.ranksOnProcessors == 0 && summary.thenSecondsMedian > 0;
        output.line(
            fmt::format("from step {:<4}{} (median) by gradients, predicted {}{}", summary.thenFrom,
                        format(Seconds(summary.thenSecondsMedian)), format(Seconds(summary.thenSecondsPredicted)),
                        comparable ? fmt::format(" ({:+.1f} %)",
                                                 (summary.thenSecondsPredicted / summary.thenSecondsMedian - 1) * 100)
                                   : std::string()));
    }
    if (summary.evaluation)
        output.line(
            fmt::format("validation    {} samples: {}", summary.evaluation->samples, scores(*summary.evaluation)));
    if (summary.stoppedEarly)
        output.line("stopped       early: the validation loss stopped improving");
    if (summary.restarts > 0)
        output.line(fmt::format("restarts      {}", summary.restarts));
    Table table({"RANK", "DEVICE", "PEAK PREDICTED", "PEAK MEASURED", "BEYOND THE ARENA"});
    for (std::size_t rank = 0; rank < summary.peakBytesMeasured.size(); ++rank) {
        const std::int64_t predicted = rank < summary.peakBytesPredicted.size() ? summary.peakBytesPredicted[rank] : 0;
        table.row({std::to_string(rank), rank < ranks.size() ? ranks[rank].device : "?", count(predicted),
                   count(summary.peakBytesMeasured[rank]),
                   rank < summary.beyondArenaBytes.size() ? format(Bytes(summary.beyondArenaBytes[rank])) : "?"});
    }
    table.print(output);
    if (ranks.size() > summary.peakBytesMeasured.size())
        output.line(fmt::format("{} processes beside these ranks have no arena, and their memory is not measured",
                                ranks.size() - summary.peakBytesMeasured.size()));
    if (summary.traceDropped > 0)
        output.line(fmt::format("trace         {} records were lost", summary.traceDropped));
    output.line("run           " + folder);
}

/// The settings of an earlier part of the run stand in for settings that are not given now.
Result<TrainOptions> complete(TrainOptions options)
{
    std::error_code unknown;
    if (fs::is_directory(options.plan, unknown)) {
        if (!options.resume)
            return badInput(fmt::format("{} is a folder; name a plan file, or add --resume to continue the run in it",
                                        options.plan));
        if (options.runDir.empty())
            options.runDir = options.plan;
        options.plan += "/plan.json";
    }
    if (options.resume && options.runDir.empty())
        return badInput("--resume needs the run's folder; name it with --run-dir");
    if (options.resume) {
        const auto before = run::readRequest(options.runDir + "/request.json");
        if (!before)
            return before.error();
        options.settings = run::merged(before->settings, options.settings, options.given);
    }
    if (options.resume && options.on.empty()) {
        const auto target = remote::targetOfRun(options.runDir);
        if (!target)
            return target.error();
        if (*target)
            options.on = kItsTarget;
    }
    if (options.settings.data.empty())
        return badInput("--data is missing: a text, token file, .npy, CSV(.gz), IDX or a folder of .npy files; see "
                        "planloom train --help");
    options.settings.data = absolutePath(options.settings.data);
    if (!options.settings.arrivals.empty())
        options.settings.arrivals = absolutePath(options.settings.arrivals);
    return options;
}

/// Whether the run will show what its memory policies did.
Status checkDecisions(const TrainOptions &options, const plan::Plan &plan)
{
    if (options.decisions.empty())
        return {};
    if (options.settings.traceEvery == 0)
        return badInput("--decisions are read from the run's trace; leave out --trace off");
    if (std::none_of(plan.stages.begin(), plan.stages.end(),
                     [](const plan::Stage &stage) { return stage.memory.limits(); }))
        return badInput("no stage has a memory policy, so that nothing is decided; leave out --decisions, or plan with "
                        "--memory")
            .in(options.plan);
    return checkWritable(options.decisions);
}

/// What the memory policies did by @p program, from @p trace, beside what was predicted; @p said: of which steps. The
/// lines are added to @p text.
ordered_json compareDecisions(const program::Program &program, const cluster::Cluster &cluster,
                              const trace::Trace &trace, const std::string &said, std::string &text, Output &output)
{
    const exporting::ExecutedDecisions executed = exporting::executedDecisions(program, cluster, trace);
    text += text.empty() ? executed.text : executed.text.substr(executed.text.find('\n') + 1);
    std::size_t predicted = 0;
    for (const program::Rank &rank : program.ranks)
        predicted += rank.decisions.size();
    const std::size_t steps = executed.steps.size();
    output.line(fmt::format("decisions     {} predicted a step{}, carried out alike in {} of {} recorded steps",
                            predicted, said, steps - executed.differing.size(), steps));
    return {{"predicted", predicted}, {"steps", steps}, {"differing_steps", executed.differing}};
}

/// The same of the run in @p folder, whose lines are written to @p file.
Result<ordered_json> decisionsOf(const plan::Document &document, const std::string &folder,
                                 const std::optional<MeasuredRun> &measured, const std::string &file, Output &output)
{
    const auto program = compile::compilePlan(document.plan, document.subject);
    if (!program)
        return program.error();
    const auto trace = readRunTrace(folder);
    if (!trace)
        return trace.error();
    std::string text;
    ordered_json compared = compareDecisions(*program, *document.subject.cluster, *trace, {}, text, output);
    if (measured) {
        compared["measured"] =
            compareDecisions(measured->program, *document.subject.cluster, measured->trace,
                             fmt::format(" from step {} on by measured times", measured->fromStep), text, output);
        compared["measured"]["from_step"] = measured->fromStep;
    }
    if (const Status written = writeFileAtomically(file, text); !written)
        return written.error();
    output.line("              written to " + file);
    return compared;
}

/// What the loss of a step is where not every element counts; empty where it is the mean over the batch.
std::string noteOfMeans(const plan::Document &document)
{
    std::size_t slices = static_cast<std::size_t>(document.plan.microBatches);
    for (const plan::Stage &stage : document.plan.stages)
        slices = std::max(slices, stage.replicas() * static_cast<std::size_t>(document.plan.microBatches));
    const auto targets = graph::targetsOf(*document.subject.graph);
    const bool masked = std::any_of(targets.begin(), targets.end(),
                                    [](const graph::Target &target) { return target.use == graph::Target::Use::Mask; });
    if (!masked || slices < 2)
        return {};
    return fmt::format("note: the loss of a step is the mean of {} means, of a micro-batch on a replica each, over the "
                       "elements whose mask is true: micro-batches count alike, however many these are",
                       slices);
}

/// Empty where the plan's machines have no addresses, or are one.
std::string noteOfHosts(const plan::Document &document)
{
    std::set<std::string> addresses;
    for (const DeviceId device : plan::devicesOf(document.plan)) {
        const cluster::Cluster &cluster = *document.subject.cluster;
        addresses.insert(cluster.nodes()[cluster.device(device).node.index()].host.address);
    }
    addresses.erase("");
    if (addresses.size() < 2)
        return {};
    return fmt::format(
        "note: the plan's machines have {} addresses, but all ranks start on this machine; train --on one "
        "of them, and its ranks start on all",
        addresses.size());
}

/// What the processes of a sampled job sent, beside what was predicted.
Result<ordered_json> transfersOf(const plan::Document &document, const std::string &folder, Output &output)
{
    const plan::Plan &plan = document.plan;
    const auto program = compile::compilePlan(plan, document.subject, {.bodies = false});
    if (!program)
        return program.error();
    const runtime::ServedLayout served(
        *program, static_cast<std::size_t>(program->sampled->job.count(gnn::RoleKind::ParameterServer)));
    const auto before = run::readRequest(folder + "/request.json");
    if (!before)
        return before.error();
    const auto source = runtime::SampledSource::open(plan, *before);
    if (!source)
        return source.error();
    auto sent = runtime::readTransfers(plan, folder);
    if (!sent)
        return sent.error();
    // What came before a resumption may have been of another batch.
    std::erase_if(*sent,
                  [&](const runtime::SampledTransfer &transfer) { return transfer.iteration < before->from.step; });
    std::int64_t bytes = 0, predicted = 0, differing = 0;
    for (std::size_t i = 0; i < sent->size();) { // an iteration at a time
        const std::int64_t step = (*sent)[i].iteration;
        const auto begin = i;
        for (; i < sent->size() && (*sent)[i].iteration == step; ++i)
            bytes += (*sent)[i].bytes;
        auto expected = runtime::predictedTransfers(plan, plan::batchFormOf(*document.subject.graph), *source, step);
        const auto byServers = runtime::servedTransfers(plan, served, step);
        expected.insert(expected.end(), byServers.begin(), byServers.end());
        std::ranges::sort(expected);
        for (const runtime::SampledTransfer &transfer : expected)
            predicted += transfer.bytes;
        differing += std::equal(expected.begin(), expected.end(), sent->begin() + static_cast<std::ptrdiff_t>(begin),
                                sent->begin() + static_cast<std::ptrdiff_t>(i))
            ? 0
            : 1;
    }
    output.line(fmt::format("transfers     {} sent, {} predicted; {}", count(bytes), count(predicted),
                            differing == 0 ? std::string("equal on every connection and iteration")
                                           : fmt::format("{} iterations differ", differing)));
    const bool paced = before->settings.paced > 0;
    const bool allReduces =
        plan.exchange.policy == plan::ExchangePolicy::AllReduce && plan.stages.front().replicas() > 1;
    if (paced)
        output.line(fmt::format("network       paced: messages between roles took as long as on the network cards of "
                                "the plan's machines{}",
                                allReduces ? "; the trainers' all-reduce is not paced" : ""));
    ordered_json result{
        {"bytes", bytes}, {"predicted_bytes", predicted}, {"differing_iterations", differing}, {"paced", paced}};
    if (paced && allReduces)
        result["all_reduce_paced"] = false;
    return result;
}

/// What a step of some trainings reports besides its loss.
std::string besides(const run::StepMetrics &step)
{
    if (step.objective > 0)
        return fmt::format("  objective {:.6g}, residuals {:.3g} primal, {:.3g} dual", step.objective,
                           step.primalResidual, step.dualResidual);
    return step.consensusDistance > 0 ? fmt::format("  replicas apart {:.3g}", step.consensusDistance) : std::string();
}

/// Of a line per step on a terminal: the first five, about twenty more, and the last.
bool worthPrinting(std::int64_t step, std::int64_t steps)
{
    const std::int64_t every = std::max<std::int64_t>(1, steps / 20);
    return step < 5 || step % every == 0 || step + 1 == steps;
}

/// The plan of @p options, if it can be trained with them.
Result<plan::Document> trainablePlan(const TrainOptions &options)
{
    auto document = plan::readPlan(options.plan);
    if (!document)
        return document;
    if (const Status trainable = checkTraining(*document->subject.graph); !trainable)
        return trainable.error().in(options.plan);
    if (const Status shown = checkDecisions(options, document->plan); !shown)
        return shown.error();
    if (options.settings.paced > 0 && !document->plan.job)
        return badInput("--paced is for plans with roles, whose messages go from machine to machine; leave it out")
            .in(options.plan);
    return document;
}

/// What was sent and decided, beside what was predicted.
Status printComparisons(const plan::Document &document, const TrainOptions &options, const std::string &folder,
                        const std::optional<MeasuredRun> &measured, bool complete, Output &output)
{
    if (document.plan.job && complete) {
        const auto transfers = transfersOf(document, folder, output);
        if (!transfers)
            return transfers.error();
        output.result(ordered_json{{"transfers", *transfers}});
    }
    if (options.decisions.empty())
        return {};
    const auto decisions = decisionsOf(document, folder, measured, options.decisions, output);
    if (!decisions)
        return decisions.error();
    output.result(ordered_json{{"decisions", *decisions}});
    return {};
}

} // namespace

Status train(const TrainOptions &given, Output &output)
{
    const auto completed = complete(given);
    if (!completed)
        return completed.error();
    const TrainOptions &options = *completed;
    const auto document = trainablePlan(options);
    if (!document)
        return document.error();
    const auto planJson = readFile(options.plan);
    if (!planJson)
        return planJson.error();
    auto workspace = openWorkspace(options.workspace);
    if (!workspace)
        return workspace.error();
    Record record(std::move(*workspace), document->plan);
    const auto target = targetOf(options);
    if (!target)
        return target.error();
    auto client = connect(*target, options, output);
    if (!client)
        return client.error();
    TerminalProgress progress(output.showsProgress());
    std::string folder;
    std::vector<trace::RankInfo> ranks;
    std::optional<run::Summary> last;
    std::vector<run::StepMetrics> steps;
    agent::RunEvents events;
    events.onTraceTables = [&](const trace::Tables &tables) {
        ranks = tables.ranks;
        if (!options.on.empty() && options.on != "local")
            return; // what trains there is not known here
        if (const auto count = runtime::ranksOnProcessors(*document->subject.cluster, ranks); count > 0)
            output.note(runtime::onProcessorsNote(count));
    };
    events.onStarted = [&](const std::string &, const std::string &runDir) {
        folder = runDir;
        record.begin(runDir);
        printPlan(document->plan, document->subject, output);
        const bool here = options.on.empty() || options.on == "local";
        for (const std::string &note : {noteOfMeans(*document), here ? noteOfHosts(*document) : std::string()}) {
            if (!note.empty())
                output.note(note);
        }
        output.line();
    };
    events.onStep = [&](const run::StepMetrics &step) {
        output.json(run::toJson(step));
        record.add(step);
        if (runtime::decidesByMeasured(document->plan))
            steps.push_back(step);
        if (output.isText() && worthPrinting(step.step, options.settings.steps)) {
            progress.clear();
            output.line(fmt::format("step {:>6}  loss {:<10.6g}  {:>9}  {:.4g} samples/s{}", step.step, step.loss,
                                    format(Seconds(step.seconds)), step.samplesPerSecond, besides(step)));
        }
        progress.report(static_cast<double>(step.step + 1) / static_cast<double>(options.settings.steps), "training");
    };
    events.onValidation = [&](const run::Validation &seen) {
        output.json(run::toJson(seen));
        record.add(seen);
        progress.clear();
        output.line(fmt::format("step {:>6}  validation: {}", seen.step, scores(seen)));
    };
    events.onState = [&](agent::RunState state, const std::string &message) {
        if (state == agent::RunState::Starting && !message.empty())
            output.line("resumed       " + message);
        if (state != agent::RunState::Restarting)
            return;
        output.result(ordered_json{{"state", "restarting"}, {"message", message}});
        progress.clear();
        output.line("restarting    " + message);
    };
    events.onSummary = [&](const run::Summary &summary) { last = summary; };

    agent::TrainRequest request{*planJson, absolutePath(options.runDir), options.resume, options.settings};
    // request.json in the folder of a run on a target is that machine's text: nothing is sent because it names it.
    if (!target->isLocal() && options.resume && !options.given.contains("data"))
        request.settings.data.clear();
    Status outcome;
    {
        const InterruptWatch watch([&client] { (*client)->stop(); });
        outcome = (*client)->train(request, events);
    }
    progress.clear();
    Status shown;
    if (last) {
        printSummary(*last, ranks, folder, output);
        const auto measured = readMeasuredRun(*document, folder, !options.decisions.empty());
        shown = !measured ? Status(measured.error())
            : *measured   ? printMeasuredSeconds(**measured, *document, steps, output)
                          : Status();
        if (shown)
            shown = printComparisons(*document, options, folder, *measured, outcome.ok(), output);
        output.result(ordered_json{{"summary", ordered_json::parse(run::toJson(*last))}}); // the last line
    }
    const Status recorded = record.end(outcome, last);
    if (!outcome)
        return outcome;
    return shown ? recorded : shown;
}

} // namespace planloom::cli

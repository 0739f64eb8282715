// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/training_watch.h"

#include "engine/base/files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>

namespace planloom::runtime {

namespace {

// State of the early stop in a checkpoint.
constexpr const char *kBest = "validation_best";
constexpr const char *kWaited = "validations_since";

checkpoint::TrainingState stateOf(const run::Request &request, const plan::Plan &plan, const std::string &runDir)
{
    checkpoint::TrainingState state;
    state.seed = request.settings.seed;
    const auto text = readFile(runDir + "/plan.json");
    state.plan = text ? sha256(*text) : std::string();
    state.model = plan.modelName;
    state.optimizer = plan.optimizer.rule.name();
    state.layout = plan::notation(plan);
    return state;
}

/// A checkpoint exists only where the metrics of the steps before it do: a run that resumes from it reports none of
/// them again.
Status keepMetrics(Drain &drain, const std::string &runDir, std::int64_t steps, const std::stop_token &giveUp)
{
    const std::string file = runDir + "/metrics.jsonl";
    if (const Status kept = drain.keepMetrics(steps, giveUp); !kept)
        return kept;
    return std::filesystem::exists(file) ? syncToDisk(file) : Status();
}

} // namespace

Result<std::unique_ptr<TrainingWatch>> TrainingWatch::create(RankExecutor &executor, const run::Request &request,
                                                             const plan::Plan &plan, const Feed &feed,
                                                             const std::string &runDir, Drain &drain)
{
    std::unique_ptr<TrainingWatch> watch(new TrainingWatch(executor, request, drain));
    if (const Status begun = watch->begin(plan, feed, runDir); !begun)
        return begun.error();
    return watch;
}

Status TrainingWatch::begin(const plan::Plan &plan, const Feed &feed, const std::string &runDir)
{
    if (!m_request.from.checkpoint.empty()) {
        if (const Status restored = restoreHeld(m_executor, m_request.from.checkpoint); !restored)
            return restored;
        auto notes = notesOf(m_request.from.checkpoint);
        if (!notes)
            return notes.error();
        goOnWith(*std::move(notes));
    }
    if (m_request.settings.checkpointEvery == 0)
        return {};
    auto checkpoints = Checkpointing::create(
        m_executor,
        {.runDir = runDir,
         .every = m_request.settings.checkpointEvery,
         .keep = static_cast<int>(m_request.settings.keep),
         .lease = m_request.from.lease,
         .firstStep = m_request.from.step,
         .state = stateOf(m_request, plan, runDir),
         .globalBatch = plan.globalBatch,
         .order = feed.order,
         .beforePublish = [&drain = m_drain, runDir](std::int64_t step, const std::stop_token &giveUp) {
             return keepMetrics(drain, runDir, step, giveUp);
         }});
    if (!checkpoints)
        return checkpoints.error();
    m_checkpoints = std::move(*checkpoints);
    return {};
}

void TrainingWatch::goOnWith(std::map<std::string, std::string> notes)
{
    if (notes.contains(kBest))
        m_best = std::strtod(notes[kBest].c_str(), nullptr);
    m_waited = std::strtoll(notes[kWaited].c_str(), nullptr, 10);
}

bool TrainingWatch::pausesAfter(std::int64_t step, std::int64_t period) const
{
    const std::int64_t done = step + 1;
    const auto due = [done](std::int64_t every) { return every > 0 && done % every == 0; };
    return due(m_request.settings.validateEvery) || due(m_request.settings.checkpointEvery)
        || (m_checkpoints && m_checkpoints->inMaking() && done % period == 0);
}

Status TrainingWatch::afterStep(const run::StepMetrics &result, bool &stop)
{
    const std::int64_t done = result.step + 1;
    if (m_request.settings.validateEvery > 0 && done % m_request.settings.validateEvery == 0) {
        m_drain.setTraining(false); // no tasks end meanwhile
        const Status validated = validate(result.step, stop);
        m_drain.setTraining(true);
        if (!validated)
            return validated;
    }
    return m_checkpoints ? m_checkpoints->afterStep(done, notes()) : Status();
}

Status TrainingWatch::validate(std::int64_t step, bool &stop)
{
    Result<run::Validation> seen = m_executor.evaluate();
    if (!seen)
        return seen.error();
    seen->step = step;
    if (m_executor.communicator().rank() == 0)
        m_drain.report(*seen);
    m_waited = seen->loss < m_best ? 0 : m_waited + 1;
    m_best = std::min(m_best, seen->loss);
    if (m_request.settings.earlyStop > 0 && m_waited >= m_request.settings.earlyStop)
        stop = m_stoppedEarly = true;
    return {};
}

Status TrainingWatch::finish()
{
    return m_checkpoints ? m_checkpoints->finish(m_request.from.step + m_executor.stepsDone(), notes()) : Status();
}

std::map<std::string, std::string> TrainingWatch::notes() const
{
    if (m_request.settings.validateEvery == 0)
        return {};
    return {{kBest, fmt::format("{}", m_best)}, {kWaited, std::to_string(m_waited)}};
}

} // namespace planloom::runtime

// SPDX-License-Identifier: Apache-2.0
// How a run begins, and begins again: one gang of workers after another.
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "executor/agent/run.h"
#include "executor/checkpoint/lease.h"
#include "executor/checkpoint/restore.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <unistd.h>

namespace planloom::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kHungAfter = 30s;
constexpr double kHungSteps = 5;          ///< medians of a step
constexpr std::size_t kStepsOfMedian = 64; ///< newest ones: asked for at every look

} // namespace

/// What the run writes besides the request.
Status Run::open()
{
    auto writer = trace::TraceWriter::create(m_folder.file("trace.pltrace"), "wall", m_prediction.ranks, m_prediction.tasks);
    if (!writer)
        return writer.error();
    m_trace.emplace(std::move(*writer));
    store::Run run;
    run.folder = m_folder.path();
    run.model = m_prediction.modelName;
    auto metrics = RunMetrics::open(m_folder.file("metrics.db"), run);
    if (metrics)
        m_metrics.emplace(std::move(*metrics));
    else
        note(metrics.error().text() + "; the run goes on without it");
    if (!m_request.resume)
        return {};
    auto steps = catchUp();
    if (!steps)
        return steps.error();
    const std::lock_guard lock(m_mutex);
    m_steps = std::move(*steps);
    return {};
}

/// What metrics.jsonl has, then in the data base, too.
Result<std::vector<StepMetrics>> Run::catchUp()
{
    const auto lines = readFile(m_folder.file("metrics.jsonl"));
    if (!lines)
        return lines.error();
    auto steps = metricsFromJson(*lines);
    if (!steps)
        return steps.error().in(m_folder.file("metrics.jsonl"));
    const auto validations = validationsFromJson(*lines);
    if (!validations)
        return validations.error().in(m_folder.file("metrics.jsonl"));
    if (const Status same = m_metrics ? m_metrics->catchUp(*steps, *validations) : Status(); !same)
        note(same.error().text());
    return steps;
}

/// Into the run's log, with our name, as workers write there, too.
void Run::note(const std::string &text)
{
    m_folder.appendLog("planloom agent: " + text + "\n");
    log(LogLevel::Info, text);
}

Result<Beginning> Run::newestBeginning()
{
    Beginning from;
    if (m_request.checkpointEvery > 0) { // from here on no earlier gang of this run can publish anything
        const auto lease = checkpoint::Lease::acquire(m_folder.path(), fmt::format("{}/{}", m_id, m_gang));
        if (!lease)
            return lease.error();
        from.lease = lease->epoch();
    }
    if (!m_request.resume && m_gang == 0)
        return from;
    std::vector<std::string> skipped;
    const auto newest = checkpoint::newestCheckpoint(m_folder.path(), &skipped);
    for (const std::string &why : skipped)
        note(why);
    if (!newest && newest.error().code != ErrorCode::NotFound)
        return newest.error();
    if (!newest)
        return from;
    if (newest->state.seed != m_request.seed)
        return badInput(fmt::format("the run was begun with seed {}, not {}; resume it with the same", newest->state.seed, m_request.seed)).in(newest->folder);
    from.step = newest->state.step;
    from.sample = newest->state.samples;
    from.checkpoint = newest->folder;
    return from;
}

/// What was done after the checkpoint is done again, and reported again.
void Run::goOnFrom(std::int64_t step)
{
    if (const Status forgotten = m_metrics ? m_metrics->forgetFrom(step) : Status(); !forgotten)
        note(forgotten.error().text());
    const std::lock_guard lock(m_mutex);
    std::erase_if(m_steps, [step](const StepMetrics &done) { return done.step >= step; });
}

Status Run::prepareGang()
{
    const auto from = newestBeginning();
    if (!from)
        return from.error();
    m_from = *from;
    goOnFrom(from->step);
    if (const Status cut = m_folder.cutMetrics(from->step); !cut)
        return cut;
    if (m_gang > 0 || m_request.resume) {
        const std::string text = from->checkpoint.empty() ? std::string("begins at the first step; there is no checkpoint yet")
                                                          : fmt::format("goes on from step {}, {}", from->step, from->checkpoint);
        note(text);
        const std::lock_guard lock(m_mutex);
        if (m_gang == 0)
            publish(StateChange{RunState::Starting, text});
    }
    return m_folder.writeRequest(m_request, *from);
}

/// After a gang: whether there shall be another one, for which everything is then ready. Only what another try can mend is tried again.
bool Run::restart()
{
    const std::lock_guard lock(m_mutex);
    const Status outcome = judge();
    if (outcome || outcome.error().code != ErrorCode::Failed || m_stopAsked || m_gang >= m_request.restarts)
        return false;
    for (Worker &worker : m_workers) {
        m_droppedBefore += worker.dropped;
        if (worker.process >= 0)
            ::close(worker.process);
        worker = {};
    }
    m_child.reset();
    m_exit.reset();
    m_outputTail.clear();
    m_logged = 0;
    m_force = 0;
    m_failure.reset();
    m_firstLost.reset();
    m_deadline.reset();
    m_evaluation.reset();
    m_toKeep = 0;
    m_toWrite.clear(); // what came too late to be written before the files are cut is done again
    ++m_gang;
    m_token = randomHex(16);
    m_state = RunState::Restarting;
    const std::string text = fmt::format("{}; starting again, {} of {}", outcome.error().text(), m_gang, m_request.restarts);
    note(text);
    publish(StateChange{m_state, text});
    return !m_token.empty();
}

Run::Clock::duration Run::hungAfter() const
{
    std::vector<double> seconds;
    for (std::size_t i = m_steps.size() - std::min(m_steps.size(), kStepsOfMedian); i < m_steps.size(); ++i)
        seconds.push_back(m_steps[i].seconds);
    const double least = m_request.hungSeconds > 0 ? m_request.hungSeconds : std::chrono::duration<double>(kHungAfter).count();
    if (seconds.empty())
        return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(least));
    std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::max(least, kHungSteps * seconds[seconds.size() / 2])));
}

std::int64_t Run::stepsDone() const { return m_steps.empty() ? m_from.step : m_steps.back().step + 1; }

/// A run that did no step leaves its folder as it found it: whoever asked for something that cannot be asks again.
void Run::takeBack()
{
    if (!m_request.resume)
        m_metrics.reset(); // its file goes, too
    m_folder.discard();
    if (m_metrics)
        [[maybe_unused]] const auto same = catchUp(); // or when the run goes on
    m_metrics.reset();
}

/// The data base's last word on the run.
void Run::recordEnd(const Status &outcome, const std::optional<RunSummary> &summary)
{
    if (!m_metrics)
        return;
    store::Run run;
    run.folder = m_folder.path();
    run.model = m_prediction.modelName;
    run.state = outcome ? "finished" : outcome.error().code == ErrorCode::Cancelled ? "stopped" : "failed";
    run.error = outcome ? "" : outcome.error().text();
    run.steps = stepsDone();
    if (summary) {
        const auto known = [](double value) { return std::isfinite(value) ? value : 0; };
        run.lossFirst = known(summary->lossFirst);
        run.lossLast = known(summary->lossLast);
        run.iterationSecondsMedian = summary->iterationSecondsMedian;
        run.predictedIterationSeconds = summary->predictedIterationSeconds;
    }
    if (const Status recorded = m_metrics->end(run); !recorded)
        note(recorded.error().text());
}

} // namespace planloom::agent

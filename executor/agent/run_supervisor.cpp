// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/run.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace planloom::agent {
namespace {

using namespace std::chrono_literals;

constexpr int kPollMilliseconds = 20;
constexpr auto kTermGrace = 3s;      ///< from SIGTERM to SIGKILL: mpirun takes some tens of milliseconds to end its workers
constexpr auto kFarewell = 2s;       ///< for last messages and processes once the launcher has ended
constexpr auto kStartLimit = 10s;    ///< until every worker has said hello; at least, as a short limit for hung ones is for those that train
constexpr auto kBlame = 2s;          ///< more than a heartbeat
constexpr std::size_t kTail = 2000;  ///< bytes of the workers' output that an error quotes

void signalProcess(int process, int signal)
{
    if (process >= 0)
        ::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0);
}

bool hasEnded(int process)
{
    pollfd wait{process, POLLIN, 0};
    return process < 0 || ::poll(&wait, 1, 0) > 0;
}

double median(std::vector<double> values)
{
    if (values.empty())
        return 0;
    std::ranges::sort(values);
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// The rank of which Open MPI's launcher says that it ended and so made it end the others: which of them the kernel reports first says little.
std::optional<std::size_t> blamedByLauncher(const std::string &output)
{
    constexpr std::string_view kSaid = "mpirun noticed that process rank ";
    const auto at = output.rfind(kSaid);
    if (at == std::string::npos)
        return std::nullopt;
    return std::strtoull(output.c_str() + at + kSaid.size(), nullptr, 10);
}

/// The last @p lines whole lines.
std::string lastLines(const std::string &text, int lines)
{
    auto end = text.find_last_not_of(" \n");
    if (end == std::string::npos)
        return {};
    auto begin = end;
    while (lines > 0 && begin != std::string::npos && begin > 0) {
        begin = text.rfind('\n', begin - 1);
        --lines;
    }
    return text.substr(begin == std::string::npos ? 0 : begin, end + 1 - (begin == std::string::npos ? 0 : begin));
}

} // namespace

void Run::supervise()
{
    {
        const std::lock_guard lock(m_mutex);
        publish(StateChange{RunState::Starting, {}});
    }
    Status ready = open();
    do {
        if (ready)
            ready = launch();
        if (ready) {
            watch();
            reapWorkers();
        } else {
            const std::lock_guard lock(m_mutex);
            fail(ready.error());
        }
    } while (ready && restart());
    finish();
}

/// Starts the workers from where the newest checkpoint is.
Status Run::launch()
{
    if (const Status prepared = prepareGang(); !prepared)
        return prepared;
    const auto command = workerCommand(static_cast<int>(m_prediction.ranks.size()), m_folder.path(), m_socketPath, token(), m_scratch.emplace());
    if (!command)
        return command.error();
    auto child = Child::start(*command);
    if (!child)
        return child.error();
    m_child.emplace(std::move(*child));
    return {};
}

Run::Clock::duration Run::startLimit() const
{
    const std::lock_guard lock(m_mutex);
    return std::max<Clock::duration>(kStartLimit, hungAfter());
}

void Run::watch()
{
    const auto startLimit = this->startLimit();
    const auto startBy = Clock::now() + startLimit;
    while (!m_exit) {
        m_outputTail += m_child->read(kPollMilliseconds);
        writeOut();
        watchLives();
        if (Clock::now() > startBy) {
            const std::lock_guard lock(m_mutex);
            if (m_state == RunState::Starting || m_state == RunState::Restarting)
                fail(failed(fmt::format("the workers did not start within {:.3g} s: one hangs or was suspended; see {}", std::chrono::duration<double>(startLimit).count(), m_folder.file("log"))));
        }
        enforceDeadline();
        m_exit = m_child->poll();
    }
}

void Run::writeOut()
{
    if (!m_outputTail.empty()) {
        m_folder.appendLog(m_outputTail.substr(std::min(m_logged, m_outputTail.size())));
        if (m_outputTail.size() > kTail)
            m_outputTail.erase(0, m_outputTail.size() - kTail);
        m_logged = m_outputTail.size();
    }
    std::vector<trace::Record> records;
    std::int64_t dropped = 0;
    {
        const std::lock_guard lock(m_mutex);
        records.swap(m_toFile);
        dropped = m_fileDropped + m_droppedBefore;
        for (const Worker &worker : m_workers)
            dropped += worker.dropped;
    }
    if (const Status written = m_trace ? m_trace->append(records, dropped) : Status(); !written) {
        const std::lock_guard lock(m_mutex);
        fail(written.error());
    }
    writeMetrics(m_exit.has_value());
}

/// To metrics.jsonl, without which there is no run, and to the data base, without which there is.
void Run::writeMetrics(bool last)
{
    std::deque<std::variant<StepMetrics, Validation>> lines;
    std::int64_t kept = 0;
    std::shared_ptr<WorkerLine> asked;
    {
        const std::lock_guard lock(m_mutex);
        lines.swap(m_toWrite);
        kept = std::exchange(m_toKeep, 0);
        asked = m_failure ? nullptr : m_workers.front().line; // metrics may have been lost
    }
    Status written;
    for (const auto &line : lines) {
        if (written)
            written = m_folder.appendMetrics(std::visit([](const auto &value) { return toJson(value); }, line));
        if (!m_metrics)
            continue;
        if (const auto *step = std::get_if<StepMetrics>(&line))
            m_metrics->add(*step);
        else
            m_metrics->add(std::get<Validation>(line));
    }
    if (!written) {
        const std::lock_guard lock(m_mutex);
        fail(written.error());
    } else if (kept > 0 && asked) {
        asked->metricsKept(kept);
    }
    if (const Status flushed = m_metrics ? m_metrics->flush(last) : Status(); !flushed) {
        note(flushed.error().text() + "; the run goes on without it");
        m_metrics.reset();
    }
}

/// Ranks that died without a word, that no longer speak, or that speak but get nothing done.
void Run::watchLives()
{
    const std::lock_guard lock(m_mutex);
    const auto limit = hungAfter();
    const auto now = Clock::now();
    const auto seconds = std::chrono::duration<double>(limit).count();
    const auto watched = [](const Worker &worker) { return worker.attached && !worker.finished && !worker.detached; };
    for (std::size_t rank = 0; rank < m_workers.size(); ++rank) {
        Worker &worker = m_workers[rank];
        if (watched(worker) && worker.process >= 0 && hasEnded(worker.process))
            lose(worker);
        else if (watched(worker) && now - worker.heard > limit)
            fail(failed(fmt::format("rank {} ({}) has been silent for {:.3g} s: it hangs or was suspended", rank, m_prediction.ranks[rank].device, seconds)));
    }
    // Those who wait for a rank that is silent get nothing done either: they are blamed last.
    for (const Worker &worker : m_workers) {
        if (watched(worker) && worker.training && now - worker.progressed > limit + kBlame)
            fail(failed(fmt::format("no task has ended for {:.3g} s: a rank hangs", seconds)));
    }
}

void Run::enforceDeadline()
{
    const std::lock_guard lock(m_mutex);
    if (!m_deadline || Clock::now() < *m_deadline)
        return;
    const int signal = m_force == 0 ? SIGTERM : SIGKILL;
    m_child->signalGroup(signal);
    for (const Worker &worker : m_workers)
        signalProcess(worker.process, signal);
    ++m_force;
    m_deadline = Clock::now() + kTermGrace;
}

void Run::reapWorkers()
{
    const auto until = Clock::now() + kFarewell;
    for (bool waiting = true; waiting;) {
        m_outputTail += m_child->read(kPollMilliseconds);
        const std::lock_guard lock(m_mutex);
        waiting = Clock::now() < until
            && std::ranges::any_of(m_workers, [](const Worker &worker) { return worker.attached && (!worker.detached || !hasEnded(worker.process)); });
    }
    {
        const std::lock_guard lock(m_mutex);
        for (const Worker &worker : m_workers)
            signalProcess(worker.process, SIGKILL);
    }
    m_child->signalGroup(SIGKILL);
    m_outputTail += m_child->read(0);
    writeOut();
}

std::string Run::unexpectedEnd() const
{
    std::string who = "the workers";
    const auto blamed = blamedByLauncher(m_outputTail);
    const std::size_t rank = blamed && *blamed < m_workers.size() ? *blamed : static_cast<std::size_t>(m_firstLost.value_or(0));
    if ((blamed || m_firstLost) && m_workers.size() > 1)
        who = fmt::format("rank {} ({})", rank, m_prediction.ranks[rank].device);
    else if (m_workers.size() == 1)
        who = "the worker";
    std::string text = fmt::format("{} ended unexpectedly after {} steps ({}); see {}", who, stepsDone(), m_exit ? describe(*m_exit) : "not started", m_folder.file("log"));
    constexpr int kLines = 8;
    if (const std::string last = lastLines(m_outputTail, kLines); !last.empty())
        text += "; its last output: " + last;
    return text;
}

Status Run::judge()
{
    if (m_failure)
        return *m_failure;
    const bool clean = m_exit && m_exit->status == 0 && m_exit->signal == 0 && std::ranges::all_of(m_workers, &Worker::finished);
    if (clean && (stepsDone() >= m_request.steps || m_stoppedEarly))
        return {};
    if (m_stopAsked)
        return cancelled(fmt::format("stopped {} after {} of {} steps", m_force > 0 ? "by force" : "on request", stepsDone(), m_request.steps));
    if (clean)
        return failed(fmt::format("the workers ended after {} of {} steps without an error; see {}", stepsDone(), m_request.steps, m_folder.file("log")));
    return failed(unexpectedEnd());
}

RunSummary Run::summarize() const
{
    RunSummary summary = m_evaluation.value_or(RunSummary{});
    summary.steps = static_cast<std::int64_t>(m_steps.size());
    summary.lossFirst = m_steps.front().loss;
    summary.lossLast = m_steps.back().loss;
    std::vector<double> seconds;
    for (std::size_t i = m_steps.size() > 1 ? 1 : 0; i < m_steps.size(); ++i) // the first one also warms up
        seconds.push_back(m_steps[i].seconds);
    summary.iterationSecondsMedian = median(std::move(seconds));
    summary.restarts = m_gang;
    summary.stoppedEarly = m_stoppedEarly;
    summary.predictedIterationSeconds = m_prediction.iterationSeconds;
    if (summary.iterationSecondsMedian > 0)
        summary.predictionError = summary.predictedIterationSeconds / summary.iterationSecondsMedian - 1;
    summary.peakBytesPredicted = m_prediction.peakBytes;
    summary.traceDropped = m_fileDropped + m_droppedBefore;
    for (const Worker &worker : m_workers) {
        summary.peakBytesMeasured.push_back(worker.memory.peak);
        summary.beyondArenaBytes.push_back(worker.memory.beyondArena);
        summary.sharedBytes.push_back(worker.memory.shared);
        summary.traceDropped += worker.dropped;
    }
    summary.tracePath = m_folder.file("trace.pltrace");
    return summary;
}

void Run::finish()
{
    Status closed = m_trace ? m_trace->close() : Status();
    const std::lock_guard lock(m_mutex);
    if (!closed)
        fail(closed.error());
    Status outcome = judge();
    const bool stopped = !outcome && outcome.error().code == ErrorCode::Cancelled;
    std::optional<RunSummary> summary;
    const bool vain = m_request.resume ? !m_anyStep && !outcome : m_steps.empty();
    if ((outcome || stopped) && !m_steps.empty()) {
        summary = summarize();
        Status written = vain ? Status() : m_folder.shortenMetrics();
        if (written && !vain)
            written = m_folder.writeSummary(*summary);
        if (!written)
            outcome = written.error();
    }
    if (vain)
        takeBack();
    m_state = outcome ? RunState::Finished : outcome.error().code == ErrorCode::Cancelled ? RunState::Stopped : RunState::Failed;
    publish(StateChange{m_state, outcome ? std::string() : outcome.error().text()});
    if (summary && m_state != RunState::Failed)
        publish(*summary);
    recordEnd(outcome, summary);
    m_metrics.reset();
    m_scratch.reset();
    m_folder.release(); // free before anybody hears of the end
    m_outcome = outcome;
    m_news.notify_all();
}

} // namespace planloom::agent

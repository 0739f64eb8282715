// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/drain.h"

#include "engine/base/failpoint.h"
#include "engine/base/log.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace planloom::runtime {

namespace {

constexpr std::chrono::milliseconds kPeriod{50};
constexpr std::chrono::milliseconds kShortPeriod{2}; ///< while an answer is awaited
constexpr std::size_t kResultsAhead = 4096;          ///< steps that fit one period without growing the list

/// A place to die at; there is nothing here that could go wrong otherwise.
Status sending()
{
    PLANLOOM_FAILPOINT("metrics.send");
    return {};
}

} // namespace

Drain::Drain(Recording &recording, WorkerChannel &channel) : m_recording(recording), m_channel(channel)
{
    m_results.reserve(kResultsAhead);
    m_delivering.reserve(kResultsAhead);
    m_batch.reserve(kBatch);
    m_thread = std::jthread([this](const std::stop_token &ended) { loop(ended); });
}

Drain::~Drain()
{
    m_thread.request_stop();
    m_thread.join();
}

void Drain::report(const run::StepMetrics &result)
{
    const std::lock_guard lock(m_mutex);
    m_results.emplace_back(result);
}

void Drain::report(const run::Validation &result)
{
    const std::lock_guard lock(m_mutex);
    m_results.emplace_back(result);
}

void Drain::reportLast(const run::Validation &evaluation)
{
    const std::lock_guard lock(m_mutex);
    m_evaluation = evaluation;
}

void Drain::traceInto(std::int64_t step, trace::TraceWriter trace)
{
    const std::lock_guard lock(m_mutex);
    m_later.emplace(Later{step, std::move(trace)});
}

/// Takes records of later steps out of the batch. Their trace is there before the first of them is.
void Drain::takeLater()
{
    {
        const std::lock_guard lock(m_mutex);
        if (!m_later)
            return;
    }
    const auto later = std::stable_partition(m_batch.begin(), m_batch.end(), [this](const trace::Record &record) {
        return record.step < m_later->from;
    });
    if (later == m_batch.end())
        return;
    const std::span<const trace::Record> records(&*later, static_cast<std::size_t>(m_batch.end() - later));
    if (const Status kept = m_later->trace.append(records, m_recording.dropped()); !kept)
        log(LogLevel::Warning, kept.error().text() + "; the trace of the measured course lacks some of its tasks");
    m_batch.erase(later, m_batch.end());
}

Status Drain::keepMetrics(std::int64_t steps, const std::stop_token &giveUp)
{
    std::unique_lock lock(m_mutex);
    m_toKeep = std::max(m_toKeep, steps);
    m_wake.notify_one();
    if (!m_news.wait(lock, giveUp, [this, steps] { return !m_kept || *m_kept >= steps; }))
        return cancelled("waiting for the metrics was cancelled");
    return m_kept ? Status() : failed("the connection over which step metrics are stored has ended");
}

void Drain::loop(const std::stop_token &ended)
{
    while (!ended.stop_requested()) {
        deliver();
        m_channel.progress(m_recording.tasks() + m_delivered, m_training.load(std::memory_order_relaxed));
        if (!m_stopRequested.load(std::memory_order_relaxed) && m_channel.stopRequested())
            m_stopRequested.store(true, std::memory_order_relaxed);
        if (const double seconds = m_channel.takeKernelsAsked(); seconds > 0)
            m_recording.askForKernels(seconds);
        hearOfMetrics();
        std::unique_lock lock(m_mutex);
        m_wake.wait_for(lock, ended, m_kept && *m_kept < m_askedToKeep ? kShortPeriod : kPeriod,
                        [this] { return m_toKeep > m_askedToKeep; });
    }
    deliver();
    if (m_later) [[maybe_unused]] // its last block is there in any case
        const Status closed = m_later->trace.close();
    m_channel.progress(m_recording.tasks() + m_delivered, false);
}

void Drain::hearOfMetrics()
{
    if (m_askedToKeep == 0)
        return;
    const auto kept = m_channel.metricsKept();
    const std::lock_guard lock(m_mutex);
    m_kept = kept;
    m_news.notify_all();
}

void Drain::deliver()
{
    std::optional<run::Validation> evaluation;
    std::int64_t toKeep = 0;
    {
        const std::lock_guard lock(m_mutex);
        m_results.swap(m_delivering);
        evaluation.swap(m_evaluation);
        toKeep = m_toKeep;
    }
    if (!m_delivering.empty()) [[maybe_unused]]
        const Status passed = sending();
    for (const Item &result : m_delivering) {
        if (const auto *step = std::get_if<run::StepMetrics>(&result))
            m_channel.metrics(*step);
        else
            m_channel.validation(std::get<run::Validation>(result));
    }
    if (toKeep > m_askedToKeep)
        m_channel.keepMetrics(m_askedToKeep = toKeep);
    m_delivered += static_cast<std::int64_t>(m_delivering.size());
    m_delivering.clear();
    if (evaluation)
        m_channel.evaluation(*evaluation);
    do {
        m_batch.clear();
        m_recording.ring().drain(m_batch, kBatch);
        if (trace::Ring *kernels = m_recording.kernels())
            kernels->drain(m_batch, kBatch - m_batch.size());
        const std::size_t drained = m_batch.size();
        takeLater();
        const std::int64_t dropped = m_recording.dropped();
        if (!m_batch.empty() || dropped != m_droppedSaid)
            m_channel.records(m_batch, dropped);
        m_droppedSaid = dropped;
        if (drained < kBatch)
            return;
    } while (true);
}

} // namespace planloom::runtime

// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/drain.h"

#include <chrono>

namespace planloom::runtime {

namespace {

constexpr std::chrono::milliseconds kPeriod{50};
constexpr std::size_t kResultsAhead = 4096; ///< steps that fit one period without growing the list

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

void Drain::report(const StepReport &result)
{
    const std::lock_guard lock(m_mutex);
    m_results.emplace_back(result);
}

void Drain::report(const ValidationReport &result)
{
    const std::lock_guard lock(m_mutex);
    m_results.emplace_back(result);
}

void Drain::report(const Evaluation &evaluation)
{
    const std::lock_guard lock(m_mutex);
    m_evaluation = evaluation;
}

void Drain::loop(const std::stop_token &ended)
{
    while (!ended.stop_requested()) {
        deliver();
        m_channel.progress(m_recording.tasks() + m_delivered, m_training.load(std::memory_order_relaxed));
        if (!m_stopWish.load(std::memory_order_relaxed) && m_channel.stopRequested())
            m_stopWish.store(true, std::memory_order_relaxed);
        std::unique_lock lock(m_mutex);
        m_wake.wait_for(lock, ended, kPeriod, [] { return false; });
    }
    deliver();
    m_channel.progress(m_recording.tasks() + m_delivered, false);
}

void Drain::deliver()
{
    std::optional<Evaluation> evaluation;
    {
        const std::lock_guard lock(m_mutex);
        m_results.swap(m_delivering);
        evaluation.swap(m_evaluation);
    }
    for (const Item &result : m_delivering) {
        if (const auto *step = std::get_if<StepReport>(&result))
            m_channel.metrics(*step);
        else
            m_channel.validation(std::get<ValidationReport>(result));
    }
    m_delivered += static_cast<std::int64_t>(m_delivering.size());
    m_delivering.clear();
    if (evaluation)
        m_channel.evaluation(evaluation->loss, evaluation->accuracy, evaluation->samples);
    do {
        m_batch.clear();
        m_recording.ring().drain(m_batch, kBatch);
        const std::int64_t dropped = m_recording.dropped();
        if (m_batch.empty() && dropped == m_droppedSaid)
            return;
        m_channel.records(m_batch, dropped);
        m_droppedSaid = dropped;
    } while (m_batch.size() == kBatch);
}

} // namespace planloom::runtime

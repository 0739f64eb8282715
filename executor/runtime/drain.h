// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/rank_executor.h"
#include "executor/runtime/recording.h"
#include "executor/runtime/worker_channel.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

namespace planloom::runtime {

/// Carries records and step results from the computing thread to the channel, and stop requests in the other direction,
/// on a separate thread: every 50 ms, and in batches of at most kBatch records. The computing thread waits for
/// nothing longer than the copy of one result.
class Drain {
public:
    static constexpr std::size_t kBatch = 16384; ///< 512 KiB: gRPC's rate is flat from 256 records on

    /// @p recording and @p channel must outlive it.
    Drain(Recording &recording, WorkerChannel &channel);
    /// Delivers the rest.
    ~Drain();
    Drain(const Drain &) = delete;
    Drain &operator=(const Drain &) = delete;

    /// From the computing thread.
    void report(const run::StepMetrics &result);
    void report(const run::Validation &result);
    void reportLast(const run::Validation &evaluation);
    /// From any thread but the drain's own: waits until the metrics of the steps before @p steps, which were reported,
    /// are durable. Errors: Failed (the channel is disconnected), Cancelled (@p giveUp).
    Status keepMetrics(std::int64_t steps, const std::stop_token &giveUp);
    /// Records of the steps from @p step on, of which there are none yet, are of another Program than the run's trace
    /// names: they go to @p trace, which is closed at the end.
    void traceInto(std::int64_t step, trace::TraceWriter trace);
    /// While true the computing thread is expected to finish tasks; the channel is told, so that a hung one is
    /// noticed.
    void setTraining(bool training) { m_training.store(training, std::memory_order_relaxed); }
    [[nodiscard]] const std::atomic<bool> &stopRequested() const { return m_stopRequested; }

private:
    void loop(const std::stop_token &ended);
    void deliver();
    void hearOfMetrics();
    void takeLater();

    Recording &m_recording;
    WorkerChannel &m_channel;
    std::atomic<bool> m_stopRequested{false};
    std::mutex m_mutex;
    std::condition_variable_any m_wake;
    std::condition_variable_any m_news; ///< of m_kept
    using Item = std::variant<run::StepMetrics, run::Validation>;
    std::atomic<bool> m_training{false};
    std::vector<Item> m_results;                 ///< guarded by m_mutex
    std::optional<run::Validation> m_evaluation; ///< guarded by m_mutex
    std::int64_t m_toKeep = 0; ///< guarded by m_mutex: metrics of the steps before this one are to be durable
    std::optional<std::int64_t> m_kept =
        0; ///< guarded by m_mutex: metrics of the steps before this one are durable; nullopt after disconnect
    std::int64_t m_askedToKeep = 0;
    std::vector<Item> m_delivering;
    std::int64_t m_delivered = 0; ///< results
    struct Later {
        std::int64_t from = 0; ///< step
        trace::TraceWriter trace;
    };
    std::optional<Later> m_later; ///< guarded by m_mutex until it is there; then the drain's thread's
    std::vector<trace::Record> m_batch;
    std::int64_t m_droppedSaid = 0;
    std::jthread m_thread; ///< last: it uses all of the above
};

} // namespace planloom::runtime

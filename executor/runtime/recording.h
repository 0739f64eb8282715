// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/ring.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace planloom::runtime {

/// Destination of a rank's records: all tasks are counted, as a sign of life, and those of the steps that are traced
/// go on into a ring. Thread contract: as of trace::Ring; any thread may ask for the count.
class Recording final : public trace::Sink {
public:
    /// @p capacity records.
    explicit Recording(std::size_t capacity) : m_ring(capacity) {}

    /// One round of @p roundSteps steps (trace::Rounds) in @p every is traced from now on, 0: none. By the writer, or
    /// before it begins.
    void traceEvery(std::int64_t every, std::int64_t roundSteps = 1)
    {
        m_every = every;
        m_roundSteps = roundSteps;
    }

    void write(const trace::Record &record) noexcept override
    {
        m_tasks.store(m_tasks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        if (m_every == 1 || (m_every > 1 && record.step / m_roundSteps % m_every == 0))
            m_ring.write(record);
    }
    [[nodiscard]] std::int64_t dropped() const noexcept override
    {
        const trace::Ring *kernels = m_kernels.load(std::memory_order_acquire);
        return m_ring.dropped() + m_kernelsLost.load(std::memory_order_relaxed)
            + (kernels != nullptr ? kernels->dropped() : 0);
    }

    [[nodiscard]] std::int64_t tasks() const { return m_tasks.load(std::memory_order_relaxed); }
    [[nodiscard]] trace::Ring &ring() { return m_ring; }

    /// Room for @p capacity records of what a device ran of the tasks, unless there is: others may read it.
    void addKernels(std::size_t capacity)
    {
        if (m_kernelRing != nullptr)
            return;
        m_kernelRing = std::make_unique<trace::Ring>(capacity);
        m_kernels.store(m_kernelRing.get(), std::memory_order_release);
    }
    /// By one thread at a time, which need not be the one of write().
    void writeKernel(const trace::Record &record) { m_kernelRing->write(record); }
    /// More were lost before they came here.
    void addKernelsLost(std::int64_t records)
    {
        m_kernelsLost.store(m_kernelsLost.load(std::memory_order_relaxed) + records, std::memory_order_relaxed);
    }
    /// By the writer: the tasks from here on are of another Program than the run's trace names. Nothing is traced.
    void endTracing()
    {
        m_every = 0;
        m_kernelsTraced = false;
    }
    /// Likewise, and tasks are traced on, for another trace.
    void endKernels() { m_kernelsTraced = false; }
    [[nodiscard]] bool tracesKernels() const { return m_kernelsTraced; }
    /// From any thread: a window of @p seconds in which every kernel is recorded, from soon on.
    void askForKernels(double seconds) { m_kernelsAsked.store(seconds, std::memory_order_relaxed); }
    /// The latest window that was asked for since the last call; 0: none.
    double takeKernelsAsked() { return m_kernelsAsked.exchange(0, std::memory_order_relaxed); }
    /// nullptr: none are recorded.
    [[nodiscard]] trace::Ring *kernels() const { return m_kernels.load(std::memory_order_acquire); }

private:
    trace::Ring m_ring;
    std::int64_t m_every = 1;
    std::int64_t m_roundSteps = 1;
    bool m_kernelsTraced = true;
    std::unique_ptr<trace::Ring> m_kernelRing;
    std::atomic<trace::Ring *> m_kernels{nullptr};
    std::atomic<std::int64_t> m_kernelsLost{0};
    std::atomic<double> m_kernelsAsked{0};
    alignas(64) std::atomic<std::int64_t> m_tasks{0};
};

} // namespace planloom::runtime

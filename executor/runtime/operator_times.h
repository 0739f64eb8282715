// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <array>
#include <cstdint>
#include <vector>

namespace planloom::runtime {

/// Measures how long the operators of a rank's stage take, in the first steps of a run whose memory policy decides by
/// that (plan::MemoryClock::Measured). The first step does not count: kernels and memory are touched for the first
/// time. Thread contract: one thread.
class OperatorTimes {
public:
    static constexpr std::int64_t kUncounted = 1;
    static constexpr std::int64_t kCounted = 3;
    /// Steps by the logical clock's course, before there are times.
    static constexpr std::int64_t kSteps = kUncounted + kCounted;

    /// Allocates what add() writes.
    explicit OperatorTimes(const program::Body &body)
        : m_operators(body.training.graph.ops().size()),
          m_seconds(m_operators * body.slices.size())
    {
    }

    /// @p number: the step's, from 0, of those that this executor runs.
    void begin(std::int64_t number) { m_at = number < kSteps ? number - kUncounted : -1; }
    /// In this step add() counts.
    [[nodiscard]] bool counts() const { return m_at >= 0; }
    void add(std::int32_t op, std::int32_t microBatch, double seconds)
    {
        m_seconds[static_cast<std::size_t>(microBatch) * m_operators + static_cast<std::size_t>(op)]
                 [static_cast<std::size_t>(m_at)] = seconds;
    }
    /// As memory::MeasuredTimes::operators has them: of each the median of the steps that count.
    [[nodiscard]] std::vector<double> medians() const;

private:
    std::size_t m_operators;
    std::vector<std::array<double, kCounted>> m_seconds; ///< per micro-batch, per operator
    std::int64_t m_at = -1;                              ///< -1: the step does not count
};

} // namespace planloom::runtime

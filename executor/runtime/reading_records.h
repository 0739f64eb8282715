// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/kernel_rows.h"
#include "executor/device/plugin/activity_abi.h"
#include "executor/runtime/recording.h"

#include <array>
#include <cstdint>

namespace planloom::runtime {

/// What is read of a rank's GPU now and then, as records of its trace: spans in which a value stays on one level, each
/// of at most kLongest, so that they come live; they belong to no step. What is not known has none. Thread contract: one
/// thread, that of Recording::writeKernel().
class ReadingRecords {
public:
    static constexpr std::int64_t kLongest = 1'000'000'000; ///< ns

    /// Borrowed.
    ReadingRecords(const program::KernelRows &rows, RankId rank, Recording &recording)
        : m_rows(rows),
          m_rank(rank),
          m_recording(recording)
    {
    }

    /// @p now: ns since the trace's origin, in ascending order.
    void read(const PlanloomReadings &readings, std::int64_t now);
    /// The spans that are open end.
    void end(std::int64_t now);

private:
    struct Span {
        std::int32_t row = -1; ///< -1: none is open
        std::int64_t start = 0;
    };
    void close(program::Reading reading, std::int64_t now);

    const program::KernelRows &m_rows;
    RankId m_rank;
    Recording &m_recording;
    std::array<Span, program::kReadings.size()> m_spans;
};

} // namespace planloom::runtime

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/base/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace planloom::trace {

/// What kind of work a slice is; views choose hue and texture by it.
enum class Kind : std::uint8_t { Forward, Backward, Recompute, Send, Receive, AllReduce, Optimizer, Load, Other, AllGather, ReduceScatter, AllToAll, WeightGradient };
/// The last one; what comes from outside is checked against it.
inline constexpr Kind kLastKind = Kind::WeightGradient;
const char *name(Kind kind);

/// One task, run once. The same record from the simulator, a worker's ring, the wire and the file. 32 bytes, little-endian.
struct Record {
    std::int64_t start = 0;    ///< nanoseconds since the trace's origin
    std::int64_t duration = 0; ///< nanoseconds
    std::int32_t task = -1;    ///< index into Trace::tasks (the Program's task table)
    std::int32_t step = 0;     ///< training step, from 0
    std::int16_t rank = 0;
    std::int16_t lane = 0;     ///< within the rank: 0 compute, 1 send, 2 receive, 3 collective, 4 host
    std::int32_t reserved = 0;
};
static_assert(sizeof(Record) == 32);

/// What a task is: the part of a slice that does not change from step to step.
struct TaskInfo {
    std::string id; ///< "s1.F.m3": unique within its rank
    Kind kind = Kind::Other;
    std::int16_t stage = -1;
    std::int32_t microBatch = -1;
};

struct RankInfo {
    std::string device; ///< the cluster's name for it
};

/// Where a running program puts its records. Thread contract: one writer at a time; never blocks; may drop, and counts.
class Sink {
public:
    virtual ~Sink() = default;
    virtual void write(const Record &record) noexcept = 0;
    [[nodiscard]] virtual std::int64_t dropped() const noexcept = 0;
};

/// Everything that was recorded, in columns. 32 bytes a slice. Records of one (rank, lane) are sorted by start.
struct Trace {
    std::string clock; ///< "cost" (predicted) or "wall" (measured)
    std::vector<RankInfo> ranks;
    std::vector<TaskInfo> tasks;
    std::vector<Record> records;
    std::int64_t dropped = 0; ///< records lost on the way, all ranks

    /// Sorts records by (rank, lane, start). Cost O(n log n).
    void sort();
    [[nodiscard]] std::int64_t begin() const; ///< smallest start; 0 if empty
    [[nodiscard]] std::int64_t end() const;   ///< largest start + duration
};

/// The columnar file (`.pltrace`, resources/docs/formats/trace.md): header, task table, then blocks of columns, each with a
/// checksum; a file cut short reads up to its last whole block. Errors: BadInput, Io.
Status writeTrace(const Trace &trace, const std::string &path);
Result<Trace> readTrace(const std::string &path);

/// Appends blocks to a file as records arrive; what was flushed survives a crash of the writer.
class TraceWriter {
public:
    static Result<TraceWriter> create(const std::string &path, const std::string &clock, const std::vector<RankInfo> &ranks, const std::vector<TaskInfo> &tasks);
    TraceWriter(TraceWriter &&) noexcept;
    TraceWriter &operator=(TraceWriter &&) noexcept;
    ~TraceWriter();
    Status append(std::span<const Record> records, std::int64_t droppedSoFar);
    Status close();

private:
    struct State;
    explicit TraceWriter(State *state);
    State *m_state = nullptr;
};

} // namespace planloom::trace

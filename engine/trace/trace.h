// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/trace/details.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace planloom::trace {

/// Category of a lane or a kind of task; views and comparisons filter by it.
/// Device: what a device ran of the tasks of the other lanes, beneath these: parts of tasks, which no comparison
/// counts.
enum class Work : std::uint8_t { Compute, Communication, Update, Host, Device };
inline constexpr Work kLastWork = Work::Device;
const char *name(Work work);

/// Kind of a task: a row of a trace's table of kinds. The enumerators are the rows of standardKinds(), which programs
/// use; a file may bring further ones.
enum class Kind : std::uint8_t {
    Forward,
    Backward,
    Recompute,
    Send,
    Receive,
    AllReduce,
    Optimizer,
    Load,
    Other,
    AllGather,
    ReduceScatter,
    AllToAll,
    WeightGradient,
    Agreement,
    Snapshot,     ///< parameters are copied, to be averaged with other replicas'
    Merge,        ///< an average is merged into the parameters
    Rows,         ///< rows of a table are packed, to be exchanged
    CopyOut,      ///< an activation is copied to the host, to make room
    CopyIn,       ///< and back
    LookUp,       ///< rows of tables travel to the replicas that look them up
    RowGradients, ///< gradients of rows travel to those that hold them
    DelayedRows,  ///< the same of rows that the next step does not look up, in that step
    Average       ///< replicas average parameters
};

/// A row of the table of kinds. Views draw a kind by its hue and texture, and outline communication.
struct KindInfo {
    std::string name; ///< "all-reduce"
    Work work = Work::Host;
    std::string hue;     ///< sky, orange, yellow, green, purple, vermilion or grey
    std::string texture; ///< plain, diagonal, dots, points or lines
    std::string legend;  ///< the legend's entry, which kinds that are drawn alike share; empty: none
    friend bool operator==(const KindInfo &, const KindInfo &) = default;
};
/// By Kind.
const std::vector<KindInfo> &standardKinds();
inline const KindInfo &standard(Kind kind) { return standardKinds()[static_cast<std::size_t>(kind)]; }

/// A row of the table of lanes; the lanes of a rank work concurrently.
struct LaneInfo {
    std::string name; ///< "compute"
    Work work = Work::Host;
    std::int32_t capacity = 1; ///< tasks that may run at once
    friend bool operator==(const LaneInfo &, const LaneInfo &) = default;
};

/// One task, run once. The same record from the simulator, a worker's ring and the wire. 32 bytes, little-endian.
struct Record {
    std::int64_t start = 0;    ///< nanoseconds since the trace's origin
    std::int64_t duration = 0; ///< nanoseconds
    std::int32_t task = -1;    ///< index into Tables::tasks (the Program's task table)
    std::int32_t step = 0;     ///< training step, from 0
    std::int32_t rank = 0;     ///< index into Tables::ranks
    std::int32_t lane = 0;     ///< index into Tables::lanes
    friend bool operator==(const Record &, const Record &) = default;
};
static_assert(sizeof(Record) == 32);

/// Description of a task: the part of a slice that does not change from step to step.
struct TaskInfo {
    std::string id; ///< "s1.F.m3": unique within its rank
    Kind kind = Kind::Other;
    std::int32_t stage = -1;
    std::int32_t microBatch = -1;
    std::int32_t group = -1; ///< the members of one transfer or collective, on different ranks, share it; -1: alone
};

/// What a trace says of a rank.
struct RankInfo {
    std::string device; ///< the cluster's name for it
};

/// A round: the training steps after which all repeats. Round r is the steps from r * steps on.
struct Rounds {
    std::int32_t steps = 1; ///< at least 1
    std::int64_t from = 0;  ///< the first step of the first round that is like those behind it
    bool overlap = false;   ///< what a round begins may end beside the next one
    friend bool operator==(const Rounds &, const Rounds &) = default;
};

/// The tables that records and tasks index.
struct Tables {
    std::vector<LaneInfo> lanes;
    std::vector<KindInfo> kinds;
    std::vector<RankInfo> ranks;
    std::vector<TaskInfo> tasks;
    Rounds rounds;

    /// The row, or one called "?" if the table has none.
    [[nodiscard]] const LaneInfo &lane(std::int32_t index) const;
    [[nodiscard]] const KindInfo &kind(Kind index) const;
    /// nullptr for -1 and indices outside of the table.
    [[nodiscard]] const TaskInfo *task(std::int32_t index) const;
};

/// Where a running program puts its records. Thread contract: one writer at a time; never blocks; may drop, and counts.
class Sink {
public:
    virtual ~Sink() = default;
    virtual void write(const Record &record) noexcept = 0;
    [[nodiscard]] virtual std::int64_t dropped() const noexcept = 0;
};

/// Everything that was recorded. 32 bytes a slice. Records of one (rank, lane) are sorted by start.
struct Trace : Tables {
    std::string clock; ///< "cost" (predicted) or "wall" (measured)
    std::string plan;  ///< plan::fingerprint() of the plan that was run; empty: not known
    std::vector<Record> records;
    std::int64_t dropped = 0; ///< records lost on the way, all ranks
    Details details;          ///< of another program's trace; not in our files

    /// Sorts records by (rank, lane, start), and with them the details. Cost O(n log n).
    void sort();
    /// Number of the record that is equal to @p record, of a sorted trace; nothing: there is none. Cost: O(log n).
    [[nodiscard]] std::optional<std::size_t> numberOf(const Record &record) const;
    [[nodiscard]] std::int64_t begin() const; ///< smallest start; 0 if empty
    [[nodiscard]] std::int64_t end() const;   ///< largest start + duration
};

/// The columnar file (`.pltrace`, resources/docs/formats/trace.md): header, tables, then blocks of columns, each with a
/// checksum; a file cut short reads up to its last whole block. Older versions are read, too. Errors: BadInput, Io.
Status writeTrace(const Trace &trace, const std::string &path);
Result<Trace> readTrace(const std::string &path);

/// Appends blocks to a file as records arrive; flushed blocks survive a crash of the writer.
class TraceWriter {
public:
    /// @p plan: see Trace::plan.
    static Result<TraceWriter> create(const std::string &path, const std::string &clock, const Tables &tables,
                                      const std::string &plan = {});
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

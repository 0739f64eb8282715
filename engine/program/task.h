// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/base/units.h"
#include "engine/cost/collectives.h"
#include "engine/plan/exchange.h"
#include "engine/schedule/schedule.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <variant>

namespace planloom::program {

using schedule::Pass;

/// A rank's lanes work at the same time; a row of kLaneTable. Host: small agreements that no bulk transfer waits
/// behind. Copy-out and copy-in: activations that a memory policy moves to the host and back.
enum class Lane : std::int16_t { Compute, Send, Receive, Collective, Host, CopyOut, CopyIn };
/// What both clocks, traces and views know of a lane.
struct LaneRow {
    Lane lane;
    const char *name;
    trace::Work work;
    std::int32_t capacity; ///< tasks that may run at once
};
inline constexpr LaneRow kLaneTable[] = {
    {Lane::Compute, "compute", trace::Work::Compute, 1},
    {Lane::Send, "send", trace::Work::Communication, 1},
    {Lane::Receive, "receive", trace::Work::Communication, 1},
    {Lane::Collective, "collective", trace::Work::Communication, 1},
    {Lane::Host, "host", trace::Work::Host, 1},
    {Lane::CopyOut, "copy-out", trace::Work::Communication, 1},
    {Lane::CopyIn, "copy-in", trace::Work::Communication, 1},
};
inline constexpr int kLanes = static_cast<int>(std::size(kLaneTable));

/// Where in a rank's arena a tensor of a stage lies. Persistent and Workspace exist once, the others in `count` equal
/// slots that micro-batches take in turn (OneFlow's registers: the count bounds what is in flight).
enum class Area : std::uint8_t {
    Persistent,     ///< parameters, gradients, optimizer state, constants
    Inbox,          ///< activations received from the previous stage
    Frame,          ///< model inputs of the micro-batch, and what forward keeps for backward
    Outbox,         ///< outputs that are sent and not kept
    GradientInbox,  ///< gradients of the outputs, received
    GradientOutbox, ///< gradients of the inputs, sent
    Workspace,      ///< what lives only within one task (or from Recompute to its Backward)
    WeightFrame,    ///< what Recompute and Backward make and WeightGradient still reads
    WeightStash, ///< what Forward makes and WeightGradient still reads, where that is a pass of its own; the Frame goes
                 ///< with Backward then
    Pool,        ///< what Forward makes, of stages with a memory policy: places change from task to task
};
inline constexpr int kAreas = 10;
const char *name(Area area);

// --- What a task does: one alternative each. A new system adds an alternative, not an `if` to the clocks. -----------

/// A run of operators of one pass over one micro-batch. A pass is one such task, or several where communicating
/// operators cut it: a run ends before one, and where its result is waited for. In between the lanes overlap.
struct Compute {
    Pass pass = Pass::Forward;
    bool opens = true;        ///< the first run of its pass
    bool closes = true;       ///< the last run of its pass
    std::int16_t run = 0;     ///< of the pass, from 0
    std::int32_t firstOp = 0; ///< operators [firstOp, lastOp) of the body
    std::int32_t lastOp = 0;
    /// Where a memory policy places tensors, what runs is Program::pooledCalls [firstCall, lastCall) in place of those
    /// operators; a run of Pass::Recompute is of operators that run again. Equal: there is no such policy.
    std::int32_t firstCall = 0;
    std::int32_t lastCall = 0;
    [[nodiscard]] bool isPooled() const { return lastCall > firstCall; }
};

/// This rank's end of the messages over one cut: activations forward, or gradients back.
struct Transfer {
    Pass pass = Pass::Forward; ///< Forward: activations; Backward: gradients
    bool sends = false;
};

/// The same between two stages on one rank: the task's body takes what `from` made.
struct Copy {
    Pass pass = Pass::Forward;
    BodyId from;
};

/// A communicating operator of a pass (sharding): this rank's part of the collective.
struct Boxing {
    cost::Collective collective = cost::Collective::AllReduce;
    Pass pass = Pass::Forward;
    std::int16_t number = 0; ///< within the pass, from 1
    std::int32_t op = 0;     ///< of the body
    TeamId team;
    bool served = false;   ///< not with the team: a parameter server gets what this rank has, and gives its answer
    std::int8_t shift = 0; ///< not 0: all goes to the member so many places behind, whose own comes from as many before
    std::int64_t bytes = 0; ///< that this rank sends
};

/// Gradients of a bucket before the update (all-reduce, reduce-scatter), or its parameters behind it (all-gather), or
/// their snapshots, in place (delayed averaging), or gradients that go to servers, and the parameters that come back;
/// that has no team.
struct Exchange {
    plan::ExchangePolicy policy = plan::ExchangePolicy::AllReduce; ///< that the bucket's parameters have
    cost::Collective collective = cost::Collective::AllReduce;
    bool averages = false; ///< of snapshots; else of gradients or of what they update
    bool inside = false;   ///< of gradients of averaged parameters, among members of the bucket's team that are one in
                           ///< local steps (plan::Inside)
    BucketId bucket;
    TeamId team;
    std::int64_t bytes = 0; ///< that this rank sends
};

/// A tensor of the pool is copied to the host or back (plan::Memory).
struct Swap {
    bool out = true;
    std::int16_t number = 0; ///< of the micro-batch's copies in this direction, or of the hosted part, from 1
    std::int32_t copy = 0;   ///< Program::hostCopies has what is copied from where to where
};

/// The parameters of a bucket are copied for the exchange that averages them (plan::DelayedAveraging).
struct Snapshot {
    BucketId bucket;
};

/// The average of a bucket's snapshots is merged into its parameters.
struct Merge {
    BucketId bucket;
    plan::Merge rule = plan::Merge::Corrected;
    double localWeight = 0;
};

/// The optimizer's step on all parameters that the body updates, or a phase of it: two where the update rule has norms
/// (update::Formula).
struct Update {
    std::int8_t phase = 0;
    BucketId bucket =
        {}; ///< of this one alone, with what was summed up last (plan::Exchange::acrossSteps); none: of all others
    /// In steps before this one the gradients of averaged parameters are summed over the replicas, too; from it on they
    /// are those of the replica's own samples, or of all replicas' in `inside`, where there is any.
    std::int64_t sumsBefore = 0;
    TeamId inside = {};
    std::int32_t part = -1; ///< of Rank::hostedParts, of this one alone; -1: of what lies in none
};

/// Rows of a table's gradient that are exchanged together.
enum class RowPart : std::uint8_t {
    All,     ///< of the step
    Prior,   ///< those that some replica looks up in the next step
    Delayed, ///< the others, a step later
};

/// This rank's part of the work on a table that is exchanged by rows (Table), in its own memory.
struct RowWork {
    enum class Kind : std::uint8_t {
        LookUp,  ///< packs this rank's columns of the rows that the replicas look up in this step
        Collect, ///< packs the rows of this rank's gradient
        Update,  ///< adds up the rows that came from the replicas, in their order, and makes the optimizer's step
    };
    Kind kind = Kind::LookUp;
    RowPart part = RowPart::All; ///< of an update. Delayed: rows of the step before, with its figures
    TableId table;
};

/// Rows of a table go to the replicas that look them up, or their gradients to those that hold them.
struct RowExchange {
    bool gradients = false;
    RowPart part = RowPart::All; ///< of gradients
    TableId table;
    TeamId team;
    std::int64_t bytes = 0; ///< that this rank sends, as expected: what a step sends depends on its samples
};

/// A few numbers that all ranks sum up.
struct Agreement {
    enum class Subject : std::uint8_t {
        Step,         ///< the step's loss, and whether anyone asks to stop
        GradientNorm, ///< the squared norm of all gradients, where the optimizer clips it
        UpdateNorms,  ///< the squared norms that the update rule takes of each parameter, between the update's phases
    };
    Subject subject = Subject::Step;
};

using Payload = std::variant<Compute, Transfer, Copy, Boxing, Exchange, Snapshot, Merge, Update, RowWork, RowExchange,
                             Agreement, Swap>;

/// A task's use of the slot of its micro-batch in one area of one body. Taken when the task starts and given back when
/// it ends; a buffer that is read was written by a task that this one depends on.
struct Effect {
    enum class Action : std::uint8_t { Takes, Reads, Writes, Gives };
    Action action = Action::Reads;
    Area area = Area::Workspace;
    BodyId body;
    friend auto operator<=>(const Effect &, const Effect &) = default;
};

/// A task that must have ended before another starts: of the same rank, in the same step or in an earlier one. One that
/// does not run in that step, and one from before the run, count as ended.
struct Dependency {
    TaskId task;
    std::int32_t stepsBack = 0; ///< more than 0: the task stays open (Cadence), or this adds nothing
    friend auto operator<=>(const Dependency &, const Dependency &) = default;
};

/// In which steps a task runs, and whether it may end in a later one.
struct Cadence {
    static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
    std::int32_t period = 1;      ///< steps from one time to the next
    std::int32_t phase = 0;       ///< it runs in steps s with s mod period = phase,
    std::int64_t first = 0;       ///< from this one on
    std::int64_t last = kEndless; ///< and before this one
    bool staysOpen = false;       ///< its rank goes on to later steps before it has ended
    [[nodiscard]] bool runsIn(std::int64_t step) const
    {
        return step >= first && step < last && step % period == phase;
    }
    friend bool operator==(const Cadence &, const Cadence &) = default;
};

/// [first, last) of one of the Program's tables.
struct Range {
    std::int32_t first = 0;
    std::int32_t last = 0;
};

/// One thing that one rank does once in a step, or in some of the steps. 88 bytes: both clocks, compilers and traces
/// walk over all of them, so that what few tasks have stands in a table of the Program.
struct Task {
    Lane lane = Lane::Compute;
    RankId rank;
    StageId stage;                ///< none: of the rank as a whole
    BodyId body;                  ///< none likewise
    std::int32_t microBatch = -1; ///< -1: once per step
    std::int32_t cadence = 0;     ///< 0: in every step; else its place in Program::cadences, from 1
    std::int32_t priority = 0;    ///< for the lane policy "priority": the smallest first
    GroupId group;                ///< none: it starts without regard to other ranks
    Range dependencies;           ///< in Program::dependencies
    Range effects;                ///< in Program::effects
    Seconds duration;             ///< by the cost model; members of a group have the same
    Payload payload;

    template <class Alternative>
    [[nodiscard]] const Alternative *as() const
    {
        return std::get_if<Alternative>(&payload);
    }
    /// The pass over a micro-batch that it is part of, or moves data for.
    [[nodiscard]] std::optional<Pass> pass() const;
    /// The ranks that a collective goes over; none: it is no collective.
    [[nodiscard]] TeamId team() const;
    /// Bytes that this rank sends in a collective; 0: it is no collective.
    [[nodiscard]] std::int64_t bytes() const;
    /// Its kind in traces and views.
    [[nodiscard]] trace::Kind kind() const;
};
static_assert(sizeof(Task) <= 88);

} // namespace planloom::program

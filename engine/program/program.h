// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/base/units.h"
#include "engine/graph/differentiate.h"
#include "engine/plan/plan.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace planloom::program {

/// What a rank can do at the same time: one task per lane.
enum class Lane : std::int16_t { Compute = 0, Send = 1, Receive = 2, Collective = 3, Host = 4 };
inline constexpr int kLanes = 5;

enum class Pass : std::uint8_t { Forward, Backward };

/// One thing that one rank does once per iteration. Compute tasks run in the order of Rank::order; communication tasks run as
/// soon as they are ready (dependencies done, every member of the group ready, lane free).
struct Task {
    trace::Kind kind = trace::Kind::Other;
    Lane lane = Lane::Compute;
    Pass pass = Pass::Forward;     ///< Send and Receive: an activation (Forward) or its gradient (Backward)
    RankId rank;
    StageId stage;
    std::int32_t microBatch = -1;  ///< -1: once per iteration
    std::int32_t body = -1;        ///< index into Program::bodies of the stage replica that it belongs to
    std::int32_t group = -1;       ///< index into Program::groups, -1: alone
    std::int32_t bucket = -1;      ///< AllReduce: index into Program::buckets
    Seconds duration;              ///< by the cost model; members of a group have the same
    std::int32_t firstDependency = 0; ///< range in Program::dependencies: tasks of the same rank that must have ended
    std::int32_t lastDependency = 0;
};

/// Tasks on different ranks that start and end together: both ends of a transfer, the members of an all-reduce.
struct Group {
    std::int32_t first = 0; ///< range in Program::groupMembers
    std::int32_t last = 0;
};

/// Where in a rank's arena a tensor of a stage lies. Persistent and Workspace exist once, the others in `count` equal slots that
/// micro-batches take in turn (OneFlow's registers: the count bounds what is in flight).
enum class Area : std::uint8_t {
    Persistent,      ///< parameters, gradients, optimizer state, constants
    Inbox,           ///< activations received from the previous stage
    Frame,           ///< model inputs of the micro-batch, and what forward keeps for backward
    Outbox,          ///< outputs that are sent and not kept
    GradientInbox,   ///< gradients of the outputs, received
    GradientOutbox,  ///< gradients of the inputs, sent
    Workspace,       ///< what lives only within one task (or from Recompute to its Backward)
};
inline constexpr int kAreas = 7;
const char *name(Area area);

struct Placement {
    Area area = Area::Workspace;
    std::int64_t offset = -1; ///< within the slot; -1: not placed in this pass
};

/// Slots of one area of one stage replica, in the rank's arena.
struct Pool {
    std::int64_t begin = 0;    ///< arena offset of slot 0
    std::int64_t slotBytes = 0;
    std::int32_t count = 0;
    [[nodiscard]] std::int64_t bytes() const { return slotBytes * count; }
};

/// Slots that a micro-batch occupies, by Area; -1: none.
struct Slots {
    std::int32_t slot[kAreas] = {0, -1, -1, -1, -1, -1, 0};
};

/// A message between two replicas of neighbouring stages: samples [begin, begin+size) of the micro-batch.
struct Message {
    RankId peer;
    plan::SampleRange samples; ///< within the micro-batch
};

/// What one rank executes for one stage: the differentiated operators with a place for every tensor.
struct Body {
    StageId stage;
    RankId rank;
    std::size_t replica = 0;
    bool recompute = false;
    graph::TrainingGraph training;          ///< operators [0, forwardOps) forward, the rest backward
    std::int64_t maxSamples = 0;            ///< largest slice that comes by; offsets are laid out for it
    std::vector<plan::SampleRange> slices;  ///< per micro-batch: this replica's samples, within the *global batch*
    std::vector<Placement> forwardPlaces;   ///< per tensor of training.graph, while Forward runs
    std::vector<Placement> backwardPlaces;  ///< per tensor, while Recompute and Backward run
    /// Per entry of training.parameters: offsets in Persistent. A gradient is made in Workspace and, right after the operator that
    /// makes it, added to its accumulator, which the optimizer step clears.
    std::vector<std::int64_t> parameterOffsets;
    std::vector<std::int64_t> gradientOffsets;
    std::vector<std::vector<std::int64_t>> stateOffsets; ///< [moment][parameter]
    std::vector<Pool> pools;                ///< by Area
    std::vector<Slots> slotTable;           ///< per micro-batch
    /// Messages of micro-batch m: [0] from the previous stage, [1] to the next; gradients go the same ways back.
    std::vector<std::vector<Message>> incoming;
    std::vector<std::vector<Message>> outgoing;
};

/// Parameters that the same set of ranks holds: one all-reduce each, over accumulators that are contiguous on every holder.
struct Bucket {
    std::vector<RankId> ranks;             ///< sorted; a single one needs no exchange
    std::vector<std::string> parameters;   ///< names, in layout order
    std::int64_t bytes = 0;
    std::vector<std::int64_t> offsets;     ///< per entry of ranks: offset of the accumulators in that rank's Persistent area
};

struct Rank {
    DeviceId device;
    std::vector<TaskId> tasks;   ///< all, any lane
    std::vector<TaskId> order;   ///< compute tasks in execution order
    std::vector<std::int32_t> bodies;
    std::int64_t arenaBytes = 0; ///< what the rank allocates, once: the predicted peak
    std::int64_t persistentBytes = 0;
};

/// A plan compiled: per rank, tasks on lanes, their dependencies, and a place for every buffer. Both clocks run it: the simulator
/// (engine/simulate) and the executor (executor/runtime). Task ids (idOf) are stable: they depend on the plan only.
struct Program {
    std::vector<Rank> ranks;
    std::vector<Task> tasks;
    std::vector<TaskId> dependencies;
    std::vector<Group> groups;
    std::vector<TaskId> groupMembers;
    std::vector<Body> bodies;   ///< per stage replica; without operators and places where CompileOptions::bodies was false
    std::vector<Bucket> buckets;
    std::int64_t microBatches = 0;
    std::int64_t globalBatch = 0;
    Seconds lowerBound;         ///< busiest lane's work: no order of the tasks can be faster
    Seconds oneDevice;          ///< the whole batch on one device of the first stage's type

    [[nodiscard]] const Task &task(TaskId id) const { return tasks[id.index()]; }
    [[nodiscard]] std::span<const TaskId> dependenciesOf(const Task &task) const;
};

/// "s1.F.m3": stage, then F(orward) B(ackward) R(ecompute) SF/RF (send/receive activation) SB/RB (send/receive gradient)
/// AR (all-reduce, with its bucket) O(ptimizer), then the micro-batch.
std::string idOf(const Task &task);
/// The task table as traces carry it, in task order.
std::vector<trace::TaskInfo> taskInfos(const Program &program);
std::vector<trace::RankInfo> rankInfos(const Program &program, const cluster::Cluster &cluster);

struct CompileOptions {
    /// False: durations, order and memory only. Memory is the same to the byte; operators stay on the plan's subject.
    bool bodies = true;
};

/// Compiles @p plan, which must be valid for @p subject (validate() is called). Errors: those of validate, Unsupported (an operator
/// without gradient), BadInput (a custom order that cannot run, with the cycle named). Cost: O(tasks + operators * distinct stages).
Result<Program> compile(const plan::Plan &plan, const plan::Subject &subject, const CompileOptions &options = {});

/// A pipeline as the literature's formulas see it: a list of resources, each with a forward and a backward time, network stages
/// among them (DAPPLE §4.1). One lane per entry, the order of early backward with warm-up `depth[s]` (empty: S - s), then an
/// all-reduce of `allReduce[s]`. gpipe: all forwards first. For planners and for worked examples.
struct Chain {
    std::vector<double> forward;
    std::vector<double> backward;
    std::vector<double> allReduce;
    std::int64_t microBatches = 1;
    std::vector<int> depth;
    bool gpipe = false;
    /// Entries that are full-duplex links: forward and backward transfers do not wait for each other, and run when ready.
    std::vector<bool> fullDuplex;
};
Program chainProgram(const Chain &chain);

} // namespace planloom::program

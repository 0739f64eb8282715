// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/base/units.h"
#include "engine/graph/differentiate.h"
#include "engine/plan/plan.h"
#include "engine/sharding/region.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace planloom::program {

/// What a rank can do at the same time: one task per lane.
enum class Lane : std::int16_t { Compute = 0, Send = 1, Receive = 2, Collective = 3, Host = 4 };
inline constexpr int kLanes = 5;

/// Where the schedule cuts the backward pass, Backward makes gradients of inputs and WeightGradient, later, those of parameters.
enum class Pass : std::uint8_t { Forward, Backward, Recompute, WeightGradient };

/// One thing that one rank does once per iteration. Compute tasks run in the order of Rank::order; communication tasks run as
/// soon as they are ready (dependencies done, every member of the group ready, lane free).
///
/// A pass is one compute task, or several parts where boxing cuts it: a part ends before a communicating operator, and where one begins to wait
/// for it. In between the two the lanes overlap.
struct Task {
    trace::Kind kind = trace::Kind::Other;
    Lane lane = Lane::Compute;
    Pass pass = Pass::Forward;     ///< of compute and boxing; Send and Receive: an activation (Forward) or its gradient (Backward)
    bool opens = true;             ///< compute: the first part of its pass
    bool closes = true;            ///< compute: the last part of its pass
    std::int16_t part = 0;         ///< of the pass: compute tasks count from 0, boxing tasks from 1
    RankId rank;
    StageId stage;
    std::int32_t microBatch = -1;  ///< -1: once per iteration
    std::int32_t body = -1;        ///< index into Program::bodies of the stage replica that it belongs to
    std::int32_t group = -1;       ///< index into Program::groups, -1: alone
    std::int32_t bucket = -1;      ///< exchange of gradients or parameters: index into Program::buckets
    std::int32_t team = -1;        ///< collectives: index into Program::teams
    std::int32_t firstOp = 0;      ///< compute: operators [firstOp, lastOp) of the body; boxing: the operator
    std::int32_t lastOp = 0;
    std::int64_t bytes = 0;        ///< that this rank sends
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
    WeightFrame,     ///< what Recompute and Backward make and WeightGradient still reads
    WeightStash,     ///< what Forward makes and WeightGradient still reads, where that is a pass of its own; the Frame goes with Backward then
};
inline constexpr int kAreas = 9;
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
    std::int32_t slot[kAreas] = {0, -1, -1, -1, -1, -1, 0, -1, -1};
};

/// A message between ranks of neighbouring stages: samples [begin, begin+size) of the micro-batch.
struct Message {
    RankId peer;
    plan::SampleRange samples; ///< within the micro-batch
    bool activation = true;    ///< carries activations forward
    bool gradient = true;      ///< carries gradients back; where a replica has more shards on one side than on the other, only one of them does
};

/// A tensor, or the part of one, that stays in the arena from step to step: what is initialised, updated and saved.
struct Held {
    enum class Kind : std::uint8_t { Parameter, State, Constant };
    Kind kind = Kind::Parameter;
    std::string name;                   ///< of the tensor in the model
    graph::DType type = graph::DType::F32; ///< of what lies at `offset`: parameters are float32 masters
    std::vector<std::int64_t> sizes;    ///< of the whole tensor
    sharding::Region region;            ///< this device's part of it (boxing by SBP)
    std::int64_t begin = 0;             ///< of that part, row-major, the elements [begin, begin + count) lie here (ZeRO)
    std::int64_t count = 0;
    std::int64_t offset = -1;           ///< in the arena
    std::int64_t copy = -1;             ///< bfloat16 copy that operators read, of the elements [copyBegin, copyBegin + copyCount)
    std::int64_t copyBegin = 0;
    std::int64_t copyCount = 0;
    /// Parameters: this rank updates and saves the elements [updateBegin, updateBegin + updateCount) of that part, a subset of the above. Replicas
    /// that all update everything save once: `saves`.
    std::int64_t updateBegin = 0;
    std::int64_t updateCount = 0;
    std::int64_t gradient = -1;         ///< arena offset of the accumulator of element updateBegin; -1: it does not train
    std::int64_t moments[2] = {-1, -1}; ///< arena offsets, of element updateBegin
    bool saves = true;
};

/// What one rank executes for one stage: the differentiated operators with a place for every tensor.
struct Body {
    StageId stage;
    RankId rank;
    std::size_t replica = 0;
    std::size_t device = 0;                 ///< position in the stage's mesh
    std::vector<int> coordinates;           ///< there
    bool recompute = false;                 ///< the stage runs forward again as a whole (plan::Recompute::Full)
    graph::TrainingGraph training;          ///< operators [0, forwardOps) forward, the rest backward, of which the last weightOps are WeightGradient's
    std::int64_t maxSamples = 0;            ///< largest slice that comes by; offsets are laid out for it
    std::vector<plan::SampleRange> slices;  ///< per micro-batch: this replica's samples, within the *global batch*
    std::vector<Placement> forwardPlaces;   ///< per tensor of training.graph, while Forward runs
    std::vector<Placement> backwardPlaces;  ///< per tensor, while Recompute and Backward run
    /// A gradient is added to its accumulator, which the optimizer step clears: by the operator that makes it (straight.h), or right after it, from Workspace.
    struct Accumulator {
        TensorId gradient;
        std::int64_t offset = 0; ///< in the arena
    };
    std::vector<Accumulator> accumulators;
    std::vector<Held> held;
    std::vector<Pool> pools;                ///< by Area
    std::vector<Slots> slotTable;           ///< per micro-batch
    /// Messages of micro-batch m: [0] from the previous stage, [1] to the next; gradients go the same ways back.
    std::vector<std::vector<Message>> incoming;
    std::vector<std::vector<Message>> outgoing;
};

/// Ranks that communicate together, sorted.
struct Team {
    std::vector<RankId> ranks;
    std::vector<DeviceId> devices; ///< of all members, those that ranks of a folded program stand for too
    [[nodiscard]] std::size_t size() const { return devices.size(); }
    [[nodiscard]] std::size_t position(RankId rank) const;
};

/// Parameters whose gradients the same team sums up. On each member they lie one behind the other in the same order, as do their accumulators
/// and moments, so that one exchange covers all. `zero` says what of that is cut into equal shards, one per member (Rajbhandari et al., ZeRO, 2020):
/// 1 moments, 2 accumulators too, 3 parameters too.
struct Bucket {
    struct Entry {
        std::string parameter;
        std::int64_t at = 0;       ///< elements from the beginning
        std::int64_t elements = 0; ///< of a member's part of the parameter
    };
    std::int32_t team = -1;
    int zero = 0;
    graph::DType type = graph::DType::F32; ///< that operators read the parameters in
    std::vector<Entry> entries;
    std::int64_t elements = 0;                ///< of all, padded so that shards are equal and aligned
    std::vector<std::int64_t> parameters;     ///< per member: arena offset of the masters
    std::vector<std::int64_t> copies;         ///< per member: of the bfloat16 copies, -1: none
    std::vector<std::int64_t> gradients;      ///< per member: of the accumulators
    std::vector<std::int64_t> sums;           ///< per member, at level 1: of the sum of its shard of the accumulators
    std::vector<std::int64_t> moments[2];
    [[nodiscard]] std::int64_t bytes() const { return elements * 4; } ///< of the gradients
};

struct Rank {
    DeviceId device;
    std::vector<TaskId> tasks;   ///< all, any lane
    std::vector<TaskId> order;   ///< compute tasks in execution order
    std::vector<std::int32_t> bodies;
    std::int64_t standsFor = 1;  ///< ranks of the plan; more than itself in a folded program
    std::int64_t arenaBytes = 0; ///< what the rank allocates, once: the predicted peak
    std::int64_t persistentBytes = 0;
};

/// A plan compiled: per rank, tasks on lanes, their dependencies, and a place for every buffer. Both clocks run it: the simulator
/// (engine/simulate) and the executor (executor/runtime). Task ids (idOf) are stable: they depend on the plan only.
///
/// A folded Program has one rank for all that do the same at the same times; it is for the simulator only. What the clock makes of it is what it makes of
/// the whole, to the last bit. Its teams, buckets and tasks are those of the ranks that it has, with the durations of the whole teams.
struct Program {
    /// A rank of the plan and who stands for it.
    struct Place {
        DeviceId device;
        RankId rank;
    };
    std::vector<Rank> ranks;
    std::vector<Task> tasks;
    std::vector<TaskId> dependencies;
    std::vector<Group> groups;
    std::vector<TaskId> groupMembers;
    std::vector<Body> bodies;   ///< per stage replica; without operators and places where CompileOptions::bodies was false
    std::vector<Team> teams;
    std::vector<Bucket> buckets;
    std::vector<Place> places;  ///< every rank of the plan, in order; only in a folded program
    std::int64_t microBatches = 0;
    std::int64_t globalBatch = 0;
    Seconds lowerBound;         ///< busiest lane's work: no order of the tasks can be faster
    Seconds oneDevice;          ///< the whole batch on one device of the first stage's type

    [[nodiscard]] const Task &task(TaskId id) const { return tasks[id.index()]; }
    [[nodiscard]] std::span<const TaskId> dependenciesOf(const Task &task) const;
};

/// "s1.F.m3": stage, then F(orward) B(ackward) W(eight gradient) R(ecompute) SF/RF (send/receive activation) SB/RB (send/receive gradient)
/// O(ptimizer), then the micro-batch, then the part from the second on ("s1.F.m3.2"). Boxing is named after its pass and numbered within:
/// "s1.F.m3.AG2", with AR (all-reduce) AG (all-gather) RS (reduce-scatter) AA (all-to-all). Exchanges have their bucket: "s1.AR.b0".
std::string idOf(const Task &task);
/// The task table as traces carry it, in task order.
std::vector<trace::TaskInfo> taskInfos(const Program &program);
std::vector<trace::RankInfo> rankInfos(const Program &program, const cluster::Cluster &cluster);

class StageCache;

struct CompileOptions {
    /// False: durations, order and memory only. Memory is the same to the byte; operators stay on the plan's subject.
    bool bodies = true;
    /// True: ranks that do the same are there once (Program::places says for which). Only without bodies.
    bool fold = false;
    /// Remembers stages from one compilation to the next, for searches that compile many plans for one subject (stage_cache.h). May be null.
    StageCache *stages = nullptr;
};

/// Compiles @p plan, which must be valid for @p subject (validate() is called). Errors: those of validate, Unsupported (an operator
/// without gradient), BadInput (a custom order that cannot run, with the cycle named). Cost: O(tasks + operators * distinct stages),
/// of the tasks of the ranks that are left if they are folded, and O(devices).
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/base/units.h"
#include "engine/cost/communication_on_cores.h"
#include "engine/graph/gradients/differentiate.h"
#include "engine/memory/course.h"
#include "engine/plan/plan.h"
#include "engine/program/parameter_server.h"
#include "engine/program/sampled_roles.h"
#include "engine/program/task.h"
#include "engine/sharding/region.h"
#include "engine/trace/trace.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace planloom::program {

/// Tasks on different ranks that start and end together: both ends of a transfer, the members of an all-reduce.
/// A range of Program::groupMembers.
using Group = Range;

/// Where a tensor lies in a rank's arena.
struct Placement {
    Area area = Area::Workspace;
    std::int64_t offset = -1; ///< within the slot; -1: not placed in this pass
};

/// Slots of one area of one stage replica, in the rank's arena.
struct Pool {
    std::int64_t begin = 0; ///< arena offset of slot 0
    std::int64_t slotBytes = 0;
    std::int32_t count = 0;
    [[nodiscard]] std::int64_t bytes() const { return slotBytes * count; }
};

/// Slots that a micro-batch occupies, by Area; -1: none.
struct Slots {
    std::int32_t slot[kAreas] = {0, -1, -1, -1, -1, -1, 0, -1, -1, 0};
};

/// An operator of a body with the tensors of the pool where a memory policy has them by then.
struct PooledCall {
    std::int32_t op = 0;
    std::int32_t firstPlace = 0; ///< in Program::pooledPlaces: of its inputs, then its outputs, those left out included
    std::int64_t used = 0;       ///< bytes of the pool in use while it runs
    std::int64_t usedAfter = 0;  ///< and once what it was the last to use is free
};

/// A tensor of the pool that a memory policy copies to the host, or back.
struct HostCopy {
    TensorId tensor;        ///< of the body: the root of what shares its memory; none: what the optimizer updates
    std::int64_t place = 0; ///< in the pool
    std::int64_t host = 0;  ///< in the rank's memory on the host
    std::int64_t bytes = 0;
    bool parameter = false; ///< which no pass changes: it is copied to the device alone
};

/// A parameter that an operator without training reads, and where it has to be by then.
struct InferenceCopy {
    std::int32_t op = 0;
    HostCopy copy;
};

/// A message between ranks of neighbouring stages: samples [begin, begin+size) of the micro-batch.
struct Message {
    RankId peer;
    plan::SampleRange samples; ///< within the micro-batch
    bool activation = true;    ///< carries activations forward
    bool gradient = true; ///< carries gradients back; where a replica has more shards on one side than on the other,
                          ///< only one of them does
};

/// A tensor, or the part of one, that stays in the arena from step to step: what is initialised, updated and saved.
struct PersistentTensor {
    enum class Kind : std::uint8_t { Parameter, State, Constant };
    Kind kind = Kind::Parameter;
    std::string name;                      ///< of the tensor in the model
    std::string local;                     ///< in the body's graph, if it is another one there
    graph::DType type = graph::DType::F32; ///< of what lies at `offset`: parameters are float32 masters
    std::vector<std::int64_t> sizes;       ///< of the whole tensor
    sharding::Region region;               ///< this device's part of it (boxing by SBP)
    std::int64_t begin = 0; ///< of that part, row-major, the elements [begin, begin + count) lie here (ZeRO)
    std::int64_t count = 0;
    std::int64_t offset = -1; ///< in the arena; of a hosted part: while that is there
    std::int32_t part = -1;   ///< of Rank::hostedParts, which has it and those of its states that lie there; -1: none
    std::int64_t copy = -1;   ///< bfloat16 copy that operators read, of the elements [copyBegin, copyBegin + copyCount)
    std::int64_t copyBegin = 0;
    std::int64_t copyCount = 0;
    /// Parameters: this rank updates and saves the elements [updateBegin, updateBegin + updateCount) of that part, a
    /// subset of the above. Replicas that all update everything save once: `saves`.
    std::int64_t updateBegin = 0;
    std::int64_t updateCount = 0;
    std::int64_t gradient = -1;       ///< arena offset of the accumulator of element updateBegin; -1: it does not train
    std::vector<std::int64_t> states; ///< of the update rule: arena offsets of element updateBegin
    std::int64_t average = -1;  ///< of the copy of element updateBegin that is averaged (delayed averaging); -1: none
    std::int64_t snapshot = -1; ///< of the one that stays as it was taken
    std::int32_t replica = 0;   ///< of the stage, where each of its `replicas` has a parameter of its own
    std::int32_t replicas = 0;  ///< 0: they are alike
    bool saves = true;
    bool served = false;     ///< a parameter server updates it; states are the last ones that were asked for
    bool ofTraining = false; ///< a state that the training keeps beside the model
    bool ofSamples = false;  ///< a state with a row for each sample of the global batch, of which the own ones lie here
};

/// One stage on one rank: the differentiated operators with a place for every tensor.
struct Body {
    StageId stage;
    RankId rank;
    std::size_t replica = 0;
    std::size_t device = 0;                ///< position in the stage's mesh
    std::vector<int> coordinates;          ///< there
    bool recompute = false;                ///< the stage runs forward again as a whole (plan::Recompute::Full)
    graph::TrainingGraph training;         ///< operators [0, forwardOps) forward, the rest backward, of which the last
                                           ///< weightOps are WeightGradient's
    std::int64_t maxSamples = 0;           ///< largest slice that comes by; offsets are laid out for it
    std::vector<plan::SampleRange> slices; ///< per micro-batch: this replica's samples, within the *global batch*
    std::vector<Placement> forwardPlaces;  ///< per tensor of training.graph, while Forward runs
    std::vector<Placement> backwardPlaces; ///< per tensor, while Recompute and Backward run
    /// A gradient is added to its accumulator, which the optimizer step clears: by the operator that makes it
    /// (compile/gradient_accumulation.h), or right after it, from Workspace.
    struct Accumulator {
        TensorId gradient;
        std::int64_t offset = 0; ///< in the arena
    };
    std::vector<Accumulator> accumulators;
    std::vector<PersistentTensor> persistent;
    std::vector<Pool> pools;      ///< by Area
    std::vector<Slots> slotTable; ///< per micro-batch
    /// Messages of micro-batch m: [0] from the previous stage, [1] to the next; gradients go the same ways back.
    std::vector<std::vector<Message>> incoming;
    std::vector<std::vector<Message>> outgoing;
    /// Of a stage with a memory policy: forward operators without training are Program::pooledCalls from here on.
    std::int32_t firstInference = -1;
    std::vector<InferenceCopy> inferenceCopies = {}; ///< of parameters that lie on the host, by operator
};

/// Ranks that communicate together, sorted.
struct Team {
    std::vector<RankId> ranks;
    std::vector<DeviceId> devices; ///< of all members, those that ranks of a folded program stand for too
    [[nodiscard]] std::size_t size() const { return devices.size(); }
    [[nodiscard]] std::size_t position(RankId rank) const;
};

/// Parameters whose gradients the same team sums up. On each member they lie one behind the other in the same order, as
/// do their accumulators and states, so that one exchange covers all. `zero` says what of that is cut into equal
/// shards, one per member (Rajbhandari et al., ZeRO, 2020): 1 states, 2 accumulators too, 3 parameters too.
struct Bucket {
    struct Entry {
        std::string parameter;
        std::int64_t at = 0;       ///< elements from the beginning
        std::int64_t elements = 0; ///< of a member's part of the parameter
    };
    TeamId team;
    plan::ExchangePolicy policy = plan::ExchangePolicy::AllReduce;
    int zero = 0;
    graph::DType type = graph::DType::F32; ///< that operators read the parameters in
    std::vector<Entry> entries;
    std::int64_t elements = 0;            ///< of all, padded so that shards are equal and aligned
    std::vector<std::int64_t> parameters; ///< per member: arena offset of the masters
    std::vector<std::int64_t> copies;     ///< per member: of the bfloat16 copies, -1: none
    std::vector<std::int64_t> gradients;  ///< per member: of the accumulators
    std::vector<std::int64_t> sums;       ///< per member, at level 1: of the sum of its shard of the accumulators
    std::vector<std::vector<std::int64_t>> states; ///< of the update rule, per member
    /// Delayed averaging, per member: of the copy that is averaged in place, and of one that stays as it was taken
    /// (plan::Merge::Corrected). -1: none.
    std::vector<std::int64_t> averages;
    std::vector<std::int64_t> snapshots;
    TableId table =
        {}; ///< of the one parameter, where it is exchanged by rows; its gradients are of `window` rows then
    [[nodiscard]] bool isAveraged() const { return policy == plan::ExchangePolicy::DelayedAveraging; }
    [[nodiscard]] bool isServed() const { return policy == plan::ExchangePolicy::ParameterServer; }
    [[nodiscard]] std::int64_t bytes() const { return elements * 4; } ///< of the gradients
};

/// What a memory policy decided, for which tensor.
struct MemoryDecision {
    memory::Decision what;
    std::int32_t microBatch = 0; ///< -1: a parameter, which is of all
    TensorId tensor;             ///< of the rank's body
    TaskId task; ///< that carries it out: the copy to the host, or that or the run by which the tensor comes back
    TaskId room; ///< the next run, for which there is room then; none: it is the last
};

/// A tensor that a memory policy takes from the device and back, or makes again.
struct MovedTensor {
    TensorId tensor;             ///< of the rank's body
    std::int32_t microBatch = 0; ///< -1: a parameter
    std::int64_t bytes = 0;
    TaskId made; ///< the run that makes it first, or the first copy of a parameter
    TaskId last; ///< the run that is the last to use it
};

/// A parameter that is exchanged by rows (plan::SparseExchange). A member holds columns [begin, end) of rows
/// [firstRow, endRow), with their states; in a step it has the rows that its own samples look up, ascending by id, in a
/// window of so many rows that any samples fit. Operators read and differentiate the window, at the places of rows in
/// it.
struct Table {
    BucketId bucket;
    TeamId team;
    std::string parameter;
    std::string ids;    ///< input of the model
    std::string places; ///< input of the bodies' graphs: for each id, where its row lies in the window
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t idsPerSample = 0;
    std::int64_t window = 0; ///< rows
    plan::TableStrategy strategy = plan::TableStrategy::AllToAll;
    bool delays = false; ///< some rows of the gradient are exchanged a step later
    /// Where a member has what, as arena offsets.
    struct Member {
        std::int64_t begin = 0; ///< column
        std::int64_t end = 0;
        std::int64_t firstRow = 0;
        std::int64_t endRow = 0;
        std::int64_t held = -1;           ///< rows() x width(): the parameter
        std::vector<std::int64_t> states; ///< likewise: of the update rule
        std::int64_t own = -1;        ///< what others hold of rows of this member's samples: comes in, or gradients out
        std::int64_t others = -1;     ///< what it holds of rows of all members' samples: goes out, or gradients in
        std::int64_t delayedOwn = -1; ///< the same of delayed gradients
        std::int64_t delayedOthers = -1;
        std::int64_t sums = -1;                  ///< gradients of updatedRows() rows, own columns
        std::int64_t updated = -1;               ///< the parameter's rows that are updated
        std::vector<std::int64_t> updatedStates; ///< theirs
        [[nodiscard]] std::int64_t width() const { return end - begin; }
        [[nodiscard]] std::int64_t rows() const { return endRow - firstRow; }
    };
    std::vector<Member> members; ///< in the order of the team's ranks
    [[nodiscard]] bool isCut() const { return plan::isCut(strategy); }
    /// Numbers in Member::own.
    [[nodiscard]] std::int64_t ownNumbers() const
    {
        return window * columns * (isCut() ? 1 : static_cast<std::int64_t>(members.size()));
    }
    /// Numbers in Member::others of @p member.
    [[nodiscard]] std::int64_t otherNumbers(const Member &member) const
    {
        return std::min(window, member.rows()) * member.width() * static_cast<std::int64_t>(members.size());
    }
    /// Rows that @p member may update at once.
    [[nodiscard]] std::int64_t updatedRows(const Member &member) const
    {
        return std::min(member.rows(), window * static_cast<std::int64_t>(members.size()));
    }
};

/// The entries of @p table that @p range names.
template <class Entry>
std::span<const Entry> partOf(const std::vector<Entry> &table, Range range)
{
    return {table.data() + range.first, static_cast<std::size_t>(range.last - range.first)};
}

/// What one rank does in a step.
struct Rank {
    DeviceId device;
    std::vector<TaskId> tasks; ///< all, any lane
    /// Per lane, the order in which its tasks start; empty where the lane's policy chooses. The compute lane has one.
    std::array<std::vector<TaskId>, kLanes> orders;
    [[nodiscard]] const std::vector<TaskId> &computeOrder() const { return orders[0]; }
    [[nodiscard]] std::vector<TaskId> &computeOrder() { return orders[0]; }
    std::vector<BodyId> bodies;
    std::int32_t core = -1;      ///< ranks of one number compute on one processor core, in turn; -1: on their own
    std::int64_t standsFor = 1;  ///< ranks of the plan; more than itself in a folded program
    std::int64_t arenaBytes = 0; ///< allocated by the rank, once: the predicted peak
    std::int64_t persistentBytes = 0;
    std::int64_t hostBytes = 0; ///< of the host's memory, or of a file, for what a memory policy swaps
    std::string hostTier;       ///< plan::Memory::hostTier
    /// The optimizer's states, where they lie in the host tier between updates: one range of the arena, in the pool
    /// of the rank's one body, that is copied in for the update and out behind it. No bytes: they stay.
    HostCopy hostedStates = {};
    /// Parameters that lie in the host tier (plan::Memory::hostParameters), with the optimizer's states where these do:
    /// ranges of the pool that are copied in for their update, one after the other, and out behind it. Several may
    /// have the same place.
    std::vector<HostCopy> hostedParts = {};
    std::vector<MemoryDecision> decisions = {}; ///< of its memory policy, in order
    std::vector<MovedTensor> moved = {};        ///< the tensors of these, each once, in the order of their first one
};

/// A plan compiled: per rank, tasks on lanes, their dependencies, and a place for every buffer. Both clocks run it: the
/// simulator (engine/simulate) and the executor (executor/runtime). Task ids (idOf) are stable: they depend on the plan
/// only.
///
/// A folded Program has one rank for all that do the same at the same times; it is for the simulator only. The
/// cost clock gives it the same times as the whole, to the last bit. Its teams, buckets and tasks are those of the
/// ranks that it has, with the durations of the whole teams.
struct Program {
    /// A rank of the plan and who stands for it.
    struct Place {
        DeviceId device;
        RankId rank;
    };
    std::vector<Rank> ranks;
    std::vector<Task> tasks;
    std::vector<Dependency> dependencies;
    std::vector<Effect> effects;   ///< tasks that do the same share a range
    std::vector<Cadence> cadences; ///< of tasks that do not run in every step, or stay open
    std::int32_t periodSteps = 1;  ///< training steps after which all repeats, from step `steadyFrom` on
    std::int64_t steadyFrom = 0;   ///< a multiple of periodSteps
    std::int32_t openSteps = 0;    ///< further steps in which a task that stays open may end
    std::string lanePolicy;        ///< of lanes without an order (engine/dispatch); empty: the default
    std::vector<Group> groups;
    std::vector<TaskId> groupMembers;
    std::vector<PooledCall> pooledCalls;
    std::vector<std::int64_t> pooledPlaces; ///< offsets in the pool; -1: where the tensor lies anyway
    std::vector<HostCopy> hostCopies;
    std::vector<Body>
        bodies; ///< per stage replica; without operators and places where CompileOptions::bodies was false
    std::vector<Team> teams;
    std::vector<Bucket> buckets;
    std::vector<Table> tables;
    std::vector<Place> places;             ///< every rank of the plan, in order; only in a folded program
    std::optional<SampledRoles> sampled;   ///< who brings the samples, where these are not read by each rank itself
    std::optional<ParameterServer> server; ///< that ranks exchange sums with; its process follows theirs
    std::int64_t shards = 1; ///< of the samples, of which a step trains on one with what it has kept (ADMM)
    cost::CommunicationOnCores communicationOnCores; ///< where ranks share cores
    double ridge = 0; ///< of training by ADMM: half of it times the squared weights is added to the summed loss
    std::int64_t microBatches = 0;
    std::int64_t globalBatch = 0;
    Seconds lowerBound; ///< busiest lane's or core's work: no order of the tasks can be faster
    Seconds oneDevice;  ///< the whole batch on one device of the first stage's type; 0: not known

    [[nodiscard]] const Task &task(TaskId id) const { return tasks[id.index()]; }
    [[nodiscard]] const Body &body(BodyId id) const { return bodies[id.index()]; }
    [[nodiscard]] Body &body(BodyId id) { return bodies[id.index()]; }
    [[nodiscard]] const Team &team(TeamId id) const { return teams[id.index()]; }
    [[nodiscard]] const Bucket &bucket(BucketId id) const { return buckets[id.index()]; }
    [[nodiscard]] Bucket &bucket(BucketId id) { return buckets[id.index()]; }
    [[nodiscard]] const Table &table(TableId id) const { return tables[id.index()]; }
    [[nodiscard]] const HostCopy &copyOf(const Swap &swap) const
    {
        return hostCopies[static_cast<std::size_t>(swap.copy)];
    }
    /// True if tasks do not run in every step, or end in a later one than they begin in.
    [[nodiscard]] bool spansSteps() const { return !cadences.empty(); }
    [[nodiscard]] bool runsIn(const Task &task, std::int64_t step) const
    {
        return task.cadence == 0 || cadences[static_cast<std::size_t>(task.cadence - 1)].runsIn(step);
    }
    [[nodiscard]] bool staysOpen(const Task &task) const
    {
        return task.cadence != 0 && cadences[static_cast<std::size_t>(task.cadence - 1)].staysOpen;
    }
    /// The part of the steps in which it runs, in the long run: 1, 1/period, or 0 for what ends some time.
    [[nodiscard]] double shareOfSteps(const Task &task) const
    {
        if (task.cadence == 0)
            return 1;
        const Cadence &cadence = cadences[static_cast<std::size_t>(task.cadence - 1)];
        return cadence.last < Cadence::kEndless ? 0 : 1.0 / cadence.period;
    }
    /// Seconds of its rank's core that @p task takes, where ranks share cores; all members of its group on one core
    /// take at most the group's duration (simulate/shared_cores.h).
    [[nodiscard]] Seconds coreSeconds(const Task &task) const
    {
        if (task.lane == Lane::Compute)
            return task.group.valid() ? Seconds(0) : task.duration;
        const double perByte = communicationOnCores.secondsPerByte;
        return perByte > 0 ? Seconds(perByte * static_cast<double>(task.bytes())) : Seconds(0);
    }
    [[nodiscard]] std::span<const Dependency> dependenciesOf(const Task &task) const
    {
        return partOf(dependencies, task.dependencies);
    }
    [[nodiscard]] std::span<const Effect> effectsOf(const Task &task) const { return partOf(effects, task.effects); }
    [[nodiscard]] std::span<const TaskId> membersOf(GroupId group) const
    {
        return partOf(groupMembers, groups[group.index()]);
    }
    /// The names of all parameters, on all ranks, in order of buckets; each once.
    [[nodiscard]] std::vector<std::string_view> parameters() const;
};

/// "s1.F.m3": stage, then F(orward) B(ackward) W(eight gradient) R(ecompute) SF/RF (send/receive activation) SB/RB
/// (send/receive gradient) O(ptimizer), then the micro-batch, then the part from the second on ("s1.F.m3.2"). Boxing is
/// named after its pass and numbered within: "s1.F.m3.AG2", with AR (all-reduce) AG (all-gather) RS (reduce-scatter) AA
/// (all-to-all) PS (parameter server). Exchanges have their bucket: "s1.AR.b0"; where parameters are averaged that is
/// the average, between their snapshot "s1.SN.b0" and their merge "s1.M.b0", the warm-up's sum of gradients is
/// "s1.GR.b0", and that inside a machine "s1.GI.b0"; where servers update parameters, "s1.PS.b0" sends gradients and
/// gets parameters. Tables that are exchanged by rows have their number: "s0.L.t0" packs rows that are looked up, which
/// travel in "s0.AF.t0"; "s0.G.t0" packs rows of the gradient, which travel in "s0.AB.t0" and are added up by
/// "s0.O.t0", or prior ones in "s0.AP.t0" and "s0.O.t0p", delayed ones in "s0.AD.t0" and "s0.O.t0d". Copies of
/// activations to the host and back are numbered in their micro-batch: "s1.CO.m3.1", "s1.CI.m3.1"; those of the
/// optimizer's states are "s1.CO.o", "s1.CI.o"; parameters on the host are updated in parts, "s1.CI.p1", "s1.O.p1",
/// "s1.CO.p1". A second phase of the update is "s1.O.1"; the update of one bucket
/// "s1.O.b0". Agreements of all ranks have no stage: "A.step", "A.norm", "A.update".
std::string idOf(const Task &task);
/// The first of kLaneTable that the program's traces have.
std::int32_t traceLanes(const Program &program);
/// The tables as traces carry them: tasks in task order, ranks with @p cluster's names; behind them the processes and
/// tasks of roles (RoleRows).
trace::Tables traceTables(const Program &program, const cluster::Cluster &cluster);

} // namespace planloom::program

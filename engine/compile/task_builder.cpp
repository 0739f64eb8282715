// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/tasks.h"

#include "engine/compile/area_lives.h"
#include "engine/compile/part_updates.h"
#include "engine/compile/pooled_pieces.h"
#include "engine/compile/row_tasks.h"
#include "engine/compile/task_times.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace planloom::compile {
namespace {

using program::Range;

/// Which lane each end of a stage uses.
struct BoundaryLanes {
    Lane activationIn, activationOut, gradientIn, gradientOut;
};

/// Full-duplex links send and receive at the same time. On half-duplex links both directions take turns on one lane;
/// the two-level rules know one resource per boundary (DAPPLE's network stage), so there each of a stage's two
/// boundaries has a lane.
BoundaryLanes boundaryLanes(const cluster::Cluster &cluster)
{
    if (cluster.fullDuplex())
        return {Lane::Receive, Lane::Send, Lane::Receive, Lane::Send};
    if (cluster.commModel() == cluster::CommModel::TwoLevel)
        return {Lane::Receive, Lane::Send, Lane::Send, Lane::Receive};
    return {Lane::Send, Lane::Send, Lane::Send, Lane::Send};
}

/// Makes tasks; what waits for what and what runs together come after.
class TaskBuilder {
public:
    TaskBuilder(const TaskInput &in, PooledCalls pooled)
        : m_in(in),
          m_plan(in.source.plan),
          m_lanes(boundaryLanes(*in.source.subject.cluster)),
          m_times({in.source, in.samples, in.stages, in.ranks, in.teams, in.parts})
    {
        m_draft.pooled = std::move(pooled);
        m_draft.ranks.resize(in.ranks.size());
        m_draft.bodies.resize(in.instances.size());
    }

    TaskDraft build()
    {
        reserve();
        if (m_plan.exchange.averages())
            spanSteps(m_plan.exchange.averaging);
        else if (m_plan.exchange.acrossSteps)
            overlapSteps();
        for (std::size_t body = 0; body < m_in.instances.size(); ++body) {
            addPasses(body);
            connectCopies(body);
            addUpdate(body);
        }
        handOver();
        addAgreements();
        std::sort(m_draft.boxing.begin(), m_draft.boxing.end());
        return std::move(m_draft);
    }

private:
    /// Room for all tasks at least: moving the tasks of a thousand ranks is a tenth of making them.
    void reserve()
    {
        constexpr std::size_t kOnce = 8; // updates and agreements
        const auto microBatches = static_cast<std::size_t>(m_plan.microBatches);
        std::vector<std::size_t> perRank(m_in.ranks.size(), 0);
        for (std::size_t body = 0; body < m_in.instances.size(); ++body) {
            const std::size_t stage = m_in.instances[body].stage.index();
            const StageParts &parts = m_in.parts[stage];
            const std::size_t again = m_in.stages[stage].runsAgain() ? parts.forward.size() : 0;
            const std::size_t passes = parts.forward.size() + again + parts.backward.size() + parts.weights.size();
            constexpr std::size_t kTransfers = 4;
            perRank[m_in.instances[body].rank.index()] += microBatches * (passes + kTransfers) + parts.last.size()
                + 2 * m_in.owners.ofInstance[body].size() + kOnce;
            BodyTasks &tasks = m_draft.bodies[body];
            for (std::vector<PassTasks> *list : {&tasks.forward, &tasks.backward})
                list->reserve(microBatches);
            if (m_in.stages.size() < 2)
                continue;
            for (std::vector<TaskId> *list :
                 {&tasks.receiveActivation, &tasks.sendActivation, &tasks.receiveGradient, &tasks.sendGradient})
                list->reserve(microBatches);
        }
        std::size_t all = 0;
        for (std::size_t r = 0; r < perRank.size(); ++r) {
            m_draft.ranks[r].tasks.reserve(perRank[r]);
            all += perRank[r];
        }
        constexpr std::size_t kEdges = 4; // of a task
        m_draft.tasks.reserve(all);
        m_draft.edges.inStep.reserve(kEdges * all);
    }

    TaskId add(std::size_t index, Lane lane, std::int64_t microBatch, Seconds duration, const program::Payload &payload,
               Range effects = {})
    {
        const StageInstance &instance = m_in.instances[index];
        Task task;
        task.lane = lane;
        task.rank = instance.rank;
        task.stage = instance.stage;
        task.body = BodyId(static_cast<std::int64_t>(index));
        task.microBatch = static_cast<std::int32_t>(microBatch);
        task.duration = duration;
        task.effects = effects;
        task.payload = payload;
        return append(task);
    }

    TaskId append(const Task &task)
    {
        const TaskId id(static_cast<std::int64_t>(m_draft.tasks.size()));
        m_draft.tasks.push_back(task);
        m_draft.ranks[task.rank.index()].tasks.push_back(id);
        return id;
    }

    /// The range of Program::effects that holds @p effects; equal ones of one body stand there once.
    Range shared(std::vector<program::Effect> effects)
    {
        if (effects.empty())
            return {};
        const auto [entry, isNew] = m_effects.try_emplace(std::move(effects));
        if (isNew) {
            entry->second.first = static_cast<std::int32_t>(m_draft.effects.size());
            m_draft.effects.insert(m_draft.effects.end(), entry->first.begin(), entry->first.end());
            entry->second.last = static_cast<std::int32_t>(m_draft.effects.size());
        }
        return entry->second;
    }

    [[nodiscard]] StageHabits habitsOf(std::size_t stage) const
    {
        const StageModel &model = m_in.stages[stage];
        return {model.splits(), model.splits() && model.keepsSentGradients(), model.runsAgain()};
    }

    /// Effects of the instance's passes and transfers, looked up once.
    struct BodyEffects {
        Range runs[4][2][2]; ///< by pass, and whether the run opens and closes it
        Range received[2];   ///< activations, gradients
        Range sent[2];
    };

    BodyEffects effectsOf(std::size_t index)
    {
        const StageHabits habits = habitsOf(m_in.instances[index].stage.index());
        const BodyId body(static_cast<std::int64_t>(index));
        BodyEffects all;
        for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Recompute, Pass::WeightGradient})
            for (const bool opens : {false, true})
                for (const bool closes : {false, true})
                    all.runs[static_cast<std::size_t>(pass)][opens][closes] =
                        shared(effectsAt({pass, false}, habits, body, false, opens, closes));
        for (const bool backward : {false, true}) {
            const Moment moment{backward ? Pass::Backward : Pass::Forward, true};
            all.received[backward] = shared(effectsAt(moment, habits, body, true));
            all.sent[backward] = shared(effectsAt(moment, habits, body, false));
        }
        return all;
    }

    /// One pass of one micro-batch: its runs and the boxing between them.
    PassTasks addPass(std::size_t index, Pass pass, std::int64_t m, Seconds duration, const BodyEffects &effects)
    {
        const StageInstance &instance = m_in.instances[index];
        const TaskTimes::Slice slice = m_times.slice(instance, m);
        const StageParts &stage = m_in.parts[slice.stage];
        const Pass gradients = m_in.stages[instance.stage.index()].splits() ? Pass::WeightGradient : Pass::Backward;
        const bool last = !stage.last.empty() && m == lastMicroBatch(instance) && pass == gradients;
        const bool opens = !stage.first.empty() && pass == Pass::Forward && m == firstMicroBatch(instance);
        const std::vector<PassPart> &parts = last ? stage.last : opens ? stage.first : stage.partsOf(pass);
        PassTasks tasks;
        std::vector<TaskId> &made = m_made; // per part, its last run
        made.clear();
        std::vector<TaskId> begun; // per part, its first run
        program::Compute run{pass};
        std::int16_t box = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const PassPart &part = parts[i];
            if (part.boxing) {
                made.push_back(addBoxing(index, pass, m, part.first, ++box));
                m_draft.edges.depend(made.back(), tasks.last);
            } else if (m_in.memory.of(index) != nullptr) {
                const TaskId first = addPooledRuns(index, pass, m, part, {i == 0, i + 1 == parts.size()},
                                                   m_times.run(slice, part, duration * part.share), effects, tasks);
                for (const std::size_t before : part.waitsFor)
                    m_draft.edges.depend(first, made[before]);
                made.push_back(tasks.last);
                begun.push_back(first);
                continue;
            } else {
                run.opens = i == 0;
                run.closes = i + 1 == parts.size();
                run.firstOp = part.first;
                run.lastOp = part.last;
                made.push_back(add(index, Lane::Compute, m, m_times.run(slice, part, duration * part.share), run,
                                   effects.runs[static_cast<std::size_t>(pass)][run.opens][run.closes]));
                tasks.add(made.back());
                ++run.run;
            }
            begun.push_back(made.back());
            for (const std::size_t before : part.waitsFor)
                m_draft.edges.depend(made.back(), made[before]);
        }
        if (last)
            m_draft.bodies[index].lastParts = made;
        if (opens)
            m_draft.bodies[index].firstParts = std::move(begun);
        return tasks;
    }

    /// The operators of @p part, which take @p whole, in runs between the copies of the instance's memory policy, with
    /// those that run again. Adds the runs to @p tasks and returns the first.
    TaskId addPooledRuns(std::size_t index, Pass pass, std::int64_t m, const PassPart &part, Ends ends, Seconds whole,
                         const BodyEffects &effects, PassTasks &tasks)
    {
        const StageMemory &memory = *m_in.memory.of(index);
        m_eventTasks.resize(memory.course.events.size());
        TaskId first;
        for (const PooledPiece &piece : piecesOf(memory, pass, m, part, ends, whole)) {
            const TaskId task =
                piece.copies ? addSwap(index, m, piece) : addPooledRun(index, pass, m, piece, effects, tasks);
            for (const std::int32_t event : piece.events)
                m_eventTasks[static_cast<std::size_t>(event)] = task;
            if (!piece.copies && !first.valid())
                first = task;
        }
        return first;
    }

    TaskId addPooledRun(std::size_t index, Pass pass, std::int64_t m, const PooledPiece &piece,
                        const BodyEffects &effects, PassTasks &tasks)
    {
        const StageMemory &memory = *m_in.memory.of(index);
        program::Compute run{piece.again ? Pass::Recompute : pass};
        run.run = m_runNumbers[{index, run.pass, m}]++;
        run.opens = piece.opens;
        run.closes = piece.closes;
        run.firstCall = static_cast<std::int32_t>(m_draft.pooled.calls.size());
        for (const std::int32_t event : piece.events)
            memory.appendCall(memory.course.events[static_cast<std::size_t>(event)], m_draft.pooled);
        run.lastCall = static_cast<std::int32_t>(m_draft.pooled.calls.size());
        const Range touched =
            piece.again ? Range{} : effects.runs[static_cast<std::size_t>(pass)][run.opens][run.closes];
        const TaskId task = add(index, Lane::Compute, m, piece.seconds, run, touched);
        tasks.add(task);
        return task;
    }

    /// A copy for a pass of micro-batch @p m: of a tensor of its own micro-batch, or of a parameter for that one.
    TaskId addSwap(std::size_t index, std::int64_t m, const PooledPiece &piece)
    {
        const StageMemory &memory = *m_in.memory.of(index);
        const memory::Event &event = memory.course.events[static_cast<std::size_t>(piece.events.front())];
        const bool parameter = memory.isParameter(event.subject);
        const std::int32_t microBatch = parameter ? static_cast<std::int32_t>(m) : memory.microBatchOf(event.subject);
        const auto root = static_cast<std::size_t>(memory.rootOf(event.subject));
        const std::int64_t place = memory.course.places[static_cast<std::size_t>(event.firstPlace)];
        program::Swap swap;
        swap.out = event.kind == memory::Event::Kind::Out;
        swap.number = ++m_copyNumbers[{index, swap.out, microBatch}];
        swap.copy = static_cast<std::int32_t>(m_draft.hostCopies.size());
        const std::int64_t bytes = memory.bytes[root];
        const auto rank = m_in.instances[index].rank.index();
        if (parameter)
            m_draft.hostCopies.push_back(parameterCopy(memory, memory.rootOf(event.subject), place,
                                                       m_in.persistent.ofRank[rank].hosted,
                                                       m_in.arenas[rank].hostedParts));
        else
            m_draft.hostCopies.push_back({memory.roots[root], place, event.hostPlace, bytes});
        const TaskId task =
            add(index, swap.out ? Lane::CopyOut : Lane::CopyIn, microBatch, memory.copySeconds(swap.out, bytes), swap);
        if (swap.out)
            m_draft.bodies[index].copiesOut.push_back(task);
        return task;
    }

    /// What the events of the instance's memory policy wait for.
    void connectCopies(std::size_t index)
    {
        const StageMemory *memory = m_in.memory.of(index);
        if (memory == nullptr)
            return;
        const auto taskOf = [this](std::int32_t event) { return m_eventTasks[static_cast<std::size_t>(event)]; };
        for (std::size_t e = 0; e < memory->course.events.size(); ++e) {
            const memory::Event &event = memory->course.events[e];
            const TaskId task = m_eventTasks[e];
            if (event.after >= 0)
                m_draft.edges.depend(task, taskOf(event.after));
            for (std::int32_t w = event.firstWait; w < event.lastWait; ++w)
                m_draft.edges.depend(task, taskOf(memory->course.waits[static_cast<std::size_t>(w)]));
        }
        TaskDraft::OfRank &rank = m_draft.ranks[m_in.instances[index].rank.index()];
        const auto carriedOutBy = [&](std::int32_t event) { return event < 0 ? TaskId() : taskOf(event); };
        for (const memory::Decision &decision : memory->course.decisions)
            rank.decisions.push_back({decision, memory->microBatchOf(decision.storage),
                                      memory->roots[static_cast<std::size_t>(memory->rootOf(decision.storage))],
                                      carriedOutBy(decision.event), carriedOutBy(decision.room)});
        std::set<std::int32_t> noted;
        for (const memory::Decision &decision : memory->course.decisions) {
            if (!noted.insert(decision.storage).second)
                continue;
            const auto root = static_cast<std::size_t>(memory->rootOf(decision.storage));
            const std::int32_t m = memory->microBatchOf(decision.storage);
            if (memory->isParameter(decision.storage)) {
                const auto p = static_cast<std::size_t>(decision.storage - memory->firstParameter());
                rank.moved.push_back({memory->roots[root], m, decision.bytes,
                                      carriedOutBy(memory->firstCopyOf(decision.storage)),
                                      carriedOutBy(memory->runAt(memory->lastReader[p]))});
                continue;
            }
            rank.moved.push_back({memory->roots[root], m, decision.bytes,
                                  carriedOutBy(memory->runOf(memory->madeBy[root], m)),
                                  carriedOutBy(memory->runOf(memory->lastUse[root], m))});
        }
        m_eventTasks.clear();
    }

    /// The micro-batch whose forward pass over the stage comes first.
    [[nodiscard]] std::int64_t firstMicroBatch(const StageInstance &instance) const
    {
        const std::vector<PassStep> &order = m_in.ranks.at(instance.rank).order;
        const auto found = std::find_if(order.begin(), order.end(), [&](const PassStep &step) {
            return step.stage == instance.stage.value && step.forward();
        });
        return found == order.end() ? -1 : found->microBatch;
    }

    /// The micro-batch whose passes over the stage come last.
    [[nodiscard]] std::int64_t lastMicroBatch(const StageInstance &instance) const
    {
        const std::vector<PassStep> &order = m_in.ranks.at(instance.rank).order;
        const auto found = std::find_if(order.rbegin(), order.rend(),
                                        [&](const PassStep &step) { return step.stage == instance.stage.value; });
        return found == order.rend() ? -1 : found->microBatch;
    }

    TaskId addBoxing(std::size_t index, Pass pass, std::int64_t m, std::int32_t op, std::int16_t number)
    {
        const StageInstance &instance = m_in.instances[index];
        const CommunicatingOp &boxing = m_in.parts[instance.stage.index()].boxing.at(op);
        const TeamId team = m_in.teams.teamOf(boxing.set, instance.rank);
        const std::int64_t whole = m_times.boxedBytes(m_times.slice(instance, m), op);
        if (m_in.server) // each rank for itself
            return add(index, Lane::Collective, m, m_times.served(*m_in.server, instance),
                       program::Boxing{boxing.collective, pass, number, op, team, true, 0, whole});
        const std::int64_t sent = m_times.sentBytes(boxing, team, whole, instance.rank);
        const TaskId id = add(index, Lane::Collective, m, m_times.collective(boxing, team, whole),
                              program::Boxing{boxing.collective, pass, number, op, team, false, boxing.shift, sent});
        m_draft.boxing.push_back({{instance.stage.value, team, pass, m, op}, id});
        return id;
    }

    void addPasses(std::size_t index)
    {
        const StageInstance &instance = m_in.instances[index];
        BodyTasks &tasks = m_draft.bodies[index];
        const std::size_t here = instance.stage.index();
        const bool gradientIn = !m_in.source.isLast(instance.stage) && m_in.stages[here].returnsGradient();
        const bool gradientOut = !m_in.source.isFirst(instance.stage) && m_in.stages[here - 1].returnsGradient()
            && !m_in.source.staysOnDevice(here - 1);
        const bool activationOut = !m_in.source.isLast(instance.stage) && !m_in.source.staysOnDevice(here);
        const BodyEffects effects = effectsOf(index);
        const auto transfer = [&](bool sends, Pass pass, Lane lane, std::int64_t m, std::size_t cut) {
            const auto direction = static_cast<std::size_t>(pass == Pass::Backward);
            return add(index, lane, m, m_times.transfer(cut, m, pass), program::Transfer{pass, sends},
                       sends ? effects.sent[direction] : effects.received[direction]);
        };
        for (std::int64_t m = 0; m < m_plan.microBatches; ++m) {
            const TaskTimes::Slice slice = m_times.slice(instance, m);
            const Seconds forward = m_times.layers(slice, false);
            const Seconds backward = m_times.layers(slice, true);
            if (!m_in.source.isFirst(instance.stage))
                tasks.receiveActivation.push_back(transfer(false, Pass::Forward, m_lanes.activationIn, m, here));
            tasks.forward.push_back(addPass(index, Pass::Forward, m, forward, effects));
            if (activationOut)
                tasks.sendActivation.push_back(transfer(true, Pass::Forward, m_lanes.activationOut, m, here + 1));
            if (gradientIn)
                tasks.receiveGradient.push_back(transfer(false, Pass::Backward, m_lanes.gradientIn, m, here + 1));
            if (m_in.stages[here].runsAgain())
                tasks.recompute.push_back(addPass(index, Pass::Recompute, m, forward, effects));
            tasks.backward.push_back(addPass(index, Pass::Backward, m, backward, effects));
            if (gradientOut)
                tasks.sendGradient.push_back(transfer(true, Pass::Backward, m_lanes.gradientOut, m, here));
            if (m_in.stages[here].splits())
                tasks.weights.push_back(addPass(index, Pass::WeightGradient, m, backward, effects));
        }
    }

    /// Between stages on the same devices one task does both: what receives takes it from where it was made.
    void handOver()
    {
        for (std::size_t stage = 0; stage < m_in.stages.size(); ++stage) {
            const bool stays = m_in.source.staysOnDevice(stage);
            for (std::size_t i = 0; stays && i < m_in.instances.ofStage[stage].size(); ++i) {
                const std::size_t here = m_in.instances.ofStage[stage][i];
                const std::size_t next = m_in.instances.ofStage[stage + 1][i];
                m_draft.bodies[here].sendActivation = m_draft.bodies[next].receiveActivation;
                m_draft.bodies[next].sendGradient = m_draft.bodies[here].receiveGradient;
                makeCopies(m_draft.bodies[next].receiveActivation, Pass::Forward, here);
                makeCopies(m_draft.bodies[here].receiveGradient, Pass::Backward, next);
            }
        }
    }

    /// Turns what receives into copies that also do what the sending end would do.
    void makeCopies(const std::vector<TaskId> &received, Pass pass, std::size_t from)
    {
        const BodyId source(static_cast<std::int64_t>(from));
        for (const TaskId id : received) {
            Task &task = m_draft.tasks[id.index()];
            const auto own = program::partOf(m_draft.effects, task.effects);
            std::vector<program::Effect> effects(own.begin(), own.end());
            const auto theirs = effectsAt({pass, true}, habitsOf(m_in.instances[from].stage.index()), source, false);
            effects.insert(effects.end(), theirs.begin(), theirs.end());
            task.effects = shared(std::move(effects));
            task.payload = program::Copy{pass, source};
        }
    }

    /// The steps in which the tasks of local steps run, as places in Program::cadences.
    struct Cadences {
        std::int32_t warmup = 0, inside = 0, round = 0, average = 0, merge = 0, sum = 0, agreement = 0;
    };

    std::int32_t addCadence(const program::Cadence &cadence)
    {
        m_draft.cadences.push_back(cadence);
        return static_cast<std::int32_t>(m_draft.cadences.size());
    }

    /// All steps are alike; sums of gradients and agreements may end in the next one.
    void overlapSteps()
    {
        m_cadences.sum = m_cadences.agreement = addCadence({1, 0, 0, program::Cadence::kEndless, true});
        m_draft.openSteps = 1;
    }

    void spanSteps(const plan::DelayedAveraging &averaging)
    {
        using program::Cadence;
        const auto period = static_cast<std::int32_t>(averaging.localSteps);
        const std::int64_t first = averaging.warmupSteps;
        const auto phaseOf = [period](std::int64_t step) { return static_cast<std::int32_t>(step % period); };
        const auto add = [this](const Cadence &cadence) { return addCadence(cadence); };
        const Cadence round{period, phaseOf(first + period - 1), first, Cadence::kEndless, false};
        const int later = averagesComeLater(m_plan) ? 1 : 0;
        Cadence average{period, phaseOf(first + period - 1 + later), first + later, Cadence::kEndless, false};
        average.staysOpen = averaging.delay > later;
        if (first > 0) {
            m_cadences.warmup = add({1, 0, 0, first, false});
            m_cadences.inside = add({1, 0, first, Cadence::kEndless, false});
        }
        m_cadences.round = add(round);
        m_cadences.average = add(average);
        m_cadences.merge =
            add({period, phaseOf(averaging.firstMerge()), averaging.firstMerge(), Cadence::kEndless, false});
        const std::int32_t every = agreementPeriod(period);
        m_cadences.agreement = add({every, every - 1, 0, Cadence::kEndless, true});
        m_draft.periodSteps = period;
        m_draft.steadyFrom = (first + averaging.delay + period - 1) / period * period;
        m_draft.openSteps = static_cast<std::int32_t>(std::max<std::int64_t>(every, averaging.delay));
    }

    /// Steps are agreed on together, as a small message waits behind an average on a slow link: the largest divisor of
    /// a round that keeps losses recent.
    static std::int32_t agreementPeriod(std::int32_t round)
    {
        constexpr std::int32_t kMost = 8;
        std::int32_t every = std::min(round, kMost);
        while (round % every != 0)
            --every;
        return every;
    }

    TaskId runs(TaskId task, std::int32_t cadence)
    {
        m_draft.tasks[task.index()].cadence = cadence;
        return task;
    }

    /// Of the ranks that sum up gradients of bucket @p index in local steps; none: each is for itself.
    [[nodiscard]] TeamId insideOf(std::size_t at, BucketId index) const
    {
        const std::int32_t set = m_in.buckets.inside[index.index()];
        const TeamId team = set < 0 ? TeamId() : m_in.teams.teamOf(set, m_in.instances[at].rank);
        return team.valid() && m_in.teams.team(team).size() > 1 ? team : TeamId();
    }

    /// Snapshot, average and merge of a bucket, and its sums of gradients: while the training warms up, and in local
    /// steps.
    void addAveraging(std::size_t at, BucketId index)
    {
        const plan::DelayedAveraging &averaging = m_plan.exchange.averaging;
        const std::int64_t bytes = m_in.buckets.at(index).bytes();
        const bool keepsOwn = averaging.merge == plan::Merge::Corrected;
        const int copied = keepsOwn ? 4 : 2; // tensors read or written, that of the sum, which is cleared, twice
        const int merged = keepsOwn ? 5 : 4;
        BodyTasks &tasks = m_draft.bodies[at];
        if (m_cadences.warmup > 0)
            tasks.exchange.push_back(runs(addExchange(at, cost::Collective::AllReduce, index), m_cadences.warmup));
        const StageInstance &instance = m_in.instances[at];
        if (const TeamId inside = insideOf(at, index); inside.valid())
            tasks.exchange.push_back(
                runs(first(addSumInside(at, index, inside), densePriority(index)), m_cadences.inside));
        Averaging made;
        made.snapshot = add(at, Lane::Compute, -1, m_times.streams(instance, bytes, copied), program::Snapshot{index});
        made.average =
            this->first(addExchange(at, cost::Collective::AllReduce, index, true), ExchangePriority::kAverage);
        made.merge = add(at, Lane::Compute, -1, m_times.streams(instance, bytes, merged),
                         program::Merge{index, averaging.merge, averaging.localWeight});
        runs(made.snapshot, m_cadences.round);
        runs(made.average, m_cadences.average);
        runs(made.merge, m_cadences.merge);
        tasks.averaging.push_back(made);
    }

    TaskId addExchange(std::size_t instance, cost::Collective collective, BucketId index, bool averages = false)
    {
        const Bucket &bucket = m_in.buckets.at(index);
        const bool gathers = collective == cost::Collective::AllGather;
        const std::int64_t bytes = gathers ? bucket.elements * graph::sizeOf(bucket.type) : bucket.bytes();
        const StageInstance &at = m_in.instances[instance];
        const std::int64_t sent =
            m_times.sentBytes(collective, bucket.team, bytes, at.rank, gathers ? bucket.type : graph::DType::F32);
        const std::int64_t travels = gathers || averages ? bytes : m_times.asGradients(bytes);
        return add(instance, Lane::Collective, -1, m_times.exchange(at.stage, collective, bucket.team, travels),
                   program::Exchange{bucket.policy, collective, averages, false, index, bucket.team, sent});
    }

    /// Of a bucket's gradients, among the ranks of @p inside.
    TaskId addSumInside(std::size_t instance, BucketId index, TeamId inside)
    {
        constexpr cost::Collective kSum = cost::Collective::AllReduce;
        const Bucket &bucket = m_in.buckets.at(index);
        const StageInstance &at = m_in.instances[instance];
        const std::int64_t sent = m_times.sentBytes(kSum, inside, bucket.bytes(), at.rank, graph::DType::F32);
        return add(instance, Lane::Collective, -1,
                   m_times.exchange(at.stage, kSum, inside, m_times.asGradients(bucket.bytes())),
                   program::Exchange{bucket.policy, kSum, false, true, index, inside, sent});
    }

    /// The later gradients are ready the sooner the next step needs what they update.
    TaskId first(TaskId task, std::int32_t priority)
    {
        if (m_in.lanePolicy == "priority")
            m_draft.tasks[task.index()].priority = priority;
        return task;
    }

    /// The tasks of a table that is exchanged by rows.
    void addRows(std::size_t at, TableId id)
    {
        using program::RowExchange;
        using program::RowPart;
        using program::RowWork;
        const program::Table &table = m_in.buckets.table(id);
        const RowTimes times(m_in.source, m_times, table, m_in.teams.team(table.team), m_in.instances[at]);
        const auto work = [&](RowWork::Kind kind, RowPart part) {
            const RowWork what{kind, part, id};
            return add(at, Lane::Compute, -1, times.work(what), what);
        };
        const auto exchange = [&](bool gradients, RowPart part, std::int32_t priority) {
            return first(add(at, Lane::Collective, -1, times.exchange(gradients, part),
                             RowExchange{gradients, part, id, table.team, times.sentBytes(gradients, part)}),
                         priority);
        };
        RowTasks made;
        if (table.isCut()) {
            made.lookUp = work(RowWork::Kind::LookUp, RowPart::All);
            made.forward = exchange(false, RowPart::All, ExchangePriority::kLookUp);
        }
        const RowPart part = table.delays ? RowPart::Prior : RowPart::All;
        made.collect = work(RowWork::Kind::Collect, RowPart::All);
        made.backward = exchange(true, part, ExchangePriority::kRows);
        made.update = work(RowWork::Kind::Update, part);
        if (table.delays) {
            made.delayed = exchange(true, RowPart::Delayed, ExchangePriority::kDelayed);
            made.updateDelayed = work(RowWork::Kind::Update, RowPart::Delayed);
        }
        const StageParts &parts = m_in.parts[m_in.instances[at].stage.index()];
        if (const auto run = parts.readBy.find(table.parameter); run != parts.readBy.end())
            made.reader = m_draft.bodies[at].firstParts[run->second];
        if (const auto run = parts.complete.find(table.parameter); run != parts.complete.end())
            made.gradientDone = m_draft.bodies[at].lastParts[run->second];
        m_draft.bodies[at].rows.push_back(made);
    }

    /// The sum of a bucket's gradients, and its update in the next step.
    void addLateSum(std::size_t at, BucketId index)
    {
        const StageInstance &instance = m_in.instances[at];
        const StageParts &parts = m_in.parts[instance.stage.index()];
        const Bucket &bucket = m_in.buckets.at(index);
        BodyTasks &tasks = m_draft.bodies[at];
        LateSum made;
        made.exchange =
            runs(first(addExchange(at, cost::Collective::AllReduce, index), densePriority(index)), m_cadences.sum);
        made.update =
            add(at, Lane::Compute, -1, m_times.update(instance, bucket.bytes(), 0), program::Update{0, index, 0});
        if (const auto run = parts.readBy.find(bucket.entries.front().parameter); run != parts.readBy.end())
            made.reader = tasks.firstParts[run->second];
        tasks.lateSums.push_back(made);
    }

    [[nodiscard]] std::int32_t densePriority(BucketId index) const
    {
        return ExchangePriority::kDense + static_cast<std::int32_t>(m_in.buckets.all.size()) - index.value;
    }

    void addUpdate(std::size_t at)
    {
        using cost::Collective;
        const StageInstance &instance = m_in.instances[at];
        BodyTasks &tasks = m_draft.bodies[at];
        std::int64_t bytes = 0;
        TeamId inside;
        const std::vector<BucketId> &mine = m_in.owners.ofInstance[at];
        for (const BucketId index : mine) {
            const Bucket &bucket = m_in.buckets.at(index);
            if (bucket.table.valid()) {
                addRows(at, bucket.table);
                continue;
            }
            if (bucket.isServed()) { // the network of its job has what travels
                tasks.exchange.push_back(
                    add(at, Lane::Collective, -1, Seconds(0),
                        program::Exchange{bucket.policy, Collective::AllReduce, false, false, index, TeamId(), 0}));
                continue;
            }
            if (endsLate(m_plan, bucket, m_in.teams.team(bucket.team).size())) {
                addLateSum(at, index);
                continue;
            }
            const auto members = static_cast<std::int64_t>(m_in.teams.team(bucket.team).size());
            bytes += bucket.zero > 0 ? bucket.bytes() / members : bucket.bytes();
            if (members > 1 && bucket.isAveraged()) {
                addAveraging(at, index);
                inside = insideOf(at, index);
            } else if (members > 1 && bucket.zero < 2)
                tasks.exchange.push_back(
                    first(addExchange(at, bucket.zero == 0 ? Collective::AllReduce : Collective::ReduceScatter, index),
                          densePriority(index)));
        }
        if (bytes == 0)
            return;
        if (const HostedParts &hosted = m_in.persistent.ofRank[instance.rank.index()].hosted; !hosted.parts.empty()) {
            addParts(at, hosted);
            return;
        }
        for (int phase = 0; phase < m_plan.optimizer.rule.formula().phases(); ++phase)
            tasks.updates.push_back(add(
                at, Lane::Compute, -1, m_times.update(instance, bytes, phase),
                program::Update{static_cast<std::int8_t>(phase), {}, m_plan.exchange.averaging.warmupSteps, inside}));
        if (const program::HostCopy &states = m_in.arenas[instance.rank.index()].hostedStates; states.bytes > 0) {
            tasks.bringStates = addStates(at, false, states);
            tasks.leaveStates = addStates(at, true, states);
        }
        for (const BucketId index : mine) {
            const Bucket &bucket = m_in.buckets.at(index);
            if (bucket.zero == 1 || bucket.zero == 2)
                tasks.restore.push_back(addExchange(at, Collective::AllGather, index));
        }
    }

    /// Each part comes, is updated and goes.
    void addParts(std::size_t at, const HostedParts &hosted)
    {
        const StageInstance &instance = m_in.instances[at];
        const std::vector<program::HostCopy> &copies = m_in.arenas[instance.rank.index()].hostedParts;
        const StageMemory &memory = *m_in.memory.of(at);
        std::vector<PartUpdate> updates;
        for (const HostedPart &part : hosted.parts) {
            const std::int64_t bytes = part.elements * graph::sizeOf(graph::DType::F32);
            updates.push_back({part.copy.place, part.copy.bytes, m_times.update(instance, bytes, 0).value(),
                               memory.copies.seconds(false, part.copy.bytes),
                               part.changes ? memory.copies.seconds(true, part.copy.bytes) : -1});
        }
        const std::vector<PartCourse> courses = updateParts(updates, memory.copyLoad);
        for (std::size_t p = 0; p < copies.size(); ++p) {
            const auto number = static_cast<std::int16_t>(p + 1);
            PartTasks made;
            made.bring = addStates(at, false, copies[p], number);
            program::Update update;
            update.part = static_cast<std::int32_t>(p);
            made.update = add(at, Lane::Compute, -1, Seconds(updates[p].update + courses[p].delay), update);
            if (hosted.parts[p].changes)
                made.leave = addStates(at, true, copies[p], number);
            made.awaits = courses[p].awaits;
            m_draft.bodies[at].parts.push_back(std::move(made));
        }
    }

    TaskId addStates(std::size_t at, bool out, const program::HostCopy &states, std::int16_t part = 0)
    {
        const program::Swap swap{out, part, static_cast<std::int32_t>(m_draft.hostCopies.size())};
        m_draft.hostCopies.push_back(states);
        return add(at, out ? Lane::CopyOut : Lane::CopyIn, -1, m_in.memory.of(at)->copySeconds(out, states.bytes),
                   swap);
    }

    /// What all ranks agree on: the step's loss, the norm of its gradients if it is clipped, the update rule's norms.
    void addAgreements()
    {
        using program::Agreement;
        const auto agree = [this](Agreement::Subject subject, std::int64_t bytes, std::vector<TaskId> &made) {
            for (std::size_t r = 0; r < m_in.ranks.size(); ++r) {
                Task task;
                task.lane = Lane::Host;
                task.rank = RankId(static_cast<std::int64_t>(r));
                task.duration = m_times.agreement(bytes);
                task.payload = Agreement{subject};
                task.cadence = m_cadences.agreement; // no step waits for it
                made.push_back(append(task));
            }
        };
        constexpr std::int64_t kTwoFloats = 8;
        const std::int64_t steps =
            m_cadences.agreement == 0 ? 1 : m_draft.cadences[static_cast<std::size_t>(m_cadences.agreement - 1)].period;
        const std::int64_t distance = m_cadences.merge == 0 ? 0 : kTwoFloats; // of replicas from their average
        if (!m_in.server)                                                     // else ranks wait for the server alone
            agree(Agreement::Subject::Step, (steps + 1) * static_cast<std::int64_t>(sizeof(float)) + distance,
                  m_draft.agreeOnStep);
        if (m_plan.optimizer.clipNorm > 0)
            agree(Agreement::Subject::GradientNorm, kTwoFloats, m_draft.agreeOnNorm);
        if (const int norms = m_plan.optimizer.rule.formula().norms; norms > 0)
            agree(Agreement::Subject::UpdateNorms,
                  norms * static_cast<std::int64_t>(m_in.buckets.parameters() * sizeof(double)), m_draft.agreeOnUpdate);
    }

    const TaskInput &m_in;
    const plan::Plan &m_plan;
    BoundaryLanes m_lanes;
    TaskDraft m_draft;
    TaskTimes m_times;
    Cadences m_cadences;
    std::map<std::vector<program::Effect>, Range> m_effects;
    std::vector<TaskId> m_made;       ///< of the pass that is being made
    std::vector<TaskId> m_eventTasks; ///< per event of the course of the instance that is being made
    std::map<std::tuple<std::size_t, Pass, std::int64_t>, std::int16_t>
        m_runNumbers; ///< by instance, pass, micro-batch
    std::map<std::tuple<std::size_t, bool, std::int32_t>, std::int16_t>
        m_copyNumbers; ///< by instance, direction, micro-batch
};

} // namespace

TaskDraft makeTasks(const TaskInput &in, PooledCalls pooled) { return TaskBuilder(in, std::move(pooled)).build(); }

} // namespace planloom::compile

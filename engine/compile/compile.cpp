// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"

#include "engine/compile/bodies.h"
#include "engine/compile/bounds.h"
#include "engine/compile/deployment.h"
#include "engine/compile/processes.h"
#include "engine/compile/stages.h"
#include "engine/compile/task_groups.h"
#include "engine/compile/task_order.h"
#include "engine/compile/tasks.h"
#include "engine/plan/replica_machines.h"
#include "engine/program/deadlock.h"

#include <algorithm>
#include <utility>

// The passes in their order. What a pass reads and returns is in its declaration; none changes what another has
// returned, unless it takes it over as a value.

namespace planloom::compile {

Result<Deployment> deploy(const Source &source, const Samples &samples, const Options &options, bool folds, bool roomy)
{
    auto whole = makeStages(source, options.bodies, options.stages);
    if (!whole)
        return whole.error();
    const PlannedRanks planned = planRanks(source);
    auto communication = findCommunication(*whole, planned, source);
    if (!communication)
        return communication.error();
    // Which rank computes beside which is not folded; neither are the columns of tables.
    folds = folds && !planned.shareCores() && !source.plan.exchange.hasTables();
    cluster::Shapes shapes(*source.subject.cluster);
    const Fold fold = folds
        ? foldRanks(kindsOfRanks(source, samples, planned), planned.devices, communication->sets, shapes)
        : noFold(planned.devices.size());
    Ranks ranks = makeRanks(source, planned, fold);
    FoldedTeams teams(communication->sets, fold, planned.devices, shapes);
    Buckets buckets = makeBuckets(communication->parameters, teams, ranks, source);
    auto stages = cutStages(*std::move(whole), ranks, buckets, teams);
    if (!stages)
        return stages.error();
    Instances instances = makeInstances(source, *stages, ranks, roomy);
    BucketOwners owners = ownBuckets(*stages, instances, buckets);
    std::vector<StageParts> parts =
        partsOfStages({source, *stages, instances, communication->sets, teams, buckets, owners});
    return Deployment{
        *std::move(stages), std::move(ranks),   folds ? placesOf(planned, fold) : std::vector<Program::Place>(),
        std::move(teams),   std::move(buckets), std::move(instances),
        std::move(owners),  std::move(parts)};
}

namespace {

/// Of lanes without an order.
std::string lanePolicyOf(const plan::Plan &plan)
{
    const plan::Exchange &exchange = plan.exchange;
    if (exchange.hasTables() && exchange.sparse.scheduling != plan::ExchangeScheduling::Fifo)
        return "priority";
    // An average, however long it waits, goes behind what the passes wait for.
    if (exchange.averages() && stepsCommunicate(plan) && plan.schedule.lanePolicy.empty())
        return "priority";
    return plan.schedule.lanePolicy;
}

std::vector<Rank> joinRanks(Ranks ranks, Instances instances, std::vector<Arena> arenas,
                            std::vector<TaskDraft::OfRank> tasks, std::vector<std::vector<TaskId>> computeOrders)
{
    std::vector<Rank> made(ranks.size());
    for (std::size_t r = 0; r < made.size(); ++r) {
        Rank &rank = made[r];
        rank.device = ranks.entries[r].device;
        rank.core = ranks.entries[r].core;
        rank.standsFor = ranks.entries[r].standsFor;
        rank.bodies = std::move(instances.ofRank[r]);
        rank.arenaBytes = arenas[r].bytes;
        rank.persistentBytes = arenas[r].persistentBytes;
        rank.hostBytes = arenas[r].hostBytes;
        rank.hostTier = std::move(arenas[r].hostTier);
        rank.hostedStates = arenas[r].hostedStates;
        rank.hostedParts = std::move(arenas[r].hostedParts);
        rank.tasks = std::move(tasks[r].tasks);
        rank.decisions = std::move(tasks[r].decisions);
        rank.moved = std::move(tasks[r].moved);
        rank.computeOrder() = std::move(computeOrders[r]);
    }
    return made;
}

/// Program::communicationOnCores. A profile knows one type of device; ranks of other types that share cores are taken
/// to be like those.
cost::CommunicationOnCores communicationOnCores(const Source &source, const std::vector<Rank> &ranks)
{
    for (const Rank &rank : ranks) {
        const std::size_t type = source.subject.cluster->device(rank.device).type;
        const cost::CommunicationOnCores known = source.subject.costs->communicationOnCores(type);
        if (rank.core >= 0 && known.secondsPerByte > 0)
            return known;
    }
    return {};
}

std::vector<Task> joinTasks(std::vector<Task> tasks, const TaskOrder &order, const TaskGroups &groups)
{
    for (std::size_t t = 0; t < tasks.size(); ++t)
        tasks[t].dependencies = order.ofTask[t];
    for (std::size_t g = 0; g < groups.groups.size(); ++g)
        for (const TaskId id : program::partOf(groups.members, groups.groups[g]))
            tasks[id.index()].group = GroupId(static_cast<std::int64_t>(g));
    return tasks;
}

Result<Program> compileWith(const Source &source, const Options &options, bool roomy)
{
    const plan::Plan &plan = source.plan;
    const Samples samples(source);
    auto server = serverOf(source);
    if (!server)
        return server.error();
    auto deployment = deploy(source, samples, options, options.fold && !*server && options.times == nullptr, roomy);
    if (!deployment)
        return deployment.error();
    auto &[stages, ranks, places, teams, unplaced, instances, owners, parts] = *deployment;
    const auto memory =
        planMemory({source, samples, stages, ranks, instances, teams, unplaced, owners, parts, options.times});
    if (!memory)
        return memory.error();
    PersistentLayouts persistent = layPersistent({plan, stages, instances, teams, *memory}, std::move(unplaced));
    Bodies bodies =
        buildBodies({source, samples, stages, ranks, instances, teams, owners, *memory, persistent, options.bodies});
    const std::string lanePolicy = lanePolicyOf(plan);
    const Buckets &buckets = persistent.buckets;
    TaskDraft draft = makeTasks({source, samples, stages, ranks, instances, teams, buckets, owners, parts, *memory,
                                 persistent, bodies.arenas, *server, lanePolicy},
                                std::move(bodies.inference));
    const bool blocks = source.subject.costs->fact(cost::kBlockingTransfers) > 0;
    TaskOrder order =
        orderTasks({plan, ranks, instances, buckets, owners, parts, blocks}, draft, std::exchange(draft.edges, {}));
    TaskGroups groups = groupTasks(source, instances, buckets, draft);

    Program program;
    program.tasks = joinTasks(std::move(draft.tasks), order, groups);
    program.ranks = joinRanks(std::move(ranks), std::move(instances), std::move(bodies.arenas), std::move(draft.ranks),
                              std::move(order.computeOrders));
    program.dependencies = std::move(order.dependencies);
    program.effects = std::move(draft.effects);
    program.cadences = std::move(draft.cadences);
    program.periodSteps = draft.periodSteps;
    program.steadyFrom = draft.steadyFrom;
    program.openSteps = draft.openSteps;
    program.lanePolicy = lanePolicy;
    program.groups = std::move(groups.groups);
    program.groupMembers = std::move(groups.members);
    program.pooledCalls = std::move(draft.pooled.calls);
    program.pooledPlaces = std::move(draft.pooled.places);
    program.hostCopies = std::move(draft.hostCopies);
    program.bodies = std::move(bodies.all);
    program.teams = std::move(teams).take();
    program.buckets = std::move(persistent.buckets.all);
    program.tables = std::move(persistent.buckets.tables);
    program.places = std::move(places);
    program.sampled = sampledRolesOf(source);
    program.server = *std::move(server);
    program.communicationOnCores = communicationOnCores(source, program.ranks);
    if (plan.admm) {
        program.ridge = plan.admm->ridge;
        program.shards = plan.admm->shards;
    }
    program.microBatches = plan.microBatches;
    program.globalBatch = plan.globalBatch;
    program.lowerBound = lowerBound(program);
    if (options.times == nullptr) // which say nothing of the whole batch on one device
        program.oneDevice = timeOnOneDevice(source, stages.front());
    return program;
}

} // namespace

Result<Program> compilePlan(const plan::Plan &plan, const plan::Subject &subject, const Options &options)
{
    const Source source{plan, subject};
    if (const Status valid = plan::validate(plan, subject); !valid)
        return valid.error();
    if (const auto summed = plan::onOneMachine(plan, *subject.cluster))
        return compilePlan(*summed, subject, options);
    if (options.fold && options.bodies)
        return badInput("ranks that stand for others cannot be executed; fold them without bodies");
    auto program = compileWith(source, options, false);
    if (!program)
        return program;
    const bool limited = std::any_of(plan.stages.begin(), plan.stages.end(),
                                     [](const plan::Stage &stage) { return stage.registers > 0; });
    const bool shared = program->bodies.size() > program->ranks.size();
    if (plan.schedule.kind != plan::ScheduleKind::Custom && !limited && !shared)
        return program;
    const Status runs = checkRuns(*program);
    if (runs)
        return program;
    if (limited)
        return runs.error();
    program = compileWith(source, options, true);
    if (const Status roomy = program ? checkRuns(*program) : Status(); !roomy)
        return roomy.error();
    return program;
}

} // namespace planloom::compile

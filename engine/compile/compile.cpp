// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"

#include "engine/admm/message.h"
#include "engine/admm/pattern.h"
#include "engine/admm/training_graph.h"
#include "engine/cluster/cores.h"
#include "engine/compile/compilation.h"
#include "engine/compile/pass_order.h"
#include "engine/compile/stage_cache.h"
#include "engine/program/deadlock.h"
#include "engine/sharding/shard.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace planloom::compile {
namespace {

/// True if what stages @p a and @p b take comes in the same layouts.
bool sameInputs(const Compilation &all, std::size_t a, std::size_t b)
{
    return all.stages[a - 1].outputs() == all.stages[b - 1].outputs();
}

Status makeStages(Compilation &all, const Options &options)
{
    const bool mustRun = options.bodies;
    const bool byRows = all.plan.exchange.hasTables(); // which cuts stages by more than their own settings
    all.stages.reserve(all.plan.stages.size());
    for (std::size_t s = 0; s < all.plan.stages.size(); ++s) {
        const StageId stage(static_cast<std::int64_t>(s));
        // Stages of repeated blocks are alike. Where nothing has to run, one of them says it all but names.
        std::optional<Renaming> names;
        std::size_t like = s;
        while (!mustRun && !byRows && !names && like > 1 && --like > 0)
            if (all.stages[like].training() && sameInputs(all, like, s))
                names = renaming(all.plan, all.subject, StageId(static_cast<std::int64_t>(like)), stage);
        if (names) {
            all.stages.push_back(all.stages[like].again(all.plan, stage, *names));
            continue;
        }
        const StageModel *before = s > 0 ? &all.stages.back() : nullptr;
        auto model = options.stages != nullptr && !byRows
            ? options.stages->make(all.plan, all.subject, stage, before, mustRun)
            : StageModel::make(all.plan, all.subject, stage, before, mustRun);
        if (!model)
            return model.error();
        all.stages.push_back(*std::move(model));
    }
    return {};
}

/// The ranks of the plan: one for each device, whatever the number of stages on it; in the order of stages and, within
/// one, of its mesh.
class PlanRanks {
public:
    explicit PlanRanks(Compilation &all) : m_all(all), m_groups(plan::stageGroups(all.plan))
    {
        for (const std::vector<std::size_t> &stages : m_groups) {
            m_begins.push_back(m_devices.size());
            const std::vector<DeviceId> &devices = all.plan.stages[stages.front()].devices;
            m_devices.insert(m_devices.end(), devices.begin(), devices.end());
            for (const std::size_t stage : stages)
                for (std::size_t device = 0; device < devices.size(); ++device)
                    all.stages[stage].holdings().ranks.emplace_back(
                        static_cast<std::int64_t>(m_begins.back() + device));
        }
        m_cores = cluster::coresOf(*all.subject.cluster, m_devices);
    }

    [[nodiscard]] const std::vector<DeviceId> &devices() const { return m_devices; }

    /// A number each, equal where stages, types of devices, orders and samples are.
    [[nodiscard]] std::vector<std::int32_t> kinds() const
    {
        std::map<std::tuple<std::size_t, std::size_t, std::int32_t, double, double>, std::int32_t> known;
        std::vector<std::int32_t> kinds;
        for (std::size_t g = 0; g < m_groups.size(); ++g) {
            const std::size_t first = m_groups[g].front();
            const plan::Stage &stage = m_all.plan.stages[first];
            std::map<const std::vector<PassStep> *, std::int32_t, ByContent> orders;
            for (std::size_t device = 0; device < stage.devices.size(); ++device) {
                RankSite site;
                site.stage = StageId(static_cast<std::int64_t>(first));
                site.replica = device / stage.shards();
                // Micro-batches have one of two sizes: that of the first and that of the last.
                const double largest = m_all.samples.slice(site, 0);
                const double smallest = m_all.samples.slice(site, m_all.plan.microBatches - 1);
                const std::size_t type = m_all.subject.cluster->device(stage.devices[device]).type;
                kinds.push_back(known
                                    .try_emplace({g, type, orderOf(stage.devices[device], orders), largest, smallest},
                                                 static_cast<std::int32_t>(known.size()))
                                    .first->second);
            }
        }
        return kinds;
    }

    /// True if ranks have to share processor cores.
    [[nodiscard]] bool shareCores() const
    {
        return std::any_of(m_cores.begin(), m_cores.end(), [](std::int32_t core) { return core >= 0; });
    }

    /// The program's ranks: those that stand for all.
    void make()
    {
        for (const RankId planned : m_all.fold.representatives) {
            const auto group =
                static_cast<std::size_t>(std::upper_bound(m_begins.begin(), m_begins.end(), planned.index())
                                         - m_begins.begin())
                - 1;
            const DeviceId device = m_devices[planned.index()];
            m_all.orders.push_back(passOrder(m_all.plan, m_groups[group], m_all.subject.cluster->device(device).name));
            Rank rank;
            rank.device = device;
            rank.core = m_cores[planned.index()];
            rank.standsFor = 0;
            m_all.program.ranks.push_back(std::move(rank));
        }
        for (const RankId standIn : m_all.fold.standIn)
            ++m_all.program.ranks[standIn.index()].standsFor;
    }

private:
    struct ByContent {
        bool operator()(const std::vector<PassStep> *a, const std::vector<PassStep> *b) const { return *a < *b; }
    };

    [[nodiscard]] std::int32_t orderOf(DeviceId device,
                                       std::map<const std::vector<PassStep> *, std::int32_t, ByContent> &orders) const
    {
        if (m_all.plan.schedule.kind != plan::ScheduleKind::Custom)
            return 0;
        const std::vector<PassStep> &order = m_all.plan.schedule.order.at(m_all.subject.cluster->device(device).name);
        return orders.try_emplace(&order, static_cast<std::int32_t>(orders.size())).first->second;
    }

    Compilation &m_all;
    std::vector<std::vector<std::size_t>> m_groups; ///< of stages
    std::vector<std::size_t> m_begins;              ///< per group: its first rank
    std::vector<DeviceId> m_devices;                ///< per rank
    std::vector<std::int32_t> m_cores;              ///< per rank
};

/// Finds every team, makes the ranks, as many as are needed to stand for all, and groups parameters into buckets.
Status makeRanks(Compilation &all, bool fold)
{
    PlanRanks planned(all);
    // Which rank computes beside which is not folded; neither are the columns of tables.
    fold = fold && !planned.shareCores() && !all.plan.exchange.hasTables();
    std::vector<const StageHoldings *> holdings;
    for (StageModel &stage : all.stages)
        holdings.push_back(&stage.holdings());
    all.sets = TeamSets(holdings);
    const auto shared = shareParameters(holdings, all.sets, all.plan.exchange);
    if (!shared)
        return shared.error();
    for (std::size_t s = 0; s < all.stages.size(); ++s)
        if (all.stages[s].training())
            for (const graph::Op &op : all.stages[s].training()->graph.ops())
                if (op.traits().communicates())
                    all.sets.of({{s, dimensionsOf(op)}});
    all.fold =
        fold ? foldRanks(planned.kinds(), planned.devices(), all.sets, all.shapes) : noFold(planned.devices().size());
    planned.make();
    all.teams.emplace(all.sets, all.fold, planned.devices(), all.shapes, all.program);
    for (StageModel &stage : all.stages)
        for (RankId &rank : stage.holdings().ranks)
            rank = all.fold.standIn[rank.index()];
    makeBuckets(*shared, *all.teams, all.plan, all.program);
    for (std::size_t r = 0; fold && r < planned.devices().size(); ++r)
        all.program.places.push_back({planned.devices()[r], all.fold.standIn[r]});
    return {};
}

/// The bodies of the ranks, stage by stage.
void makeSites(Compilation &all, bool roomy)
{
    int inFlightBefore = 0;
    for (std::size_t s = 0; s < all.plan.stages.size(); ++s) {
        const plan::Stage &stage = all.plan.stages[s];
        int inFlight = 0;
        all.sitesOf.emplace_back();
        for (std::size_t device = 0; device < stage.devices.size(); ++device) {
            const RankId rank = all.ranksOf(s)[device];
            if (all.program.ranks[rank.index()].device != stage.devices[device])
                continue; // another stands for it
            RankSite site;
            site.stage = StageId(static_cast<std::int64_t>(s));
            site.rank = rank;
            site.replica = device / stage.shards();
            site.device = device;
            const std::vector<PassStep> order = stepsOf(all.orders[site.rank.index()], s);
            site.slotPlan = planSlots(order, all.plan.microBatches,
                                      {inFlightBefore, stage.registers, all.stages[s].keepsSentGradients(), roomy});
            inFlight = std::max(inFlight, maxInFlight(order));
            all.program.ranks[site.rank.index()].bodies.emplace_back(static_cast<std::int64_t>(all.sites.size()));
            all.sitesOf.back().push_back(all.sites.size());
            all.sites.push_back(std::move(site));
        }
        inFlightBefore = inFlight;
    }
}

/// Fills in which body updates which buckets.
void placeBuckets(Compilation &all)
{
    for (StageModel &stage : all.stages) {
        all.parameters.emplace_back();
        for (const HeldParameter &held : stage.holdings().parameters)
            all.parameters.back().insert(held.name);
    }
    all.bucketsAt.resize(all.sites.size());
    for (std::size_t r = 0; r < all.program.ranks.size(); ++r) {
        const std::vector<BodyId> &bodies = all.program.ranks[r].bodies;
        std::unordered_map<std::string_view, BodyId> owner;
        for (const BodyId site : bodies)
            for (const std::string &name : all.parameters[all.sites[site.index()].stage.index()])
                owner.try_emplace(name, site);
        // All parameters of a bucket are of the same stages.
        for (const BucketId b : bucketsOf(all.program, RankId(static_cast<std::int64_t>(r)))) {
            const auto found = owner.find(all.program.bucket(b).entries.front().parameter);
            all.bucketsAt[(found == owner.end() ? bodies.front() : found->second).index()].push_back(b);
        }
    }
}

/// Work of the ranks that compute on one core, of the core that has most.
Seconds busiestCore(const Program &program)
{
    std::map<std::int32_t, Seconds> work;
    for (const Task &task : program.tasks)
        if (const std::int32_t core = program.ranks[task.rank.index()].core;
            core >= 0 && task.lane == Lane::Compute && !task.group.valid())
            work[core] += task.duration * program.shareOfSteps(task);
    Seconds most;
    for (const auto &[core, seconds] : work)
        most = std::max(most, seconds);
    return most;
}

void boundTime(Compilation &all)
{
    std::vector<Seconds> work(all.program.ranks.size() * kLanes);
    for (const Task &task : all.program.tasks)
        work[task.rank.index() * kLanes + static_cast<std::size_t>(task.lane)] +=
            task.duration * all.program.shareOfSteps(task);
    all.program.lowerBound = std::max(*std::max_element(work.begin(), work.end()), busiestCore(all.program));
    const cost::CostModel &costs = *all.subject.costs;
    const std::size_t type = all.subject.cluster->device(all.plan.stages.front().devices.front()).type;
    const auto batch = static_cast<double>(all.plan.globalBatch);
    const std::size_t layers = all.subject.layers().size();
    if (all.plan.admm) {
        const auto secondsOf = [&](const graph::Graph &iteration) {
            return cost::LocalCosts(costs, iteration).seconds(0, iteration.ops().size(), batch, type);
        };
        admm::Settings whole = *all.plan.admm;
        whole.timeRanges = 1;
        const auto made =
            whole == *all.plan.admm ? Error(failed("")) : admm::trainingGraph(*all.subject.graph, whole, 1);
        all.program.oneDevice = secondsOf(made ? made->graph : all.stages.front().training()->graph);
        return;
    }
    all.program.oneDevice = costs.forward(0, layers, batch, type) + costs.backward(0, layers, batch, type)
        + costs.optimizerStep(costs.parameterBytes(0, layers), all.plan.optimizer.rule.footprint().streams, type);
}

} // namespace

double Samples::microBatch(std::int64_t m) const
{
    if (m_proportional)
        return static_cast<double>(m_plan.globalBatch) / static_cast<double>(m_plan.microBatches);
    return static_cast<double>(plan::microBatchRange(m_plan, m).size);
}

double Samples::slice(const RankSite &site, std::int64_t m) const
{
    const plan::Stage &stage = m_plan.stages[site.stage.index()];
    if (!m_proportional)
        return static_cast<double>(sizes(site.stage.index(), plan::microBatchRange(m_plan, m).size)[site.replica]);
    const double equal = 1.0 / static_cast<double>(stage.replicas());
    return microBatch(m) * (stage.replicaShares.empty() ? equal : stage.replicaShares[site.replica]);
}

const std::vector<std::int64_t> &Samples::sizes(std::size_t stage, std::int64_t samples) const
{
    const auto [entry, isNew] = m_sizes.try_emplace({stage, samples});
    if (isNew)
        entry->second = plan::replicaSizes(m_plan.stages[stage], samples);
    return entry->second;
}

double Samples::largestSlice(const RankSite &site) const
{
    return std::max(slice(site, 0),
                    slice(site, m_plan.microBatches - 1)); // micro-batches have one of two sizes, the larger ones first
}

namespace {

/// Of training by ADMM whose workers go on alone; the plan is valid. What solves a version costs what the operators
/// would.
Result<std::optional<program::ParameterServer>> serverOf(const plan::Plan &plan, const plan::Subject &subject)
{
    if (!plan.admm || plan.admm->parallel != admm::Parallel::Asynchronous)
        return std::optional<program::ParameterServer>();
    const auto pattern = admm::findPattern(*subject.graph);
    if (!pattern)
        return pattern.error();
    const admm::Sizes sizes{pattern->inputs, pattern->hidden, pattern->classes, pattern->steps};
    const auto method = admm::Method::of(*plan.admm, static_cast<int>(sizes.steps));
    if (!method)
        return method.error();
    const admm::MessageLayout layout(sizes, *plan.admm);
    constexpr std::int64_t kFloat = 4;
    program::ParameterServer server{plan.admm->barrier, plan.admm->delay, kFloat * layout.parameters(),
                                    kFloat * layout.elements, 0};
    const std::size_t type = subject.cluster->device(plan.stages.front().devices.front()).type;
    for (const admm::Part part : {admm::Part::SolveIn, admm::Part::SolveOut}) {
        const auto solves = admm::blockGraph(part, sizes, *method);
        if (!solves)
            return solves.error();
        server.seconds += cost::LocalCosts(*subject.costs, *solves).seconds(0, solves->ops().size(), 1, type).value();
    }
    return std::optional(server);
}

} // namespace

Status prepare(Compilation &all, const Options &options, bool roomy)
{
    auto server = serverOf(all.plan, all.subject);
    if (!server)
        return server.error();
    all.program.server = *server;
    all.program.microBatches = all.plan.microBatches;
    all.program.globalBatch = all.plan.globalBatch;
    all.program.lanePolicy = all.plan.schedule.lanePolicy;
    if (all.plan.exchange.hasTables() && all.plan.exchange.sparse.scheduling != plan::ExchangeScheduling::Fifo)
        all.program.lanePolicy = "priority";
    // An average, however long it waits, goes behind what the passes wait for.
    if (all.plan.exchange.averages() && sharesTensors(all.plan) && all.program.lanePolicy.empty())
        all.program.lanePolicy = "priority";
    if (const Status made = makeStages(all, options); !made)
        return made;
    if (const Status made = makeRanks(all, options.fold && !all.program.server); !made)
        return made;
    for (StageModel &stage : all.stages) {
        if (const Status cut = stage.applyZero(all.program); !cut)
            return cut;
        if (const Status cut = stage.applySplit(); !cut)
            return cut;
    }
    makeSites(all, roomy);
    placeBuckets(all);
    return {};
}

namespace {

program::SampledRoles sampledRoles(const plan::Plan &plan, const plan::Subject &subject)
{
    program::SampledRoles roles;
    roles.job = plan::jobOf(plan, subject, roles.machineOf);
    roles.transfers = plan.job->transfers;
    for (const plan::PlacedRole &role : plan.roles)
        roles.processes.push_back(role.name + " on " + role.machine);
    return roles;
}

Result<Program> compileWith(const plan::Plan &plan, const plan::Subject &subject, const Options &options, bool roomy)
{
    Compilation all(plan, subject);
    if (const Status prepared = prepare(all, options, roomy); !prepared)
        return prepared.error();
    if (const Status planned = planMemory(all); !planned)
        return planned.error();
    buildBodies(all, options.bodies);
    buildTasks(all);
    boundTime(all);
    if (plan.admm) {
        all.program.ridge = plan.admm->ridge;
        all.program.shards = plan.admm->shards;
    }
    if (plan.job)
        all.program.sampled = sampledRoles(plan, subject);
    return std::move(all.program);
}

} // namespace

Result<Program> compilePlan(const plan::Plan &plan, const plan::Subject &subject, const Options &options)
{
    if (const Status valid = plan::validate(plan, subject); !valid)
        return valid.error();
    if (options.fold && options.bodies)
        return badInput("ranks that stand for others cannot be executed; fold them without bodies");
    auto program = compileWith(plan, subject, options, false);
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
    program = compileWith(plan, subject, options, true);
    if (const Status roomy = program ? checkRuns(*program) : Status(); !roomy)
        return roomy.error();
    return program;
}

} // namespace planloom::compile

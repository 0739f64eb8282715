// SPDX-License-Identifier: Apache-2.0
#include "planners/common/why.h"

#include "engine/compile/compile.h"
#include "planners/common/alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace planloom::planners {
namespace {

using program::Lane;
using program::Task;

constexpr double kNanosecond = 1e-9;
constexpr std::size_t kMostDifferences = 12;
constexpr double kWorthSaying = 0.5; // percent: less is shown as none
constexpr double kFull = 0.95; // of a device's memory: another micro-batch in flight, or a larger one, would hardly fit

struct Interval {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};
using Intervals = std::vector<Interval>;

/// Sorted, without overlaps.
Intervals merged(Intervals all)
{
    std::sort(all.begin(), all.end(), [](const Interval &a, const Interval &b) { return a.begin < b.begin; });
    Intervals result;
    for (const Interval &each : all) {
        if (!result.empty() && each.begin <= result.back().end)
            result.back().end = std::max(result.back().end, each.end);
        else
            result.push_back(each);
    }
    return result;
}

double lengthOf(const Intervals &intervals)
{
    std::int64_t sum = 0;
    for (const Interval &each : intervals)
        sum += each.end - each.begin;
    return static_cast<double>(sum) * kNanosecond;
}

/// The parts of @p intervals outside of @p others; both merged.
double outside(const Intervals &intervals, const Intervals &others)
{
    std::int64_t inside = 0;
    std::size_t at = 0;
    for (const Interval &each : intervals) {
        while (at < others.size() && others[at].end <= each.begin)
            ++at;
        for (std::size_t i = at; i < others.size() && others[i].begin < each.end; ++i)
            inside += std::min(each.end, others[i].end) - std::max(each.begin, others[i].begin);
    }
    return lengthOf(intervals) - static_cast<double>(inside) * kNanosecond;
}

/// Purposes of a rank's messages, with their names.
enum class Traffic : std::size_t { Boxing, Transfer, Exchange };
constexpr const char *kTrafficNames[] = {"collectives within a replica", "activations and gradients between stages",
                                         "the exchange of gradients"};

std::optional<Traffic> trafficOf(const Task &task)
{
    if (task.lane == Lane::Send || task.lane == Lane::Receive)
        return Traffic::Transfer;
    if (task.lane == Lane::Collective)
        return task.as<program::Exchange>() != nullptr ? Traffic::Exchange : Traffic::Boxing;
    return std::nullopt;
}

/// The work of one rank for one stage.
struct Ledger {
    Intervals compute; ///< of the rank, over all stages
    Intervals traffic[3];
    std::optional<std::size_t> longest[3]; ///< task
};

class Explanation {
public:
    Explanation(const plan::Plan &plan, const plan::Subject &subject, const program::Program &program,
                const simulate::Simulation &simulation)
        : m_plan(plan),
          m_cluster(*subject.cluster),
          m_program(program),
          m_simulation(simulation),
          m_seconds(simulation.report.iterationSeconds),
          m_steps(program.periodSteps)
    {
    }

    plan::Why make()
    {
        plan::Why why;
        std::optional<std::size_t> pace;
        double most = 0;
        const std::vector<RankId> busiest = busiestRanks();
        for (std::size_t s = 0; s < m_plan.stages.size(); ++s) {
            why.stages.push_back(stage(StageId(static_cast<std::int64_t>(s)), busiest[s]));
            const plan::StageWhy &made = why.stages.back();
            const double busy =
                made.forwardSeconds + made.backwardSeconds + made.recomputeSeconds + made.optimizerSeconds;
            if (!pace || busy > most) {
                pace = s;
                most = busy;
            }
        }
        if (pace) {
            why.limit = why.stages[*pace].limit;
            why.detail = fmt::format("{} sets the pace: {}",
                                     m_plan.stages.size() == 1 ? "its only stage" : "stage " + std::to_string(*pace),
                                     why.stages[*pace].detail);
        }
        const auto tight =
            std::find_if(m_simulation.report.devices.begin(), m_simulation.report.devices.end(),
                         [](const simulate::DeviceReport &device) { return device.peakBytes > device.capacityBytes; });
        if (tight != m_simulation.report.devices.end()) {
            why.limit = "memory";
            why.detail = fmt::format("{} does not fit: {} of {}", tight->id, format(Bytes(tight->peakBytes)),
                                     format(Bytes(tight->capacityBytes)));
        }
        return why;
    }

private:
    /// Per stage, the rank that computes for it longest; the first of equals.
    [[nodiscard]] std::vector<RankId> busiestRanks() const
    {
        std::map<std::pair<StageId, RankId>, double> busy;
        for (const Task &task : m_program.tasks)
            if (task.lane == Lane::Compute)
                busy[{task.stage, task.rank}] += task.duration.value() * m_program.shareOfSteps(task);
        std::vector<RankId> ranks(m_plan.stages.size());
        std::vector<double> most(m_plan.stages.size(), -1);
        for (const auto &[key, seconds] : busy) {
            const std::size_t s = key.first.index();
            if (s < ranks.size() && seconds > most[s]) {
                most[s] = seconds;
                ranks[s] = key.second;
            }
        }
        return ranks;
    }

    /// What ends behind the period lies beside the beginning of the next one, which is as this one.
    void add(const Interval &interval, Intervals &to) const
    {
        const auto period = static_cast<std::int64_t>(std::llround(m_seconds * m_steps / kNanosecond));
        if (!m_program.spansSteps() || interval.end <= period) {
            to.push_back(interval);
            return;
        }
        to.push_back({std::min(interval.begin, period), period});
        to.push_back({std::max<std::int64_t>(0, interval.begin - period), std::min(period, interval.end - period)});
    }

    [[nodiscard]] Ledger ledgerOf(StageId stage, RankId rank) const
    {
        Ledger ledger;
        const auto &records = m_simulation.trace.records;
        const auto before = [](const trace::Record &record, std::int64_t wanted) { return record.rank < wanted; };
        for (auto record =
                 std::lower_bound(records.begin(), records.end(), static_cast<std::int64_t>(rank.value), before);
             record != records.end() && record->rank == rank.value; ++record) {
            if (record->step >= m_steps) // of the next period
                continue;
            const Task &task = m_program.tasks[static_cast<std::size_t>(record->task)];
            const Interval interval{record->start, record->start + record->duration};
            if (task.lane == Lane::Compute)
                add(interval, ledger.compute);
            const auto traffic = trafficOf(task);
            if (!traffic || task.stage != stage)
                continue;
            const auto kind = static_cast<std::size_t>(*traffic);
            add(interval, ledger.traffic[kind]);
            if (!ledger.longest[kind] || task.duration > m_program.tasks[*ledger.longest[kind]].duration)
                ledger.longest[kind] = static_cast<std::size_t>(record->task);
        }
        ledger.compute = merged(std::move(ledger.compute));
        for (Intervals &each : ledger.traffic)
            each = merged(std::move(each));
        return ledger;
    }

    plan::StageWhy stage(StageId id, RankId rank) const
    {
        plan::StageWhy why;
        if (!rank.valid())
            return why;
        why.device = m_cluster.device(m_program.ranks[rank.index()].device).name;
        for (const TaskId task : m_program.ranks[rank.index()].tasks)
            if (m_program.task(task).lane == Lane::Compute && m_program.task(task).stage == id)
                count(m_program.task(task), why);
        const Ledger ledger = ledgerOf(id, rank);
        why.boxingSeconds = lengthOf(ledger.traffic[0]) / m_steps;
        why.transferSeconds = lengthOf(ledger.traffic[1]) / m_steps;
        why.exchangeSeconds = lengthOf(ledger.traffic[2]) / m_steps;
        why.exposedExchangeSeconds = outside(ledger.traffic[2], ledger.compute) / m_steps;
        why.idleSeconds = std::max(0.0, m_seconds - lengthOf(ledger.compute) / m_steps);
        memory(id, rank, why);
        limit(ledger, rank, why);
        return why;
    }

    void count(const Task &task, plan::StageWhy &why) const
    {
        const double seconds = task.duration.value() * m_program.shareOfSteps(task);
        switch (task.kind()) {
        case trace::Kind::Forward: why.forwardSeconds += seconds; break;
        case trace::Kind::Backward:
        case trace::Kind::WeightGradient: why.backwardSeconds += seconds; break;
        case trace::Kind::Recompute: why.recomputeSeconds += seconds; break;
        case trace::Kind::Rows:
        case trace::Kind::Snapshot:
        case trace::Kind::Merge:
        case trace::Kind::Optimizer: why.optimizerSeconds += seconds; break;
        default: break;
        }
    }

    /// From the compiled arena, to the byte; persistent memory is divided as the optimizer and ZeRO have it.
    void memory(StageId id, RankId rank, plan::StageWhy &why) const
    {
        using program::Area;
        const program::Rank &owner = m_program.ranks[rank.index()];
        why.capacityBytes = m_cluster.typeOf(owner.device).memory.value();
        std::int64_t persistent = owner.persistentBytes;
        for (const BodyId index : owner.bodies) {
            const program::Body &body = m_program.body(index);
            if (body.stage != id)
                continue;
            for (std::size_t area = 0; area < body.pools.size(); ++area) {
                const std::int64_t bytes = body.pools[area].bytes();
                const bool kept = area == static_cast<std::size_t>(Area::Inbox)
                    || area == static_cast<std::size_t>(Area::Frame) || area == static_cast<std::size_t>(Area::Pool)
                    || area == static_cast<std::size_t>(Area::WeightFrame)
                    || area == static_cast<std::size_t>(Area::WeightStash);
                if (area == static_cast<std::size_t>(Area::Persistent))
                    persistent = bytes;
                else
                    (kept ? why.activationBytes : why.otherBytes) += bytes;
            }
        }
        if (m_plan.admm) {
            splitSamples(rank, persistent, why);
            return;
        }
        const plan::Stage &stage = m_plan.stages[id.index()];
        const double shared = 1.0 / static_cast<double>(std::max<std::size_t>(1, stage.replicas()));
        const bool hostStates = stage.memory.limits() && stage.memory.hostStates;
        const bool hostParameters = stage.memory.limits() && stage.memory.hostParameters;
        const double weights = hostParameters ? 0 : stage.zero >= 3 ? shared : 1;
        const double gradients = stage.zero >= 2 ? shared : 1;
        const int averaged = !m_plan.exchange.averages()                ? 0
            : m_plan.exchange.averaging.merge == plan::Merge::Corrected ? 2
                                                                        : 1;
        const double states = hostStates ? 0 : m_plan.optimizer.rule.footprint().states;
        const double moments = states * (stage.zero >= 1 ? shared : 1) + averaged;
        const double one = static_cast<double>(persistent) / (weights + gradients + moments);
        why.gradientBytes = static_cast<std::int64_t>(one * gradients);
        why.optimizerBytes = static_cast<std::int64_t>(one * moments);
        why.parameterBytes = persistent - why.gradientBytes - why.optimizerBytes;
    }

    /// Of @p persistent bytes those beside parameters and their successors are duals of samples and constants.
    void splitSamples(RankId rank, std::int64_t persistent, plan::StageWhy &why) const
    {
        std::int64_t parameters = 0;
        for (const program::Bucket &bucket : m_program.buckets) {
            const auto &members = m_program.team(bucket.team).ranks;
            parameters += std::find(members.begin(), members.end(), rank) != members.end() ? bucket.bytes() : 0;
        }
        why.parameterBytes = why.gradientBytes = parameters;
        why.optimizerBytes = persistent - 2 * parameters;
    }

    [[nodiscard]] const char *nameOf(std::size_t traffic) const
    {
        if (m_plan.admm)
            return m_plan.admm->timeRanges > 1 ? "the exchange of sums and of border states" : "the exchange of sums";
        const bool averages = traffic == static_cast<std::size_t>(Traffic::Exchange) && m_plan.exchange.averages();
        return averages ? "the average of parameters" : kTrafficNames[traffic];
    }

    /// Those that @p rank waits for, beside what is sent.
    [[nodiscard]] const char *othersOf(RankId rank) const
    {
        if (m_plan.job)
            return "other roles";
        if (m_plan.admm)
            return "other workers";
        if (m_plan.stages.size() > 1)
            return "other stages";
        return m_program.ranks[rank.index()].hostBytes > 0 ? "copies to and from the host" : "other replicas";
    }

    void limit(const Ledger &ledger, RankId rank, plan::StageWhy &why) const
    {
        Intervals all;
        std::size_t worst = 0;
        double longest = -1;
        for (std::size_t kind = 0; kind < 3; ++kind) {
            all.insert(all.end(), ledger.traffic[kind].begin(), ledger.traffic[kind].end());
            const double exposed = outside(ledger.traffic[kind], ledger.compute) / m_steps;
            if (exposed > longest && ledger.longest[kind]) {
                longest = exposed;
                worst = kind;
            }
        }
        const double waiting = outside(merged(std::move(all)), ledger.compute) / m_steps;
        // Where steps overlap, or roles wait for each other, a device is busy for less than its tasks take together.
        const double busy = std::max(0.0, m_seconds - why.idleSeconds);
        const double computing = std::min(why.forwardSeconds + why.backwardSeconds + why.optimizerSeconds, busy);
        const auto share = [this](double seconds) { return m_seconds > 0 ? 100 * seconds / m_seconds : 0.0; };
        why.detail = fmt::format("{} computes {:.0f} % of the iteration", why.device,
                                 share(std::min(computing + why.recomputeSeconds, busy)));
        if (why.recomputeSeconds > 0)
            why.detail += fmt::format(", {:.0f} % of it again for want of memory", share(why.recomputeSeconds));
        if (share(longest) >= kWorthSaying)
            why.detail += fmt::format(", {:.0f} % waits for {} over {}", share(longest), nameOf(worst),
                                      linkOf(m_program.tasks[*ledger.longest[worst]]));
        if (const double bubble = share(std::max(0.0, why.idleSeconds - waiting)); bubble >= kWorthSaying)
            why.detail += fmt::format(", {:.0f} % for {}", bubble, othersOf(rank));
        const std::int64_t peak = m_program.ranks[rank.index()].arenaBytes;
        if (static_cast<double>(peak) > kFull * static_cast<double>(why.capacityBytes))
            why.detail += fmt::format("; its memory is {:.0f} % full",
                                      100 * static_cast<double>(peak) / static_cast<double>(why.capacityBytes));
        why.limit = "compute";
        if (waiting > computing)
            why.limit = "link";
        if (why.recomputeSeconds > std::max(waiting, computing) || peak > why.capacityBytes)
            why.limit = "memory";
    }

    /// Devices that take part in a communication, in ring order.
    [[nodiscard]] std::vector<DeviceId> membersOf(const Task &task) const
    {
        std::vector<DeviceId> devices;
        const auto add = [&](RankId rank) {
            if (rank.index() < m_program.ranks.size())
                devices.push_back(m_program.ranks[rank.index()].device);
        };
        if (task.team().valid())
            devices = m_program.team(task.team()).devices;
        else if (task.group.valid())
            for (const TaskId member : m_program.membersOf(task.group))
                add(m_program.task(member).rank);
        return devices;
    }

    /// The narrowest link on the way round, by name.
    [[nodiscard]] std::string linkOf(const Task &task) const
    {
        const std::vector<DeviceId> devices = membersOf(task);
        const cluster::Link *narrowest = nullptr;
        const auto rate = [&](const cluster::Link &link) {
            return task.lane == Lane::Collective ? link.collective : link.pointToPoint;
        };
        for (std::size_t i = 0; i < devices.size(); ++i) {
            for (const std::size_t index : m_cluster.route(devices[i], devices[(i + 1) % devices.size()])) {
                const cluster::Link &link = m_cluster.links()[index];
                if (!narrowest || rate(link) < rate(*narrowest))
                    narrowest = &link;
            }
        }
        if (!narrowest)
            return "no link";
        return fmt::format("{} - {} ({}/s)", m_cluster.vertices()[narrowest->a].name,
                           m_cluster.vertices()[narrowest->b].name,
                           format(Bytes(static_cast<std::int64_t>(rate(*narrowest)))));
    }

    const plan::Plan &m_plan;
    const cluster::Cluster &m_cluster;
    const program::Program &m_program;
    const simulate::Simulation &m_simulation;
    double m_seconds; ///< of a step
    double m_steps;   ///< in the simulation's records
};

/// A lane of a role that is not a rank.
struct BusyRole {
    std::string role;
    std::string lane;
    bool communicates = false;
    double seconds = 0; ///< an iteration
};

/// Others wait for one that is at work for so much of the time; for less, rather for messages and turns.
constexpr double kSetsThePace = 0.8;

/// The one with most work in the simulated iterations; nothing, if there are no records of such roles.
std::optional<BusyRole> busiestRole(const program::Program &program, const trace::Trace &trace)
{
    std::map<std::pair<std::int32_t, std::int32_t>, Intervals> work; // per rank and lane
    for (const trace::Record &record : trace.records)
        if (record.rank >= std::ssize(program.ranks))
            work[{record.rank, record.lane}].push_back({record.start, record.start + record.duration});
    BusyRole most;
    for (auto &[place, intervals] : work) {
        const auto &[rank, lane] = place;
        const double seconds = lengthOf(merged(std::move(intervals))) / program.sampled->job.volumes.iterations;
        const trace::LaneInfo &info = trace.lane(lane);
        if (seconds > most.seconds)
            most = {trace.ranks[static_cast<std::size_t>(rank)].device, info.name,
                    info.work == trace::Work::Communication, seconds};
    }
    return most.seconds > 0 ? std::optional(most) : std::nullopt;
}

/// @p why of one worker's iteration, by what workers and their parameter server do in the long run.
plan::Why withServer(plan::Why why, const program::Program &program, const simulate::Report &report)
{
    if (why.limit == "memory" || report.iterationSeconds <= 0 || report.devices.empty())
        return why;
    const auto [least, most] =
        std::minmax_element(report.devices.begin(), report.devices.end(),
                            [](const auto &a, const auto &b) { return a.busyFraction < b.busyFraction; });
    const double server = std::min(1.0, program.server->seconds / report.iterationSeconds);
    const std::string workers =
        fmt::format("workers compute for {:.0f} to {:.0f} % of the time, and wait for versions of the parameters",
                    100 * least->busyFraction, 100 * most->busyFraction);
    if (server <= most->busyFraction || server < kSetsThePace) {
        why.detail =
            fmt::format("{}; {}, which take their server {:.0f} %", why.stages.front().detail, workers, 100 * server);
        return why;
    }
    why.limit = why.stages.front().limit = "role";
    why.detail = fmt::format("the parameter server sets the pace: {:.0f} % of the time it makes versions; {}",
                             100 * server, workers);
    return why;
}

} // namespace

plan::Why whyOf(const plan::Plan &plan, const plan::Subject &subject, const program::Program &program,
                const simulate::Simulation &simulation)
{
    if (!program.sampled && !program.server)
        return Explanation(plan, subject, program, simulation).make();
    program::Program ranks = program; // the trace has what other processes do, too, which are no tasks of the Program
    ranks.sampled.reset();
    ranks.server.reset();
    auto alone = simulate::simulate(ranks, *subject.cluster, {.trace = true, .memory = false});
    if (!alone)
        return {};
    if (program.server) // of an iteration of a worker
        return withServer(Explanation(plan, subject, ranks, *alone).make(), program, simulation.report);
    const double iteration = simulation.report.iterationSeconds;
    const double waits = iteration - std::exchange(alone->report.iterationSeconds, iteration);
    plan::Why why = Explanation(plan, subject, ranks, *alone).make();
    const auto busiest = busiestRole(program, simulation.trace);
    if (!busiest)
        return why;
    const std::string text =
        fmt::format("{}, {} {:.0f} %", busiest->role, busiest->lane, 100 * std::min(1.0, busiest->seconds / iteration));
    if (why.limit == "memory" || busiest->seconds <= iteration - waits || busiest->seconds < kSetsThePace * iteration) {
        why.detail += "; busiest of the other roles: " + text;
        return why;
    }
    why.limit = why.stages.front().limit = busiest->communicates ? "link" : "role";
    why.detail = fmt::format("another role sets the pace: {}; {}", text, why.stages.front().detail);
    return why;
}

Result<plan::Why> explain(const plan::Plan &plan, const plan::Subject &subject)
{
    const bool folds = !plan.job; // the trace's ranks of other roles stand behind those of all trainers
    const auto program = compile::compilePlan(plan, subject, {.bodies = false, .fold = folds});
    if (!program)
        return program.error();
    const auto simulation = simulate::simulate(*program, *subject.cluster, {.trace = true, .memory = false});
    if (!simulation)
        return simulation.error();
    return whyOf(plan, subject, *program, *simulation);
}

plan::RunnerUp runnerUpOf(const plan::Plan &chosen, const plan::Plan &other, double seconds)
{
    plan::RunnerUp runnerUp{plan::notation(other), seconds, differencesOf(chosen, other)};
    if (runnerUp.differences.size() > kMostDifferences) {
        const std::size_t more = runnerUp.differences.size() - kMostDifferences;
        runnerUp.differences.resize(kMostDifferences);
        runnerUp.differences.push_back(fmt::format("and {} more", more));
    }
    return runnerUp;
}

PlanReport withReasons(PlanReport report, const Problem &problem)
{
    const Candidate chosen{report.plan, report.predicted.iterationSeconds, fullestBytes(report.predicted)};
    report.alternatives = distinct(chosen, std::move(report.alternatives));
    Result<plan::Why> why = explain(report.plan, problem.subject);
    if (!why)
        return report;
    why->runnerUp = runnerUpAmong(chosen, report.alternatives);
    report.plan.why = *std::move(why);
    return report;
}

} // namespace planloom::planners

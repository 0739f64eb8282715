// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/clock.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::simulate {
namespace {

/// Earliest first; of two at the same time the lower unit, so that runs are repeatable.
constexpr auto kLater = [](const auto &a, const auto &b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.unit > b.unit;
};

/// Writes down the starts of one rank, of those in step 0.
class StartOrder final : public Listener {
public:
    StartOrder(const program::Program &program, RankId rank) : m_program(program), m_rank(rank) {}
    void inStep(std::int64_t step) override { m_step = step; }
    void started(TaskId id, double seconds) override
    {
        const program::Task &task = m_program.task(id);
        if (task.rank == m_rank && m_step == 0)
            m_starts[static_cast<std::size_t>(task.lane)].push_back({id, seconds, 0});
    }
    void ended(TaskId /*task*/, double /*seconds*/) override {}

    /// As they started.
    [[nodiscard]] dispatch::LaneOrders orders() const
    {
        dispatch::LaneOrders orders;
        for (std::size_t lane = 0; lane < m_starts.size(); ++lane)
            for (const Start &start : m_starts[lane])
                orders[lane].push_back(start.task);
        return orders;
    }
    /// As they start in a window of @p period seconds where every step is like this one, and what stays open starts
    /// among tasks of later steps. Of those at the same time the one of the earlier step goes first.
    [[nodiscard]] dispatch::LaneOrders ordersOf(double period)
    {
        dispatch::LaneOrders orders;
        for (std::size_t lane = 0; lane < m_starts.size(); ++lane) {
            for (Start &start : m_starts[lane]) {
                start.stepsBack = static_cast<std::int32_t>(start.seconds / period);
                start.seconds -= start.stepsBack * period;
            }
            std::stable_sort(m_starts[lane].begin(), m_starts[lane].end(), [](const Start &a, const Start &b) {
                return a.seconds != b.seconds ? a.seconds < b.seconds : a.stepsBack > b.stepsBack;
            });
            for (const Start &start : m_starts[lane]) {
                orders.tasks[lane].push_back(start.task);
                orders.stepsBack[lane].push_back(start.stepsBack);
            }
        }
        // The compute lane is in one step at a time.
        constexpr auto kCompute = static_cast<std::size_t>(program::Lane::Compute);
        orders.tasks[kCompute] = m_program.ranks[m_rank.index()].computeOrder();
        orders.stepsBack[kCompute].clear();
        return orders;
    }

private:
    struct Start {
        TaskId task;
        double seconds = 0;
        std::int32_t stepsBack = 0;
    };
    const program::Program &m_program;
    RankId m_rank;
    std::int64_t m_step = 0;
    std::array<std::vector<Start>, program::kLanes> m_starts;
};

} // namespace

Result<const dispatch::LanePolicy *> CostClock::prepare()
{
    m_seconds.reserve(m_program.tasks.size());
    for (const program::Task &task : m_program.tasks)
        m_seconds.push_back(task.duration.value());
    return dispatch::findLanePolicy(m_program.lanePolicy);
}

/// Until nothing runs any more or @p between, called with the time after all that ended at one moment, is true.
/// Returns the time of the last end.
template <class Between>
double CostClock::work(dispatch::Dispatcher &dispatcher, Between between)
{
    double now = 0;
    while (const auto unit = dispatcher.next(now))
        start(dispatcher, *unit, now);
    constexpr double kNever = std::numeric_limits<double>::infinity();
    while (!m_events.empty() || m_cores.nextEnd() < kNever) {
        now = std::min(m_events.empty() ? kNever : m_events.front().seconds, m_cores.nextEnd());
        while (!m_events.empty() && m_events.front().seconds == now) {
            std::pop_heap(m_events.begin(), m_events.end(), kLater);
            const Unit unit = m_events.back().unit;
            m_events.pop_back();
            end(dispatcher, unit, now);
        }
        if (m_cores.nextEnd() == now)
            for (const Unit unit : m_cores.takeEnded())
                end(dispatcher, unit, now);
        if (between(now))
            break;
        while (const auto unit = dispatcher.next(now))
            start(dispatcher, *unit, now);
    }
    return now;
}

Result<double> CostClock::runOnce(Listener *listener)
{
    const auto policy = prepare();
    if (!policy)
        return policy.error();
    m_listener = listener;
    dispatch::Dispatcher dispatcher(m_program, **policy);
    dispatcher.begin(0);
    const double seconds = work(dispatcher, [](double) { return false; });
    if (!dispatcher.done())
        return stuck(dispatcher);
    return seconds;
}

Result<double> CostClock::run(Listener *listener)
{
    if (!m_program.spansSteps())
        return runOnce(listener);
    const auto policy = prepare();
    if (!policy)
        return policy.error();
    dispatch::Dispatcher dispatcher(m_program, **policy, dispatch::Steps::Many);
    const auto seconds = runPeriods(dispatcher);
    if (!seconds || listener == nullptr)
        return seconds;
    // Again, now that it is known which period is the last.
    const std::int64_t last = dispatcher.stepsPassed() - m_program.periodSteps;
    m_events.clear();
    m_cores.clear();
    m_averages.clear();
    m_heardFrom = last;
    m_listener = listener;
    dispatcher.begin(0, m_program.steadyFrom);
    const std::int64_t next = last + m_program.periodSteps;
    work(dispatcher, [&](double) {
        return m_nextHeard && dispatcher.allEnded(next)
            && (m_averages.empty() || dispatcher.stepsPassed() > next + m_program.periodSteps);
    });
    return seconds;
}

/// The dispatcher's steps are passed up to the end of the last period then.
Result<double> CostClock::runPeriods(dispatch::Dispatcher &dispatcher)
{
    // Sums of many durations: equal but for rounding.
    constexpr double kEqual = 1e-12;
    std::vector<double> ends;
    const auto equallyApart = [&] {
        const std::size_t n = ends.size();
        return n >= 3 && std::abs((ends[n - 1] - ends[n - 2]) - (ends[n - 2] - ends[n - 3])) <= kEqual * ends[n - 1];
    };
    dispatcher.begin(0, m_program.steadyFrom);
    const auto due = [&] {
        return m_program.steadyFrom + static_cast<std::int64_t>(ends.size() + 1) * m_program.periodSteps;
    };
    work(dispatcher, [&](double now) {
        while (dispatcher.stepsPassed() >= due())
            ends.push_back(now);
        return equallyApart() || ends.size() >= kMostPeriods;
    });
    if (ends.size() < 3)
        return stuck(dispatcher);
    m_periodic = equallyApart();
    if (m_periodic)
        return ends.back() - ends[ends.size() - 2];
    const std::size_t half = ends.size() / 2;
    return (ends.back() - ends[half]) / static_cast<double>(ends.size() - 1 - half);
}

void CostClock::start(const dispatch::Dispatcher &dispatcher, Unit unit, double now)
{
    double seconds = 0;
    for (const TaskId task : dispatcher.members(unit))
        seconds = std::max(seconds, m_seconds[task.index()]);
    if (m_listener)
        tell(dispatcher, unit, now, false);
    if (m_cores.any() && m_cores.start(unit, dispatcher.members(unit), seconds, now))
        return;
    m_events.push_back({now + seconds, unit});
    std::push_heap(m_events.begin(), m_events.end(), kLater);
}

void CostClock::end(dispatch::Dispatcher &dispatcher, Unit unit, double now)
{
    if (m_listener)
        tell(dispatcher, unit, now, true);
    dispatcher.ended(unit, now);
}

/// @p task of the period heard of, or of the next one, has ended.
void CostClock::followAverage(TaskId task, std::int64_t step)
{
    const program::Task &ended = m_program.task(task);
    if (const auto *snapshot = ended.as<program::Snapshot>(); snapshot != nullptr && step < m_program.periodSteps)
        m_averages.insert({ended.rank, snapshot->bucket});
    else if (const auto *merge = ended.as<program::Merge>(); merge != nullptr)
        m_averages.erase({ended.rank, merge->bucket});
}

void CostClock::tell(const dispatch::Dispatcher &dispatcher, Unit unit, double now, bool ends)
{
    double time = now;
    std::int64_t step = 0;
    if (m_heardFrom) {
        step = dispatcher.stepOf(unit) - *m_heardFrom;
        if (step < 0 || step >= 2 * static_cast<std::int64_t>(m_program.periodSteps))
            return;
        if (!m_origin)
            m_origin = now;
        if (step >= m_program.periodSteps && !m_next)
            m_next = unit;
        m_nextHeard = m_nextHeard || (ends && m_next == unit);
        time -= *m_origin;
        m_listener->inStep(step);
    }
    for (const TaskId task : dispatcher.members(unit)) {
        if (!ends) {
            m_listener->started(task, time);
            continue;
        }
        m_listener->ended(task, time);
        if (m_heardFrom)
            followAverage(task, step);
    }
}

Error CostClock::stuck(const dispatch::Dispatcher &dispatcher) const
{
    std::string names;
    int shown = 0;
    for (Unit unit = 0; unit < dispatcher.units(); ++unit) {
        if (!dispatcher.isBlocked(unit))
            continue;
        for (const TaskId task : dispatcher.members(unit))
            if (shown < 4)
                names += (shown++ ? ", " : "") + program::idOf(m_program.task(task));
    }
    return badInput("the order of tasks cannot run: " + names + (shown == 4 ? " and others" : "")
                    + " wait for each other; change the schedule's order");
}

Result<dispatch::LaneOrders> laneOrders(const program::Program &program, RankId rank)
{
    if (program.spansSteps() && program.periodSteps == 1) {
        StartOrder starts(program, rank);
        CostClock clock(program);
        const Result<double> period = clock.run(&starts);
        if (!period)
            return period.error();
        if (clock.isPeriodic())
            return starts.ordersOf(*period);
    }
    StartOrder starts(program, rank);
    if (const Result<double> seconds = CostClock(program).runOnce(&starts); !seconds)
        return seconds.error();
    return starts.orders();
}

} // namespace planloom::simulate

// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/recorder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace planloom::simulate {
namespace {

using program::Area;

constexpr double kNanosecondsPerSecond = 1e9;

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * kNanosecondsPerSecond); }

bool isCommunication(program::Lane lane)
{
    return program::kLaneTable[static_cast<std::size_t>(lane)].work == trace::Work::Communication;
}

/// Which member of a MemoryPoint counts an area.
std::int64_t MemoryPoint::*memoryOf(Area area)
{
    static const auto members = [] {
        std::array<std::int64_t MemoryPoint::*, program::kAreas> made{};
        for (const MemoryKind &kind : memoryKinds()) {
            for (const Area counted : kind.areas)
                made[static_cast<std::size_t>(counted)] = kind.bytes;
        }
        return made;
    }();
    return members[static_cast<std::size_t>(area)];
}

} // namespace

Recorder::Recorder(const program::Program &program, const Options &options) : m_program(program), m_options(options)
{
    const std::size_t ranks = program.ranks.size();
    const auto changes = options.memory ? prepareMemory() : std::vector<std::int32_t>(program.effects.size() + 1, 0);
    m_tasks.reserve(program.tasks.size());
    for (const program::Task &task : program.tasks)
        m_tasks.push_back({0,
                           {changes[static_cast<std::size_t>(task.effects.first)],
                            changes[static_cast<std::size_t>(task.effects.last)]},
                           task.rank,
                           task.lane});
    m_compute.assign(ranks, 0);
    m_communication.assign(ranks, 0);
    m_communicating.assign(ranks, 0);
    m_communicatingSince.assign(ranks, 0);
    if (options.trace)
        m_records.reserve(program.tasks.size());
}

/// For each of the Program's effects, how many changes there are before it.
std::vector<std::int32_t> Recorder::prepareMemory()
{
    using Action = program::Effect::Action;
    std::vector<std::int32_t> before{0};
    before.reserve(m_program.effects.size() + 1);
    for (const program::Effect &effect : m_program.effects) {
        const bool takes = effect.action == Action::Takes;
        if (takes || effect.action == Action::Gives) {
            const auto &pools = m_program.body(effect.body).pools;
            const std::int64_t bytes = pools[static_cast<std::size_t>(effect.area)].slotBytes;
            if (bytes != 0)
                m_changes.push_back({memoryOf(effect.area), takes ? bytes : -bytes});
        }
        before.push_back(static_cast<std::int32_t>(m_changes.size()));
    }
    if (!m_program.pooledCalls.empty())
        m_pool.assign(m_program.ranks.size(), 0);
    m_memory.resize(m_program.ranks.size());
    for (std::size_t r = 0; r < m_memory.size(); ++r) {
        m_memory[r].reserve(m_program.ranks[r].tasks.size() + 1);
        m_memory[r].push_back({0, m_program.ranks[r].persistentBytes, 0, 0, 0});
    }
    return before;
}

void Recorder::started(TaskId id, double seconds)
{
    Timed &task = m_tasks[id.index()];
    task.start = seconds;
    if (m_options.memory)
        changeMemory(task, seconds, true);
    if (!m_pool.empty())
        changePool(id, seconds, true);
    if (counts() && isCommunication(task.lane))
        countCommunication(task.rank, seconds, 1);
}

void Recorder::ended(TaskId id, double seconds)
{
    const Timed &task = m_tasks[id.index()];
    if (m_options.memory)
        changeMemory(task, seconds, false);
    if (!m_pool.empty())
        changePool(id, seconds, false);
    if (counts() && task.lane == program::Lane::Compute)
        m_compute[task.rank.index()] += seconds - task.start;
    else if (counts() && isCommunication(task.lane))
        countCommunication(task.rank, seconds, -1);
    if (!m_options.trace)
        return;
    trace::Record record;
    record.start = nanoseconds(task.start);
    record.duration = nanoseconds(seconds) - record.start;
    record.task = id.value;
    record.step = m_step;
    record.rank = task.rank.value;
    record.lane = static_cast<std::int32_t>(task.lane);
    m_records.push_back(record);
}

/// A slot is taken when the task starts and given back when it ends.
void Recorder::changeMemory(const Timed &task, double seconds, bool start)
{
    for (std::int32_t i = task.changes.first; i < task.changes.last; ++i) {
        const Change &change = m_changes[static_cast<std::size_t>(i)];
        if ((change.bytes > 0) == start)
            add(task.rank, seconds, change.member, change.bytes);
    }
}

/// A run of operators has the pool at its highest while it runs.
void Recorder::changePool(TaskId id, double seconds, bool start)
{
    const program::Task &task = m_program.task(id);
    if (const auto *swap = task.as<program::Swap>(); swap != nullptr && task.microBatch < 0) {
        if (swap->out != start) // states of the optimizer: from the beginning of the copy in to the end of the one out
            add(task.rank, seconds, memoryOf(Area::Persistent), (swap->out ? -1 : 1) * m_program.copyOf(*swap).bytes);
        return;
    }
    const auto *run = task.as<program::Compute>();
    if (run == nullptr || !run->isPooled())
        return;
    const auto *calls = m_program.pooledCalls.data();
    std::int64_t level = calls[run->lastCall - 1].usedAfter;
    for (std::int32_t call = run->firstCall; start && call < run->lastCall; ++call)
        level = std::max(level, calls[call].used);
    const RankId rank = m_program.task(id).rank;
    add(rank, seconds, memoryOf(Area::Pool), level - std::exchange(m_pool[rank.index()], level));
}

void Recorder::add(RankId rank, double seconds, std::int64_t MemoryPoint::*member, std::int64_t bytes)
{
    if (bytes == 0)
        return;
    auto &points = m_memory[rank.index()];
    if (points.back().seconds != seconds) {
        points.push_back(points.back());
        points.back().seconds = seconds;
    }
    points.back().*member += bytes;
}

void Recorder::countCommunication(RankId rank, double seconds, int change)
{
    const std::size_t r = rank.index();
    if (m_communicating[r] == 0)
        m_communicatingSince[r] = seconds;
    m_communicating[r] += change;
    if (m_communicating[r] == 0)
        m_communication[r] += seconds - m_communicatingSince[r];
}

/// The records by rank and lane. A lane runs one task after the other, so they came in the order of their starts and
/// counting is enough.
std::vector<trace::Record> Recorder::byLane() const
{
    const auto laneOf = [](const trace::Record &record) {
        return static_cast<std::size_t>(record.rank) * program::kLanes + static_cast<std::size_t>(record.lane);
    };
    std::vector<std::size_t> next(m_program.ranks.size() * program::kLanes + 1, 0);
    for (const trace::Record &record : m_records)
        ++next[laneOf(record) + 1];
    for (std::size_t lane = 1; lane < next.size(); ++lane)
        next[lane] += next[lane - 1];
    std::vector<trace::Record> sorted(m_records.size());
    for (const trace::Record &record : m_records)
        sorted[next[laneOf(record)]++] = record;
    return sorted;
}

void Recorder::into(Simulation &simulation, const cluster::Cluster &cluster)
{
    simulation.memory = std::move(m_memory);
    if (!m_options.trace)
        return;
    static_cast<trace::Tables &>(simulation.trace) = program::traceTables(m_program, cluster);
    simulation.trace.rounds.from = 0; // steps are counted from the period's first
    simulation.trace.clock = "cost";
    simulation.trace.records = byLane();
}

} // namespace planloom::simulate

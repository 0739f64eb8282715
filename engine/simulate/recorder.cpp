// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/recorder.h"

#include <cmath>

namespace planloom::simulate {
namespace {

using program::Area;
using trace::Kind;

constexpr double kNanosecondsPerSecond = 1e9;

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * kNanosecondsPerSecond); }

/// Which areas a task takes a slot of when it starts, and gives one back of when it ends (DESIGN §4; Area's comments).
struct Footprint {
    std::vector<Area> takes;
    std::vector<Area> gives;
};

const Footprint &footprint(const program::Task &task, bool recompute, bool splits)
{
    static const Footprint none;
    static const Footprint forward{{Area::Frame, Area::WeightStash, Area::Outbox, Area::Workspace}, {Area::Workspace}};
    static const Footprint recomputed{{Area::Workspace}, {}};
    static const std::vector<Area> whole{Area::Inbox, Area::Frame, Area::GradientInbox, Area::Workspace};
    static const std::vector<Area> part{Area::Frame, Area::Workspace};
    static const Footprint backward[] = {{{Area::GradientOutbox, Area::Workspace}, whole}, {{Area::GradientOutbox, Area::WeightFrame, Area::Workspace}, part}};
    static const Footprint backwardAfterRecompute[] = {{{Area::GradientOutbox}, whole}, {{Area::GradientOutbox, Area::WeightFrame}, part}};
    static const Footprint weights{{Area::Workspace}, {Area::Inbox, Area::GradientInbox, Area::WeightFrame, Area::WeightStash, Area::Workspace}};
    static const Footprint receiveActivation{{Area::Inbox}, {}};
    static const Footprint receiveGradient{{Area::GradientInbox}, {}};
    static const Footprint sendActivation{{}, {Area::Outbox}};
    static const Footprint sendGradient{{}, {Area::GradientOutbox}};
    const bool ahead = task.pass == program::Pass::Forward;
    switch (task.kind) {
    case Kind::Forward: return forward;
    case Kind::Recompute: return recomputed;
    case Kind::Backward: return (recompute ? backwardAfterRecompute : backward)[splits ? 1 : 0];
    case Kind::WeightGradient: return weights;
    case Kind::Receive: return ahead ? receiveActivation : receiveGradient;
    case Kind::Send: return ahead ? sendActivation : sendGradient;
    default: return none;
    }
}

} // namespace

Recorder::Recorder(const program::Program &program, const Options &options) : m_program(program), m_options(options)
{
    const std::size_t ranks = program.ranks.size();
    m_start.resize(program.tasks.size());
    m_compute.assign(ranks, 0);
    m_communication.assign(ranks, 0);
    m_communicating.assign(ranks, 0);
    m_communicatingSince.assign(ranks, 0);
    if (options.trace)
        m_records.reserve(program.tasks.size());
    if (!options.memory)
        return;
    m_splits.assign(program.bodies.size(), false);
    for (const program::Task &task : program.tasks)
        if (task.kind == Kind::WeightGradient)
            m_splits[static_cast<std::size_t>(task.body)] = true;
    m_memory.resize(ranks);
    for (std::size_t r = 0; r < ranks; ++r)
        m_memory[r].push_back({0, program.ranks[r].persistentBytes, 0, 0, 0});
}

void Recorder::started(TaskId id, double seconds)
{
    const program::Task &task = m_program.task(id);
    m_start[id.index()] = seconds;
    if (m_options.memory)
        changeMemory(task, seconds, true);
    if (task.lane != program::Lane::Compute && task.lane != program::Lane::Host)
        countCommunication(task.rank, seconds, 1);
}

void Recorder::ended(TaskId id, double seconds)
{
    const program::Task &task = m_program.task(id);
    const double start = m_start[id.index()];
    if (m_options.memory)
        changeMemory(task, seconds, false);
    if (task.lane == program::Lane::Compute)
        m_compute[task.rank.index()] += seconds - start;
    else if (task.lane != program::Lane::Host)
        countCommunication(task.rank, seconds, -1);
    if (!m_options.trace)
        return;
    trace::Record record;
    record.start = nanoseconds(start);
    record.duration = nanoseconds(seconds) - record.start;
    record.task = id.value;
    record.rank = static_cast<std::int16_t>(task.rank.value);
    record.lane = static_cast<std::int16_t>(task.lane);
    m_records.push_back(record);
}

void Recorder::changeMemory(const program::Task &task, double seconds, bool start)
{
    if (task.body < 0 || !(start ? task.opens : task.closes))
        return;
    const program::Body &body = m_program.bodies[static_cast<std::size_t>(task.body)];
    const Footprint &print = footprint(task, body.recompute, m_splits[static_cast<std::size_t>(task.body)]);
    for (const Area area : start ? print.takes : print.gives) {
        const std::int64_t bytes = body.pools[static_cast<std::size_t>(area)].slotBytes;
        add(task.rank, seconds, area, start ? bytes : -bytes);
    }
    if (!start && task.kind == Kind::Receive && task.group < 0)
        handedOver(task, seconds);
}

/// Between stages on one rank nothing is sent: what was received has left where the other one made it.
void Recorder::handedOver(const program::Task &task, double seconds)
{
    const bool ahead = task.pass == program::Pass::Forward;
    const Area area = ahead ? Area::Outbox : Area::GradientOutbox;
    for (const std::int32_t b : m_program.ranks[task.rank.index()].bodies) {
        const program::Body &body = m_program.bodies[static_cast<std::size_t>(b)];
        if (body.stage.value == task.stage.value + (ahead ? -1 : 1))
            add(task.rank, seconds, area, -body.pools[static_cast<std::size_t>(area)].slotBytes);
    }
}

void Recorder::add(RankId rank, double seconds, Area area, std::int64_t bytes)
{
    if (bytes == 0)
        return;
    auto &points = m_memory[rank.index()];
    if (points.back().seconds != seconds) {
        points.push_back(points.back());
        points.back().seconds = seconds;
    }
    MemoryPoint &now = points.back();
    if (area == Area::Workspace)
        now.workspace += bytes;
    else if (area == Area::GradientInbox || area == Area::GradientOutbox || area == Area::WeightFrame)
        now.gradients += bytes;
    else
        now.activations += bytes;
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

/// The records by rank and lane. A lane runs one task after the other, so they came in the order of their starts and counting is enough.
std::vector<trace::Record> Recorder::byLane() const
{
    const auto laneOf = [](const trace::Record &record) { return static_cast<std::size_t>(record.rank * program::kLanes + record.lane); };
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
    simulation.trace.clock = "cost";
    simulation.trace.ranks = program::rankInfos(m_program, cluster);
    simulation.trace.tasks = program::taskInfos(m_program);
    simulation.trace.records = byLane();
}

} // namespace planloom::simulate

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"
#include "engine/compile/compile.h"
#include "engine/program/program.h"
#include "engine/simulate/clock.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <vector>

namespace planloom::testing {

/// A Program and its simulated times as text: per rank and lane the tasks in the order of their starts, each with start
/// and end in microseconds, what it waits for, and the ranks that it runs together with; then the rank's buffers, with
/// offsets and sizes in bytes.
class ProgramText final : public simulate::Listener {
public:
    ProgramText(const program::Program &program, const cluster::Cluster &cluster)
        : m_program(program),
          m_cluster(cluster),
          m_start(program.tasks.size()),
          m_end(program.tasks.size())
    {
    }
    void started(TaskId task, double seconds) override { m_start[task.index()] = seconds * 1e6; }
    void ended(TaskId task, double seconds) override { m_end[task.index()] = seconds * 1e6; }

    std::string text()
    {
        const auto seconds = simulate::CostClock(m_program).run(this);
        if (!seconds)
            return seconds.error().text() + "\n";
        m_text = fmt::format("{} ranks, {} samples in {} micro-batches, {:.3f} us\n", m_program.ranks.size(),
                             m_program.globalBatch, m_program.microBatches, *seconds * 1e6);
        for (std::size_t b = 0; b < m_program.buckets.size(); ++b)
            addBucket(b);
        for (const program::Rank &rank : m_program.ranks)
            addRank(rank);
        return m_text;
    }

private:
    [[nodiscard]] std::string rankName(RankId rank) const
    {
        return m_cluster.device(m_program.ranks[rank.index()].device).name;
    }

    void addRank(const program::Rank &rank)
    {
        m_text += fmt::format("\n{}: {} bytes, of which {} stay\n", m_cluster.device(rank.device).name, rank.arenaBytes,
                              rank.persistentBytes);
        const std::pair<program::Lane, const char *> lanes[] = {{program::Lane::Compute, "compute"},
                                                                {program::Lane::Send, "send"},
                                                                {program::Lane::Receive, "receive"},
                                                                {program::Lane::Collective, "collective"},
                                                                {program::Lane::Host, "host"}};
        for (const auto &[lane, name] : lanes)
            addLane(rank, lane, name);
        for (const BodyId body : rank.bodies)
            addBuffers(m_program.body(body));
    }

    void addLane(const program::Rank &rank, program::Lane lane, const char *name)
    {
        std::vector<TaskId> tasks;
        for (const TaskId id : rank.tasks)
            if (m_program.task(id).lane == lane)
                tasks.push_back(id);
        std::stable_sort(tasks.begin(), tasks.end(),
                         [this](TaskId a, TaskId b) { return m_start[a.index()] < m_start[b.index()]; });
        if (!tasks.empty())
            m_text += fmt::format("  {}\n", name);
        for (const TaskId id : tasks)
            addTask(id);
    }

    void addTask(TaskId id)
    {
        const program::Task &task = m_program.task(id);
        m_text +=
            fmt::format("    {:<14}{:>10.3f} ..{:>10.3f}", program::idOf(task), m_start[id.index()], m_end[id.index()]);
        if (task.bytes() > 0)
            m_text += fmt::format("  {} bytes", task.bytes());
        if (const auto *run = task.as<program::Compute>(); run != nullptr && run->lastOp > run->firstOp)
            m_text += fmt::format("  operators {}..{}", run->firstOp, run->lastOp);
        if (const auto *boxing = task.as<program::Boxing>())
            m_text += fmt::format("  operators {}..{}", boxing->op, boxing->op + 1);
        std::vector<std::string> before;
        for (const program::Dependency &other : m_program.dependenciesOf(task))
            before.push_back(program::idOf(m_program.task(other.task)));
        std::sort(before.begin(), before.end());
        if (!before.empty())
            m_text += fmt::format("  after {}", fmt::join(before, " "));
        const std::vector<std::string> partners = partnersOf(id);
        if (!partners.empty())
            m_text += fmt::format("  with {}", fmt::join(partners, " "));
        m_text += "\n";
    }

    [[nodiscard]] std::vector<std::string> partnersOf(TaskId id) const
    {
        std::vector<std::string> partners;
        const program::Task &task = m_program.task(id);
        for (std::size_t other = 0; task.group.valid() && other < m_program.tasks.size(); ++other)
            if (m_program.tasks[other].group == task.group && other != id.index())
                partners.push_back(rankName(m_program.tasks[other].rank));
        std::sort(partners.begin(), partners.end());
        return partners;
    }

    void addBuffers(const program::Body &body)
    {
        m_text += fmt::format("  s{} replica {} device {}\n", body.stage.value, body.replica, body.device);
        for (std::size_t a = 0; a < body.pools.size(); ++a) {
            const program::Pool &pool = body.pools[a];
            if (pool.bytes() > 0)
                m_text += fmt::format("    {:<16}{:>8} {} x {}\n", program::name(static_cast<program::Area>(a)),
                                      pool.begin, pool.count, pool.slotBytes);
        }
        for (std::size_t m = 0; m < body.slotTable.size(); ++m) {
            std::string taken;
            for (int a = 0; a < program::kAreas; ++a) {
                const auto area = static_cast<program::Area>(a);
                if (area != program::Area::Persistent && area != program::Area::Workspace
                    && body.pools[static_cast<std::size_t>(a)].bytes() > 0)
                    taken += fmt::format("  {} {}", program::name(area), body.slotTable[m].slot[a]);
            }
            m_text += fmt::format("    slots of m{}:{}\n", m, taken);
        }
        for (const program::PersistentTensor &held : body.persistent)
            m_text += fmt::format("    {:<24}{:>8} {} elements; updates {} from {}; gradient {}; moments {}\n",
                                  held.name, held.offset, held.count, held.updateCount, held.updateBegin, held.gradient,
                                  fmt::join(states(held), " "));
    }

    /// Two at least, as SGD and AdamW have at most.
    static std::vector<std::int64_t> states(const program::PersistentTensor &held)
    {
        std::vector<std::int64_t> offsets = held.states;
        offsets.resize(std::max<std::size_t>(2, offsets.size()), -1);
        return offsets;
    }

    void addBucket(std::size_t index)
    {
        const program::Bucket &bucket = m_program.buckets[index];
        std::vector<std::string> members;
        for (const DeviceId device : m_program.team(bucket.team).devices)
            members.push_back(m_cluster.device(device).name);
        std::vector<std::string> entries;
        for (const program::Bucket::Entry &entry : bucket.entries)
            entries.push_back(fmt::format("{} {}", entry.parameter, entry.elements));
        m_text += fmt::format("b{}: {} elements on {}; ZeRO {}: {}\n", index, bucket.elements, fmt::join(members, " "),
                              bucket.zero, fmt::join(entries, ", "));
    }

    const program::Program &m_program;
    const cluster::Cluster &m_cluster;
    std::vector<double> m_start; ///< microseconds
    std::vector<double> m_end;
    std::string m_text;
};

inline std::string programText(const program::Program &program, const cluster::Cluster &cluster)
{
    return ProgramText(program, cluster).text();
}

} // namespace planloom::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/simulate/clock.h"
#include "engine/simulate/simulate.h"

namespace planloom::simulate {

/// Turns starts and ends into the content of a Simulation: records, memory curves, busy times.
class Recorder final : public Listener {
public:
    Recorder(const program::Program &program, const Options &options);
    void inStep(std::int64_t step) override { m_step = static_cast<std::int32_t>(step); }
    void started(TaskId task, double seconds) override;
    void ended(TaskId task, double seconds) override;

    /// Moves the records and curves out, sorted.
    void into(Simulation &simulation, const cluster::Cluster &cluster);
    [[nodiscard]] double computeSeconds(std::size_t rank) const { return m_compute[rank]; }
    [[nodiscard]] double communicationSeconds(std::size_t rank) const { return m_communication[rank]; }

private:
    /// What is asked of a task at its start and end, side by side: the Program's tasks are far apart in memory.
    struct Timed {
        double start = 0;       ///< seconds
        program::Range changes; ///< in m_changes
        RankId rank;
        program::Lane lane = program::Lane::Compute;
    };

    /// What an effect does to the memory of its task's rank: more of it at the start, or less at the end.
    struct Change {
        std::int64_t MemoryPoint::*member = nullptr;
        std::int64_t bytes = 0;
    };

    std::vector<std::int32_t> prepareMemory();
    void changeMemory(const Timed &task, double seconds, bool start);
    void changePool(TaskId id, double seconds, bool start);
    void add(RankId rank, double seconds, std::int64_t MemoryPoint::*member, std::int64_t bytes);
    [[nodiscard]] std::vector<trace::Record> byLane() const;
    void countCommunication(RankId rank, double seconds, int change);
    /// What is counted is of one period.
    [[nodiscard]] bool counts() const { return m_step < m_program.periodSteps; }

    const program::Program &m_program;
    Options m_options;
    std::int32_t m_step = 0; ///< of the period, or of the next one
    std::vector<trace::Record> m_records;
    std::vector<Timed> m_tasks;
    std::vector<Change> m_changes; ///< in the order of the Program's effects, those that change anything
    std::vector<std::vector<MemoryPoint>> m_memory;
    std::vector<std::int64_t> m_pool;    ///< per rank: bytes in use there; empty: no stage has a memory policy
    std::vector<double> m_compute;       ///< per rank
    std::vector<double> m_communication; ///< per rank: time with at least one communication lane busy
    std::vector<int> m_communicating;    ///< per rank: communication lanes busy now
    std::vector<double> m_communicatingSince;
};

} // namespace planloom::simulate

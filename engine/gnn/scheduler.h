// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/gnn/network.h"
#include "engine/gnn/processors.h"
#include "engine/gnn/transfer_rates.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace planloom::gnn {

/// When each step of a network began and ended, seconds. A message begins when it becomes active.
struct StepTimes {
    std::vector<double> start;
    std::vector<double> end;
};

/// Online execution scheduling (Luo, Bao, Wu: INFOCOM 2022) on a fluid network: a step starts when all that it waits
/// for has ended, a message's rate follows from the messages that are active now, and is set anew at each event.
/// Messages within a machine take bytes / Port::within, or no time where that is 0. Where a machine has a
/// Port::processor, tasks and such messages, which are copies, share its cores (Processors); else the placement has
/// reserved a core for each.
///
/// Keeps its memory between calls, so that a search of placements allocates nothing. Not thread-safe. The network must
/// outlive it. Cost of a call: per event O(connections) and, with Degree, the active messages of the cards that it
/// touches; MaxMin and IterationFirst look at all active messages.
class Scheduler {
public:
    Scheduler(const Network &network, std::span<const Port> ports);

    /// Seconds until all steps have ended. @p machineOf: per role of the network. @p times, if given, is filled. Once
    /// @p progress, if given, is stopped, it returns early with figures that say nothing.
    double run(std::span<const std::int32_t> machineOf, TransferPolicy policy, StepTimes *times = nullptr,
               const Progress *progress = nullptr);

private:
    struct TaskEnd {
        double time;
        std::int32_t step;
        bool operator<(const TaskEnd &other) const // earliest first in a heap
        {
            return time != other.time ? time > other.time : step > other.step;
        }
    };
    /// The message that a connection carries now.
    struct Flow {
        std::int32_t step = -1; ///< -1: none
        double rate = 0;
        double left = 0; ///< bytes, at `since`
        double since = 0;
    };

    void reset(std::span<const std::int32_t> machineOf, TransferPolicy policy);
    void start(std::int32_t step);
    void compute(std::int32_t step, std::int32_t role, double seconds);
    void end(std::int32_t step);
    void release(std::span<const std::int32_t> steps);
    void drain();
    void activate(std::int32_t step, std::int32_t connection);
    void deactivate(std::int32_t connection);
    void endFlows(double time);
    void endTasks(double time);
    void setRates();
    void setRate(std::int32_t connection, double rate);
    void setFinish(std::int32_t connection, double time);
    double nextFinish();

    const Network &m_network;
    std::span<const Port> m_ports;
    TransferRates m_rates;
    Processors m_processors;
    std::span<const std::int32_t> m_machineOf; ///< of the call
    double m_now = 0;
    StepTimes *m_times = nullptr;
    std::vector<std::int32_t> m_waits;
    std::vector<std::int32_t> m_ready;
    std::vector<TaskEnd> m_tasks; ///< heap, of those that share no cores
    std::vector<Flow> m_flows;    ///< per connection
    /// Per connection: when its message ends at the present rate; infinite: none. Of each block of kFinishBlock of them
    /// the first to end is kept: as long as that one does not end later, other changes cost no look at the block.
    std::vector<double> m_finish;
    std::vector<double> m_blockFinish;      ///< of the first one
    std::vector<std::int32_t> m_blockFirst; ///< its connection; kStale: to be looked for
    std::vector<std::int32_t> m_staleBlocks;
    static constexpr std::size_t kFinishBlock = 64;
    static constexpr std::int32_t kStale = -1;
};

} // namespace planloom::gnn

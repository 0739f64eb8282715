// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace planloom::gnn {

/// A machine's network card, full duplex, and its memory, bytes/s, and the processor that its roles compute on.
struct Port {
    double out = 0;
    double in = 0;
    double within = 0;         ///< of a message that stays on the machine, which is alone there; 0: it takes no time
    double trainingFactor = 1; ///< a trainer's task takes so many times its seconds on this machine
    std::int32_t processor =
        -1;                    ///< whose cores its roles share, those of other machines, too; -1: a core for each task
    double cores = 0;          ///< of that processor
    double trainerThreads = 1; ///< of a trainer's task; others have one
};

/// Carries messages from one role to another, in order: each waits for the end of the one before it.
struct Connection {
    std::int32_t from = 0; ///< index of a role
    std::int32_t to = 0;
};

/// Tasks and messages of a job, and which waits for which; independent of the placement. A *step* is either of them.
/// Immutable; made by NetworkBuilder. Structure of arrays, 24 bytes a step and 4 a dependency.
struct Network {
    static constexpr std::int32_t kTask = -1;

    std::vector<Connection> connections;
    std::int32_t roles = 0; ///< connections name roles 0 .. roles - 1

    std::vector<double> amount;           ///< per step: seconds of a task, bytes of a message
    std::vector<std::int32_t> connection; ///< per step: of a message; kTask for a task
    std::vector<std::int32_t> iteration;  ///< per step: of the job; smaller is more urgent
    std::vector<std::int32_t> waits;      ///< per step: dependencies of either kind
    std::vector<std::int32_t> role;       ///< per step: whose task it is; -1: of a message, or of no role's cores
    std::vector<bool> trains;             ///< per step: a trainer's task

    /// Steps that wait for the end of step i: later[laterBegin[i]] .. later[laterBegin[i + 1] - 1].
    std::vector<std::int32_t> laterBegin;
    std::vector<std::int32_t> later;
    /// The same for its start: credits that a task gives back when it begins.
    std::vector<std::int32_t> startedBegin;
    std::vector<std::int32_t> started;

    std::vector<std::int32_t> order; ///< steps, each behind all that it waits for

    [[nodiscard]] std::size_t steps() const { return amount.size(); }
    /// Of a task that has its cores to itself, on the machines where roles are.
    [[nodiscard]] double secondsOf(std::size_t step, std::span<const Port> ports,
                                   std::span<const std::int32_t> machineOf) const
    {
        if (!trains[step])
            return amount[step];
        const auto machine = static_cast<std::size_t>(machineOf[static_cast<std::size_t>(role[step])]);
        return amount[step] * ports[machine].trainingFactor;
    }
    [[nodiscard]] std::span<const std::int32_t> laterOf(std::size_t step) const { return cut(laterBegin, later, step); }
    [[nodiscard]] std::span<const std::int32_t> startedBy(std::size_t step) const
    {
        return cut(startedBegin, started, step);
    }

private:
    static std::span<const std::int32_t> cut(const std::vector<std::int32_t> &begin,
                                             const std::vector<std::int32_t> &of, std::size_t step)
    {
        const auto first = static_cast<std::size_t>(begin[step]);
        return std::span(of).subspan(first, static_cast<std::size_t>(begin[step + 1]) - first);
    }
};

/// Collects steps, then sorts their dependencies. Steps are numbered in the order in which they are added.
class NetworkBuilder {
public:
    std::int32_t connection(std::int32_t fromRole, std::int32_t toRole);
    /// @p role: whose it is; @p trains: Port::trainingFactor and trainerThreads of its machine count.
    std::int32_t task(double seconds, std::int32_t iteration = 0, std::int32_t role = -1, bool trains = false);
    /// Waits for the message that was added to the same connection before it.
    std::int32_t message(std::int32_t connection, double bytes, std::int32_t iteration = 0);
    /// @p later starts when @p earlier has ended.
    void after(std::int32_t later, std::int32_t earlier) { m_ends.push_back({earlier, later}); }
    /// @p later starts when @p earlier has started.
    void afterStart(std::int32_t later, std::int32_t earlier) { m_starts.push_back({earlier, later}); }
    /// Dependencies must not form a cycle. Cost: O(steps + dependencies).
    Network build() &&;

private:
    struct Edge {
        std::int32_t earlier;
        std::int32_t later;
    };
    std::int32_t add(double amount, std::int32_t connection, std::int32_t iteration);
    void index(const std::vector<Edge> &edges, std::vector<std::int32_t> &begin, std::vector<std::int32_t> &of);
    void sort();

    Network m_network;
    std::vector<Edge> m_ends;
    std::vector<Edge> m_starts;
    std::vector<std::int32_t> m_lastMessage; ///< per connection; -1: none
};

} // namespace planloom::gnn

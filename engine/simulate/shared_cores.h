// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/dispatch/dispatcher.h"
#include "engine/program/program.h"

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace planloom::simulate {

/// The processor cores that several ranks compute on (program::Rank::core). What computes at the same time on a core
/// gets equal parts of its time, communication beside it Program::communicationOnCores.weight such parts, or what it
/// needs if that is less. A collective goes on as fast as on the core that leaves it the smallest part of its need;
/// what it leaves on others then stays unused; and while a member computes it is delayed. Cost of start() and
/// takeEnded(): O(cores + collectives), and of each core that a unit begins or ends on O(what is on it); memory is kept
/// from one collective to the next.
class SharedCores {
public:
    using Unit = dispatch::Dispatcher::Unit;

    explicit SharedCores(const program::Program &program);

    [[nodiscard]] bool any() const { return !m_coreOf.empty(); }
    /// Starts @p unit, whose tasks are @p members, if it takes time of a core that is shared; else false. @p seconds:
    /// how long it takes with its cores to itself.
    bool start(Unit unit, std::span<const TaskId> members, double seconds, double now);
    /// When the next unit ends if nothing else starts before; never: infinity.
    [[nodiscard]] double nextEnd() const { return m_nextEnd; }
    /// The units that end at nextEnd(), lowest first; they are forgotten.
    std::vector<Unit> takeEnded();
    void clear();

private:
    static constexpr double kNever = std::numeric_limits<double>::infinity();

    struct Running {
        Unit unit = 0;
        RankId rank;
        double left = 0; ///< seconds with the core to itself, at Core::since
    };
    /// What a member of a collective takes of its core's time, as parts of it. Members on one core take no more than
    /// all of it where nothing computes: the collective's own time is that which they need together.
    struct Need {
        std::int32_t core = 0;
        RankId rank;
        double part = 0;
        double besideWork = 0; ///< `part` where something computes: without that limit
    };
    /// The same, as the core has it.
    struct Taker {
        double part = 0;
        double besideWork = 0;
        std::size_t collective = 0; ///< of m_collectives
        bool satisfied = false;     ///< gets all that it needs
    };
    struct Core {
        std::vector<Running> running; ///< computes
        std::vector<Taker> takers;    ///< communicate
        double since = 0;
        double stretch = 1;  ///< how many times as long as with the core to itself what computes takes
        double perTaker = 1; ///< the part of the core that each taker gets which is not satisfied
        double end = kNever;
        bool changed = false;               ///< what is on it, since its stretch was worked out
        [[nodiscard]] double least() const; ///< Running::left
    };
    struct Collective {
        Unit unit = 0;
        bool runs = false;
        double seconds = 0; ///< with its cores to itself
        double left = 0;    ///< of these, at `since`
        double since = 0;
        double stretch = 1; ///< how many times as long as that it takes
        double end = kNever;
        std::vector<Need> needs;
    };
    [[nodiscard]] std::int32_t coreOf(const program::Task &task) const;
    std::size_t freeCollective();
    bool findNeeds(Collective &collective, std::span<const TaskId> members, double seconds);
    void change(std::size_t core, double now);
    void end(Collective &collective);
    void share(double now);
    void shareCore(Core &core) const;
    void shareCollective(Collective &collective, double now) const;
    [[nodiscard]] double stretchOf(const Collective &collective) const;
    void findNextEnd();

    const program::Program &m_program;
    std::vector<std::int32_t> m_coreOf; ///< per rank; empty if no core is shared
    std::vector<Core> m_cores;
    std::vector<Collective> m_collectives;
    std::vector<std::size_t> m_changed; ///< cores
    std::vector<double> m_taken;        ///< per core, of findNeeds()
    double m_nextEnd = kNever;
};

} // namespace planloom::simulate

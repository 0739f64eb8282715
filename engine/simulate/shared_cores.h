// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/dispatch/dispatcher.h"
#include "engine/program/program.h"

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace planloom::simulate {

/// The processor cores that several ranks compute on (program::Rank::core): what is at work at the same time on a core
/// gets equal parts of its time, but for communication that needs less than that (Program::coreSecondsPerByte), which
/// gets what it needs. A collective goes on as fast as on the core that leaves it the smallest part of its need; what
/// it leaves on others then stays unused. Cost of each call: O(cores + units on them).
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
    struct Running {
        Unit unit = 0;
        double left = 0; ///< seconds with the core to itself, at Core::since
    };
    struct Core {
        std::vector<Running> running; ///< computes
        double since = 0;
        double stretch = 1; ///< how many times as long what computes takes as with the core to itself
        [[nodiscard]] double least() const;
        [[nodiscard]] double end() const;
        void pass(double now);
    };
    /// What a rank's collective takes of its core. Members on one core take no more than all of it: the collective's
    /// own time is that which they need together.
    struct Need {
        std::int32_t core = 0;
        double part = 0; ///< of the core's time, 0 to 1
    };
    struct Communicating {
        Unit unit = 0;
        double left = 0; ///< seconds with its cores to itself, at `since`
        double since = 0;
        double stretch = 1;
        std::vector<Need> needs;
        [[nodiscard]] double end() const { return since + left * stretch; }
    };
    [[nodiscard]] std::int32_t coreOf(const program::Task &task) const;
    [[nodiscard]] std::vector<Need> needsOf(std::span<const TaskId> members, double seconds) const;
    void share(double now);
    [[nodiscard]] double evenPart(std::size_t core) const;
    void findNextEnd();

    const program::Program &m_program;
    std::vector<std::int32_t> m_coreOf; ///< per rank; empty if no core is shared
    std::vector<Core> m_cores;
    std::vector<Communicating> m_communicating;
    double m_nextEnd = std::numeric_limits<double>::infinity();
};

} // namespace planloom::simulate

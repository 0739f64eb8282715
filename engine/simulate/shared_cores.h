// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/dispatch/dispatcher.h"
#include "engine/program/program.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace planloom::simulate {

/// The processor cores that several ranks compute on (program::Rank::core): what computes at the same time on a core
/// gets equal parts of its time. Cost of each call: O(cores + units on one of them).
class SharedCores {
public:
    using Unit = dispatch::Dispatcher::Unit;

    explicit SharedCores(const program::Program &program);

    [[nodiscard]] bool any() const { return !m_coreOf.empty(); }
    /// The core that @p task computes on; -1: none that is shared, or the task is no computation of one rank alone.
    [[nodiscard]] std::int32_t coreOf(const program::Task &task) const;
    /// @p seconds: how long @p unit takes with the core to itself.
    void start(std::int32_t core, Unit unit, double seconds, double now);
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
        std::vector<Running> running;
        double since = 0;
        [[nodiscard]] double least() const;
        [[nodiscard]] double end() const;
    };
    void findNextEnd();

    std::vector<std::int32_t> m_coreOf; ///< per rank; empty if no core is shared
    std::vector<Core> m_cores;
    double m_nextEnd = std::numeric_limits<double>::infinity();
};

} // namespace planloom::simulate

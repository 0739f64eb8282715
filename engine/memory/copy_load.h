// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace planloom::memory {

/// What copies beside operators take from these (Limits::copyLoad): the walk, and the update of parameters that lie on
/// the host, ask here.
class CopyLoad {
public:
    /// @p load: seconds by which operators take longer for each second of a copy.
    explicit CopyLoad(double load) : m_load(load) {}

    /// A copy of @p seconds begins.
    void owe(double seconds) { m_owed += m_load * seconds; }
    /// Operators stand still for @p seconds; copies go on, and take nothing from them meanwhile.
    void wait(double seconds) { m_owed = std::max(0.0, m_owed - seconds * m_load); }
    /// By how much an operator of @p seconds takes longer: a core that it shares with a copy does half of its work in
    /// that time.
    [[nodiscard]] double take(double seconds)
    {
        const double delay = std::min(m_owed, seconds);
        m_owed -= delay;
        return delay;
    }

private:
    double m_load;
    double m_owed = 0; ///< seconds
};

} // namespace planloom::memory

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"

#include <algorithm>
#include <string>

namespace planloom::planners {

/// Counts simulations, and stops between two.
class Counted {
public:
    Counted(Progress &progress, std::size_t all) : m_progress(progress), m_all(static_cast<double>(all)) {}
    /// False: it is stopped.
    bool next(const std::string &what)
    {
        if (m_progress.stopped())
            return false;
        m_progress.report(std::min(1.0, m_done++ / m_all), what);
        return true;
    }

private:
    Progress &m_progress;
    double m_all;
    double m_done = 0;
};

} // namespace planloom::planners

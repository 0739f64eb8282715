// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/partial_barrier.h"

#include <fmt/format.h>

#include <algorithm>

namespace planloom::admm {

PartialBarrier::PartialBarrier(int workers, int barrier, int delay)
    : m_barrier(barrier),
      m_delay(delay),
      m_ages(static_cast<std::size_t>(workers), 0),
      m_heard(m_ages.size(), false),
      m_arrived(m_ages.size(), false)
{
}

Status PartialBarrier::arrive(int worker)
{
    const auto k = static_cast<std::size_t>(worker);
    if (worker < 0 || k >= m_arrived.size())
        return badInput(fmt::format("worker {} arrived, and there are {} workers", worker, m_arrived.size()));
    if (m_arrived[k])
        return badInput(fmt::format("worker {} arrived twice in one version; it has to wait for its answer", worker));
    m_arrived[k] = m_heard[k] = true;
    return {};
}

std::vector<int> PartialBarrier::waitedFor() const
{
    std::vector<int> late;
    for (std::size_t k = 0; k < m_ages.size(); ++k)
        if (!m_heard[k] || (!m_arrived[k] && m_ages[k] >= m_delay))
            late.push_back(static_cast<int>(k));
    return late;
}

bool PartialBarrier::mayAdvance() const
{
    return std::count(m_arrived.begin(), m_arrived.end(), true) >= m_barrier && waitedFor().empty();
}

std::vector<int> PartialBarrier::advance()
{
    std::vector<int> answered;
    for (std::size_t k = 0; k < m_ages.size(); ++k) {
        if (m_arrived[k])
            answered.push_back(static_cast<int>(k));
        m_ages[k] = m_arrived[k] ? 0 : m_ages[k] + 1;
        m_arrived[k] = false;
    }
    return answered;
}

} // namespace planloom::admm

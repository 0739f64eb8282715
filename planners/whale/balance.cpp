// SPDX-License-Identifier: Apache-2.0
#include "planners/whale/balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>

namespace planloom::planners::whale {
namespace {

constexpr std::int64_t kMostUnits = std::int64_t{1} << 40;

/// In proportion to speed by largest remainder; ties go to the lower index.
std::vector<std::int64_t> proportional(const std::vector<Worker> &workers, std::int64_t units)
{
    double total = 0;
    for (const Worker &worker : workers)
        total += worker.speed;
    std::vector<std::int64_t> shares(workers.size());
    std::vector<double> remainders(workers.size());
    std::int64_t left = units;
    for (std::size_t i = 0; i < workers.size(); ++i) {
        const double ideal = static_cast<double>(units) * workers[i].speed / total;
        shares[i] = std::min(left, static_cast<std::int64_t>(ideal + 1e-9));
        remainders[i] = ideal - static_cast<double>(shares[i]);
        left -= shares[i];
    }
    std::vector<std::size_t> order(workers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
    for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left)
        ++shares[order[i]];
    return shares;
}

/// Every device gets a unit: the largest shares give one each.
void atLeastOne(std::vector<std::int64_t> &units)
{
    for (std::int64_t &own : units) {
        if (own > 0)
            continue;
        --*std::max_element(units.begin(), units.end());
        own = 1;
    }
}

bool allFit(const std::vector<Worker> &workers, const LoadMemory &memory, const std::vector<std::int64_t> &units)
{
    for (std::size_t i = 0; i < workers.size(); ++i)
        if (units[i] > roomOf(workers[i], memory))
            return false;
    return true;
}

class Algorithm1 {
public:
    Algorithm1(const std::vector<Worker> &workers, const LoadMemory &memory, std::int64_t units)
        : m_workers(workers),
          m_memory(memory),
          m_free(workers.size(), true)
    {
        m_balance.units = proportional(workers, units);
        atLeastOne(m_balance.units);
    }

    Balance run()
    {
        for (std::size_t i = 0; i < m_workers.size(); ++i)
            m_free[i] = room(i) >= 0;
        while (true) {
            const std::size_t peak = fullest();
            const std::size_t valley = firstDone();
            if (peak == m_workers.size() || valley == m_workers.size())
                break;
            shift(peak, valley);
        }
        m_balance.fits = allFit(m_workers, m_memory, m_balance.units);
        return std::move(m_balance);
    }

private:
    /// Units that worker @p i could take; below 0: that it must lose.
    [[nodiscard]] std::int64_t room(std::size_t i) const { return roomOf(m_workers[i], m_memory) - m_balance.units[i]; }
    [[nodiscard]] double memoryUse(std::size_t i) const
    {
        return m_memory.of(m_balance.units[i]) / m_workers[i].memory;
    }
    [[nodiscard]] double seconds(std::size_t i) const
    {
        return static_cast<double>(m_balance.units[i]) / m_workers[i].speed;
    }

    [[nodiscard]] std::size_t fullest() const
    {
        std::size_t peak = m_workers.size();
        for (std::size_t i = 0; i < m_workers.size(); ++i)
            if (room(i) < 0 && m_balance.units[i] > 1 && (peak == m_workers.size() || memoryUse(i) > memoryUse(peak)))
                peak = i;
        return peak;
    }

    [[nodiscard]] std::size_t firstDone() const
    {
        std::size_t valley = m_workers.size();
        for (std::size_t i = 0; i < m_workers.size(); ++i) {
            if (!m_free[i])
                continue;
            if (valley == m_workers.size()
                || std::tuple(seconds(i), memoryUse(i)) < std::tuple(seconds(valley), memoryUse(valley)))
                valley = i;
        }
        return valley;
    }

    void shift(std::size_t peak, std::size_t valley)
    {
        const std::int64_t excess = std::min(-room(peak), m_balance.units[peak] - 1); // one unit stays
        const std::int64_t moved = std::min(excess, room(valley));
        m_balance.units[peak] -= moved;
        m_balance.units[valley] += moved;
        const bool fits = moved == excess;
        m_balance.shifts.push_back({peak, valley, moved, fits});
        if (!fits)
            m_free[valley] = false;
    }

    const std::vector<Worker> &m_workers;
    const LoadMemory &m_memory;
    std::vector<bool> m_free;
    Balance m_balance;
};

} // namespace

std::int64_t roomOf(const Worker &worker, const LoadMemory &memory)
{
    const double left = worker.memory - memory.fixed;
    if (left < 0)
        return 0;
    if (memory.perUnit <= 0)
        return kMostUnits;
    // A hair of tolerance: shares that fill a memory exactly must not fail by rounding.
    return static_cast<std::int64_t>(
        std::min(static_cast<double>(kMostUnits), std::floor(left / memory.perUnit * (1 + 1e-12))));
}

Balance balanceByAlgorithm1(const std::vector<Worker> &workers, const LoadMemory &memory, std::int64_t units)
{
    return Algorithm1(workers, memory, units).run();
}

Balance balanceByTime(const std::vector<Worker> &workers, const LoadMemory &memory, std::int64_t units)
{
    Balance balance;
    balance.units.assign(workers.size(), 1);
    using Done = std::pair<double, std::size_t>; // when a worker would be done with one unit more
    std::priority_queue<Done, std::vector<Done>, std::greater<>> queue;
    const auto offer = [&](std::size_t i) {
        if (balance.units[i] < roomOf(workers[i], memory))
            queue.emplace(static_cast<double>(balance.units[i] + 1) / workers[i].speed, i);
    };
    for (std::size_t i = 0; i < workers.size(); ++i)
        offer(i);
    std::int64_t left = units - static_cast<std::int64_t>(workers.size());
    for (; left > 0 && !queue.empty(); --left) {
        const std::size_t next = queue.top().second;
        queue.pop();
        ++balance.units[next];
        offer(next);
    }
    balance.units.front() += left; // nowhere to put it: the sum is kept, and it does not fit
    balance.fits = left == 0 && allFit(workers, memory, balance.units);
    return balance;
}

Balance evenShares(const std::vector<Worker> &workers, const LoadMemory &memory, std::int64_t units)
{
    const auto count = static_cast<std::int64_t>(workers.size());
    Balance balance;
    for (std::int64_t i = 0; i < count; ++i)
        balance.units.push_back(units / count + (i < units % count ? 1 : 0));
    balance.fits = allFit(workers, memory, balance.units);
    return balance;
}

double slowest(const std::vector<Worker> &workers, const std::vector<std::int64_t> &units)
{
    double most = 0;
    for (std::size_t i = 0; i < workers.size(); ++i)
        most = std::max(most, static_cast<double>(units[i]) / workers[i].speed);
    return most;
}

} // namespace planloom::planners::whale

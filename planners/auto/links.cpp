// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/links.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

namespace planloom::planners::automatic {
namespace {

/// floor(log4(bytes)), 0 for less than 4 bytes.
std::size_t classOf(double bytes) { return bytes < 4 ? 0 : static_cast<std::size_t>(std::ilogb(bytes)) / 2; }

} // namespace

Links::Links(const cost::CostModel &costs, const DeviceLine &line)
    : m_costs(costs),
      m_line(line),
      m_places(line.devices.size() / line.unit)
{
    Rates unknown;
    unknown.fill(-1);
    m_transfers.assign((m_places + 1) * (m_places + 1) * (m_places + 1), unknown);
    m_crossings.assign(m_transfers.size(), {-1, -1});
}

template <class Ask>
double Links::timeOf(Rates &rates, double bytes, const Ask &ask)
{
    if (bytes <= 0)
        return 0;
    const std::size_t size = std::min(classOf(bytes), kClasses - 1);
    double &rate = rates[size];
    if (rate < 0) {
        const double asked = std::ldexp(2.0, static_cast<int>(2 * size)); // the middle of the class
        rate = ask(asked) / asked;
    }
    return rate * bytes;
}

Links::Rates &Links::ratesOf(std::size_t begin, std::size_t end, int tensor)
{
    const auto power = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(tensor)));
    if (m_reduces.size() <= power)
        m_reduces.resize(power + 1);
    if (m_reduces[power].empty()) {
        Rates unknown;
        unknown.fill(-1);
        m_reduces[power].assign(m_places * (m_places + 1), unknown);
    }
    return m_reduces[power][begin * (m_places + 1) + end];
}

template <class Ask>
double Links::leastRate(Rates &rates, const Ask &ask) const
{
    // Without measurements time is latency and bytes over bandwidth: the largest messages have the best rate.
    double least = -1;
    for (std::size_t size = measured() ? 5 : kClasses - 1; size < kClasses; ++size) {
        const double bytes = std::ldexp(1.0, static_cast<int>(2 * size));
        const double rate = timeOf(rates, bytes, ask) / bytes;
        least = least < 0 ? rate : std::min(least, rate);
    }
    return least;
}

bool Links::measured() const { return m_costs.profile() && !m_costs.profile()->curves.empty(); }

std::vector<DeviceId> Links::members(std::size_t begin, std::size_t end, int tensor) const
{
    std::vector<DeviceId> members;
    for (std::size_t d = begin * m_line.unit; d < end * m_line.unit; d += static_cast<std::size_t>(tensor))
        members.push_back(m_line.devices[d]);
    return members;
}

double Links::allReduce(std::size_t begin, std::size_t end, int tensor, double bytes)
{
    if ((end - begin) * m_line.unit <= static_cast<std::size_t>(tensor))
        return 0;
    return timeOf(ratesOf(begin, end, tensor), bytes,
                  [&](double asked) { return m_costs.allReduce(members(begin, end, tensor), asked).value(); });
}

Links::Exchange::Exchange(const Links &links, std::vector<DeviceId> team) : m_links(links), m_team(std::move(team))
{
    m_reduce.fill(-1);
    m_scatter.fill(-1);
    m_gather.fill(-1);
}

template <class Ask>
double Links::Exchange::upTo(double largest, std::array<double, kSizes> &rates, const Ask &ask) const
{
    if (m_team.size() < 2)
        return 0;
    const std::size_t size = sizeClass(largest);
    double &rate = rates[std::min(size, kSizes - 1)];
    if (rate >= 0)
        return rate;
    if (m_links.measured()) { // such curves may have their best rate at any size
        Rates all;
        all.fill(-1);
        return rate = m_links.leastRate(all, ask);
    }
    const double bytes = std::exp2(static_cast<double>(size) / 4);
    return rate = ask(bytes) / bytes;
}

std::size_t Links::sizeClass(double bytes)
{
    return static_cast<std::size_t>(std::ceil(4 * std::log2(std::max(bytes, 1.0))));
}

double Links::Exchange::part(cost::Collective kind, double bytes) const
{
    return m_links.m_costs.collective(kind, m_team, bytes / static_cast<double>(m_team.size())).value();
}

double Links::Exchange::reduce(double largest)
{
    return upTo(largest, m_reduce, [this](double bytes) { return m_links.m_costs.allReduce(m_team, bytes).value(); });
}

double Links::Exchange::scatter(double largest)
{
    return upTo(largest, m_scatter, [this](double bytes) { return part(cost::Collective::ReduceScatter, bytes); });
}

double Links::Exchange::gather(double largest)
{
    return upTo(largest, m_gather, [this](double bytes) { return part(cost::Collective::AllGather, bytes); });
}

Links::Exchange &Links::exchangeAtLeast(std::size_t begin, std::size_t end, int tensor)
{
    const std::tuple<int, std::size_t, std::size_t> key(tensor, begin, end);
    const auto known = m_exchanges.find(key);
    if (known != m_exchanges.end())
        return known->second;
    const bool several = (end - begin) * m_line.unit > static_cast<std::size_t>(tensor);
    std::vector<DeviceId> team = several ? members(begin, end, tensor) : std::vector<DeviceId>{};
    return m_exchanges.emplace(key, Exchange(*this, std::move(team))).first->second;
}

double Links::transferSeconds(std::size_t a, std::size_t b, std::size_t c, bool back, double bytes) const
{
    const std::span<const DeviceId> all(m_line.devices);
    const auto before = all.subspan(a * m_line.unit, (b - a) * m_line.unit);
    const auto behind = all.subspan(b * m_line.unit, (c - b) * m_line.unit);
    const double travels = bytes * m_costs.transferShare();
    return m_costs.transfer(back ? behind : before, back ? before : behind, travels).value();
}

double Links::transfer(std::size_t a, std::size_t b, std::size_t c, double bytes)
{
    return timeOf(m_transfers[triple(a, b, c)], bytes,
                  [&](double asked) { return transferSeconds(a, b, c, false, asked); });
}

const Links::Crossing &Links::crossingAtLeast(std::size_t a, std::size_t b, std::size_t c)
{
    Crossing &crossing = m_crossings[triple(a, b, c)];
    if (crossing.there < 0) {
        Rates back;
        back.fill(-1);
        crossing.there = leastRate(m_transfers[triple(a, b, c)],
                                   [&](double asked) { return transferSeconds(a, b, c, false, asked); });
        crossing.back = leastRate(back, [&](double asked) { return transferSeconds(a, b, c, true, asked); });
    }
    return crossing;
}

} // namespace planloom::planners::automatic

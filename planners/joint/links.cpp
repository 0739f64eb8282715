// SPDX-License-Identifier: Apache-2.0
#include "planners/joint/links.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

namespace planloom::planners::joint {
namespace {

/// floor(log4(bytes)), 0 for less than 4 bytes.
std::size_t classOf(double bytes) { return bytes < 4 ? 0 : static_cast<std::size_t>(std::ilogb(bytes)) / 2; }

} // namespace

Links::Links(const cost::CostModel &costs, const DeviceLine &line) : m_costs(costs), m_line(line), m_places(line.devices.size() / line.unit)
{
    Rates unknown;
    unknown.fill(-1);
    m_transfers.assign((m_places + 1) * (m_places + 1) * (m_places + 1), unknown);
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

double Links::allReduce(std::size_t begin, std::size_t end, int tensor, double bytes)
{
    const auto step = static_cast<std::size_t>(tensor);
    if ((end - begin) * m_line.unit <= step)
        return 0;
    return timeOf(ratesOf(begin, end, tensor), bytes, [&](double asked) {
        std::vector<DeviceId> members;
        for (std::size_t d = begin * m_line.unit; d < end * m_line.unit; d += step)
            members.push_back(m_line.devices[d]);
        return m_costs.allReduce(members, asked).value();
    });
}

double Links::allReduceAtLeast(std::size_t begin, std::size_t end, int tensor, double bytes)
{
    constexpr double kLarge = 1e15;
    return allReduce(begin, end, tensor, kLarge) / kLarge * bytes;
}

double Links::transfer(std::size_t a, std::size_t b, std::size_t c, double bytes)
{
    return timeOf(m_transfers[(a * (m_places + 1) + b) * (m_places + 1) + c], bytes, [&](double asked) {
        const std::span<const DeviceId> all(m_line.devices);
        return m_costs.transfer(all.subspan(a * m_line.unit, (b - a) * m_line.unit), all.subspan(b * m_line.unit, (c - b) * m_line.unit), asked).value();
    });
}

} // namespace planloom::planners::joint

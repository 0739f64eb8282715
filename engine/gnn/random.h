// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace planloom::gnn {

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014, §5): one step from state @p z. scramble(0) = 0xe220a8397b1dcdaf.
constexpr std::uint64_t scramble(std::uint64_t z)
{
    z += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

/// The upper 53 bits as a number in [0, 1).
constexpr double toUnit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// A sequence of numbers in [0, 1) from a seed.
class UnitStream {
public:
    explicit constexpr UnitStream(std::uint64_t seed) : m_state(seed) {}
    constexpr double next()
    {
        const std::uint64_t bits = scramble(m_state);
        m_state += 0x9e3779b97f4a7c15U;
        return toUnit(bits);
    }

private:
    std::uint64_t m_state;
};

} // namespace planloom::gnn

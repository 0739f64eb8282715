// SPDX-License-Identifier: Apache-2.0
#include "engine/base/units.h"

#include <array>
#include <cmath>
#include <fmt/format.h>

namespace planloom {
namespace {

template <std::size_t N>
std::string scaled(double value, double step, const std::array<const char *, N> &units)
{
    std::size_t unit = 0;
    while (std::abs(value) >= step && unit + 1 < N) {
        value /= step;
        ++unit;
    }
    return fmt::format("{:.{}f} {}", value, unit == 0 && value == std::floor(value) ? 0 : 2, units[unit]);
}

} // namespace

std::string format(Bytes bytes)
{
    return scaled(static_cast<double>(bytes.value()), 1024.0, std::array{"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string format(Seconds seconds)
{
    const double s = seconds.value();
    const double rounded = std::abs(s) * (1 + 5e-4); // 999.96 µs are shown as 1 ms
    if (s == 0.0 || rounded >= 1.0)
        return rounded >= 1000.0 ? fmt::format("{:.0f} s", s) : fmt::format("{:.3g} s", s);
    if (rounded >= 1e-3)
        return fmt::format("{:.3g} ms", s * 1e3);
    if (rounded >= 1e-6)
        return fmt::format("{:.3g} µs", s * 1e6);
    return fmt::format("{:.3g} ns", s * 1e9);
}

std::string format(Flops flops)
{
    return scaled(flops.value(), 1000.0, std::array{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"});
}

} // namespace planloom

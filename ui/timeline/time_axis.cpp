// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/time_axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace planloom::ui {

namespace {

constexpr double kSmallestSpan = 100; // nanoseconds: below the resolution of any clock that we record with
constexpr double kOverscroll = 0.05;  // of the bounds, visible beyond each end
constexpr int kMinorTicks = 5;

double boundsSpan(std::int64_t begin, std::int64_t end)
{
    return std::max(static_cast<double>(end - begin), kSmallestSpan);
}

/// 1, 2 or 5 times a power of ten, at least @p least.
double roundStep(double least)
{
    const double power = std::pow(10.0, std::floor(std::log10(least)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= least * (1 - 1e-9))
            return factor * power;
    }
    return 10 * power;
}

} // namespace

void TimeAxis::setBounds(std::int64_t begin, std::int64_t end)
{
    m_boundsBegin = begin;
    m_boundsEnd = std::max(end, begin + static_cast<std::int64_t>(kSmallestSpan));
    clamp();
}

void TimeAxis::setPixels(int pixels) { m_pixels = std::max(pixels, 1); }

void TimeAxis::zoom(double factor, double pixel)
{
    const double anchor = toTime(pixel);
    const double largest = boundsSpan(m_boundsBegin, m_boundsEnd) * (1 + 2 * kOverscroll);
    const double wanted = std::clamp(span() / factor, kSmallestSpan, largest);
    const double share = pixel / m_pixels;
    m_begin = anchor - wanted * share;
    m_end = m_begin + wanted;
    clamp();
}

void TimeAxis::pan(double pixels)
{
    const double shift = pixels * nanosecondsPerPixel();
    m_begin += shift;
    m_end += shift;
    clamp();
}

void TimeAxis::show(double begin, double end, double margin)
{
    const double length = std::max(end - begin, kSmallestSpan);
    m_begin = begin - length * margin;
    m_end = begin + length * (1 + margin);
    clamp();
}

void TimeAxis::showAll() { show(static_cast<double>(m_boundsBegin), static_cast<double>(m_boundsEnd)); }

void TimeAxis::follow(double time)
{
    const double length = span();
    m_end = time;
    m_begin = time - length;
    clamp();
}

bool TimeAxis::showsAll() const
{
    return m_begin <= static_cast<double>(m_boundsBegin) && m_end >= static_cast<double>(m_boundsEnd);
}

void TimeAxis::clamp()
{
    const double slack = boundsSpan(m_boundsBegin, m_boundsEnd) * kOverscroll;
    const double lowest = static_cast<double>(m_boundsBegin) - slack;
    const double highest = static_cast<double>(m_boundsEnd) + slack;
    const double length = std::min(span(), highest - lowest);
    if (m_begin < lowest)
        m_begin = lowest;
    if (m_begin + length > highest)
        m_begin = highest - length;
    m_end = m_begin + length;
}

std::vector<TimeAxis::Tick> TimeAxis::ticks(double spacing) const
{
    const double step = roundStep(spacing * nanosecondsPerPixel());
    const double minor = step / kMinorTicks;
    std::vector<Tick> result;
    const auto first = static_cast<std::int64_t>(std::ceil(m_begin / minor));
    const auto last = static_cast<std::int64_t>(std::floor(m_end / minor));
    for (std::int64_t k = first; k <= last; ++k) {
        const double time = static_cast<double>(k) * minor;
        Tick tick{std::llround(time), toPixel(time), {}};
        if (k % kMinorTicks == 0)
            tick.label = timeLabel(time, step);
        result.push_back(std::move(tick));
    }
    return result;
}

std::string timeLabel(double nanoseconds, double resolution)
{
    struct Unit {
        double size;
        const char *name;
    };
    static constexpr std::array kUnits{Unit{1e9, "s"}, Unit{1e6, "ms"}, Unit{1e3, "µs"}, Unit{1, "ns"}};
    if (nanoseconds == 0)
        return "0";
    const double magnitude = std::max(std::abs(nanoseconds), resolution);
    const auto *unit =
        std::find_if(kUnits.begin(), kUnits.end() - 1, [&](const Unit &u) { return magnitude >= u.size; });
    const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(resolution / unit->size) - 1e-9)));
    std::array<char, 64> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.*f %s", digits, nanoseconds / unit->size, unit->name);
    return buffer.data();
}

} // namespace planloom::ui

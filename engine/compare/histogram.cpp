// SPDX-License-Identifier: Apache-2.0
#include "engine/compare/histogram.h"

#include <algorithm>
#include <cmath>

namespace planloom::compare {
namespace {

std::vector<double> secondsOf(const std::vector<run::StepMetrics> &steps)
{
    std::vector<double> seconds;
    for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i)
        seconds.push_back(steps[i].seconds);
    return seconds;
}

std::vector<std::int64_t> counts(const std::vector<double> &seconds, const Histogram &bins, std::size_t number)
{
    std::vector<std::int64_t> counted(number, 0);
    for (const double each : seconds) {
        const double place = bins.width > 0 ? (each - bins.begin) / bins.width : 0;
        ++counted[static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(number - 1)))];
    }
    return counted;
}

} // namespace

Histogram histogramOf(const std::vector<run::StepMetrics> &a, const std::vector<run::StepMetrics> &b, std::size_t bins)
{
    const std::vector<double> first = secondsOf(a);
    const std::vector<double> second = secondsOf(b);
    std::vector<double> all(first);
    all.insert(all.end(), second.begin(), second.end());
    if (all.empty())
        return {};
    if (bins == 0) // Rice's rule
        bins = std::clamp<std::size_t>(std::lround(2 * std::cbrt(static_cast<double>(all.size()))), 6, 24);
    std::ranges::sort(all);
    const double longest = all[(all.size() - 1) * 19 / 20];
    Histogram made;
    made.begin = all.front();
    made.width = (longest - made.begin) / static_cast<double>(bins);
    made.lastIsOpen = all.back() > longest;
    made.a = counts(first, made, bins);
    made.b = counts(second, made, bins);
    return made;
}

} // namespace planloom::compare

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/bench/published_runs.h"

#include <cmath>
#include <numeric>

/// How far predictions are from the published runs: bench_published prints it, tst_published_runs compares the table of
/// resources/docs/cost.md with it.
namespace planloom::bench {

/// A run that could be predicted.
struct PublishedOutcome {
    const PublishedRun *run = nullptr;
    std::size_t number = 0; ///< of the row in the file
    double seconds = 0;     ///< predicted
    double gib = 0;         ///< of the fullest device, predicted
    bool fits = false;
    [[nodiscard]] double measured() const { return run->number("seconds"); }
    [[nodiscard]] double error() const { return seconds / measured() - 1; }
};

inline Result<PublishedOutcome> predictedOutcome(const PublishedRun &run, std::size_t number)
{
    const auto predicted = predictedRun(run);
    if (!predicted)
        return predicted.error();
    PublishedOutcome outcome{&run, number, predicted->iterationSeconds, 0, predicted->fits};
    for (const simulate::DeviceReport &device : predicted->devices)
        outcome.gib = std::max(outcome.gib, static_cast<double>(device.peakBytes) / (1024.0 * 1024 * 1024));
    return outcome;
}

/// Of a group's iteration times, relative to the measured ones.
struct PublishedErrors {
    std::size_t runs = 0;
    double meanSize = 0;
    double mean = 0;
    double medianSize = 0;
    double ninthSize = 0; ///< nine of ten are within
    double worst = 0;
};

/// @p outcomes: at least one.
inline PublishedErrors errorsOf(const std::vector<PublishedOutcome> &outcomes)
{
    std::vector<double> sizes;
    double sum = 0;
    for (const PublishedOutcome &outcome : outcomes) {
        sizes.push_back(std::abs(outcome.error()));
        sum += outcome.error();
    }
    std::sort(sizes.begin(), sizes.end());
    const auto count = static_cast<double>(sizes.size());
    return {sizes.size(),
            std::accumulate(sizes.begin(), sizes.end(), 0.0) / count,
            sum / count,
            sizes[sizes.size() / 2],
            sizes[static_cast<std::size_t>(std::ceil(0.9 * count)) - 1],
            sizes.back()};
}

/// By group, then "even rows", "odd rows" and "all".
inline std::vector<std::pair<std::string, std::vector<PublishedOutcome>>> publishedGroups(
    const std::vector<PublishedOutcome> &outcomes)
{
    std::map<std::string, std::vector<PublishedOutcome>> byName;
    std::vector<PublishedOutcome> halves[2];
    for (const PublishedOutcome &outcome : outcomes) {
        byName[outcome.run->text("group")].push_back(outcome);
        halves[outcome.number % 2].push_back(outcome);
    }
    std::vector<std::pair<std::string, std::vector<PublishedOutcome>>> groups(byName.begin(), byName.end());
    groups.emplace_back("even rows", halves[0]);
    groups.emplace_back("odd rows", halves[1]);
    groups.emplace_back("all", outcomes);
    return groups;
}

} // namespace planloom::bench

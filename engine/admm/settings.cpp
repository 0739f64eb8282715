// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace planloom::admm {

Status Settings::check() const
{
    const auto above = [](const char *name, double value) -> Status {
        if (std::isfinite(value) && value > 0)
            return {};
        return badInput(fmt::format("{} is {:g}; it is a number above 0", name, value));
    };
    const auto notNegative = [](const char *name, double value) -> Status {
        if (std::isfinite(value) && value >= 0)
            return {};
        return badInput(fmt::format("{} is {:g}; it is a number from 0", name, value));
    };
    const auto within = [](const char *name, int value, int most) -> Status {
        if (value >= 1 && value <= most)
            return {};
        return badInput(fmt::format("{} is {}; it is a whole number from 1 to {}", name, value, most));
    };
    constexpr int kMostSteps = 100;
    constexpr int kMostWorkers = 1 << 20;
    for (const Status &found : {above("mu", mu), above("gamma", gamma), above("rho", rho), notNegative("ridge", ridge),
                                notNegative("proximal", proximal), within("newton_steps", newtonSteps, kMostSteps),
                                within("tanh_steps", tanhSteps, kMostSteps),
                                within("time_ranges", timeRanges, kMostWorkers), within("shards", shards, kMostWorkers),
                                within("barrier", barrier, kMostWorkers), within("delay", delay, kMostWorkers)})
        if (!found)
            return found.error();
    if (gamma > 1)
        return badInput(fmt::format("gamma is {:g}; it is a number above 0 and at most 1", gamma));
    if (timeRanges > 1
        && (order != Order::Split || duals != Duals::All || subproblems != Subproblems::Exact
            || parallel != Parallel::Synchronous))
        return unsupported(
            fmt::format("time_ranges is {}; ranges of steps need order \"split\", duals \"all\", subproblems "
                        "\"exact\" and parallel \"synchronous\": choose these, or time_ranges 1",
                        timeRanges));
    if (shards > 1 && (timeRanges > 1 || subproblems != Subproblems::Exact || parallel != Parallel::Synchronous))
        return unsupported(fmt::format("shards is {}; shards of samples need subproblems \"exact\", parallel "
                                       "\"synchronous\" and time_ranges 1: choose these, or shards 1",
                                       shards));
    if (subproblems != Subproblems::Exact && rho < 0.5)
        return badInput(
            fmt::format("rho is {:g}; the linearised output step descends for rho of at least 0.5 only: raise "
                        "it, or choose subproblems \"exact\"",
                        rho));
    return {};
}

Result<std::vector<double>> penalties(const Settings &settings, int steps)
{
    constexpr double kLeast = std::numeric_limits<float>::min(); // tensors are float32
    constexpr double kMost = std::numeric_limits<float>::max();
    if (settings.mu < kLeast || settings.mu > kMost)
        return badInput(fmt::format("mu is {:g}, which is no penalty of float32; choose one from {:.2g} to {:.2g}",
                                    settings.mu, kLeast, kMost));
    std::vector<double> result(static_cast<std::size_t>(steps));
    double penalty = settings.mu;
    for (auto each = result.rbegin(); each != result.rend(); ++each, penalty *= settings.gamma) {
        if (penalty < kLeast) {
            const double enough = std::pow(kLeast / settings.mu, 1.0 / (steps - 1)); // for the first step
            return badInput(fmt::format("gamma is {:g}: the penalty of step {} of {}, mu * gamma^{}, vanishes in "
                                        "float32; choose a gamma of at least {:.3f}",
                                        settings.gamma, std::distance(each, result.rend()), steps,
                                        std::distance(result.rbegin(), each), std::min(1.0, enough + 1e-3)));
        }
        *each = penalty;
    }
    return result;
}

Result<Method> Method::of(const Settings &settings, int steps)
{
    if (const Status good = settings.check(); !good)
        return good.error();
    auto penalty = penalties(settings, steps);
    if (!penalty)
        return penalty.error();
    return Method{settings, *std::move(penalty)};
}

} // namespace planloom::admm

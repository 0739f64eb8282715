// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule/schedule.h"

#include <algorithm>

namespace planloom::schedule {

std::vector<PassStep> earlyBackwardOrder(std::int64_t microBatches, int depth, std::int32_t stage)
{
    const auto count = static_cast<std::int32_t>(microBatches);
    const std::int32_t warm = std::clamp<std::int32_t>(depth, 1, count);
    std::vector<PassStep> order;
    order.reserve(static_cast<std::size_t>(count) * 2);
    for (std::int32_t m = 0; m < warm; ++m)
        order.push_back({Pass::Forward, m, stage});
    for (std::int32_t m = warm; m < count; ++m) {
        order.push_back({Pass::Backward, m - warm, stage});
        order.push_back({Pass::Forward, m, stage});
    }
    for (std::int32_t m = count - warm; m < count; ++m)
        order.push_back({Pass::Backward, m, stage});
    return order;
}

std::vector<PassStep> interleavedOrder(std::int64_t microBatches, std::int32_t rank, std::int32_t ranks,
                                       std::int32_t chunks)
{
    const auto count = static_cast<std::int32_t>(microBatches);
    const std::int32_t groups = std::max(1, count / ranks);
    const std::int32_t largest = (count + groups - 1) / groups;
    std::vector<PassStep> forwards, backwards;
    for (std::int32_t g = 0, first = 0; g < groups; ++g) {
        const std::int32_t last = first + count / groups + (g < count % groups ? 1 : 0);
        for (std::int32_t c = 0; c < chunks; ++c) {
            for (std::int32_t m = first; m < last; ++m) {
                forwards.push_back({Pass::Forward, m, c * ranks + rank});
                backwards.push_back({Pass::Backward, m, (chunks - 1 - c) * ranks + rank});
            }
        }
        first = last;
    }
    const auto total = forwards.size();
    const auto warm = std::min(total, static_cast<std::size_t>((chunks - 1) * largest + 2 * (ranks - rank - 1)));
    std::vector<PassStep> order(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm));
    order.reserve(2 * total);
    for (std::size_t k = warm; k < total; ++k) {
        order.push_back(forwards[k]);
        order.push_back(backwards[k - warm]);
    }
    order.insert(order.end(), backwards.end() - static_cast<std::ptrdiff_t>(warm), backwards.end());
    return order;
}

std::vector<PassStep> zeroBubbleOrder(std::int64_t microBatches, int depth, int delay, std::int32_t stage)
{
    const auto count = static_cast<std::int32_t>(microBatches);
    std::vector<PassStep> order;
    order.reserve(static_cast<std::size_t>(count) * 3);
    for (const PassStep &step : earlyBackwardOrder(microBatches, depth, stage)) {
        order.push_back(step);
        if (step.pass == Pass::Backward && step.microBatch >= delay)
            order.push_back({Pass::WeightGradient, step.microBatch - delay, stage});
    }
    for (std::int32_t m = std::max(0, count - delay); m < count; ++m)
        order.push_back({Pass::WeightGradient, m, stage});
    return order;
}

std::vector<PassStep> stepsOf(const std::vector<PassStep> &order, std::size_t stage)
{
    std::vector<PassStep> steps;
    for (const PassStep &step : order)
        if (step.stage == static_cast<std::int32_t>(stage))
            steps.push_back(step);
    return steps;
}

int mostBetween(const std::vector<PassStep> &order, Pass from, Pass to)
{
    int now = 0;
    int most = 0;
    for (const PassStep &step : order) {
        now += step.pass == from ? 1 : step.pass == to ? -1 : 0;
        most = std::max(most, now);
    }
    return most;
}

Pass closingPass(const std::vector<PassStep> &order)
{
    const auto weights = [](const PassStep &step) { return step.pass == Pass::WeightGradient; };
    return std::any_of(order.begin(), order.end(), weights) ? Pass::WeightGradient : Pass::Backward;
}

int maxInFlight(const std::vector<PassStep> &order) { return mostBetween(order, Pass::Forward, closingPass(order)); }

} // namespace planloom::schedule

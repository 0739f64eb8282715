// SPDX-License-Identifier: Apache-2.0
#include "planners/common/exchange_seconds.h"

#include "engine/compile/compile.h"
#include "engine/simulate/simulate.h"
#include "planners/common/exchange_tables.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace planloom::planners {

Result<program::Program> programWithExchange(plan::Plan plan, const plan::Subject &subject)
{
    dropDecayOfRows(plan);
    return compile::compilePlan(plan, subject, {.bodies = false, .fold = true});
}

Result<double> stepSeconds(const plan::Plan &plan, const plan::Subject &subject)
{
    const auto program = programWithExchange(plan, subject);
    return program ? simulate::iterationSeconds(*program) : Result<double>(program.error());
}

Result<ExchangeSeconds> exchangeSeconds(const plan::Plan &plan, const plan::Subject &subject)
{
    auto program = programWithExchange(plan, subject);
    if (!program)
        return program.error();
    const Result<double> step = simulate::iterationSeconds(*program);
    if (!step)
        return step.error();
    for (program::Task &task : program->tasks)
        if (task.as<program::Exchange>() != nullptr || task.as<program::RowExchange>() != nullptr)
            task.duration = Seconds(0);
    const Result<double> without = simulate::iterationSeconds(*program);
    if (!without)
        return without.error();
    return ExchangeSeconds{*step, std::max(0.0, *step - *without)};
}

std::int64_t AveragingTimes::leastDelay() const
{
    constexpr double kRounding = 1e-9;
    return static_cast<std::int64_t>(std::ceil(exchange / step - kRounding));
}

double AveragingTimes::hiddenShare(double seconds, const plan::DelayedAveraging &averaging) const
{
    if (exchange <= 0)
        return 1;
    const double exposed = (seconds - step) * static_cast<double>(averaging.localSteps);
    // Without a delay all of it is waited for, but for what snapshots and merges make of the times.
    return averaging.delay == 0 ? 0 : std::clamp(1 - exposed / exchange, 0.0, 1.0);
}

Result<AveragingTimes> averagingTimes(const plan::Plan &plan, const plan::Subject &subject)
{
    auto program = programWithExchange(plan, subject);
    if (!program)
        return program.error();
    std::vector<double> onRank(program->ranks.size(), 0);
    for (program::Task &task : program->tasks) {
        const auto *exchange = task.as<program::Exchange>();
        if (exchange == nullptr || !exchange->averages)
            continue;
        onRank[task.rank.index()] += task.duration.value();
        task.duration = Seconds(0);
    }
    const Result<double> step = simulate::iterationSeconds(*program);
    if (!step)
        return step.error();
    return AveragingTimes{*step, *std::max_element(onRank.begin(), onRank.end())};
}

} // namespace planloom::planners

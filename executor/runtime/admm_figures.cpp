// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/admm_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace planloom::runtime {

Status readAdmmFigures(const RankParts &parts, const ExecutorOptions &options, run::StepMetrics &metrics)
{
    const std::span<const float> figures = parts.stages.front().runner->figures();
    if (figures.empty())
        return {};
    const bool finite = std::all_of(figures.begin(), figures.end(), [](float figure) { return std::isfinite(figure); });
    if (!finite)
        return failed(
            fmt::format("iteration {} of ADMM has no solution: its sums over samples have no Cholesky factor, "
                        "or its values are too large; raise \"ridge\" in the plan's training, or its penalties",
                        metrics.step));
    const std::span<const float> residuals = figures.first(figures.size() - 2);
    metrics.primalResidual = std::sqrt(std::accumulate(residuals.begin(), residuals.end(), 0.0));
    metrics.dualResidual = std::sqrt(static_cast<double>(figures[figures.size() - 2]));
    metrics.objective = metrics.loss * static_cast<double>(parts.program.globalBatch * parts.program.shards)
        + parts.program.ridge / 2 * static_cast<double>(figures.back());
    return options.onResiduals && residuals.size() > 1 ? options.onResiduals(metrics.step, residuals) : Status();
}

} // namespace planloom::runtime

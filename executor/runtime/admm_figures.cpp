// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/admm_figures.h"

#include "engine/admm/training_graph.h"

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
    const std::span<const float> residuals = figures.first(figures.size() - admm::IterationFigures::kCount);
    const std::span<const float> last = figures.last(admm::IterationFigures::kCount);
    const admm::IterationFigures others{last[0], last[1], last[2], last[3]};
    const double ridge = parts.program.ridge / 2;
    metrics.primalResidual = std::sqrt(std::accumulate(residuals.begin(), residuals.end(), 0.0));
    metrics.dualResidual = std::sqrt(static_cast<double>(others.change));
    metrics.objective = metrics.loss * static_cast<double>(parts.program.globalBatch * parts.program.shards)
        + ridge * static_cast<double>(others.weightsBefore);
    metrics.lagrangian = static_cast<double>(others.lagrangian) * static_cast<double>(parts.program.shards)
        + ridge * static_cast<double>(others.weightsBehind);
    return options.onResiduals && residuals.size() > 1 ? options.onResiduals(metrics.step, residuals) : Status();
}

} // namespace planloom::runtime

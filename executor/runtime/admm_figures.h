// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/executor_options.h"
#include "executor/runtime/rank_parts.h"

namespace planloom::runtime {

/// Residuals and objective of an iteration of ADMM, from the figures that it leaves behind, into @p metrics, which has
/// its loss; nothing for other training. Errors: Failed, where a figure is no number; those of
/// ExecutorOptions::onResiduals.
Status readAdmmFigures(const RankParts &parts, const ExecutorOptions &options, run::StepMetrics &metrics);

} // namespace planloom::runtime

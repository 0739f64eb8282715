// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/buckets.h"
#include "engine/compile/ranks.h"
#include "engine/compile/source.h"
#include "engine/compile/stage_model.h"

#include <vector>

namespace planloom::compile {

class StageCache;

/// The operators of every stage: differentiated, cut for its mesh and lowered; stages that are alike share them.
/// @p mustRun: they will be executed. @p cache may be null. Errors: those of StageModel::make.
Result<std::vector<StageModel>> makeStages(const Source &source, bool mustRun, StageCache *cache);

/// Cuts @p stages for ZeRO as the buckets say, and backward passes in two where the schedule has weight passes.
Result<std::vector<StageModel>> cutStages(std::vector<StageModel> stages, const Ranks &ranks, const Buckets &buckets,
                                          const FoldedTeams &teams);

} // namespace planloom::compile

// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/stages.h"

#include "engine/compile/stage_cache.h"

#include <optional>
#include <utility>

namespace planloom::compile {
namespace {

/// True if what stages @p a and @p b take comes in the same layouts.
bool sameInputs(const std::vector<StageModel> &stages, std::size_t a, std::size_t b)
{
    return stages[a - 1].outputs() == stages[b - 1].outputs();
}

} // namespace

Result<std::vector<StageModel>> makeStages(const Source &source, bool mustRun, StageCache *cache)
{
    const auto &[plan, subject] = source;
    std::vector<StageModel> stages;
    const bool byRows = plan.exchange.hasTables(); // which cuts stages by more than their own settings
    stages.reserve(plan.stages.size());
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const StageId stage(static_cast<std::int64_t>(s));
        // Stages of repeated blocks are alike. Where nothing has to run, one of them says it all but names.
        std::optional<Renaming> names;
        std::size_t like = s;
        while (!mustRun && !byRows && !names && like > 1 && --like > 0)
            if (stages[like].training() && sameInputs(stages, like, s))
                names = renaming(plan, subject, StageId(static_cast<std::int64_t>(like)), stage);
        if (names) {
            stages.push_back(stages[like].again(plan, stage, *names));
            continue;
        }
        const StageModel *before = s > 0 ? &stages.back() : nullptr;
        auto model = cache != nullptr && !byRows ? cache->make(plan, subject, stage, before, mustRun)
                                                 : StageModel::make(plan, subject, stage, before, mustRun);
        if (!model)
            return model.error();
        stages.push_back(*std::move(model));
    }
    return stages;
}

Result<std::vector<StageModel>> cutStages(std::vector<StageModel> stages, const Ranks &ranks, const Buckets &buckets,
                                          const FoldedTeams &teams)
{
    for (std::size_t s = 0; s < stages.size(); ++s) {
        if (const Status cut = stages[s].applyZero(ranks.ofStage[s].front(), buckets, teams); !cut)
            return cut.error();
        if (const Status cut = stages[s].applySplit(); !cut)
            return cut.error();
    }
    return stages;
}

} // namespace planloom::compile

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/bucket_owners.h"
#include "engine/compile/samples.h"
#include "engine/compile/stage_parts.h"

#include <vector>

namespace planloom::compile {

struct Options;

/// What is known before there are tasks: which rank runs which part of the model, and who communicates with whom. Every
/// field is what one pass has returned.
struct Deployment {
    std::vector<StageModel> stages;
    Ranks ranks;
    std::vector<Program::Place> places; ///< Program::places
    FoldedTeams teams;
    Buckets buckets;
    Instances instances;
    BucketOwners owners;
    std::vector<StageParts> parts;
};

/// The passes up to there. @p folds: ranks that do the same are there once. @p roomy: makeInstances(). Errors: those of
/// the passes.
Result<Deployment> deploy(const Source &source, const Samples &samples, const Options &options, bool folds, bool roomy);

} // namespace planloom::compile

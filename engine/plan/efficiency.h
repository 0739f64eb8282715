// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <string>

namespace planloom::plan {

/// What training does for a sample of a plan's model, and what the plan's devices could do at most.
struct ModelWork {
    double tokensPerSample = 0; ///< length of the longest sequence that a table of embeddings is looked up by; 0: none
    /// FLOPs of a sample's matrix products, convolutions and attention, forward and backward; what runs again
    /// (recompute) does not count. 0: not known (layer profiles), or training is not that of the whole model by
    /// gradients (ADMM, sampled training).
    double flopsPerSample = 0;
    double peakFlops = 0;  ///< FLOP/s of the devices of all stages together, nominal, in `precision`
    std::string precision; ///< "bfloat16" where the plan computes in it and all its devices have a peak for it, else
                           ///< "float32"
};

/// Cost: O(operators + devices).
ModelWork modelWork(const Document &document);

/// A speed in other units.
struct Efficiency {
    double tokensPerSecond = 0; ///< 0: the model has no sequence
    double mfu = 0;        ///< model FLOPs per second / peak FLOP/s (Chowdhery and others, 2022, appendix B); 0: not
                           ///< known
    std::string precision; ///< of that peak; empty: not known
};

/// At @p samplesPerSecond. All figures of tokens per second and of MFU come from here.
Efficiency efficiencyOf(const ModelWork &work, double samplesPerSecond);

} // namespace planloom::plan

// SPDX-License-Identifier: Apache-2.0
#include "engine/program/lower.h"

#include "engine/graph/fuse.h"
#include "engine/graph/fuse_batch_norm.h"
#include "engine/graph/layouts.h"
#include "engine/graph/precision.h"

namespace planloom::program {

Result<graph::TrainingGraph> lower(graph::TrainingGraph training, const plan::Plan &plan)
{
    if (plan.precision == plan::Precision::BFloat16) {
        const auto mixed = graph::toBFloat16(training);
        return mixed ? graph::fuse(*mixed) : mixed.error();
    }
    const auto images = graph::fuseBatchNormalization(training);
    if (!images)
        return images.error();
    const auto fused = graph::fuse(*images);
    return fused ? graph::chooseLayouts(*fused) : fused.error();
}

} // namespace planloom::program

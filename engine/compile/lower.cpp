// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/lower.h"

#include "engine/graph/rewrite/fuse.h"
#include "engine/graph/rewrite/fuse_batch_norm.h"
#include "engine/graph/rewrite/layouts.h"
#include "engine/graph/rewrite/precision.h"

#include <utility>

namespace planloom::compile {

Result<graph::TrainingGraph> lower(graph::TrainingGraph training, const plan::Plan &plan, bool onProcessors)
{
    const bool mixed = plan.precision == plan::Precision::BFloat16;
    if (mixed) {
        auto half = graph::toBFloat16(training);
        if (!half)
            return half.error();
        training = std::move(*half);
    }
    const auto images = graph::fuseBatchNormalization(std::move(training));
    if (!images)
        return images.error();
    auto fused = graph::fuse(*images);
    if (!fused || (mixed && onProcessors))
        return fused;
    return graph::chooseLayouts(*std::move(fused));
}

} // namespace planloom::compile

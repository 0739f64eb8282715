// SPDX-License-Identifier: Apache-2.0
#include "engine/program/lower.h"

#include "engine/graph/fuse.h"
#include "engine/graph/precision.h"

namespace planloom::program {

Result<graph::TrainingGraph> lower(graph::TrainingGraph training, const plan::Plan &plan)
{
    if (plan.precision != plan::Precision::BFloat16)
        return graph::fuse(training);
    const auto mixed = graph::toBFloat16(training);
    return mixed ? graph::fuse(*mixed) : mixed.error();
}

} // namespace planloom::program

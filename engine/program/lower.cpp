// SPDX-License-Identifier: Apache-2.0
#include "engine/program/lower.h"

namespace planloom::program {

Result<graph::TrainingGraph> lower(graph::TrainingGraph training, const plan::Plan &plan)
{
    if (plan.precision == plan::Precision::BFloat16)
        return unsupported("precision bf16 is not available; train in fp32");
    return training;
}

} // namespace planloom::program

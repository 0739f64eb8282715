// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/cost/cost.h"
#include "engine/plan/batch_form.h"
#include "engine/plan/plan.h"

#include <string>

namespace planloom::profiler {

/// Measures what samplers and graph stores of @p plan do on this machine, on the graph in @p folder: the draw of
/// mini-batches, rows that are packed, and mini-batches that are put together. Adds to Profile::extra
/// "sampler_draw_seconds_per_place", "store_seconds_per_row" and "sampler_load_seconds_per_place", medians over some
/// tens of mini-batches of the plan's size, while @p ranks threads do so on cores of their own, at most as many as
/// there are. Errors: BadInput (a plan without a job), those of SampledSource::open.
Status measureSampling(const plan::Plan &plan, plan::BatchForm form, const std::string &folder, int ranks,
                       cost::Profile &profile);

} // namespace planloom::profiler

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/exchange.h"

namespace planloom::planners {

/// Seconds in which local steps make the progress of one step of SGD: what one of them takes (Zhou et al., DaSGD, arXiv
/// 2006.00441: an average is waited for where its delay is shorter) by the share that merges keep; infinite where they
/// keep nothing. @p step: seconds of a step without averages, above 0. @p exchange: seconds of an average.
double secondsPerEffectiveStep(const plan::DelayedAveraging &averaging, double step, double exchange);

/// @p averaging with the delay that suits these times. Corrected merges: the least that hides the average, in rounds
/// that are no shorter. Convex merges, which throw away a part of each step of the delay: that with the least seconds
/// per effective step, in rounds as long as they are, as longer ones keep more; 0 where waiting costs less.
plan::DelayedAveraging withBestDelay(plan::DelayedAveraging averaging, double step, double exchange);

} // namespace planloom::planners

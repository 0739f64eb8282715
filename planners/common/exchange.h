// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <string_view>

namespace planloom::planners {

/// An exchange that plans of any planner can be given.
struct ExchangeRequest {
    plan::Exchange exchange;
    bool findsDelay = false;       ///< the best delay of averages, by simulated times
    bool findsAcrossSteps = false; ///< whether sums of gradients may end in the next step, by simulated times
    bool findsScheduling = false;  ///< of exchange embrace, where no table is named: the fastest by simulated times
};

/// Reads "KIND[,KEY=VALUE...]", where delay=auto leaves the delay of dasgd to simulated times, and across_steps=auto
/// whether sums may end in the next step. Errors: those of
/// plan::exchangeFromText.
Result<ExchangeRequest> exchangeRequest(std::string_view text);

/// @p report with the requested exchange in its plan, predicted anew, as are its alternatives; those that cannot have
/// it are dropped. The estimate's time is that of the plan with the exchange (takeSimulated), as planners know
/// synchronous training alone. Of dasgd the estimate says averaging_step_seconds (of a step without the average),
/// averaging_exchange_seconds (of one average), averaging_hidden_share (of it), averaging_effective_share (of the
/// steps' progress, plan::DelayedAveraging) and averaging_effective_step_seconds (of a step, by that share).
/// delay=auto: withBestDelay() (averaging_delay.h). Of embrace the tables are filled in (exchange_tables.h), with
/// dense=dasgd both. Errors: those of validation, Infeasible (what is averaged, or rows on their way, do not fit beside
/// the plan). Cost: three simulations for dasgd, for embrace up to nine a table where none is named, else one, and one
/// for each alternative.
Result<PlanReport> withExchange(PlanReport report, const Problem &problem, const ExchangeRequest &request);

} // namespace planloom::planners

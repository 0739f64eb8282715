// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/sums.h"

#include <functional>
#include <string>

namespace planloom::admm {

/// A training in progress. Samples are split over the workers; with one of them this is the algorithm without
/// parallelism.
struct Training {
    Method method;
    Parameters parameters;
    std::vector<Worker> workers;

    /// Splits the samples into @p workers runs of nearly equal length. Errors: as Method::of(); BadInput, fewer samples
    /// than workers.
    static Result<Training> of(const Settings &settings, const Parameters &parameters, const Samples &samples,
                               int workers);
};

/// Told the block after each update: "o", "c", "V", "h3" (of step 3, from 1), "a3", "b", "W", "U", "VC", "UWB",
/// "duals".
using AfterUpdate = std::function<void(const std::string &block)>;

/// One iteration: restart, backward, forward, duals. SP-ADMMiRNN where there are several workers: all sums are
/// exchanged, three times in the exact form, ten times in the linearised one. Error: BadInput, a system without a
/// Cholesky factor.
Status iterate(Training &training, const AfterUpdate &after = {});

/// The parts of an iteration that lie between two exchanges; what an asynchronous worker does.
Status sweepBackward(Worker &worker, const Parameters &parameters, const Method &method, const AfterUpdate &after = {});
Status sweepForward(Worker &worker, const Parameters &parameters, const Method &method, const AfterUpdate &after = {});

} // namespace planloom::admm

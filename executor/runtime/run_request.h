// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <string>

namespace planloom::runtime {

/// What a worker finds in RUN/request.json, but for the plan (resources/docs/formats/run.md).
struct RunRequest {
    std::string data;
    std::int64_t steps = 0;
    std::int64_t seed = 1;
    double holdout = 0;
    double timeoutSeconds = 60;
    std::int64_t threads = 0; ///< 0: this rank's share of the cores
    std::int64_t traceEvery = 1; ///< one step in so many is traced; 0: none
    std::int64_t validateEvery = 0;
    std::int64_t earlyStop = 0; ///< validations without a better loss
    std::int64_t checkpointEvery = 0;
    std::int64_t keep = 0;
    std::int64_t lease = 0;
    std::int64_t firstStep = 0;
    std::int64_t firstSample = -1; ///< samples that were consumed before it; -1: as many as these steps take
    std::string checkpoint; ///< folder to begin from; empty: first values
};

/// Errors: NotFound, BadInput (naming the field).
Result<RunRequest> readRequest(const std::string &path);

} // namespace planloom::runtime

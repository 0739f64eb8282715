// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <set>
#include <string>

namespace planloom::run {

/// How a plan is trained. Everything but the data has a sensible default.
struct Settings {
    std::string
        data; ///< text, token file, .npy, CSV(.gz), IDX or a folder of .npy files; absolute, on the agent's machine
    std::int64_t steps = 100;
    std::int64_t seed = 1;            ///< of weights and of the order of samples
    double holdout = 0;               ///< share of the samples that is kept from training and evaluated at the end
    std::int64_t threads = 0;         ///< OpenMP threads of each rank; 0: its share of the cores
    double timeoutSeconds = 0;        ///< no communication may stand still for longer; 0: kTimeoutSeconds
    std::int64_t checkpointEvery = 0; ///< steps; 0: no checkpoints
    std::int64_t keep = 3;            ///< newest checkpoints that stay; 0: all
    std::int64_t restarts = 0; ///< how often a run whose ranks died or hang is started again from its newest checkpoint
    std::int64_t validateEvery = 0; ///< steps between evaluations on the validation set; 0: only at the end
    std::int64_t earlyStop = 0;     ///< end after so many validations without a better loss; 0: never
    std::int64_t traceEvery = 1;    ///< one step in so many is traced; 0: none
    double kernelSeconds = 0;       ///< kernels of GPUs are recorded for so long from the first of them on; 0: not
    std::int64_t paced = 0; ///< 1: messages between the machines of a sampled job take as long as on their cards
    std::string arrivals; ///< RUN/arrivals.csv of a run with a parameter server, whose versions are made again as they
                          ///< were; absolute; empty: as workers arrive
    double hungSeconds = 0; ///< without a sign of life or progress a rank counts as hung; at least five steps
                            ///< (the longest of a round); 0: 30

    static constexpr double kTimeoutSeconds = 60;
    static constexpr double kMostKernelSeconds = 3600;
    /// Seconds.
    [[nodiscard]] double timeout() const { return timeoutSeconds > 0 ? timeoutSeconds : kTimeoutSeconds; }
};

/// Checks that need neither data nor plan. Error: BadInput.
Status check(const Settings &settings);

/// Where a group of workers begins.
struct Beginning {
    std::int64_t step = 0;
    std::int64_t sample = -1; ///< samples that were consumed before it; -1: as many as these steps take
    std::string checkpoint;   ///< folder that holds the state before that step; empty: first values
    std::int64_t lease = 0;   ///< epoch of the group; 0: it writes no checkpoints
};

/// The contents of RUN/request.json (resources/docs/formats/run.md): the settings of workers, except the plan.
struct Request {
    Settings settings;
    Beginning from;
};
std::string toJson(const Request &request);
/// Errors: NotFound, BadInput (naming line and field).
Result<Request> readRequest(const std::string &path);

/// @p before, but for the settings named in @p given, which are as in @p now. Settings go by their keys in
/// request.json; "restarts" and "hung_seconds", which are not in it, by these.
Settings merged(const Settings &before, const Settings &now, const std::set<std::string> &given);

} // namespace planloom::run

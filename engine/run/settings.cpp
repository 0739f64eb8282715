// SPDX-License-Identifier: Apache-2.0
#include "engine/run/settings.h"

#include <fmt/format.h>

namespace planloom::run {

Status check(const Settings &settings)
{
    constexpr int kMostThreads = 1024;
    if (settings.steps < 1)
        return badInput(fmt::format("{} steps cannot be trained; ask for at least 1", settings.steps));
    if (!(settings.holdout >= 0 && settings.holdout < 1))
        return badInput(fmt::format("a share of {} of the samples cannot be held out; give one from 0 to below 1",
                                    settings.holdout));
    if (settings.threads < 0 || settings.threads > kMostThreads || !(settings.timeoutSeconds >= 0))
        return badInput("threads and time limit must not be negative");
    if (settings.checkpointEvery < 0 || settings.keep < 0 || settings.restarts < 0 || settings.validateEvery < 0
        || settings.earlyStop < 0 || settings.traceEvery < 0 || !(settings.hungSeconds >= 0))
        return badInput("steps between checkpoints and validations, and numbers of checkpoints, restarts and "
                        "validations must not be negative");
    if (!(settings.kernelSeconds >= 0 && settings.kernelSeconds <= Settings::kMostKernelSeconds))
        return badInput(fmt::format("kernels cannot be recorded for {} s; give a time from 0 to {}",
                                    settings.kernelSeconds, Settings::kMostKernelSeconds));
    if ((settings.validateEvery > 0 || settings.earlyStop > 0) && settings.holdout == 0)
        return badInput("there is nothing to validate with; hold out a share of the samples, such as 0.1");
    if (settings.earlyStop > 0 && settings.validateEvery == 0)
        return badInput("an early stop needs validations; set the steps between them");
    if (settings.data.empty())
        return badInput("no data was named; give a text, token, .npy, CSV or IDX file, or a folder of .npy files");
    return {};
}

} // namespace planloom::run

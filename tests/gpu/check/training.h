// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "executor/device/device.h"

#include <memory>
#include <string>
#include <vector>

namespace planloom::check {

/// One device of type @p gpu: the built-in type of that family or, if there is none, one with an A100's figures and
/// that name.
Result<std::shared_ptr<const cluster::Cluster>> clusterOf(const std::string &gpu);

/// A plan of one rank.
plan::Plan planOf(const plan::Subject &subject, std::int64_t batch, std::int64_t microBatch, plan::Precision precision);

/// Figures of a training's steps.
struct Trained {
    std::vector<double> losses;
    std::vector<double> seconds;
    std::int64_t arenaPlanned = 0;
    std::int64_t arenaUsed = 0;
};
/// Trains on made-up data, in this process. @p device: nullptr: the processors. Errors: those of compiling, of
/// RankExecutor.
Result<Trained> train(const plan::Subject &subject, const plan::Plan &plan, std::int64_t steps, device::Device *device);

} // namespace planloom::check

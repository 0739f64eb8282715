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
    std::uint64_t parameters = 0; ///< a number made of all bits of the parameters behind the last step
    std::int64_t recorded = 0;    ///< of what the GPU ran
    std::int64_t arenaPlanned = 0;
    std::int64_t arenaUsed = 0;
};
/// Trains on made-up data, in this process. @p device: nullptr: the processors. Errors: those of compiling, of
/// RankExecutor.
Result<Trained> train(const plan::Subject &subject, const plan::Plan &plan, std::int64_t steps, device::Device *device);

/// What is recorded of a GPU meanwhile.
enum class Recorded { Nothing, Graphs, Kernels };
/// Trains on GPU @p index, which is opened for it. Errors: also those of the GPU; NotFound (nothing can be recorded).
Result<Trained> trainRecorded(const plan::Subject &subject, const plan::Plan &plan, std::int64_t steps, int index,
                              Recorded what);

} // namespace planloom::check

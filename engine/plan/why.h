// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::plan {

/// The parts of one iteration of a stage on its busiest device, by the simulator.
struct StageWhy {
    std::string device;
    double forwardSeconds = 0;
    double backwardSeconds = 0;
    double recomputeSeconds = 0;
    double optimizerSeconds = 0;
    double boxingSeconds = 0;          ///< collectives among the devices that share a replica
    double transferSeconds = 0;        ///< activations and gradients to and from neighbouring stages
    double exchangeSeconds = 0;        ///< gradients summed up over replicas
    double exposedExchangeSeconds = 0; ///< the part of it that nothing is computed beside
    double idleSeconds = 0;            ///< the compute lane waits: the pipeline's bubble and exposed communication
    std::int64_t parameterBytes = 0;
    std::int64_t gradientBytes = 0;
    std::int64_t optimizerBytes = 0;
    std::int64_t activationBytes = 0; ///< kept for the backward pass, for all micro-batches in flight
    std::int64_t otherBytes = 0;      ///< buffers at the ends, workspace
    std::int64_t capacityBytes = 0;
    std::string limit;  ///< "compute", "link", "memory", "role" (another process than those of the stage)
    std::string detail; ///< which link, how much memory is left: for people
    friend bool operator==(const StageWhy &, const StageWhy &) = default;
};

/// The best of the plans that were not chosen.
struct RunnerUp {
    std::string notation;
    double iterationSeconds = 0;
    std::vector<std::string> differences; ///< from the chosen plan to this one, a line each
    friend bool operator==(const RunnerUp &, const RunnerUp &) = default;
};

/// Why a plan is what it is: what its time and memory consist of, what keeps it from being faster, and what it was
/// preferred to.
struct Why {
    std::vector<StageWhy> stages;
    std::string limit; ///< of the whole iteration
    std::string detail;
    std::optional<RunnerUp> runnerUp;
    friend bool operator==(const Why &, const Why &) = default;
};

/// The plan file's field `why`, one line.
std::string toJson(const Why &why);
Result<Why> whyFromJson(std::string_view text);

} // namespace planloom::plan

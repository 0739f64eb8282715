// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace planloom::planners::automatic {

/// The devices of a cluster in an order of which stages take runs: neighbours are well connected. Long lines are taken
/// in units.
struct DeviceLine {
    std::string name;
    std::vector<DeviceId> devices;
    std::size_t unit = 1; ///< devices; a run that the dynamic programme takes begins and ends at multiples
};

/// Lines worth a search: by id; with several device types, also with the types in reverse. @p windows: most units of a
/// line.
std::vector<DeviceLine> deviceLines(const cluster::Cluster &cluster, std::size_t windows);

/// How a replica's devices share its tensors (Megatron-LM's layout): 1 device: whole.
struct Degree {
    int tensor = 1;
    bool sequence = false; ///< activations between the blocks split along the tokens
    friend auto operator<=>(const Degree &, const Degree &) = default;
};

/// The choices common to all stages of a plan.
struct Shape {
    std::size_t line = 0;
    Degree degree;
    std::int64_t microBatches = 1;
    plan::ScheduleKind schedule = plan::ScheduleKind::OneF1B;
    int zero = 0;
    friend auto operator<=>(const Shape &, const Shape &) = default;
};

/// One stage: layers [first, last) on devices [begin, end) of the line, in groups of Degree::tensor, each a replica.
struct Part {
    std::size_t first = 0, last = 0;
    std::size_t begin = 0, end = 0;
    plan::Recompute recompute = plan::Recompute::None; ///< none, selective, or StageCosts::recomputed()
    [[nodiscard]] std::size_t devices() const { return end - begin; }
    friend auto operator<=>(const Part &, const Part &) = default;
};

/// A plan in the terms of the search. Parts are in the order of layers, and of devices.
struct Sketch {
    Shape shape;
    std::vector<Part> parts;
    friend auto operator<=>(const Sketch &, const Sketch &) = default;
};

} // namespace planloom::planners::automatic

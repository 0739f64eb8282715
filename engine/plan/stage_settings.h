// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <compare>
#include <string>
#include <vector>

namespace planloom::plan {

/// Settings that decide the operators and buffers of a stage's replica, besides its layers, its shardings and its
/// neighbours.
struct BodySettings {
    std::vector<int> mesh; ///< sizes; {devices} where the stage names none
    int zero = 0;
    Recompute recompute = Recompute::None;
    friend auto operator<=>(const BodySettings &, const BodySettings &) = default;
};

/// Everything of a stage on which its simulation depends but layers, devices and shardings. Caches, folding and `auto`
/// compare stages by it: a new member of Stage does not compile until it has a place here.
struct StageSettings {
    BodySettings body;
    std::vector<double> replicaShares;
    int registers = 0;
    Memory memory;
    friend auto operator<=>(const StageSettings &, const StageSettings &) = default;
};

StageSettings settingsOf(const Stage &stage);
/// Different for different settings.
std::string textOf(const BodySettings &settings);
std::string textOf(const StageSettings &settings);

} // namespace planloom::plan

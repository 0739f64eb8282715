// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/plan.h"
#include "engine/simulate/live_memory.h"
#include "ui/state/selection.h"

#include <cstddef>
#include <map>
#include <string>

namespace planloom::ui {

/// What lies in the memory of one device over a simulated iteration, with the names that views show. Immutable.
struct LiveDevice {
    std::size_t rank = 0; ///< of the simulation's devices
    std::string device;
    simulate::LiveMemory memory;
    std::map<TaskId, std::string> tasks;                  ///< ids of those that its blocks name
    std::map<simulate::BlockKind, std::string> kindNames; ///< what kinds are called here; others as simulate::name()
    bool named = true; ///< false: too many devices for the names of tensors within slots

    [[nodiscard]] const std::string &taskOf(TaskId task) const;
};

/// Of device @p rank of the simulation of @p document. Errors: those of compile and simulate. Cost: both, and of plans
/// for 64 devices at most the operators of all of them: not for the UI thread.
Result<LiveDevice> liveDevice(const plan::Document &document, std::size_t rank);

/// The layer of the operator that makes, or first reads, the tensor that @p name is of: "grad/h/0/x#1" is of "h/0/x".
/// Empty where the model has no such tensor. Cost: O(tensors).
LayerRange layersOfTensor(const plan::Subject &subject, const std::string &name);

} // namespace planloom::ui

// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/plan.h"
#include "engine/simulate/live_memory.h"
#include "ui/state/selection.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace planloom::ui {

/// Of blocks what a picture of all of them reads: less than half of their bytes.
class BlockOutlines {
public:
    struct Outline {
        double begin = 0; ///< as of simulate::LiveBlock, the others, too
        double end = 0;
        std::int64_t offset = -1;
        std::int64_t bytes = 0;
    };

    BlockOutlines() = default;
    explicit BlockOutlines(const std::vector<simulate::LiveBlock> &blocks);

    [[nodiscard]] std::size_t size() const { return m_outlines.size(); }
    [[nodiscard]] const Outline &operator[](std::size_t block) const { return m_outlines[block]; }
    [[nodiscard]] simulate::BlockKind kind(std::size_t block) const { return m_kinds[block]; }

private:
    std::vector<Outline> m_outlines;
    std::vector<simulate::BlockKind> m_kinds;
};

/// What lies in the memory of one device over a simulated iteration, with the names that views show. Immutable.
struct LiveDevice {
    std::size_t rank = 0; ///< of the simulation's devices
    std::string device;
    simulate::LiveMemory memory;
    BlockOutlines outlines;                               ///< of the memory's blocks
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

// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "engine/program/program.h"
#include "engine/simulate/copy_stalls.h"
#include "engine/simulate/tensor_stays.h"
#include "ui/state/selection.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace planloom::ui {

/// What the memory policies of a plan decide, where each tensor that they move is over an iteration, and what that
/// costs, with the names that views show. Immutable.
struct MemoryMoves {
    struct Tensor {
        DeviceId device;
        QString name;
        QString op;        ///< that makes it
        LayerRange layers; ///< of the operator; empty: not known
        std::int32_t microBatch = 0;
        std::int64_t bytes = 0;
        std::string made; ///< id of the task that makes it first
        std::vector<simulate::Stay> stays;
    };
    struct Decision {
        std::size_t tensor = 0; ///< in tensors
        memory::Decision what;
        std::string task;    ///< id of the copy to the host, or of the run in which it is made again
        std::string room;    ///< id of the run that there is room for then
        std::int64_t at = 0; ///< nanoseconds of the iteration as simulated: when that run starts, or `task` without
                             ///< one; what.seconds is by the policy's own clock, which knows no waiting
        /// Seconds of the copies there and back, and of what would run again in their place, as the director counts it.
        double copySeconds = 0;
        double againSeconds = 0;
    };
    /// A compute lane stands still for a copy.
    struct Stall {
        DeviceId device;
        std::int64_t begin = 0; ///< nanoseconds of the iteration
        std::int64_t end = 0;
        std::string copy; ///< id of its task
    };
    /// Bytes of the pool that a policy limits, in use on a device from `time` on.
    struct PoolLevel {
        std::int64_t time = 0; ///< nanoseconds of the iteration
        std::int64_t bytes = 0;
    };
    struct Pool {
        DeviceId device;
        std::vector<PoolLevel> levels; ///< in time order
        [[nodiscard]] std::int64_t at(std::int64_t time) const;
    };
    std::vector<Tensor> tensors;
    std::vector<Decision> decisions;
    std::vector<Stall> stalls; ///< by device, in time order
    std::vector<Pool> pools;   ///< of devices with a policy
    std::int64_t end = 0;      ///< of the iteration, nanoseconds

    [[nodiscard]] const Pool *poolOf(DeviceId device) const; ///< nullptr: it has none
};

/// Of @p program, which has bodies where names are wanted, and a trace of its own; it is that of @p document. Null
/// where it has no policy. Not for the UI thread.
std::shared_ptr<const MemoryMoves> memoryMoves(const program::Program &program, const plan::Document &document,
                                               const trace::Trace &trace);

} // namespace planloom::ui

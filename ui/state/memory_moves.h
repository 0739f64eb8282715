// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "engine/program/program.h"
#include "engine/simulate/tensor_stays.h"
#include "ui/state/selection.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace planloom::ui {

/// What the memory policies of a plan decide, and where each tensor that they move is over an iteration, with the names
/// that views show. Immutable.
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
        std::string task; ///< id of the copy to the host, or of the run in which it is made again
        std::string room; ///< id of the run that there is room for then
    };
    std::vector<Tensor> tensors;
    std::vector<Decision> decisions;
    std::int64_t end = 0; ///< of the iteration, nanoseconds
};

/// Of @p program, which has bodies where names are wanted, and a trace of its own. Null where it has no policy that
/// moves anything. Not for the UI thread.
std::shared_ptr<const MemoryMoves> memoryMoves(const program::Program &program, const plan::Subject &subject,
                                               const trace::Trace &trace);

} // namespace planloom::ui

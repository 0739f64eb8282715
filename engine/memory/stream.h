// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace planloom::memory {

/// A buffer that a policy may take from the device: a tensor with all its views.
struct Storage {
    std::int64_t bytes = 0;
    std::int32_t producer = -1; ///< operator that makes it; -1: none
    bool recomputable = true;   ///< its operator can run again, as can those of what that reads
    /// The host has it from the beginning to the end, and no operator changes it: it comes from there, and leaves
    /// without a copy. Without a producer; all others without one are always there and never leave.
    bool hosted = false;
};

/// An operator of the stream that one device runs, in order.
struct Operator {
    double seconds = 0;
    std::vector<std::int32_t> inputs;  ///< storages, in the order in which they are brought back; each once
    std::vector<std::int32_t> outputs; ///< storages that it makes
    std::vector<std::int32_t> dies;    ///< storages that no later operator reads
    std::int64_t scratchAgain = 0;     ///< bytes of the pool that it needs beside its outputs when it runs again
};

/// What a device does in a step, as far as a memory policy sees it.
struct Stream {
    std::vector<Storage> storages;
    std::vector<Operator> operators;

    /// Per operator: the bytes of all storages that are alive while it runs if none ever leaves; hosted ones are from
    /// their first use on.
    [[nodiscard]] std::vector<std::int64_t> aliveBytes() const;
    /// The most of these.
    [[nodiscard]] std::int64_t peakBytes() const;
    [[nodiscard]] double seconds() const; ///< of all operators, once each
};

} // namespace planloom::memory

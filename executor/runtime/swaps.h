// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/rank_parts.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace planloom::runtime {

/// The copies from and to the host tier of a rank's memory policy (HostTier), one at a time in each direction. Where
/// the device's queues run in the host's own thread a thread for each direction copies, so that operators go on; else
/// the lanes' queues do. Thread contract: one thread calls it.
class Swaps {
public:
    /// @p parts must have their host tier. Nothing, if the rank swaps nothing.
    Status prepare(RankParts &parts);
    /// Begins the copy of @p task; the one before in its direction has ended.
    void start(const program::Task &task, const program::Swap &swap);
    /// The optimizer's states that lie in the host tier between updates go there, or come to their place for a
    /// reader between steps; waits for the copy. Nothing, if they stay on the device. Errors: Io, those of
    /// drain().
    Status moveStates(bool out);
    /// Between steps: seconds of the copy of @p task, a Swap of a tensor or of an update's part, in the direction @p
    /// out; the median of a few. What lies at its place on the device is no one's then; what the host has of a part
    /// stays, if the part came in before it goes out. Errors: those of moveStates.
    Result<double> measure(const program::Task &task, bool out);
    /// True once the copy in this direction has ended, or has been given to its queue. Error: Io.
    Result<bool> test(bool out);

private:
    void begin(bool out, const program::Body &body, const program::HostCopy &copy);
    Status finish(bool out);

    class Copier;
    /// Stops the threads before what they work on goes.
    struct Threads {
        std::array<std::unique_ptr<Copier>, 2> copiers; ///< in, out
        Threads();
        ~Threads();
        Threads(Threads &&) = delete;
    };

    RankParts *m_parts = nullptr;
    std::unique_ptr<Threads> m_threads;

public:
    Swaps();
    ~Swaps();
};

} // namespace planloom::runtime

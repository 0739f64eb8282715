// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"
#include "executor/comm/shared_memory.h"

#include <functional>
#include <pthread.h>

namespace planloom::comm {

/// Memory that all ranks of a Communicator share, zero at first: they are processes of one machine, or threads.
/// Move-only.
class SharedTable {
public:
    /// Collective, by messages of @p tag from rank 0 to all others; rank 0 calls @p prepare with the memory before any
    /// other rank has it. Errors: Failed (the system refuses, a rank is on another machine, or it does not come before
    /// @p deadline).
    static Result<SharedTable> open(Communicator &comm, std::int64_t bytes, int tag, std::chrono::nanoseconds deadline,
                                    const std::function<void(std::byte *)> &prepare);

    [[nodiscard]] std::byte *data() const { return m_memory.data(); }

private:
    MemoryFile m_file; ///< rank 0's must stay until all have opened it
    SharedMemory m_memory;
};

/// Makes @p mutex one that processes share.
void makeShared(pthread_mutex_t &mutex);

/// Holds a mutex that processes share. One of them that ends while it holds it leaves what it guards as it is then.
class SharedLock {
public:
    explicit SharedLock(pthread_mutex_t &mutex);
    ~SharedLock();
    SharedLock(const SharedLock &) = delete;
    SharedLock &operator=(const SharedLock &) = delete;

private:
    pthread_mutex_t &m_mutex;
};

} // namespace planloom::comm

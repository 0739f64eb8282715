// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/shared_table.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace planloom::comm {

namespace {

using SharedPath = std::array<char, 64>;

/// Rank 0's file, as the others open it.
Result<SharedPath> sharePath(Communicator &comm, const SharedPath &own, int tag, std::chrono::nanoseconds deadline)
{
    SharedPath path = own;
    const auto finish = [&](Result<Request> request) -> Status {
        return request ? comm.wait(*request, deadline, "memory that all ranks share") : Status(request.error());
    };
    if (comm.rank() != 0) {
        const Status came = finish(comm.irecv(path.data(), sizeof path, 0, tag));
        return came ? Result<SharedPath>(path) : Result<SharedPath>(came.error());
    }
    for (int peer = 1; peer < comm.size(); ++peer) {
        if (const Status left = finish(comm.isend(path.data(), sizeof path, peer, tag)); !left)
            return left.error();
    }
    return path;
}

} // namespace

Result<SharedTable> SharedTable::open(Communicator &comm, std::int64_t bytes, int tag,
                                      std::chrono::nanoseconds deadline,
                                      const std::function<void(std::byte *)> &prepare)
{
    SharedTable made;
    const auto map = [&](Result<MemoryFile> file) -> Status {
        if (!file)
            return file.error();
        auto memory = SharedMemory::ofFile(file->descriptor(), 0, bytes);
        if (!memory)
            return memory.error();
        made.m_memory = *std::move(memory);
        made.m_file = *std::move(file);
        return {};
    };
    SharedPath own{};
    if (comm.rank() == 0) {
        if (const Status mapped = map(MemoryFile::create(bytes)); !mapped)
            return mapped.error();
        prepare(made.data());
        std::strncpy(own.data(), made.m_file.pathToShare().c_str(), own.size() - 1);
    }
    const auto path = sharePath(comm, own, tag, deadline);
    if (!path)
        return path.error();
    if (comm.rank() != 0) {
        if (const Status mapped = map(MemoryFile::open(path->data())); !mapped)
            return mapped.error();
    }
    return made;
}

void makeShared(pthread_mutex_t &mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

SharedLock::SharedLock(pthread_mutex_t &mutex) : m_mutex(mutex)
{
    if (pthread_mutex_lock(&m_mutex) == EOWNERDEAD)
        pthread_mutex_consistent(&m_mutex);
}

SharedLock::~SharedLock() { pthread_mutex_unlock(&m_mutex); }

} // namespace planloom::comm

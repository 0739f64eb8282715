// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace planloom::comm {

namespace {

Error refused(const char *what)
{
    return failed(std::string("shared memory for the ranks cannot be allocated (") + what + ": " + systemReason()
                  + ")");
}

} // namespace

SharedMemory::~SharedMemory()
{
    if (m_data != nullptr)
        ::munmap(m_data, static_cast<std::size_t>(m_bytes));
}

SharedMemory::SharedMemory(SharedMemory &&other) noexcept
    : m_data(std::exchange(other.m_data, nullptr)),
      m_bytes(std::exchange(other.m_bytes, 0))
{
}

SharedMemory &SharedMemory::operator=(SharedMemory &&other) noexcept
{
    std::swap(m_data, other.m_data);
    std::swap(m_bytes, other.m_bytes);
    return *this;
}

Result<SharedMemory> SharedMemory::map(int file, std::int64_t offset, std::int64_t bytes)
{
    const int flags = MAP_NORESERVE | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    void *data = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, flags, file, offset);
    if (data == MAP_FAILED)
        return refused("mmap");
    SharedMemory memory;
    memory.m_data = static_cast<std::byte *>(data);
    memory.m_bytes = bytes;
    return memory;
}

Result<SharedMemory> SharedMemory::forThreads(std::int64_t bytes) { return map(-1, 0, bytes); }

Result<SharedMemory> SharedMemory::ofFile(int file, std::int64_t offset, std::int64_t bytes)
{
    return map(file, offset, bytes);
}

MemoryFile::~MemoryFile()
{
    if (m_file >= 0)
        ::close(m_file);
}

MemoryFile::MemoryFile(MemoryFile &&other) noexcept : m_file(std::exchange(other.m_file, -1)) {}

MemoryFile &MemoryFile::operator=(MemoryFile &&other) noexcept
{
    std::swap(m_file, other.m_file);
    return *this;
}

Result<MemoryFile> MemoryFile::create(std::int64_t bytes)
{
    MemoryFile made;
    made.m_file = ::memfd_create("planloom-ranks", MFD_CLOEXEC);
    if (made.m_file < 0)
        return refused("memfd_create");
    if (::ftruncate(made.m_file, bytes) != 0)
        return refused("ftruncate");
    return made;
}

Result<MemoryFile> MemoryFile::open(const std::string &path)
{
    MemoryFile made;
    made.m_file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (made.m_file < 0)
        return refused("open");
    return made;
}

std::string MemoryFile::pathToShare() const
{
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(m_file);
}

} // namespace planloom::comm

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace planloom::comm {

/// Memory that several threads or processes see, zero at first. Only touched pages take space. It has no name that
/// could be left behind: it goes with the last process that holds it, however that ends. Move-only.
class SharedMemory {
public:
    SharedMemory() = default;
    ~SharedMemory();
    SharedMemory(SharedMemory &&other) noexcept;
    SharedMemory &operator=(SharedMemory &&other) noexcept;

    /// For the threads of this process. Errors: Failed (the system refuses).
    static Result<SharedMemory> forThreads(std::int64_t bytes);
    /// Bytes [offset, offset + bytes) of a file descriptor; @p offset is that of a page.
    static Result<SharedMemory> ofFile(int file, std::int64_t offset, std::int64_t bytes);

    [[nodiscard]] std::byte *data() const { return m_data; }

private:
    static Result<SharedMemory> map(int file, std::int64_t offset, std::int64_t bytes);
    std::byte *m_data = nullptr;
    std::int64_t m_bytes = 0;
};

/// A file in memory that other processes of the same user can open by pathToShare(). Move-only; closed when it goes.
class MemoryFile {
public:
    MemoryFile() = default;
    ~MemoryFile();
    MemoryFile(MemoryFile &&other) noexcept;
    MemoryFile &operator=(MemoryFile &&other) noexcept;

    /// Errors: Failed (the system refuses).
    static Result<MemoryFile> create(std::int64_t bytes);
    static Result<MemoryFile> open(const std::string &path);

    [[nodiscard]] int descriptor() const { return m_file; }
    [[nodiscard]] std::string pathToShare() const;

private:
    int m_file = -1;
};

} // namespace planloom::comm

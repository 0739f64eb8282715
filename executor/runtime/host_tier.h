// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/device/device.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace planloom::runtime {

/// What a rank's memory policy has on the host: in the host's memory, or in a file that is removed with the rank. Zeros
/// at first. Thread contract: threads copy at the same time if their ranges do not meet.
class HostTier {
public:
    struct FreeAligned {
        void operator()(std::byte *data) const { std::free(data); }
    };
    /// Of a thread that copies, through which a file's bytes go; made with the first copy.
    using Buffer = std::unique_ptr<std::byte, FreeAligned>;

    /// Of @p own, a rank of @p program. Nothing, if it has nothing there. Errors: Failed (memory), Io (the file cannot
    /// be made or is too large), Unsupported (@p device copies to memory only).
    Status prepare(const program::Program &program, const program::Rank &own, device::Device &device);

    /// The address of @p host; not of a file.
    [[nodiscard]] std::byte *memory(std::int64_t host) { return m_memory.data() + host; }
    [[nodiscard]] bool isFile() const { return m_file != nullptr; }
    /// Between @p data, which the processor can address, and [@p host, @p host + @p bytes). What goes to a file begins
    /// with a block, and is no one else's up to the end of its last. Errors: Io.
    Status copy(bool out, std::byte *data, std::int64_t host, std::int64_t bytes, Buffer &buffer);
    /// The same for any range, between steps.
    Status copyAnywhere(bool out, std::byte *data, std::int64_t host, std::int64_t bytes);

    /// Where the range of @p held that has place @p offset in the arena lies; -1: there.
    [[nodiscard]] std::int64_t placeOf(const program::PersistentTensor &held, std::int64_t offset) const;

private:
    class File;
    Status throughFile(bool out, std::byte *data, std::int64_t host, std::int64_t bytes, Buffer &buffer, bool keeps);

    const program::Rank *m_own = nullptr;
    std::int64_t m_poolBegin = 0;
    device::Memory m_memory;
    std::shared_ptr<File> m_file; ///< null: memory
};

} // namespace planloom::runtime

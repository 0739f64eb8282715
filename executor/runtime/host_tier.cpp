// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/host_tier.h"

#include "engine/base/units.h"
#include "engine/memory/host_blocks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace planloom::runtime {
namespace {

using memory::kHostBlock; ///< of direct I/O

constexpr std::int64_t kPiece = std::int64_t{8} << 20; ///< of a copy through a file: its buffer

Error tierError(const std::string &what, const std::string &folder)
{
    return Error{ErrorCode::Io,
                 fmt::format("{} in {}: {}; give host_tier another folder, or memory", what, folder,
                             std::strerror(errno)),
                 {},
                 0};
}

} // namespace

/// A file without a name: it goes with the process.
class HostTier::File {
public:
    static Result<std::shared_ptr<File>> create(const std::string &folder, std::int64_t bytes)
    {
        std::string path = folder + "/planloom-swap-XXXXXX";
        const int made = ::mkstemp(path.data());
        if (made < 0)
            return tierError("a file for swapped tensors cannot be made", folder);
        auto file = std::make_shared<File>(made, folder);
        // Without the page cache where the file system can do that: what is swapped would only take memory twice.
        if (const int direct = ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC); direct >= 0) {
            ::close(made);
            file->m_file = direct;
        }
        ::unlink(path.c_str());
        if (const int error = ::posix_fallocate(file->m_file, 0, bytes); error != 0) {
            errno = error;
            return tierError(fmt::format("there is no room for {} of swapped tensors", format(Bytes(bytes))), folder);
        }
        return file;
    }
    File(int file, std::string folder) : m_file(file), m_folder(std::move(folder)) {}
    ~File() { ::close(m_file); }
    File(const File &) = delete;
    File &operator=(const File &) = delete;

    /// Whole blocks at @p buffer, which is aligned to them.
    Status move(bool out, std::byte *buffer, std::int64_t offset, std::int64_t bytes) const
    {
        for (std::int64_t done = 0; done < bytes;) {
            const auto left = static_cast<std::size_t>(bytes - done);
            const ssize_t moved = out ? ::pwrite(m_file, buffer + done, left, offset + done)
                                      : ::pread(m_file, buffer + done, left, offset + done);
            if (moved < 0 && errno == EINTR)
                continue;
            if (moved <= 0)
                return tierError(out ? "swapped tensors cannot be written" : "swapped tensors cannot be read",
                                 m_folder);
            done += moved;
        }
        return {};
    }

private:
    int m_file;
    std::string m_folder;
};

Status HostTier::prepare(const program::Program &program, const program::Rank &own, device::Device &device)
{
    m_own = &own;
    if (!own.hostedParts.empty())
        m_poolBegin = program.body(own.bodies.front()).pools[static_cast<std::size_t>(program::Area::Pool)].begin;
    if (own.hostBytes == 0)
        return {};
    if (own.hostTier == "memory") {
        auto memory = device.allocate(device::Space::Host, own.hostBytes);
        if (!memory)
            return memory.error();
        m_memory = std::move(*memory);
        if (!own.hostedParts.empty()) // states begin as zeros
            std::memset(m_memory.data(), 0, static_cast<std::size_t>(own.hostBytes));
        return {};
    }
    if (!device.hostAddressable())
        return unsupported("host_tier of the memory policy is a folder, and this device copies to memory only; "
                           "give host_tier=memory");
    const std::int64_t whole = memory::wholeHostBlocks(own.hostBytes);
    auto made = File::create(own.hostTier, whole);
    if (!made)
        return made.error();
    m_file = *std::move(made);
    return {};
}

Status HostTier::copy(bool out, std::byte *data, std::int64_t host, std::int64_t bytes, Buffer &buffer)
{
    if (m_file)
        return throughFile(out, data, host, bytes, buffer, false);
    if (out)
        std::memcpy(memory(host), data, static_cast<std::size_t>(bytes));
    else
        std::memcpy(data, memory(host), static_cast<std::size_t>(bytes));
    return {};
}

Status HostTier::copyAnywhere(bool out, std::byte *data, std::int64_t host, std::int64_t bytes)
{
    Buffer buffer;
    return m_file ? throughFile(out, data, host, bytes, buffer, out) : copy(out, data, host, bytes, buffer);
}

/// @p keeps: what else is in the first and the last block.
Status HostTier::throughFile(bool out, std::byte *data, std::int64_t host, std::int64_t bytes, Buffer &buffer,
                             bool keeps)
{
    if (!buffer)
        buffer.reset(static_cast<std::byte *>(
            std::aligned_alloc(static_cast<std::size_t>(kHostBlock), static_cast<std::size_t>(kPiece))));
    if (!buffer)
        return failed("there is no memory for a copy to the file of swapped tensors; close other programs");
    for (std::int64_t done = 0; done < bytes;) {
        const std::int64_t begin = (host + done) / kHostBlock * kHostBlock;
        const std::int64_t before = host + done - begin; // in its block
        const std::int64_t piece = std::min(kPiece - before, bytes - done);
        const std::int64_t whole = memory::wholeHostBlocks(before + piece);
        if (!out || (keeps && before + piece != whole) || before > 0)
            if (const Status read = m_file->move(false, buffer.get(), begin, whole); !read)
                return read;
        if (out) {
            std::memcpy(buffer.get() + before, data + done, static_cast<std::size_t>(piece));
            if (const Status written = m_file->move(true, buffer.get(), begin, whole); !written)
                return written;
        } else {
            std::memcpy(data + done, buffer.get() + before, static_cast<std::size_t>(piece));
        }
        done += piece;
    }
    return {};
}

std::int64_t HostTier::placeOf(const program::PersistentTensor &held, std::int64_t offset) const
{
    if (held.part < 0 || m_own == nullptr)
        return -1;
    // What is at the tensor's own place lies in the part, and so do states behind it.
    const program::HostCopy &part = m_own->hostedParts[static_cast<std::size_t>(held.part)];
    const std::int64_t behind = offset - m_poolBegin - part.place;
    return behind >= 0 && behind < part.bytes ? part.host + behind : -1;
}

} // namespace planloom::runtime

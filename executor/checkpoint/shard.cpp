// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/shard.h"

#include "engine/base/crc32c.h"
#include "engine/base/failpoint.h"
#include "engine/weights/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace planloom::checkpoint {

/// A file made anew; closed at the end.
class Shard::NewFile {
public:
    explicit NewFile(const std::string &path)
        : m_fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644))
    {
    }
    NewFile(const NewFile &) = delete;
    NewFile &operator=(const NewFile &) = delete;
    ~NewFile()
    {
        if (m_fd >= 0)
            ::close(m_fd);
    }
    [[nodiscard]] int get() const { return m_fd; }

private:
    int m_fd;
};

namespace {

Status makeFolder(const std::string &folder)
{
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) // the first rank makes it
        return ioError("cannot be made: " + systemReason() + "; free some space or choose another run folder")
            .in(folder);
    return {};
}

Status writeAll(int fd, const std::byte *data, std::int64_t bytes)
{
    while (bytes > 0) {
        const ssize_t put = ::write(fd, data, static_cast<std::size_t>(bytes));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return ioError("cannot be written: " + systemReason() + "; free some space or choose another run folder");
        data += put;
        bytes -= put;
    }
    return {};
}

Status syncFile(int fd) { return ::fsync(fd) == 0 ? Status() : ioError("cannot be made to last: " + systemReason()); }

/// How a piece is called in its rank's file: parameters by their own name, so that other programs can read them.
std::string keyOf(const Piece &piece, std::set<std::string> &taken)
{
    const std::string stem = piece.kind == Kind::Parameter ? piece.name : piece.kind.text() + "/" + piece.name;
    std::string key = stem;
    for (int i = 2; !taken.insert(key).second; ++i)
        key = stem + "#" + std::to_string(i);
    return key;
}

/// Sizes of the rank's part: its local tensor, or a row of elements where it holds only a range of that.
std::vector<std::int64_t> storedSizes(const Piece &piece)
{
    std::vector<std::int64_t> sizes;
    std::int64_t local = 1;
    for (const auto &axis : piece.region) {
        std::int64_t extent = 0;
        for (const auto &interval : axis)
            extent += interval.end - interval.begin;
        sizes.push_back(extent);
        local *= extent;
    }
    return local == piece.flatCount ? sizes : std::vector<std::int64_t>{piece.flatCount};
}

} // namespace

std::string checkpointsFolder(const std::string &runDir) { return runDir + "/checkpoints"; }
std::string finishedName(std::int64_t step) { return fmt::format("step-{:08d}", step); }
std::string unfinishedName(std::int64_t step, std::int64_t lease)
{
    return fmt::format(".step-{:08d}.epoch-{}", step, lease);
}
std::string shardName(int rank) { return fmt::format("rank-{:05d}.safetensors", rank); }
std::string partName(int rank) { return fmt::format("rank-{:05d}.json", rank); }

Result<std::unique_ptr<Shard>> Shard::create(std::vector<Piece> pieces, int rank)
{
    std::unique_ptr<Shard> shard(new Shard);
    shard->m_rank = rank;
    std::set<std::string> taken{"__metadata__"};
    std::vector<weights::StoredTensor> tensors;
    std::stable_partition(pieces.begin(), pieces.end(), [](const Piece &piece) { return piece.read != nullptr; });
    for (Piece &piece : pieces) {
        if (const Status good = check(piece); !good)
            return good.error();
        if (!piece.writes || piece.flatCount == 0)
            continue;
        const std::string key = keyOf(piece, taken);
        tensors.push_back({key, weights::formatName(piece.type), piece.type, storedSizes(piece), 0, 0});
        shard->m_bytes += piece.bytes();
        shard->m_streamed += piece.read ? piece.bytes() : 0;
        shard->m_pieces.push_back({std::move(piece), 0, key});
    }
    shard->m_header = weights::makeHeader(tensors, {{"format", "pt"}});
    const std::int64_t copied = shard->m_bytes - shard->m_streamed;
    if (copied == 0)
        return shard;
    void *copy =
        ::mmap(nullptr, static_cast<std::size_t>(copied), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return failed(fmt::format(
            "no memory for the {} bytes that a checkpoint copies aside; train without checkpoints or on more ranks",
            copied));
    shard->m_copy = static_cast<std::byte *>(copy);
    // Touched now, so that the first copy does not wait for pages.
    ::madvise(copy, static_cast<std::size_t>(copied), MADV_HUGEPAGE);
    std::memset(copy, 0, static_cast<std::size_t>(copied));
    shard->planCopy();
    return shard;
}

Shard::~Shard()
{
    if (m_copy != nullptr)
        ::munmap(m_copy, static_cast<std::size_t>(m_bytes - m_streamed));
}

/// Equal parts for the threads, whatever the sizes of the pieces.
void Shard::planCopy()
{
    constexpr std::int64_t kPart = 1 << 20;
    std::byte *out = m_copy;
    for (const StoredPiece &piece : m_pieces)
        for (std::int64_t at = 0; !piece.what.read && at < piece.what.bytes(); at += kPart) {
            const std::int64_t bytes = std::min(kPart, piece.what.bytes() - at);
            m_copies.push_back({piece.what.data + at, out, static_cast<std::size_t>(bytes)});
            out += bytes;
        }
}

void Shard::copy()
{
#ifdef __SANITIZE_THREAD__ // does not see libgomp's threads wait for each other
    constexpr std::int64_t kWorthThreads = std::numeric_limits<std::int64_t>::max();
#else
    constexpr std::int64_t kWorthThreads = 8 << 20;
#endif
    const auto count = std::ssize(m_copies);
#pragma omp parallel for schedule(static) if (m_bytes - m_streamed > kWorthThreads)
    for (std::ptrdiff_t i = 0; i < count; ++i)
        std::memcpy(m_copies[static_cast<std::size_t>(i)].to, m_copies[static_cast<std::size_t>(i)].from,
                    m_copies[static_cast<std::size_t>(i)].bytes);
}

Status Shard::writeData(int fd, const std::stop_token &stop, StoredFile &stored) const
{
    // Small enough to stop soon and to be in the cache for the second of checksum and write.
    constexpr std::int64_t kChunk = 1 << 20;
    const std::int64_t copied = m_bytes - m_streamed;
    for (std::int64_t at = 0; at < copied; at += kChunk) {
        if (stop.stop_requested())
            return cancelled();
        PLANLOOM_FAILPOINT("checkpoint.shard-data");
        const std::int64_t bytes = std::min(kChunk, copied - at);
        stored.checksum = crc32c({m_copy + at, static_cast<std::size_t>(bytes)}, stored.checksum);
        if (Status written = writeAll(fd, m_copy + at, bytes); !written)
            return written;
    }
    return {};
}

/// With its header.
Status Shard::beginFile(const std::string &folder)
{
    PLANLOOM_FAILPOINT("checkpoint.shard-create");
    m_begun = {std::make_unique<NewFile>(folder + "/" + shardName(m_rank)), 0};
    if (m_begun.file->get() < 0)
        return ioError("cannot be made: " + systemReason());
    PLANLOOM_FAILPOINT("checkpoint.shard-header");
    const auto header = std::as_bytes(std::span(m_header));
    m_begun.checksum = crc32c(header);
    return writeAll(m_begun.file->get(), header.data(), std::ssize(header));
}

Status Shard::streamPieces()
{
    constexpr std::int64_t kChunk = 4 << 20;
    std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(kChunk, m_streamed)));
    for (const StoredPiece &piece : m_pieces)
        for (std::int64_t at = 0; piece.what.read && at < piece.what.bytes(); at += kChunk) {
            const std::int64_t bytes = std::min(kChunk, piece.what.bytes() - at);
            if (Status read = piece.what.read(chunk.data(), at, bytes); !read)
                return read;
            m_begun.checksum = crc32c({chunk.data(), static_cast<std::size_t>(bytes)}, m_begun.checksum);
            if (Status written = writeAll(m_begun.file->get(), chunk.data(), bytes); !written)
                return written;
        }
    return {};
}

Status Shard::stream(const std::string &folder)
{
    if (m_streamed == 0)
        return {};
    if (Status made = makeFolder(folder); !made)
        return made;
    Status done = beginFile(folder);
    if (done)
        done = streamPieces();
    if (done)
        return {};
    m_begun = {};
    return done.error().in(folder + "/" + shardName(m_rank));
}

Status Shard::writeShard(const std::string &folder, const std::stop_token &stop, StoredFile &stored)
{
    if (m_streamed == 0)
        if (Status begun = beginFile(folder); !begun)
            return begun;
    const Begun begun = std::exchange(m_begun, {});
    if (!begun.file)
        return failed("a checkpoint's file was not begun");
    stored.checksum = begun.checksum;
    if (Status written = writeData(begun.file->get(), stop, stored); !written)
        return written;
    stored.bytes = std::ssize(m_header) + m_bytes;
    PLANLOOM_FAILPOINT("checkpoint.shard-fsync");
    return syncFile(begun.file->get());
}

Status Shard::write(const std::string &folder, Manifest head, const std::stop_token &stop)
{
    if (Status made = makeFolder(folder); !made)
        return made;
    if (!m_pieces.empty()) {
        StoredFile stored{shardName(m_rank), 0, 0};
        if (Status written = writeShard(folder, stop, stored); !written)
            return written.error().in(folder + "/" + stored.name);
        head.files = {stored};
        for (const StoredPiece &piece : m_pieces) {
            head.pieces.push_back(piece);
            head.pieces.back().what.data = nullptr;
            head.pieces.back().what.read = nullptr;
        }
    }
    PLANLOOM_FAILPOINT("checkpoint.part-write");
    const std::string path = folder + "/" + partName(m_rank);
    const NewFile part(path);
    if (part.get() < 0)
        return ioError("cannot be made: " + systemReason()).in(path);
    const std::string text = toJson(head);
    Status done = writeAll(part.get(), std::as_bytes(std::span(text)).data(), std::ssize(text));
    if (done)
        done = syncFile(part.get());
    if (!done)
        return done.error().in(path);
    PLANLOOM_FAILPOINT("checkpoint.shard-done");
    return {};
}

} // namespace planloom::checkpoint

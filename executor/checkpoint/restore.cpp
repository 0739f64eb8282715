// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/restore.h"

#include "engine/base/crc32c.h"
#include "engine/base/failpoint.h"
#include "engine/base/files.h"
#include "engine/weights/safetensors.h"
#include "executor/checkpoint/shard.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace planloom::checkpoint {
namespace {

namespace fs = std::filesystem;

Error otherBytes(const std::string &path)
{
    return badInput(
               "is not as it was written (its checksum differs): it was changed or the disk is faulty; use an older "
               "checkpoint")
        .in(path);
}

Status checkSizes(const Manifest &manifest)
{
    for (const StoredFile &file : manifest.files) {
        const std::string path = manifest.folder + "/" + file.name;
        struct stat info {};
        if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
            return badInput("is missing from its checkpoint").in(path);
        if (info.st_size != file.bytes)
            return badInput(fmt::format("is {} bytes long where {} were written", info.st_size, file.bytes)).in(path);
    }
    return {};
}

Result<Manifest> readCheckpoint(const std::string &folder)
{
    const std::string path = folder + "/" + kManifestName;
    const auto text = readFile(path);
    if (!text)
        return text.error();
    auto manifest = manifestFromJson(*text);
    if (!manifest)
        return manifest.error().in(path);
    manifest->folder = folder;
    Status good = checkComplete(*manifest);
    if (good)
        good = checkSizes(*manifest);
    if (!good)
        return good.error().in(path);
    return manifest;
}

Result<std::uint32_t> checksumOfFile(const std::string &path)
{
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return ioError(fmt::format("cannot be opened: {}", systemReason())).in(path);
    std::uint32_t sum = 0;
    std::vector<std::byte> chunk(1 << 20);
    ssize_t got = 0;
    while ((got = ::read(fd, chunk.data(), chunk.size())) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        sum = crc32c({chunk.data(), static_cast<std::size_t>(got)}, sum);
    }
    const std::string reason = systemReason();
    ::close(fd);
    if (got < 0)
        return ioError("cannot be read: " + reason).in(path);
    return sum;
}

Status verifyFile(const Manifest &manifest, const StoredFile &file)
{
    const std::string path = manifest.folder + "/" + file.name;
    const auto sum = checksumOfFile(path);
    if (!sum)
        return sum.error();
    return *sum == file.checksum ? Status() : Status(otherBytes(path));
}

using Identity = std::pair<Kind, std::string>;

/// Files of a checkpoint, opened as they are needed.
class Reader {
public:
    Reader(const Manifest &manifest, Checksums checksums)
        : m_manifest(manifest),
          m_checksums(checksums),
          m_files(manifest.files.size())
    {
        for (const StoredPiece &piece : manifest.pieces)
            m_pieces[{piece.what.kind, piece.what.name}].push_back(&piece);
    }

    Status fill(const Piece &piece)
    {
        if (const Status good = check(piece); !good)
            return good;
        const auto found = m_pieces.find({piece.kind, piece.name});
        if (found == m_pieces.end())
            return failure(piece, "is not in it; resume with the model and the optimizer that it was made with");
        const Piece &first = found->second.front()->what;
        if (first.type != piece.type)
            return failure(piece,
                           fmt::format("is {} in it and {} here", graph::name(first.type), graph::name(piece.type)));
        if (first.shape != piece.shape)
            return failure(piece,
                           fmt::format("has sizes [{}] in it and [{}] here", fmt::join(first.shape, ", "),
                                       fmt::join(piece.shape, ", ")));
        std::vector<Range> filled;
        for (const StoredPiece *stored : found->second)
            if (const Status copied = copy(*stored, piece, filled); !copied)
                return copied;
        return coveredOnce(piece, filled) ? Status()
                                          : failure(piece, "is not stored exactly once: the manifest is wrong");
    }

private:
    using Range = std::pair<std::int64_t, std::int64_t>; ///< begin and end, elements of the piece

    [[nodiscard]] Status failure(const Piece &piece, const std::string &what) const
    {
        return badInput(fmt::format("{} '{}' {}", piece.kind.text(), piece.name, what)).in(m_manifest.folder);
    }

    Result<const std::byte *> dataOf(const StoredPiece &stored)
    {
        const StoredFile &file = m_manifest.files[stored.file];
        auto &open = m_files[stored.file];
        if (!open) {
            PLANLOOM_FAILPOINT("checkpoint.restore-file");
            if (m_checksums == Checksums::Compare)
                if (const Status good = verifyFile(m_manifest, file); !good)
                    return good.error();
            auto opened = weights::SafetensorsFile::open(m_manifest.folder + "/" + file.name);
            if (!opened)
                return opened.error();
            open.emplace(*std::move(opened));
        }
        const weights::StoredTensor *tensor = open->header().find(stored.key);
        if (tensor == nullptr || tensor->type != stored.what.type || tensor->bytes() != stored.what.bytes())
            return badInput(fmt::format("does not hold '{}' as in the manifest", stored.key))
                .in(m_manifest.folder + "/" + file.name);
        return open->data(*tensor).data();
    }

    Status copy(const StoredPiece &stored, const Piece &piece, std::vector<Range> &filled)
    {
        const std::byte *data = nullptr;
        Status done;
        const std::int64_t size = graph::sizeOf(piece.type);
        eachCommonRun(stored.what, piece, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
            if (data == nullptr && done) {
                const auto found = dataOf(stored);
                done = found ? Status() : Status(found.error());
                data = found ? *found : nullptr;
            }
            if (!done)
                return;
            std::memcpy(piece.data + to * size, data + from * size, static_cast<std::size_t>(count * size));
            if (!filled.empty() && filled.back().second == to)
                filled.back().second += count;
            else
                filled.emplace_back(to, to + count);
        });
        return done;
    }

    static bool coveredOnce(const Piece &piece, std::vector<Range> &filled)
    {
        std::sort(filled.begin(), filled.end());
        std::int64_t at = 0;
        for (const auto &[begin, end] : filled) {
            if (begin != at)
                return false;
            at = end;
        }
        return at == piece.flatCount;
    }

    const Manifest &m_manifest;
    Checksums m_checksums;
    std::vector<std::optional<weights::SafetensorsFile>> m_files;
    std::map<Identity, std::vector<const StoredPiece *>> m_pieces;
};

} // namespace

std::vector<Manifest> checkpoints(const std::string &runDir, std::vector<std::string> *skipped)
{
    std::vector<Manifest> found;
    std::error_code ignored;
    for (const auto &entry : fs::directory_iterator(checkpointsFolder(runDir), ignored)) {
        if (!entry.path().filename().string().starts_with("step-")
            || !fs::exists(entry.path() / kManifestName, ignored))
            continue;
        auto manifest = readCheckpoint(entry.path().string());
        if (manifest)
            found.push_back(*std::move(manifest));
        else if (skipped != nullptr)
            skipped->push_back(manifest.error().text());
    }
    std::sort(found.begin(), found.end(), [](const Manifest &a, const Manifest &b) {
        return std::tie(a.state.step, a.lease) > std::tie(b.state.step, b.lease);
    });
    return found;
}

Status verify(const Manifest &manifest, int share, int shares)
{
    for (std::size_t i = static_cast<std::size_t>(share); i < manifest.files.size();
         i += static_cast<std::size_t>(shares))
        if (Status good = verifyFile(manifest, manifest.files[i]); !good)
            return good;
    return {};
}

Result<Manifest> newestCheckpoint(const std::string &runDir, std::vector<std::string> *skipped)
{
    for (Manifest &manifest : checkpoints(runDir, skipped)) {
        const Status good = verify(manifest);
        if (good)
            return std::move(manifest);
        if (skipped != nullptr)
            skipped->push_back(good.error().text());
    }
    return notFound("holds no complete checkpoint; train it from the start").in(runDir);
}

Status restore(const Manifest &manifest, std::span<const Piece> pieces, Checksums checksums)
{
    Reader reader(manifest, checksums);
    for (const Piece &piece : pieces)
        if (Status filled = reader.fill(piece); !filled)
            return filled;
    return {};
}

} // namespace planloom::checkpoint

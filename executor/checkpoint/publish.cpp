// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/publish.h"

#include "engine/base/failpoint.h"
#include "engine/base/files.h"
#include "executor/checkpoint/restore.h"
#include "executor/checkpoint/shard.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace planloom::checkpoint {
namespace {

namespace fs = std::filesystem;

Status writeLasting(const std::string &path, std::string_view text)
{
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return ioError("cannot be made: " + systemReason()).in(path);
    const ssize_t put = ::write(fd, text.data(), text.size());
    const bool whole = put == static_cast<ssize_t>(text.size());
    const std::string reason = put < 0 ? systemReason() : std::strerror(ENOSPC);
    const auto sync = [&]() -> Status {
        PLANLOOM_FAILPOINT("checkpoint.manifest-fsync");
        return ::fsync(fd) == 0 ? Status() : ioError("cannot be made to last: " + systemReason());
    };
    const Status synced =
        whole ? sync() : ioError("cannot be written: " + reason + "; free some space or choose another run folder");
    ::close(fd);
    return synced ? Status() : Status(synced.error().in(path));
}

/// The checkpoint's name; where an older worker group left one of the same step, a name beside it: nothing that exists
/// is replaced.
std::string freeName(const std::string &runDir, const Manifest &head)
{
    const std::string plain = checkpointsFolder(runDir) + "/" + finishedName(head.state.step);
    return fs::exists(plain) ? fmt::format("{}.epoch-{}", plain, head.lease) : plain;
}

/// From a folder of shards to a checkpoint; @p folder follows it.
Status finish(const std::string &runDir, const Manifest &manifest, std::string &folder)
{
    PLANLOOM_FAILPOINT("checkpoint.folder-rename");
    const std::string name = freeName(runDir, manifest);
    if (::rename(folder.c_str(), name.c_str()) != 0)
        return ioError("cannot be renamed: " + systemReason()).in(folder);
    folder = name;
    PLANLOOM_FAILPOINT("checkpoint.folder-renamed");
    if (Status synced = syncToDisk(checkpointsFolder(runDir)); !synced)
        return synced;
    PLANLOOM_FAILPOINT("checkpoint.manifest-write");
    const std::string place = folder + "/" + kManifestName;
    if (Status written = writeLasting(place + ".part", toJson(manifest)); !written)
        return written;
    PLANLOOM_FAILPOINT("checkpoint.manifest-rename");
    if (::rename((place + ".part").c_str(), place.c_str()) != 0)
        return ioError("cannot be put in place: " + systemReason()).in(place);
    return {};
}

/// The shards and descriptions of all ranks, and the files of finish().
void removeAll(const std::string &folder)
{
    std::error_code ignored;
    fs::remove_all(folder, ignored);
}

/// After the rename the checkpoint exists; this makes sure that it still does after a power cut.
Status settle(const std::string &runDir, const std::string &folder)
{
    PLANLOOM_FAILPOINT("checkpoint.manifest-renamed");
    if (Status synced = syncToDisk(folder); !synced)
        return synced;
    PLANLOOM_FAILPOINT("checkpoint.parent-fsync");
    return syncToDisk(checkpointsFolder(runDir));
}

/// Manifest first: from then on it is no checkpoint, whatever else is still there.
Status removeCheckpoint(const std::string &folder)
{
    PLANLOOM_FAILPOINT("checkpoint.prune");
    if (::unlink((folder + "/" + kManifestName).c_str()) != 0)
        return ioError("cannot be removed: " + systemReason()).in(folder);
    if (Status synced = syncToDisk(folder); !synced)
        return synced;
    PLANLOOM_FAILPOINT("checkpoint.prune-manifest");
    removeAll(folder);
    return {};
}

} // namespace

Result<Manifest> gather(const std::string &folder, const Manifest &head)
{
    PLANLOOM_FAILPOINT("checkpoint.parts-read");
    Manifest all = head;
    for (int rank = 0; rank < head.world; ++rank) {
        const std::string path = folder + "/" + partName(rank);
        const auto text = readFile(path);
        if (!text)
            return text.error();
        const auto part = manifestFromJson(*text);
        if (!part)
            return part.error().in(path);
        if (part->state != head.state || part->lease != head.lease || part->world != head.world)
            return failed("describes another moment than rank 0's; ranks have lost step with one another").in(path);
        const std::size_t first = all.files.size();
        all.files.insert(all.files.end(), part->files.begin(), part->files.end());
        for (StoredPiece piece : part->pieces) {
            piece.file += first;
            all.pieces.push_back(std::move(piece));
        }
        ::unlink(path.c_str());
    }
    if (const Status complete = checkComplete(all); !complete)
        return complete.error().in(folder);
    return all;
}

Result<std::string> publish(const std::string &runDir, const Manifest &head, const Lease &lease)
{
    std::string folder = checkpointsFolder(runDir) + "/" + unfinishedName(head.state.step, head.lease);
    const auto manifest = gather(folder, head);
    Status done = manifest ? syncToDisk(folder) : Status(manifest.error());
    bool exists = false;
    if (done)
        done = lease.whileHeld([&]() -> Status {
            const Status finished = finish(runDir, *manifest, folder);
            exists = finished.ok();
            return exists ? settle(runDir, folder) : finished;
        });
    if (!done && !exists)
        removeAll(folder);
    if (!done)
        return done.error();
    return folder;
}

Status prune(const std::string &runDir, int keep)
{
    if (keep <= 0)
        return {};
    const std::vector<Manifest> all = checkpoints(runDir);
    for (std::size_t i = static_cast<std::size_t>(keep); i < all.size(); ++i)
        if (Status removed = removeCheckpoint(all[i].folder); !removed)
            return removed;
    return {};
}

void removeDebris(const std::string &runDir, const Lease &lease)
{
    [[maybe_unused]] const Status done = lease.whileHeld([&]() -> Status {
        std::error_code ignored;
        for (const auto &entry : fs::directory_iterator(checkpointsFolder(runDir), ignored)) {
            const std::string name = entry.path().filename().string();
            const bool unfinished =
                name.starts_with(".step-") || (name.starts_with("step-") && !fs::exists(entry.path() / kManifestName));
            if (unfinished && entry.is_directory(ignored))
                removeAll(entry.path().string());
        }
        return {};
    });
}

void removeShare(const std::string &folder, int rank)
{
    ::unlink((folder + "/" + shardName(rank)).c_str());
    ::unlink((folder + "/" + partName(rank)).c_str());
    ::rmdir(folder.c_str());
}

} // namespace planloom::checkpoint

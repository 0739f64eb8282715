// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace planloom {

/// The whole file, at most @p limit bytes. Errors: NotFound, Io, BadInput (too large, a folder), each naming @p path.
Result<std::string> readFile(const std::filesystem::path &path, std::int64_t limit = std::int64_t{4} << 30);

/// A file that is written piece by piece beside its place and appears there, whole, with commit(). Without commit()
/// nothing is left. Thread contract: one thread at a time.
class AtomicFile {
public:
    /// Errors: Io.
    static Result<AtomicFile> create(const std::filesystem::path &path);
    AtomicFile(AtomicFile &&other) noexcept;
    AtomicFile &operator=(AtomicFile &&) = delete;
    ~AtomicFile();

    Status write(std::string_view bytes); ///< buffered by the system only: hand over some tens of kilobytes at a time
    Status commit();

private:
    AtomicFile(std::filesystem::path path, std::string temporary, int fd)
        : m_path(std::move(path)),
          m_temporary(std::move(temporary)),
          m_fd(fd)
    {
    }
    std::filesystem::path m_path;
    std::string m_temporary;
    int m_fd = -1;
};

/// Writes beside @p path, syncs, renames into place: a reader sees the old file or the new one, never half of either,
/// and a full disk leaves the old one and no debris. Errors: Io.
Status writeFileAtomically(const std::filesystem::path &path, std::string_view contents);

/// Makes a file's bytes, or which entries a folder has, outlive a power cut. Error: Io.
Status syncToDisk(const std::filesystem::path &path);

/// The bytes of @p relative under @p folder, opened so that no "..", absolute path, symbolic link or hard link leads
/// out of it (openat2 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, regular file, one link). @p length < 0 reads to the end.
/// Errors: BadInput (escapes, out of range), NotFound, Io.
Result<std::string> readBeneath(const std::filesystem::path &folder, const std::string &relative, std::int64_t offset,
                                std::int64_t length);

/// The error of readBeneath for the same arguments, without reading. @p length must not be negative.
Status checkBeneath(const std::filesystem::path &folder, const std::string &relative, std::int64_t offset,
                    std::int64_t length);

/// Inflates a .gz file's contents; @p limit bounds the result. Errors: BadInput.
Result<std::string> gunzip(std::string_view compressed, std::int64_t limit = std::int64_t{4} << 30);

/// Lower-case hexadecimal SHA-256.
std::string sha256(std::string_view bytes);
/// The same of a regular file's bytes, read in pieces. Errors: NotFound, Io, BadInput (no regular file).
Result<std::string> sha256OfFile(const std::filesystem::path &path);

} // namespace planloom

// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <memory>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <utility>
#include <zlib.h>

namespace planloom {
namespace {

class Descriptor {
public:
    explicit Descriptor(int fd) : m_fd(fd) {}
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    Descriptor(Descriptor &&other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}
    Descriptor &operator=(Descriptor &&) = delete;
    ~Descriptor()
    {
        if (m_fd >= 0)
            ::close(m_fd);
    }
    [[nodiscard]] int get() const { return m_fd; }
    [[nodiscard]] bool valid() const { return m_fd >= 0; }

private:
    int m_fd;
};

std::string hexadecimal(const unsigned char *bytes, std::size_t size)
{
    std::string text;
    for (std::size_t i = 0; i < size; ++i)
        text += fmt::format("{:02x}", bytes[i]);
    return text;
}

Error openError(const std::string &path)
{
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    return Error{missing ? ErrorCode::NotFound : ErrorCode::Io,
                 fmt::format("cannot be opened: {}; check the path and its permissions", systemReason()), path, 0};
}

Result<std::string> readRange(int fd, std::int64_t offset, std::int64_t length, const std::string &path)
{
    std::string bytes(static_cast<std::size_t>(length), '\0');
    std::int64_t done = 0;
    while (done < length) {
        const auto got = ::pread(fd, bytes.data() + done, static_cast<std::size_t>(length - done), offset + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ioError("cannot be read: " + systemReason()).in(path);
        if (got == 0)
            return ioError("became shorter while it was read; try again").in(path);
        done += got;
    }
    return bytes;
}

Status writeAll(int fd, std::string_view contents)
{
    while (!contents.empty()) {
        const auto put = ::write(fd, contents.data(), contents.size());
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return ioError("cannot be written: " + systemReason() + "; free some space or choose another place");
        contents.remove_prefix(static_cast<std::size_t>(put));
    }
    return {};
}

/// A file beneath a folder, opened, and how many bytes of it are asked for.
struct OpenRange {
    Descriptor file;
    std::int64_t length = 0;
};

Result<OpenRange> openBeneath(const std::filesystem::path &folder, const std::string &relative, std::int64_t offset,
                              std::int64_t length)
{
    const std::string shown = (folder / relative).string();
    const Descriptor base(::open(folder.empty() ? "." : folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!base.valid())
        return openError(folder.string());
    open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    Descriptor file(static_cast<int>(::syscall(SYS_openat2, base.get(), relative.c_str(), &how, sizeof how)));
    if (!file.valid() && (errno == EXDEV || errno == ELOOP))
        return badInput(
                   fmt::format("'{}' leads out of the model's folder; external data may only lie beneath it", relative))
            .in(shown);
    if (!file.valid())
        return openError(shown);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0)
        return ioError("cannot be read: " + systemReason()).in(shown);
    if (!S_ISREG(info.st_mode) || info.st_nlink != 1)
        return badInput("is a hard link or not a regular file; copy it into the model's folder").in(shown);
    const std::int64_t wanted = length < 0 ? info.st_size - offset : length;
    if (offset < 0 || wanted < 0 || offset > info.st_size || wanted > info.st_size - offset)
        return badInput(fmt::format("holds {} bytes, but offset {} and length {} are asked for", info.st_size, offset,
                                    length))
            .in(shown);
    return OpenRange{std::move(file), wanted};
}

} // namespace

Result<std::string> readFile(const std::filesystem::path &path, std::int64_t limit)
{
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid())
        return openError(path.string());
    struct stat info {};
    if (::fstat(file.get(), &info) != 0)
        return ioError("cannot be read: " + systemReason()).in(path.string());
    if (S_ISDIR(info.st_mode))
        return badInput("is a folder, not a file; name a file in it").in(path.string());
    if (!S_ISREG(info.st_mode))
        return badInput("is not a regular file").in(path.string());
    if (info.st_size > limit)
        return badInput(fmt::format("is {} bytes long, more than the {} that are read", info.st_size, limit))
            .in(path.string());
    return readRange(file.get(), 0, info.st_size, path.string());
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path &path)
{
    std::error_code unknown;
    if (std::filesystem::is_directory(path, unknown))
        return badInput("is a folder, not a file; name a file in it").in(path.string());
    std::string temporary = path.string() + ".XXXXXX";
    const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
    if (fd < 0)
        return ioError("cannot be written: " + systemReason() + "; check that its folder exists and can be written")
            .in(path.string());
    ::fchmod(fd, 0644);
    return AtomicFile(path, std::move(temporary), fd);
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : m_path(std::move(other.m_path)),
      m_temporary(std::move(other.m_temporary)),
      m_fd(std::exchange(other.m_fd, -1))
{
}

AtomicFile::~AtomicFile()
{
    if (m_fd < 0)
        return;
    ::close(m_fd);
    ::unlink(m_temporary.c_str());
}

Status AtomicFile::write(std::string_view bytes)
{
    if (auto written = writeAll(m_fd, bytes); !written)
        return written.error().in(m_path.string());
    return {};
}

Status AtomicFile::commit()
{
    if (::fsync(m_fd) != 0)
        return ioError("cannot be written: " + systemReason() + "; free some space or choose another place")
            .in(m_path.string());
    if (::rename(m_temporary.c_str(), m_path.c_str()) != 0)
        return ioError("cannot be put in place: " + systemReason()).in(m_path.string());
    ::close(std::exchange(m_fd, -1));
    const auto parent = m_path.has_parent_path() ? m_path.parent_path() : std::filesystem::path(".");
    [[maybe_unused]] const Status synced = syncToDisk(parent); // the file is in place even if this fails
    return {};
}

Status syncToDisk(const std::filesystem::path &path)
{
    const Descriptor entry(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!entry.valid() || ::fsync(entry.get()) != 0)
        return ioError("cannot be made to last: " + systemReason()).in(path.string());
    return {};
}

Status writeFileAtomically(const std::filesystem::path &path, std::string_view contents)
{
    auto file = AtomicFile::create(path);
    if (!file)
        return file.error();
    if (auto written = file->write(contents); !written)
        return written;
    return file->commit();
}

Result<std::string> readBeneath(const std::filesystem::path &folder, const std::string &relative, std::int64_t offset,
                                std::int64_t length)
{
    auto range = openBeneath(folder, relative, offset, length);
    if (!range)
        return range.error();
    return readRange(range->file.get(), offset, range->length, (folder / relative).string());
}

Status checkBeneath(const std::filesystem::path &folder, const std::string &relative, std::int64_t offset,
                    std::int64_t length)
{
    const auto range = openBeneath(folder, relative, offset, length);
    if (!range)
        return range.error();
    return {};
}

Result<std::string> gunzip(std::string_view compressed, std::int64_t limit)
{
    z_stream stream{};
    constexpr int kGzipOrZlib = 15 + 32;
    if (inflateInit2(&stream, kGzipOrZlib) != Z_OK)
        return failed("zlib cannot be started");
    const auto end = std::unique_ptr<z_stream, int (*)(z_stream *)>(&stream, inflateEnd);
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(compressed.data()));
    stream.avail_in = static_cast<uInt>(compressed.size());
    std::string out;
    std::array<char, 1 << 16> chunk{};
    int state = Z_OK;
    while (state != Z_STREAM_END) {
        stream.next_out = reinterpret_cast<Bytef *>(chunk.data());
        stream.avail_out = chunk.size();
        state = inflate(&stream, Z_NO_FLUSH);
        if (state != Z_OK && state != Z_STREAM_END)
            return badInput("is not a whole gzip file; it is damaged or cut short");
        out.append(chunk.data(), chunk.size() - stream.avail_out);
        if (static_cast<std::int64_t>(out.size()) > limit)
            return badInput(fmt::format("inflates to more than {} bytes", limit));
    }
    return out;
}

std::string sha256(std::string_view bytes)
{
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
    return hexadecimal(digest.data(), size);
}

Result<std::string> sha256OfFile(const std::filesystem::path &path)
{
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid())
        return openError(path.string());
    struct stat info {};
    if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
        return badInput("is no regular file; name one").in(path.string());
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
    EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
    constexpr std::size_t kPiece = std::size_t{1} << 18;
    std::string piece(kPiece, '\0');
    for (;;) {
        const auto got = ::read(file.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ioError("cannot be read: " + systemReason()).in(path.string());
        if (got == 0)
            break;
        EVP_DigestUpdate(context.get(), piece.data(), static_cast<std::size_t>(got));
    }
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(context.get(), digest.data(), &size);
    return hexadecimal(digest.data(), size);
}

} // namespace planloom

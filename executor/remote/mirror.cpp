// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/mirror.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "executor/remote/items.h"
#include "executor/remote/places.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace planloom::remote {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRun = "run/";
constexpr std::size_t kLongestLine = std::size_t{16} << 20;
/// events.jsonl lies in the mirrored folder under a name that a run has not.
constexpr const char *kEventsHere = "remote.events.jsonl";

bool isMirrored(std::string_view name)
{
    if (name == kEventsFile)
        return true;
    if (!name.starts_with(kRun) || !isSafePath(name.substr(kRun.size())))
        return false;
    const std::string_view file = name.substr(kRun.size());
    return file != kEventsHere && file != kRemoteFile; // these are not the other machine's to write
}

} // namespace

Mirror::Mirror(std::string folder, std::function<void(std::string_view)> onEvent)
    : m_folder(std::move(folder)),
      m_onEvent(std::move(onEvent))
{
}

std::string Mirror::pathOf(const std::string &name) const
{
    return m_folder + "/" + (name == kEventsFile ? std::string(kEventsHere) : name.substr(kRun.size()));
}

std::map<std::string, std::int64_t> Mirror::have() const
{
    std::map<std::string, std::int64_t> found;
    std::error_code error;
    for (auto at = fs::recursive_directory_iterator(m_folder, error);
         !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
        std::error_code unknown;
        const std::string name = at->path().lexically_relative(m_folder).string();
        if (at->is_symlink(unknown) || !at->is_regular_file(unknown) || !isSafePath(name) || name == kRemoteFile)
            continue;
        const std::string there = name == kEventsHere ? std::string(kEventsFile) : std::string(kRun) + name;
        found[there] = static_cast<std::int64_t>(at->file_size(unknown));
    }
    return found;
}

void Mirror::newSession()
{
    m_line.clear();
    m_left = 0;
    m_hashes.clear();
}

Status Mirror::take(std::string_view bytes)
{
    m_bytes += static_cast<std::int64_t>(bytes.size());
    while (!bytes.empty()) {
        if (m_left > 0) {
            const std::string_view part = bytes.substr(0, static_cast<std::size_t>(m_left));
            if (const Status written = write(part); !written)
                return written;
            bytes.remove_prefix(part.size());
            continue;
        }
        const auto end = bytes.find('\n');
        m_line += bytes.substr(0, end);
        if (m_line.size() > kLongestLine)
            return failed("the other machine sends no messages of a run");
        if (end == std::string_view::npos)
            return {};
        bytes.remove_prefix(end + 1);
        if (const Status good = message(std::exchange(m_line, {})); !good)
            return good;
    }
    return {};
}

Status Mirror::message(std::string_view line)
{
    if (!line.starts_with('{')) // what a login prints
        return {};
    const auto document = parseJson(line);
    if (!document)
        return failed("the other machine sends no messages of a run: " + document.error().message);
    JsonReader reader(*document);
    if (reader.has("file")) {
        const std::string name = reader.text("file");
        const std::int64_t at = reader.integer("at", 0);
        const std::int64_t size = reader.integer("size", 0);
        return reader.failed() ? reader.failure() : begin(name, at, size);
    }
    reader.each("hashes", [&](JsonReader &hash) { m_hashes[hash.name()] = hash.asText(); });
    m_ended = m_ended || reader.flag("end", false);
    return {};
}

/// The folders of a file beneath the run's. False: one is a link, or cannot be made.
bool Mirror::makeFolders(const std::string &name) const
{
    if (name == kEventsFile)
        return true;
    for (auto end = name.find('/', kRun.size()); end != std::string::npos; end = name.find('/', end + 1)) {
        const std::string folder = pathOf(name.substr(0, end));
        ::mkdir(folder.c_str(), 0755);
        std::error_code unknown;
        if (fs::symlink_status(folder, unknown).type() != fs::file_type::directory)
            return false;
    }
    return true;
}

Status Mirror::begin(const std::string &name, std::int64_t at, std::int64_t size)
{
    if (!isMirrored(name))
        return failed(fmt::format("the other machine names a file outside of the run's folder: '{}'", name));
    m_path = pathOf(name);
    m_place = at;
    m_left = size;
    if (!makeFolders(name))
        return failed(fmt::format("the other machine names a file behind a link: '{}'", name));
    const int fd = ::open(m_path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return ioError(fmt::format("cannot be written: {}", systemReason())).in(m_path);
    const bool fits = ::lseek(fd, 0, SEEK_END) >= at;
    const bool cut = fits && ::ftruncate(fd, at) == 0;
    ::close(fd);
    if (name == kEventsFile && at < m_read) {
        m_read = 0; // read again from the beginning
        m_lines = 0;
    }
    if (cut && size == 0 && name == kEventsFile) // they were here before
        readEvents();
    return cut ? Status() : failed(fmt::format("the other machine sends '{}' from the wrong place", name));
}

Status Mirror::write(std::string_view bytes)
{
    const int fd = ::open(m_path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    std::int64_t done = 0;
    while (fd >= 0 && done < static_cast<std::int64_t>(bytes.size())) {
        const auto put =
            ::pwrite(fd, bytes.data() + done, bytes.size() - static_cast<std::size_t>(done), m_place + done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            break;
        done += put;
    }
    const std::string reason = systemReason();
    if (fd >= 0)
        ::close(fd);
    if (done < static_cast<std::int64_t>(bytes.size()))
        return ioError(fmt::format("cannot be written: {}; free some space", reason)).in(m_path);
    m_place += done;
    m_left -= done;
    if (m_left == 0 && m_path == pathOf(kEventsFile))
        readEvents();
    return {};
}

void Mirror::readEvents()
{
    const int fd = ::open(pathOf(kEventsFile).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    std::string text;
    char piece[1 << 16];
    for (ssize_t got = 0; fd >= 0 && (got = ::pread(fd, piece, sizeof piece, m_read)) > 0;) {
        m_read += got;
        text.append(piece, static_cast<std::size_t>(got));
    }
    if (fd >= 0)
        ::close(fd);
    std::size_t begin = 0;
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
        tell(std::string_view(text).substr(begin, end - begin));
        begin = end + 1;
    }
    m_read -= static_cast<std::int64_t>(text.size() - begin); // part of a line
}

void Mirror::tell(std::string_view line)
{
    const std::size_t hash = std::hash<std::string_view>()(line);
    const std::size_t at = m_lines++;
    if (at < m_told.size() && m_told[at] == hash)
        return;
    m_told.resize(std::max(m_told.size(), m_lines));
    m_told[at] = hash;
    m_onEvent(line);
}

std::vector<std::string> Mirror::removeDamaged()
{
    std::vector<std::string> damaged;
    for (const auto &[name, hash] : m_hashes) {
        if (!isMirrored(name))
            continue;
        const auto here = sha256OfFile(pathOf(name));
        if (here && *here == hash)
            continue;
        damaged.push_back(name);
        ::unlink(pathOf(name).c_str());
    }
    m_hashes.clear();
    m_ended = false;
    return damaged;
}

} // namespace planloom::remote

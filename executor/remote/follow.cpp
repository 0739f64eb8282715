// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/follow.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "executor/remote/items.h"
#include "executor/remote/places.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <future>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace planloom::remote {
namespace {

namespace fs = std::filesystem;

constexpr int kLookMilliseconds = 100;
constexpr int kAliveEvery = 10; ///< looks

bool writeAll(std::string_view bytes)
{
    while (!bytes.empty()) {
        const auto put = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        bytes.remove_prefix(static_cast<std::size_t>(put));
    }
    return true;
}

/// Whether the follower is there after a pause.
bool isFollowed()
{
    pollfd wait{STDIN_FILENO, POLLIN, 0};
    if (::poll(&wait, 1, kLookMilliseconds) <= 0)
        return true;
    char ignored[256];
    return ::read(STDIN_FILENO, ignored, sizeof ignored) > 0;
}

class Follower {
public:
    explicit Follower(const FollowRequest &request) : m_request(request)
    {
        for (const auto &[name, bytes] : request.have)
            m_sent[name].bytes = bytes;
    }

    void follow()
    {
        for (int look = 1;; ++look) {
            const bool over = keeperOf(m_request.folder) == 0; // before the look: what it sees is then all
            if (!sendNews(over) || (over && !finish()) || over)
                return;
            if (look % kAliveEvery == 0 && !writeAll("{\"alive\":true}\n"))
                return;
            if (!isFollowed())
                return;
        }
    }

private:
    struct Sent {
        ino_t file = 0;
        std::int64_t bytes = 0;
    };

    [[nodiscard]] std::vector<std::string> names(bool over) const
    {
        std::vector<std::string> found;
        if (fs::exists(m_request.folder + "/" + kEventsFile))
            found.emplace_back(kEventsFile);
        std::error_code error;
        const std::string run = m_request.folder + "/run";
        for (auto at = fs::recursive_directory_iterator(run, error); !error && at != fs::recursive_directory_iterator();
             at.increment(error)) {
            std::error_code unknown;
            const std::string name = at->path().lexically_relative(run).string();
            if (at->is_directory(unknown) && (name == "checkpoints" && m_request.checkpoints.empty()))
                at.disable_recursion_pending();
            else if (at->is_symlink(unknown) || !at->is_regular_file(unknown) || !isSafePath(name))
                continue;
            else if (over || !name.starts_with("metrics.db"))
                found.push_back("run/" + name);
        }
        keepNewest(found);
        std::ranges::sort(found, [](const std::string &a, const std::string &b) {
            // A message is followed by what it is about only if that is here already.
            return std::pair(a == kEventsFile, a) < std::pair(b == kEventsFile, b);
        });
        return found;
    }

    /// Of checkpoints, whose folders are named by their steps.
    void keepNewest(std::vector<std::string> &found) const
    {
        constexpr std::string_view kCheckpoints = "run/checkpoints/";
        if (m_request.checkpoints != "newest")
            return;
        const auto folderOf = [&](const std::string &name) {
            const auto end = name.find('/', kCheckpoints.size());
            return name.starts_with(kCheckpoints) && end != std::string::npos ? name.substr(0, end) : std::string();
        };
        std::string newest;
        for (const std::string &name : found) {
            if (const std::string folder = folderOf(name);
                std::pair(folder.size(), folder) > std::pair(newest.size(), newest))
                newest = folder;
        }
        std::erase_if(found, [&](const std::string &name) {
            const std::string folder = folderOf(name);
            return !folder.empty() && folder != newest;
        });
    }

    bool sendNews(bool over)
    {
        m_names = names(over);
        return std::ranges::all_of(m_names, [this](const std::string &name) { return sendFile(name); });
    }

    bool sendFile(const std::string &name)
    {
        const int fd = ::open((m_request.folder + "/" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat info {};
        if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
            if (fd >= 0)
                ::close(fd);
            return true; // it is gone
        }
        Sent &sent = m_sent[name];
        const bool known = sent.file == 0 || sent.file == info.st_ino;
        bool whole = known && info.st_size >= sent.bytes;
        if (!whole) // another file, or it was cut
            sent.bytes = 0;
        whole = whole && info.st_size == sent.bytes && sent.file != 0;
        sent.file = info.st_ino;
        const bool good = whole || sendBytes(fd, name, sent, info.st_size);
        ::close(fd);
        return good;
    }

    /// Up to @p end. An empty file is sent, too.
    bool sendBytes(int fd, const std::string &name, Sent &sent, std::int64_t end)
    {
        constexpr std::int64_t kPiece = std::int64_t{1} << 18;
        std::string piece;
        do {
            piece.resize(static_cast<std::size_t>(std::min(kPiece, end - sent.bytes)));
            const auto got = ::pread(fd, piece.data(), piece.size(), sent.bytes);
            piece.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
            const nlohmann::json head{{"file", name}, {"at", sent.bytes}, {"size", piece.size()}};
            if (!writeAll(head.dump() + "\n" + piece))
                return false;
            sent.bytes += static_cast<std::int64_t>(piece.size());
        } while (!piece.empty() && sent.bytes < end);
        return true;
    }

    bool finish()
    {
        nlohmann::json hashes = nlohmann::json::object();
        for (const std::string &name : m_names) {
            // A large one takes longer than a follower waits in silence.
            auto hashed = std::async(std::launch::async, [&] { return sha256OfFile(m_request.folder + "/" + name); });
            while (hashed.wait_for(std::chrono::seconds(1)) != std::future_status::ready) {
                if (!writeAll("{\"alive\":true}\n"))
                    return false;
            }
            if (const auto hash = hashed.get())
                hashes[name] = *hash;
        }
        return writeAll(nlohmann::json{{"hashes", hashes}}.dump() + "\n{\"end\":true}\n");
    }

    const FollowRequest &m_request;
    std::map<std::string, Sent> m_sent;
    std::vector<std::string> m_names;
};

} // namespace

void follow(const FollowRequest &request) { Follower(request).follow(); }

} // namespace planloom::remote

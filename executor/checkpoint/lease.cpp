// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/lease.h"

#include "engine/base/failpoint.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace planloom::checkpoint {
namespace {

constexpr std::int64_t kMostEpochs = 1 << 23; // exact as a float, which is how ranks tell each other

/// RUN/lease.lock, locked while this exists. The file stays: removing it would let two lock different files of one
/// name.
class Lock {
public:
    static Result<Lock> take(const std::string &runDir, std::chrono::milliseconds patience)
    {
        const std::string path = runDir + "/lease.lock";
        Lock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
        if (lock.m_fd < 0)
            return ioError(fmt::format("cannot be opened: {}", systemReason())).in(path);
        const auto end = std::chrono::steady_clock::now() + patience;
        while (::flock(lock.m_fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK && errno != EINTR)
                return ioError(fmt::format("cannot be locked: {}; checkpoints need a file system with locks",
                                           systemReason()))
                    .in(path);
            if (std::chrono::steady_clock::now() >= end)
                return failed(
                           "another worker group of this run holds the lock and does not release it; end its processes")
                    .in(path);
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return lock;
    }
    Lock(Lock &&other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}
    Lock &operator=(Lock &&) = delete;
    ~Lock()
    {
        if (m_fd >= 0)
            ::close(m_fd);
    }

private:
    explicit Lock(int fd) : m_fd(fd) {}
    int m_fd;
};

std::string host()
{
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    return name;
}

Status writeLease(const std::string &runDir, std::int64_t epoch, const std::string &group)
{
    PLANLOOM_FAILPOINT("lease.write");
    const nlohmann::ordered_json json{
        {"epoch", epoch}, {"gang", group}, {"pid", ::getpid()}, {"host", host()}, {"time", std::time(nullptr)}};
    if (Status written =
            writeFileAtomically(runDir + "/lease.json",
                                json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
        !written)
        return written;
    PLANLOOM_FAILPOINT("lease.written");
    return {};
}

} // namespace

Result<std::int64_t> Lease::newestEpoch(const std::string &runDir)
{
    const std::string path = runDir + "/lease.json";
    const auto text = readFile(path, 1 << 16);
    if (!text && text.error().code == ErrorCode::NotFound)
        return std::int64_t{0};
    if (!text)
        return text.error();
    const auto json = parseJson(*text);
    if (!json)
        return json.error().in(path);
    JsonReader reader(*json);
    const std::int64_t epoch = reader.integer("epoch", 1, kMostEpochs);
    if (const Status good = reader.failure(*text); !good)
        return good.error().in(path);
    return epoch;
}

Result<Lease> Lease::acquire(const std::string &runDir, const std::string &group, std::chrono::milliseconds patience)
{
    const auto lock = Lock::take(runDir, patience);
    if (!lock)
        return lock.error();
    const auto newest = newestEpoch(runDir);
    if (!newest)
        return newest.error();
    if (const Status written = writeLease(runDir, *newest + 1, group); !written)
        return written.error();
    return Lease(runDir, *newest + 1);
}

Status Lease::whileHeld(const std::function<Status()> &publish) const
{
    const auto lock = Lock::take(m_runDir, std::chrono::seconds(20));
    if (!lock)
        return lock.error();
    const auto newest = newestEpoch(m_runDir);
    if (!newest)
        return newest.error();
    if (*newest != m_epoch)
        return failed(fmt::format("a newer worker group of this run (epoch {}) has replaced epoch {}, which may not "
                                  "write any more",
                                  *newest, m_epoch))
            .in(m_runDir);
    return publish();
}

} // namespace planloom::checkpoint

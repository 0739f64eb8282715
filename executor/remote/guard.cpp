// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/guard.h"

#include "engine/base/files.h"
#include "executor/agent/hosts.h"
#include "executor/agent/launch.h"
#include "executor/remote/follow.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace planloom::remote {
namespace {

namespace fs = std::filesystem;

/// Whether an argument of a process is beneath @p folder, or is its socket.
bool belongsTo(const std::string &folder, const fs::path &process)
{
    struct stat info {};
    if (::stat(process.c_str(), &info) != 0 || info.st_uid != ::geteuid())
        return false;
    std::ifstream file(process / "cmdline", std::ios::binary);
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    return line.find(folder + "/") != std::string::npos || line.find(agent::socketOf(folder)) != std::string::npos;
}

/// Signals them; how many there are.
int signalProcessesOf(const std::string &folder, int signal)
{
    int found = 0;
    std::error_code error;
    for (const auto &entry : fs::directory_iterator("/proc", error)) {
        const int process = std::atoi(entry.path().filename().c_str());
        if (process <= 0 || process == ::getpid() || !belongsTo(folder, entry.path()))
            continue;
        // The number may be another process's by now: what is signalled is the process that is checked here.
        const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
        if (handle < 0)
            continue;
        if (belongsTo(folder, entry.path())) {
            ++found;
            if (signal != 0)
                ::syscall(SYS_pidfd_send_signal, handle, signal, nullptr, 0);
        }
        ::close(handle);
    }
    return found;
}

/// Until nothing more is to be guarded. True: files are asked for.
bool guard()
{
    constexpr int kListenMilliseconds = 500;
    SessionInput input;
    auto said = SessionInput::Said::Nothing;
    while (said == SessionInput::Said::Nothing)
        said = input.listen(kListenMilliseconds);
    return said == SessionInput::Said::End;
}

} // namespace

int coresAllowed()
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

SessionInput::Said SessionInput::listen(int milliseconds)
{
    pollfd wait{STDIN_FILENO, POLLIN, 0};
    const int ready = ::poll(&wait, 1, milliseconds);
    if (ready < 0 && errno == EINTR)
        return Said::Nothing;
    if (ready == 0) {
        m_silent += milliseconds;
        return m_silent < kAbandonedSeconds * 1000 ? Said::Nothing : Said::Gone;
    }
    char part[256];
    const auto got = ::read(STDIN_FILENO, part, sizeof part);
    if (got < 0 && errno == EINTR)
        return Said::Nothing;
    if (got <= 0)
        return Said::Gone;
    m_silent = 0;
    m_line.append(part, static_cast<std::size_t>(got));
    if (m_line.find(kEnd) != std::string::npos)
        return Said::End;
    m_line.erase(0, m_line.rfind('\n') + 1);
    return Said::Nothing;
}

void endMeeting(const std::string &folder)
{
    constexpr int kLooks = 20;
    for (int look = 0; look < kLooks && signalProcessesOf(folder, look == 0 ? SIGTERM : 0) > 0; ++look)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (int look = 0; look < kLooks && signalProcessesOf(folder, SIGKILL) > 0; ++look)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::error_code error;
    // It stands in the way of another run of this name only, and there is none.
    if (const auto memory = fs::read_symlink(folder + "/memory", error); !error)
        fs::remove_all(memory, error);
    agent::removeMeeting(folder);
}

Status joinMeeting(const std::string &folder, const std::function<Status(const std::string &run)> &write,
                   const std::function<void(int cores)> &joined)
{
    for (const int signal : {SIGPIPE, SIGHUP, SIGTERM, SIGINT}) // the end of the session is what ends it
        std::signal(signal, SIG_IGN);
    if (::mkdir(folder.c_str(), 0700) != 0)
        return ioError(fmt::format("the folder for a run over several hosts cannot be made: {}", systemReason()))
            .in(folder);
    const agent::Scratch memory;
    const std::string run = folder + "/run", inMemory = folder + "/memory";
    const bool made = ::mkdir(run.c_str(), 0700) == 0
        && (memory.path().empty() ? ::mkdir(inMemory.c_str(), 0700)
                                  : ::symlink(memory.path().c_str(), inMemory.c_str()))
            == 0;
    Status done = made ? write(run) : Status(ioError("no folder can be made in it: " + systemReason()).in(folder));
    if (done) {
        joined(coresAllowed());
        if (guard()) {
            std::error_code error;
            for (const char *given : {"plan.json", "request.json", "more.json"})
                fs::remove(run + "/" + given, error);
            follow({folder, {}, {}});
        }
    }
    endMeeting(folder);
    return done;
}

} // namespace planloom::remote

// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/private_socket.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace planloom::agent {
namespace {

bool answers(const std::string &socketPath)
{
    const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return false;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socketPath.c_str(), socketPath.size() + 1);
    const bool connected = ::connect(probe, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0;
    ::close(probe);
    return connected;
}

} // namespace

Result<std::string> makePrivateFolder()
{
    const char *runtime = std::getenv("XDG_RUNTIME_DIR");
    for (const std::string base : {runtime && *runtime == '/' ? runtime : "/tmp", "/tmp"}) {
        std::string folder = base + "/planloom-XXXXXX";
        if (::mkdtemp(folder.data())) // mode 0700
            return folder;
    }
    return ioError("no private folder for the agent's socket can be made in /tmp: " + systemReason());
}

Status prepareSocket(const std::string &socketPath)
{
    const std::filesystem::path path(socketPath);
    if (!path.is_absolute())
        return badInput(fmt::format("the socket '{}' is not an absolute path", socketPath));
    if (socketPath.size() >= sizeof(sockaddr_un::sun_path))
        return badInput(
            fmt::format("the socket's path has {} bytes, more than the {} that the system allows; choose a shorter one",
                        socketPath.size(), sizeof(sockaddr_un::sun_path) - 1));
    const std::string folder = path.parent_path().string();
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
        return ioError(fmt::format("the socket's folder {} cannot be made: {}", folder, systemReason()));
    struct stat info {};
    if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        return badInput(fmt::format("the socket's folder {} is not a folder", folder));
    if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
        return badInput(fmt::format(
            "the socket's folder {} may be entered by others; use a folder of your own with mode 0700", folder));
    if (::lstat(socketPath.c_str(), &info) != 0)
        return {};
    if (!S_ISSOCK(info.st_mode))
        return badInput(fmt::format("{} is there already and is no socket; choose another path", socketPath));
    if (answers(socketPath))
        return badInput(fmt::format("another agent serves {}; use it, or choose another path", socketPath));
    ::unlink(socketPath.c_str());
    return {};
}

Status checkSocket(const std::string &socketPath)
{
    struct stat info {};
    if (::stat(socketPath.c_str(), &info) != 0)
        return notFound(fmt::format("no agent's socket is at {}; start one with 'planloom agent --socket {}'",
                                    socketPath, socketPath));
    if (!S_ISSOCK(info.st_mode) || info.st_uid != ::geteuid())
        return badInput(fmt::format("{} is not a socket of yours", socketPath));
    return {};
}

} // namespace planloom::agent

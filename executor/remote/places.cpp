// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/places.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace planloom::remote {
namespace {

std::string homeFolder(const char *variable, const char *usual)
{
    if (const char *set = std::getenv(variable); set && *set == '/')
        return std::string(set) + "/planloom";
    const char *home = std::getenv("HOME");
    return std::string(home && *home == '/' ? home : "/tmp") + "/" + usual + "/planloom";
}

} // namespace

std::string dataHome() { return homeFolder("XDG_DATA_HOME", ".local/share"); }

std::string itemsFolder() { return homeFolder("XDG_CACHE_HOME", ".cache") + "/items"; }

std::string keptFolder(const std::string &id) { return dataHome() + "/kept/" + id; }

bool isRunId(std::string_view text)
{
    constexpr std::size_t kDigits = 16;
    return text.size() == kDigits
        && std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Status makeFolder(const std::string &path)
{
    std::error_code error;
    const auto parent = std::filesystem::path(path).parent_path();
    std::filesystem::create_directories(parent, error);
    if (::mkdir(path.c_str(), 0700) != 0 && !std::filesystem::is_directory(path, error))
        return ioError(fmt::format("the folder cannot be made: {}", systemReason())).in(path);
    return {};
}

int keeperOf(const std::string &folder)
{
    const int fd = ::open((folder + "/" + kLockFile).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return 0;
    int process = 0;
    if (::flock(fd, LOCK_SH | LOCK_NB) != 0) {
        char text[16] = {};
        if (::pread(fd, text, sizeof text - 1, 0) > 0)
            process = std::atoi(text);
    }
    ::close(fd);
    return process;
}

} // namespace planloom::remote

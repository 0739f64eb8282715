// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <QDir>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <sched.h>
#include <sstream>
#include <string>
#include <sys/mount.h>
#include <unistd.h>
#include <vector>

/// Faults of processes and disks from outside, by way of /proc and mount(2).
namespace planloom::testing {

/// Nothing of a file that is not there; files of /proc, too.
inline std::string textOf(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf(); // a process that ends meanwhile is an error of reading, and that no exception here
    return text.str();
}

inline std::vector<int> childrenOf(int process)
{
    std::vector<int> all;
    for (const QString &thread :
         QDir(QString("/proc/%1/task").arg(process)).entryList(QDir::Dirs | QDir::NoDotAndDotDot)) {
        std::istringstream text(textOf(fmt::format("/proc/{}/task/{}/children", process, thread.toStdString())));
        for (int child = 0; text >> child;)
            all.push_back(child);
    }
    return all;
}

/// Children, their children and so on; parents first.
inline std::vector<int> descendantsOf(int process)
{
    std::vector<int> all = childrenOf(process);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto more = childrenOf(all[i]);
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

/// Every process that has @p text in its command line or its environment: what was started with it and all that it
/// started. Not this one.
inline std::vector<int> processesOf(const std::string &text)
{
    std::vector<int> found;
    for (const QString &name : QDir("/proc").entryList(QDir::Dirs)) {
        bool number = false;
        const int process = name.toInt(&number);
        if (!number || process == ::getpid())
            continue;
        const auto says = [&](const char *file) {
            return textOf(fmt::format("/proc/{}/{}", process, file)).find(text) != std::string::npos;
        };
        if (says("cmdline") || says("environ"))
            found.push_back(process);
    }
    return found;
}

/// Suspended, as SIGSTOP does.
inline bool standsStill(int process)
{
    const std::string stat = textOf(fmt::format("/proc/{}/stat", process));
    const auto name = stat.rfind(") ");
    return name != std::string::npos && name + 2 < stat.size() && stat[name + 2] == 'T';
}

inline std::vector<int> standing(std::vector<int> processes)
{
    std::erase_if(processes, [](int process) { return !standsStill(process); });
    return processes;
}

inline std::string commandLine(int process) { return textOf(fmt::format("/proc/{}/cmdline", process)); }

/// Gives this process private mounts; to be called before it has threads. False where the system does not
/// allow that.
inline bool ownMounts()
{
    const auto user = ::getuid();
    const auto group = ::getgid();
    if (::unshare(CLONE_NEWNS) != 0) {
        if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            return false;
        std::ofstream("/proc/self/setgroups") << "deny";
        std::ofstream("/proc/self/uid_map") << fmt::format("{0} {0} 1", user);
        std::ofstream("/proc/self/gid_map") << fmt::format("{0} {0} 1", group);
    }
    return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// A disk of a few megabytes.
class SmallDisk {
public:
    SmallDisk() = default;
    SmallDisk(const SmallDisk &) = delete;
    SmallDisk &operator=(const SmallDisk &) = delete;
    ~SmallDisk()
    {
        if (!m_path.empty())
            ::umount2(m_path.c_str(), MNT_DETACH);
    }
    bool create(const std::string &path, std::uintmax_t bytes)
    {
        std::filesystem::create_directories(path);
        if (::mount("none", path.c_str(), "tmpfs", 0, fmt::format("size={}", bytes).c_str()) != 0)
            return false;
        m_path = path;
        return true;
    }
    [[nodiscard]] bool there() const { return !m_path.empty(); }
    bool grow(std::uintmax_t bytes)
    {
        return m_path.empty()
            || ::mount("none", m_path.c_str(), "tmpfs", MS_REMOUNT, fmt::format("size={}", bytes).c_str()) == 0;
    }

private:
    std::string m_path;
};

} // namespace planloom::testing

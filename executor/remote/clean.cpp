// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/clean.h"

#include "engine/base/files.h"
#include "executor/agent/hosts.h"
#include "executor/remote/items.h"
#include "executor/remote/places.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace planloom::remote {
namespace {

namespace fs = std::filesystem;

struct Contents {
    std::int64_t bytes = 0;
    std::time_t newest = 0; ///< when something in it was last changed
};

Contents contentsOf(const fs::path &folder)
{
    Contents contents;
    const auto add = [&](const fs::path &path) {
        struct stat info {};
        if (::lstat(path.c_str(), &info) != 0)
            return;
        contents.newest = std::max({contents.newest, info.st_mtime, info.st_ctime});
        if (S_ISREG(info.st_mode))
            contents.bytes += info.st_size;
    };
    add(folder);
    std::error_code error;
    for (auto at = fs::recursive_directory_iterator(folder, error); !error && at != fs::recursive_directory_iterator();
         at.increment(error))
        add(at->path());
    return contents;
}

std::vector<fs::path> foldersIn(const fs::path &parent)
{
    std::vector<fs::path> found;
    std::error_code error;
    for (const auto &entry : fs::directory_iterator(parent, error)) {
        std::error_code unknown;
        if (entry.symlink_status(unknown).type() == fs::file_type::directory)
            found.push_back(entry.path());
    }
    return found;
}

/// What a run's folder names, items among it.
std::string givenIn(const fs::path &run)
{
    std::string given;
    for (const char *file : {"/plan.json", "/request.json"}) {
        if (const auto text = readFile(run.string() + file))
            given += *text;
    }
    return given;
}

/// Of runs that are kept on other hosts and have joined this one: their folders are there while they last.
std::string givenToJoinedRuns()
{
    std::string given;
    for (const fs::path &meeting : foldersIn(fs::path(agent::meetingFolder("x")).parent_path())) {
        struct stat info {};
        if (agent::isMeetingFolder(meeting.string()) && ::lstat(meeting.c_str(), &info) == 0
            && info.st_uid == ::geteuid())
            given += givenIn(meeting / "run");
    }
    return given;
}

/// The item of a folder of the cache; empty: it is none.
std::string itemIn(const fs::path &folder)
{
    std::string name = folder.filename().string();
    constexpr std::string_view kPart = ".part";
    if (name.ends_with(kPart))
        name.resize(name.size() - kPart.size());
    return isHash(name) ? name : std::string();
}

} // namespace

Cleaned clean(double days)
{
    constexpr double kDay = 24.0 * 3600;
    const double before = static_cast<double>(std::time(nullptr)) - days * kDay;
    const auto isOld = [&](const Contents &contents) { return static_cast<double>(contents.newest) <= before; };
    Cleaned cleaned;
    const auto remove = [&](const fs::path &folder, const Contents &contents, int &count) {
        std::error_code error;
        fs::remove_all(folder, error);
        if (error)
            return false;
        cleaned.bytes += contents.bytes;
        ++count;
        return true;
    };
    std::string given = givenToJoinedRuns(); // and to the runs that stay
    for (const fs::path &run : foldersIn(fs::path(keptFolder("x")).parent_path())) {
        if (!isRunId(run.filename().string()))
            continue;
        const bool running = keeperOf(run.string()) != 0;
        const Contents contents = contentsOf(run);
        if (!running && isOld(contents) && remove(run, contents, cleaned.runs))
            continue;
        ++(running ? cleaned.running : cleaned.kept);
        given += givenIn(run);
    }
    for (const fs::path &folder : foldersIn(itemsFolder())) {
        const std::string item = itemIn(folder);
        const Contents contents = contentsOf(folder);
        if (!item.empty() && isOld(contents) && given.find(item) == std::string::npos)
            remove(folder, contents, cleaned.items);
    }
    return cleaned;
}

} // namespace planloom::remote

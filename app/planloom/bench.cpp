// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/verbs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "bench_";

/// The benchmarks are programs beside this one; a package leaves them out.
fs::path folder()
{
    std::error_code unknown;
    return fs::read_symlink("/proc/self/exe", unknown).parent_path();
}

std::vector<std::string> names()
{
    std::vector<std::string> found;
    std::error_code unknown;
    for (const auto &entry : fs::directory_iterator(folder(), unknown)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(kPrefix) && entry.is_regular_file(unknown) && ::access(entry.path().c_str(), X_OK) == 0)
            found.push_back(name.substr(kPrefix.size()));
    }
    std::sort(found.begin(), found.end());
    return found;
}

} // namespace

Status bench(const BenchOptions &options, Output &output)
{
    const auto known = names();
    if (options.name.empty()) {
        for (const auto &name : known)
            output.line(name);
        if (known.empty())
            output.line("This build has no benchmarks; build with -DPLANLOOM_BENCH=ON.");
        output.result(ordered_json{{"benchmarks", known}});
        return {};
    }
    if (known.empty())
        return notFound(fmt::format("there is no benchmark '{}': this build has none; build with -DPLANLOOM_BENCH=ON",
                                    options.name));
    if (std::find(known.begin(), known.end(), options.name) == known.end())
        return notFound(
            fmt::format("there is no benchmark '{}'; choose one of: {}", options.name, fmt::join(known, ", ")));
    const std::string program = (folder() / (std::string(kPrefix) + options.name)).string();
    std::string first = program;
    char *arguments[] = {first.data(), nullptr};
    ::execv(program.c_str(), arguments);
    return ioError(fmt::format("cannot be started: {}", systemReason())).in(program);
}

} // namespace planloom::cli

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

/// What the benchmark is started with.
Result<std::vector<std::string>> argumentsOf(const BenchOptions &options, const Output &output)
{
    std::vector<std::string> words;
    const auto add = [&words](const char *name, const std::string &value) {
        if (!value.empty())
            words.insert(words.end(), {name, value});
    };
    add("-o", options.out);
    add("--python", options.python);
    for (const std::string &timed : options.timed)
        add("--time", timed);
    if (options.full)
        words.emplace_back("--full");
    if (options.name != "gpu")
        return words.empty() ? words
                             : Result<std::vector<std::string>>(badInput(
                                 fmt::format("{} is an option of the benchmark 'gpu' alone; leave it out", words[0])));
    if (output.isJson())
        words.emplace_back("--json");
    if (!output.showsProgress())
        words.emplace_back("--quiet");
    return words;
}

} // namespace

Status bench(const BenchOptions &options, Output &output)
{
    const auto known = names();
    if (options.name.empty()) {
        if (const auto none = argumentsOf(options, output); !none)
            return none.error();
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
    auto words = argumentsOf(options, output);
    if (!words)
        return words.error();
    const std::string program = (folder() / (std::string(kPrefix) + options.name)).string();
    words->insert(words->begin(), program);
    std::vector<char *> arguments;
    for (std::string &word : *words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(program.c_str(), arguments.data());
    return ioError(fmt::format("cannot be started: {}", systemReason())).in(program);
}

} // namespace planloom::cli

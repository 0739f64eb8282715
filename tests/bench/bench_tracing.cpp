// SPDX-License-Identifier: Apache-2.0
// The cost of tracing: gpt-nano as two stages of one worker group, with many small tasks. First every other step of one
// worker group is traced and the others are not; then worker groups take turns, one that traces and one that does not.
// Prints the medians of their steps and the ratio, of which at most 1.01 is wanted. usage: bench_tracing [STEPS]
// [GROUPS] [MICRO-BATCH]
#include "engine/trace/trace.h"
#include "tests/bench/planloom_command.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <unistd.h>

using namespace planloom;

namespace {

constexpr std::size_t kWarmUp = 2;
constexpr std::int64_t kBatch = 32;

double median(std::vector<double> values)
{
    std::ranges::sort(values);
    return values.empty() ? 0 : values[values.size() / 2];
}

void print(const std::string &what, const std::vector<double> &on, const std::vector<double> &off)
{
    fmt::print("{:<28} traced {:.3f} ms, not traced {:.3f} ms, ratio {:.4f} ({} and {} steps)\n", what,
               median(on) * 1e3, median(off) * 1e3, median(on) / std::max(median(off), 1e-9), on.size(), off.size());
    std::fflush(stdout);
}

class Bench {
public:
    Bench(std::string folder, int steps) : m_folder(std::move(folder)), m_steps(steps) {}

    Status plan(std::int64_t microBatch)
    {
        const auto made = bench::planloom({"plan", "--model", "zoo:gpt-nano", "--cluster", "local:2", "--planner",
                                           "gpipe", "--batch", std::to_string(kBatch), "--micro-batch",
                                           std::to_string(microBatch), "-o", m_folder + "/plan.json", "--quiet"});
        return made ? Status() : made.error();
    }

    /// Seconds of the steps of a worker group; @p trace as on the command line.
    Result<std::vector<double>> train(const std::string &trace)
    {
        const std::string run = m_folder + "/run";
        std::filesystem::remove_all(run);
        const auto text =
            bench::planloom({"train", m_folder + "/plan.json", "--data", "/usr/share/common-licenses/GPL-3", "--steps",
                             std::to_string(m_steps), "--trace", trace, "--run-dir", run, "--json"});
        if (!text)
            return text.error();
        std::vector<double> seconds;
        std::istringstream lines(*text);
        for (std::string line; std::getline(lines, line);) {
            const auto json = nlohmann::json::parse(line, nullptr, false);
            if (json.is_object() && json.contains("seconds"))
                seconds.push_back(json.at("seconds").get<double>());
        }
        return seconds;
    }

    /// One worker group, of which every other step is traced.
    Status stepsByTurns()
    {
        const auto seconds = train("2");
        if (!seconds)
            return seconds.error();
        std::vector<double> on;
        std::vector<double> off;
        for (std::size_t step = kWarmUp; step < seconds->size(); ++step)
            (step % 2 == 0 ? on : off).push_back((*seconds)[step]);
        const auto trace = trace::readTrace(m_folder + "/run/trace.pltrace");
        if (!trace)
            return trace.error();
        fmt::print("{} records a step\n", trace->records.size() / ((seconds->size() + 1) / 2));
        print("one worker group, steps by turns:", on, off);
        return {};
    }

    Status groupsByTurns(int groups)
    {
        std::vector<double> on;
        std::vector<double> off;
        for (int group = 0; group < 2 * groups; ++group) {
            const bool traced = group % 2 == 0;
            const auto seconds = train(traced ? "on" : "off");
            if (!seconds)
                return seconds.error();
            (traced ? on : off).insert((traced ? on : off).end(), seconds->begin() + kWarmUp, seconds->end());
        }
        print(fmt::format("{} groups by turns:", 2 * groups), on, off);
        return {};
    }

private:
    std::string m_folder;
    int m_steps;
};

int argument(int argc, char **argv, int index, int otherwise)
{
    return argc > index ? std::max(std::atoi(argv[index]), 1) : otherwise;
}

} // namespace

int main(int argc, char **argv)
{
    const std::string folder =
        (std::filesystem::temp_directory_path() / fmt::format("planloom-tracing-{}", ::getpid())).string();
    std::filesystem::create_directories(folder);
    Bench bench(folder, std::max(argument(argc, argv, 1, 101), static_cast<int>(kWarmUp) + 2));
    Status done = bench.plan(argument(argc, argv, 3, 2));
    if (done)
        done = bench.stepsByTurns();
    if (done)
        done = bench.groupsByTurns(argument(argc, argv, 2, 3));
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    if (!done)
        fmt::print("{}\n", done.error().text());
    return done ? 0 : 1;
}

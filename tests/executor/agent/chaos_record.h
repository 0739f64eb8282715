// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/agent/chaos_faults.h"
#include "executor/agent/chaos_processes.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <vector>

/// The record of tst_chaos's rounds.
namespace planloom::testing {

/// A line of the record.
struct Outcome {
    unsigned round = 0;
    Kind kind = Kind::KillRank;
    std::string point;
    int resumed = 0;     ///< 1: in the same layout, 2: in another
    bool struck = false; ///< it happened before the run was over
    bool passed = false;
    double seconds = 0;
    double noticed =
        -1; ///< milliseconds from the signal to the agent's report that the worker group ended; -1: not measured
    double back = -1; ///< to the next worker group's first step

    [[nodiscard]] std::string line() const
    {
        return fmt::format("{},{},{},{},{},{},{:.2f},{:.0f},{:.0f}\n", round, static_cast<int>(kind),
                           point.empty() ? "-" : point, resumed, int(struck), int(passed), seconds, noticed, back);
    }
    static std::vector<Outcome> read(const std::string &path)
    {
        std::vector<Outcome> all;
        std::istringstream lines(textOf(path));
        for (std::string line; std::getline(lines, line);) {
            std::replace(line.begin(), line.end(), ',', ' ');
            std::istringstream words(line);
            Outcome one;
            unsigned kind = 0;
            words >> one.round >> kind >> one.point >> one.resumed >> one.struck >> one.passed >> one.seconds
                >> one.noticed >> one.back;
            one.kind = static_cast<Kind>(kind % kKinds);
            one.point = one.point == "-" ? "" : one.point;
            all.push_back(one);
        }
        return all;
    }
};

/// The failpoints at which nothing happened though each kind of fault was to: no process passes them, or their
/// failpoint is not compiled in.
inline std::string neverHappened(const std::vector<Outcome> &all)
{
    std::string points;
    for (const auto point : failpoints()) {
        const auto here = [point](const Outcome &one) { return one.point == point; };
        if (std::count_if(all.begin(), all.end(), here) >= kKinds
            && std::none_of(all.begin(), all.end(), [&](const Outcome &one) { return here(one) && one.struck; }))
            points += fmt::format("{} ", point);
    }
    return points;
}

/// The table of all rounds, and how long things took.
inline void printTable(const std::vector<Outcome> &all)
{
    const auto row = [&](const std::string &what, const auto &belongs) {
        unsigned rounds = 0, struck = 0, passed = 0;
        for (const Outcome &one : all) {
            if (!belongs(one))
                continue;
            ++rounds;
            struck += one.struck ? 1 : 0;
            passed += one.passed ? 1 : 0;
        }
        if (rounds > 0)
            fmt::print("{:<44}{:>7}{:>9}{:>8}\n", what, rounds, struck, passed);
    };
    fmt::print("{:<44}{:>7}{:>9}{:>8}\n", "event", "rounds", "happened", "passed");
    for (unsigned kind = 0; kind < kKinds; ++kind)
        for (const bool anywhere : {true, false})
            row(fmt::format("{}, {}", kKindNames[kind], anywhere ? "at any moment" : "at a failpoint"),
                [&](const Outcome &one) {
                    return one.kind == static_cast<Kind>(kind) && one.point.empty() == anywhere;
                });
    for (const auto point : failpoints())
        row(fmt::format("at {}", point), [&](const Outcome &one) { return one.point == point; });
    row("resumed in the same layout", [](const Outcome &one) { return one.resumed == 1; });
    row("resumed in another layout", [](const Outcome &one) { return one.resumed == 2; });
    row("all", [](const Outcome &) { return true; });
    const auto times = [&](const char *what, Kind kind, double Outcome::*figure) {
        std::vector<double> figures;
        for (const Outcome &one : all) {
            if (one.kind == kind && one.*figure >= 0)
                figures.push_back(one.*figure);
        }
        std::sort(figures.begin(), figures.end());
        if (!figures.empty())
            fmt::print("{}: median {:.0f} ms, most {:.0f} ms, of {}\n", what, figures[figures.size() / 2],
                       figures.back(), figures.size());
    };
    times("from kill -9 of a rank to the agent's report, the worker group ended", Kind::KillRank, &Outcome::noticed);
    times("from kill -9 of a rank to the next worker group's first step", Kind::KillRank, &Outcome::back);
    times("from SIGSTOP of a rank to the agent's report (hung after 3 s), the worker group ended", Kind::StopRank,
          &Outcome::noticed);
    times("from SIGSTOP of a rank to the next worker group's first step", Kind::StopRank, &Outcome::back);
    std::vector<double> seconds;
    for (const Outcome &one : all)
        seconds.push_back(one.seconds);
    std::sort(seconds.begin(), seconds.end());
    if (!seconds.empty())
        fmt::print("a round: median {:.1f} s, most {:.1f} s\n", seconds[seconds.size() / 2], seconds.back());
    std::fflush(stdout);
}

} // namespace planloom::testing

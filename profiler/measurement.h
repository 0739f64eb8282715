// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/local_group.h"
#include "profiler/replica.h"

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace planloom::profiler {

inline constexpr double kNanosecond = 1e-9; ///< in seconds

class RankThreads;

/// Measurements of one rank.
struct RankTimes {
    using BySamples = std::map<std::int64_t, PassTimes>; ///< samples of the slice
    Status status;
    const program::Body *body = nullptr;
    BySamples forward;
    BySamples backward;
    std::vector<double> optimizer;             ///< seconds of steps
    std::int64_t updated = 0;                  ///< parameters that each step updates
    std::vector<std::vector<double>> steps;    ///< [step][segment]: Replica::steps
    std::vector<std::vector<double>> computed; ///< likewise, with what is not timed: Replica::computed
    int core = 0;                              ///< that other ranks may share
    bool inStep = false;                       ///< ranks waited for each other at the end of each segment
    bool apart = false;                        ///< each rank had a core of its own
    double loss = 0;                           ///< of the last step, this rank's part
    double busy = 0;                           ///< seconds of a step while all ranks are at work
    double alone = 0;                          ///< and while the others are idle; 0: not measured
};

/// Ranks of a Program at work on threads, each on its own share of the cores, without communication: every rank does
/// its steps again and again, until the first has done so often enough; so all share memory bandwidth as in a run.
/// Where ranks outnumber cores, their seconds are those that they computed, as on a core of their own; and if they have
/// equally many segments, they wait for each other at the ends of these as in a run, so that each finds the caches that
/// another rank has left. They do so, and exchange what they sum up inside a step, where systems are solved, too: one
/// without other ranks' sums may have no solution, which takes no time to find out.
class Measurement {
public:
    /// Thread i is @p ranks[i] of @p program; all are on @p device. All arguments are borrowed.
    Measurement(const program::Program &program, std::vector<RankId> ranks, const graph::Graph &subject,
                const data::Needs &needs, const ProfileOptions &options, device::Device &device);

    /// Errors: those of Replica::create; Cancelled once @p stopped, which the first rank asks between passes.
    Status run(const std::function<bool()> &stopped);

    [[nodiscard]] const program::Program &program() const { return m_program; }
    [[nodiscard]] const std::vector<RankTimes> &ranks() const { return m_times; }

private:
    void measure(std::size_t thread, RankThreads &all, const std::function<bool()> &stopped);
    void passes(Replica &replica, RankTimes &times, RankThreads &all, bool first, const std::function<bool()> &stopped);
    static std::function<void()> betweenSegments(const RankTimes &times, RankThreads &all);
    [[nodiscard]] bool solvesSystems() const;
    static double timed(Replica &replica, bool record, const std::function<void()> &between);

    const program::Program &m_program;
    std::vector<RankId> m_rankOf;
    const graph::Graph &m_subject;
    const data::Needs &m_needs;
    const ProfileOptions &m_options;
    device::Device &m_device;
    MadeUpData m_data;
    MadeUpPlaces m_places;
    std::vector<RankTimes> m_times;
    std::optional<comm::LocalGroup> m_group; ///< where ranks exchange what their times depend on
    int m_cores;                             ///< that ranks share; where they do not, as many as ranks
    Stopwatch m_stopwatch = Stopwatch::Wall;
    std::atomic<bool> m_enough{false};
    std::atomic<bool> m_stopped{false};
};

/// Seconds of a step by the medians of its parts.
double partsOf(const RankTimes &rank);

/// By how much the median step of @p ranks is longer than @p expected of each: parts vary, each for itself, cores are
/// not equally fast, and at the end of each segment ranks wait for the core that was slowest this time; where they did
/// so while they were measured, what it takes to change from one rank to another counts, too. Where ranks do not have
/// equally many segments, a step counts as one. 1 or more. A rank of which 0 is expected does not count.
double skewOf(const std::vector<RankTimes> &ranks, const std::vector<double> &expected);

/// Median time of each operator over all ranks, which have the same body, and repetitions, scaled so that the sum is
/// the median of the whole pass: medians of parts add up to less than the median of their sum.
std::vector<double> medianOperators(const std::vector<RankTimes> &ranks, RankTimes::BySamples RankTimes::*pass,
                                    std::int64_t samples);

} // namespace planloom::profiler

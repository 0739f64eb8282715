// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/versions.h"

#include <algorithm>
#include <limits>

namespace planloom::simulate {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What is done at one moment is done within so much of it: sums of durations in another order.
constexpr double kRounding = 1e-12;

class VersionClock {
public:
    explicit VersionClock(const program::Program &program)
        : m_server(*program.server),
          m_versions(static_cast<int>(program.ranks.size()), m_server.barrier, m_server.delay),
          m_ranks(program.ranks.size())
    {
        for (std::size_t r = 0; r < m_ranks.size(); ++r)
            m_ranks[r].core = program.ranks[r].core;
        for (const program::Task &task : program.tasks) {
            Rank &rank = m_ranks[task.rank.index()];
            const auto *boxing = task.as<program::Boxing>();
            if (boxing != nullptr && boxing->served)
                rank.talks += task.duration.value();
            else if (task.lane == program::Lane::Compute)
                rank.computes += task.duration.value();
        }
    }

    Result<VersionTimes> run(int count)
    {
        VersionTimes times;
        for (Rank &rank : m_ranks) {
            times.iteration.push_back(rank.computes);
            begin(rank);
        }
        while (static_cast<int>(times.seconds.size()) < count) {
            const double moment = nextMoment();
            advance(moment);
            if (m_solved <= atOnce(moment)) {
                times.seconds.push_back(m_now);
                for (const int rank : m_solving)
                    begin(m_ranks[static_cast<std::size_t>(rank)]);
                times.arrivals.push_back(std::move(m_solving));
                m_solved = kNever;
            }
            if (const Status arrived = takeEnded(); !arrived)
                return arrived.error();
            if (m_solved < kNever)
                continue;
            auto next = m_versions.next();
            if (!next)
                return next.error();
            m_solving = *std::move(next);
            if (!m_solving.empty())
                m_solved = m_now + m_server.seconds;
        }
        return times;
    }

private:
    enum class State : std::uint8_t { Computes, Talks, Waits };
    struct Rank {
        std::int32_t core = -1;
        double computes = 0; ///< seconds of an iteration, alone on its core
        double talks = 0;
        State state = State::Waits;
        double left = 0; ///< seconds to compute
        double until = kNever;
    };

    static void begin(Rank &rank)
    {
        rank.state = State::Computes;
        rank.left = rank.computes;
    }
    [[nodiscard]] static double atOnce(double moment) { return moment * (1 + kRounding); }

    /// Ranks that compute on the core of @p rank now, itself included.
    [[nodiscard]] double sharersOf(const Rank &rank) const
    {
        if (rank.core < 0)
            return 1;
        return static_cast<double>(std::count_if(m_ranks.begin(), m_ranks.end(), [&](const Rank &other) {
            return other.state == State::Computes && other.core == rank.core;
        }));
    }

    [[nodiscard]] double nextMoment() const
    {
        double moment = m_solved;
        for (const Rank &rank : m_ranks) {
            if (rank.state == State::Computes)
                moment = std::min(moment, m_now + rank.left * sharersOf(rank));
            else if (rank.state == State::Talks)
                moment = std::min(moment, rank.until);
        }
        return moment;
    }

    void advance(double moment)
    {
        std::vector<double> share;
        for (const Rank &rank : m_ranks)
            share.push_back(sharersOf(rank));
        for (std::size_t r = 0; r < m_ranks.size(); ++r)
            if (m_ranks[r].state == State::Computes)
                m_ranks[r].left -= (moment - m_now) / share[r];
        m_now = moment;
    }

    /// Everything but the server's work that ends now.
    Status takeEnded()
    {
        for (std::size_t r = 0; r < m_ranks.size(); ++r) {
            Rank &rank = m_ranks[r];
            if (rank.state == State::Computes && rank.left <= kRounding * std::max(m_now, rank.computes)) {
                rank.state = State::Talks;
                rank.until = m_now + rank.talks;
            }
            if (rank.state == State::Talks && rank.until <= atOnce(m_now)) {
                rank.state = State::Waits;
                if (const Status arrived = m_versions.arrive(static_cast<int>(r)); !arrived)
                    return arrived;
            }
        }
        return {};
    }

    const program::ParameterServer &m_server;
    dispatch::Versions m_versions;
    std::vector<Rank> m_ranks;
    double m_now = 0;
    double m_solved = kNever; ///< when the version that the server works on is there
    std::vector<int> m_solving;
};

} // namespace

double VersionTimes::perVersion() const
{
    const std::size_t half = seconds.size() / 2;
    return (seconds.back() - seconds[half]) / static_cast<double>(seconds.size() - 1 - half);
}

double VersionTimes::iterationsPerSecond(int rank) const
{
    const std::size_t half = seconds.size() / 2;
    const auto ended = std::count_if(arrivals.begin() + static_cast<std::ptrdiff_t>(half) + 1, arrivals.end(),
                                     [rank](const std::vector<int> &ranks) {
                                         return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
                                     });
    return static_cast<double>(ended) / (seconds.back() - seconds[half]);
}

Result<VersionTimes> versions(const program::Program &program, int count)
{
    if (!program.server)
        return badInput("the program has no parameter server; its ranks wait for each other");
    return VersionClock(program).run(count);
}

int steadyVersions(const program::Program &program)
{
    constexpr int kRounds = 16;
    return kRounds * (program.server->delay + static_cast<int>(program.ranks.size()) + 2);
}

} // namespace planloom::simulate

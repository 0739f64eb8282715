// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/versions.h"

#include "engine/program/server_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace planloom::simulate {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What is done at one moment is done within so much of it: sums of durations in another order.
constexpr double kRounding = 1e-12;

std::int64_t wholeNanoseconds(double seconds) { return std::llround(seconds * 1e9); }

class VersionClock {
public:
    explicit VersionClock(const program::Program &program)
        : m_server(*program.server),
          m_rows(program),
          m_versions(static_cast<int>(program.ranks.size()), m_server.barrier, m_server.delay),
          m_ranks(program.ranks.size())
    {
        for (std::size_t r = 0; r < m_ranks.size(); ++r) {
            m_ranks[r].core = program.ranks[r].core;
            m_cores = std::max(m_cores, m_ranks[r].core + 1);
        }
        for (std::size_t i = 0; i < program.tasks.size(); ++i) {
            const program::Task &task = program.tasks[i];
            const auto *boxing = task.as<program::Boxing>();
            const bool talks = boxing != nullptr && boxing->served;
            if (talks || task.lane == program::Lane::Compute)
                m_ranks[task.rank.index()].parts.push_back(
                    {static_cast<std::int32_t>(i), static_cast<std::int32_t>(task.lane), talks, task.duration.value()});
        }
    }

    Result<VersionTimes> run(int count)
    {
        for (Rank &rank : m_ranks) {
            double computes = 0;
            for (const Part &part : rank.parts)
                computes += part.talks ? 0 : part.seconds;
            m_times.iteration.push_back(computes);
            start(rank);
        }
        while (static_cast<int>(m_times.seconds.size()) < count) {
            const double moment = nextMoment();
            if (!(moment < kNever))
                return badInput("the ranks of the program send their parameter server nothing");
            advance(moment);
            endServer();
            if (const Status ended = endRanks(); !ended)
                return ended.error();
            if (m_solving.empty())
                if (const Status begun = beginVersion(); !begun)
                    return begun.error();
        }
        return std::move(m_times);
    }

private:
    /// A task of an iteration.
    struct Part {
        std::int32_t task = 0;
        std::int32_t lane = 0;
        bool talks = false; ///< sends the message, and ends with the answer
        double seconds = 0; ///< alone on its core
    };
    enum class State : std::uint8_t { Computes, Talks, Waits };
    struct Rank {
        std::int32_t core = -1;
        std::vector<Part> parts;
        std::size_t part = 0; ///< at hand
        State state = State::Waits;
        double since = 0; ///< when it began
        double left = 0;  ///< seconds to compute
        double until = kNever;
        double arrived = 0;       ///< when its message was at the server
        std::int32_t version = 0; ///< with which it computes
        std::int32_t given = 0;   ///< the last one that it was given
    };

    [[nodiscard]] static double atOnce(double moment) { return moment * (1 + kRounding); }

    /// Begins the part at hand.
    void start(Rank &rank)
    {
        const Part &part = rank.parts[rank.part];
        rank.since = m_now;
        rank.state = part.talks ? State::Talks : State::Computes;
        rank.left = part.seconds;
        rank.until = m_now + part.seconds;
    }

    /// Behind the part at hand, and into the next one.
    void pass(std::size_t r)
    {
        Rank &rank = m_ranks[r];
        const Part &part = rank.parts[rank.part];
        record(part.task, static_cast<std::int32_t>(r), part.lane, rank.version, rank.since);
        rank.part = (rank.part + 1) % rank.parts.size();
        if (rank.part == 0)
            rank.version = rank.given;
        start(rank);
    }

    void record(std::int32_t task, std::int32_t rank, std::int32_t lane, std::int32_t step, double since)
    {
        const std::int64_t begin = wholeNanoseconds(since);
        m_times.records.push_back({begin, wholeNanoseconds(m_now) - begin, task, step, rank, lane});
    }

    /// What computes on @p core now.
    [[nodiscard]] int computingOn(std::int32_t core) const
    {
        const auto ranks = std::count_if(m_ranks.begin(), m_ranks.end(), [&](const Rank &other) {
            return other.state == State::Computes && other.core == core;
        });
        return static_cast<int>(ranks) + (!m_solving.empty() && m_serverCore == core ? 1 : 0);
    }
    [[nodiscard]] double sharersOf(std::int32_t core) const { return core < 0 ? 1 : std::max(1, computingOn(core)); }

    [[nodiscard]] double nextMoment() const
    {
        double moment = m_solving.empty() ? kNever : m_now + m_left * sharersOf(m_serverCore);
        for (const Rank &rank : m_ranks) {
            if (rank.state == State::Computes)
                moment = std::min(moment, m_now + rank.left * sharersOf(rank.core));
            else if (rank.state == State::Talks)
                moment = std::min(moment, rank.until);
        }
        return moment;
    }

    void advance(double moment)
    {
        std::vector<double> share;
        for (const Rank &rank : m_ranks)
            share.push_back(sharersOf(rank.core));
        const double ofServer = sharersOf(m_serverCore);
        for (std::size_t r = 0; r < m_ranks.size(); ++r)
            if (m_ranks[r].state == State::Computes)
                m_ranks[r].left -= (moment - m_now) / share[r];
        m_left -= m_solving.empty() ? 0 : (moment - m_now) / ofServer;
        m_now = moment;
    }
    [[nodiscard]] bool isOver(double left, double whole) const { return left <= kRounding * std::max(m_now, whole); }

    /// Answers those of the version that is there now.
    void endServer()
    {
        if (m_solving.empty() || !isOver(m_left, m_server.seconds))
            return;
        const auto version = static_cast<std::int32_t>(m_times.seconds.size());
        m_times.seconds.push_back(m_now);
        record(m_rows.solves, m_rows.rank, program::ServerRows::kSolves, version, m_solvesSince);
        m_times.arrivals.push_back(std::exchange(m_solving, {}));
        for (const int k : m_times.arrivals.back()) {
            Rank &rank = m_ranks[static_cast<std::size_t>(k)];
            record(m_rows.messageOf(k), m_rows.rank, program::ServerRows::kMessages, version, rank.arrived);
            rank.given = version + 1;
            pass(static_cast<std::size_t>(k));
        }
    }

    /// Parts that end now.
    Status endRanks()
    {
        for (std::size_t r = 0; r < m_ranks.size(); ++r) {
            Rank &rank = m_ranks[r];
            for (std::size_t n = 0; n < rank.parts.size() && rank.state == State::Computes
                 && isOver(rank.left, rank.parts[rank.part].seconds);
                 ++n)
                pass(r);
            if (rank.state != State::Talks || rank.until > atOnce(m_now))
                continue;
            rank.state = State::Waits;
            rank.arrived = m_now;
            if (const Status arrived = m_versions.arrive(static_cast<int>(r)); !arrived)
                return arrived;
        }
        return {};
    }

    Status beginVersion()
    {
        auto next = m_versions.next();
        if (!next)
            return next.error();
        if (next->empty())
            return {};
        m_serverCore = -1;
        for (std::int32_t core = 0; core < m_cores; ++core)
            if (m_serverCore < 0 || computingOn(core) < computingOn(m_serverCore))
                m_serverCore = core;
        m_solving = *std::move(next);
        m_solvesSince = m_now;
        m_left = m_server.seconds;
        return {};
    }

    const program::ParameterServer &m_server;
    program::ServerRows m_rows;
    dispatch::Versions m_versions;
    std::vector<Rank> m_ranks;
    VersionTimes m_times;
    double m_now = 0;
    std::int32_t m_cores = 0;       ///< that ranks share
    std::vector<int> m_solving;     ///< the ranks of the version that the server works on
    std::int32_t m_serverCore = -1; ///< where
    double m_solvesSince = 0;
    double m_left = 0; ///< seconds of work
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

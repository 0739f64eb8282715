// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/base/units.h"
#include "engine/memory/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>
#include <vector>

namespace planloom::memory {

inline constexpr std::size_t kMostStorages = 16;

namespace optimum {

/// Which storages are on the device and on the host, and the next operator of the stream.
struct State {
    std::uint32_t here = 0;
    std::uint32_t host = 0;
    std::int32_t next = 0;
    friend bool operator==(const State &, const State &) = default;
};

struct HashOfState {
    std::size_t operator()(const State &state) const
    {
        const std::uint64_t masks = std::uint64_t{state.here} << 32 | state.host;
        return static_cast<std::size_t>((masks ^ static_cast<std::uint64_t>(state.next) * 0x9E3779B97F4A7C15ULL)
                                        * 0xBF58476D1CE4E5B9ULL);
    }
};

/// A* with the seconds of the operators that are left as the bound, and of what brings back each storage that one of
/// them reads. Storages leave when others need the room, so that
/// a state is left by an operator, a copy, or a single storage that is dropped.
class Search {
public:
    Search(const Stream &stream, const Limits &limits)
        : m_stream(stream),
          m_limits(limits),
          m_bit(stream.storages.size(), 0),
          m_left(stream.operators.size() + 1, 0)
    {
        for (std::size_t s = 0; s < stream.storages.size(); ++s)
            if (stream.storages[s].producer >= 0) {
                if (m_storages.size() < kMostStorages)
                    m_bit[s] = std::uint32_t{1} << m_storages.size();
                m_storages.push_back(static_cast<std::int32_t>(s));
            }
        m_wanted.resize(m_left.size(), 0);
        for (std::size_t o = stream.operators.size(); o-- > 0;) {
            m_left[o] = m_left[o + 1] + stream.operators[o].seconds;
            m_wanted[o] = m_wanted[o + 1] | maskOf(stream.operators[o].inputs);
        }
    }

    Result<double> run()
    {
        if (m_storages.size() > kMostStorages)
            return unsupported(fmt::format("the optimum is searched for up to {} storages, and the stream has {}; give "
                                           "a smaller one",
                                           kMostStorages, m_storages.size()));
        offer({}, 0);
        while (!m_open.empty()) {
            const Entry entry = m_open.top();
            m_open.pop();
            if (entry.seconds > m_best.at(entry.state))
                continue;
            if (static_cast<std::size_t>(entry.state.next) == m_stream.operators.size())
                return entry.seconds;
            expand(entry);
        }
        return badInput(
            fmt::format("no course of the stream keeps to {}; give a larger budget", format(Bytes(m_limits.budget))));
    }

private:
    struct Entry {
        double bound = 0;
        double seconds = 0;
        State state;
        bool operator<(const Entry &other) const { return bound > other.bound; }
    };

    [[nodiscard]] std::uint32_t maskOf(const std::vector<std::int32_t> &storages) const
    {
        std::uint32_t mask = 0;
        for (const std::int32_t storage : storages)
            mask |= m_bit[static_cast<std::size_t>(storage)];
        return mask;
    }

    [[nodiscard]] std::int64_t bytesOf(std::uint32_t mask) const
    {
        std::int64_t bytes = 0;
        for (std::size_t b = 0; b < m_storages.size(); ++b)
            if ((mask >> b & 1U) != 0)
                bytes += m_stream.storages[static_cast<std::size_t>(m_storages[b])].bytes;
        return bytes;
    }

    /// At least what is still to be done takes; infinity: it cannot be done. Each producer that has to run again, or
    /// whose outputs have to come back, counts once.
    [[nodiscard]] double leastLeft(const State &state) const
    {
        double seconds = m_left[static_cast<std::size_t>(state.next)];
        const std::uint32_t missing = m_wanted[static_cast<std::size_t>(state.next)] & ~state.here;
        std::int32_t counted = -1; // storages of a producer follow each other
        for (std::size_t b = 0; b < m_storages.size(); ++b) {
            const Storage &storage = m_stream.storages[static_cast<std::size_t>(m_storages[b])];
            if ((missing >> b & 1U) == 0 || storage.producer >= state.next)
                continue;
            const bool again = storage.recomputable && m_limits.policy.director != plan::MemoryDirector::Swap;
            double least = again ? m_stream.operators[static_cast<std::size_t>(storage.producer)].seconds
                                 : std::numeric_limits<double>::infinity();
            if ((state.host >> b & 1U) != 0)
                least = std::min(least, m_limits.copies.seconds(false, storage.bytes));
            if (least == std::numeric_limits<double>::infinity())
                return least;
            seconds += storage.producer == counted ? 0 : least;
            counted = storage.producer;
        }
        return seconds;
    }

    void offer(const State &state, double seconds)
    {
        const double left = leastLeft(state);
        if (left == std::numeric_limits<double>::infinity())
            return;
        const auto [entry, isNew] = m_best.try_emplace(state, seconds);
        if (!isNew && entry->second <= seconds)
            return;
        entry->second = seconds;
        m_open.push({seconds + left, seconds, state});
    }

    void expand(const Entry &entry)
    {
        const State &now = entry.state;
        runOperator(entry, static_cast<std::size_t>(now.next), true);
        for (std::size_t b = 0; b < m_storages.size(); ++b) {
            const std::uint32_t bit = std::uint32_t{1} << b;
            const Storage &storage = m_stream.storages[static_cast<std::size_t>(m_storages[b])];
            if ((now.here & bit) != 0) {
                offer({now.here & ~bit, now.host, now.next}, entry.seconds);
                if (swaps() && (now.host & bit) == 0)
                    offer({now.here, now.host | bit, now.next},
                          entry.seconds + m_limits.copies.seconds(true, storage.bytes));
                continue;
            }
            if ((now.host & bit) != 0 && bytesOf(now.here | bit) <= m_limits.budget)
                offer({now.here | bit, now.host, now.next},
                      entry.seconds + m_limits.copies.seconds(false, storage.bytes));
            if (storage.recomputable && m_limits.policy.director != plan::MemoryDirector::Swap
                && storage.producer < now.next)
                runOperator(entry, static_cast<std::size_t>(storage.producer), false);
        }
    }

    /// @p advances: it is the stream's next one; else it runs again.
    void runOperator(const Entry &entry, std::size_t index, bool advances)
    {
        const Operator &op = m_stream.operators[index];
        const std::uint32_t inputs = maskOf(op.inputs);
        State then = entry.state;
        then.here |= maskOf(op.outputs);
        if ((entry.state.here & inputs) != inputs || bytesOf(then.here) > m_limits.budget)
            return;
        if (advances)
            ++then.next;
        offer(then, entry.seconds + op.seconds);
    }

    [[nodiscard]] bool swaps() const { return m_limits.policy.director != plan::MemoryDirector::Recompute; }

    const Stream &m_stream;
    const Limits &m_limits;
    std::vector<std::int32_t> m_storages; ///< that may leave, by bit
    std::vector<std::uint32_t> m_bit;     ///< per storage of the stream
    std::vector<double> m_left;           ///< seconds of the operators from here on
    std::vector<std::uint32_t> m_wanted;  ///< that they read
    std::unordered_map<State, double, HashOfState> m_best;
    std::priority_queue<Entry> m_open;
};

} // namespace optimum

/// The least seconds in which @p stream can run with at most limits.budget bytes in use at any moment, by exhaustive
/// search: what no policy with synchronous copies can beat. Without swaps it is the optimum of Jain et al., Checkmate,
/// 2020 (§4, the integer program), for the stream's order of operators; with them copies take their time as operators
/// do. What is dead may stay for others that run again; host copies stay. Errors: Unsupported (more than kMostStorages
/// storages that may leave), BadInput (the budget is too small). Cost: exponential in the storages.
inline Result<double> optimalSeconds(const Stream &stream, const Limits &limits)
{
    return optimum::Search(stream, limits).run();
}

} // namespace planloom::memory

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace planloom::profiler {

/// A run of work in which a collective may go on, the most of any rank. Seconds.
struct WorkTimes {
    double seconds = 0;    ///< until the work is done, and the collective
    double computed = 0;   ///< of these, by a rank
    double waited = 0;     ///< of these, for the collective alone
    double collective = 0; ///< of these, until the collective had ended
};

/// How many pieces of work cover a collective, what the collective takes of the core that ranks share, and how much of
/// the core it gets: the arithmetic of the measurement, without its clocks. Ask for pieces() and wantsMore(), run the
/// work without and with the collective, and give both to add(). Ranks that are given the same times decide alike.
class SharedCoreWork {
public:
    /// @p fewPieces of work alone took @p few; the collective alone takes @p alone seconds.
    SharedCoreWork(const WorkTimes &few, int fewPieces, double alone);

    /// False if ranks do not wait for their core: it has time enough for each of them.
    [[nodiscard]] bool sharesCore() const { return m_shares; }
    [[nodiscard]] int pieces() const { return m_pieces; }
    /// False after enough rounds, or when they have taken too long.
    [[nodiscard]] bool wantsMore() const;
    /// A round of pieces() pieces. Where the work did not cover the collective its pieces are doubled, while they are
    /// fewer than 16,384, and the rounds so far do not count.
    void add(const WorkTimes &without, const WorkTimes &with);
    /// Seconds of a core for each of the @p bytes that a rank sends in the collective; 0: too little to be seen.
    [[nodiscard]] double coreSecondsPerByte(std::int64_t bytes) const;
    /// Parts of the core that the collective gets for each that the work of as many ranks gets; at least 1, as it is
    /// where the collective needs less than that.
    [[nodiscard]] double weight() const;

private:
    bool m_shares;
    int m_pieces;
    double m_spent = 0;           ///< in all rounds
    std::vector<double> m_longer; ///< per round that counts: seconds of a rank's own core
    std::vector<double> m_parts;  ///< per round that counts: of the core, that the collective had while it lasted
};

} // namespace planloom::profiler

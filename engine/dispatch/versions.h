// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/partial_barrier.h"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::dispatch {

/// Which workers each version of the parameters was made of and is given to, in order of versions.
using Arrivals = std::vector<std::vector<int>>;

/// The policy of a parameter server's lane (program::ParameterServer): which messages it makes its next version of, as
/// soon as it may. Both clocks ask it. Without times: equal arrivals get equal versions. Thread contract: one thread.
class Versions {
public:
    Versions(int workers, int barrier, int delay);

    /// The next versions are made as they were made before: each of exactly the workers named for it. Messages of
    /// others wait for their turn. Once @p recorded is used up, all that has arrived goes in again.
    void repeat(const Arrivals &recorded) { m_recorded.assign(recorded.begin(), recorded.end()); }

    /// A message of @p worker is there. Error: BadInput, no such worker, or it waits for its answer.
    Status arrive(int worker);
    /// The workers of the version that may be made now, ascending: their messages take the place of their last ones,
    /// and they are answered. None: it has to wait. Error: BadInput, what was recorded does not fit barrier and delay.
    Result<std::vector<int>> next();
    /// All workers have been answered and begin together: the next version waits for each of them once.
    void beginAnew();

    /// Those that the next version cannot be made without and that have sent nothing.
    [[nodiscard]] std::vector<int> waitedFor() const;
    /// By worker: versions since it was last answered.
    [[nodiscard]] const std::vector<int> &ages() const { return m_rule.ages(); }

private:
    int m_workers;
    int m_barrier;
    int m_delay;
    admm::PartialBarrier m_rule;
    std::vector<bool> m_waits; ///< by worker: its message is there and in no version
    std::deque<std::vector<int>> m_recorded;
};

/// Versions behind which all workers begin together, ascending: they validated, or wrote a checkpoint.
using Pauses = std::vector<std::int64_t>;

/// "version,workers", then a line a version: "17,0 2", or "17,0 2,pause". @p first: the number of the first one.
std::string toCsv(const Arrivals &arrivals, std::int64_t first, bool heading = true, const Pauses &pauses = {});
/// The versions from @p first on, and into @p pauses, if given, the pauses among them. Error: BadInput, naming the
/// line: no such table, versions that are not in order, workers not below @p workers.
Result<Arrivals> arrivalsFromCsv(std::string_view text, std::int64_t first, int workers, Pauses *pauses = nullptr);

} // namespace planloom::dispatch

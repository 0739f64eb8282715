// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/stage_cache.h"
#include "planners/common/kept_stages.h"
#include "planners/common/memory.h"
#include "planners/interface/planner.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace planloom::planners::automatic {

/// A plan that was simulated.
struct Simulated {
    plan::Plan plan;
    simulate::Report report;
    std::string source;         ///< the planner that it is from
    std::int64_t peakBytes = 0; ///< of the fullest device
    [[nodiscard]] double seconds() const { return report.iterationSeconds; }
};

/// Simulates plans, several at a time on this machine's cores, and keeps the best: at most kKept by time, and the front
/// of time against memory. The same plans in the same order give the same answer, whatever the cores.
class Simulations {
public:
    /// @p stages must outlive it. Plans that @p keep does not allow are as if they were not there.
    Simulations(const plan::Subject &subject, std::size_t budget, compile::StageCache &stages, KeptStages keep = {})
        : m_subject(subject),
          m_budget(budget),
          m_stages(stages),
          m_keep(std::move(keep))
    {
    }

    /// Those of @p plans that were not simulated before, as long as the budget lasts; true if one is the best so far.
    /// Plans that cannot be compiled or do not fit are counted and forgotten. Stops early where @p progress is.
    bool run(std::vector<plan::Plan> plans, const std::string &source, const Progress &progress);
    /// Takes in a plan that is simulated already.
    bool add(Simulated simulated);

    [[nodiscard]] const Simulated *best() const { return m_kept.empty() ? nullptr : &m_kept.front(); }
    [[nodiscard]] double bestSeconds() const;
    [[nodiscard]] const std::vector<Simulated> &kept() const { return m_kept; } ///< fastest first
    [[nodiscard]] const std::vector<Simulated> &front() const
    {
        return m_front;
    } ///< fastest first, each with less memory than those before it
    /// Those that do not fit, fastest first, at most kKept.
    [[nodiscard]] const std::vector<Simulated> &crowded() const { return m_crowded; }
    [[nodiscard]] std::size_t count() const { return m_count; }
    [[nodiscard]] bool exhausted() const { return m_count >= m_budget; }
    /// The need of the sketch that exceeds its devices least, if nothing fitted.
    [[nodiscard]] const std::optional<MemoryLimit> &tightest() const { return m_tightest; }

private:
    bool take(plan::Plan plan, Result<simulate::Simulation> simulation, const std::string &source);
    static bool insert(std::vector<Simulated> &list, Simulated simulated);
    void keepFront(const Simulated &simulated);

    static constexpr std::size_t kKept = 16;
    plan::Subject m_subject;
    std::size_t m_budget;
    compile::StageCache &m_stages;
    KeptStages m_keep;
    std::size_t m_count = 0;
    std::map<std::string, bool> m_seen; ///< by the key that decides the time
    std::vector<Simulated> m_kept;
    std::vector<Simulated> m_front;
    std::vector<Simulated> m_crowded;
    std::optional<MemoryLimit> m_tightest;
};

} // namespace planloom::planners::automatic

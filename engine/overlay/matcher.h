// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/overlay/calls.h"
#include "engine/overlay/expected.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace planloom::overlay {

/// A pass that was found in a step.
struct FoundPass {
    const PassOf *pass = nullptr;
    std::vector<std::pair<std::size_t, std::size_t>> pairs; ///< unit, call
};

/// A step of a process, matched.
struct FoundStep {
    std::int32_t step = 0;
    std::vector<FoundPass> passes;
    double wanted = 0, found = 0; ///< weights
};

/// Alignments of passes that look alike are made once.
class Alignments {
public:
    const Alignment &of(const std::vector<Wanted> &wanted, const std::vector<Found> &found, std::size_t pass)
    {
        std::vector<std::int64_t> key{static_cast<std::int64_t>(pass)};
        for (const Found &one : found)
            key.push_back((static_cast<std::int64_t>(one.scope) << 32) | one.kinds);
        const auto [at, isNew] = m_kept.try_emplace(std::move(key));
        if (isNew)
            at->second = align(wanted, found);
        return at->second;
    }

private:
    std::map<std::vector<std::int64_t>, Alignment> m_kept;
};

/// Matches the steps of a process with a candidate. The arguments must outlive it.
class Matcher {
public:
    Matcher(const Expected &expected, const Process &process, const Candidate &candidate)
        : m_expected(expected),
          m_process(process),
          m_candidate(candidate)
    {
        countKinds();
    }

    /// Micro-batches of @p step, as far as the numbers of operators tell; at least 1.
    [[nodiscard]] std::int64_t microBatchesOf(std::int32_t step) const;
    /// Of each step; before match().
    void setMicroBatches(std::int64_t count);
    [[nodiscard]] const std::vector<PassOf> &passes() const { return m_passes; }
    FoundStep match(std::int32_t step);

private:
    /// Passes whose calls are one sequence.
    struct Phases {
        bool forward = false, backward = false;
        [[nodiscard]] bool has(Phase phase) const
        {
            return (forward && phase == Phase::Forward) || (backward && phase == Phase::Backward)
                || (phase == Phase::Unknown && (forward && backward));
        }
        [[nodiscard]] bool has(const PassOf &pass) const { return pass.backward ? backward : forward; }
    };
    /// True if kernels do not say to which pass they belong: all passes are one sequence then.
    [[nodiscard]] bool isJoined() const { return !m_process.hasOperators; }
    void countKinds();
    void matchPhases(std::int32_t step, Phases phases, FoundStep &made);
    /// Calls [at, end) of @p calls; where those of the pass end.
    std::size_t matchPass(std::size_t p, const std::vector<std::size_t> &calls, std::size_t at, std::size_t end,
                          FoundStep &made);

    const Expected &m_expected;
    const Process &m_process;
    const Candidate &m_candidate;
    std::map<OpKind, double> m_perMicroBatch; ///< operators that tell micro-batches
    std::vector<PassOf> m_passes;
    std::vector<std::vector<Wanted>> m_wanted; ///< by pass
    std::vector<std::size_t> m_shapes;         ///< by pass: equal ones are the same sequence
    Alignments m_alignments;
};

/// Steps in which a process did at least half of what it did in its fullest one: others are cut off.
std::vector<std::int32_t> wholeSteps(const Process &process);

/// Less of a process than this share fits no device: it is of another program.
inline constexpr double kLeastFit = 0.2;
/// Where @p processes are laid, by process; null: nothing fits. As many as the plan has ranks go over these in order,
/// others where most is found and least is left over; no two over one. Where @p progress is stopped the rest is null.
/// Cost: an alignment of a step per process and kind of rank.
std::vector<const Candidate *> chooseCandidates(const Expected &expected, const std::vector<Process> &processes,
                                                const Progress &progress);

} // namespace planloom::overlay

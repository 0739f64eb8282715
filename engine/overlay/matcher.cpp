// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/matcher.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace planloom::overlay {
namespace {

constexpr std::size_t kMostCells = std::size_t{1} << 26; ///< of an alignment
constexpr double kTellingWeight = 4;                     ///< of kinds whose number tells passes
constexpr std::int64_t kMostMicroBatches = 1 << 16;

/// Chooses where processes are laid.
class Chooser {
public:
    Chooser(const Expected &expected, const std::vector<Process> &processes, const Progress &progress)
        : m_expected(expected),
          m_processes(processes),
          m_progress(progress)
    {
        for (const Process &process : processes)
            m_steps.push_back(wholeSteps(process));
    }

    /// By process: its candidate; null: none fits.
    std::vector<const Candidate *> choose()
    {
        const auto &candidates = m_expected.candidates();
        std::size_t ranks = 0;
        for (const Candidate &candidate : candidates)
            ranks += candidate.whole ? 0 : 1;
        std::vector<const Candidate *> chosen(m_processes.size(), nullptr);
        std::set<const Candidate *> taken;
        std::vector<std::size_t> trains;
        for (std::size_t i = 0; i < m_processes.size(); ++i) {
            if (!m_steps[i].empty() && best(i, taken).second >= kLeastFit)
                trains.push_back(i);
        }
        for (std::size_t n = 0; n < trains.size(); ++n) {
            const std::size_t i = trains[n];
            if (trains.size() == ranks && !taken.contains(&candidates[n]) && fit(i, candidates[n]) >= kLeastFit) {
                chosen[i] = &candidates[n]; // as many as there are: in order
            } else {
                const auto found = best(i, taken);
                chosen[i] = found.second >= kLeastFit ? found.first : nullptr;
            }
            if (chosen[i] != nullptr)
                taken.insert(chosen[i]);
        }
        return chosen;
    }

private:
    /// The free candidate of which most is found and least is left over.
    std::pair<const Candidate *, double> best(std::size_t process, const std::set<const Candidate *> &taken)
    {
        std::pair<const Candidate *, double> made{nullptr, -1};
        for (const Candidate &candidate : m_expected.candidates()) {
            if (taken.contains(&candidate))
                continue;
            const double share = fit(process, candidate);
            if (share > made.second)
                made = {&candidate, share};
        }
        return made;
    }

    /// Twice the weight that is found, over what is wanted and what is there (Dice's coefficient).
    double fit(std::size_t process, const Candidate &candidate)
    {
        const auto key = std::pair(process, candidate.whole ? std::vector<std::size_t>() : candidate.stages);
        if (const auto kept = m_fits.find(key); kept != m_fits.end())
            return kept->second;
        if (m_progress.stopped())
            return 0;
        const std::vector<std::int32_t> &steps = m_steps[process];
        const std::int32_t step = steps[steps.size() > 1 ? 1 : 0];
        Matcher matcher(m_expected, m_processes[process], candidate);
        matcher.setMicroBatches(matcher.microBatchesOf(step));
        const FoundStep found = matcher.match(step);
        double there = 0;
        for (const std::size_t at : m_processes[process].callsOfStep.in(step)) {
            const Call &call = m_processes[process].calls[at];
            if (call.kinds != 0 && call.phase != Phase::Optimizer)
                there += weight(call.kinds);
        }
        const double all = found.wanted + there;
        return m_fits[key] = all > 0 ? 2 * found.found / all : 0;
    }

    const Expected &m_expected;
    const std::vector<Process> &m_processes;
    const Progress &m_progress;
    std::vector<std::vector<std::int32_t>> m_steps; ///< whole ones, by process
    std::map<std::pair<std::size_t, std::vector<std::size_t>>, double> m_fits;
};

} // namespace

void Matcher::countKinds()
{
    const bool joined = isJoined();
    for (const PassOf &pass : m_expected.passes(m_candidate, 1)) {
        if (pass.backward && !joined)
            continue;
        for (const std::size_t unit : pass.units) {
            const OpKind kind = m_expected.units()[unit].kind;
            const bool isProduct = kind == OpKind::Product || kind == OpKind::Convolution;
            m_perMicroBatch[kind] += pass.backward && isProduct ? 2 : 1;
        }
    }
}

std::int64_t Matcher::microBatchesOf(std::int32_t step) const
{
    std::map<OpKind, double> found;
    const bool joined = isJoined();
    for (const std::size_t at : m_process.callsOfStep.in(step)) {
        const Call &call = m_process.calls[at];
        if (call.kinds != 0 && (call.phase == Phase::Forward || (joined && call.phase != Phase::Optimizer)))
            ++found[heaviest(call.kinds)];
    }
    // What a pass has once, such as the loss, tells passes apart; what each block has says how many blocks there
    // are.
    std::vector<std::pair<double, double>> ratios; // with their votes
    double votes = 0;
    for (const auto &[kind, count] : m_perMicroBatch) {
        if (weight(kind) < kTellingWeight || !found.contains(kind))
            continue;
        ratios.emplace_back(found[kind] / count, weight(kind) / (count * count));
        votes += ratios.back().second;
    }
    std::ranges::sort(ratios);
    double passed = 0;
    for (const auto &[ratio, vote] : ratios) {
        passed += vote;
        if (2 * passed >= votes)
            return std::clamp<std::int64_t>(std::llround(ratio), 1, kMostMicroBatches);
    }
    return 1;
}

void Matcher::setMicroBatches(std::int64_t count)
{
    m_passes = m_expected.passes(m_candidate, count);
    m_wanted.clear();
    for (const PassOf &pass : m_passes) {
        std::vector<Wanted> &wanted = m_wanted.emplace_back();
        for (const std::size_t unit : pass.units)
            wanted.push_back({m_expected.units()[unit].kind, &m_expected.units()[unit].scopes});
    }
    m_shapes.clear();
    std::map<std::pair<bool, std::vector<std::size_t>>, std::size_t> shapes;
    for (const PassOf &pass : m_passes)
        m_shapes.push_back(shapes.try_emplace({pass.backward, pass.units}, shapes.size()).first->second);
}

FoundStep Matcher::match(std::int32_t step)
{
    FoundStep made;
    made.step = step;
    if (isJoined()) {
        matchPhases(step, {true, true}, made);
    } else {
        matchPhases(step, {true, false}, made);
        matchPhases(step, {false, true}, made);
    }
    return made;
}

void Matcher::matchPhases(std::int32_t step, Phases phases, FoundStep &made)
{
    std::vector<std::size_t> calls;
    std::vector<std::size_t> runs; // ends of runs that the other pass interrupts
    for (const std::size_t i : m_process.callsOfStep.in(step)) {
        const Call &call = m_process.calls[i];
        if (call.kinds == 0)
            continue;
        if (phases.has(call.phase))
            calls.push_back(i);
        else if ((call.phase == Phase::Forward || call.phase == Phase::Backward)
                 && (runs.empty() ? !calls.empty() : runs.back() < calls.size()))
            runs.push_back(calls.size());
    }
    if (runs.empty() || runs.back() < calls.size())
        runs.push_back(calls.size());
    std::size_t left = 0;
    for (const PassOf &pass : m_passes)
        left += phases.has(pass) ? 1 : 0;
    const bool byRuns = !isJoined() && runs.size() == left;
    std::size_t at = 0;
    std::size_t run = 0;
    for (std::size_t p = 0; p < m_passes.size(); ++p) {
        if (!phases.has(m_passes[p]))
            continue;
        std::size_t end = calls.size();
        if (byRuns) {
            end = runs[run++];
        } else if (left > 1) {
            constexpr std::size_t kSlack = 64;
            end = std::min(end, at + 2 * ((calls.size() - at + left - 1) / left) + kSlack);
        }
        --left;
        end = std::min(end, at + kMostCells / (m_passes[p].units.size() + 1));
        at = matchPass(p, calls, at, end, made);
        if (byRuns)
            at = end;
    }
}

std::size_t Matcher::matchPass(std::size_t p, const std::vector<std::size_t> &calls, std::size_t at, std::size_t end,
                               FoundStep &made)
{
    const PassOf &pass = m_passes[p];
    for (const std::size_t unit : pass.units)
        made.wanted += weight(m_expected.units()[unit].kind);
    std::vector<Found> found;
    for (std::size_t i = at; i < end; ++i) {
        const Call &call = m_process.calls[calls[i]];
        const bool isOther = call.phase == (pass.backward ? Phase::Forward : Phase::Backward);
        found.push_back({isOther ? 0 : call.kinds, call.scope});
    }
    const Alignment &alignment = m_alignments.of(m_wanted[p], found, m_shapes[p]);
    if (alignment.pairs.empty())
        return at;
    FoundPass &laid = made.passes.emplace_back();
    laid.pass = &pass;
    std::set<std::size_t> units;
    for (const Pair &pair : alignment.pairs) {
        laid.pairs.emplace_back(pass.units[pair.wanted], calls[at + pair.found]);
        units.insert(pair.wanted);
    }
    for (const std::size_t unit : units)
        made.found += weight(m_expected.units()[pass.units[unit]].kind);
    return at + alignment.pairs.back().found + 1;
}

std::vector<std::int32_t> wholeSteps(const Process &process)
{
    std::map<std::int32_t, std::int64_t> counts;
    for (const auto &[step, calls] : process.callsOfStep.all)
        counts[step] = std::ranges::count_if(calls, [&](std::size_t at) { return process.calls[at].kinds != 0; });
    std::int64_t most = 0;
    for (const auto &[step, count] : counts)
        most = std::max(most, count);
    std::vector<std::int32_t> steps;
    for (const auto &[step, count] : counts) {
        if (most > 0 && 2 * count >= most)
            steps.push_back(step);
    }
    return steps;
}

std::vector<const Candidate *> chooseCandidates(const Expected &expected, const std::vector<Process> &processes,
                                                const Progress &progress)
{
    return Chooser(expected, processes, progress).choose();
}

} // namespace planloom::overlay

// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/rounds.h"

#include <algorithm>
#include <limits>

namespace planloom::trace {
namespace {

bool hasRecords(const Window &step) { return step.begin <= step.end; }

std::size_t lengthOf(const Rounds &rounds) { return static_cast<std::size_t>(std::max(rounds.steps, 1)); }

/// The one that begins with step @p first, if all its steps have records.
std::optional<Round> wholeRound(const Rounds &rounds, std::span<const Window> windows, std::size_t first)
{
    const std::size_t length = lengthOf(rounds);
    if (first + length > windows.size() || !std::ranges::all_of(windows.subspan(first, length), hasRecords))
        return std::nullopt;
    Round round;
    round.first = static_cast<std::int64_t>(first);
    round.steps = static_cast<std::int32_t>(length);
    round.window = windows[first];
    for (const Window &step : windows.subspan(first, length)) {
        round.paused += std::max<std::int64_t>(0, step.begin - round.window.end);
        round.window = {std::min(round.window.begin, step.begin), std::max(round.window.end, step.end)};
    }
    round.followed = first + length < windows.size() && hasRecords(windows[first + length]);
    if (rounds.overlap && round.followed)
        round.window.end = std::clamp(windows[first + length].begin, round.window.begin, round.window.end);
    return round;
}

std::size_t firstStep(const Rounds &rounds)
{
    const auto from = static_cast<std::size_t>(std::max<std::int64_t>(rounds.from, 0));
    return from - from % lengthOf(rounds);
}

std::vector<Round> wholeRounds(const Rounds &rounds, std::span<const Window> windows)
{
    std::vector<Round> whole;
    for (std::size_t first = firstStep(rounds); first < windows.size(); first += lengthOf(rounds))
        if (const auto round = wholeRound(rounds, windows, first))
            whole.push_back(*round);
    return whole;
}

/// Steps for rounds, where no round is whole.
Rounds singleSteps(const Rounds &rounds) { return {1, 0, rounds.overlap}; }

/// The last one that is followed, or else the last one.
std::optional<Round> lastOf(const Rounds &rounds, std::span<const Window> windows)
{
    std::optional<Round> last;
    const std::size_t from = firstStep(rounds);
    if (windows.size() <= from)
        return last;
    const std::size_t count = (windows.size() - from - 1) / lengthOf(rounds) + 1;
    for (std::size_t r = count; r-- > 0;) {
        const auto round = wholeRound(rounds, windows, from + r * lengthOf(rounds));
        if (round && round->followed)
            return round;
        if (round && !last)
            last = round;
    }
    return last;
}

} // namespace

std::vector<Window> stepWindows(const Trace &trace)
{
    std::vector<Window> windows;
    for (const Record &record : trace.records)
        addToSteps(record, windows);
    return windows;
}

void addToSteps(const Record &record, std::vector<Window> &windows)
{
    constexpr std::int32_t kStepLimit = 10'000'000; // a damaged trace must not make a huge table
    if (record.step < 0 || record.step >= kStepLimit)
        return;
    const auto step = static_cast<std::size_t>(record.step);
    if (step >= windows.size())
        windows.resize(step + 1, {std::numeric_limits<std::int64_t>::max(), 0});
    windows[step].begin = std::min(windows[step].begin, record.start);
    windows[step].end = std::max(windows[step].end, record.start + record.duration);
}

std::vector<Round> steadyRounds(const Rounds &rounds, std::span<const Window> windows)
{
    std::vector<Round> steady = wholeRounds(rounds, windows);
    if (steady.empty())
        steady = wholeRounds(singleSteps(rounds), windows);
    const bool anyFollowed = std::ranges::any_of(steady, &Round::followed);
    if (rounds.overlap && anyFollowed && !steady.back().followed)
        steady.pop_back();
    if (steady.size() > 1)
        steady.erase(steady.begin());
    return steady;
}

std::optional<Round> lastWholeRound(const Rounds &rounds, std::span<const Window> windows)
{
    const auto last = lastOf(rounds, windows);
    return last ? last : lastOf(singleSteps(rounds), windows);
}

} // namespace planloom::trace

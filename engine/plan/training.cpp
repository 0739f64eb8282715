// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/training.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

namespace planloom::plan {
namespace {

using Kind = LearningRateSchedule::Kind;

constexpr std::array kKindNames{"constant", "linear", "cosine"}; // order of Kind
constexpr std::string_view kRankBelow = "rank<";

/// The N of "rank<N".
std::optional<std::size_t> rankLimit(std::string_view match)
{
    if (!match.starts_with(kRankBelow))
        return std::nullopt;
    match.remove_prefix(kRankBelow.size());
    std::size_t limit = 0;
    const auto [end, error] = std::from_chars(match.data(), match.data() + match.size(), limit);
    if (error != std::errc() || end != match.data() + match.size())
        return std::nullopt;
    return limit;
}

} // namespace

double learningRateFactor(const LearningRateSchedule &schedule, std::int64_t step, std::int64_t runSteps)
{
    if (step < schedule.warmupSteps)
        return static_cast<double>(step + 1) / static_cast<double>(schedule.warmupSteps + 1);
    if (schedule.kind == Kind::Constant)
        return 1;
    const std::int64_t end = schedule.totalSteps > 0 ? schedule.totalSteps : runSteps;
    if (step >= end)
        return schedule.minimum;
    const double done =
        static_cast<double>(step - schedule.warmupSteps) / static_cast<double>(end - schedule.warmupSteps);
    const double left = schedule.kind == Kind::Linear ? 1 - done : 0.5 * (1 + std::cos(std::numbers::pi * done));
    return schedule.minimum + (1 - schedule.minimum) * left;
}

ParameterSettings settingsOf(const Optimizer &optimizer, std::string_view parameter, std::size_t rank)
{
    for (const ParameterGroup &group : optimizer.groups) {
        if (matchesParameter(group.match, parameter, rank))
            return {group.weightDecay, group.learningRateFactor};
    }
    return {optimizer.weightDecay, 1};
}

bool matches(std::string_view pattern, std::string_view text)
{
    std::size_t p = 0;
    std::size_t t = 0;
    std::size_t star = std::string_view::npos; // the last `*`, and where the text was then: it may stand for more
    std::size_t mark = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            mark = t;
        } else if (p < pattern.size() && pattern[p] == text[t]) {
            ++p;
            ++t;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            t = ++mark;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool matchesParameter(std::string_view match, std::string_view parameter, std::size_t rank)
{
    if (const auto limit = rankLimit(match))
        return rank < *limit;
    return matches(match, parameter);
}

const char *name(Kind kind)
{
    const auto index = static_cast<std::size_t>(kind);
    return index < kKindNames.size() ? kKindNames[index] : "unknown";
}

std::optional<Kind> learningRateKindFromName(std::string_view text)
{
    for (std::size_t i = 0; i < kKindNames.size(); ++i) {
        if (text == kKindNames[i])
            return static_cast<Kind>(i);
    }
    return std::nullopt;
}

} // namespace planloom::plan

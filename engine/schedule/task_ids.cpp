// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule/schedule.h"

#include <charconv>
#include <fmt/format.h>

namespace planloom::schedule {
namespace {

/// Reads digits and moves behind them.
std::optional<std::int32_t> takeNumber(std::string_view &text)
{
    std::int32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number < 0)
        return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

/// Reads "s2" and moves behind it.
std::optional<std::int32_t> takeStage(std::string_view &text)
{
    if (!text.starts_with('s'))
        return std::nullopt;
    text.remove_prefix(1);
    return takeNumber(text);
}

} // namespace

const char *letter(Pass pass)
{
    switch (pass) {
    case Pass::Forward: return "F";
    case Pass::Backward: return "B";
    case Pass::Recompute: return "R";
    case Pass::WeightGradient: return "W";
    }
    return "X";
}

std::string textOf(const PassStep &step)
{
    return fmt::format("s{}.{}.m{}", step.stage, letter(step.pass), step.microBatch);
}

std::optional<PassStep> passStepFrom(std::string_view text)
{
    PassStep step;
    const auto stage = takeStage(text);
    if (!stage)
        return std::nullopt;
    step.stage = *stage;
    if (text.starts_with(".F.m"))
        step.pass = Pass::Forward;
    else if (text.starts_with(".B.m"))
        step.pass = Pass::Backward;
    else if (text.starts_with(".W.m"))
        step.pass = Pass::WeightGradient;
    else
        return std::nullopt;
    text.remove_prefix(4);
    const auto microBatch = takeNumber(text);
    if (!microBatch || !text.empty())
        return std::nullopt;
    step.microBatch = *microBatch;
    return step;
}

std::optional<std::int32_t> stageOfTask(std::string_view id)
{
    const auto stage = takeStage(id);
    return id.starts_with('.') ? stage : std::nullopt;
}

} // namespace planloom::schedule

// SPDX-License-Identifier: Apache-2.0
#include "engine/import/cluster/quantity.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace planloom::import {
namespace {

std::string_view trimmed(std::string_view text)
{
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
        text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
        text.remove_suffix(1);
    return text;
}

/// The prefix before the unit proper: "", "k", "G", "Gi" ...; 0 if it is none.
double prefix(std::string_view text)
{
    if (text.empty())
        return 1;
    constexpr std::string_view kLetters = "kMGTP";
    const char letter = text[0] == 'K' ? 'k' : text[0];
    const std::size_t power = kLetters.find(letter);
    if (power == std::string_view::npos || text.size() > 2 || (text.size() == 2 && text[1] != 'i'))
        return 0;
    return std::pow(text.size() == 2 ? 1024.0 : 1000.0, static_cast<double>(power + 1));
}

double scaleOf(std::string_view unit, std::string_view ending, double base)
{
    return unit.ends_with(ending) ? prefix(unit.substr(0, unit.size() - ending.size())) * base : 0;
}

/// With the letter u, the micro sign or the Greek letter mu.
bool isMicroseconds(std::string_view unit) { return unit == "us" || unit == "\u00b5s" || unit == "\u03bcs"; }

/// One @p unit in the base unit; 0 if it is unknown.
double scale(std::string_view unit, QuantityKind kind)
{
    double found = 0;
    const auto first = [&](std::string_view ending, double base) {
        if (found == 0)
            found = scaleOf(unit, ending, base);
    };
    switch (kind) {
    case QuantityKind::BytesPerSecond:
        first("B/s", 1);
        first("b/s", 1.0 / 8);
        first("bit/s", 1.0 / 8);
        first("bps", 1.0 / 8);
        break;
    case QuantityKind::Bytes: first("B", 1); break;
    case QuantityKind::FlopsPerSecond:
        first("FLOP/s", 1);
        first("FLOPS", 1);
        break;
    case QuantityKind::Seconds:
        found = unit == "s" ? 1 : unit == "ms" ? 1e-3 : isMicroseconds(unit) ? 1e-6 : unit == "ns" ? 1e-9 : 0;
        break;
    }
    return found;
}

const char *example(QuantityKind kind)
{
    switch (kind) {
    case QuantityKind::BytesPerSecond: return "25 GB/s or 100 Gb/s";
    case QuantityKind::Bytes: return "16 GB or 80 GiB";
    case QuantityKind::FlopsPerSecond: return "15.7 TFLOP/s";
    case QuantityKind::Seconds: return "5 us";
    }
    return "";
}

} // namespace

Result<double> parseQuantity(std::string_view text, QuantityKind kind)
{
    const std::string_view whole = trimmed(text);
    double number = 0;
    const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), number);
    if (error != std::errc{} || !std::isfinite(number))
        return badInput(
            fmt::format("\"{}\" is not a number with a unit; write it as {}", text.substr(0, 60), example(kind)));
    const std::string_view unit = trimmed(whole.substr(static_cast<std::size_t>(end - whole.data())));
    if (unit.empty())
        return number;
    const double factor = scale(unit, kind);
    if (factor == 0)
        return badInput(
            fmt::format("\"{}\" is not a unit that fits here; write it as {}", unit.substr(0, 60), example(kind)));
    if (!std::isfinite(number * factor))
        return badInput(fmt::format("\"{}\" is too large", text.substr(0, 60)));
    return number * factor;
}

} // namespace planloom::import

// SPDX-License-Identifier: Apache-2.0
#include "engine/store/run_filter.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace planloom::store {
namespace {

std::string inSmallLetters(std::string_view text)
{
    std::string small(text);
    std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return small;
}

bool containsText(const std::string &text, const std::string &small)
{
    return inSmallLetters(text).find(small) != std::string::npos;
}

/// "50ms" as 0.05; nothing: it is no figure.
std::optional<double> figureOf(std::string_view text)
{
    double value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc())
        return std::nullopt;
    constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},      {"s", 1},    {"ms", 1e-3}, {"us", 1e-6},
                                                              {"µs", 1e-6}, {"%", 1e-2}, {"k", 1e3},   {"K", 1e3},
                                                              {"M", 1e6},   {"G", 1e9}};
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (const auto &[name, factor] : kUnits)
        if (unit == name)
            return value * factor;
    return std::nullopt;
}

/// Words apart by blanks; quotes keep blanks in.
std::vector<std::string> wordsOf(std::string_view text)
{
    std::vector<std::string> words;
    std::string word;
    bool quoted = false;
    const auto end = [&] {
        if (!word.empty())
            words.push_back(std::exchange(word, {}));
    };
    for (const char c : text) {
        if (c == '"')
            quoted = !quoted;
        else if (!quoted && std::isspace(static_cast<unsigned char>(c)))
            end();
        else
            word += c;
    }
    end();
    return words;
}

std::string keysText()
{
    std::string keys;
    for (const RunField &field : runFields())
        keys += (keys.empty() ? "" : ", ") + std::string(field.key);
    return keys;
}

} // namespace

Result<RunFilter> RunFilter::parse(std::string_view text)
{
    RunFilter filter;
    for (const std::string &word : wordsOf(text)) {
        auto term = termOf(word);
        if (!term)
            return term.error();
        filter.m_terms.push_back(*std::move(term));
    }
    return filter;
}

Result<RunFilter::Term> RunFilter::termOf(const std::string &word)
{
    const std::size_t at = word.find_first_of(":<>=");
    Term term;
    if (at == std::string::npos || at == 0) {
        term.text = inSmallLetters(word);
        return term;
    }
    const std::string key = word.substr(0, at);
    term.field = findRunField(inSmallLetters(key));
    if (term.field == nullptr)
        return badInput(fmt::format("there is no field '{}'; fields are {}", key, keysText()));
    const bool orEqual = word.size() > at + 1 && word[at + 1] == '=' && word[at] != ':';
    const std::string value = word.substr(at + (orEqual ? 2 : 1));
    if (value.empty())
        return badInput(fmt::format("'{}' has no value; write {}{}", word, word,
                                    term.field->number != nullptr ? "10, or leave it out" : "text, or leave it out"));
    term.text = inSmallLetters(value);
    if (word[at] == '<')
        term.compare = orEqual ? Compare::AtMost : Compare::Less;
    else if (word[at] == '>')
        term.compare = orEqual ? Compare::AtLeast : Compare::More;
    if (term.field->number == nullptr)
        return term;
    const auto figure = figureOf(value);
    if (!figure)
        return badInput(
            fmt::format("'{}' is no figure; write one with s, ms, us, %, k, M or G behind it, or nothing", value));
    term.number = *figure;
    return term;
}

bool RunFilter::holds(const Term &term, const Run &run)
{
    if (term.field == nullptr)
        return std::ranges::any_of(runFields(), [&](const RunField &field) {
            return field.text != nullptr && containsText(field.text(run), term.text);
        });
    const auto ordered = [&](const auto &value, const auto &limit) {
        switch (term.compare) {
        case Compare::Less: return value < limit;
        case Compare::AtMost: return value <= limit;
        case Compare::More: return value > limit;
        case Compare::AtLeast: return value >= limit;
        case Compare::Contains: break;
        }
        return false;
    };
    if (term.field->number != nullptr) {
        constexpr double kNear = 0.005; // lists show three to five digits
        const double value = term.field->number(run);
        return term.compare == Compare::Contains ? std::abs(value - term.number) <= kNear * std::abs(term.number)
                                                 : ordered(value, term.number); // false for NaN
    }
    const std::string text = inSmallLetters(term.field->text(run));
    if (term.compare == Compare::Contains)
        return text.find(term.text) != std::string::npos;
    // As much of the text as was given: "2026-11-27 11:43" is not later than "2026-11-27".
    return !text.empty() && ordered(text.substr(0, term.text.size()), term.text);
}

bool RunFilter::matches(const Run &run) const
{
    return std::ranges::all_of(m_terms, [&](const Term &term) { return holds(term, run); });
}

} // namespace planloom::store

// SPDX-License-Identifier: Apache-2.0
#include "planners/interface/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace planloom::planners {
namespace {

template <class Number>
bool parse(const std::string &text, Number &value)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> split(const std::string &text)
{
    std::vector<std::string> parts;
    std::size_t begin = 0;
    while (begin <= text.size()) {
        const std::size_t comma = std::min(text.find(',', begin), text.size());
        parts.push_back(text.substr(begin, comma - begin));
        begin = comma + 1;
    }
    return parts;
}

} // namespace

OptionReader::OptionReader(const Options &options, std::vector<OptionInfo> known)
    : m_options(options),
      m_known(std::move(known))
{
    std::vector<std::string> keys;
    for (const OptionInfo &info : m_known)
        keys.push_back(info.key);
    for (const auto &[key, value] : m_options) {
        if (std::find(keys.begin(), keys.end(), key) != keys.end())
            continue;
        refuse(keys.empty() ? fmt::format("there is no option '{}'; this planner has none", key)
                            : fmt::format("there is no option '{}'; choose from {}", key, fmt::join(keys, ", ")));
    }
}

const OptionInfo *OptionReader::infoOf(const std::string &key) const
{
    const auto info = std::ranges::find(m_known, key, &OptionInfo::key);
    return info == m_known.end() ? nullptr : &*info;
}

std::string OptionReader::fallbackOf(const std::string &key) const
{
    const OptionInfo *info = infoOf(key);
    return info == nullptr ? std::string() : info->fallback;
}

std::string OptionReader::textOf(const std::string &key) const
{
    const auto given = m_options.find(key);
    return given == m_options.end() ? fallbackOf(key) : given->second;
}

void OptionReader::refuse(const std::string &message)
{
    if (m_status)
        m_status = badInput(message);
}

std::int64_t OptionReader::integer(const std::string &key, std::int64_t least, std::int64_t most)
{
    std::int64_t value = 0;
    if (parse(textOf(key), value) && value >= least && value <= most)
        return value;
    refuse(fmt::format("option {}={} is not a whole number from {} to {}; correct it", key, textOf(key), least, most));
    parse(fallbackOf(key), value);
    return value;
}

std::vector<std::int64_t> OptionReader::integers(const std::string &key, std::int64_t least, std::int64_t most)
{
    std::vector<std::int64_t> values;
    if (textOf(key).empty() || textOf(key) == fallbackOf(key))
        return values;
    for (const std::string &part : split(textOf(key))) {
        std::int64_t value = 0;
        if (!parse(part, value) || value < least || value > most) {
            refuse(fmt::format("option {}={} is not a list of whole numbers from {} to {}, such as 4,7; correct it",
                               key, textOf(key), least, most));
            return {};
        }
        values.push_back(value);
    }
    return values;
}

double OptionReader::number(const std::string &key, double least, double most)
{
    double value = 0;
    if (parse(textOf(key), value) && value >= least && value <= most)
        return value;
    refuse(fmt::format("option {}={} is not a number from {} to {}; correct it", key, textOf(key), least, most));
    parse(fallbackOf(key), value);
    return value;
}

std::string OptionReader::choice(const std::string &key)
{
    const OptionInfo *info = infoOf(key);
    const std::vector<std::string> allowed = info == nullptr ? std::vector<std::string>() : info->choices;
    const std::string text = textOf(key);
    if (std::find(allowed.begin(), allowed.end(), text) != allowed.end())
        return text;
    refuse(fmt::format("option {}={} is not known; choose one of {}", key, text, fmt::join(allowed, ", ")));
    return fallbackOf(key);
}

std::vector<std::string> OptionReader::choices(const std::string &key, const std::vector<std::string> &allowed)
{
    std::vector<std::string> parts = split(textOf(key));
    for (const std::string &part : parts) {
        if (part == "all")
            return allowed;
        if (std::find(allowed.begin(), allowed.end(), part) != allowed.end())
            continue;
        refuse(fmt::format("option {}={} names '{}'; choose from {}, separated by commas, or all", key, textOf(key),
                           part, fmt::join(allowed, ", ")));
        parts = split(fallbackOf(key));
        break;
    }
    std::vector<std::string> chosen;
    for (const std::string &name : allowed)
        if (std::find(parts.begin(), parts.end(), name) != parts.end())
            chosen.push_back(name);
    return chosen;
}

} // namespace planloom::planners

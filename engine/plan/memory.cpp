// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <set>

namespace planloom::plan {
namespace {

constexpr const char *kDirectors[] = {"rule", "chain", "swap", "recompute"}; // order of MemoryDirector
constexpr const char *kTriggers[] = {"before", "after"};                     // order of MemoryTrigger
constexpr const char *kTiers[] = {"device", "host"};              // order of Memory::hostStates, hostParameters
constexpr const char *kClocks[] = {"logical", "measured"};        // order of MemoryClock
constexpr const char *kCopies[] = {"synchronous", "overlapping"}; // order of Memory::overlaps

Error wrongSetting(const char *key, std::string_view text, std::string_view wanted)
{
    return badInput(fmt::format("memory setting {} is \"{}\"; give {}", key, text, wanted));
}

template <class Number>
bool parses(std::string_view text, Number &number)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

template <class Number>
Status readNumber(const char *key, std::string_view text, Number &number)
{
    if (parses(text, number))
        return {};
    return wrongSetting(key, text, std::is_integral_v<Number> ? "a whole number" : "a number");
}

/// A word's place in @p words.
template <class Choice, std::size_t n>
Status readChoice(const char *key, std::string_view text, const char *const (&words)[n], Choice &choice)
{
    const auto found = std::find(std::begin(words), std::end(words), text);
    if (found == std::end(words))
        return wrongSetting(key, text, fmt::format("{}", fmt::join(words, ", ")));
    choice = static_cast<Choice>(found - std::begin(words));
    return {};
}

/// "60%", or bytes.
Status readBudget(Memory &memory, std::string_view text)
{
    double percent = 0;
    if (!text.empty() && text.back() == '%' && parses(text.substr(0, text.size() - 1), percent)) {
        memory.budgetBytes = 0;
        memory.budgetShare = percent / 100;
        return {};
    }
    if (std::int64_t bytes = 0; parses(text, bytes) && bytes > 0) {
        memory.budgetBytes = bytes;
        return {};
    }
    return wrongSetting("budget", text, "bytes, or a part of the activations without a limit such as 60%");
}

std::string budgetText(const Memory &memory)
{
    return memory.budgetBytes > 0 ? std::to_string(memory.budgetBytes)
                                  : fmt::format("{}%", std::round(memory.budgetShare * 1e8) / 1e6);
}

template <class Row, std::size_t n>
std::string rowNames(const Row (&table)[n])
{
    std::string names;
    for (const Row &row : table)
        names += (names.empty() ? "" : ", ") + std::string(row.name);
    return names;
}

std::string settingNames()
{
    std::string names;
    for (const MemorySetting &setting : memorySettings())
        names += (names.empty() ? "" : ", ") + std::string(setting.name);
    return names;
}

} // namespace

const std::vector<MemorySetting> &memorySettings()
{
    using Text = std::string_view;
    static const std::vector<MemorySetting> settings{
        {"budget", "bytes of activations on a device, or a part of what they take without a limit (60%)", &budgetText,
         &readBudget},
        {"director", "what is done with what leaves: rule, chain, swap, recompute",
         [](const Memory &m) -> std::string { return kDirectors[static_cast<std::size_t>(m.director)]; },
         [](Memory &m, Text text) { return readChoice("director", text, kDirectors, m.director); }},
        {"trigger", "when room is made: before or after an operator",
         [](const Memory &m) -> std::string { return kTriggers[static_cast<std::size_t>(m.trigger)]; },
         [](Memory &m, Text text) { return readChoice("trigger", text, kTriggers, m.trigger); }},
        {"copies", "overlapping: beside the operators; synchronous: operators wait for them",
         [](const Memory &m) -> std::string { return kCopies[m.overlaps ? 1 : 0]; },
         [](Memory &m, Text text) { return readChoice("copies", text, kCopies, m.overlaps); }},
        {"prefetch", "swapped tensors that may be on their way back before they are used",
         [](const Memory &m) { return std::to_string(m.prefetch); },
         [](Memory &m, Text text) { return readNumber("prefetch", text, m.prefetch); }},
        {"threshold", "recompute if swapping takes more than so many times as long",
         [](const Memory &m) { return fmt::format("{}", m.threshold); },
         [](Memory &m, Text text) { return readNumber("threshold", text, m.threshold); }},
        {"bandwidth_out", "bytes/s to the host; 0: the device's",
         [](const Memory &m) { return fmt::format("{}", m.bandwidthOut); },
         [](Memory &m, Text text) { return readNumber("bandwidth_out", text, m.bandwidthOut); }},
        {"bandwidth_in", "bytes/s from the host; 0: the device's",
         [](const Memory &m) { return fmt::format("{}", m.bandwidthIn); },
         [](Memory &m, Text text) { return readNumber("bandwidth_in", text, m.bandwidthIn); }},
        {"latency", "seconds of every copy beside its bytes",
         [](const Memory &m) { return fmt::format("{}", m.latency); },
         [](Memory &m, Text text) { return readNumber("latency", text, m.latency); }},
        {"host_bytes", "bytes that swapped tensors may take on the host; 0: no limit",
         [](const Memory &m) { return std::to_string(m.hostBytes); },
         [](Memory &m, Text text) { return readNumber("host_bytes", text, m.hostBytes); }},
        {"host_tier", "where swapped tensors lie: memory, or a folder for a file",
         [](const Memory &m) { return m.hostTier; },
         [](Memory &m, Text text) {
             m.hostTier = text;
             return Status();
         }},
        {"recompute_cap", "operators may run again for so many times the time of a step",
         [](const Memory &m) { return fmt::format("{}", m.recomputeCap); },
         [](Memory &m, Text text) { return readNumber("recompute_cap", text, m.recomputeCap); }},
        {"small_share", "tensors below so many times the mean size never leave",
         [](const Memory &m) { return fmt::format("{}", m.smallShare); },
         [](Memory &m, Text text) { return readNumber("small_share", text, m.smallShare); }},
        {"seed", "of policy random", [](const Memory &m) { return std::to_string(m.seed); },
         [](Memory &m, Text text) { return readNumber("seed", text, m.seed); }},
        {"optimizer_state", "where the optimizer's state lies between updates: device, or host (host_tier)",
         [](const Memory &m) -> std::string { return kTiers[m.hostStates ? 1 : 0]; },
         [](Memory &m, Text text) { return readChoice("optimizer_state", text, kTiers, m.hostStates); }},
        {"parameters", "where parameters lie while nothing reads or updates them: device, or host (host_tier)",
         [](const Memory &m) -> std::string { return kTiers[m.hostParameters ? 1 : 0]; },
         [](Memory &m, Text text) { return readChoice("parameters", text, kTiers, m.hostParameters); }, true},
        {"clock", "whose seconds decide: logical, the cost model's; measured, a run's own after its first steps",
         [](const Memory &m) -> std::string { return kClocks[static_cast<std::size_t>(m.clock)]; },
         [](Memory &m, Text text) { return readChoice("clock", text, kClocks, m.clock); }},
    };
    return settings;
}

const char *name(MemoryFilter filter)
{
    for (const MemoryFilterRow &row : kMemoryFilters)
        if (row.filter == filter)
            return row.name;
    return "unknown";
}

Result<MemoryFilter> findMemoryFilter(std::string_view name)
{
    for (const MemoryFilterRow &row : kMemoryFilters)
        if (row.name == name)
            return row.filter;
    return badInput(fmt::format("memory policy \"{}\" is not known; there is {}", name, rowNames(kMemoryFilters)));
}

std::string textOf(const Memory &memory)
{
    std::string text = name(memory.filter);
    const bool saysClock = memory.clock != MemoryClock::Logical; // plans older than the clock have this text
    for (const MemorySetting &setting : memorySettings())
        if (memory.limits() && setting.isWritten(memory) && (saysClock || std::string_view(setting.name) != "clock"))
            text += fmt::format(",{}={}", setting.name, setting.get(memory));
    return text;
}

Result<Memory> memoryFromText(std::string_view text)
{
    Memory memory;
    std::size_t comma = text.find(',');
    const auto filter = findMemoryFilter(text.substr(0, comma));
    if (!filter)
        return filter.error();
    memory.filter = *filter;
    std::set<std::string_view> given;
    while (comma != std::string_view::npos) {
        text.remove_prefix(comma + 1);
        comma = text.find(',');
        const std::string_view entry = text.substr(0, comma);
        const std::string_view key = entry.substr(0, entry.find('='));
        if (!memory.limits())
            return badInput(fmt::format("memory policy none has no setting \"{}\"; leave it out", entry));
        if (key.size() == entry.size())
            return badInput(fmt::format("memory setting \"{}\" has no value; write KEY=VALUE", entry));
        const auto &settings = memorySettings();
        const auto setting =
            std::find_if(settings.begin(), settings.end(), [&](const MemorySetting &each) { return key == each.name; });
        if (setting == settings.end())
            return badInput(fmt::format("memory policy {} has no setting \"{}\"; it has {}", name(memory.filter), key,
                                        settingNames()));
        if (!given.insert(key).second)
            return badInput(fmt::format("memory setting {} is given twice; leave one out", key));
        if (Status status = setting->set(memory, entry.substr(key.size() + 1)); !status)
            return status.error();
    }
    if (Status status = check(memory); !status)
        return status.error();
    return memory;
}

Status check(const Memory &memory)
{
    const auto atLeast = [](const char *key, double value, double least) -> Status {
        if (std::isfinite(value) && value >= least)
            return {};
        return badInput(fmt::format("memory setting {} is {}; give a number of {} or more", key, value, least));
    };
    if (memory.budgetBytes == 0 && !(memory.budgetShare > 0 && memory.budgetShare <= 1))
        return badInput(fmt::format("the memory budget is {}% of the activations without a limit; give more than 0% "
                                    "and at most 100%",
                                    memory.budgetShare * 100));
    const struct {
        const char *key;
        double value;
        double least;
    } numbers[] = {
        {"budget", static_cast<double>(memory.budgetBytes), 0},
        {"prefetch", static_cast<double>(memory.prefetch), 0},
        {"threshold", memory.threshold, 0},
        {"bandwidth_out", memory.bandwidthOut, 0},
        {"bandwidth_in", memory.bandwidthIn, 0},
        {"latency", memory.latency, 0},
        {"host_bytes", static_cast<double>(memory.hostBytes), 0},
        {"recompute_cap", memory.recomputeCap, 0},
        {"small_share", memory.smallShare, 0},
    };
    for (const auto &[key, value, least] : numbers)
        if (Status status = atLeast(key, value, least); !status)
            return status;
    if (memory.hostTier.empty())
        return badInput("memory setting host_tier is empty; give memory, or a folder for a file");
    if (memory.measures() && memory.trigger == MemoryTrigger::After)
        return badInput("memory setting trigger is after, and with clock=measured the arena is as large as the budget, "
                        "as the course is not known before; give trigger=before, or clock=logical");
    return {};
}

} // namespace planloom::plan

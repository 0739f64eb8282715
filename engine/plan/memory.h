// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::plan {

/// By which score a memory policy chooses what leaves the device; the smallest score goes. m: bytes, s: time since the
/// last use, c: seconds of the operator that made it.
enum class MemoryFilter : std::uint8_t {
    None,            ///< everything stays until it is dead
    Delta,           ///< 1 / (m s) (Tang et al., DELTA, arXiv 2203.15980, 2022)
    Dtr,             ///< (c + what is evicted around it) / (m s) (Kirisame et al., DTR, 2021, §3)
    DtrClasses,      ///< the same, what is evicted taken from classes of evicted neighbours (ibid., §4.1)
    Local,           ///< c / (m s)
    LeastRecentUsed, ///< 1 / s
    Size,            ///< 1 / m
    MemoryPerSecond, ///< (c + evicted ancestors) / m (Peng et al., Capuchin, 2020, MSPS)
    Random,          ///< from a seed
    Capuchin, ///< chosen from the whole step: swaps that are hidden, then recomputing by MSPS; what is missing as Delta
    Knapsack, ///< chosen from the whole step at the least cost (Tang et al., ACM TACO, 2024); what is missing as Delta
    Ahead,    ///< the fastest of several choices from the whole step and of the filters here, by predicted time
};
/// The filter as the plan file and the studio name it.
struct MemoryFilterRow {
    MemoryFilter filter;
    const char *name; ///< in plans
    const char *about;
};
inline constexpr MemoryFilterRow kMemoryFilters[] = {
    {MemoryFilter::None, "none", "everything stays until it is dead"},
    {MemoryFilter::Delta, "delta", "most bytes times seconds since the last use"},
    {MemoryFilter::Dtr, "dtr", "cheapest to make again, evicted neighbours included, for its bytes and age"},
    {MemoryFilter::DtrClasses, "dtr-eq", "the same with classes of evicted neighbours"},
    {MemoryFilter::Local, "local", "cheapest to make again for its bytes and age"},
    {MemoryFilter::LeastRecentUsed, "lru", "longest unused"},
    {MemoryFilter::Size, "size", "largest"},
    {MemoryFilter::MemoryPerSecond, "msps", "cheapest to make again for its bytes"},
    {MemoryFilter::Random, "random", "at random, from a seed"},
    {MemoryFilter::Capuchin, "capuchin", "swaps that the whole step hides, then what is cheap to make again"},
    {MemoryFilter::Knapsack, "knapsack", "what costs least for its bytes, over the whole step"},
    {MemoryFilter::Ahead, "ahead", "the fastest of several choices made from the whole step, and of the others"},
};

/// What is done with a tensor that leaves the device. Swap: copied to the host and back; recompute: dropped, and made
/// again by its operator.
enum class MemoryDirector : std::uint8_t {
    Rule,      ///< swap if the way there and back takes no longer than the operator that made it
    Chain,     ///< the same, with all operators that would have to run again
    Swap,      ///< only swap
    Recompute, ///< only recompute
};

/// When room is made: before an operator's results get their places, or after it has run, while more than the budget is
/// in use.
enum class MemoryTrigger : std::uint8_t { Before, After };

/// Whose seconds a policy decides by.
enum class MemoryClock : std::uint8_t {
    Logical,  ///< the cost model's: the same course in every run
    Measured, ///< a run's own: the first steps follow the logical clock's course, later ones that of their seconds
};

/// What stays on a stage's devices between forward and backward (memory.policy of a stage). The defaults are those of
/// plan files.
struct Memory {
    MemoryFilter filter = MemoryFilter::None;
    std::int64_t budgetBytes = 0; ///< of activations on a device; 0: by budgetShare
    double budgetShare = 0.6;     ///< of what they take without a limit
    MemoryDirector director = MemoryDirector::Rule;
    MemoryTrigger trigger = MemoryTrigger::Before;
    bool overlaps = true;            ///< copies run beside the operators; false: operators wait for them
    std::int64_t prefetch = 5;       ///< swapped tensors that may be on their way back before they are used; 0: none
    double threshold = 1;            ///< recompute if the way there and back takes more than so many times as long
    double bandwidthOut = 0;         ///< bytes/s to the host; 0: the device's
    double bandwidthIn = 0;          ///< bytes/s from the host
    double latency = 10e-6;          ///< seconds, of every copy
    std::int64_t hostBytes = 0;      ///< that swapped tensors may take there; 0: no limit
    std::string hostTier = "memory"; ///< where they lie: memory, or a folder for a file
    double recomputeCap = 10;        ///< operators may run again for so many times the time of a step without a limit
    double smallShare = 0.01;        ///< tensors below so many times the mean size never leave
    std::int64_t seed = 1;           ///< of MemoryFilter::Random
    bool hostStates = false;         ///< the optimizer's state lies in the host tier between updates
    bool hostParameters = false;     ///< parameters lie there, and come to the device for what reads or updates them
    MemoryClock clock = MemoryClock::Logical;

    [[nodiscard]] bool limits() const { return filter != MemoryFilter::None; }
    /// True if a run decides by what it has measured.
    [[nodiscard]] bool measures() const { return limits() && clock == MemoryClock::Measured; }
    friend auto operator<=>(const Memory &, const Memory &) = default;
};

/// A setting of Memory beside the policy's name, as text: what plan files and command lines share.
struct MemorySetting {
    const char *name;
    const char *about; ///< one line
    std::string (*get)(const Memory &);
    Status (*set)(Memory &, std::string_view); ///< error: BadInput
    /// Plans and texts that are older than it do not have it: both leave it out where it has its default.
    bool ifGiven = false;

    /// True if plan files have it for @p memory.
    [[nodiscard]] bool isWritten(const Memory &memory) const { return !ifGiven || get(memory) != get(Memory()); }
};
/// In the order in which they are written.
const std::vector<MemorySetting> &memorySettings();

const char *name(MemoryFilter filter);
/// Error: BadInput that lists the names.
Result<MemoryFilter> findMemoryFilter(std::string_view name);

/// "delta,budget=60%,director=rule,...": the policy and all its settings; "none" without a policy.
std::string textOf(const Memory &memory);
/// The reverse; settings that are left out have their default. Error: BadInput that names the setting and the fix.
Result<Memory> memoryFromText(std::string_view text);
/// Error: BadInput, if a setting is out of its range.
Status check(const Memory &memory);

} // namespace planloom::plan

// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/walker.h"

#include "engine/base/units.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <string>
#include <utility>

namespace planloom::memory {

using plan::MemoryDirector;

// --- Choices --------------------------------------------------------------------------------------------------------

/// Small storages are not worth a copy; a hosted one leaves without, and would lie between others until its last use.
bool Walker::mayLeave(std::int32_t index) const
{
    const std::int64_t bytes = storage(index).bytes;
    return item(index).locks == 0 && bytes > 0 && (bytes >= m_smallest || isHosted(index));
}

double Walker::score(std::int32_t index)
{
    using plan::MemoryFilter;
    const auto bytes = static_cast<double>(storage(index).bytes);
    const double staleness = m_now - item(index).lastUse;
    const double own = secondsAgain(index);
    const auto over = [](double cost, double by) {
        return by > 0 ? cost / by : std::numeric_limits<double>::infinity();
    };
    switch (m_limits.policy.filter) {
    case MemoryFilter::None: break;
    case MemoryFilter::Capuchin:
    case MemoryFilter::Knapsack:
    case MemoryFilter::Ahead:
    case MemoryFilter::Delta: return over(1, bytes * staleness);
    case MemoryFilter::Dtr: return over(own + m_evicted.neighbourSeconds(index), bytes * staleness);
    case MemoryFilter::DtrClasses: return over(own + m_evicted.classSeconds(index), bytes * staleness);
    case MemoryFilter::Local: return over(own, bytes * staleness);
    case MemoryFilter::LeastRecentUsed: return over(1, staleness);
    case MemoryFilter::Size: return over(1, bytes);
    case MemoryFilter::MemoryPerSecond: return over(own + m_evicted.ancestorSeconds(index), bytes);
    case MemoryFilter::Random: {
        // SplitMix64: the draw depends on the seed, the number of draws so far and nothing else.
        std::uint64_t x = static_cast<std::uint64_t>(m_limits.policy.seed) + 0x9E3779B97F4A7C15ULL * ++m_draws;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
        return static_cast<double>((x ^ (x >> 31)) >> 11);
    }
    }
    return 0;
}

std::optional<Walker::Choice> Walker::choose()
{
    std::optional<Choice> best;
    for (const std::int32_t index : m_candidates) {
        if (!mayLeave(index))
            continue;
        const double value = score(index);
        if (best && value >= best->decision.score)
            continue;
        auto decision = direct(index);
        if (!decision)
            continue;
        decision->score = value;
        best = Choice{index, *decision};
    }
    if (best)
        best->decision.chainCost = best->decision.cost + m_evicted.ancestorSeconds(best->storage);
    return best;
}

/// What would be done with @p index; nothing, if it cannot be done.
std::optional<Decision> Walker::direct(std::int32_t index)
{
    const std::int64_t bytes = storage(index).bytes;
    Decision made;
    made.seconds = m_now;
    made.storage = index;
    made.bytes = bytes;
    made.staleness = m_now - item(index).lastUse;
    made.cost = secondsAgain(index);
    if (isHosted(index)) { // there is nothing to choose
        made.action = Decision::Action::Drop;
        return made;
    }
    const double trip = m_limits.copies.roundTrip(bytes);
    const bool isChain = m_limits.policy.director == MemoryDirector::Chain;
    const double again = isChain ? made.cost + m_evicted.ancestorSeconds(index) : made.cost;
    made.ratio = again > 0 ? trip / again : std::numeric_limits<double>::infinity();
    const bool canSwap = m_limits.policy.director != MemoryDirector::Recompute && hasRoomOnHost(index);
    const bool canRecompute = m_limits.policy.director != MemoryDirector::Swap && storage(index).recomputable;
    if (!canSwap && !canRecompute)
        return std::nullopt;
    const bool recompute = !canSwap || (canRecompute && made.ratio > m_limits.policy.threshold);
    made.action = recompute ? Decision::Action::Recompute : Decision::Action::Swap;
    return made;
}

/// What is said where nothing can be chosen, and @p bytes are wanted.
Error Walker::noCandidate(std::int64_t bytes) const
{
    std::vector<std::int32_t> held;
    for (std::size_t i = 0; i < m_items.size(); ++i)
        if (m_items[i].locks > 0 && m_items[i].place != BlockPool::kNone)
            held.push_back(static_cast<std::int32_t>(i));
    std::stable_sort(held.begin(), held.end(),
                     [&](std::int32_t a, std::int32_t b) { return storage(a).bytes > storage(b).bytes; });
    constexpr std::size_t kShown = 4;
    std::string names;
    for (std::size_t i = 0; i < std::min(held.size(), kShown); ++i)
        names += (i > 0 ? ", " : "") + (m_nameOf ? m_nameOf(held[i]) : fmt::format("storage {}", held[i])) + " ("
            + format(Bytes(storage(held[i]).bytes)) + ")";
    const std::string locked =
        held.empty() ? "" : ", locked are " + names + (held.size() > kShown ? " and others" : "");
    const bool inPieces = m_pool.used() + bytes <= m_limits.budget;
    const bool swaps = m_limits.policy.director != plan::MemoryDirector::Recompute;
    const bool needsHost = swaps && std::any_of(m_candidates.begin(), m_candidates.end(), [&](std::int32_t each) {
                               return mayLeave(each) && !hasRoomOnHost(each);
                           });
    if (needsHost)
        return badInput(
            fmt::format("a memory budget of {} needs more room on the host than host_bytes allow: {} are "
                        "wanted on the device, and {} of {} on the host are taken{}; give more host_bytes, a "
                        "larger budget or smaller micro-batches",
                        format(Bytes(m_limits.budget)), format(Bytes(m_pool.used() + bytes)),
                        format(Bytes(m_host.used())), format(Bytes(m_limits.policy.hostBytes)), locked));
    return badInput(fmt::format("a memory budget of {} cannot hold what one operator needs at once: {} are wanted{} "
                                "and nothing more may leave{}; give a larger budget or smaller micro-batches",
                                format(Bytes(m_limits.budget)), format(Bytes(m_pool.used() + bytes)),
                                inPieces ? ", of which no single hole is left," : "", locked));
}

void Walker::evict(std::int32_t index)
{
    vacate(index);
    m_candidates.erase(index);
    item(index).state = State::Gone;
    m_evicted.drop(index, true);
}

/// Of a hosted storage: the host has it.
void Walker::drop(std::int32_t index)
{
    vacate(index);
    m_candidates.erase(index);
    item(index).state = State::Offloaded;
    m_evicted.drop(index, false);
    ++m_course.drops;
}

void Walker::swapOut(std::int32_t index)
{
    Item &leaves = item(index);
    const std::int64_t bytes = storage(index).bytes;
    m_candidates.erase(index);
    ++m_course.swaps;
    leaves.hostPlace = m_host.take(hostBytes(index));
    std::vector<std::int32_t> waits;
    std::swap(waits, m_waits); // those are the operator's
    guarded(m_hostGuards, leaves.hostPlace, hostBytes(index));
    if (leaves.copy > leaves.touched) // it came for nothing
        waitFor(leaves.copy);
    leaves.copy = addCopy(Event::Kind::Out, index, leaves.touched);
    std::swap(waits, m_waits);
    m_outFree = std::max(m_now, m_outFree) + outSeconds(bytes);
    m_copying.owe(outSeconds(bytes));
    leaves.ready = m_outFree;
    leaves.state = State::Leaving;
    m_leaving.push_back(index);
    m_leavingBytes += bytes;
    if (!m_limits.policy.overlaps)
        awaitLeaving();
}

// --- Events ---------------------------------------------------------------------------------------------------------

/// Operators wait until then; copies go on, and take nothing from them meanwhile.
void Walker::standStill(double until)
{
    const double waited = std::max(0.0, until - m_now);
    m_course.stallSeconds += waited;
    m_now += waited;
    m_copying.wait(waited);
}

/// @p scratch: first that of its outputs that are not resident.
std::int32_t Walker::addOperator(Event::Kind kind, std::int32_t index, std::span<const Block> scratch)
{
    const auto awaited = [this](const Guard &guard) {
        return std::find(m_waits.begin(), m_waits.end(), guard.event) != m_waits.end();
    };
    std::erase_if(m_guards, awaited); // all later operators and copies come behind this one
    Event event;
    event.delay = m_copying.take(op(index).seconds);
    event.kind = kind;
    event.subject = index;
    event.position = m_position;
    event.firstWait = static_cast<std::int32_t>(m_course.waits.size());
    m_course.waits.insert(m_course.waits.end(), m_waits.begin(), m_waits.end());
    event.lastWait = static_cast<std::int32_t>(m_course.waits.size());
    m_waits.clear();
    event.firstPlace = static_cast<std::int32_t>(m_course.places.size());
    for (const std::int32_t input : op(index).inputs)
        m_course.places.push_back(item(input).place);
    for (const std::int32_t output : op(index).outputs) {
        const bool isHere = item(output).state == State::Resident;
        m_course.places.push_back(isHere ? item(output).place : scratch.front().offset);
        scratch = scratch.subspan(isHere ? 0 : 1);
    }
    if (!scratch.empty())
        event.scratch = scratch.front().offset;
    event.used = m_pool.used();
    event.usedAfter = event.used;
    const auto number = static_cast<std::int32_t>(m_course.events.size());
    for (; m_roomed < m_course.decisions.size(); ++m_roomed)
        m_course.decisions[m_roomed].room = number;
    if (touchesPool(index))
        m_lastOperator = number;
    m_course.events.push_back(event);
    return number;
}

std::int32_t Walker::addCopy(Event::Kind kind, std::int32_t index, std::int32_t after)
{
    Event event;
    event.kind = kind;
    event.subject = index;
    event.position = m_position;
    event.after = after;
    if (kind == Event::Kind::In)
        guarded(m_guards, item(index).place, storage(index).bytes);
    if (isHosted(index)) {
        if (const std::int32_t dropped = std::exchange(item(index).dropped, -1); dropped >= 0)
            m_course.decisions[static_cast<std::size_t>(dropped)].event =
                static_cast<std::int32_t>(m_course.events.size());
    } else if (kind == Event::Kind::In) {
        m_hostGuards.push_back({item(index).hostPlace, item(index).hostPlace + hostBytes(index),
                                static_cast<std::int32_t>(m_course.events.size())});
        if (item(index).copy >= 0)
            waitFor(item(index).copy); // that brought it to the host
        m_host.give(item(index).hostPlace, hostBytes(index));
    }
    event.firstWait = static_cast<std::int32_t>(m_course.waits.size());
    m_course.waits.insert(m_course.waits.end(), m_waits.begin(), m_waits.end());
    event.lastWait = static_cast<std::int32_t>(m_course.waits.size());
    m_waits.clear();
    event.firstPlace = static_cast<std::int32_t>(m_course.places.size());
    m_course.places.push_back(item(index).place);
    event.hostPlace = item(index).hostPlace;
    event.used = m_pool.used();
    event.usedAfter = event.used;
    m_course.events.push_back(event);
    return static_cast<std::int32_t>(m_course.events.size()) - 1;
}

void Walker::waitFor(std::int32_t event)
{
    if (event >= 0 && std::find(m_waits.begin(), m_waits.end(), event) == m_waits.end())
        m_waits.push_back(event);
}

/// The next event waits for the copies that use what it takes.
void Walker::guarded(std::vector<Guard> &guards, std::int64_t begin, std::int64_t bytes)
{
    const std::int64_t end = begin + bytes;
    std::erase_if(guards, [&](const Guard &guard) {
        const bool meets = guard.begin < end && begin < guard.end;
        if (meets)
            waitFor(guard.event);
        return meets && begin <= guard.begin && guard.end <= end; // the next one there waits for this one
    });
}

void Walker::touch(std::int32_t index, std::int32_t event)
{
    item(index).lastUse = m_now;
    item(index).touched = event;
}

} // namespace planloom::memory

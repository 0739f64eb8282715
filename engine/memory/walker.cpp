// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/walker.h"

#include "engine/base/units.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace planloom::memory {
namespace {

using plan::MemoryTrigger;

std::int64_t capacityOf(const Limits &limits)
{
    return limits.policy.limits() && limits.fixedPool ? limits.budget : BlockPool::kEndless;
}

} // namespace

Walker::Walker(const Stream &stream, const Limits &limits, const std::function<std::string(std::int32_t)> &nameOf,
               std::span<const std::int64_t> planned)
    : m_stream(stream),
      m_limits(limits),
      m_nameOf(nameOf),
      m_items(stream.storages.size()),
      m_uses(stream.storages.size()),
      m_evicted(stream, limits.copies),
      m_pool(planned.empty() ? capacityOf(limits) : BlockPool::kEndless),
      m_host(limits.policy.hostBytes > 0 ? limits.policy.hostBytes : BlockPool::kEndless),
      m_copying(limits.copyLoad),
      m_plannedPlaces(planned),
      m_base(stream.seconds())
{
    double bytes = 0;
    double count = 0;
    for (const Storage &each : stream.storages)
        if (each.producer >= 0) {
            bytes += static_cast<double>(each.bytes);
            ++count;
        }
    m_smallest = count > 0 ? static_cast<std::int64_t>(bytes / count * limits.policy.smallShare) : 0;
    for (std::size_t s = 0; s < stream.storages.size(); ++s)
        if (stream.storages[s].hosted) {
            m_items[s].state = State::Offloaded;
            m_hasHosted = true;
        }
    for (std::size_t o = 0; o < stream.operators.size(); ++o)
        for (const std::int32_t input : stream.operators[o].inputs)
            m_uses[static_cast<std::size_t>(input)].push_back(static_cast<std::int32_t>(o));
}

Result<Course> Walker::run(std::span<const Release> releases)
{
    m_planned = releases;
    for (std::size_t o = 0; o < m_stream.operators.size(); ++o)
        if (const Status status = step(static_cast<std::int32_t>(o)); !status)
            return status.error();
    m_course.seconds = m_now;
    m_course.poolBytes = m_pool.furthest();
    m_course.hostBytes = m_host.furthest();
    return std::move(m_course);
}

// --- The stream -----------------------------------------------------------------------------------------------------

Status Walker::step(std::int32_t index)
{
    const Operator &current = op(index);
    m_position = index;
    if (const Status status = materialiseAll(current.inputs); !status)
        return status;
    if (const Status status = makeOutputs(index, false); !status)
        return status;
    prefetch(index);
    const std::int32_t event = addOperator(Event::Kind::Run, index, {});
    m_now += current.seconds + m_course.events[static_cast<std::size_t>(event)].delay;
    for (const auto *touched : {&current.inputs, &current.outputs})
        for (const std::int32_t each : *touched)
            touch(each, event);
    for (const std::int32_t dead : current.dies)
        die(dead);
    // What an operator has just made stays while room is made behind it; one that makes nothing locks nothing.
    const bool allocates = !current.outputs.empty();
    const auto unlock = [&] {
        for (const auto *touched : {&current.inputs, &current.outputs})
            for (const std::int32_t each : *touched)
                lock(each, -1);
    };
    if (!allocates)
        unlock();
    if (const Status status = releaseAfter(); !status)
        return status;
    if (allocates)
        unlock();
    releasePlanned(index);
    settle();
    m_course.events[static_cast<std::size_t>(event)].usedAfter = m_pool.used();
    return {};
}

Status Walker::makeOutputs(std::int32_t index, bool again)
{
    for (const std::int32_t output : op(index).outputs) {
        Item &made = item(output);
        lock(output, 1);
        if (again && made.state != State::Gone && made.state != State::Unmade) {
            if (made.state == State::Resident) // written once more: a copy to the host may still read it
                guarded(m_guards, made.place, storage(output).bytes);
            continue;
        }
        if (const Status status = place(output); !status)
            return status;
        made.state = State::Resident;
        m_evicted.restore(output);
        if (!made.dead)
            m_candidates.insert(output);
    }
    return {};
}

/// Locks them, too: hosted ones from the beginning, as they would leave for the others and come back at once.
Status Walker::materialiseAll(const std::vector<std::int32_t> &inputs)
{
    for (const std::int32_t input : inputs)
        lock(input, isHosted(input) ? 1 : 0);
    for (const std::int32_t input : inputs) {
        if (const Status status = materialise(input); !status)
            return status;
        lock(input, isHosted(input) ? 0 : 1);
    }
    return {};
}

Status Walker::materialise(std::int32_t index)
{
    Item &wanted = item(index);
    if (isPinned(index))
        return {};
    switch (wanted.state) {
    case State::Resident:
        if (wanted.copy > wanted.touched) // fetched ahead, and read for the first time
            waitFor(wanted.copy);
        return {};
    case State::Leaving: // its bytes are still here: the host's copy is given up
        std::erase(m_leaving, index);
        m_leavingBytes -= storage(index).bytes;
        giveHost(index);
        m_guards.push_back({wanted.place, wanted.place + storage(index).bytes, wanted.copy}); // which still reads them
        wanted.state = State::Resident;
        m_candidates.insert(index);
        return {};
    case State::Coming:
        standStill(wanted.ready);
        waitFor(wanted.copy);
        wanted.state = State::Resident;
        --m_coming;
        m_candidates.insert(index);
        return {};
    case State::Offloaded: return bringBack(index);
    case State::Gone: return runAgain(index);
    case State::Unmade: break;
    }
    return badInput(fmt::format("the stream reads storage {} before it is made", index));
}

Status Walker::bringBack(std::int32_t index)
{
    Item &wanted = item(index);
    if (const Status status = place(index); !status)
        return status;
    const std::int64_t bytes = storage(index).bytes;
    const double begin = std::max(m_now, m_inFree);
    m_inFree = begin + inSeconds(bytes);
    standStill(m_inFree);
    waitFor(addCopy(Event::Kind::In, index, m_lastOperator));
    wanted.state = State::Resident;
    m_evicted.restore(index);
    wanted.lastUse = m_now;
    m_candidates.insert(index);
    lock(index, 1);
    const Status released = releaseAfter();
    lock(index, -1);
    return released;
}

/// Runs the operator that makes @p index once more, with all that it reads brought back first.
Status Walker::runAgain(std::int32_t index)
{
    const std::int32_t producer = storage(index).producer;
    const Operator &again = op(producer);
    if (!storage(index).recomputable)
        return badInput(fmt::format("storage {} was dropped and cannot be made again", index));
    if (const Status status = materialiseAll(again.inputs); !status)
        return status;
    std::vector<std::int32_t> made;
    for (const std::int32_t output : again.outputs)
        if (item(output).state == State::Gone)
            made.push_back(output);
    if (const Status status = makeOutputs(producer, true); !status)
        return status;
    for (const std::int32_t output : again.outputs) // some may have made room for those before them
        if (item(output).dropped >= 0 && std::find(made.begin(), made.end(), output) == made.end())
            made.push_back(output);
    std::vector<Block> scratch;
    const Status taken = takeScratch(again, scratch);
    if (!taken)
        return taken;
    const std::int32_t event = addOperator(Event::Kind::Again, producer, scratch);
    for (const Block &block : scratch)
        m_pool.give(block.offset, block.bytes);
    for (const std::int32_t output : made)
        if (const std::int32_t dropped = std::exchange(item(output).dropped, -1); dropped >= 0)
            m_course.decisions[static_cast<std::size_t>(dropped)].event = event;
    m_now += again.seconds + m_course.events[static_cast<std::size_t>(event)].delay;
    m_course.againSeconds += again.seconds;
    ++m_course.recomputes;
    if (m_course.againSeconds > m_limits.policy.recomputeCap * m_base)
        return badInput(fmt::format("with a memory budget of {} operators run again for more than {} times the time "
                                    "of a step; give a larger budget, another policy or director, or a larger "
                                    "recompute_cap",
                                    format(Bytes(m_limits.budget)), m_limits.policy.recomputeCap));
    for (const auto *touched : {&again.inputs, &again.outputs})
        for (const std::int32_t each : *touched)
            touch(each, event);
    if (const Status status = releaseAfter(); !status)
        return status;
    for (const auto *touched : {&again.inputs, &again.outputs})
        for (const std::int32_t each : *touched)
            lock(each, -1);
    // What nothing reads any more was here for this alone; the wanted one is used next, and goes then if it is dead.
    for (const auto *touched : {&again.inputs, &std::as_const(made)})
        for (const std::int32_t each : *touched)
            if (each != index && item(each).dead && item(each).locks == 0 && item(each).state == State::Resident)
                die(each);
    m_course.events[static_cast<std::size_t>(event)].usedAfter = m_pool.used();
    return {};
}

/// Of an operator that runs again: for outputs that are on the host or on the way, and for what it needs beside them.
Status Walker::takeScratch(const Operator &again, std::vector<Block> &scratch)
{
    const auto take = [&](std::int64_t bytes) -> Status {
        const auto taken = takeRoom(bytes);
        if (!taken)
            return taken.error();
        scratch.push_back({*taken, bytes});
        return {};
    };
    for (const std::int32_t output : again.outputs)
        if (item(output).state != State::Resident)
            if (Status status = take(storage(output).bytes); !status)
                return status;
    return again.scratchAgain > 0 ? take(again.scratchAgain) : Status();
}

void Walker::die(std::int32_t index)
{
    Item &dead = item(index);
    dead.dead = true;
    if (isPinned(index))
        return;
    m_candidates.erase(index);
    switch (dead.state) {
    case State::Resident: vacate(index); break;
    case State::Leaving: return; // its place and the host's are free when the copy ends
    case State::Coming:          // never read: nothing is fetched without a use
        waitFor(dead.copy);
        --m_coming;
        vacate(index);
        break;
    case State::Offloaded:
        if (!isHosted(index))
            giveHost(index);
        break;
    case State::Gone:
    case State::Unmade: break;
    }
    if (isHosted(index)) { // what runs again may read it once more
        dead.state = State::Offloaded;
        m_evicted.drop(index, false);
        return;
    }
    dead.state = State::Gone;
    m_evicted.drop(index, false);
}

/// Brings back what is used next, as long as there is room and the copies would not be early.
void Walker::prefetch(std::int32_t index)
{
    constexpr std::int32_t kFurthest = 512; // operators
    constexpr double kMargin = 2;           // times the copy's own time
    if (!m_limits.policy.overlaps || m_limits.policy.prefetch == 0 || (m_course.swaps == 0 && !m_hasHosted)
        || !touchesPool(index))
        return;
    double until = 0;
    const std::int32_t last = std::min(index + kFurthest, static_cast<std::int32_t>(m_stream.operators.size()) - 1);
    for (std::int32_t next = index; next < last && m_coming < m_limits.policy.prefetch; ++next) {
        until += op(next).seconds;
        for (const std::int32_t each : op(next + 1).inputs) {
            Item &wanted = item(each);
            if (wanted.state != State::Offloaded)
                continue;
            const std::int64_t bytes = storage(each).bytes;
            const double queue = std::max(0.0, m_inFree - m_now);
            // A parameter is the operator's next to that which it comes beside, at the latest.
            const bool isEarly = until > queue + kMargin * inSeconds(bytes) && !(isHosted(each) && next == index);
            if (isEarly || m_pool.used() + bytes > m_limits.budget)
                return;
            const std::int64_t taken = takeBlock(bytes, plannedPlace(each));
            if (taken == BlockPool::kNone)
                return;
            wanted.place = taken;
            std::vector<std::int32_t> waits;
            std::swap(waits, m_waits); // those are the operator's
            m_inFree = std::max(m_now, m_inFree) + inSeconds(bytes);
            m_copying.owe(inSeconds(bytes));
            m_evicted.restore(each);
            wanted.ready = m_inFree;
            wanted.copy = addCopy(Event::Kind::In, each, m_lastOperator);
            std::swap(waits, m_waits);
            wanted.state = State::Coming;
            ++m_coming;
            m_course.peakBytes = std::max(m_course.peakBytes, m_pool.used());
            if (m_coming >= m_limits.policy.prefetch)
                return;
        }
    }
}

// --- Room -----------------------------------------------------------------------------------------------------------

/// A place for @p index, which has none.
Status Walker::place(std::int32_t index)
{
    const auto taken = takeRoom(storage(index).bytes, plannedPlace(index));
    if (!taken)
        return taken.error();
    item(index).place = *taken;
    return {};
}

/// Where @p bytes begin, at @p planned if that is a place; kNone: no hole is large enough.
std::int64_t Walker::takeBlock(std::int64_t bytes, std::int64_t planned)
{
    if (planned < 0)
        return m_pool.take(bytes);
    return m_pool.takeAt(planned, bytes) ? planned : BlockPool::kNone;
}

/// A block of @p bytes. Before an operator that makes the room; after it room is what there is.
Result<std::int64_t> Walker::takeRoom(std::int64_t bytes, std::int64_t planned)
{
    settle();
    const bool makesRoom = m_limits.policy.limits() && m_limits.policy.trigger == MemoryTrigger::Before;
    while (makesRoom && m_pool.used() - m_leavingBytes + bytes > m_limits.budget)
        if (!release() && !awaitComing())
            return noCandidate(bytes);
    while (makesRoom && m_pool.used() + bytes > m_limits.budget)
        if (!awaitLeaving())
            break;
    std::int64_t taken = takeBlock(bytes, planned);
    while (taken == BlockPool::kNone) {
        if (!awaitLeaving()) {
            ++m_course.fragmented;
            if (!release() && !awaitComing())
                return noCandidate(bytes);
        }
        taken = takeBlock(bytes, planned);
    }
    m_course.peakBytes = std::max(m_course.peakBytes, m_pool.used());
    guarded(m_guards, taken, bytes);
    return taken;
}

Status Walker::releaseAfter()
{
    if (!m_limits.policy.limits() || m_limits.policy.trigger != MemoryTrigger::After)
        return {};
    while (m_pool.used() - m_leavingBytes > m_limits.budget)
        if (const Status status = release(); !status && !awaitComing())
            return status;
    return {};
}

/// One storage leaves.
Status Walker::release()
{
    const auto chosen = choose();
    if (!chosen)
        return noCandidate(0);
    leave(chosen->storage, chosen->decision);
    return {};
}

void Walker::leave(std::int32_t index, const Decision &decision)
{
    const std::size_t number = m_course.decisions.size();
    m_course.decisions.push_back(decision);
    if (decision.action == Decision::Action::Swap) {
        swapOut(index);
        m_course.decisions[number].event = item(index).copy;
        return;
    }
    if (decision.action == Decision::Action::Drop)
        drop(index);
    else
        evict(index);
    item(index).dropped = static_cast<std::int32_t>(number);
}

/// What was chosen to leave behind operator @p index, as far as it is still there.
void Walker::releasePlanned(std::int32_t index)
{
    for (; !m_planned.empty() && m_planned.front().behind <= index; m_planned = m_planned.subspan(1)) {
        const Release &planned = m_planned.front();
        if (item(planned.storage).state != State::Resident || !mayLeave(planned.storage))
            continue;
        auto decision = direct(planned.storage);
        if (!decision)
            continue;
        const bool isFree = planned.action != Decision::Action::Swap || hasRoomOnHost(planned.storage);
        if (isFree && !isHosted(planned.storage))
            decision->action = planned.action;
        decision->score = score(planned.storage);
        decision->chainCost = decision->cost + m_evicted.ancestorSeconds(planned.storage);
        leave(planned.storage, *decision);
    }
}

bool Walker::hasRoomOnHost(std::int32_t index) const { return m_host.hasHole(hostBytes(index)); }

void Walker::vacate(std::int32_t index)
{
    m_pool.give(std::exchange(item(index).place, BlockPool::kNone), storage(index).bytes);
}

/// Who takes the place next waits for the copy that has written there.
void Walker::giveHost(std::int32_t index)
{
    const Item &given = item(index);
    m_hostGuards.push_back({given.hostPlace, given.hostPlace + hostBytes(index), given.copy});
    m_host.give(given.hostPlace, hostBytes(index));
}

/// Copies that have ended by now have made their room.
void Walker::settle()
{
    while (!m_leaving.empty() && item(m_leaving.front()).ready <= m_now) {
        const std::int32_t index = m_leaving.front();
        Item &left = item(index);
        m_leaving.pop_front();
        const std::int64_t bytes = storage(index).bytes;
        m_leavingBytes -= bytes;
        m_guards.push_back({left.place, left.place + bytes, left.copy});
        vacate(index);
        left.state = State::Offloaded;
        if (!left.dead)
            continue;
        giveHost(index);
        left.state = State::Gone;
        m_evicted.drop(index, false);
    }
}

/// Stands still until the next copy to the host has ended; false: none is under way.
bool Walker::awaitLeaving()
{
    if (m_leaving.empty())
        return false;
    standStill(item(m_leaving.front()).ready);
    settle();
    return true;
}

/// What was fetched ahead may leave again once its copy has ended; false: nothing was.
bool Walker::awaitComing()
{
    std::int32_t first = -1;
    for (std::size_t s = 0; m_coming > 0 && s < m_items.size(); ++s) {
        const Item &each = m_items[s];
        if (each.state == State::Coming && each.locks == 0 && (first < 0 || each.ready < item(first).ready))
            first = static_cast<std::int32_t>(s);
    }
    if (first < 0)
        return false;
    Item &came = item(first);
    standStill(came.ready);
    m_guards.push_back({came.place, came.place + storage(first).bytes, came.copy});
    came.state = State::Resident;
    --m_coming;
    m_candidates.insert(first);
    return true;
}

} // namespace planloom::memory

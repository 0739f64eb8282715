// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/memory/block_pool.h"
#include "engine/memory/copy_load.h"
#include "engine/memory/evicted.h"
#include "engine/memory/host_blocks.h"
#include "engine/memory/release_plan.h"
#include "engine/memory/walk.h"

#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace planloom::memory {

/// The run of walk(): every storage's state, the two pools, the clock and the two directions of copies. One run per
/// object.
class Walker {
public:
    /// @p planned: where each storage lies, of places that @p limits have room for; empty: best fit.
    Walker(const Stream &stream, const Limits &limits, const std::function<std::string(std::int32_t)> &nameOf,
           std::span<const std::int64_t> planned = {});
    /// @p releases: what leaves without being asked for room, by operator; must outlive it.
    Result<Course> run(std::span<const Release> releases = {});

private:
    enum class State : std::uint8_t {
        Unmade,
        Resident,
        Leaving,   ///< the copy to the host is under way: its place is still taken
        Offloaded, ///< on the host alone; where hosted storages begin
        Coming,    ///< has its place, and the copy from the host is under way
        Gone,      ///< dropped; its operator can run again
    };
    struct Item {
        State state = State::Unmade;
        bool dead = false; ///< nothing reads it any more, but what runs again for another's sake
        int locks = 0;
        std::int64_t place = BlockPool::kNone;
        std::int64_t hostPlace = BlockPool::kNone;
        double lastUse = 0;
        double ready = 0;          ///< Leaving, Coming: when the copy ends
        std::int32_t copy = -1;    ///< its event
        std::int32_t touched = -1; ///< the last operator's event that used it
        std::int32_t dropped = -1; ///< Gone, or hosted: the decision by which it was dropped
    };
    /// A range that a copy still reads or wrote: who takes it next waits for that.
    struct Guard {
        std::int64_t begin = 0;
        std::int64_t end = 0;
        std::int32_t event = -1;
    };

    struct Block {
        std::int64_t offset = 0;
        std::int64_t bytes = 0;
    };

    // The stream.
    Status step(std::int32_t op);
    Status materialiseAll(const std::vector<std::int32_t> &inputs);
    Status materialise(std::int32_t storage);
    Status bringBack(std::int32_t storage);
    Status runAgain(std::int32_t storage);
    Status makeOutputs(std::int32_t op, bool again);
    Status takeScratch(const Operator &again, std::vector<Block> &scratch);
    void die(std::int32_t storage);
    void prefetch(std::int32_t op);

    // Room.
    Status place(std::int32_t storage);
    Result<std::int64_t> takeRoom(std::int64_t bytes, std::int64_t planned = BlockPool::kNone);
    std::int64_t takeBlock(std::int64_t bytes, std::int64_t planned);
    Status release();
    void releasePlanned(std::int32_t op);
    void leave(std::int32_t storage, const Decision &decision);
    Status releaseAfter();
    void settle();
    bool awaitLeaving();
    bool awaitComing();
    [[nodiscard]] bool hasRoomOnHost(std::int32_t storage) const;
    void vacate(std::int32_t storage);
    void giveHost(std::int32_t storage);
    Error noCandidate(std::int64_t bytes) const;

    // Choices.
    struct Choice {
        std::int32_t storage = -1;
        Decision decision;
    };
    [[nodiscard]] std::optional<Choice> choose();
    [[nodiscard]] double score(std::int32_t storage);
    [[nodiscard]] std::optional<Decision> direct(std::int32_t storage);
    [[nodiscard]] bool mayLeave(std::int32_t storage) const;
    void swapOut(std::int32_t storage);
    void evict(std::int32_t storage);
    void drop(std::int32_t storage);

    // Events.
    std::int32_t addOperator(Event::Kind kind, std::int32_t op, std::span<const Block> scratch);
    std::int32_t addCopy(Event::Kind kind, std::int32_t storage, std::int32_t after);
    void waitFor(std::int32_t event);
    void standStill(double until);
    void guarded(std::vector<Guard> &guards, std::int64_t begin, std::int64_t bytes);
    void touch(std::int32_t storage, std::int32_t event);
    void lock(std::int32_t storage, int by) { item(storage).locks += by; }

    [[nodiscard]] Item &item(std::int32_t storage) { return m_items[static_cast<std::size_t>(storage)]; }
    [[nodiscard]] const Item &item(std::int32_t storage) const { return m_items[static_cast<std::size_t>(storage)]; }
    [[nodiscard]] const Storage &storage(std::int32_t index) const
    {
        return m_stream.storages[static_cast<std::size_t>(index)];
    }
    [[nodiscard]] const Operator &op(std::int32_t index) const
    {
        return m_stream.operators[static_cast<std::size_t>(index)];
    }
    /// Operators that communicate do not: nothing is decided for them.
    [[nodiscard]] bool touchesPool(std::int32_t index) const
    {
        return !op(index).inputs.empty() || !op(index).outputs.empty();
    }
    /// On the host: whole blocks of a file.
    [[nodiscard]] std::int64_t hostBytes(std::int32_t index) const
    {
        const std::int64_t bytes = storage(index).bytes;
        return m_limits.policy.hostTier == "memory" ? bytes : wholeHostBlocks(bytes);
    }
    [[nodiscard]] std::int64_t plannedPlace(std::int32_t index) const
    {
        return m_plannedPlaces.empty() ? BlockPool::kNone : m_plannedPlaces[static_cast<std::size_t>(index)];
    }
    [[nodiscard]] bool isHosted(std::int32_t index) const { return storage(index).hosted; }
    [[nodiscard]] bool isPinned(std::int32_t index) const { return storage(index).producer < 0 && !isHosted(index); }
    /// Seconds that it takes to have @p index again: of its operator and the copies of hosted storages that this waits
    /// for, or of the copy of a hosted one.
    [[nodiscard]] double secondsAgain(std::int32_t index) const
    {
        return isHosted(index) ? inSeconds(storage(index).bytes) : m_evicted.secondsAgain(index);
    }
    [[nodiscard]] double outSeconds(std::int64_t bytes) const { return m_limits.copies.seconds(true, bytes); }
    [[nodiscard]] double inSeconds(std::int64_t bytes) const { return m_limits.copies.seconds(false, bytes); }

    const Stream &m_stream;
    const Limits &m_limits;
    const std::function<std::string(std::int32_t)> &m_nameOf;
    Course m_course;
    std::vector<Item> m_items;
    std::set<std::int32_t> m_candidates;           ///< resident
    std::vector<std::vector<std::int32_t>> m_uses; ///< per storage: operators that read it
    Evicted m_evicted;
    BlockPool m_pool;
    BlockPool m_host;
    std::deque<std::int32_t> m_leaving; ///< in the order of their ends
    std::vector<Guard> m_guards, m_hostGuards;
    std::vector<std::int32_t> m_waits; ///< of the next event
    double m_now = 0;
    double m_outFree = 0; ///< when the copies of a direction so far have ended
    double m_inFree = 0;
    CopyLoad m_copying; ///< of copies that have begun
    std::int64_t m_leavingBytes = 0;
    std::int64_t m_smallest = 0; ///< bytes that may leave
    std::int64_t m_coming = 0;   ///< storages
    std::int32_t m_position = 0; ///< operator of the stream
    std::int32_t m_lastOperator = -1;
    std::uint64_t m_draws = 0;
    std::size_t m_roomed = 0;           ///< decisions that an operator came behind
    std::span<const Release> m_planned; ///< still to come
    std::span<const std::int64_t> m_plannedPlaces;
    double m_base = 0;
    bool m_hasHosted = false;
};

} // namespace planloom::memory

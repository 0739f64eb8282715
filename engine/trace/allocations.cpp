// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/allocations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace planloom::trace {

namespace {

using Action = Allocations::Action;

/// Whether a file is of PyTorch, an installed package, Python itself or compiled code.
bool isLibraryFile(std::string_view file)
{
    constexpr std::string_view kFolders[] = {"/torch/", "site-packages/", "dist-packages/", "/lib/python", "<frozen"};
    constexpr std::string_view kEndings[] = {".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".cuh", ".so", ".S"};
    const auto isInside = [&](std::string_view part) { return file.find(part) != std::string_view::npos; };
    const auto endsSo = [&](std::string_view part) { return file.ends_with(part); };
    return file.empty() || file == "??" || std::ranges::any_of(kFolders, isInside)
        || std::ranges::any_of(kEndings, endsSo);
}

std::span<const Allocations::Event> eventsOf(const Allocations &of, std::int32_t device)
{
    if (device < 0 || static_cast<std::size_t>(device) >= of.events.size())
        return {};
    return of.events[static_cast<std::size_t>(device)];
}

template <class Each>
void forBlocks(const Allocations &of, std::int32_t device, const Each &each)
{
    for (const Allocations::Segment &segment : of.segments) {
        if (segment.device != device)
            continue;
        for (std::uint32_t b = 0; b < segment.blocks; ++b)
            each(of.blocks[segment.firstBlock + b]);
    }
}

/// Blocks in use by address, event by event.
class AllocationReplay {
public:
    AllocationReplay(const Allocations &of, std::int32_t device) : m_events(eventsOf(of, device))
    {
        std::unordered_map<std::uint64_t, bool> isKnown; // what the history says of an address first decides
        for (const Allocations::Event &event : m_events) {
            if (event.action == Action::Allocate) {
                isKnown.emplace(event.address, true);
            } else if (event.action == Action::FreeCompleted && isKnown.emplace(event.address, true).second) {
                put({event.address, event.size, -1, -1});
            }
        }
        forBlocks(of, device, [&](const Allocations::Block &block) {
            if (block.state != Allocations::State::Free && !isKnown.contains(block.address))
                put({block.address, block.requested, block.stack, -1});
        });
        for (const Allocations::Segment &segment : of.segments)
            m_reserved += segment.device == device ? segment.size : 0;
        for (const Allocations::Event &event : m_events)
            m_reserved -= reservedBy(event);
        m_reserved = std::max<std::int64_t>(m_reserved, 0);
    }

    /// The next event. False: there is none.
    bool step()
    {
        if (m_next == m_events.size())
            return false;
        const Allocations::Event &event = m_events[m_next++];
        m_reserved = std::max<std::int64_t>(m_reserved + reservedBy(event), 0);
        if (event.action == Action::Allocate) {
            drop(event.address);
            put({event.address, event.size, event.stack, static_cast<std::int64_t>(m_next) - 1});
        } else if (event.action == Action::FreeCompleted) {
            drop(event.address);
        }
        return true;
    }

    [[nodiscard]] const Allocations::Event &event() const { return m_events[m_next - 1]; }
    [[nodiscard]] std::int64_t index() const { return static_cast<std::int64_t>(m_next) - 1; } ///< -1: none yet
    [[nodiscard]] std::int64_t inUse() const { return m_inUse; }
    [[nodiscard]] std::int64_t reserved() const { return m_reserved; }
    [[nodiscard]] std::vector<LiveBlock> blocks() const
    {
        std::vector<LiveBlock> all;
        for (const auto &[address, block] : m_live)
            all.push_back(block);
        std::ranges::sort(all, [](const LiveBlock &a, const LiveBlock &b) {
            return std::pair(a.event, a.address) < std::pair(b.event, b.address);
        });
        return all;
    }

private:
    static std::int64_t reservedBy(const Allocations::Event &event)
    {
        return event.action == Action::SegmentTaken ? event.size
            : event.action == Action::SegmentGiven  ? -event.size
                                                    : 0;
    }
    void put(const LiveBlock &block)
    {
        if (m_live.emplace(block.address, block).second)
            m_inUse += block.requested;
    }
    void drop(std::uint64_t address)
    {
        const auto found = m_live.find(address);
        if (found == m_live.end())
            return;
        m_inUse -= found->second.requested;
        m_live.erase(found);
    }

    std::span<const Allocations::Event> m_events;
    std::unordered_map<std::uint64_t, LiveBlock> m_live;
    std::size_t m_next = 0;
    std::int64_t m_inUse = 0;
    std::int64_t m_reserved = 0;
};

/// What the segments say of the moment of the snapshot.
void addPresent(const Allocations &of, std::int32_t device, DeviceMemory &memory)
{
    for (const Allocations::Segment &segment : of.segments) {
        if (segment.device != device)
            continue;
        std::int64_t inUse = 0;
        for (std::uint32_t b = 0; b < segment.blocks; ++b) {
            const Allocations::Block &block = of.blocks[segment.firstBlock + b];
            const bool isFree = block.state == Allocations::State::Free;
            inUse += isFree ? 0 : block.size;
            memory.requested += isFree ? 0 : block.requested;
            memory.blocks += isFree ? 0 : 1;
            memory.largestFree = std::max(memory.largestFree, isFree ? block.size : 0);
        }
        ++memory.segments;
        memory.reserved += segment.size;
        memory.inUse += inUse;
        memory.fragmented += inUse > 0 ? std::max<std::int64_t>(segment.size - inUse, 0) : 0;
    }
}

} // namespace

std::span<const std::uint32_t> Allocations::stack(std::int32_t index) const
{
    if (index < 0 || static_cast<std::size_t>(index) >= stacks())
        return {};
    const std::uint32_t begin = stackBegin[static_cast<std::size_t>(index)];
    return std::span(stackFrames).subspan(begin, stackBegin[static_cast<std::size_t>(index) + 1] - begin);
}

std::int32_t Allocations::ownFrame(std::int32_t index) const
{
    const auto calls = stack(index);
    for (const std::uint32_t frame : calls) {
        const std::int32_t file = frames[frame].file;
        if (file >= 0 && !isLibraryFile(texts[static_cast<std::size_t>(file)]))
            return static_cast<std::int32_t>(frame);
    }
    return calls.empty() ? -1 : static_cast<std::int32_t>(calls.front());
}

std::string Allocations::frameText(std::int32_t frame) const
{
    if (frame < 0)
        return "not recorded";
    const Frame &of = frames[static_cast<std::size_t>(frame)];
    const auto text = [&](std::int32_t row) {
        return row < 0 ? std::string("?") : texts[static_cast<std::size_t>(row)];
    };
    return fmt::format("{}, {}:{}", text(of.function), text(of.file), of.line);
}

std::int32_t Allocations::devices() const
{
    auto count = static_cast<std::int32_t>(events.size());
    while (count > 0 && events[static_cast<std::size_t>(count) - 1].empty())
        --count;
    for (const Segment &segment : segments)
        count = std::max(count, segment.device + 1);
    return count;
}

DeviceMemory deviceMemory(const Allocations &allocations, std::int32_t device)
{
    DeviceMemory memory;
    addPresent(allocations, device, memory);
    AllocationReplay replay(allocations, device);
    memory.atBegin = memory.peak = replay.inUse();
    memory.peakReserved = replay.reserved();
    while (replay.step()) {
        memory.outOfMemory += replay.event().action == Action::OutOfMemory ? 1 : 0;
        memory.peakReserved = std::max(memory.peakReserved, replay.reserved());
        if (replay.inUse() <= memory.peak)
            continue;
        memory.peak = replay.inUse();
        memory.peakEvent = replay.index();
        memory.peakTime = replay.event().time;
    }
    return memory;
}

std::vector<AllocationLevel> levelsOf(const Allocations &allocations, std::int32_t device)
{
    AllocationReplay replay(allocations, device);
    const auto events = eventsOf(allocations, device);
    std::vector<AllocationLevel> levels{{events.empty() ? 0 : events.front().time, replay.inUse(), replay.reserved()}};
    while (replay.step()) {
        if (replay.inUse() != levels.back().inUse || replay.reserved() != levels.back().reserved)
            levels.push_back({replay.event().time, replay.inUse(), replay.reserved()});
    }
    return levels;
}

std::vector<LiveBlock> aliveAfter(const Allocations &allocations, std::int32_t device, std::int64_t event)
{
    AllocationReplay replay(allocations, device);
    while (replay.index() < event && replay.step()) {
    }
    return replay.blocks();
}

std::vector<FrameUse> byFrame(const Allocations &allocations, std::span<const LiveBlock> blocks)
{
    std::unordered_map<std::int32_t, std::int32_t> frameOf; // by stack
    std::map<std::int32_t, FrameUse> uses;
    for (const LiveBlock &block : blocks) {
        const auto [at, isNew] = frameOf.try_emplace(block.stack, -1);
        if (isNew)
            at->second = allocations.ownFrame(block.stack);
        FrameUse &use = uses[at->second];
        use.frame = at->second;
        use.bytes += block.requested;
        ++use.blocks;
    }
    std::vector<FrameUse> all;
    for (const auto &[frame, use] : uses)
        all.push_back(use);
    std::ranges::stable_sort(all, [](const FrameUse &a, const FrameUse &b) { return a.bytes > b.bytes; });
    return all;
}

} // namespace planloom::trace

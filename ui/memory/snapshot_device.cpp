// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/snapshot_device.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace planloom::ui {

namespace {

using simulate::BlockKind;
using trace::Allocations;
using AllocatorAction = Allocations::Action;

constexpr double kForever = std::numeric_limits<double>::infinity();

std::int64_t roundedUp(std::int64_t bytes)
{
    constexpr std::int64_t kUnit = 512;
    return bytes > 0 ? (bytes + kUnit - 1) / kUnit * kUnit : 0;
}

/// Addresses that hold something at some time, one range behind the other.
class AddressRanges {
public:
    void add(std::uint64_t address, std::int64_t bytes)
    {
        if (bytes > 0)
            m_ranges.push_back({address, address + static_cast<std::uint64_t>(bytes), 0});
    }
    void join()
    {
        std::ranges::sort(m_ranges, {}, &Range::begin);
        std::vector<Range> joined;
        for (const Range &range : m_ranges) {
            if (!joined.empty() && range.begin <= joined.back().end)
                joined.back().end = std::max(joined.back().end, range.end);
            else
                joined.push_back(range);
        }
        m_ranges = std::move(joined);
        for (Range &range : m_ranges) {
            range.offset = m_bytes;
            m_bytes += static_cast<std::int64_t>(range.end - range.begin);
        }
    }
    /// -1: it is in none.
    [[nodiscard]] std::int64_t offsetOf(std::uint64_t address) const
    {
        const auto behind = std::ranges::upper_bound(m_ranges, address, {}, &Range::begin);
        if (behind == m_ranges.begin() || address >= std::prev(behind)->end)
            return -1;
        return std::prev(behind)->offset + static_cast<std::int64_t>(address - std::prev(behind)->begin);
    }
    [[nodiscard]] std::int64_t bytes() const { return m_bytes; }

private:
    struct Range {
        std::uint64_t begin = 0, end = 0;
        std::int64_t offset = 0;
    };
    std::vector<Range> m_ranges;
    std::int64_t m_bytes = 0;
};

/// Memory that the allocator held from `begin` to `end`.
struct Held {
    std::int64_t offset = 0, bytes = 0;
    double begin = 0, end = kForever;
};

class SnapshotDevice {
public:
    SnapshotDevice(const Allocations &of, std::int32_t device) : m_of(of), m_device(device)
    {
        if (static_cast<std::size_t>(device) < of.events.size())
            m_events = of.events[static_cast<std::size_t>(device)];
        m_hasTimes = !m_events.empty() && m_events.back().time > 0;
        m_made.rank = static_cast<std::size_t>(device);
        m_made.device = "device " + std::to_string(device);
        m_made.kindNames = {{BlockKind::Parameter, "held since before the history"},
                            {BlockKind::OptimizerState, "kept"},
                            {BlockKind::Activation, "allocated and freed"},
                            {BlockKind::Padding, "not held by the allocator"}};
    }

    LiveDevice make()
    {
        findRanges();
        m_made.memory.arenaBytes = m_ranges.bytes();
        m_made.memory.endSeconds = m_events.empty() ? 1 : std::max(secondsOf(m_events.size() - 1), 1e-9) * 1.02;
        addBlocks();
        addWhatIsNotHeld();
        std::ranges::stable_sort(m_made.memory.blocks, {}, [](const simulate::LiveBlock &block) {
            return std::tuple(block.begin > 0 || block.end < kForever, block.begin, block.offset);
        });
        m_made.outlines = BlockOutlines(m_made.memory.blocks);
        return std::move(m_made);
    }

private:
    [[nodiscard]] double secondsOf(std::size_t event) const
    {
        return m_hasTimes ? static_cast<double>(m_events[event].time) * 1e-9 : static_cast<double>(event) * 1e-6;
    }

    void findRanges()
    {
        for (const Allocations::Segment &segment : m_of.segments)
            if (segment.device == m_device)
                m_ranges.add(segment.address, segment.size);
        for (const Allocations::Event &event : m_events) {
            if (event.action == AllocatorAction::SegmentTaken || event.action == AllocatorAction::SegmentGiven)
                m_ranges.add(event.address, event.size);
            else if (event.action == AllocatorAction::Allocate)
                m_ranges.add(event.address, roundedUp(event.size));
        }
        for (const trace::LiveBlock &block : trace::aliveAfter(m_of, m_device, -1))
            m_ranges.add(block.address, roundedUp(block.requested));
        m_ranges.join();
    }

    std::int32_t nameOf(std::int32_t stack)
    {
        const std::int32_t frame = m_of.ownFrame(stack);
        const auto [at, isNew] = m_names.try_emplace(frame, static_cast<std::int32_t>(m_made.memory.names.size()));
        if (isNew)
            m_made.memory.names.push_back(m_of.frameText(frame));
        return at->second;
    }

    std::size_t begin(std::uint64_t address, std::int64_t bytes, std::int32_t stack, double seconds)
    {
        simulate::LiveBlock block;
        block.kind = BlockKind::OptimizerState;
        block.name = nameOf(stack);
        block.offset = m_ranges.offsetOf(address);
        block.bytes = roundedUp(bytes);
        block.begin = seconds;
        block.end = kForever;
        m_made.memory.blocks.push_back(block);
        return m_made.memory.blocks.size() - 1;
    }

    void addBlocks()
    {
        std::unordered_map<std::uint64_t, std::size_t> live; // by address
        const auto end = [&](std::uint64_t address, double seconds) {
            const auto found = live.find(address);
            if (found == live.end())
                return;
            simulate::LiveBlock &block = m_made.memory.blocks[found->second];
            block.end = seconds;
            if (block.kind == BlockKind::OptimizerState)
                block.kind = BlockKind::Activation;
            live.erase(found);
        };
        for (const trace::LiveBlock &block : trace::aliveAfter(m_of, m_device, -1)) {
            live[block.address] = begin(block.address, block.requested, block.stack, 0);
            m_made.memory.blocks.back().kind = BlockKind::Parameter;
        }
        for (std::size_t i = 0; i < m_events.size(); ++i) {
            const Allocations::Event &event = m_events[i];
            if (event.action == AllocatorAction::Allocate || event.action == AllocatorAction::FreeCompleted)
                end(event.address, secondsOf(i));
            if (event.action == AllocatorAction::Allocate)
                live[event.address] = begin(event.address, event.size, event.stack, secondsOf(i));
        }
    }

    [[nodiscard]] std::vector<Held> held() const
    {
        std::vector<Held> all;
        std::map<std::uint64_t, std::size_t> open; // by address
        for (std::size_t i = 0; i < m_events.size(); ++i) {
            const Allocations::Event &event = m_events[i];
            const bool taken = event.action == AllocatorAction::SegmentTaken;
            if (!taken && event.action != AllocatorAction::SegmentGiven)
                continue;
            const auto found = open.find(event.address);
            if (taken || found == open.end())
                all.push_back({m_ranges.offsetOf(event.address), event.size, taken ? secondsOf(i) : 0, kForever});
            const std::size_t which = taken || found == open.end() ? all.size() - 1 : found->second;
            if (taken)
                open[event.address] = which;
            else
                all[which].end = secondsOf(i);
            if (!taken)
                open.erase(event.address);
        }
        for (const Allocations::Segment &segment : m_of.segments) {
            const auto inside = open.lower_bound(segment.address);
            const bool wasTaken =
                inside != open.end() && inside->first < segment.address + static_cast<std::uint64_t>(segment.size);
            if (segment.device == m_device && !wasTaken)
                all.push_back({m_ranges.offsetOf(segment.address), segment.size, 0, kForever});
        }
        return all;
    }

    /// For each stretch of addresses between the ends of segments the times in which no segment has it.
    void addWhatIsNotHeld()
    {
        constexpr std::size_t kMostStretches = 4000; // of segments that were mapped piece by piece there may be more
        std::vector<Held> all = held();
        std::ranges::sort(all, {}, &Held::begin);
        std::vector<std::int64_t> cuts{0, m_ranges.bytes()};
        for (const Held &each : all) {
            cuts.push_back(each.offset);
            cuts.push_back(each.offset + each.bytes);
        }
        std::ranges::sort(cuts);
        const auto repeated = std::ranges::unique(cuts);
        cuts.erase(repeated.begin(), repeated.end());
        if (cuts.size() > kMostStretches || all.empty())
            return;
        const auto name = static_cast<std::int32_t>(m_made.memory.names.size());
        m_made.memory.names.emplace_back("not held by the allocator");
        for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
            double free = 0; // since when
            const auto addUntil = [&](double end) {
                if (free >= end)
                    return;
                simulate::LiveBlock block;
                block.name = name;
                block.offset = cuts[c];
                block.bytes = cuts[c + 1] - cuts[c];
                block.begin = free;
                block.end = end;
                m_made.memory.blocks.push_back(block);
            };
            for (const Held &each : all) {
                if (each.offset > cuts[c] || each.offset + each.bytes < cuts[c + 1])
                    continue;
                addUntil(each.begin);
                free = std::max(free, each.end);
            }
            addUntil(m_made.memory.endSeconds);
        }
    }

    const Allocations &m_of;
    std::int32_t m_device;
    std::span<const Allocations::Event> m_events;
    bool m_hasTimes = false;
    AddressRanges m_ranges;
    std::map<std::int32_t, std::int32_t> m_names; ///< by frame
    LiveDevice m_made;
};

} // namespace

LiveDevice snapshotDevice(const trace::Allocations &snapshot, std::int32_t device)
{
    return SnapshotDevice(snapshot, device).make();
}

} // namespace planloom::ui

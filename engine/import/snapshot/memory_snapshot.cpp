// SPDX-License-Identifier: Apache-2.0
// Fields by PyTorch's own writers of them (torch.cuda.memory, memory_snapshot.cpp of releases 2.0 to 2.9).
#include "engine/import/snapshot/memory_snapshot.h"

#include "engine/base/files.h"
#include "engine/import/snapshot/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace planloom::import {

namespace {

using trace::Allocations;

constexpr std::int64_t kMostSnapshotBytes = std::int64_t{1} << 50; // of a block or segment
constexpr std::int64_t kMostSnapshotTime = std::int64_t{1} << 52;  // microseconds since 1970
constexpr std::int64_t kMostSnapshotDevices = 1024;
constexpr std::int64_t kMostSnapshotSum = std::int64_t{1} << 61; // of all sizes, so that no sum of them overflows
constexpr std::size_t kMostCalls = 4096;                         // of a stack

class SnapshotReader {
public:
    SnapshotReader(const Pickle &pickle, std::size_t bytes) : m_pickle(pickle), m_budget(bytes) {}

    Result<Allocations> read()
    {
        const Pickle::Id root = m_pickle.root();
        const auto kind = m_pickle.kind(root);
        if (kind != Pickle::Kind::Dict && kind != Pickle::Kind::List)
            return badInput("the pickle holds no memory snapshot; write one with torch.cuda.memory._dump_snapshot()");
        const auto segments = kind == Pickle::Kind::List ? std::optional(root) : m_pickle.find(root, "segments");
        if (!segments || m_pickle.kind(*segments) != Pickle::Kind::List)
            return badInput("the pickle has no list \"segments\" and is no memory snapshot; write one with "
                            "torch.cuda.memory._dump_snapshot()");
        readSegments(*segments);
        if (const auto traces = m_pickle.find(root, "device_traces"); traces && m_error.empty())
            readTraces(*traces);
        if (!m_error.empty())
            return badInput(m_error);
        return std::move(m_made);
    }

private:
    void fail(std::string why)
    {
        if (m_error.empty())
            m_error = std::move(why);
    }

    /// A value may be in many places: what is walked through has to be at most what the file could hold without that.
    bool spend()
    {
        if (m_budget == 0)
            fail("the same values are in too many places; this is no memory snapshot");
        else
            --m_budget;
        return m_error.empty();
    }

    std::int64_t whole(Pickle::Id dict, std::string_view key, const std::string &place, std::int64_t least,
                       std::int64_t most)
    {
        const auto found = m_pickle.find(dict, key);
        const auto value = found ? m_pickle.integer(*found) : std::nullopt;
        if (!value || *value < least || *value > most) {
            fail(fmt::format("{}.{} is {}; a whole number from {} to {} is needed", place, key,
                             !found      ? "missing"
                                 : value ? fmt::format("{}", *value)
                                         : "of another kind",
                             least, most));
            return least;
        }
        return *value;
    }

    /// Bytes.
    std::int64_t sizeOf(Pickle::Id dict, std::string_view key, const std::string &place)
    {
        const std::int64_t size = whole(dict, key, place, 0, kMostSnapshotBytes);
        m_sum += size;
        if (m_sum > kMostSnapshotSum)
            fail("the sizes of blocks and events add up to more than 64 bits can count");
        return size;
    }

    /// Addresses use all 64 bits.
    std::uint64_t addressOf(Pickle::Id dict, std::string_view key)
    {
        const auto found = m_pickle.find(dict, key);
        const auto value = found ? m_pickle.integer(*found) : std::nullopt;
        return static_cast<std::uint64_t>(value.value_or(0));
    }

    std::string_view textOf(Pickle::Id dict, std::string_view key)
    {
        const auto found = m_pickle.find(dict, key);
        return found ? m_pickle.text(*found).value_or("") : std::string_view();
    }

    bool isSet(Pickle::Id dict, std::string_view key)
    {
        const auto found = m_pickle.find(dict, key);
        return found && m_pickle.integer(*found).value_or(0) != 0;
    }

    // --- segments

    void readSegments(Pickle::Id list)
    {
        const auto items = m_pickle.items(list);
        for (std::size_t i = 0; i < items.size() && m_error.empty(); ++i)
            readSegment(items[i], fmt::format("segments[{}]", i));
    }

    void readSegment(Pickle::Id dict, const std::string &place)
    {
        if (!spend())
            return;
        if (m_pickle.kind(dict) != Pickle::Kind::Dict)
            return fail(place + " is no dict");
        Allocations::Segment segment;
        segment.address = addressOf(dict, "address");
        segment.size = sizeOf(dict, "total_size", place);
        segment.device = static_cast<std::int32_t>(whole(dict, "device", place, 0, kMostSnapshotDevices - 1));
        segment.stream = static_cast<std::int64_t>(addressOf(dict, "stream"));
        segment.isLarge = textOf(dict, "segment_type") == "large";
        segment.isExpandable = isSet(dict, "is_expandable");
        segment.stack = stackOf(dict, place);
        segment.firstBlock = static_cast<std::uint32_t>(m_made.blocks.size());
        std::uint64_t address = segment.address;
        const auto blocks = m_pickle.find(dict, "blocks");
        const auto items = blocks ? m_pickle.items(*blocks) : std::span<const Pickle::Id>();
        for (std::size_t i = 0; i < items.size() && m_error.empty(); ++i)
            readBlock(items[i], place, i, address);
        segment.blocks = static_cast<std::uint32_t>(m_made.blocks.size()) - segment.firstBlock;
        m_made.segments.push_back(segment);
    }

    /// @p address: where it begins if it does not say (PyTorch 2.0), then where the next one does.
    void readBlock(Pickle::Id dict, const std::string &segment, std::size_t index, std::uint64_t &address)
    {
        if (!spend())
            return;
        const std::string place = fmt::format("{}.blocks[{}]", segment, index);
        if (m_pickle.kind(dict) != Pickle::Kind::Dict)
            return fail(place + " is no dict");
        Allocations::Block block;
        block.address = m_pickle.find(dict, "address") ? addressOf(dict, "address") : address;
        block.size = sizeOf(dict, "size", place);
        block.requested = m_pickle.find(dict, "requested_size") ? sizeOf(dict, "requested_size", place) : block.size;
        const std::string_view state = textOf(dict, "state");
        if (state == "active_allocated")
            block.state = Allocations::State::InUse;
        else if (state == "active_pending_free" || state == "active_awaiting_free")
            block.state = Allocations::State::PendingFree;
        else if (state != "inactive")
            return fail(fmt::format("{}.state is \"{}\"; active_allocated, active_pending_free or inactive is needed",
                                    place, state.substr(0, 60)));
        block.stack = stackOf(dict, place);
        if (const auto history = m_pickle.find(dict, "history"); history && block.stack < 0)
            block.stack = stackOfHistory(*history, place);
        address = block.address + static_cast<std::uint64_t>(block.size);
        m_made.blocks.push_back(block);
    }

    /// PyTorch 2.0: the block's last allocations, the newest first.
    std::int32_t stackOfHistory(Pickle::Id history, const std::string &place)
    {
        const auto items = m_pickle.items(history);
        if (items.empty() || m_pickle.kind(items.front()) != Pickle::Kind::Dict)
            return -1;
        return stackOf(items.front(), place);
    }

    // --- events

    void readTraces(Pickle::Id traces)
    {
        const auto devices = m_pickle.items(traces);
        if (devices.size() > static_cast<std::size_t>(kMostSnapshotDevices))
            return fail(
                fmt::format("device_traces has {} devices; at most {} are read", devices.size(), kMostSnapshotDevices));
        m_made.events.resize(devices.size());
        for (std::size_t device = 0; device < devices.size(); ++device) {
            const auto items = m_pickle.items(devices[device]);
            for (std::size_t i = 0; i < items.size() && m_error.empty(); ++i)
                readEvent(items[i], device, i);
        }
        const std::int64_t origin = m_firstTime.value_or(0);
        for (auto &events : m_made.events) {
            for (Allocations::Event &event : events)
                event.time = event.time == 0 ? 0 : (event.time - origin) * 1000;
        }
    }

    void readEvent(Pickle::Id dict, std::size_t device, std::size_t index)
    {
        if (!spend())
            return;
        const std::string place = fmt::format("device_traces[{}][{}]", device, index);
        if (m_pickle.kind(dict) != Pickle::Kind::Dict)
            return fail(place + " is no dict");
        Allocations::Event event;
        event.action = actionOf(textOf(dict, "action"));
        event.address = addressOf(dict, event.action == Allocations::Action::OutOfMemory ? "device_free" : "addr");
        event.size = event.action == Allocations::Action::Other ? 0 : sizeOf(dict, "size", place);
        if (m_pickle.find(dict, "time_us"))
            event.time = whole(dict, "time_us", place, 0, kMostSnapshotTime);
        if (event.time > 0)
            m_firstTime = std::min(m_firstTime.value_or(event.time), event.time);
        event.stack = stackOf(dict, place);
        m_made.events[device].push_back(event);
    }

    static Allocations::Action actionOf(std::string_view name)
    {
        using Action = Allocations::Action;
        constexpr std::pair<std::string_view, Action> kActions[] = {
            {"alloc", Action::Allocate},
            {"free_requested", Action::FreeRequested},
            {"free_completed", Action::FreeCompleted},
            {"free", Action::FreeCompleted},
            {"segment_alloc", Action::SegmentTaken},
            {"segment_map", Action::SegmentTaken},
            {"segment_free", Action::SegmentGiven},
            {"segment_unmap", Action::SegmentGiven},
            {"oom", Action::OutOfMemory},
        };
        const auto *found = std::ranges::find(kActions, name, &std::pair<std::string_view, Action>::first);
        return found == std::end(kActions) ? Action::Other : found->second;
    }

    // --- stacks

    /// Of the field "frames"; -1: it is missing or empty.
    std::int32_t stackOf(Pickle::Id dict, const std::string &place)
    {
        const auto list = m_pickle.find(dict, "frames");
        if (!list)
            return -1;
        const auto [known, isNew] = m_stackOfList.try_emplace(*list, -1);
        if (!isNew)
            return known->second;
        std::vector<std::uint32_t> calls;
        for (const Pickle::Id frame : m_pickle.items(*list)) {
            if (!spend() || calls.size() >= kMostCalls)
                break;
            if (m_pickle.kind(frame) != Pickle::Kind::Dict) {
                fail(place + ".frames has what is no dict");
                return -1;
            }
            calls.push_back(frameOf(frame));
        }
        return m_stackOfList[*list] = calls.empty() ? -1 : stackNumber(std::move(calls));
    }

    std::int32_t stackNumber(std::vector<std::uint32_t> calls)
    {
        const auto [at, isNew] =
            m_stackNumbers.try_emplace(std::move(calls), static_cast<std::int32_t>(m_made.stacks()));
        if (isNew) {
            m_made.stackFrames.insert(m_made.stackFrames.end(), at->first.begin(), at->first.end());
            m_made.stackBegin.push_back(static_cast<std::uint32_t>(m_made.stackFrames.size()));
        }
        return at->second;
    }

    std::uint32_t frameOf(Pickle::Id dict)
    {
        const auto [known, isNew] = m_frameOfDict.try_emplace(dict, 0);
        if (!isNew)
            return known->second;
        const auto line = m_pickle.find(dict, "line");
        const std::int64_t number = line ? m_pickle.integer(*line).value_or(0) : 0;
        const Allocations::Frame frame{textNumber(textOf(dict, "name")), textNumber(textOf(dict, "filename")),
                                       number >= 0 && number <= INT32_MAX ? static_cast<std::int32_t>(number) : 0};
        const auto [at, isFirst] = m_frameNumbers.try_emplace(frame, static_cast<std::uint32_t>(m_made.frames.size()));
        if (isFirst)
            m_made.frames.push_back(frame);
        return m_frameOfDict[dict] = at->second;
    }

    std::int32_t textNumber(std::string_view text)
    {
        const auto [at, isNew] = m_textNumbers.try_emplace(text, static_cast<std::int32_t>(m_made.texts.size()));
        if (isNew)
            m_made.texts.emplace_back(text);
        return at->second;
    }

    const Pickle &m_pickle;
    std::size_t m_budget;   ///< values that may still be walked through
    std::int64_t m_sum = 0; ///< of all sizes
    std::string m_error;
    Allocations m_made;
    std::optional<std::int64_t> m_firstTime; ///< microseconds
    std::unordered_map<Pickle::Id, std::int32_t> m_stackOfList;
    std::unordered_map<Pickle::Id, std::uint32_t> m_frameOfDict;
    std::map<std::vector<std::uint32_t>, std::int32_t> m_stackNumbers;
    std::map<Allocations::Frame, std::uint32_t> m_frameNumbers;
    std::unordered_map<std::string_view, std::int32_t> m_textNumbers; ///< views of the pickle
};

} // namespace

Result<trace::Allocations> readMemorySnapshot(std::string_view bytes, const std::string &name)
{
    const auto pickle = readPickle(bytes);
    if (!pickle)
        return pickle.error().in(name);
    auto made = SnapshotReader(*pickle, bytes.size()).read();
    if (!made)
        return made.error().in(name);
    return made;
}

Result<trace::Allocations> readMemorySnapshot(const std::string &path)
{
    const auto bytes = readFile(path, static_cast<std::int64_t>(kLargestPickle));
    if (!bytes)
        return bytes.error();
    return readMemorySnapshot(*bytes, path);
}

bool isPickle(const std::string &name, std::string_view head)
{
    constexpr unsigned char kProto = 0x80;
    const bool isBinary =
        head.size() >= 2 && static_cast<unsigned char>(head[0]) == kProto && head[1] >= 2 && head[1] <= 5;
    return isBinary || name.ends_with(".pickle") || name.ends_with(".pkl");
}

} // namespace planloom::import

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace planloom::trace {

/// What a caching allocator of device memory held, and what it did before: a memory snapshot of PyTorch. Structs of
/// arrays that number each other; -1 is none. Texts, frames and call stacks are there once each.
struct Allocations {
    struct Frame {                             // 12 bytes
        std::int32_t function = -1, file = -1; ///< texts
        std::int32_t line = 0;
        friend auto operator<=>(const Frame &, const Frame &) = default;
    };
    /// Memory that the allocator has taken from the device: blocks [firstBlock, firstBlock + blocks), by address.
    struct Segment {
        std::uint64_t address = 0;
        std::int64_t size = 0; ///< bytes
        std::int64_t stream = 0;
        std::int32_t device = 0;
        std::int32_t stack = -1;
        std::uint32_t firstBlock = 0, blocks = 0;
        bool isLarge = false;
        bool isExpandable = false;
    };
    enum class State : std::uint8_t { Free, InUse, PendingFree }; ///< the latter: freed, but a stream may still use it
    struct Block {                                                // 32 bytes
        std::uint64_t address = 0;
        std::int64_t size = 0;      ///< bytes, as the allocator rounds them
        std::int64_t requested = 0; ///< bytes that were asked for
        std::int32_t stack = -1;    ///< where it was allocated
        State state = State::Free;
    };
    enum class Action : std::uint8_t {
        Allocate,
        FreeRequested, ///< by the program; streams may still use it
        FreeCompleted, ///< it can be used anew
        SegmentTaken,  ///< from the device, or mapped into an expandable segment
        SegmentGiven,  ///< back
        OutOfMemory,   ///< address: bytes that the device had free
        Other
    };
    struct Event {             // 32 bytes
        std::int64_t time = 0; ///< nanoseconds since the first event that has a time
        std::uint64_t address = 0;
        std::int64_t size = 0; ///< bytes that were asked for; of segments their own
        std::int32_t stack = -1;
        Action action = Action::Other;
    };

    std::vector<std::string> texts;
    std::vector<Frame> frames;
    std::vector<std::uint32_t> stackBegin{0}; ///< stack s: stackFrames[stackBegin[s]] to stackBegin[s + 1]
    std::vector<std::uint32_t> stackFrames;   ///< rows of frames, the innermost call first
    std::vector<Segment> segments;
    std::vector<Block> blocks;
    std::vector<std::vector<Event>> events; ///< by device, as they happened; empty where no history was kept

    [[nodiscard]] std::size_t stacks() const { return stackBegin.size() - 1; }
    /// Rows of frames; empty for -1.
    [[nodiscard]] std::span<const std::uint32_t> stack(std::int32_t index) const;
    /// The innermost frame of the program's own: outside of PyTorch, installed packages, Python and compiled libraries;
    /// else the innermost one. -1: the stack is empty.
    [[nodiscard]] std::int32_t ownFrame(std::int32_t stack) const;
    /// "forward, model.py:12"; "not recorded" for -1.
    [[nodiscard]] std::string frameText(std::int32_t frame) const;
    /// One more than the highest device that has segments or events.
    [[nodiscard]] std::int32_t devices() const;
};
static_assert(sizeof(Allocations::Block) == 32 && sizeof(Allocations::Event) == 32);

/// A block while it was in use.
struct LiveBlock {
    std::uint64_t address = 0;
    std::int64_t requested = 0; ///< bytes
    std::int32_t stack = -1;
    std::int64_t event = -1; ///< that allocated it; -1: before the history begins
};

/// Bytes in use, as they were asked for, and bytes of segments, from `time` on.
struct AllocationLevel {
    std::int64_t time = 0; ///< nanoseconds
    std::int64_t inUse = 0;
    std::int64_t reserved = 0;
};

/// A device's memory, now and over its history. Bytes.
struct DeviceMemory {
    std::int64_t reserved = 0;    ///< in segments
    std::int64_t inUse = 0;       ///< in blocks that are not free, as the allocator rounds them
    std::int64_t requested = 0;   ///< of these, what was asked for
    std::int64_t fragmented = 0;  ///< free, in segments that hold a block in use: cannot be given back to the device
    std::int64_t largestFree = 0; ///< block: a larger request needs a segment of its own
    std::int64_t atBegin = 0;     ///< in use before the history begins, as asked for
    std::int64_t peak = 0;        ///< in use, as asked for; without a history that of now
    std::int64_t peakReserved = 0;
    std::int64_t peakEvent = -1; ///< behind which the first peak is; -1: at the beginning, or there is no history
    std::int64_t peakTime = 0;   ///< nanoseconds
    std::int64_t segments = 0, blocks = 0, outOfMemory = 0; ///< counts
};

/// Cost: O(blocks + events). What was in use when the history began follows from what is in use at its end, and from
/// frees of what nothing in it allocated.
DeviceMemory deviceMemory(const Allocations &allocations, std::int32_t device);
/// At the beginning and after each event that changes it.
std::vector<AllocationLevel> levelsOf(const Allocations &allocations, std::int32_t device);
/// In use behind event @p event (-1: at the beginning; of a device without history: now), in order of allocation.
std::vector<LiveBlock> aliveAfter(const Allocations &allocations, std::int32_t device, std::int64_t event);

/// Bytes by where they were allocated.
struct FrameUse {
    std::int32_t frame = -1; ///< -1: no stack was recorded
    std::int64_t bytes = 0;
    std::int64_t blocks = 0;
};
/// By ownFrame(), the most bytes first.
std::vector<FrameUse> byFrame(const Allocations &allocations, std::span<const LiveBlock> blocks);

} // namespace planloom::trace

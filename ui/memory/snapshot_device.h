// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/trace/allocations.h"
#include "ui/memory/live_device.h"

#include <cstdint>

namespace planloom::ui {

/// A device of a memory snapshot as blocks over time: segments lie one behind the other by address, without the room
/// between them. Blocks are named by the line of the program that asked for them and last from their allocation to
/// where their memory could be used anew. Room of segments that the allocator did not hold at a time is a block of kind
/// Padding, so that what is free at a time is what the allocator held and did not use. Sizes are rounded up to 512
/// bytes, as the allocator does. Where events have no times they are a microsecond apart; without a history all lasts
/// a second. Cost: O(n log n) of blocks and events.
LiveDevice snapshotDevice(const trace::Allocations &snapshot, std::int32_t device);

} // namespace planloom::ui

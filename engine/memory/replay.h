// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/memory/walk.h"

namespace planloom::memory {

/// Seconds of @p course of @p stream where operators and the copies of both directions run side by side, each as soon
/// as what it waits for has ended: as the cost clock runs the course on a device that does nothing else. The walk's own
/// clock (Course::seconds) has copies begin when they are decided. Cost: O(n log n) for n events.
double replaySeconds(const Course &course, const Stream &stream, const CopyTimes &copies);

} // namespace planloom::memory

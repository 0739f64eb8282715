// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/device.h"

namespace planloom::device {

/// This machine's processors. Queues run each command during the call, on the calling thread and OpenMP's; events are
/// always complete; host and device memory are the same. Thread contract: any thread.
Device &cpuDevice();

} // namespace planloom::device

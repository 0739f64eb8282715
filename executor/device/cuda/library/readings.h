// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/plugin/activity_abi.h"

#include <cstdint>

namespace planloom::cuda {

/// Of CUDA's device @p device, by NVML, which comes with the driver; without it nothing is known. One thread at a time.
PlanloomReadings readingsOf(std::int32_t device);

} // namespace planloom::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_api.h"

namespace planloom::cuda {

/// NVIDIA's libraries on this machine: the runtime is linked, cuBLASLt and cuDNN are opened if they are there.
const Provider &installedLibraries();

/// kernels.cu.
const void *const *deviceKernels();

} // namespace planloom::cuda

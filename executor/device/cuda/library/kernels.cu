// SPDX-License-Identifier: Apache-2.0
// Our kernels for the device.
#include "executor/device/cuda/kernels/list.h"

namespace planloom::cuda {

namespace {

template <class K>
__global__ void launched(const K kernel)
{
    extern __shared__ __align__(16) double shared[]; // for 16 bytes at a time
    Block block;
    block.index = blockIdx.x;
    block.count = gridDim.x;
    block.threads = static_cast<int>(blockDim.x);
    block.shared = reinterpret_cast<float *>(shared);
    block.extra = block.shared + 2 * blockDim.x;
    kernel.run(block);
}

template <class K>
struct LaunchedEntry {
    static const void *entry() { return reinterpret_cast<const void *>(&launched<K>); }
};

} // namespace

const void *const *deviceKernels();
const void *const *deviceKernels() { return kernelTable<LaunchedEntry, const void *>(); }

} // namespace planloom::cuda

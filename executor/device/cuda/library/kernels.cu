// SPDX-License-Identifier: Apache-2.0
// Our kernels for the device.
#include "executor/device/cuda/kernels/list.h"

#include <type_traits>

namespace planloom::cuda {

namespace {

template <class K>
__global__ void launched(const K kernel)
{
    extern __shared__ double shared[];
    Block block;
    block.index = blockIdx.x;
    block.count = gridDim.x;
    block.threads = static_cast<int>(blockDim.x);
    block.shared = reinterpret_cast<float *>(shared);
    block.extra = block.shared + 2 * blockDim.x;
    kernel.run(block);
}

/// The same of a kernel that says how many blocks of its threads a multiprocessor is to hold.
template <class K>
__global__ void __launch_bounds__(K::kThreads, K::kResident) launchedResident(const K kernel)
{
    extern __shared__ double shared[];
    Block block;
    block.index = blockIdx.x;
    block.count = gridDim.x;
    block.threads = K::kThreads;
    block.shared = reinterpret_cast<float *>(shared);
    block.extra = block.shared + 2 * K::kThreads;
    kernel.run(block);
}

template <class K, class = void>
struct LaunchedEntry {
    static const void *entry() { return reinterpret_cast<const void *>(&launched<K>); }
};
template <class K>
struct LaunchedEntry<K, std::enable_if_t<(K::kResident > 0)>> {
    static const void *entry() { return reinterpret_cast<const void *>(&launchedResident<K>); }
};
template <class K>
using Launched = LaunchedEntry<K>;

} // namespace

const void *const *deviceKernels();
const void *const *deviceKernels() { return kernelTable<Launched, const void *>(); }

} // namespace planloom::cuda

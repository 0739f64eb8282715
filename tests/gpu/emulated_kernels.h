// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/list.h"

#include <cstddef>

// Our kernels, compiled for the processor.
namespace planloom::test {

/// What launchKernel() of the emulated runtime takes as function.
struct EmulatedKernel {
    void (*run)(const void *kernel, cuda::Block &block);
    std::size_t bytes;
};

template <class K>
struct EmulatedEntry {
    static const void *entry()
    {
        static const EmulatedKernel kEntry{
            [](const void *kernel, cuda::Block &block) { static_cast<const K *>(kernel)->run(block); }, sizeof(K)};
        return &kEntry;
    }
};

inline const void *const *emulatedKernels() { return cuda::kernelTable<EmulatedEntry, const void *>(); }

} // namespace planloom::test

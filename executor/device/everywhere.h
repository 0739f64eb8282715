// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A function that the processor's kernels and those of GPUs share.
#ifdef __CUDACC__
#define PLANLOOM_EVERYWHERE __host__ __device__ __forceinline__
#else
#define PLANLOOM_EVERYWHERE inline
#endif

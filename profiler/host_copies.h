// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace planloom::profiler {

/// Bytes of a copy that is measured: an activation of some size.
inline constexpr std::size_t kCopiedPiece = std::size_t{4} << 20;

/// How many pieces each of @p ranks has on each side, so that a piece has left a last-level cache of @p cacheBytes (0:
/// not known) when its turn comes again: all of them take twice the cache. At least 8; at most 128, and all of them an
/// eighth of @p memoryBytes.
std::size_t copiedPieces(std::int64_t cacheBytes, std::int64_t memoryBytes, int ranks);

/// Bytes per second at which a thread copies between a rank's memory and a host tier in memory, as memory policies on
/// a processor have it, with nothing beside it but @p ranks doing so at the same time; a median. What is copied is in
/// no cache. Takes 0.05 s and 64 MiB for each rank, up to half a second and 1 GiB where the last-level cache is large.
double hostCopyRate(int ranks);

} // namespace planloom::profiler

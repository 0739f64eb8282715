// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstddef>
#include <span>
#include <string_view>

namespace planloom {

/// Every place where a test can make the program fail, in the order in which a checkpoint passes them; then those of the run
/// around it. The environment variable PLANLOOM_FAILPOINTS arms them: "checkpoint.shard-fsync=kill@3;lease.write=error;checkpoint.prune=sleep:50", each
/// NAME=ACTION[@N] with
///     kill      SIGKILL to this process           stop      SIGSTOP
///     error     an Io error from here             full      the same, as a full disk says it
///     sleep:MS  a delay
/// at the N-th pass only, or at every pass where @N is left out.
inline constexpr std::string_view kFailpoints[] = {
    "checkpoint.snapshot",         ///< the copy is made, nothing is written
    "checkpoint.shard-create",
    "checkpoint.shard-header",
    "checkpoint.shard-data",       ///< before every chunk of data
    "checkpoint.shard-fsync",
    "checkpoint.part-write",       ///< the shard is whole, its description not yet written
    "checkpoint.shard-done",
    "checkpoint.parts-read",       ///< all ranks are done; the one that publishes begins
    "checkpoint.folder-rename",
    "checkpoint.folder-renamed",
    "checkpoint.manifest-write",
    "checkpoint.manifest-fsync",
    "checkpoint.manifest-rename",  ///< the checkpoint does not exist yet
    "checkpoint.manifest-renamed", ///< it exists
    "checkpoint.parent-fsync",
    "checkpoint.prune",            ///< before an old checkpoint goes
    "checkpoint.prune-manifest",   ///< its manifest is gone, its shards are not
    "checkpoint.restore-file",
    "lease.write",
    "lease.written",
    "metrics.send",                ///< steps are done, whoever started the rank has not heard of them
    "metrics.write",               ///< it has, their metrics are not in the run's folder yet
};

/// The names above.
inline std::span<const std::string_view> failpoints() { return kFailpoints; }

/// Position of @p name; does not compile for a name that is not in the list.
constexpr std::size_t failpointIndex(std::string_view name)
{
    for (std::size_t i = 0; i < std::size(kFailpoints); ++i)
        if (kFailpoints[i] == name)
            return i;
    throw "no such failpoint";
}

/// True where failpoints are compiled in (CMake option PLANLOOM_FAILPOINTS).
bool failpointsWork();
/// Counts a pass and does what is armed. Thread-safe. Error: Io, where "error" or "full" is armed.
Status passFailpoint(std::size_t index);
/// Arms as the environment variable would, and forgets all passes. Error: BadInput, naming the entry. For tests, before threads start.
Status armFailpoints(std::string_view text);

} // namespace planloom

/// For functions that return Status or Result<T>: returns the error that is armed.
#ifdef PLANLOOM_FAILPOINTS
#define PLANLOOM_FAILPOINT(name)                                                                         \
    do {                                                                                                 \
        constexpr std::size_t planloomFailpoint = ::planloom::failpointIndex(name);                      \
        if (const ::planloom::Status planloomPass = ::planloom::passFailpoint(planloomFailpoint); !planloomPass) \
            return planloomPass.error();                                                                 \
    } while (false)
#else
#define PLANLOOM_FAILPOINT(name) static_assert(::planloom::failpointIndex(name) < std::size(::planloom::kFailpoints))
#endif

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/dispatch/versions.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"

namespace planloom::simulate {

/// Versions of a parameter server on the cost clock.
struct VersionTimes {
    std::vector<double> seconds;        ///< by version: when its answers leave
    dispatch::Arrivals arrivals;        ///< by version: the ranks whose messages it was the first to have
    std::vector<double> iteration;      ///< by rank: seconds that it computes in an iteration
    std::vector<trace::Record> records; ///< of ranks' tasks and the server's (program::ServerRows), as they ended
    /// Seconds a version takes in the long run: over the second half of them.
    [[nodiscard]] double perVersion() const;
    /// Iterations that @p rank ends in a second, likewise.
    [[nodiscard]] double iterationsPerSecond(int rank) const;
};

/// The first @p count versions of a Program with a parameter server: ranks compute, those that share a core
/// (program::Rank::core) the slower for it, send, and wait for the version that dispatch::Versions makes of their
/// message; the server solves for one version after the other, on that of the ranks' shared cores on which fewest
/// compute. Deterministic. Error: BadInput, a Program without a
/// server.
Result<VersionTimes> versions(const program::Program &program, int count);

/// How many versions tell perVersion(): the pattern of a slow rank repeats within a few delays.
int steadyVersions(const program::Program &program);

} // namespace planloom::simulate

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "executor/comm/communicator.h"

#include <map>
#include <string>
#include <vector>

namespace planloom::profiler {

using Curves = std::map<std::string, std::vector<cost::CurvePoint>>;

struct TransportOptions {
    std::int64_t mostBytes = std::int64_t{16} << 20; ///< of a member's data
    double secondsPerPoint = 0.02;
};

/// Collective: every rank of @p communicator calls it, each already on its own cores. Times of every collective among
/// the first 2, 4, 8 ... and all ranks, and of messages between ranks 0 and 1, over sizes from 64 bytes on by factors
/// of 8; medians, of the slowest member. Rank 0 gets the curves by cost::curveName, the others get nothing. Errors:
/// those of the transport.
Result<Curves> measureTransport(comm::Communicator &communicator, const TransportOptions &options = {});

/// Curves as the file in which ranks return them; the same text as in a profile.
std::string curvesText(const Curves &curves);
Result<Curves> curvesFromText(const std::string &text);

/// This process as one of the ranks that an MPI launcher started: pins itself, measures, and rank 0 writes @p file.
Status measureTransportAsRank(const std::string &file);

} // namespace planloom::profiler

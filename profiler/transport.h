// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "executor/comm/communicator.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace planloom::profiler {

using Curves = std::map<std::string, std::vector<cost::CurvePoint>>;

/// What messages and collectives between ranks of one machine cost.
struct TransportFigures {
    Curves curves;                      ///< by cost::curveName
    cost::CommunicationOnCores onCores; ///< nothing: ranks have cores of their own, or it is too little to be seen
};

/// Sizes and time of the measurements.
struct TransportOptions {
    std::int64_t mostBytes = std::int64_t{16} << 20; ///< of a member's data
    double secondsPerPoint = 0.02;
    double longRound = 0.5; ///< seconds of a round from which on larger sizes show bandwidth alone, and are left out
    int cores = 0;          ///< of the machine, to which its ranks are dealt out in turn; 0: one for each rank
};

/// Collective: every rank of @p communicator calls it, each already on its own cores. Times of every collective among
/// the first 2, 4, 8 ... and all ranks, and of messages between ranks 0 and 1, over sizes from 64 bytes on by factors
/// of 4, as far as rounds of them are not long; medians, of the slowest member. Where ranks share cores
/// they come to a collective from work, as in a run, and all of them are in a group of so many at once. Where ranks
/// share cores, also by how much longer they compute while an all-reduce is under way, how much of the cores it gets
/// then, and how much longer a short all-gather takes beside work. Rank 0 gets the figures, the
/// others get none. Errors: those of the transport.
Result<TransportFigures> measureTransport(comm::Communicator &communicator, const TransportOptions &options = {});

/// Figures as the file in which ranks return them; the same text as in a profile.
std::string transportText(const TransportFigures &figures);
Result<TransportFigures> transportFromText(const std::string &text);
/// Into @p profile.
void addTransport(cost::Profile &profile, TransportFigures figures);

/// This process as one of the ranks that an MPI launcher started: pins itself, measures, and rank 0 writes @p file:
/// transportText(), or, where @p nodes has a machine for each rank, linksText() (link_times.h).
Status measureTransportAsRank(const std::string &file, std::span<const int> nodes = {});

} // namespace planloom::profiler

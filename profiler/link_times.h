// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"
#include "profiler/transport.h"

#include <span>
#include <string>
#include <vector>

namespace planloom::profiler {

/// Messages between a rank of one machine and a rank of another; of one machine where both are the same.
struct PairTimes {
    int a = 0; ///< index of Cluster::nodes()
    int b = 0;
    std::vector<cost::CurvePoint> messages;
};

/// An all-reduce among the ranks of a machine, or among the first ranks of several machines.
struct RingTimes {
    std::vector<int> nodes;
    int members = 0;
    std::vector<cost::CurvePoint> allReduces;
};

/// What the links between the ranks of a run over several machines carry.
struct LinkTimes {
    std::vector<PairTimes> pairs;
    std::vector<RingTimes> rings;
};

/// Collective: every rank calls it, rank i on machine @p nodes[i]. Times of an all-reduce among the ranks of each
/// machine, and of messages between its first two; of an all-reduce among the first ranks of all machines, and of
/// messages between every two of these: one after the other, over sizes as measureTransport() has them. Rank 0 gets
/// them. Errors: those of the transport; BadInput (not a node for each rank).
Result<LinkTimes> measureLinks(comm::Communicator &communicator, std::span<const int> nodes,
                               const TransportOptions &options = {});

/// As the file in which ranks return them.
std::string linksText(const LinkTimes &times);
/// Errors: BadInput (no such file, a machine that is none of @p nodes).
Result<LinkTimes> linksFromText(const std::string &text, std::size_t nodes);

/// What a large and a small message say of a link.
struct MeasuredLink {
    double bandwidth = 0; ///< bytes/s of the largest one, without the latency
    Seconds latency;      ///< of the smallest one
};
/// Of messages. Nothing measured: zeros.
MeasuredLink ofMessages(std::span<const cost::CurvePoint> points);
/// Of all-reduces among @p members, of which a ring moves 2(n-1)/n of the bytes over each link.
MeasuredLink ofAllReduces(std::span<const cost::CurvePoint> points, int members);

/// @p nominal with the measured figures of what was measured. Links between devices and switches of a machine get
/// what its own ranks reached; a machine's ports, the links that have one end in it, the most that it reached with any
/// other machine and half of the median latency that is left beside the links inside; a link from machine to machine
/// what these two reached. Links between switches of the network keep their figures.
Result<cluster::Cluster> withMeasuredLinks(const cluster::Cluster &nominal, const LinkTimes &times);

} // namespace planloom::profiler

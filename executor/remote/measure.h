// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/cluster/cluster.h"
#include "executor/remote/load.h"
#include "executor/remote/target.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace planloom::remote {

/// What `planloom profile` measures on another machine.
struct OperatorsRequest {
    std::string plan;  ///< its text; or
    std::string model; ///< "zoo:NAME", or the absolute path of a file here, which travels
    std::string device = "cpu";
    std::vector<std::int64_t> samples;
    std::int64_t sequence = 0; ///< 0: the model's own
    int ranks = 0;             ///< 0 here and below: as profile has it
    int threads = 0;
    int repetitions = 0;
};

// A measurement lasts as long as its session: when that ends, by @p stop or because this process or the network is
// gone, what measures is ended over there and nothing stays but the model in the cache.

/// Runs `planloom profile` over there; the profile's text. @p needed: load.h, for a plan. Errors: those of ask(),
/// modelOf(), sendLoad() and of what it measures; Cancelled.
Result<std::string> measureOperators(const Target &target, const OperatorsRequest &request, const Note &note,
                                     const NeedsModelFile &needed, Progress &progress, const std::atomic<bool> &stop);

/// Measures the links of @p cluster: a rank for each device, on the hosts of its nodes, which are reached from
/// the target, or all on the target where it is one machine without an address. The text that rank 0 of `planloom
/// transport --nodes` writes. Errors: BadInput (nodes without an address, one device alone), those of agent::hostsOf(),
/// ask() and of each host, named; Cancelled.
Result<std::string> measureLinks(const Target &target, const cluster::Cluster &cluster, Progress &progress,
                                 const std::atomic<bool> &stop);
/// Whether there is something to measure.
Status checkLinks(const cluster::Cluster &cluster);

// The other end, for host.cpp: until it is done or the session is over.

/// Where files of a measurement are as long as it lasts. `leave` removes them where it was killed.
std::string measuringFolder(const std::string &id);
/// @p request with a plan or a model that are there. Error: what planloom says.
Result<std::string> measureOperatorsHere(const OperatorsRequest &request, const std::string &id);
/// @p id: also of the meeting of the hosts.
Result<std::string> measureLinksHere(const cluster::Cluster &cluster, const std::string &id);

} // namespace planloom::remote

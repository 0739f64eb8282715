// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/partition.h"
#include "engine/gnn/volumes.h"
#include "planners/gnn/search.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace planloom::planners::gnn {

/// How the parts of a graph are made.
enum class PartChoice : std::uint8_t {
    AsGiven,
    Metis,         ///< few edges between parts
    BalancedMetis, ///< the same, with as many labelled nodes and neighbours in each
    Hash,
};
const char *name(PartChoice choice); ///< "as given", "metis", "metis, balanced", "hash"

/// What the joint search decides besides the placement.
struct JobChoices {
    PartChoice parts = PartChoice::AsGiven;
    planloom::gnn::GradientExchange exchange = planloom::gnn::GradientExchange::ParameterServers;
    double cacheShare = 0; ///< of the nodes, those with most neighbours, whose features every sampler holds
    std::int32_t prefetch = 1;
    friend bool operator==(const JobChoices &, const JobChoices &) = default;
};

/// A graph to draw the bytes of mini-batches from; without it parts and cache are as given.
struct SampledFrom {
    const planloom::gnn::GraphData *graph = nullptr;
    planloom::gnn::SampleOptions sampling;
    std::vector<std::int32_t> homes;
};

/// What is tried beside placements.
struct JointOptions {
    SearchOptions search; ///< of the job as given and as chosen; between them Exhaustive is Explore
    std::vector<double> caches{0, 0.01, 0.05}; ///< shares that are tried besides the given one
    std::vector<std::int32_t> prefetches{1, 2, 4};
    bool exchanges = true;            ///< whether all-reduce is tried instead of parameter servers
    std::int64_t trialProposals = 60; ///< of the search behind each choice that is tried
    /// A choice that takes more memory (cache, prefetch) is taken only if it saves more than this share of the time.
    double least = 0.01;
};

/// A choice that was tried in the last round, with all others as chosen.
struct TriedChoice {
    std::string what;  ///< "partition", "exchange", "cache", "prefetch"
    std::string value; ///< "metis", "all-reduce", "1 %", "2"
    double seconds = 0;
    bool given = false; ///< what the job says
    bool chosen = false;
};

/// The best of all choices, with every one that was tried.
struct JointResult {
    JobChoices given;
    JobChoices chosen;
    Job job; ///< with the chosen values; without parameter servers where it is all-reduce
    SearchResult search;
    double givenSeconds = 0; ///< the same search with everything as given
    std::vector<TriedChoice> tried;
    std::int64_t cacheBytes = 0;    ///< of each sampler
    std::int64_t prefetchBytes = 0; ///< of the largest mini-batches that a sampler may hold ready
    bool complete = true;
};

/// Partition, exchange, cache, prefetch and placement together: coordinate descent over the choices, each tried with a
/// short search of its placement, until a round changes nothing; then the whole search. Draws of mini-batches stay as
/// they are (with seeds of the whole graph), so losses do not depend on any choice but for rounding of the exchange.
/// Errors: those of searchPlacement(), partitionOf() and sampledVolumes(), where the job as given has them; a choice
/// that has one is left out.
Result<JointResult> searchJointly(const Job &job, const SampledFrom &from, const JointOptions &options,
                                  Progress &progress);

} // namespace planloom::planners::gnn

// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/joint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace planloom::planners::gnn {
namespace {

using planloom::gnn::GradientExchange;
using planloom::gnn::GraphData;
using planloom::gnn::RoleKind;
using planloom::gnn::Volumes;

constexpr std::array kPartNames{"as given", "metis", "metis, balanced", "hash"}; // order of PartChoice
constexpr std::array kChoiceNames{"partition", "exchange", "cache", "prefetch"};

planloom::gnn::PartitionOptions partitionOptions(PartChoice choice, std::int32_t parts)
{
    planloom::gnn::PartitionOptions options;
    options.parts = parts;
    options.method =
        choice == PartChoice::Hash ? planloom::gnn::PartitionMethod::Hash : planloom::gnn::PartitionMethod::Metis;
    options.balanceTraining = choice == PartChoice::BalancedMetis;
    return options;
}

/// Jobs with other choices than the given ones. Bytes of mini-batches are counted once for each partition and cache.
class Variants {
public:
    Variants(const Job &job, const SampledFrom &from) : m_job(job), m_from(from) {}

    [[nodiscard]] bool hasGraph() const { return m_from.graph != nullptr; }
    [[nodiscard]] JobChoices given() const
    {
        return {PartChoice::AsGiven, m_job.exchange, hasGraph() ? m_from.sampling.cacheShare : 0, m_job.prefetch};
    }

    Result<Job> job(const JobChoices &choices)
    {
        Job job = m_job;
        job.prefetch = choices.prefetch;
        job.exchange = choices.exchange;
        if (choices.exchange == GradientExchange::AllReduce)
            job.roles.resize(static_cast<std::size_t>(job.first(RoleKind::ParameterServer)));
        if (!hasGraph() || (choices.parts == PartChoice::AsGiven && choices.cacheShare == given().cacheShare))
            return job;
        const auto volumes = volumesOf(choices);
        if (!volumes)
            return volumes.error();
        const double model = job.volumes.model;
        job.volumes = **volumes;
        job.volumes.model = model;
        return job;
    }

private:
    Result<const Volumes *> volumesOf(const JobChoices &choices)
    {
        const std::pair key(choices.parts, choices.cacheShare);
        if (const auto found = m_volumes.find(key); found != m_volumes.end())
            return &found->second;
        const auto graph = graphWith(choices.parts);
        if (!graph)
            return graph.error();
        planloom::gnn::SampleOptions sampling = m_from.sampling;
        sampling.cacheShare = choices.cacheShare;
        auto volumes = planloom::gnn::sampledVolumes(**graph, m_from.homes, m_job.volumes.iterations, sampling);
        if (!volumes)
            return volumes.error();
        return &m_volumes.emplace(key, *std::move(volumes)).first->second;
    }

    Result<const GraphData *> graphWith(PartChoice choice)
    {
        if (choice == PartChoice::AsGiven)
            return m_from.graph;
        if (const auto found = m_graphs.find(choice); found != m_graphs.end())
            return &found->second;
        auto part = planloom::gnn::partitionOf(*m_from.graph, partitionOptions(choice, m_from.graph->parts()));
        if (!part)
            return part.error();
        GraphData graph = *m_from.graph;
        graph.part = *std::move(part);
        return &m_graphs.emplace(choice, std::move(graph)).first->second;
    }

    const Job &m_job;
    const SampledFrom &m_from;
    std::map<PartChoice, GraphData> m_graphs;
    std::map<std::pair<PartChoice, double>, Volumes> m_volumes;
};

std::string textOf(const JobChoices &choices, std::size_t what)
{
    switch (what) {
    case 0: return name(choices.parts);
    case 1: return planloom::gnn::name(choices.exchange);
    case 2: return fmt::format("{:g} %", choices.cacheShare * 100);
    default: return fmt::format("{}", choices.prefetch);
    }
}

/// The choices that differ from @p now in number @p what at most, cheapest first.
std::vector<JobChoices> alternatives(const JobChoices &now, const JobChoices &given, std::size_t what,
                                     const Variants &variants, const Job &job, const JointOptions &options)
{
    std::vector<JobChoices> all;
    const auto with = [&](auto member, auto value) {
        all.push_back(now);
        all.back().*member = value;
    };
    if (what == 0 && variants.hasGraph()) {
        with(&JobChoices::parts, PartChoice::AsGiven);
        if (planloom::gnn::hasMetis()) {
            with(&JobChoices::parts, PartChoice::Metis);
            with(&JobChoices::parts, PartChoice::BalancedMetis);
        }
        with(&JobChoices::parts, PartChoice::Hash);
    }
    const bool exchanges = options.exchanges && job.volumes.model > 0 && job.count(RoleKind::Trainer) > 1;
    if (what == 1 && exchanges && given.exchange == GradientExchange::ParameterServers
        && job.count(RoleKind::ParameterServer) > 0) {
        with(&JobChoices::exchange, GradientExchange::ParameterServers);
        with(&JobChoices::exchange, GradientExchange::AllReduce);
    }
    if (what == 2 && variants.hasGraph()) {
        std::vector<double> shares = options.caches;
        shares.push_back(given.cacheShare);
        std::sort(shares.begin(), shares.end());
        shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
        for (const double share : shares)
            with(&JobChoices::cacheShare, share);
    }
    if (what == 3) {
        std::vector<std::int32_t> ahead = options.prefetches;
        ahead.push_back(given.prefetch);
        std::sort(ahead.begin(), ahead.end());
        ahead.erase(std::unique(ahead.begin(), ahead.end()), ahead.end());
        for (const std::int32_t prefetch : ahead)
            with(&JobChoices::prefetch, prefetch);
    }
    return all;
}

class JointSearch {
public:
    JointSearch(const Job &job, const SampledFrom &from, const JointOptions &options, Progress &progress)
        : m_job(job),
          m_options(options),
          m_progress(progress),
          m_variants(job, from)
    {
        m_found.given = m_found.chosen = m_variants.given();
    }

    Result<JointResult> run()
    {
        const auto given = whole(m_found.given);
        if (!given)
            return given.error();
        m_found.givenSeconds = given->seconds;
        constexpr int kRounds = 4;
        for (int round = 0; round < kRounds && !m_progress.stopped(); ++round) {
            m_found.tried.clear();
            bool changed = false;
            for (std::size_t what = 0; what < kChoiceNames.size(); ++what)
                changed = decide(what) || changed;
            if (!changed)
                break;
        }
        auto job = m_variants.job(m_found.chosen);
        auto search = m_found.chosen == m_found.given ? given : whole(m_found.chosen);
        if (!job || !search)
            return job ? search.error() : job.error();
        if (search->seconds > given->seconds) { // the short searches erred
            m_found.chosen = m_found.given;
            job = m_variants.job(m_found.given);
            search = given;
        }
        m_found.job = *std::move(job);
        m_found.search = *std::move(search);
        m_found.complete = m_found.search.complete() && !m_progress.stopped();
        const std::vector<double> &batches = m_found.job.volumes.batches;
        m_found.prefetchBytes = static_cast<std::int64_t>(*std::max_element(batches.begin(), batches.end())
                                                          * (m_found.chosen.prefetch + 1));
        return std::move(m_found);
    }

private:
    Result<SearchResult> whole(const JobChoices &choices)
    {
        const auto job = m_variants.job(choices);
        return job ? searchPlacement(*job, m_options.search, m_progress) : Result<SearchResult>(job.error());
    }

    /// Seconds after a short search; nothing where the choice is not possible.
    std::optional<double> trial(const JobChoices &choices)
    {
        const auto job = m_variants.job(choices);
        if (!job)
            return std::nullopt;
        SearchOptions how = m_options.search;
        if (how.kind == SearchKind::Exhaustive) // every placement of the chosen job alone
            how.kind = SearchKind::Explore;
        how.explore.proposals = std::min(m_options.trialProposals, defaultProposals(*job));
        const auto found = searchPlacement(*job, how, m_progress);
        return found ? std::optional(found->seconds) : std::nullopt;
    }

    /// Tries the values of one choice. True if another one was taken.
    bool decide(std::size_t what)
    {
        const std::vector<JobChoices> all =
            alternatives(m_found.chosen, m_found.given, what, m_variants, m_job, m_options);
        const bool takesMemory = what >= 2;
        const double gain = takesMemory ? 1 - m_options.least : 1 - 1e-9;
        const std::string before = textOf(m_found.chosen, what);
        const std::size_t firstTried = m_found.tried.size();
        std::optional<double> least;
        for (const JobChoices &choices : all) {
            const auto seconds = m_progress.stopped() ? std::nullopt : trial(choices);
            if (!seconds)
                continue;
            const std::string value = textOf(choices, what);
            m_found.tried.push_back({kChoiceNames[what], value, *seconds, value == textOf(m_found.given, what), false});
            if (!least || *seconds < *least * gain) {
                least = seconds;
                m_found.chosen = choices;
            }
        }
        for (std::size_t i = firstTried; i < m_found.tried.size(); ++i)
            m_found.tried[i].chosen = m_found.tried[i].value == textOf(m_found.chosen, what);
        return textOf(m_found.chosen, what) != before;
    }

    const Job &m_job;
    const JointOptions &m_options;
    Progress &m_progress;
    Variants m_variants;
    JointResult m_found;
};

} // namespace

const char *name(PartChoice choice) { return kPartNames[static_cast<std::size_t>(choice)]; }

Result<JointResult> searchJointly(const Job &job, const SampledFrom &from, const JointOptions &options,
                                  Progress &progress)
{
    auto found = JointSearch(job, from, options, progress).run();
    if (found && from.graph != nullptr) {
        const double rowBytes = 4.0 * static_cast<double>(from.graph->width) + 8;
        found->cacheBytes =
            static_cast<std::int64_t>(found->chosen.cacheShare * static_cast<double>(from.graph->nodes()) * rowBytes);
    }
    return found;
}

} // namespace planloom::planners::gnn

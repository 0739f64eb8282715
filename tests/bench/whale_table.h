// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/import.h"
#include "planners/registry.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

/// The table of resources/docs/planners/whale.md: bench_whale prints it, tst_whale_table compares it with the page.
namespace planloom::bench {

inline constexpr std::array kWhaleModels{"resnet-50", "vgg-19",   "bert-large",   "gpt2",   "vgg-19-layers",
                                         "bert-48",   "xlnet-36", "amoebanet-36", "gnmt-16"};
inline constexpr std::array kWhaleClusters{"v100-p100", "v100-t4"};

/// Share of the whole model that a device of type @p type computes in a second, by the cost model, for equal slices of
/// the batch.
inline double whaleRate(const planners::Problem &problem, std::size_t type)
{
    const cost::CostModel &costs = *problem.subject.costs;
    const double samples =
        static_cast<double>(problem.globalBatch) / static_cast<double>(problem.subject.cluster->devices().size());
    return samples
        / (costs.forward(0, costs.layers().size(), samples, type)
           + costs.backward(0, costs.layers().size(), samples, type))
              .value();
}

/// Mean over minimum rate of the devices: the most that balance can gain.
inline double whaleBound(const planners::Problem &problem)
{
    double sum = 0;
    double least = 0;
    for (const cluster::Device &device : problem.subject.cluster->devices()) {
        const double rate = whaleRate(problem, device.type);
        sum += rate;
        least = least > 0 ? std::min(least, rate) : rate;
    }
    return sum / static_cast<double>(problem.subject.cluster->devices().size()) / least;
}

/// Simulated seconds of an iteration; 0: no plan fits.
inline double whaleSeconds(const planners::Problem &problem, planners::Options options, const char *balance)
{
    options["balance"] = balance;
    NoProgress progress;
    const auto report = (*planners::findPlanner("whale"))->plan(problem, options, progress);
    return report ? report->predicted.iterationSeconds : 0;
}

/// Of replicas, then of pipelines: seconds with even shares, with balance, and the gain; last the bound.
struct WhaleRow {
    std::array<double, 2> even{};
    std::array<double, 2> balanced{};
    double bound = 0;

    /// As the page prints them.
    [[nodiscard]] std::vector<std::string> cells() const
    {
        std::vector<std::string> texts;
        const auto add = [&](double seconds) {
            texts.push_back(seconds > 0 ? fmt::format("{:.4g} s", seconds) : "does not fit");
        };
        for (std::size_t i = 0; i < even.size(); ++i) {
            add(even[i]);
            add(balanced[i]);
            texts.push_back(even[i] > 0 && balanced[i] > 0 ? fmt::format("{:.2f} x", even[i] / balanced[i]) : "");
        }
        texts.push_back(fmt::format("{:.2f} x", bound));
        return texts;
    }
};

/// The row of zoo:@p model on preset:@p preset, 1,024 samples. Error: those of loading.
inline Result<WhaleRow> whaleRow(const std::string &model, const std::string &preset)
{
    constexpr std::int64_t kBatch = 1024;
    const auto loaded = import::loadModel("zoo:" + model);
    if (!loaded)
        return loaded.error();
    auto cluster = cluster::preset(preset);
    if (!cluster)
        return cluster.error();
    planners::Problem problem;
    problem.subject = plan::makeSubject(loaded->graph, std::make_shared<const cluster::Cluster>(*std::move(cluster)),
                                        loaded->profile, loaded->source);
    problem.globalBatch = kBatch;
    const std::array<planners::Options, 2> layouts{planners::Options{{"task_graphs", "1"}},
                                                   planners::Options{{"task_graphs", "4"}, {"place", "across"}}};
    WhaleRow row;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
        row.even[i] = whaleSeconds(problem, layouts[i], "even");
        row.balanced[i] = whaleSeconds(problem, layouts[i], "memory");
    }
    row.bound = whaleBound(problem);
    return row;
}

} // namespace planloom::bench

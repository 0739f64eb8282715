// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/import.h"
#include "planners/registry.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

/// The grid of resources/docs/planners/comparison.md: bench_planners prints it, tst_planner_grid compares a part of it.
namespace planloom::bench {

struct GridModel {
    const char *name;
    std::int64_t batch; ///< at least two samples a device
    plan::Precision precision;
};

inline constexpr GridModel kGridModels[] = {
    {"vgg-19-layers", 2048, plan::Precision::Float32}, {"xlnet-36", 128, plan::Precision::Float32},
    {"bert-48", 64, plan::Precision::Float32},         {"amoebanet-36", 128, plan::Precision::Float32},
    {"gnmt-16", 1024, plan::Precision::Float32},       {"resnet-50", 512, plan::Precision::Float32},
    {"lstm-lm", 512, plan::Precision::Float32},        {"bert-large", 128, plan::Precision::BFloat16},
    {"gpt2", 128, plan::Precision::BFloat16},          {"gpt-22b", 64, plan::Precision::BFloat16},
    {"gpt-175b", 128, plan::Precision::BFloat16},
};

inline constexpr const char *kGridClusters[] = {"dapple-a", "dapple-b", "dapple-c", "v100-p100",
                                                "v100-t4",  "h100-8",   "a100-128", "h100-1024"};

inline planners::Problem gridProblem(const GridModel &model, const import::Model &imported,
                                     const cluster::Cluster &cluster)
{
    planners::Problem problem;
    problem.subject =
        plan::inPrecision(plan::makeSubject(imported.graph, std::make_shared<const cluster::Cluster>(cluster),
                                            imported.profile, imported.source),
                          model.precision);
    problem.globalBatch = std::max(model.batch, static_cast<std::int64_t>(2 * cluster.devices().size()));
    problem.precision = model.precision;
    return problem;
}

/// As the page prints it; "-" for 0.
inline std::string gridMilliseconds(double seconds)
{
    if (seconds <= 0)
        return "-";
    char text[32];
    std::snprintf(text, sizeof text, seconds < 0.1 ? "%.1f" : "%.0f", seconds * 1e3);
    return text;
}

} // namespace planloom::bench

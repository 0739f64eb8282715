// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/model/profile_graph.h"
#include "planners/dapple/search.h"
#include "planners/registry.h"

#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace planloom::testing {

/// The value, or an exception with the error's text: a Qt Test then fails with it.
template <class T>
T must(Result<T> result)
{
    if (!result)
        throw std::runtime_error(result.error().text());
    return *std::move(result);
}

inline planners::Problem problemOf(const import::Model &model, cluster::Cluster cluster, std::int64_t batch)
{
    planners::Problem problem;
    problem.subject = plan::makeSubject(model.graph, std::make_shared<const cluster::Cluster>(std::move(cluster)),
                                        model.profile, model.source);
    problem.globalBatch = batch;
    return problem;
}

inline planners::Problem zooProblem(const std::string &model, const std::string &clusterPreset, std::int64_t batch)
{
    return problemOf(must(import::zooProfile(model)), must(cluster::preset(clusterPreset)), batch);
}

inline planners::PlanReport planned(const planners::Problem &problem, const std::string &planner,
                                    const planners::Options &options = {})
{
    NoProgress progress;
    return must(must(planners::findPlanner(planner))->plan(problem, options, progress));
}

/// "8+8 23": replica counts, then the first layers of the stages after the first.
inline std::string shapeOf(const plan::Plan &plan)
{
    std::string text;
    for (const plan::Stage &stage : plan.stages)
        text += (text.empty() ? "" : "+") + std::to_string(stage.devices.size());
    for (std::size_t i = 1; i < plan.stages.size(); ++i)
        text += " " + std::to_string(plan.stages[i].firstLayer);
    return text;
}

/// @p nodes machines of @p perNode V100s with DAPPLE's rates.
inline cluster::Cluster smallCluster(int nodes, int perNode, double memoryGb = 16)
{
    cluster::RegularCluster spec;
    spec.name = "small";
    spec.nodes = nodes;
    spec.perNode = perNode;
    spec.type = *cluster::knownDeviceType("V100");
    spec.type.memory = Bytes(static_cast<std::int64_t>(memoryGb * 1e9));
    spec.intraBandwidth = 25e9;
    spec.interPointToPoint = 1e9;
    spec.interCollective = 3e9;
    spec.fullDuplex = false;
    spec.twoLevelRules = true;
    return must(cluster::regular(spec));
}

/// A chain of random layers at profile batch 1: milliseconds of compute, megabytes of activations, @p weight times that
/// of parameters.
inline import::Model randomModel(std::mt19937 &random, std::size_t layers, double weight = 4)
{
    std::uniform_real_distribution<double> ms(0.5, 6);
    std::uniform_real_distribution<double> megabytes(0.1, 8);
    std::vector<import::ProfileLayerSpec> specs;
    for (std::size_t i = 0; i < layers; ++i) {
        std::vector<std::size_t> inputs;
        if (i > 0)
            inputs.push_back(i - 1);
        specs.push_back({"layer_" + std::to_string(i), ms(random), 2 * ms(random), megabytes(random) * 1e6,
                         megabytes(random) * weight * 1e6, inputs});
    }
    return must(import::profileModel("random", 1, specs));
}

} // namespace planloom::testing

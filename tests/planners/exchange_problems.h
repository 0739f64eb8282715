// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/zoo/zoo.h"
#include "planners/common/exchange.h"
#include "tests/planners/planner_helpers.h"

#include <string>

namespace planloom::testing {

inline constexpr int kMachines = 16;
inline constexpr double kHop = 5e-6; // seconds from one machine to the next

/// VGG-19 as DAPPLE measured it, 32 samples on each of 16 machines with one V100, joined by @p bandwidth bytes a
/// second.
inline planners::Problem vgg19(double bandwidth)
{
    cluster::RegularCluster spec;
    spec.name = "flat";
    spec.nodes = kMachines;
    spec.type = *cluster::knownDeviceType("V100");
    spec.intraBandwidth = 1e12;
    spec.intraLatency = Seconds(0);
    spec.interPointToPoint = bandwidth;
    spec.interCollective = bandwidth;
    spec.interLatency = Seconds(kHop);
    return problemOf(must(import::zooProfile("vgg-19-layers")), must(cluster::regular(spec)), 32 * kMachines);
}

/// A language model over 10,000 words, on 16 machines of one V100.
inline planners::Problem recurrent(bool tied)
{
    graph::LstmConfig config;
    config.layers = 1;
    config.embedding = config.hidden = 64;
    config.tiedEmbeddings = tied;
    import::Model model;
    model.graph = std::make_shared<const graph::Graph>(must(graph::lstmLanguageModel(config)));
    return problemOf(model, must(cluster::preset("dapple-c")), 128);
}

inline planners::PlanReport withExchange(const planners::Problem &problem, const std::string &text)
{
    return must(
        planners::withExchange(planned(problem, "data-parallel"), problem, must(planners::exchangeRequest(text))));
}

} // namespace planloom::testing

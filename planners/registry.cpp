// SPDX-License-Identifier: Apache-2.0
#include "planners/registry.h"

#include "planners/admm/admm.h"
#include "planners/auto/auto.h"
#include "planners/automap/automap.h"
#include "planners/dapple/dapple.h"
#include "planners/data_parallel/data_parallel.h"
#include "planners/gnn/gnn.h"
#include "planners/gpipe/gpipe.h"
#include "planners/manual/manual.h"
#include "planners/oneflow/oneflow.h"
#include "planners/pipedream/pipedream.h"
#include "planners/spp/spp.h"
#include "planners/whale/whale.h"

namespace planloom::planners {

std::vector<const Planner *> allPlanners()
{
    static const data_parallel::DataParallelPlanner dataParallel;
    static const gpipe::GpipePlanner gpipe;
    static const dapple::DapplePlanner dapple;
    static const pipedream::PipeDreamPlanner pipedream;
    static const spp::SppPlanner spp;
    static const oneflow::OneFlowPlanner oneflow;
    static const automap::AutoMapPlanner automap;
    static const whale::WhalePlanner whale;
    static const automatic::AutoPlanner automatic(
        {&dataParallel, &gpipe, &pipedream, &dapple, &spp, &oneflow, &automap, &whale});
    static const manual::ManualPlanner manual;
    return {&dataParallel, &gpipe, &pipedream, &dapple, &spp, &oneflow, &automap, &whale, &automatic, &manual};
}

std::vector<const Planner *> jobPlanners()
{
    static const gnn::GnnPlanner gnn;
    static const admm::AdmmPlanner admm;
    return {&gnn, &admm};
}

Result<const Planner *> findPlanner(const std::string &name)
{
    std::string known;
    std::vector<const Planner *> planners = allPlanners();
    for (const Planner *planner : jobPlanners())
        planners.push_back(planner);
    for (const Planner *planner : planners) {
        if (planner->name() == name)
            return planner;
        known += (known.empty() ? "" : ", ") + planner->name();
    }
    return notFound("there is no planner '" + name + "'; choose one of " + known);
}

} // namespace planloom::planners

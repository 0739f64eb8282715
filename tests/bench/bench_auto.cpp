// SPDX-License-Identifier: Apache-2.0
// How soon `auto` is near its answer: a model of 96 blocks on 1,024 devices of two kinds is searched to the end, then
// again with a stop after some seconds, which gives the best plan so far. Prints how much slower that is than the final
// one, and the memory of the process. Arguments: [MODEL [CLUSTER [BATCH]]].
#include "engine/import/import.h"
#include "planners/registry.h"
#include "tests/bench/deadline.h"

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

namespace {

using namespace planloom;
using bench::Watch;

struct Answer {
    double iteration = 0; ///< seconds; 0: none yet
    double search = 0;    ///< seconds
    std::string plan;
    double gap = -1;
};

Answer ask(const planners::Problem &problem, double limit)
{
    const planners::Planner &planner = **planners::findPlanner("auto");
    bench::Deadline deadline(Watch::Clock::Wall, limit);
    const Watch watch(Watch::Clock::Wall);
    const auto report = planner.plan(problem, {}, deadline);
    Answer answer;
    answer.search = watch.seconds();
    if (!report)
        return answer;
    answer.iteration = report->predicted.iterationSeconds;
    answer.plan = plan::notation(report->plan) + ", " + std::string(plan::name(report->plan.schedule.kind)) + ", "
        + std::to_string(report->plan.microBatches) + " micro-batches";
    if (const auto gap = report->plan.estimate.find("gap"); gap != report->plan.estimate.end())
        answer.gap = gap->second;
    return answer;
}

} // namespace

int main(int argc, char **argv)
{
    const std::string model = argc > 1 ? argv[1] : "gpt-175b";
    const std::string cluster = argc > 2 ? argv[2] : "h100-a100-1024";
    const auto imported = import::loadModel("zoo:" + model);
    const auto devices = cluster::preset(cluster);
    if (!imported || !devices) {
        std::fprintf(stderr, "%s\n", (imported ? devices.error() : imported.error()).text().c_str());
        return 1;
    }
    planners::Problem problem;
    problem.precision = plan::Precision::BFloat16;
    problem.subject =
        plan::inPrecision(plan::makeSubject(imported->graph, std::make_shared<const cluster::Cluster>(*devices),
                                            imported->profile, imported->source),
                          problem.precision);
    problem.globalBatch = argc > 3 ? std::atol(argv[3]) : 2048;
    std::printf("%s (%zu layers) on %s (%zu devices), %lld samples\n", model.c_str(), problem.subject.layers().size(),
                cluster.c_str(), devices->devices().size(), static_cast<long long>(problem.globalBatch));
    const Answer last = ask(problem, std::numeric_limits<double>::infinity());
    if (last.iteration <= 0) {
        std::fprintf(stderr, "nothing found\n");
        return 1;
    }
    std::printf("whole search %.1f s: iteration %.4f s, %s; %.1f %% above the bound\n", last.search, last.iteration,
                last.plan.c_str(), 100 * last.gap);
    for (const double limit : {10.0, 15.0, 20.0, 30.0}) {
        const Answer early = ask(problem, limit);
        if (early.iteration > 0)
            std::printf("stopped at %4.0f s (%.1f s): %.3f x the final time, %s\n", limit, early.search,
                        early.iteration / last.iteration, early.plan.c_str());
        else
            std::printf("stopped at %4.0f s (%.1f s): nothing yet\n", limit, early.search);
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("peak memory of the process %ld MB\n", usage.ru_maxrss / 1024);
    return 0;
}

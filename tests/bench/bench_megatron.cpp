// SPDX-License-Identifier: Apache-2.0
// Iteration times and memory of Korthikanti et al. (arXiv 2205.05198) on A100, predicted on the way that `planloom
// plan` goes, against the published figures: a row each, with the ratio.
#include "tests/planners/megatron_runs.h"

#include <cmath>
#include <cstdio>

namespace {

using namespace planloom;
using namespace planloom::test;

double worst = 0; ///< largest distance of a ratio from 1

void row(const std::string &name, double got, double published, const char *unit)
{
    const double ratio = got / published;
    worst = std::max(worst, std::abs(ratio - 1));
    std::printf("| %-46s | %8.3f %-3s | %8.3f %-3s | %.4f |\n", name.c_str(), got, unit, published, unit, ratio);
}

struct Memory {
    const char *model;
    std::size_t run;
    double stateGib, noneGib;
    double percent[4]; ///< sequence parallel, selective, both, each layer's input only
};

bool memoryRows(const Memory &about, const planners::Problem &problem)
{
    const auto held = [&](const char *recompute, bool sequence) -> Result<Held> {
        planners::Options options = megatronRuns()[about.run].options;
        options["recompute"] = recompute;
        options["sequence"] = sequence ? "on" : "off";
        const auto report = planned(problem, options);
        return report ? heldBy(report->plan, problem.subject) : report.error();
    };
    const auto none = held("never", false);
    if (!none) {
        std::fprintf(stderr, "%s\n", none.error().text().c_str());
        return false;
    }
    const std::string model = about.model;
    row(model + ", parameters and optimizer", none->state / kGibi, about.stateGib, "GiB");
    row(model + ", activations, tensor parallel", none->activations / kGibi, about.noneGib, "GiB");
    const std::pair<const char *, bool> ways[] = {
        {"never", true}, {"selective", false}, {"selective", true}, {"layers", false}};
    const char *names[] = {"sequence parallel", "selective", "sequence parallel, selective", "full"};
    for (std::size_t i = 0; i < std::size(ways); ++i) {
        const auto other = held(ways[i].first, ways[i].second);
        if (!other)
            return false;
        row(model + ", " + names[i], other->activations / none->activations * 100, about.percent[i], "%");
    }
    return true;
}

} // namespace

int main()
{
    std::printf("| %-46s | %12s | %12s | ratio  |\n|---|---|---|---|\n", "", "predicted", "published");
    for (const MegatronRun &run : megatronRuns()) {
        const auto problem = megatronProblem(run);
        const auto report = problem ? planned(*problem, run.options) : Result<planners::PlanReport>(problem.error());
        if (!report) {
            std::fprintf(stderr, "%s: %s\n", run.name, report.error().text().c_str());
            continue;
        }
        row(run.name, report->predicted.iterationSeconds, run.publishedSeconds, "s");
    }
    for (const Memory &about : {Memory{"22B", 0, 45.5625, 59.25, {66.84, 49.42, 16.18, 7.64}},
                                Memory{"175B", 2, 45.5625, 66.84375, {62.04, 56.53, 18.49, 8.71}}}) {
        const auto problem = megatronProblem(megatronRuns()[about.run]);
        if (!problem || !memoryRows(about, *problem))
            std::fprintf(stderr, "%s: memory was not predicted\n", about.model);
    }
    std::printf("largest difference: %.2f %%\n", 100 * worst);
    return 0;
}

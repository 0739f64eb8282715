// SPDX-License-Identifier: Apache-2.0
// Whale's hardware-aware balance against even shares, on nodes of unequal devices: simulated iteration times of both,
// their ratio, and the most that balance can gain (mean over minimum rate of the devices, by the cost model). Prints
// the table of resources/docs/planners/whale.md.
#include "engine/import/import.h"
#include "planners/registry.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <string>

namespace {

using namespace planloom;

constexpr std::int64_t kBatch = 1024;

/// Share of the whole model that a device of type @p type computes in a second, by the cost model, for equal slices of
/// the batch.
double rateOf(const planners::Problem &problem, std::size_t type)
{
    const cost::CostModel &costs = *problem.subject.costs;
    const double samples = static_cast<double>(kBatch) / static_cast<double>(problem.subject.cluster->devices().size());
    return samples
        / (costs.forward(0, costs.layers().size(), samples, type)
           + costs.backward(0, costs.layers().size(), samples, type))
              .value();
}

double bound(const planners::Problem &problem)
{
    double sum = 0;
    double least = 0;
    for (const cluster::Device &device : problem.subject.cluster->devices()) {
        const double rate = rateOf(problem, device.type);
        sum += rate;
        least = least > 0 ? std::min(least, rate) : rate;
    }
    return sum / static_cast<double>(problem.subject.cluster->devices().size()) / least;
}

std::string secondsOf(const planners::Problem &problem, planners::Options options, const char *balance, double &seconds)
{
    options["balance"] = balance;
    NoProgress progress;
    const auto report = (*planners::findPlanner("whale"))->plan(problem, options, progress);
    if (!report) {
        seconds = 0;
        return "does not fit";
    }
    seconds = report->predicted.iterationSeconds;
    return fmt::format("{:.4g} s", seconds);
}

} // namespace

int main()
{
    const char *models[] = {"resnet-50", "vgg-19",   "bert-large",   "gpt2",   "vgg-19-layers",
                            "bert-48",   "xlnet-36", "amoebanet-36", "gnmt-16"};
    std::puts("| model | cluster | replicas: even | balanced | gain | pipeline: even | balanced | gain | bound "
              "|\n|---|---|---|---|---|---|---|---|---|");
    for (const char *name : models) {
        const auto model = import::loadModel("zoo:" + std::string(name));
        if (!model)
            return 1;
        for (const char *preset : {"v100-p100", "v100-t4"}) {
            planners::Problem problem;
            problem.subject =
                plan::makeSubject(model->graph, std::make_shared<const cluster::Cluster>(*cluster::preset(preset)),
                                  model->profile, model->source);
            problem.globalBatch = kBatch;
            std::string row = fmt::format("| {} | {} |", name, preset);
            for (const planners::Options &options : {planners::Options{{"task_graphs", "1"}},
                                                     planners::Options{{"task_graphs", "4"}, {"place", "across"}}}) {
                double even = 0;
                double balanced = 0;
                row += fmt::format(" {} |", secondsOf(problem, options, "even", even));
                row += fmt::format(" {} |", secondsOf(problem, options, "memory", balanced));
                row += even > 0 && balanced > 0 ? fmt::format(" {:.2f} x |", even / balanced) : " |";
            }
            std::puts(fmt::format("{} {:.2f} x |", row, bound(problem)).c_str());
            std::fflush(stdout);
        }
    }
    return 0;
}

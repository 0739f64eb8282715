// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/stage_figures.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace planloom::ui {
namespace {

double sliceSamples(const plan::Plan &plan, const plan::Stage &stage)
{
    const std::int64_t samples = plan::microBatchRange(plan, 0).size;
    std::int64_t most = 0;
    for (std::size_t r = 0; r < stage.replicas(); ++r)
        most = std::max(most, plan::replicaRange(stage, r, samples).size);
    return static_cast<double>(most);
}

} // namespace

std::vector<LayerFigures> layerFigures(const plan::Document &document)
{
    const plan::Subject &subject = document.subject;
    const std::int64_t samples = plan::microBatchRange(document.plan, 0).size;
    std::vector<LayerFigures> figures(subject.layers().size());
    for (std::size_t s = 0; s < document.plan.stages.size(); ++s) {
        const plan::Stage &stage = document.plan.stages[s];
        for (std::size_t k = stage.firstLayer; k < std::min(stage.lastLayer, figures.size()); ++k)
            figures[k].seconds = stageSeconds(document, s, k, k + 1);
    }
    for (std::size_t k = 0; k < figures.size(); ++k) {
        figures[k].parameters = subject.costs->parameterBytes(k, k + 1).value();
        figures[k].cut = subject.layers().cutBytes(*subject.graph, k, samples).value();
    }
    return figures;
}

double stageSeconds(const plan::Document &document, std::size_t stage, std::size_t first, std::size_t last)
{
    const plan::Stage &which = document.plan.stages[stage];
    if (first >= last || which.devices.empty())
        return 0;
    const double samples = sliceSamples(document.plan, which);
    const cost::CostModel &costs = *document.subject.costs;
    const bool byAdmm = document.plan.admm.has_value();
    const auto shards = byAdmm ? 1.0 : static_cast<double>(which.shards()); // each range of steps makes all of it
    double slowest = 0;
    std::size_t asked = static_cast<std::size_t>(-1);
    for (const DeviceId device : which.devices) {
        const std::size_t type = document.subject.cluster->device(device).type;
        if (type == asked)
            continue;
        asked = type;
        slowest = std::max(slowest,
                           (costs.forward(first, last, samples, type)
                            + (byAdmm ? Seconds(0) : costs.backward(first, last, samples, type)))
                               .value());
    }
    return slowest / shards;
}

std::vector<std::optional<double>> secondsOfStages(const plan::Document &document, const simulate::Report *report)
{
    const std::vector<plan::Stage> &stages = document.plan.stages;
    std::vector<std::optional<double>> seconds(stages.size());
    for (std::size_t s = 0; s < stages.size() && !document.plan.admm; ++s)
        seconds[s] = stageSeconds(document, s, stages[s].firstLayer, stages[s].lastLayer);
    if (!document.plan.admm || report == nullptr)
        return seconds;
    const auto busiest =
        leadingDevices(document, *report, [](const simulate::DeviceReport &device) { return device.busyFraction; });
    for (std::size_t s = 0; s < stages.size(); ++s) {
        if (busiest[s] != nullptr)
            seconds[s] = busiest[s]->busyFraction * report->iterationSeconds;
    }
    return seconds;
}

std::vector<const simulate::DeviceReport *> leadingDevices(const plan::Document &document,
                                                           const simulate::Report &report,
                                                           double (*of)(const simulate::DeviceReport &))
{
    const cluster::Cluster &cluster = *document.subject.cluster;
    std::vector<const simulate::DeviceReport *> reports(cluster.devices().size());
    for (const simulate::DeviceReport &device : report.devices) {
        if (const DeviceId id = cluster.find(device.id); id.valid())
            reports[id.index()] = &device;
    }
    std::vector<const simulate::DeviceReport *> leading;
    for (const plan::Stage &stage : document.plan.stages) {
        leading.push_back(nullptr);
        for (const DeviceId id : stage.devices) {
            const simulate::DeviceReport *own = id.index() < reports.size() ? reports[id.index()] : nullptr;
            if (own && (!leading.back() || of(*own) > of(*leading.back())))
                leading.back() = own;
        }
    }
    return leading;
}

std::vector<double> secondsWithBoundary(const plan::Document &document, std::size_t boundary, std::size_t layer)
{
    std::vector<double> seconds;
    for (std::size_t s = 0; s < document.plan.stages.size(); ++s) {
        const plan::Stage &stage = document.plan.stages[s];
        const std::size_t first = s == boundary + 1 ? layer : stage.firstLayer;
        const std::size_t last = s == boundary ? layer : stage.lastLayer;
        seconds.push_back(stageSeconds(document, s, first, last));
    }
    return seconds;
}

std::size_t balancedCut(const plan::Document &document, std::size_t stage)
{
    const plan::Stage &which = document.plan.stages[stage];
    std::size_t best = which.firstLayer;
    double bestSlower = 0;
    for (std::size_t cut = which.firstLayer + 1; cut < which.lastLayer; ++cut) {
        const double slower = std::max(stageSeconds(document, stage, which.firstLayer, cut),
                                       stageSeconds(document, stage, cut, which.lastLayer));
        if (best != which.firstLayer && slower >= bestSlower)
            continue;
        best = cut;
        bestSlower = slower;
    }
    return best;
}

} // namespace planloom::ui

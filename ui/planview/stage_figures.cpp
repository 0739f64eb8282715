// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/stage_figures.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace planloom::ui {
namespace {

constexpr std::int32_t kMostOfRange = 65536; // devices that one "a-b" may name; no cluster has more

double sliceSamples(const plan::Plan &plan, const plan::Stage &stage)
{
    const std::int64_t samples = plan::microBatchRange(plan, 0).size;
    std::int64_t most = 0;
    for (std::size_t r = 0; r < stage.replicas(); ++r)
        most = std::max(most, plan::replicaRange(stage, r, samples).size);
    return static_cast<double>(most);
}

/// "n0:g12" as "n0:g" and 12; nothing if it does not end in a number without leading zeros.
struct Numbered {
    std::string_view prefix;
    std::int32_t number = 0;
};
std::optional<Numbered> split(std::string_view name)
{
    const std::size_t end = name.find_last_not_of("0123456789");
    const std::size_t digits = end == std::string_view::npos ? 0 : end + 1;
    if (digits == name.size() || (name[digits] == '0' && name.size() - digits > 1))
        return std::nullopt;
    Numbered result{name.substr(0, digits), 0};
    const auto [stop, error] = std::from_chars(name.data() + digits, name.data() + name.size(), result.number);
    return error == std::errc{} && stop == name.data() + name.size() ? std::optional(result) : std::nullopt;
}

std::string_view trimmed(std::string_view text)
{
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// A name, or "n0:g0-3".
Status addOfNode(const cluster::Cluster &cluster, std::string_view part, std::vector<DeviceId> &devices)
{
    if (const DeviceId device = cluster.find(part); device.valid()) {
        devices.push_back(device);
        return {};
    }
    const Error unknown = notFound("there is no device \"" + std::string(part) + "\"; the cluster has "
                                   + cluster.devices().front().name + " to " + cluster.devices().back().name);
    const std::size_t dash = part.rfind('-');
    if (dash == std::string_view::npos)
        return unknown;
    const auto from = split(trimmed(part.substr(0, dash)));
    const auto to = split(trimmed(part.substr(dash + 1)));
    if (!from || !to || (!to->prefix.empty() && to->prefix != from->prefix))
        return unknown;
    if (to->number < from->number || to->number - from->number >= kMostOfRange)
        return badInput("\"" + std::string(part) + "\" runs backwards or too far; write it as n0:g0-3");
    for (std::int32_t number = from->number; number <= to->number; ++number) {
        const std::string name = std::string(from->prefix) + std::to_string(number);
        const DeviceId device = cluster.find(name);
        if (!device.valid())
            return notFound("there is no device \"" + name + "\" (in \"" + std::string(part) + "\")");
        devices.push_back(device);
    }
    return {};
}

/// The nodes of "n0-63:g0-7" as "n0" and 63, and what stands behind them.
struct NodeRange {
    Numbered first;
    std::int32_t last = 0;
    std::string_view behind; ///< ":g0-7"
};
std::optional<NodeRange> nodeRange(std::string_view part)
{
    const std::size_t colon = part.find(':');
    const std::size_t dash = part.substr(0, colon).rfind('-');
    if (colon == std::string_view::npos || dash == std::string_view::npos)
        return std::nullopt;
    const auto from = split(trimmed(part.substr(0, dash)));
    const auto to = split(trimmed(part.substr(dash + 1, colon - dash - 1)));
    const bool legal = from && to && (to->prefix.empty() || to->prefix == from->prefix) && to->number >= from->number
        && to->number - from->number < kMostOfRange;
    return legal ? std::optional(NodeRange{*from, to->number, part.substr(colon)}) : std::nullopt;
}

/// One part between commas: a name, "n0:g0-3" or "n0-63:g0-7".
Status addDevices(const cluster::Cluster &cluster, std::string_view part, std::vector<DeviceId> &devices)
{
    const std::size_t before = devices.size();
    const Status ofNode = addOfNode(cluster, part, devices);
    const auto nodes = ofNode ? std::nullopt : nodeRange(part);
    if (!nodes)
        return ofNode;
    devices.resize(before);
    for (std::int32_t node = nodes->first.number; node <= nodes->last; ++node) {
        const std::string name = std::string(nodes->first.prefix) + std::to_string(node) + std::string(nodes->behind);
        if (Status status = addOfNode(cluster, name, devices); !status)
            return status;
    }
    return {};
}

/// Runs of one node's devices as text: "n0:g0-7".
std::vector<std::string> runsOf(const cluster::Cluster &cluster, const std::vector<DeviceId> &devices)
{
    std::vector<std::string> runs;
    for (std::size_t i = 0; i < devices.size();) {
        const std::string &name = cluster.device(devices[i]).name;
        const auto first = split(name);
        std::size_t end = i + 1;
        std::int32_t number = first ? first->number : 0;
        for (; first && end < devices.size(); ++end) {
            const auto next = split(cluster.device(devices[end]).name);
            if (!next || next->prefix != first->prefix || next->number != number + 1)
                break;
            ++number;
        }
        runs.push_back(end - i > 1 ? name + "-" + std::to_string(number) : name);
        i = end;
    }
    return runs;
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

std::string deviceText(const cluster::Cluster &cluster, const std::vector<DeviceId> &devices)
{
    const std::vector<std::string> runs = runsOf(cluster, devices);
    const auto nodeOf = [](std::string_view run) { return run.substr(0, run.find(':')); };
    const auto behind = [&](std::string_view run) { return run.substr(nodeOf(run).size()); };
    std::string text;
    for (std::size_t i = 0; i < runs.size();) {
        const auto first = split(nodeOf(runs[i]));
        std::size_t end = i + 1;
        std::int32_t number = first ? first->number : 0;
        for (; first && !behind(runs[i]).empty() && end < runs.size(); ++end) {
            const auto next = split(nodeOf(runs[end]));
            if (!next || next->prefix != first->prefix || next->number != number + 1
                || behind(runs[end]) != behind(runs[i]))
                break;
            ++number;
        }
        text += text.empty() ? "" : ", ";
        text += nodeOf(runs[i]);
        text += end - i > 1 ? "-" + std::to_string(number) : std::string();
        text += behind(runs[i]);
        i = end;
    }
    return text;
}

Result<std::vector<DeviceId>> devicesFromText(const cluster::Cluster &cluster, const std::string &text)
{
    std::vector<DeviceId> devices;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t comma = std::min(text.find(',', begin), text.size());
        const std::string_view part = trimmed(std::string_view(text).substr(begin, comma - begin));
        begin = comma + 1;
        if (part.empty())
            return badInput("a device name is missing in \"" + text
                            + "\"; write names with commas between, such as n0:g0-3, n0:g5");
        if (Status status = addDevices(cluster, part, devices); !status)
            return status.error();
    }
    return devices;
}

} // namespace planloom::ui

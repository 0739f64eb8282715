// SPDX-License-Identifier: Apache-2.0
#include "planners/whale/layout.h"

#include "planners/whale/partition.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::planners::whale {
namespace {

constexpr double kUnknownSpeed = 1; // of a device without a float32 figure

double peakOf(const cluster::DeviceType &type)
{
    const auto found = type.peakFlops.find("float32");
    return found == type.peakFlops.end() ? kUnknownSpeed : found->second;
}

std::vector<DeviceId> allDevices(const Placed &placed)
{
    std::vector<DeviceId> devices;
    for (const auto &replica : placed.replicas)
        devices.insert(devices.end(), replica.begin(), replica.end());
    return devices;
}

} // namespace

Layouter::Layouter(const Problem &problem, const Settings &settings)
    : m_problem(&problem),
      m_settings(&settings),
      m_costs(problem.subject.costs.get()),
      m_memory(*problem.subject.costs, problem.optimizer, settings.reserve),
      m_cores(*problem.subject.cluster)
{
}

void Layouter::tighten(DeviceId device, double factor)
{
    const auto at = m_tightened.emplace(device, 1.0).first;
    at->second *= factor;
}

double Layouter::usable(DeviceId device) const
{
    const auto found = m_tightened.find(device);
    return m_memory.usable(device) * (found == m_tightened.end() ? 1 : found->second);
}

/// Samples a second of layers [first, last), as slices of @p samples come by; or FLOP/s.
double Layouter::speedOf(std::size_t first, std::size_t last, DeviceId device, double samples) const
{
    const cluster::Cluster &cluster = m_costs->cluster();
    if (m_settings->peakSpeeds)
        return peakOf(cluster.typeOf(device));
    const std::size_t type = cluster.device(device).type;
    const double seconds =
        (m_costs->forward(first, last, samples, type) + m_costs->backward(first, last, samples, type)).value();
    return seconds > 0 ? samples / seconds : peakOf(cluster.types()[type]);
}

LoadMemory Layouter::memoryOf(const Placed &placed, int inFlight, bool recompute, std::int64_t units) const
{
    const std::size_t first = placed.taskGraph.first;
    const std::size_t last = placed.taskGraph.last;
    const StageFootprint none = m_memory.footprint(first, last, 0, recompute);
    const StageFootprint one = m_memory.footprint(first, last, 1, recompute);
    const double parts = placed.parts;
    // The split fraction of the weights is known; activations are taken to be cut as well, and the compiled plan
    // decides.
    LoadMemory memory{none.fixed * (1 - placed.splitShare + placed.splitShare / parts),
                      (one.fixed - none.fixed + inFlight * one.perMicroBatch) / parts};
    if (m_settings->proportionalMemory)
        memory = {0, memory.of(units) / static_cast<double>(units)};
    return memory;
}

Layouter::Load Layouter::loadOf(const Placed &placed, int inFlight, bool recompute, std::int64_t units) const
{
    Load load{{}, memoryOf(placed, inFlight, recompute, units), units};
    const double slice = std::max(1.0, static_cast<double>(units) / static_cast<double>(placed.replicas.size()));
    for (const std::vector<DeviceId> &devices : placed.replicas) {
        Worker worker{speedOf(placed.taskGraph.first, placed.taskGraph.last, devices.front(), slice),
                      usable(devices.front())};
        for (const DeviceId device : devices) { // parts are equal: the slowest and the smallest count
            worker.speed =
                std::min(worker.speed, speedOf(placed.taskGraph.first, placed.taskGraph.last, device, slice));
            worker.memory = std::min(worker.memory, usable(device));
        }
        worker.speed *= placed.parts;
        load.workers.push_back(worker);
    }
    return load;
}

Balance Layouter::share(const Load &load) const
{
    switch (m_settings->sharing) {
    case Sharing::Time: return balanceByTime(load.workers, load.memory, load.units);
    case Sharing::Even: return evenShares(load.workers, load.memory, load.units);
    case Sharing::Algorithm1: break;
    }
    return balanceByAlgorithm1(load.workers, load.memory, load.units);
}

void Layouter::note(const Placed &placed, const Load &load, const Balance &balance)
{
    MemoryLimit worst;
    for (std::size_t i = 0; i < load.workers.size(); ++i) {
        const auto smallest = std::min_element(placed.replicas[i].begin(), placed.replicas[i].end(),
                                               [&](DeviceId a, DeviceId b) { return usable(a) < usable(b); });
        const MemoryLimit each{fmt::format("{} (layers {} to {})", placed.taskGraph.name, placed.taskGraph.first,
                                           placed.taskGraph.last),
                               *smallest, load.memory.of(balance.units[i]), load.workers[i].memory};
        if (!worst.device.valid() || each.factor() > worst.factor())
            worst = each;
    }
    if (!m_shortage || worst.factor() < m_shortage->factor())
        m_shortage = std::move(worst);
}

/// Decides on recomputation and shares.
bool Layouter::settle(Placed &placed, int inFlight, std::int64_t units, bool note)
{
    for (const bool recompute : {false, true}) {
        if (recompute ? m_settings->recompute == Recompute::Never : m_settings->recompute == Recompute::Always)
            continue;
        const Load load = loadOf(placed, inFlight, recompute, units);
        Balance balance = share(load);
        placed.recompute = recompute;
        placed.units = std::move(balance.units);
        if (balance.fits)
            return true;
        balance.units = placed.units;
        if (note)
            this->note(placed, load, balance);
    }
    return false;
}

std::optional<Laid> Layouter::lay(const std::vector<TaskGraph> &taskGraphs,
                                  const std::vector<std::vector<std::vector<DeviceId>>> &devices,
                                  std::int64_t microBatches, const std::map<std::string, double> &splitShares)
{
    Laid laid;
    laid.microBatches = microBatches;
    const std::int64_t units = m_problem->globalBatch / microBatches;
    for (std::size_t i = 0; i < taskGraphs.size(); ++i) {
        Placed placed{taskGraphs[i], {}, {}, false, 1, 0};
        const bool split = taskGraphs[i].kind == plan::Annotation::Kind::Split;
        for (const std::vector<DeviceId> &copy : devices[i]) {
            if (split)
                placed.replicas.push_back(copy);
            for (const DeviceId device : copy)
                if (!split)
                    placed.replicas.push_back({device});
        }
        placed.parts = static_cast<int>(placed.replicas.front().size());
        if (const auto share = splitShares.find(taskGraphs[i].name); split && share != splitShares.end())
            placed.splitShare = share->second;
        if (static_cast<std::int64_t>(placed.replicas.size()) > units
            || !settle(placed, inFlight(m_settings->order, i, taskGraphs.size(), microBatches), units, true))
            return std::nullopt;
        laid.placed.push_back(std::move(placed));
    }
    laid.seconds = secondsOf(laid, false);
    laid.evenSeconds = secondsOf(laid, true);
    bridges(laid, units);
    return laid;
}

std::optional<std::vector<TaskGraph>> Layouter::cut(const std::vector<std::vector<std::vector<DeviceId>>> &devices,
                                                    std::int64_t microBatches)
{
    const std::size_t layers = m_costs->layers().size();
    const std::int64_t units = m_problem->globalBatch / microBatches;
    std::vector<Placed> parts;
    std::vector<double> speeds;
    for (const auto &copies : devices) {
        Placed placed;
        double speed = 0;
        const double slice = std::max(1.0, static_cast<double>(units) / static_cast<double>(copies.size()));
        for (const auto &copy : copies) {
            placed.replicas.push_back({copy.front()});
            speed += speedOf(0, layers, copy.front(), slice);
        }
        if (m_settings->sharing == Sharing::Even) // without balance, neither inside nor between task graphs
            speed = 1;
        parts.push_back(std::move(placed));
        speeds.push_back(speed);
    }
    std::vector<double> weights;
    for (std::size_t l = 0; l < layers; ++l)
        weights.push_back((m_costs->forward(l, l + 1, 1, 0) + m_costs->backward(l, l + 1, 1, 0)).value());
    const PartFits fits = [&](std::size_t part, std::size_t first, std::size_t last) {
        parts[part].taskGraph.first = first;
        parts[part].taskGraph.last = last;
        return settle(parts[part], inFlight(m_settings->order, part, parts.size(), microBatches), units, false);
    };
    std::optional<std::vector<std::size_t>> cuts;
    if (m_settings->cut == Cut::Walk)
        cuts = walkCuts(weights, speeds, fits);
    else if (m_settings->cut == Cut::Exact)
        cuts = exactCuts(weights, speeds, fits);
    if (!cuts) { // as balanced as possible; the shortage is noted when it is laid out
        const auto all = [](std::size_t, std::size_t, std::size_t) { return true; };
        cuts = exactCuts(weights, speeds, all);
        if (m_settings->cut == Cut::Buckets) {
            cuts->clear();
            for (const Bucket &bucket : smallestBuckets(weights, parts.size()))
                if (bucket.first > 0)
                    cuts->push_back(bucket.first);
        }
    }
    std::vector<TaskGraph> taskGraphs;
    if (cuts->size() + 1 != parts.size())
        return std::nullopt; // buckets that are too few for the devices
    for (std::size_t i = 0; i < parts.size(); ++i)
        taskGraphs.push_back({fmt::format("stage{}", i), i == 0 ? 0 : (*cuts)[i - 1],
                              i < cuts->size() ? (*cuts)[i] : layers, plan::Annotation::Kind::Replicate, 1});
    return taskGraphs;
}

/// Fill and drain once, the slowest entry for each further micro-batch, then the longest all-reduce.
double Layouter::secondsOf(const Laid &laid, bool even) const
{
    std::vector<std::vector<DeviceId>> devices;
    for (const Placed &placed : laid.placed)
        devices.push_back(allDevices(placed));
    const SharedCores::Stages stages(devices.begin(), devices.end());
    const std::vector<double> crowds = m_cores.crowds(stages);
    std::vector<double> computing;
    double once = 0;
    double pace = 0;
    double exchange = 0;
    const std::int64_t units = m_problem->globalBatch / laid.microBatches;
    for (std::size_t i = 0; i < laid.placed.size(); ++i) {
        const Placed &placed = laid.placed[i];
        const TaskGraph &graph = placed.taskGraph;
        double slowest = 0;
        for (std::size_t r = 0; r < placed.replicas.size(); ++r) {
            const double samples = even ? static_cast<double>(units) / static_cast<double>(placed.replicas.size())
                                        : static_cast<double>(placed.units[r]);
            for (const DeviceId device : placed.replicas[r]) {
                const std::size_t type = m_costs->cluster().device(device).type;
                const Seconds forward = m_costs->forward(graph.first, graph.last, samples, type);
                const Seconds pass = forward + m_costs->backward(graph.first, graph.last, samples, type)
                    + (placed.recompute ? forward : Seconds(0));
                slowest = std::max(slowest, pass.value() / placed.parts);
            }
        }
        computing.push_back(slowest * static_cast<double>(laid.microBatches));
        slowest *= crowds[i]; // replicas compute at the same time
        once += slowest;
        pace = std::max(pace, slowest);
        const double weights = static_cast<double>(m_costs->parameterBytes(graph.first, graph.last).value())
            * (1 - placed.splitShare + placed.splitShare / placed.parts);
        if (placed.replicas.size() > 1)
            exchange = std::max(exchange, m_costs->allReduce(allDevices(placed), weights).value());
        if (i + 1 == laid.placed.size())
            break;
        const double bytes =
            static_cast<double>(m_costs->layers().cutBytes(m_costs->graph(), graph.last, units).value());
        const double transfer =
            2 * m_costs->transfer(allDevices(placed), allDevices(laid.placed[i + 1]), bytes).value();
        once += transfer;
        pace = std::max(pace, transfer / 2);
    }
    return std::max(once + static_cast<double>(laid.microBatches - 1) * pace, m_cores.busiest(stages, computing))
        + exchange;
}

void Layouter::bridges(Laid &laid, std::int64_t units) const
{
    for (std::size_t i = 0; i + 1 < laid.placed.size(); ++i) {
        const auto layoutOf = [](const Placed &placed) {
            const bool split = placed.taskGraph.kind == plan::Annotation::Kind::Split;
            return Layout{placed.taskGraph.kind, split ? placed.parts : static_cast<int>(placed.replicas.size()),
                          split ? 1 : 0};
        };
        const double bytes = static_cast<double>(
            m_costs->layers().cutBytes(m_costs->graph(), laid.placed[i].taskGraph.last, units).value());
        const Bridge bridge = bridgeBetween(layoutOf(laid.placed[i]), layoutOf(laid.placed[i + 1]), bytes);
        laid.bridgeBytes += bridge.bytes;
        laid.fusedBridges += bridge.fused ? 1 : 0;
    }
}

} // namespace planloom::planners::whale

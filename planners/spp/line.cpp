// SPDX-License-Identifier: Apache-2.0
#include "planners/spp/line.h"

#include "engine/compile/stage_model.h"
#include "planners/common/bandwidth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace planloom::planners::spp {
namespace {

double pairBandwidth(const cluster::Cluster &cluster, DeviceId from, DeviceId to, bool shared)
{
    const NodeId a = cluster.device(from).node;
    const NodeId b = cluster.device(to).node;
    const double width = bandwidthBetween(cluster, from, to);
    if (a == b || !shared)
        return width;
    return width
        / static_cast<double>(cluster.nodes()[a.index()].devices.size() * cluster.nodes()[b.index()].devices.size());
}

} // namespace

Bandwidths bandwidthsOf(const cluster::Cluster &cluster, bool shared)
{
    const auto devices = cluster.devices();
    Bandwidths bandwidths{devices.size(), std::vector<double>(devices.size() * devices.size(), kInfinite)};
    for (std::size_t a = 0; a < devices.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
            const double width = pairBandwidth(cluster, devices[a].id, devices[b].id, shared);
            bandwidths.values[a * devices.size() + b] = bandwidths.values[b * devices.size() + a] = width;
        }
    }
    return bandwidths;
}

std::vector<DeviceId> orderedDevices(const cluster::Cluster &cluster)
{
    std::vector<DeviceId> line;
    if (cluster.devices().size() <= kMostOrdered) {
        for (const std::size_t place : recursiveOrder(bandwidthsOf(cluster, true)).devices)
            line.push_back(cluster.devices()[place].id);
        return line;
    }
    const auto nodes = cluster.nodes();
    std::vector<std::size_t> order(nodes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (nodes.size() <= kMostOrdered) {
        Bandwidths between{nodes.size(), std::vector<double>(nodes.size() * nodes.size(), kInfinite)};
        for (std::size_t a = 0; a < nodes.size(); ++a) {
            for (std::size_t b = 0; b < nodes.size(); ++b) {
                if (a != b)
                    between.values[a * nodes.size() + b] =
                        bandwidthBetween(cluster, nodes[a].devices.front(), nodes[b].devices.front());
            }
        }
        order = recursiveOrder(between).devices;
    }
    for (const std::size_t node : order)
        line.insert(line.end(), nodes[node].devices.begin(), nodes[node].devices.end());
    return line;
}

/// Shared by the instance's functions: they outlive the line where the instance does.
struct DeviceLine::Shared {
    const Problem *problem;
    const MemoryModel *memory;
    std::vector<DeviceId> devices;
    Communication communication;
    Recompute recompute;
    double samples; ///< of the largest micro-batch
    double least;   ///< of the smallest
    bool wholeSamples;
    std::vector<double> usable; ///< by place: bytes
    struct Sums {
        std::vector<double> forward, backward;
    };
    std::map<std::pair<std::size_t, std::size_t>, Sums>
        sums; ///< by device type and replicas: seconds of the layers before each
    std::map<std::pair<std::size_t, std::size_t>, Line> reductions;
    std::map<std::pair<std::size_t, std::pair<std::size_t, std::size_t>>, Line> channels;

    [[nodiscard]] const cost::CostModel &costs() const { return *problem->subject.costs; }

    [[nodiscard]] double slice(std::size_t replicas) const
    {
        const auto count = static_cast<double>(replicas);
        return wholeSamples ? std::ceil(samples / count) : samples / count;
    }

    const Sums &sumsOf(std::size_t type, std::size_t replicas)
    {
        auto [found, isNew] = sums.try_emplace({type, replicas});
        if (isNew) {
            for (std::size_t layer = 0; layer <= costs().layers().size(); ++layer) {
                found->second.forward.push_back(costs().forward(0, layer, slice(replicas), type).value());
                found->second.backward.push_back(costs().backward(0, layer, slice(replicas), type).value());
            }
        }
        return found->second;
    }

    /// Micro-batches that fit beside the persistent memory of a replica of the layers, on the smallest device of the
    /// window.
    [[nodiscard]] int inFlight(std::size_t first, std::size_t last, std::size_t begin, std::size_t end,
                               bool again) const
    {
        const StageFootprint footprint = memory->footprint(first, last, slice(end - begin), again);
        const double room = *std::min_element(usable.begin() + static_cast<std::ptrdiff_t>(begin),
                                              usable.begin() + static_cast<std::ptrdiff_t>(end))
            - footprint.fixed;
        if (room < footprint.perMicroBatch)
            return 0;
        constexpr double kMost = 1e9;
        return static_cast<int>(footprint.perMicroBatch > 0 ? std::min(kMost, room / footprint.perMicroBatch) : kMost);
    }

    [[nodiscard]] bool again(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) const
    {
        return recompute == Recompute::Always
            || (recompute == Recompute::Auto && inFlight(first, last, begin, end, false) == 0);
    }

    Passes passes(std::size_t first, std::size_t last, std::size_t begin, std::size_t end)
    {
        if (static_cast<double>(end - begin) > least)
            return {kInfinite, kInfinite}; // a replica would have nothing to do
        const bool twice = again(first, last, begin, end);
        if (inFlight(first, last, begin, end, twice) == 0)
            return {kInfinite, kInfinite};
        Passes slowest;
        for (std::size_t place = begin; place < end; ++place) {
            const std::size_t type = costs().cluster().device(devices[place]).type;
            if (place > begin && type == costs().cluster().device(devices[place - 1]).type)
                continue;
            const Sums &times = sumsOf(type, end - begin);
            const double forward = times.forward[last] - times.forward[first];
            slowest.forward = std::max(slowest.forward, forward);
            slowest.backward =
                std::max(slowest.backward, times.backward[last] - times.backward[first] + (twice ? forward : 0));
        }
        return slowest;
    }

    [[nodiscard]] std::vector<DeviceId> window(std::size_t begin, std::size_t end) const
    {
        std::vector<DeviceId> members(devices.begin() + static_cast<std::ptrdiff_t>(begin),
                                      devices.begin() + static_cast<std::ptrdiff_t>(end));
        std::sort(members.begin(), members.end());
        return members;
    }

    /// The line through two sizes of message.
    template <class F>
    static Line through(const F &seconds)
    {
        constexpr double kSmall = 1e6;
        constexpr double kLarge = 1e8;
        const double perByte = (seconds(kLarge) - seconds(kSmall)) / (kLarge - kSmall);
        return {std::max(0.0, seconds(kSmall) - perByte * kSmall), perByte};
    }

    Line channel(std::size_t begin, std::size_t middle, std::size_t end)
    {
        auto [found, isNew] = channels.try_emplace({begin, {middle, end}});
        if (isNew) {
            const std::vector<DeviceId> from = window(begin, middle);
            const std::vector<DeviceId> to = window(middle, end);
            found->second = through(
                [&](double bytes) { return costs().transfer(from, to, bytes * costs().transferShare()).value(); });
        }
        return found->second;
    }

    Line reduction(std::size_t begin, std::size_t end)
    {
        auto [found, isNew] = reductions.try_emplace({begin, end});
        if (isNew) {
            const std::vector<DeviceId> members = window(begin, end);
            found->second = through([&](double bytes) { return costs().allReduce(members, bytes).value(); });
        }
        return found->second;
    }
};

DeviceLine::DeviceLine(const Problem &problem, std::vector<DeviceId> devices, std::int64_t microBatches,
                       Communication communication, Recompute recompute, const MemoryModel &memory)
    : m_shared(std::make_shared<Shared>()),
      m_microBatches(microBatches)
{
    Shared &shared = *m_shared;
    shared.problem = &problem;
    shared.memory = &memory;
    shared.devices = std::move(devices);
    shared.communication = communication;
    shared.recompute = recompute;
    shared.wholeSamples = !graph::isLayerProfile(*problem.subject.graph);
    const double samples = static_cast<double>(problem.globalBatch) / static_cast<double>(microBatches);
    shared.samples = shared.wholeSamples ? std::ceil(samples) : samples;
    shared.least = std::floor(samples);
    for (const DeviceId device : shared.devices)
        shared.usable.push_back(memory.usable(device));
}

Instance DeviceLine::instance() const
{
    Shared &shared = *m_shared;
    Instance instance;
    instance.layers = shared.costs().layers().size();
    instance.devices = shared.devices.size();
    instance.microBatches = static_cast<double>(m_microBatches);
    for (std::size_t layer = 0; layer < instance.layers; ++layer)
        instance.forwardBytes.push_back(
            layer + 1 < instance.layers ? shared.memory->cutBytes(layer + 1) * shared.samples : 0);
    instance.backwardBytes = instance.forwardBytes;
    for (std::size_t layer = 0; layer <= instance.layers; ++layer)
        instance.parameterBytes.push_back(
            layer == 0 ? 0 : static_cast<double>(shared.costs().parameterBytes(0, layer).value()));
    if (shared.communication == Communication::Pairs) {
        std::vector<std::size_t> order;
        for (const DeviceId device : shared.devices)
            order.push_back(device.index());
        setPairwiseCommunication(instance, bandwidthsOf(shared.costs().cluster(), false), order);
    } else {
        instance.channel = [s = m_shared](std::size_t begin, std::size_t middle, std::size_t end) {
            return s->channel(begin, middle, end);
        };
        instance.reduction = [s = m_shared](std::size_t begin, std::size_t end) { return s->reduction(begin, end); };
    }
    instance.passes = [s = m_shared](std::size_t first, std::size_t last, std::size_t begin, std::size_t end) {
        return s->passes(first, last, begin, end);
    };
    return instance;
}

std::vector<DeviceId> DeviceLine::devicesOf(const Part &part) const { return m_shared->window(part.begin, part.end); }

bool DeviceLine::recomputes(const Part &part) const
{
    return m_shared->again(part.first, part.last, part.begin, part.end);
}

int DeviceLine::mostInFlight(const Part &part) const
{
    return m_shared->inFlight(part.first, part.last, part.begin, part.end, recomputes(part));
}

} // namespace planloom::planners::spp

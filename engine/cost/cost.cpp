// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/cost.h"

#include "engine/cost/host_operators.h"
#include "engine/cost/local_costs.h"
#include "engine/cost/prefix_sums.h"
#include "engine/graph/operators/operators.h"
#include "engine/sharding/shard.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <shared_mutex>

namespace planloom::cost {
namespace {

// Efficiency of good kernels against nominal rates. Large matrix products reach 0.8 of an H100's dense peak (cuBLAS,
// 8192^3, random data) and 0.9 of a CPU core's (oneDNN); a layer's smaller products and its softmax take it down to
// about 0.7. Copies reach 3.0 of 3.35 TB/s on an H100 and 1.7 of 2.0 on an A100.
constexpr double kComputeEfficiency = 0.7;
constexpr double kMemoryEfficiency = 0.85;

// Planners ask for a few dozen slice sizes; beyond this many the answers are not kept.
constexpr std::size_t kMostKept = 4096;

// Of operators that a GPU has no kernel for, until a profile has measured them: PCIe 4 with 16 lanes, a copy's start,
// and a host of 16 cores.
constexpr double kCopyBandwidth = 2.5e10;
constexpr double kCopyStart = 1e-5;
constexpr double kHostFlops = 5e11;
constexpr double kHostBandwidth = 1e11;

double copySeconds(const HostCopies &what)
{
    return static_cast<double>(what.copies) * kCopyStart + static_cast<double>(what.bytes) / kCopyBandwidth;
}

double asDouble(Bytes bytes) { return static_cast<double>(bytes.value()); }

OpFigures figuresOf(const graph::Graph &graph, const graph::Op &op)
{
    const graph::OpCostFigures one = graph::figures(graph, op.id, 1);
    const graph::OpCostFigures two = graph::figures(graph, op.id, 2);
    OpFigures made;
    made.forward = Affine::through(one.forward.value(), two.forward.value());
    made.backward = Affine::through(one.backward.value(), two.backward.value());
    made.forwardBytes = Affine::through(asDouble(one.forwardBytes), asDouble(two.forwardBytes));
    made.backwardBytes = Affine::through(asDouble(one.backwardBytes), asDouble(two.backwardBytes));
    made.dtype =
        op.outputs.empty() || !op.outputs[0].valid() ? "float32" : graph::name(graph.tensor(op.outputs[0]).type);
    if (made.onHost = hostComputes(graph, op); made.onHost) {
        const auto copied = [&](std::int64_t samples) { return copySeconds(hostCopies(graph, op, samples)); };
        made.copies = Affine::through(copied(1), copied(2));
    }
    if (op.has("forward_seconds"))
        made.declared = {{std::max(op.number("profile_batch", 1), 1e-9), Seconds(op.number("forward_seconds")),
                          Seconds(op.number("backward_seconds"))}};
    return made;
}

double timeOf(const OpTime &entry, bool backward) { return (backward ? entry.backward : entry.forward).value(); }

/// As interpolated() does.
double measuredTime(const std::vector<OpTime> &times, double samples, bool backward)
{
    const auto above = std::lower_bound(times.begin(), times.end(), samples,
                                        [](const OpTime &entry, double wanted) { return entry.samples < wanted; });
    if (above == times.begin() || above == times.end()) {
        const OpTime &nearest = above == times.end() ? times.back() : *above;
        return timeOf(nearest, backward) * samples / nearest.samples;
    }
    const OpTime &below = *std::prev(above);
    const double share = (samples - below.samples) / (above->samples - below.samples);
    return timeOf(below, backward) + share * (timeOf(*above, backward) - timeOf(below, backward));
}

/// A figure of Profile::extra; @p otherwise: not there.
double named(const Profile *profile, const char *name, double otherwise = 0)
{
    if (profile == nullptr || profile->extra.empty())
        return otherwise;
    const auto found = profile->extra.find(name);
    return found == profile->extra.end() ? otherwise : found->second;
}

Models modelsOf(const cluster::Cluster &cluster, const Profile *profile)
{
    const DeviceModel::Reached reached{named(profile, "product_share", 1), named(profile, "attention_share", 1),
                                       named(profile, "product_ramp")};
    Models models;
    for (const cluster::DeviceType &type : cluster.types()) {
        models.push_back(DeviceModel::of(type));
        const bool holds = profile != nullptr && type.name.starts_with(profile->deviceType);
        if (models.back() && holds)
            models.back() = models.back()->with(reached);
    }
    return models;
}

bool anyKnown(const Models &models)
{
    return std::any_of(models.begin(), models.end(), [](const auto &model) { return model.has_value(); });
}

double rooflineTime(const OpFigures &op, const cluster::DeviceType &type, double samples, bool backward)
{
    auto peak = type.peakFlops.find(op.dtype);
    if (peak == type.peakFlops.end())
        peak = type.peakFlops.find("float32");
    const double compute = (backward ? op.backward : op.forward).at(samples) / (peak->second * kComputeEfficiency);
    const double memory =
        (backward ? op.backwardBytes : op.forwardBytes).at(samples) / (type.memoryBandwidth * kMemoryEfficiency);
    return std::max(compute, memory);
}

/// Of an operator without a kernel for the GPU: the host's roofline, and the copies there and back.
double hostTime(const OpFigures &op, double samples, bool backward)
{
    const double flops = (backward ? op.backward : op.forward).at(samples);
    const double bytes = (backward ? op.backwardBytes : op.forwardBytes).at(samples);
    const double copies = backward ? bytes / kCopyBandwidth : op.copies.at(samples);
    return std::max(flops / kHostFlops, bytes / kHostBandwidth) + copies;
}

bool isNamed(const cluster::DeviceType &type, const std::string &profiled)
{
    return profiled.empty() || type.name.starts_with(profiled);
}

/// Factor of a profile's times for @p type; 0 where its device is unknown and the roofline must
/// do.
double profileScale(const Profile &profile, const cluster::Cluster &cluster, const cluster::DeviceType &type)
{
    if (isNamed(type, profile.deviceType))
        return 1;
    const cluster::DeviceType *measured = cluster::knownDeviceType(profile.deviceType);
    for (const cluster::DeviceType &other : cluster.types()) {
        if (isNamed(other, profile.deviceType))
            measured = &other;
    }
    if (!measured)
        return 0;
    return measured->peakFlops.at("float32") / type.peakFlops.at("float32");
}

ParameterBytes parametersOf(const graph::Graph &graph, const graph::LayerView &layers)
{
    ParameterBytes made;
    made.before.assign(layers.size() + 1, 0);
    for (const graph::Tensor &tensor : graph.tensors()) {
        if (tensor.role != graph::TensorRole::Parameter)
            continue;
        std::set<std::size_t> readers;
        for (const OpId op : graph.consumers(tensor.id))
            readers.insert(layers.layerOf(op));
        if (readers.size() == 1)
            made.before[*readers.begin() + 1] += tensor.bytes().value();
        if (readers.size() > 1)
            made.shared.push_back({{readers.begin(), readers.end()}, tensor.bytes().value()});
    }
    for (std::size_t i = 0; i < layers.size(); ++i)
        made.before[i + 1] += made.before[i];
    return made;
}

} // namespace

OperatorTimes::OperatorTimes(const graph::Graph &graph, const cluster::Cluster &cluster, const Profile *profile,
                             bool half)
    : m_cluster(cluster),
      m_models(modelsOf(cluster, profile))
{
    m_ops.reserve(graph.ops().size());
    const bool known = anyKnown(m_models);
    for (const graph::Op &op : graph.ops()) {
        OpFigures &figures = m_ops.emplace_back(figuresOf(graph, op));
        if (known) {
            figures.forwardWork = forwardWork(graph, op, half);
            figures.backwardWork = backwardWork(graph, op, half);
        }
        if (profile == nullptr)
            continue;
        if (const auto it = profile->ops.find(op.name); it != profile->ops.end() && !it->second.empty())
            figures.measured = &it->second;
    }
    for (const cluster::DeviceType &type : cluster.types())
        m_scale.push_back(profile != nullptr ? profileScale(*profile, cluster, type) : 0.0);
}

OperatorTimes::OperatorTimes(const CostModel &costs)
    : OperatorTimes(costs.graph(), costs.cluster(), costs.profile().get(), costs.half())
{
}

Seconds OperatorTimes::seconds(std::size_t op, double samples, std::size_t type, bool backward) const
{
    const OpFigures &figures = m_ops[op];
    const cluster::DeviceType &device = m_cluster.types()[type];
    if (figures.measured && m_scale[type] > 0)
        return Seconds(measuredTime(*figures.measured, samples, backward) * m_scale[type]);
    if (!figures.declared.empty())
        return Seconds(measuredTime(figures.declared, samples, backward));
    if (figures.onHost && !device.isProcessor())
        return Seconds(hostTime(figures, samples, backward));
    if (m_models[type])
        return m_models[type]->seconds(backward ? figures.backwardWork : figures.forwardWork, samples);
    return Seconds(rooflineTime(figures, device, samples, backward));
}

CostModel::PrefixSums::Sums CostModel::PrefixSums::make(const graph::LayerView &layers, std::size_t type,
                                                        double samples) const
{
    Sums made;
    made.forward.assign(layers.size() + 1, 0.0);
    made.backward.assign(layers.size() + 1, 0.0);
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        double forward = 0;
        double backward = 0;
        for (OpId op = layers.layers[layer].first; op < layers.layers[layer].last; ++op.value) {
            forward += operators.forward(op, samples, type).value();
            backward += operators.backward(op, samples, type).value();
        }
        made.forward[layer + 1] = made.forward[layer] + forward;
        made.backward[layer + 1] = made.backward[layer] + backward;
    }
    return made;
}

std::shared_ptr<const CostModel::PrefixSums::Sums> CostModel::PrefixSums::at(const graph::LayerView &layers,
                                                                             std::size_t type, double samples) const
{
    const Key key(type, samples);
    {
        const std::shared_lock lock(guard);
        if (const auto it = kept.find(key); it != kept.end())
            return it->second;
    }
    auto made = std::make_shared<const Sums>(make(layers, type, samples));
    const std::unique_lock lock(guard);
    if (kept.size() < kMostKept)
        kept.emplace(key, made);
    return made;
}

CostModel::CostModel(std::shared_ptr<const graph::Graph> graph, std::shared_ptr<const cluster::Cluster> cluster,
                     std::shared_ptr<const Profile> profile, bool half)
    : m_graph(std::move(graph)),
      m_cluster(std::move(cluster)),
      m_profile(std::move(profile)),
      m_half(half),
      m_layers(graph::layersOf(*m_graph))
{
    auto sums = std::make_shared<PrefixSums>(OperatorTimes(*m_graph, *m_cluster, m_profile.get(), m_half));
    sums->links.setRings(named(m_profile.get(), "ring_collectives") > 0, named(m_profile.get(), kPartialGroups));
    sums->parameters = parametersOf(*m_graph, m_layers);
    m_sums = std::move(sums);
}

Seconds CostModel::sum(std::size_t first, std::size_t last, double samples, std::size_t type, bool backward) const
{
    if (first >= last || !(samples > 0))
        return Seconds(0);
    const auto sums = m_sums->at(m_layers, type, samples);
    const std::vector<double> &before = backward ? sums->backward : sums->forward;
    return Seconds(before[last] - before[first]);
}

Seconds CostModel::forward(std::size_t first, std::size_t last, double samples, std::size_t type) const
{
    return sum(first, last, samples, type, false);
}

Seconds CostModel::backward(std::size_t first, std::size_t last, double samples, std::size_t type) const
{
    return sum(first, last, samples, type, true);
}

Bytes CostModel::parameterBytes(std::size_t first, std::size_t last) const
{
    if (first >= last)
        return Bytes(0);
    const ParameterBytes &parameters = m_sums->parameters;
    std::int64_t bytes = parameters.before[last] - parameters.before[first];
    for (const ParameterBytes::Shared &shared : parameters.shared) {
        const auto reader = std::lower_bound(shared.layers.begin(), shared.layers.end(), first);
        if (reader != shared.layers.end() && *reader < last)
            bytes += shared.bytes;
    }
    return Bytes(bytes);
}

Seconds CostModel::optimizerStep(Bytes parameters, int streams, std::size_t type) const
{
    const Seconds overhead(named(m_profile.get(), "update_overhead_seconds") * m_sums->operators.scale(type));
    if (m_profile && m_sums->operators.scale(type) > 0) {
        if (const auto it = m_profile->extra.find("optimizer_seconds_per_parameter"); it != m_profile->extra.end())
            return Seconds(it->second * asDouble(parameters) / 4 * m_sums->operators.scale(type));
    }
    // The 16 bit copy is written, too. A step is bound by memory.
    if (const auto &model = m_sums->operators.model(type))
        return overhead + model->streaming(asDouble(parameters) * (streams + (m_half ? 0.5 : 0)));
    const double traffic = asDouble(parameters) * (streams - 1); // gradients are not cleared
    return overhead + Seconds(traffic / (m_cluster->types()[type].memoryBandwidth * kMemoryEfficiency));
}

double CostModel::profileScaleOf(std::size_t type) const { return m_sums->operators.scale(type); }

double CostModel::fact(const char *name, double otherwise) const { return named(m_profile.get(), name, otherwise); }

double CostModel::gradientShare() const { return fact("gradient_share", 1); }

Seconds CostModel::taskOverhead(std::size_t type) const
{
    if (!m_profile || !(m_sums->operators.scale(type) > 0))
        return Seconds(0);
    const auto it = m_profile->extra.find("task_overhead_seconds");
    return Seconds(it != m_profile->extra.end() ? it->second * m_sums->operators.scale(type) : 0);
}

CommunicationOnCores CostModel::communicationOnCores(std::size_t type) const
{
    if (!m_profile || m_profile->deviceType != m_cluster->types()[type].name)
        return {};
    return {std::max(fact(kCoreSecondsPerByte), 0.0), std::max(fact(kCoreWeight, 1), 1.0),
            Seconds(std::max(fact(kCoreDelay), 0.0))};
}

Seconds CostModel::opTime(const graph::Graph &local, OpId op, double samples, std::size_t type) const
{
    return LocalCosts(*this, local, op.index(), op.index() + 1).seconds(op.index(), op.index() + 1, samples, type);
}

double interpolated(const std::vector<KernelTime> &times, double samples)
{
    const auto above = std::lower_bound(times.begin(), times.end(), samples,
                                        [](const KernelTime &entry, double wanted) { return entry.samples < wanted; });
    if (above == times.begin() || above == times.end()) {
        const KernelTime &nearest = above == times.end() ? times.back() : *above;
        return nearest.seconds.value() * samples / nearest.samples;
    }
    const KernelTime &below = *std::prev(above);
    const double share = (samples - below.samples) / (above->samples - below.samples);
    return below.seconds.value() + share * (above->seconds.value() - below.seconds.value());
}

// --- Operators of any graph -----------------------------------------------------------------------------------------

struct LocalCosts::Entry {
    OpFigures figures;
    const std::vector<KernelTime> *kernel = nullptr;
};

LocalCosts::LocalCosts(const CostModel &costs, const graph::Graph &local)
    : LocalCosts(costs, local, 0, local.ops().size())
{
}

LocalCosts::LocalCosts(const CostModel &costs, const graph::Graph &local, std::size_t first, std::size_t last)
    : m_costs(costs),
      m_first(first),
      m_models(modelsOf(costs.cluster(), costs.profile().get()))
{
    const Profile *profile = costs.profile().get();
    for (std::size_t i = first; i < last; ++i) {
        const graph::Op &op = local.ops()[i];
        Entry entry;
        if (profile && !profile->kernels.empty()) {
            const auto it = profile->kernels.find(signatureOf(local, op));
            entry.kernel = it != profile->kernels.end() && !it->second.empty() ? &it->second : nullptr;
        }
        m_covered += entry.kernel != nullptr ? 1 : 0;
        if (entry.kernel == nullptr && !op.traits().communicates()) {
            entry.figures = figuresOf(local, op);
            if (anyKnown(m_models))
                entry.figures.forwardWork = forwardWork(local, op);
        }
        m_entries.push_back(std::move(entry));
    }
}

LocalCosts::~LocalCosts() = default;
LocalCosts::LocalCosts(LocalCosts &&) noexcept = default;

Seconds LocalCosts::launch(std::size_t type) const
{
    return Seconds(named(m_costs.profile().get(), "kernel_launch_seconds") * m_costs.profileScaleOf(type));
}

Seconds LocalCosts::seconds(std::size_t first, std::size_t last, double samples, std::size_t type) const
{
    // Kernels are launched ahead: the slower of both sides decides.
    const Kernels kernels = kernelsOf(first, last, samples, type);
    return std::max(kernels.seconds, launch(type) * static_cast<double>(kernels.count));
}

LocalCosts::Kernels LocalCosts::kernelsOf(std::size_t first, std::size_t last, double samples, std::size_t type) const
{
    double sum = 0;
    std::size_t launches = 0;
    const double scale = m_costs.profileScaleOf(type);
    const cluster::DeviceType &device = m_costs.cluster().types()[type];
    for (std::size_t i = first; i < last && samples > 0; ++i) {
        const Entry &entry = m_entries[i - m_first];
        const bool measured = entry.kernel != nullptr && scale > 0;
        if (measured)
            sum += interpolated(*entry.kernel, samples) * scale;
        else if (entry.figures.onHost && !device.isProcessor())
            sum += hostTime(entry.figures, samples, false);
        else
            sum += m_models[type] ? m_models[type]->seconds(entry.figures.forwardWork, samples).value()
                                  : rooflineTime(entry.figures, device, samples, false);
        launches += measured ? 1 : entry.figures.forwardWork.size();
    }
    return {Seconds(sum), launches};
}

} // namespace planloom::cost

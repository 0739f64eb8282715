// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/score.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace planloom::planners::automatic {

using plan::ScheduleKind;
namespace {

constexpr double kInstant = 1e-15; ///< seconds; layers may cost nothing

} // namespace

Scorer::Scorer(const Problem &problem, StageCosts &costs, const std::vector<DeviceLine> &lines)
    : m_problem(problem),
      m_costs(costs),
      m_lines(lines),
      m_halfDuplex(!problem.subject.cluster->fullDuplex()),
      m_cores(*problem.subject.cluster)
{
    const cluster::Cluster &cluster = *problem.subject.cluster;
    m_usable.assign(cluster.types().size(), 0);
    for (const cluster::Device &device : cluster.devices())
        m_usable[device.type] = costs.memory().usable(device.id);
    for (const DeviceLine &line : lines) {
        m_links.emplace_back(*problem.subject.costs, line);
        std::vector<std::vector<std::uint32_t>> counts(cluster.types().size(), std::vector<std::uint32_t>(1, 0));
        for (const DeviceId device : line.devices)
            for (std::size_t type = 0; type < counts.size(); ++type)
                counts[type].push_back(counts[type].back() + (cluster.device(device).type == type ? 1U : 0U));
        m_counts.push_back(std::move(counts));
    }
    sumMessages();
}

/// Gradients are exchanged in buckets of plan::Plan::kBucketBytes, of a part of them all where there are very many
/// (compile/buckets.cpp), and of a parameter where that is larger; with ZeRO in one for a stage, or a layer.
void Scorer::sumMessages()
{
    constexpr double kMostBuckets = 32;
    constexpr double kAlignment = 128; // bytes that a parameter may be longer in its bucket
    const graph::Graph &graph = *m_problem.subject.graph;
    const graph::LayerView &layers = m_problem.subject.layers();
    const cost::CostModel &costs = *m_problem.subject.costs;
    std::vector<double> alone;
    for (std::size_t layer = 0; layer < layers.size(); ++layer)
        alone.push_back(static_cast<double>(costs.parameterBytes(layer, layer + 1).value()));
    const std::vector<double> whole = alone;
    double padding = 0;
    for (const graph::Tensor &tensor : graph.tensors()) {
        if (tensor.role != graph::TensorRole::Parameter)
            continue;
        padding += kAlignment;
        std::set<std::size_t> readers;
        for (const OpId op : graph.consumers(tensor.id))
            readers.insert(layers.layerOf(op));
        for (const std::size_t reader : readers)
            alone[reader] -= readers.size() > 1 ? static_cast<double>(tensor.bytes().value()) : 0;
    }
    m_largest = static_cast<double>(costs.parameterBytes(0, layers.size()).value()) + padding;
    const double bucket = std::max(static_cast<double>(plan::Plan::kBucketBytes), m_largest / kMostBuckets) + padding;
    std::map<std::size_t, Messages> bySize;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        const double largest = std::max(bucket, whole[layer] + padding);
        m_largestLayer = std::max(m_largestLayer, whole[layer] + padding);
        Messages &messages = bySize[Links::sizeClass(largest)];
        messages.largest = std::max(messages.largest, largest);
        messages.before.assign(layers.size() + 1, 0);
    }
    for (auto &[size, messages] : bySize) {
        for (std::size_t layer = 0; layer < layers.size(); ++layer) {
            const double largest = std::max(bucket, whole[layer] + padding);
            const bool is = Links::sizeClass(largest) == size;
            messages.before[layer + 1] = messages.before[layer] + (is ? alone[layer] : 0);
        }
        m_messages.push_back(std::move(messages));
    }
}

/// Seconds that all-reduces of the gradients of @p part take at least, which are @p bytes in all.
double Scorer::leastReduce(const Part &part, double bytes, Links::Exchange &exchange) const
{
    double seconds = 0;
    double sum = 0;
    for (const Messages &messages : m_messages) {
        const double own = messages.before[part.last] - messages.before[part.first];
        seconds += own > 0 ? own * exchange.reduce(messages.largest) : 0;
        sum += own;
    }
    return seconds + std::max(0.0, bytes - sum) * exchange.reduce(m_largest); // parameters that several layers read
}

std::size_t Scorer::countOf(std::size_t line, std::size_t type, std::size_t begin, std::size_t end) const
{
    return m_counts[line][type][end] - m_counts[line][type][begin];
}

std::int64_t Scorer::inFlight(const Shape &shape, std::size_t stagesFromHere)
{
    const auto behind = static_cast<std::int64_t>(stagesFromHere);
    switch (shape.schedule) {
    case ScheduleKind::GPipe: return shape.microBatches;
    case ScheduleKind::DappleB: return std::min(shape.microBatches, 2 * behind - 1);
    default: return std::min(shape.microBatches, behind);
    }
}

bool Scorer::passes(const Shape &shape, const Part &part, StageTimes &times)
{
    const auto replicas = static_cast<double>(part.devices() / static_cast<std::size_t>(shape.degree.tensor));
    const std::size_t type = m_problem.subject.cluster->device(m_lines[shape.line].devices[part.begin]).type;
    const double batch = microBatch(shape);
    const bool exact = m_costs.proportional();
    const double large = exact ? batch / replicas : std::ceil(std::ceil(batch) / replicas);
    const double small = exact ? large : std::ceil(std::floor(batch) / replicas);
    if (std::floor(batch) < replicas)
        return false;
    const auto rest = m_costs.times(type, shape.degree, small);
    if (!rest)
        return false;
    const double larger = exact ? 0 : static_cast<double>(m_problem.globalBatch % shape.microBatches);
    const double smaller = static_cast<double>(shape.microBatches) - larger;
    const bool again = part.recompute == m_costs.recomputed();
    const PassSeconds one = (*rest)->plain.of(part.first, part.last);
    // Layers that recompute run forward twice; a stage that recomputes the core of attention has times of its own.
    const auto pass = [&](const LayerTimes &t, const PassSeconds &plain) {
        if (part.recompute != plan::Recompute::Selective || !t.selective)
            return plain.forward * (again ? 2 : 1) + plain.backward;
        const PassSeconds selective = t.selective->of(part.first, part.last);
        return selective.forward + selective.backward;
    };
    times.forward = one.forward;
    times.backward = one.backward;
    times.work = smaller * pass(**rest, one);
    const LayerTimes::Least least = (*rest)->least(part.first, part.last);
    times.leastForward = least.forward;
    times.leastBackward = least.backward;
    // Recomputation is less than a forward pass: operators whose results backward does not read are left out.
    times.leastWork = smaller * (least.both + (again && exact ? one.busyForward : 0));
    const auto busy = [&](const LayerTimes &t, const PassSeconds &plain) {
        return t.least(part.first, part.last).both + (again && exact ? plain.busyForward : 0);
    };
    if (larger > 0) {
        const auto whole = m_costs.times(type, shape.degree, large);
        if (!whole)
            return false;
        const PassSeconds plain = (*whole)->plain.of(part.first, part.last);
        times.work += larger * pass(**whole, plain);
        times.leastWork += larger * busy(**whole, plain);
    }
    if (!m_cores.any())
        return true;
    const auto fewest = m_costs.times(type, shape.degree, exact ? small : std::floor(std::floor(batch) / replicas));
    if (fewest)
        times.leastEach =
            static_cast<double>(shape.microBatches) * busy(**fewest, (*fewest)->plain.of(part.first, part.last));
    return true;
}

std::vector<double> Scorer::shares(const Shape &shape, const Part &part)
{
    const cluster::Cluster &cluster = *m_problem.subject.cluster;
    const std::vector<DeviceId> &devices = m_lines[shape.line].devices;
    const double even = microBatch(shape) / static_cast<double>(part.devices());
    std::vector<double> speeds;
    double sum = 0;
    for (std::size_t d = part.begin; d < part.end; ++d) {
        const auto times = m_costs.times(cluster.device(devices[d]).type, shape.degree,
                                         m_costs.proportional() ? even : std::ceil(even));
        const PassSeconds passes = times ? (*times)->plain.of(part.first, part.last) : PassSeconds{};
        const double seconds = passes.forward + passes.backward;
        speeds.push_back(seconds > 0 ? 1 / seconds : 1);
        sum += speeds.back();
    }
    for (double &speed : speeds)
        speed /= sum;
    return speeds;
}

/// Replicas of several types share a micro-batch in proportion to their speed (Whale §5), so that all take equally
/// long.
bool Scorer::mixedPasses(const Shape &shape, const Part &part, StageTimes &times)
{
    if (shape.degree.tensor > 1)
        return false;
    const double batch = microBatch(shape);
    const double even = batch / static_cast<double>(part.devices());
    if (std::floor(batch) < static_cast<double>(part.devices()))
        return false;
    double forwards = 0; // micro-batches a second
    double backwards = 0;
    double passes = 0;
    double leastForwards = 0;
    double leastBackwards = 0;
    double leastPasses = 0;
    for (std::size_t type = 0; type < m_counts[shape.line].size(); ++type) {
        const std::size_t count = countOf(shape.line, type, part.begin, part.end);
        if (count == 0)
            continue;
        const double slice = m_costs.proportional() ? even : std::ceil(even);
        const auto found = m_costs.times(type, shape.degree, slice);
        if (!found)
            return false;
        const auto [forward, backward, busyForward, busyBackward] = (*found)->plain.of(part.first, part.last);
        const double share = static_cast<double>(count) * slice / batch;
        forwards += share / std::max(forward, kInstant);
        backwards += share / std::max(backward, kInstant);
        const double again = part.recompute == m_costs.recomputed() ? forward : 0;
        passes += share / std::max(forward + again + backward, kInstant);
        const LayerTimes::Least least = (*found)->least(part.first, part.last);
        leastForwards += share / std::max(least.forward, kInstant);
        leastBackwards += share / std::max(least.backward, kInstant);
        leastPasses += share / std::max(least.both + (m_costs.proportional() ? again : 0), kInstant);
    }
    times.forward = 1 / forwards;
    times.backward = 1 / backwards;
    times.work = static_cast<double>(shape.microBatches) / passes;
    times.leastForward = 1 / leastForwards;
    times.leastBackward = 1 / leastBackwards;
    times.leastWork = static_cast<double>(shape.microBatches) / leastPasses;
    return true;
}

void Scorer::updates(const Shape &shape, const Part &part, StageTimes &times)
{
    const cost::CostModel &costs = *m_problem.subject.costs;
    const std::size_t type = m_problem.subject.cluster->device(m_lines[shape.line].devices[part.begin]).type;
    const double bytes = static_cast<double>(costs.parameterBytes(part.first, part.last).value()) / shape.degree.tensor;
    const double replicas = static_cast<double>(part.devices()) / shape.degree.tensor;
    const std::size_t unit = m_lines[shape.line].unit;
    times.allReduce = m_links[shape.line].allReduce(part.begin / unit, part.end / unit, shape.degree.tensor, bytes);
    Links::Exchange &least =
        m_links[shape.line].exchangeAtLeast(part.begin / unit, part.end / unit, shape.degree.tensor);
    const double gradients = bytes * costs.gradientShare();
    const double parameters = costs.half() ? 0.5 * bytes : bytes; // those that operators read are gathered
    times.leastScatter = least.scatter(m_largestLayer) * gradients;
    times.leastGather = least.gather(m_largestLayer) * parameters;
    times.leastAtOnce = least.scatter(m_largest) * gradients + least.gather(m_largest) * parameters;
    times.leastReduce =
        leastReduce(part, bytes * shape.degree.tensor, least) / shape.degree.tensor * costs.gradientShare();
    if (shape.zero
        >= 2) // reduced once a micro-batch instead of once a step; level 3 gathers parameters in both passes, too
        times.allReduce *=
            (shape.zero == 3 ? 1.5 : 0.5) * static_cast<double>(shape.microBatches) + (shape.zero == 2 ? 0.5 : 0);
    times.optimizer = costs
                          .optimizerStep(Bytes(static_cast<std::int64_t>(shape.zero > 0 ? bytes / replicas : bytes)),
                                         m_problem.optimizer.rule.footprint().streams, type)
                          .value();
}

std::optional<StageTimes> Scorer::stage(const Shape &shape, const Part &part)
{
    const auto tensor = static_cast<std::size_t>(shape.degree.tensor);
    if (part.devices() == 0 || part.devices() % tensor != 0)
        return std::nullopt;
    StageTimes times;
    const std::size_t type = m_problem.subject.cluster->device(m_lines[shape.line].devices[part.begin]).type;
    const bool alike = countOf(shape.line, type, part.begin, part.end) == part.devices();
    if (!(alike ? passes(shape, part, times) : mixedPasses(shape, part, times)))
        return std::nullopt;
    if (m_cores.any()) {
        const double together = crowd(shape, part);
        times.forward *= together;
        times.backward *= together;
        times.work *= together;
    }
    updates(shape, part, times);
    return times;
}

double Scorer::transfer(const Shape &shape, const Part &before, const Part &after)
{
    const std::size_t unit = m_lines[shape.line].unit;
    return m_links[shape.line].transfer(before.begin / unit, before.end / unit, after.end / unit,
                                        m_costs.memory().cutBytes(after.first) * microBatch(shape));
}

CutTimes Scorer::leastTransfer(const Shape &shape, double bytes, std::size_t a, std::size_t b, std::size_t c)
{
    const Links::Crossing &rates = m_links[shape.line].crossingAtLeast(a, b, c);
    const double batch = microBatch(shape);
    const double smallest = bytes * (m_costs.proportional() ? batch : std::floor(batch));
    const double all = bytes * static_cast<double>(m_problem.globalBatch);
    return {rates.there * smallest, rates.back * smallest,
            all * (m_halfDuplex ? rates.there + rates.back : std::max(rates.there, rates.back))};
}

Scorer::Memory Scorer::memory(const Shape &shape, const Part &part) const
{
    const StageCosts::RunBytes &bytes = m_costs.bytes(part.first, part.last, part.recompute);
    const double tensor = shape.degree.tensor;
    const double replicas = static_cast<double>(part.devices()) / tensor;
    const double slice =
        m_costs.proportional() ? microBatch(shape) / replicas : std::ceil(microBatch(shape) / replicas);
    const double copies = 2.0 + m_problem.optimizer.rule.footprint().states;
    // Of parameters + gradients + moments, what level z leaves whole: all, but for moments (1), gradients (2),
    // parameters (3).
    const double whole = shape.zero == 0 ? copies : shape.zero == 1 ? 2 : shape.zero == 2 ? 1 : 0;
    const double kept = bytes.persistent / tensor * (whole / copies + (1 - whole / copies) / replicas);
    // Activations between the blocks are whole on every device unless they are split along the tokens (Korthikanti et
    // al., 2022, table 2).
    const double split = tensor == 1 || shape.degree.sequence ? 1 / tensor : (10.0 + 24.0 / tensor) / 34.0;
    double room = kNever;
    for (std::size_t type = 0; type < m_counts[shape.line].size(); ++type)
        if (countOf(shape.line, type, part.begin, part.end) > 0)
            room = std::min(room, m_usable[type]);
    return {(kept + (bytes.once + bytes.perSample * slice) * split) / room, bytes.keptPerSample * slice * split / room};
}

Score scoreOf(const Shape &shape, std::span<const StageTimes> stages, std::span<const double> links,
              std::span<const CutTimes> cuts, bool halfDuplex)
{
    const auto count = static_cast<double>(shape.microBatches);
    const std::size_t last = stages.size() - 1;
    double ends = 0; // from a stage's first forward to its last backward
    double trip = 0; // one micro-batch's way to the last stage and back
    for (std::size_t s = stages.size(); s-- > 0;) {
        const StageTimes &stage = stages[s];
        const double link = s < last ? links[s] : 0;
        trip += stage.forward + stage.backward + 2 * link;
        const double serial = s < last ? stage.forward + stage.backward + 2 * link + ends : 0;
        const double line = s < last ? stage.forward + stage.backward + count * link * (halfDuplex ? 2 : 1) : 0;
        const double window = trip * count / static_cast<double>(Scorer::inFlight(shape, stages.size() - s));
        ends = std::max({stage.work, serial, line, shape.schedule == ScheduleKind::GPipe ? 0 : window});
    }
    Score score;
    score.seconds = 0;
    double drain = 0; // time of the stages before after this one is done
    double fill = 0;  // their time before it begins
    double onlyPasses = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
        const StageTimes &stage = stages[s];
        score.seconds = std::max(score.seconds, ends - drain + stage.allReduce + stage.optimizer);
        const bool sharded = shape.zero == 3;
        score.bound = std::max({score.bound, fill + stage.leastWork + onlyPasses,
                                fill + (sharded ? stage.leastSharded(count) : stage.leastExchanged(shape.zero)),
                                sharded ? count * (stage.leastGather + stage.leastScatter) : 0});
        if (s == last)
            break;
        score.bound =
            std::max(score.bound, fill + stage.leastForward + cuts[s].lane + stage.leastBackward + onlyPasses);
        drain += stage.backward + links[s];
        fill += stage.leastForward + cuts[s].there;
        onlyPasses += stage.leastBackward + cuts[s].back;
    }
    return score;
}

Score Scorer::score(const Sketch &sketch)
{
    auto &[times, links, cuts] = m_room;
    times.clear();
    links.clear();
    cuts.clear();
    const std::size_t unit = m_lines[sketch.shape.line].unit;
    double fullest = 0;
    for (std::size_t s = 0; s < sketch.parts.size(); ++s) {
        const auto stage = this->stage(sketch.shape, sketch.parts[s]);
        if (!stage)
            return {};
        times.push_back(*stage);
        const Memory memory = this->memory(sketch.shape, sketch.parts[s]);
        fullest =
            std::max(fullest,
                     memory.fixed
                         + memory.perMicroBatch * static_cast<double>(inFlight(sketch.shape, sketch.parts.size() - s)));
        if (s == 0)
            continue;
        const Part &before = sketch.parts[s - 1];
        const Part &behind = sketch.parts[s];
        links.push_back(transfer(sketch.shape, before, behind));
        cuts.push_back(leastTransfer(sketch.shape, m_costs.memory().cutBytes(behind.first), before.begin / unit,
                                     before.end / unit, behind.end / unit));
    }
    Score score = scoreOf(sketch.shape, times, links, cuts, m_halfDuplex);
    score.fullest = fullest;
    if (m_cores.any())
        shareCores(sketch, times, score);
    return score;
}

/// Devices of a part that compute on one core if the plan has no others.
double Scorer::crowd(const Shape &shape, const Part &part) const
{
    const std::span<const DeviceId> line = m_lines[shape.line].devices;
    return m_cores.crowds({line.subspan(part.begin, part.devices())}).front();
}

/// What computes on a core takes at least the sum of its work.
void Scorer::shareCores(const Sketch &sketch, const std::vector<StageTimes> &times, Score &score) const
{
    const std::span<const DeviceId> line = m_lines[sketch.shape.line].devices;
    SharedCores::Stages stages;
    std::vector<double> work;
    std::vector<double> least;
    double exposed = kNever; // an exchange follows the last pass of some stage
    for (std::size_t s = 0; s < times.size(); ++s) {
        stages.push_back(line.subspan(sketch.parts[s].begin, sketch.parts[s].devices()));
        work.push_back(times[s].work / crowd(sketch.shape, sketch.parts[s]) + times[s].optimizer);
        least.push_back(times[s].leastEach);
        exposed = std::min(exposed, times[s].allReduce);
    }
    score.seconds = std::max(score.seconds, m_cores.busiest(stages, work) + exposed);
    score.bound = std::max(score.bound, m_cores.busiest(stages, least));
}

} // namespace planloom::planners::automatic

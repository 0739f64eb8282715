// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/layout.h"

#include "engine/compile/alias.h"
#include "engine/compile/parts.h"
#include "engine/compile/pooled.h"
#include "engine/compile/gradient_accumulation.h"
#include "engine/graph/layer_profile.h"
#include "engine/sharding/shard.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace planloom::compile {
namespace {

using graph::Tensor;
using graph::TensorRole;
using graph::TrainingGraph;

std::vector<bool> marked(const TrainingGraph &training, const std::vector<TensorId> &ids)
{
    std::vector<bool> flags(training.graph.tensors().size(), false);
    for (const TensorId id : ids)
        if (id.valid())
            flags[id.index()] = true;
    return flags;
}

std::size_t at(Area area) { return static_cast<std::size_t>(area); }

/// Decides for each tensor and pass which area it belongs to, then gives out offsets.
class StagePlacer {
public:
    StagePlacer(const TrainingGraph &training, std::int64_t samples, bool recompute, bool pooled)
        : m_training(training),
          m_samples(samples),
          m_recompute(recompute),
          m_aliases(training, samples),
          m_incoming(marked(training, training.inputs)),
          m_outgoing(marked(training, training.outputs)),
          m_gradientIn(marked(training, training.outputGradients)),
          m_gradientOut(marked(training, training.inputGradients)),
          m_stashed(marked(training, training.stash)),
          m_unplaced(accumulatedGradients(training).unplaced),
          m_pooled(pooled ? pooledRoots(training, m_aliases) : std::vector<bool>())
    {
        m_layout.forwardPlaces.resize(training.graph.tensors().size());
        m_layout.backwardPlaces.resize(training.graph.tensors().size());
        // What is kept for backward keeps the memory that it lies in.
        for (const TensorId id : training.stash)
            m_stashed[m_aliases.home(id).root.index()] = true;
    }

    StageLayout place()
    {
        for (const Tensor &tensor : m_training.graph.tensors())
            if (hasPlace(tensor.id))
                placeFixed(tensor);
        shareWorkspace(m_layout.forwardPlaces, 0, forwardSteps());
        shareWorkspace(m_layout.backwardPlaces, m_recompute ? 0 : forwardSteps(), allSteps());
        for (const Tensor &tensor : m_training.graph.tensors())
            placeAlias(tensor.id);
        return std::move(m_layout);
    }

private:
    /// True for the tensors that memory is given to: others lie within those, or go directly into an accumulator.
    [[nodiscard]] bool hasPlace(TensorId id) const
    {
        if (m_aliases.home(id).root != id)
            return false;
        const auto &members = m_aliases.members(id);
        return !std::all_of(members.begin(), members.end(),
                            [&](TensorId member) { return m_unplaced[member.index()]; });
    }
    [[nodiscard]] std::int32_t forwardSteps() const { return static_cast<std::int32_t>(m_training.forwardOps); }
    [[nodiscard]] std::int32_t allSteps() const { return static_cast<std::int32_t>(m_training.graph.ops().size()); }
    [[nodiscard]] bool madeForward(const Tensor &tensor) const { return tensor.producer.value < forwardSteps(); }

    [[nodiscard]] Area areaOf(const Tensor &tensor, bool forwardPass) const
    {
        const std::size_t t = tensor.id.index();
        if (!m_pooled.empty() && m_pooled[t])
            return Area::Pool;
        const bool weights = keptForWeights(tensor.id);
        if (tensor.role == TensorRole::Input)
            return m_incoming[t]  ? Area::Inbox
                : m_gradientIn[t] ? Area::GradientInbox
                : weights         ? Area::WeightStash
                                  : Area::Frame;
        if (tensor.role != TensorRole::Activation)
            return Area::Persistent;
        if (!madeForward(tensor))
            return m_gradientOut[t] ? Area::GradientOutbox : weights ? Area::WeightFrame : Area::Workspace;
        if (m_stashed[t] && !m_recompute)
            return weights ? Area::WeightStash : Area::Frame;
        if (m_outgoing[t] && forwardPass)
            return Area::Outbox;
        return weights && !forwardPass ? Area::WeightFrame : Area::Workspace;
    }

    /// True if something in the memory of @p root that is there before the pass for gradients of weights is needed in
    /// it.
    [[nodiscard]] bool keptForWeights(TensorId root) const
    {
        if (m_training.weightOps == 0)
            return false;
        const auto begin = static_cast<std::int32_t>(m_training.weightsBegin());
        bool before = false;
        bool within = false;
        for (const TensorId id : m_aliases.members(root)) {
            const auto readers = m_training.graph.consumers(id);
            const bool made = m_training.graph.tensor(id).producer.value >= begin;
            before = before || !made;
            within = within || made || (!readers.empty() && readers.back().value >= begin);
        }
        return before && within;
    }

    /// Tensors that have a place of their own: all but the workspace and what is persistent.
    void placeFixed(const Tensor &tensor)
    {
        Placement &forward = m_layout.forwardPlaces[tensor.id.index()];
        Placement &backward = m_layout.backwardPlaces[tensor.id.index()];
        forward.area = areaOf(tensor, true);
        backward.area = areaOf(tensor, false);
        if (forward.area == Area::Pool) {
            forward.offset = backward.offset = 0;
            return;
        }
        if (forward.area != Area::Workspace && forward.area != Area::Persistent)
            forward.offset = append(forward.area, tensor);
        if (backward.area == forward.area)
            backward.offset = forward.offset;
        else if (backward.area != Area::Workspace && backward.area != Area::Persistent)
            backward.offset = append(backward.area, tensor);
    }

    std::int64_t append(Area area, const Tensor &tensor)
    {
        std::int64_t &end = m_layout.slotBytes[at(area)];
        const std::int64_t offset = end;
        end += aligned(tensor.bytes(m_samples).value());
        return offset;
    }

    void placeAlias(TensorId id)
    {
        const Aliases::Home home = m_aliases.home(id);
        if (home.root == id)
            return;
        for (auto *places : {&m_layout.forwardPlaces, &m_layout.backwardPlaces}) {
            const Placement &root = (*places)[home.root.index()];
            // Persistent places are given out later; they carry the distance from there.
            (*places)[id.index()] = {root.area,
                                     root.area == Area::Persistent ? -1
                                         : root.offset < 0         ? -1
                                                                   : root.offset + home.offset};
        }
        if (m_layout.forwardPlaces[id.index()].area == Area::Persistent)
            m_layout.views.push_back({id, home.root, home.offset});
    }

    [[nodiscard]] bool communicates(std::int32_t op) const
    {
        return m_training.graph.ops()[static_cast<std::size_t>(op)].traits().communicates();
    }

    /// Steps during which the memory of @p root is needed in a pass over operators [begin, end).
    [[nodiscard]] Interval lifetime(const Tensor &root, std::int32_t begin, std::int32_t end) const
    {
        Interval life{aligned(root.bytes(m_samples).value()), end, begin, 0};
        for (const TensorId id : m_aliases.members(root.id)) {
            const Tensor &tensor = m_training.graph.tensor(id);
            life.first = std::min(life.first, std::max(begin, tensor.producer.value));
            life.last = std::max(life.last, tensor.producer.value);
            for (const OpId reader : m_training.graph.consumers(id)) {
                if (reader.value < begin || reader.value >= end)
                    continue;
                // A message is under way until its result is read for the first time.
                const std::int32_t done =
                    communicates(reader.value) ? waitOf(m_training, reader.value, end) - 1 : reader.value;
                life.last = std::max({life.last, reader.value, done});
            }
            // What boxing makes is written until it is waited for, read or not.
            if (tensor.producer.value >= begin && tensor.producer.value < end && communicates(tensor.producer.value))
                life.last = std::max(life.last, waitOf(m_training, tensor.producer.value, end) - 1);
        }
        if (root.id == m_training.loss && madeForward(root))
            life.last = std::max(life.last, forwardSteps() - 1); // read after the pass
        return life;
    }

    /// True if anything that lives in the memory of @p root is made in the pass over operators [begin, end).
    [[nodiscard]] bool madeWithin(TensorId root, std::int32_t begin, std::int32_t end) const
    {
        const auto &members = m_aliases.members(root);
        return std::any_of(members.begin(), members.end(), [&](TensorId id) {
            const OpId producer = m_training.graph.tensor(id).producer;
            return producer.valid() && producer.value >= begin && producer.value < end;
        });
    }

    void shareWorkspace(std::vector<Placement> &places, std::int32_t begin, std::int32_t end)
    {
        std::vector<Interval> blocks;
        std::vector<std::size_t> owners;
        for (const Tensor &tensor : m_training.graph.tensors()) {
            if (!hasPlace(tensor.id) || places[tensor.id.index()].area != Area::Workspace
                || !madeWithin(tensor.id, begin, end))
                continue;
            blocks.push_back(lifetime(tensor, begin, end));
            owners.push_back(tensor.id.index());
        }
        std::int64_t &size = m_layout.slotBytes[at(Area::Workspace)];
        size = std::max(size, packIntervals(blocks));
        for (std::size_t i = 0; i < blocks.size(); ++i)
            places[owners[i]].offset = blocks[i].offset;
    }

    const TrainingGraph &m_training;
    std::int64_t m_samples;
    bool m_recompute;
    Aliases m_aliases;
    std::vector<bool> m_incoming, m_outgoing, m_gradientIn, m_gradientOut, m_stashed, m_unplaced;
    std::vector<bool> m_pooled; ///< empty: none
    StageLayout m_layout;
};

/// Bytes of @p tensor for a fractional number of samples.
double fractionalBytes(const Tensor &tensor, double samples)
{
    const auto one = static_cast<double>(tensor.bytes(1).value());
    return tensor.shape.batched() ? one * samples : one;
}

std::int64_t wholeBytes(double bytes) { return aligned(static_cast<std::int64_t>(std::ceil(bytes))); }

double cutBytes(const graph::Graph &graph, const graph::LayerView &layers, std::size_t cut, double samples)
{
    double bytes = 0;
    if (cut > 0 && cut < layers.size())
        for (const TensorId id : layers.cuts[cut])
            bytes += fractionalBytes(graph.tensor(id), samples);
    return bytes;
}

} // namespace

StageLayout layoutStage(const graph::TrainingGraph &training, std::int64_t samples, bool recompute, bool pooled)
{
    return StagePlacer(training, samples, recompute, pooled).place();
}

std::int64_t packIntervals(std::vector<Interval> &blocks)
{
    std::vector<std::size_t> bySize(blocks.size());
    std::iota(bySize.begin(), bySize.end(), 0);
    std::stable_sort(bySize.begin(), bySize.end(),
                     [&](std::size_t a, std::size_t b) { return blocks[a].bytes > blocks[b].bytes; });
    std::int64_t end = 0;
    std::vector<std::pair<std::int64_t, std::int64_t>>
        taken; // [begin, end) of placed blocks alive together with the current one
    for (std::size_t i = 0; i < bySize.size(); ++i) {
        Interval &block = blocks[bySize[i]];
        taken.clear();
        for (std::size_t j = 0; j < i; ++j) {
            const Interval &other = blocks[bySize[j]];
            if (other.first <= block.last && block.first <= other.last)
                taken.emplace_back(other.offset, other.offset + other.bytes);
        }
        std::sort(taken.begin(), taken.end());
        block.offset = 0;
        for (const auto &[from, to] : taken) {
            if (from - block.offset >= block.bytes)
                break;
            block.offset = std::max(block.offset, to);
        }
        end = std::max(end, block.offset + block.bytes);
    }
    return end;
}

std::array<std::int64_t, kAreas> estimateSlots(const graph::Graph &graph, const graph::LayerView &layers,
                                               std::size_t firstLayer, std::size_t lastLayer, double samples,
                                               bool recompute, bool splits)
{
    double kept = 0;
    double largest = 0;
    for (OpId op = layers.layers[firstLayer].first; op < layers.layers[lastLayer - 1].last; op = OpId(op.value + 1)) {
        double made = 0;
        for (const TensorId id : graph.op(op).outputs)
            if (id.valid())
                made += fractionalBytes(graph.tensor(id), samples);
        kept += graph::worksInPlace(graph.op(op)) ? 0 : made;
        largest = std::max(largest, made);
    }
    const std::int64_t in = wholeBytes(cutBytes(graph, layers, firstLayer, samples));
    const std::int64_t out = wholeBytes(cutBytes(graph, layers, lastLayer, samples));
    std::array<std::int64_t, kAreas> bytes{};
    bytes[at(Area::Inbox)] = in;
    bytes[at(Area::GradientOutbox)] = in;
    bytes[at(Area::GradientInbox)] = out;
    bytes[at(Area::Frame)] = recompute ? 0 : wholeBytes(kept);
    bytes[at(Area::Outbox)] = recompute ? out : 0;
    bytes[at(Area::Workspace)] = wholeBytes(2 * largest) + (recompute ? wholeBytes(kept) : 0);
    if (splits) {
        const std::int64_t half = wholeBytes(kept / 2);
        bytes[at(Area::WeightStash)] = recompute ? 0 : half;
        bytes[at(Area::Frame)] = recompute ? 0 : half;
        bytes[at(Area::WeightFrame)] = recompute ? 2 * half : half;
    }
    return bytes;
}

} // namespace planloom::compile

// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/zero.h"

#include "engine/compile/buckets.h"
#include "engine/graph/rewrite/rewrite.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace planloom::compile {
namespace {

using graph::Attributes;
using graph::Op;

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

/// A bucket of this stage that is cut.
struct Cut {
    const Bucket *bucket = nullptr;
    std::size_t ordinal = 0;
    std::size_t layer = 0;            ///< of its first parameter
    std::vector<std::size_t> members; ///< indices into TrainingGraph::parameters, by entry
    std::vector<std::int64_t> over;   ///< mesh dimensions
    std::int64_t parts = 1;
    std::size_t firstUse[2] = {kNever, kNever}; ///< operator that reads a parameter first: forward, backward
    std::size_t lastGradient = kNever;          ///< operator that makes the last gradient
    [[nodiscard]] std::int64_t shard() const { return bucket->elements / parts; }
    [[nodiscard]] std::string name() const { return "zero/" + bucket->entries.front().parameter; }
};

class Cutter {
public:
    Cutter(const graph::TrainingGraph &training, const StageTensors &tensors, RankId rank, const Buckets &buckets,
           const FoldedTeams &teams)
        : m_training(training),
          m_rewriter(training)
    {
        std::unordered_map<std::string, std::size_t> index;
        for (std::size_t p = 0; p < training.parameters.size(); ++p)
            index.emplace(tensors.parameters[p].name, p);
        const std::vector<BucketId> &mine = buckets.ofRank[rank.index()];
        for (std::size_t b = 0; b < mine.size(); ++b) {
            const Bucket &bucket = buckets.at(mine[b]);
            if (bucket.zero < 2
                || !index.contains(bucket.entries.front().parameter)) // else of another stage on the same rank
                continue;
            Cut cut;
            cut.bucket = &bucket;
            cut.ordinal = b;
            cut.parts = static_cast<std::int64_t>(teams.team(bucket.team).size());
            for (const Bucket::Entry &entry : bucket.entries)
                cut.members.push_back(index.at(entry.parameter));
            for (const int dimension : tensors.parameters[cut.members.front()].reduceOver)
                cut.over.push_back(dimension);
            cut.layer = tensors.parameters[cut.members.front()].layer;
            findUses(cut);
            m_cuts.push_back(std::move(cut));
        }
    }

    Result<CutTraining> cut()
    {
        if (m_cuts.empty())
            return CutTraining{m_training, {}, {}};
        declareShards();
        const auto &ops = m_training.graph.ops();
        for (std::size_t i = 0; i < ops.size(); ++i) {
            if (i == m_training.forwardOps)
                beginBackward();
            gatherFor(i, i >= m_training.forwardOps ? 1 : 0);
            m_rewriter.copy(ops[i]);
            exchangeAfter(i);
        }
        if (ops.size() == m_training.forwardOps)
            beginBackward();
        for (auto &[pending, like] : m_pending)
            settle(pending, *like);
        return finish();
    }

private:
    void findUses(Cut &cut) const
    {
        for (const std::size_t p : cut.members) {
            for (const OpId reader : m_training.graph.consumers(m_training.parameters[p])) {
                std::size_t &first = cut.firstUse[reader.index() >= m_training.forwardOps ? 1 : 0];
                first = std::min(first, reader.index());
            }
            const TensorId gradient = m_training.gradients[p];
            const OpId producer = gradient.valid() ? m_training.graph.tensor(gradient).producer : OpId();
            if (producer.valid())
                cut.lastGradient =
                    cut.lastGradient == kNever ? producer.index() : std::max(cut.lastGradient, producer.index());
        }
    }

    void declareShards()
    {
        for (const Cut &cut : m_cuts)
            if (cut.bucket->zero >= 3)
                m_shards[cut.ordinal] =
                    m_rewriter.builder().parameter(cut.name(), graph::Shape::of({cut.shard()}), {}, cut.bucket->type);
    }

    void beginBackward()
    {
        m_rewriter.beginBackward();
        m_gathered.clear();
    }

    /// Gathers whose turn comes before operator @p at: that of the bucket that it reads first, and those of the layer
    /// and of the next one, so that they travel meanwhile.
    void gatherFor(std::size_t at, int pass)
    {
        std::vector<const Cut *> order;
        for (const Cut &cut : m_cuts)
            if (cut.bucket->zero >= 3 && cut.firstUse[pass] != kNever)
                order.push_back(&cut);
        std::sort(order.begin(), order.end(),
                  [pass](const Cut *a, const Cut *b) { return a->firstUse[pass] < b->firstUse[pass]; });
        const Op &like = m_training.graph.ops()[at];
        for (std::size_t k = 0; k < order.size(); ++k) {
            if (order[k]->firstUse[pass] != at)
                continue;
            const auto isOther = [&order, k](const Cut *cut) { return cut->layer != order[k]->layer; };
            const auto next = std::find_if(order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), isOther);
            const auto end =
                std::find_if(next, order.end(), [next](const Cut *cut) { return cut->layer != (*next)->layer; });
            for (auto ahead = order.begin() + static_cast<std::ptrdiff_t>(k); ahead != end; ++ahead)
                gather(**ahead, like);
            unpack(*order[k], like);
        }
    }

    void gather(const Cut &cut, const Op &like)
    {
        if (m_gathered.contains(cut.ordinal))
            return;
        m_gathered[cut.ordinal] = m_rewriter.emit("AllGather", {m_shards.at(cut.ordinal)},
                                                  {{"mesh_dims", cut.over}, {"parts", cut.parts}}, like);
    }

    void unpack(const Cut &cut, const Op &like)
    {
        std::vector<std::int64_t> offsets, ranks, sizes;
        for (std::size_t e = 0; e < cut.members.size(); ++e) {
            const auto dims = m_training.graph.tensor(m_training.parameters[cut.members[e]]).shape.at(1);
            offsets.push_back(cut.bucket->entries[e].at);
            ranks.push_back(static_cast<std::int64_t>(dims.size()));
            sizes.insert(sizes.end(), dims.begin(), dims.end());
        }
        const auto made =
            m_rewriter.emit("Unpack", {m_gathered.at(cut.ordinal)},
                            {{"offsets", offsets}, {"ranks", ranks}, {"sizes", sizes}}, like, cut.members.size());
        for (std::size_t e = 0; e < made.size(); ++e)
            m_rewriter.map(m_training.parameters[cut.members[e]], made[e]);
    }

    /// Sends off the gradients of buckets that operator @p at completes. The sums of a layer are taken up behind the
    /// first exchange of the next one, so that they travel meanwhile.
    void exchangeAfter(std::size_t at)
    {
        const Op &like = m_training.graph.ops()[at];
        for (const Cut &cut : m_cuts) {
            if (cut.lastGradient != at)
                continue;
            std::vector<TensorId> gradients;
            std::vector<std::int64_t> offsets;
            for (std::size_t e = 0; e < cut.members.size(); ++e) {
                const TensorId gradient = m_training.gradients[cut.members[e]];
                gradients.push_back(gradient.valid() ? m_rewriter.to(gradient) : TensorId());
                offsets.push_back(cut.bucket->entries[e].at);
            }
            const TensorId packed =
                m_rewriter.emit("Pack", gradients,
                                {{"offsets", offsets}, {"elements", cut.bucket->elements}, {"parts", cut.parts}}, like);
            Pending pending{m_rewriter.emit("ReduceScatter", {packed}, {{"mesh_dims", cut.over}, {"parts", cut.parts}},
                                            like),
                            cut.ordinal, cut.layer};
            if (!m_pending.empty() && m_pending.back().first.layer != cut.layer) {
                for (auto &[earlier, earlierLike] : m_pending)
                    settle(earlier, like);
                m_pending.clear();
            }
            m_pending.emplace_back(pending, &like);
        }
    }

    struct Pending {
        TensorId sum;
        std::size_t ordinal = 0;
        std::size_t layer = 0;
    };

    void settle(const Pending &pending, const Op &like)
    {
        m_settled.push_back({m_rewriter.emit("Identity", {pending.sum}, {}, like), pending.ordinal});
    }

    Result<CutTraining> finish()
    {
        auto made = std::move(m_rewriter).finish();
        if (!made)
            return made.error();
        CutTraining result{*std::move(made), {}, m_settled};
        graph::TrainingGraph &training = result.training;
        for (const Cut &cut : m_cuts) {
            for (const std::size_t p : cut.members)
                training.gradients[p] = TensorId();
            if (cut.bucket->zero < 3)
                continue;
            for (const std::size_t p : cut.members)
                training.parameters[p] = TensorId();
            result.parameters.push_back({m_shards.at(cut.ordinal), cut.ordinal});
        }
        return result;
    }

    const graph::TrainingGraph &m_training;
    graph::Rewriter m_rewriter;
    std::vector<Cut> m_cuts;
    std::unordered_map<std::size_t, TensorId> m_shards;   ///< by ordinal
    std::unordered_map<std::size_t, TensorId> m_gathered; ///< in this pass
    std::vector<std::pair<Pending, const Op *>> m_pending;
    std::vector<BucketTensor> m_settled;
};

} // namespace

Result<CutTraining> cutParameters(const graph::TrainingGraph &training, const StageTensors &tensors, RankId rank,
                                  const Buckets &buckets, const FoldedTeams &teams)
{
    return Cutter(training, tensors, rank, buckets, teams).cut();
}

} // namespace planloom::compile

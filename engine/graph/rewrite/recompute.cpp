// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/rewrite/recompute.h"

#include "engine/graph/rewrite/rewrite.h"

#include <algorithm>

namespace planloom::graph {
namespace {

constexpr std::int32_t kNoRun = -1;

class Rerunner {
public:
    Rerunner(const TrainingGraph &training, const std::vector<Rerun> &runs)
        : m_from(training),
          m_graph(training.graph),
          m_runs(runs),
          m_to(training),
          m_dropped(m_graph.tensors().size(), kNoRun),
          m_done(runs.size(), false)
    {
        for (std::size_t r = 0; r < runs.size(); ++r)
            drop(r);
    }

    Result<TrainingGraph> run() &&
    {
        for (const Op &op : m_graph.ops()) {
            if (op.id.index() == m_from.forwardOps)
                m_to.beginBackward();
            if (op.id.index() < m_from.forwardOps)
                m_to.copy(op);
            else
                backward(op);
        }
        if (m_from.forwardOps == m_graph.ops().size())
            m_to.beginBackward();
        return std::move(m_to).finish();
    }

private:
    [[nodiscard]] bool leaves(TensorId id) const
    {
        return id == m_from.loss || std::find(m_from.outputs.begin(), m_from.outputs.end(), id) != m_from.outputs.end();
    }

    [[nodiscard]] bool readBehind(TensorId id, const Rerun &run) const
    {
        const auto readers = m_graph.consumers(id);
        return std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
            return reader.index() >= run.last && reader.index() < m_from.forwardOps;
        });
    }

    /// Marks tensors of run @p r that backward reads from its second run.
    void drop(std::size_t r)
    {
        const Rerun &run = m_runs[r];
        for (std::size_t i = run.first; i < run.last; ++i)
            for (const TensorId input : m_graph.ops()[i].inputs)
                if (input.valid() && m_graph.tensor(input).role == TensorRole::State)
                    return;
        for (const TensorId id : m_from.stash) {
            const std::size_t producer = m_graph.tensor(id).producer.index();
            if (producer >= run.first && producer < run.last && !leaves(id) && (run.outputsToo || !readBehind(id, run)))
                m_dropped[id.index()] = static_cast<std::int32_t>(r);
        }
    }

    void backward(const Op &op)
    {
        std::vector<TensorId> inputs;
        for (const TensorId input : op.inputs) {
            const std::int32_t run = input.valid() ? m_dropped[input.index()] : kNoRun;
            if (run != kNoRun && !m_done[static_cast<std::size_t>(run)])
                repeat(static_cast<std::size_t>(run));
            inputs.push_back(run == kNoRun ? m_to.to(input) : m_again[input.index()]);
        }
        m_to.copy(op, op.attributes, std::move(inputs));
    }

    void repeat(std::size_t r)
    {
        m_again.resize(m_graph.tensors().size());
        m_done[r] = true;
        for (std::size_t i = m_runs[r].first; i < m_runs[r].last; ++i) {
            const Op &op = m_graph.ops()[i];
            std::vector<TensorId> inputs;
            for (const TensorId input : op.inputs)
                inputs.push_back(input.valid() && m_again[input.index()].valid() ? m_again[input.index()]
                                                                                 : m_to.to(input));
            std::vector<TensorId> outputs;
            for (const TensorId output : op.outputs) {
                const Tensor &tensor = m_graph.tensor(output);
                outputs.push_back(m_again[output.index()] =
                                      m_to.builder().activation("again/" + tensor.name, tensor.type));
            }
            Attributes attributes = op.attributes;
            if (op.traits().random)
                attributes.try_emplace("key", op.name);
            m_to.add(op.type, "again/" + op.name, op.scope, std::move(inputs), std::move(outputs),
                     std::move(attributes));
        }
    }

    const TrainingGraph &m_from;
    const Graph &m_graph;
    const std::vector<Rerun> &m_runs;
    Rewriter m_to;
    std::vector<std::int32_t> m_dropped; ///< by tensor: the run that makes it again
    std::vector<bool> m_done;            ///< by run
    std::vector<TensorId> m_again;       ///< by tensor: its second value
};

} // namespace

Result<TrainingGraph> rerun(const TrainingGraph &training, const std::vector<Rerun> &runs)
{
    return Rerunner(training, runs).run();
}

std::vector<Rerun> attentionCores(const TrainingGraph &training)
{
    std::vector<Rerun> cores;
    for (std::size_t i = 0; i < training.forwardOps; ++i) {
        const OpTraits &traits = training.graph.ops()[i].traits();
        if (traits.isAttention())
            cores.push_back({i, i + 1, traits.cost == CostClass::Attention});
    }
    return cores;
}

} // namespace planloom::graph

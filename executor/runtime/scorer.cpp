// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/scorer.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace planloom::runtime {

namespace {

/// Whether one operator computes the loss from logits and labels, followed at most by operators that keep its value.
bool isMeanOverLabels(const graph::TrainingGraph &training)
{
    static const std::set<std::string_view> kValuePreserving{"AllReduce", "Cast",    "Identity", "KeepOnFirst",
                                                             "Reshape",   "Squeeze", "Unsqueeze"};
    TensorId value = training.loss;
    while (value.valid() && training.graph.tensor(value).producer.valid()) {
        const graph::Op &op = training.graph.op(training.graph.tensor(value).producer);
        if (scoredFormOf(training.graph, op))
            return value == op.outputs[0];
        if (!kValuePreserving.contains(op.type))
            return false;
        value = op.inputs[0];
    }
    return false;
}

} // namespace

/// Asks the device for the scores of the counted rows.
class Scorer::Hooks final : public PassHooks {
public:
    Hooks(const Scorer &scorer, PassHooks &hooks, std::int64_t samples, std::int64_t counted)
        : m_scorer(scorer),
          m_hooks(hooks),
          m_samples(samples),
          m_counted(counted)
    {
    }
    void betweenOperators() override { m_hooks.betweenOperators(); }
    bool communicate(std::int32_t op, const Communication &what) override { return m_hooks.communicate(op, what); }
    void scored(const device::ScoredRows &rows) override
    {
        device::ScoredRows counted = rows;
        counted.rows = rows.rows / m_samples * m_counted;
        m_scorer.m_context.queue.score(counted, m_scorer.slot(m_next++));
    }
    [[nodiscard]] std::size_t operators() const { return m_next; }

private:
    const Scorer &m_scorer;
    PassHooks &m_hooks;
    std::int64_t m_samples; ///< of the slice
    std::int64_t m_counted; ///< the first so many of them
    std::size_t m_next = 0;
};

Result<Scorer> Scorer::create(const program::Body &body, const ComputeContext &context)
{
    Scorer scorer(body, context);
    const graph::TrainingGraph &training = body.training;
    scorer.m_scoresLabels = isMeanOverLabels(training);
    for (std::size_t op = 0; op < training.forwardOps; ++op)
        scorer.m_operators += scoredFormOf(training.graph, training.graph.ops()[op]) ? 1 : 0;
    auto memory =
        context.device.allocate(device::Space::Host,
                                static_cast<std::int64_t>((scorer.m_operators + 1) * sizeof(device::RowScores)));
    if (!memory)
        return memory.error();
    scorer.m_host = std::move(*memory);
    auto event = context.device.makeEvent();
    if (!event)
        return event.error();
    scorer.m_event = std::move(*event);
    return scorer;
}

Result<Scores> Scorer::score(StageRunner &runner, std::int64_t first, PassHooks &hooks)
{
    const plan::SampleRange &slice = m_body->slices.front();
    if (slice.size == 0)
        return Scores{};
    const std::int64_t begin = first + slice.begin;
    const std::int64_t counted = std::clamp<std::int64_t>(runner.heldOut() - begin, 0, slice.size);
    Hooks scoring(*this, hooks, slice.size, counted);
    if (const Status status = runner.infer(begin, scoring); !status)
        return status.error();
    auto *loss = reinterpret_cast<float *>(slot(m_operators));
    const bool wholeSlice = runner.loss() != nullptr && !m_scoresLabels;
    if (wholeSlice)
        m_context.queue.copyToHost(loss, runner.loss(), sizeof *loss);
    if (const Status status = drain(m_context.queue, *m_event, m_context.deadline); !status)
        return status.error();
    Scores scores;
    for (std::size_t i = 0; i < scoring.operators() && countsLoss(*m_body); ++i) {
        scores.loss += slot(i)->crossEntropy;
        scores.weight += slot(i)->rows;
        scores.right += slot(i)->right;
        scores.rows += slot(i)->rows;
    }
    if (wholeSlice) { // where held-out samples do not fill the slice, some count more than others
        scores.weight = static_cast<double>(counted);
        scores.loss = counted > 0 ? scores.weight * static_cast<double>(*loss) : 0;
    }
    return scores;
}

} // namespace planloom::runtime

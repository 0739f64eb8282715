// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/gradient_accumulation.h"

#include <algorithm>

namespace planloom::compile {
namespace {

class Finder {
public:
    explicit Finder(const graph::TrainingGraph &training)
        : m_training(training),
          m_found{std::vector<Route>(training.graph.ops().size(), Route::Made),
                  std::vector<TensorId>(training.graph.ops().size()),
                  std::vector<bool>(training.graph.tensors().size(), false)}
    {
    }

    AccumulatedGradients find() &&
    {
        for (const TensorId id : m_training.gradients)
            if (id.valid())
                send(id);
        return std::move(m_found);
    }

private:
    [[nodiscard]] const graph::Tensor &tensor(TensorId id) const { return m_training.graph.tensor(id); }

    void send(TensorId id)
    {
        if (!m_training.graph.consumers(id).empty() || isNamed(m_training.outputs, id)
            || isNamed(m_training.inputGradients, id) || count(m_training.gradients, id) != 1)
            return;
        if (canAdd(id))
            return take(id, id, Route::Accumulated);
        const OpId producer = tensor(id).producer;
        if (!producer.valid() || producer.index() < m_training.forwardOps)
            return;
        const graph::Op &sum = m_training.graph.op(producer);
        const auto isTerm = [&](TensorId term) {
            return m_training.graph.consumers(term).size() == 1 && count(sum.inputs, term) == 1
                && !isNamed(m_training.inputGradients, term) && canAdd(term);
        };
        if (sum.type != "AddN" || !std::all_of(sum.inputs.begin(), sum.inputs.end(), isTerm))
            return;
        take(id, id, Route::Idle);
        for (const TensorId term : sum.inputs)
            take(term, id, Route::Accumulated);
    }

    [[nodiscard]] bool canAdd(TensorId id) const
    {
        const OpId producer = tensor(id).producer;
        if (!producer.valid() || producer.index() < m_training.forwardOps || tensor(id).type != graph::DType::F32)
            return false;
        return m_training.graph.op(producer).traits().accumulates;
    }

    void take(TensorId made, TensorId gradient, Route route)
    {
        const std::size_t op = tensor(made).producer.index();
        m_found.routes[op] = route;
        m_found.gradients[op] = gradient;
        m_found.unplaced[made.index()] = true;
    }

    static std::int64_t count(const std::vector<TensorId> &ids, TensorId id)
    {
        return std::count(ids.begin(), ids.end(), id);
    }
    static bool isNamed(const std::vector<TensorId> &ids, TensorId id) { return count(ids, id) > 0; }

    const graph::TrainingGraph &m_training;
    AccumulatedGradients m_found;
};

} // namespace

AccumulatedGradients accumulatedGradients(const graph::TrainingGraph &training) { return Finder(training).find(); }

} // namespace planloom::compile

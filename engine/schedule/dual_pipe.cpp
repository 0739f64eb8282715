// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule/dual_pipe.h"

#include <deque>

namespace planloom::schedule {
namespace {

/// The passes of a rank, each stage's micro-batches in turn. Phase 0 is its stage on the way down, 1 on the way up.
class Order {
public:
    Order(std::int32_t down, std::int32_t up) : m_stage{down, up} {}

    void forward(int phase) { add(Pass::Forward, phase, m_forward[phase]++); }
    /// @p late: the gradients of weights wait for weights().
    void backward(int phase, bool late = false)
    {
        const std::int32_t microBatch = m_backward[phase]++;
        add(Pass::Backward, phase, microBatch);
        if (late)
            m_waiting.push_back({Pass::WeightGradient, microBatch, m_stage[phase]});
        else
            add(Pass::WeightGradient, phase, microBatch);
    }
    /// The gradients that wait for longest.
    void weights()
    {
        m_steps.push_back(m_waiting.front());
        m_waiting.pop_front();
    }
    std::vector<PassStep> take() { return std::move(m_steps); }

private:
    void add(Pass pass, int phase, std::int32_t microBatch) { m_steps.push_back({pass, microBatch, m_stage[phase]}); }
    std::int32_t m_stage[2];
    std::int32_t m_forward[2] = {0, 0};  ///< by phase: the next micro-batch
    std::int32_t m_backward[2] = {0, 0}; ///< likewise
    std::deque<PassStep> m_waiting;
    std::vector<PassStep> m_steps;
};

} // namespace

std::vector<PassStep> dualPipeVOrder(std::int64_t microBatches, std::int32_t rank, std::int32_t ranks)
{
    Order order(rank, 2 * ranks - 1 - rank);
    const std::int32_t behind = ranks - 1 - rank; // ranks further down
    const std::int32_t before = rank + 1;         // up to and with this one
    for (std::int32_t i = 0; i < 2 * behind; ++i)
        order.forward(0);
    for (std::int32_t i = 0; i < before; ++i) {
        order.forward(0);
        order.forward(1);
    }
    for (std::int32_t i = 0; i < behind; ++i) {
        order.backward(1, true);
        order.weights();
        order.forward(1);
    }
    for (std::int64_t i = 0; i < microBatches - 2 * ranks + before; ++i) {
        order.forward(0);
        order.backward(1);
        order.forward(1);
        order.backward(0);
    }
    for (std::int32_t i = 0; i < behind; ++i) {
        order.backward(1);
        order.forward(1);
        order.backward(0);
    }
    bool late = false;
    for (std::int32_t i = 0; i < before; ++i) {
        late = late || (i == before / 2 && rank % 2 == 1);
        order.backward(1, late);
        late = late || (i == before / 2 && rank % 2 == 0);
        order.backward(0, late);
    }
    for (std::int32_t i = 0; i < behind; ++i) {
        order.weights();
        order.backward(0, true);
    }
    for (std::int32_t i = 0; i < before; ++i)
        order.weights();
    return order.take();
}

} // namespace planloom::schedule

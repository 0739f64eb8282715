// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/stage_runner.h"

#include <memory>

namespace planloom::runtime {

/// Loss and hits of some samples.
struct Scores {
    double loss = 0; ///< weighted sum
    double weight =
        0; ///< labels that count; samples where the model's loss is more than the cross-entropy of its labels
    double right = 0;
    double rows = 0; ///< labels that are right or wrong
};

/// Scores held-out samples: the device compares logits with labels, the host reads the sums. Thread contract: one
/// thread.
class Scorer {
public:
    /// The arguments must outlive it. Errors: those of Device::allocate.
    static Result<Scorer> create(const program::Body &body, const ComputeContext &context);

    /// Forward over held-out samples with the shapes of micro-batch 0; @p first is the number of the first held-out
    /// sample of the whole micro-batch. Samples past the last are fed from the start again and not counted. The device
    /// has ended the pass when it returns. Errors: those of StageRunner::infer.
    Result<Scores> score(StageRunner &runner, std::int64_t first, PassHooks &hooks);

private:
    class Hooks;
    Scorer(const program::Body &body, const ComputeContext &context) : m_body(&body), m_context(context) {}
    [[nodiscard]] device::RowScores *slot(std::size_t index) const
    {
        return reinterpret_cast<device::RowScores *>(m_host.data()) + index;
    }

    const program::Body *m_body;
    ComputeContext m_context;
    bool m_scoresLabels = false; ///< the loss is the mean over labels: it is summed up label by label
    std::size_t m_operators = 0; ///< that compare logits with labels
    device::Memory m_host;       ///< their scores; then the loss
    std::unique_ptr<device::Event> m_event;
};

} // namespace planloom::runtime

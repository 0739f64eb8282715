// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/averaging.h"
#include "executor/runtime/executor_options.h"
#include "executor/runtime/rank_parts.h"

#include <array>
#include <span>
#include <vector>

namespace planloom::runtime {

/// Sums over all ranks in a step: its loss, whether to stop after it, the norm of its gradients, and the norms that
/// the update rule takes of each parameter (RankParts::norms).
/// Thread contract: one thread; the stop flag may be set by any.
class Agreements {
public:
    /// What it is given outlives it. Of @p options: the flag to stop, the norm to which gradients are scaled down, who
    /// is told this rank's losses.
    void prepare(RankParts &parts, Averaging &averaging, const ExecutorOptions &options);

    /// Steps that ranks agree on together, from a multiple of them on.
    [[nodiscard]] std::int64_t period() const { return static_cast<std::int64_t>(m_period); }
    /// Starts the sum over all ranks of this rank's value for @p subject: of the loss of @p step, with those of the
    /// steps before it that are not agreed on yet; those of later ones, which some ranks have left by now, wait. Error:
    /// Failed.
    Result<comm::Request> start(program::Agreement::Subject subject, std::int64_t step);
    void ended(program::Agreement::Subject subject);
    /// Takes the loss of @p step for an agreement that begins later, where steps overlap; nothing if it has begun.
    /// Errors: those of StageRunner::takeLoss.
    Status leave(std::int64_t step);
    /// Agrees on the steps that were left and are not agreed on, and waits for it. Collective, when nothing is under
    /// way.
    Status agreeNow();

    /// Of the steps of the last agreement, in order.
    [[nodiscard]] std::span<const float> losses() const { return std::span(m_step).subspan(m_at, m_count); }
    /// run::StepMetrics::consensusDistance of the step of these that is behind a merge; 0: none is.
    [[nodiscard]] double consensusDistance() const { return m_consensusDistance; }
    [[nodiscard]] double loss() const { return static_cast<double>(losses().back()); }
    [[nodiscard]] bool stop() const { return m_step.back() > 0; }
    [[nodiscard]] double gradientNorm() const { return m_gradientNorm; } ///< before clipping; 0: it is not clipped
    [[nodiscard]] double gradientScale() const { return m_gradientScale; }
    /// Payload sent for agreements so far.
    [[nodiscard]] std::int64_t bytesSent() const { return m_bytesSent; }

private:
    Result<comm::Request> startNorms();
    Result<double> takeLoss();
    Result<comm::Request> startSteps(std::size_t count);
    Result<comm::Request> sum(std::span<float> numbers);
    Result<double> squaredGradientNorm();

    RankParts *m_parts = nullptr;
    Averaging *m_averaging = nullptr;
    const ExecutorOptions *m_options = nullptr;
    std::size_t m_period = 1; ///< steps
    /// Losses of m_period steps, each in the place of its step, as the place decides in which order ranks add it up;
    /// where parameters are averaged, the squared consensus distance in two floats; whether anyone asks to stop.
    std::vector<float> m_step{0, 0};
    std::size_t m_at = 0;            ///< of the first loss in it that is of a step of this agreement
    std::size_t m_count = 1;         ///< such losses
    std::int64_t m_nextStep = 0;     ///< the first one whose loss is not taken
    std::vector<float> m_taken;      ///< losses of steps before it that no agreement has begun on
    std::vector<double> m_distances; ///< squared consensus distances of the same, this rank's part
    std::array<float, 2> m_norm{};
    double m_gradientNorm = 0;
    double m_gradientScale = 1;
    double m_consensusDistance = 0;
    std::int64_t m_bytesSent = 0;
};

} // namespace planloom::runtime

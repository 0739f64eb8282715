// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/rank_parts.h"

#include <atomic>
#include <deque>

namespace planloom::runtime {

/// Sums over all ranks in a step: its loss, whether to stop after it, the norm of its gradients, and the norms that
/// the update rule takes of each parameter (RankParts::norms).
/// Thread contract: one thread; the stop flag may be set by any.
class Agreements {
public:
    /// @p stop, which may be null, outlives it. @p clipNorm: gradients longer than that are scaled down; 0: none are.
    void prepare(RankParts &parts, const std::atomic<bool> *stop, double clipNorm);

    /// Starts the sum over all ranks of this rank's value for @p subject in @p step. Error: Failed.
    Result<comm::Request> start(program::Agreement::Subject subject, std::int64_t step);
    void ended(program::Agreement::Subject subject);
    /// Takes the loss of @p step for an agreement that begins later, where steps overlap; nothing if it has begun.
    /// Errors: those of StageRunner::takeLoss.
    Status leave(std::int64_t step);

    [[nodiscard]] double loss() const { return static_cast<double>(m_step[0]); }
    [[nodiscard]] bool stop() const { return m_step[1] > 0; }
    [[nodiscard]] double gradientNorm() const { return m_gradientNorm; } ///< before clipping; 0: it is not clipped
    [[nodiscard]] double gradientScale() const { return m_gradientScale; }
    /// Payload sent for agreements so far.
    [[nodiscard]] std::int64_t bytesSent() const { return m_bytesSent; }

private:
    Result<comm::Request> startNorms();
    Result<double> takeLoss();
    Result<double> lossOf(std::int64_t step);
    Result<double> squaredGradientNorm();

    RankParts *m_parts = nullptr;
    const std::atomic<bool> *m_stop = nullptr;
    double m_clipNorm = 0;
    float m_step[2] = {};
    std::int64_t m_nextStep = 0; ///< the first one whose agreement has not begun
    std::deque<double> m_taken;  ///< losses of steps from that one on, which are over
    float m_norm[2] = {};
    double m_gradientNorm = 0;
    double m_gradientScale = 1;
    std::int64_t m_bytesSent = 0;
};

} // namespace planloom::runtime

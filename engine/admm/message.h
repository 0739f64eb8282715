// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/block_graphs.h"

#include <span>
#include <vector>

namespace planloom::admm {

/// What an asynchronous worker sends to its parameter server, float32, in this order: gram_in, product_in, gram_out,
/// product_out as blockGraph() names them; mean loss over its samples, squared residuals, squared weights before,
/// IterationFigures::lagrangian; and, with a proximal term, the parameters that it has computed with. The answer is u,
/// w, b, v, c, row-major, in the message's place.
struct MessageLayout {
    MessageLayout(const Sizes &of, const Settings &settings);

    Sizes sizes;
    std::int64_t gramIn = 0, productIn = 0, gramOut = 0, productOut = 0; ///< elements
    std::int64_t elements = 0;                                           ///< of all
    std::int64_t answer = 0;                                             ///< elements of an answer
    bool bringsParameters = false;
    /// Where they begin.
    [[nodiscard]] std::int64_t figures() const { return gramIn + productIn + gramOut + productOut; }
    [[nodiscard]] std::int64_t parameters() const { return answer; }
};

/// A parameter server's arithmetic: keeps the last message of each worker, and solves for the parameters with the sums
/// of all, in double. Thread contract: one thread.
class ParameterServer {
public:
    /// @p samples: of each worker.
    ParameterServer(const Sizes &sizes, const Settings &settings, std::vector<std::int64_t> samples);

    [[nodiscard]] const MessageLayout &layout() const { return m_layout; }
    /// Where a run goes on: @p answer is the version before the first, from which that one's change is counted.
    void goOnFrom(std::vector<float> answer);
    /// Takes the place of @p worker's last message.
    void take(int worker, std::span<const float> message);
    /// The next version, with the messages that there are; every worker must have sent one. Error: BadInput, the sums
    /// have no Cholesky factor.
    Status solve();
    /// Of the newest version: an answer.
    [[nodiscard]] std::span<const float> answer() const { return m_answer; }

    /// With each worker's last message: what it computed with the parameters that it had.
    struct Figures {
        double loss = 0; ///< mean over all samples, before the step
        double objective = 0;
        double lagrangian = 0; ///< before the duals' step
        double primalResidual = 0;
        double dualResidual = 0; ///< change of the parameters; 0: of a run's first version
    };
    [[nodiscard]] Figures figures() const;

private:
    Settings m_settings;
    MessageLayout m_layout;
    std::vector<std::int64_t> m_samples;
    std::vector<std::vector<float>> m_messages; ///< by worker
    std::vector<float> m_answer;
    double m_change = 0;
    bool m_solved = false;
};

} // namespace planloom::admm

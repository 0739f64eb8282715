// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/runtime/body_runner.h"
#include "profiler/profile_model.h"

#include <memory>
#include <vector>

namespace planloom::profiler {

/// Samples made up for a model: what they hold does not change how long they take, as long as every index is in range.
class MadeUpData final : public data::DataSet {
public:
    explicit MadeUpData(const data::Needs &needs) : m_needs(needs) {}
    [[nodiscard]] std::int64_t samples() const override { return 1 << 20; }
    void fillInput(std::int64_t sample, void *out) const override;
    void fillLabels(std::int64_t sample, std::int64_t *out) const override;

private:
    data::Needs m_needs;
};

/// Seconds of every operator of one pass, and of the whole pass; one entry per repetition.
struct PassTimes {
    std::vector<std::vector<double>> operators; ///< [operator of the pass][repetition]
    std::vector<double> whole;
};

/// The whole model as one rank of the executor holds it, with a stopwatch at every operator's end. Thread contract: one thread makes
/// it, uses it, and has set the number of OpenMP threads before.
class Replica final : private runtime::Between {
public:
    /// @p program has one rank and one micro-batch; it, @p subject and the feed's data are borrowed. Of @p options, seed and model folder
    /// count. Errors: those of kernels, initialisers and memory.
    static Result<std::unique_ptr<Replica>> create(const program::Program &program, const graph::Graph &subject, const runtime::Feed &feed,
                                                   const ProfileOptions &options);
    /// Forward and backward; @p record adds to the times.
    void pass(bool record);
    /// One optimizer step; its seconds.
    double optimize(const plan::Optimizer &how);
    [[nodiscard]] const PassTimes &forward() const { return m_forward; }
    [[nodiscard]] const PassTimes &backward() const { return m_backward; }

private:
    explicit Replica(const runtime::Feed &feed) : m_feed(feed) {}
    void betweenOperators() override;
    void note(PassTimes &times, std::int64_t begin) const;

    runtime::Feed m_feed;
    runtime::Arena m_arena;
    std::unique_ptr<runtime::BodyRunner> m_body;
    std::vector<std::int64_t> m_ends; ///< of the operators of the pass at hand
    PassTimes m_forward;
    PassTimes m_backward;
    std::int64_t m_step = 0;
};

} // namespace planloom::profiler

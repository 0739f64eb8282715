// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/data/data_set.h"
#include "executor/runtime/block_joiner.h"
#include "executor/runtime/feeder.h"
#include "executor/runtime/role_link.h"
#include "executor/runtime/sampled_source.h"

#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <vector>

namespace planloom::runtime {

/// Which rank of a sampled job does what: trainers first, then Plan::roles in their order.
class SampledRanks {
public:
    explicit SampledRanks(const plan::Plan &plan);
    [[nodiscard]] int trainers() const { return m_trainers; }
    [[nodiscard]] int size() const { return m_trainers + static_cast<int>(m_plan.roles.size()); }
    /// None: a trainer.
    [[nodiscard]] const plan::PlacedRole *roleOf(int rank) const;
    [[nodiscard]] std::string nameOf(int rank) const;
    [[nodiscard]] std::vector<int> samplersOf(int trainer) const;
    [[nodiscard]] std::vector<int> ofKind(gnn::RoleKind kind) const; ///< but trainers, in the plan's order
    [[nodiscard]] std::vector<int> stores() const;                   ///< by part
    /// Among the ranks of its kind: the number in its tasks' ids.
    [[nodiscard]] int numberOf(int rank) const;

private:
    const plan::Plan &m_plan;
    int m_trainers;
};

/// What a process of a sampled job works with; all is borrowed.
struct SampledContext {
    const plan::Plan &plan;
    const run::Request &request;
    RoleLink &link;
    SentBytes &sent;
    plan::BatchForm form = plan::BatchForm::Trees;
    /// An answer that was asked for comes within it; a process that waits to be asked has ten times as long.
    [[nodiscard]] std::chrono::nanoseconds deadline() const
    {
        return std::chrono::nanoseconds(static_cast<std::int64_t>(request.settings.timeout() * 1e9));
    }
    /// Of a trainer: what it waits for comes from a process that waits for another one, knows which one is late, and
    /// says so first.
    [[nodiscard]] std::chrono::nanoseconds trainerDeadline() const { return 2 * deadline(); }
    /// Of a trainer that waits for the others, or for a server that does: one of them may wait for its sampler.
    [[nodiscard]] std::chrono::nanoseconds trainersDeadline() const { return 3 * deadline(); }
};

/// Runs a graph store or a sampler until its trainers end. A store sends rows of its part to samplers that ask for
/// them; a sampler draws the range that its trainer names, asks the stores and sends the mini-batch, and draws further
/// ranges meanwhile. Errors: those of SampledSource::open, Failed (communication, a deadline).
Status runSampledProcess(const SampledContext &context);

/// A trainer's mini-batches as they come from its samplers: when a step begins, that of the step `prefetch` later is
/// asked for. A sample's number as a data set is its place in the last range. Thread contract: one thread.
class SampledBatches final : public Arrivals, public data::DataSet {
public:
    /// @p blocks: the model's inputs, unless they are trees. @p samples: labelled nodes of the graph.
    SampledBatches(const SampledContext &context, const std::optional<data::BlockShape> &blocks, std::int64_t samples);

    Status await(std::int64_t step) override;
    Status fetch(std::int64_t step, std::int64_t begin, std::int64_t count) override;
    Status fetchHeldOut(std::int64_t begin, std::int64_t count) override;
    /// Once, after the last step: takes what is still under way and lets the samplers end.
    Status close();

    [[nodiscard]] std::int64_t samples() const override { return m_samples; }
    void fillInput(std::int64_t sample, void *out) const override { fillInputAt(0, sample, out); }
    void fillInputAt(std::size_t input, std::int64_t sample, void *out) const override;
    [[nodiscard]] bool joinsBatches() const override { return m_joiner.has_value(); }
    void fillBatch(std::span<const std::int64_t> samples, std::span<void *const> inputs) const override;
    void fillLabels(std::int64_t sample, std::int64_t *out) const override;

private:
    using Command = std::array<std::int64_t, 4>; ///< what, step or kHeldOut, begin, count
    /// What one sampler sends for a range.
    struct Part {
        SampledRange range;
        BlockCounts counts;
        Ticket counting;      ///< of `counts`
        bool expected = true; ///< its message has a place
        int tag = 0;
        std::vector<std::byte> data;      ///< labels, then the places' features, or what a BlockLayout has
        std::vector<std::int64_t> begins; ///< of a block: by sample, the first one of its places
        Ticket ticket;
    };
    struct Batch {
        std::int64_t step = -1;
        std::vector<Part> parts; ///< by sampler
    };
    struct Sent {
        Command command;
        Ticket ticket;
    };

    Status askFor(std::int64_t step);
    Status ask(Batch &batch, const SampledRange &range, int tag);
    Status expect(const Batch &batch, std::size_t sampler, Part &part);
    Status expectCounted(std::int64_t step);
    [[nodiscard]] std::int64_t bytesOf(const Part &part) const;
    Status send(int sampler, const Command &command);
    Status take(Batch &batch);
    [[nodiscard]] BlockJoiner::Message messageOf(const Part &part) const;
    [[nodiscard]] const Part &partOf(std::int64_t &sample) const;

    SampledContext m_context;
    std::int64_t m_samples;
    plan::SampleRange m_own; ///< of a global batch
    std::vector<int> m_samplers;
    std::vector<std::string> m_names;
    std::vector<std::int32_t> m_rows; ///< of the trace, by sampler
    gnn::Fanout m_fanout;
    std::int64_t m_width;
    std::int64_t m_asked = -1;    ///< steps before this one are asked for; -1: none yet
    std::vector<Batch> m_batches; ///< step n is in n mod (prefetch + 1)
    Batch m_heldOut;
    const Batch *m_current = nullptr;
    std::deque<Sent> m_commands; ///< under way
    // Scratch of fillBatch().
    mutable std::optional<BlockJoiner> m_joiner;
    mutable std::vector<BlockJoiner::Sample> m_joined;
};

} // namespace planloom::runtime

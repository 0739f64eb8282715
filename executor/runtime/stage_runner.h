// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/feeder.h"
#include "executor/runtime/loss_reader.h"
#include "executor/runtime/pass_graphs.h"
#include "executor/runtime/pass_hooks.h"

#include <memory>
#include <span>
#include <vector>

namespace planloom::runtime {

/// A run of operators of a pass, and whether the pass begins or ends with it.
struct Part {
    std::int32_t first = 0;
    std::int32_t last = 0;
    bool opens = true;
    bool closes = true;
    /// Where a memory policy places tensors, what runs in place of operators [first, last).
    std::span<const program::PooledCall> calls = {};
};

/// Gives the operators of one stage replica's passes to a queue. Made before the first step; passes allocate nothing
/// and do not wait for their operators. Thread contract: one thread.
class StageRunner {
public:
    /// What the arguments name must outlive it; @p seed: the run's, of random numbers. Errors: Unsupported (an operator
    /// without kernel, an input that nothing feeds), Failed.
    static Result<std::unique_ptr<StageRunner>> create(const program::Program &program, const program::Body &body,
                                                       const ComputeContext &context, const Feed &feed,
                                                       std::int64_t seed);

    /// Errors: those of Feeder::training.
    Status forward(std::int32_t microBatch, std::int64_t step, const Part &part, PassHooks &hooks);
    void recompute(std::int32_t microBatch, const Part &part, PassHooks &hooks);
    void backward(std::int32_t microBatch, const Part &part, PassHooks &hooks);
    /// The rest of the backward pass, where the schedule cuts it.
    void weightGradient(std::int32_t microBatch, const Part &part, PassHooks &hooks);
    /// Whole passes, of stages without boxing.
    Status forward(std::int32_t microBatch, std::int64_t step, PassHooks &hooks)
    {
        return forward(microBatch, step, forwardPart(), hooks);
    }
    void backward(std::int32_t microBatch, PassHooks &hooks) { backward(microBatch, backwardPart(), hooks); }

    /// Buffers of communicating operator @p op of pass @p pass for @p microBatch; nothing (no bytes) for an empty
    /// slice.
    Communication communication(program::Pass pass, std::int32_t microBatch, std::int32_t op);
    /// To be called once it is done.
    void communicated(program::Pass pass, std::int32_t microBatch, std::int32_t op);

    /// This replica's part of the step's mean loss so far; reading it clears it. The queue must have ended the forward
    /// passes.
    double takeLoss() { return m_losses.take(); }

    /// Figures that the last backward pass left behind (admm::kFigures); empty: it leaves none. The queue must have
    /// ended it.
    [[nodiscard]] std::span<const float> figures() const
    {
        return {reinterpret_cast<const float *>(m_figuresRead.data()),
                static_cast<std::size_t>(m_figures.area < 0 ? 0 : m_figures.bytes) / sizeof(float)};
    }

    /// Forward without training over held-out samples from number @p begin on, with the shapes and slots of micro-batch
    /// 0. Errors: Failed (the device or the deadline).
    Status infer(std::int64_t begin, PassHooks &hooks);
    /// The loss of the micro-batch at hand; nullptr: it lies in another stage, or countsLoss() is false.
    [[nodiscard]] const std::byte *loss() const { return m_loss.area >= 0 ? m_addresses.at(m_loss) : nullptr; }
    [[nodiscard]] std::int64_t heldOut() const { return m_feeder.heldOut(); }

private:
    StageRunner(const program::Program &program, const program::Body &body, const ComputeContext &context,
                Feeder feeder, LossReader losses, std::int64_t seed);
    [[nodiscard]] Part forwardPart() const
    {
        return {0, static_cast<std::int32_t>(m_body.training.forwardOps), true, true, {}};
    }
    [[nodiscard]] Part backwardPart() const
    {
        return {static_cast<std::int32_t>(m_body.training.forwardOps),
                static_cast<std::int32_t>(m_body.training.graph.ops().size()),
                true,
                true,
                {}};
    }
    Status preparePasses();
    [[nodiscard]] std::int32_t firstWithSlotsOf(std::size_t microBatch) const;
    void findLoss();
    Status findFigures();
    const SizedPasses *begin(std::int32_t microBatch, bool training);
    [[nodiscard]] const SizedPasses *passesFor(std::int32_t microBatch) const;
    const CallList *select(program::Pass pass, std::int32_t microBatch);
    /// What comes before the operators of a pass.
    struct Opening {
        const CallList *accumulates = nullptr; ///< gradients that arrived
        const float *lossGradient = nullptr;
    };
    /// An operator, and where a memory policy places its arguments.
    struct Turn {
        const CallList *list = nullptr;
        const Call *call = nullptr;
        const std::int64_t *pooled = nullptr;
        [[nodiscard]] std::int32_t op() const
        {
            return list->firstOp + static_cast<std::int32_t>(call - list->calls.data());
        }
    };
    void run(const CallList &list, const Part &part, Opening opening, PassHooks &hooks);
    void runPooled(const SizedPasses &passes, const Part &part, const Opening &opening, PassHooks &hooks);
    template <class TurnOf>
    void giveAll(const PassGraphs::Key &key, const Opening &opening, std::int32_t count, const TurnOf &turnOf,
                 PassHooks &hooks);
    void giveMeasured(const Turn &turn);
    void giveOperator(const Turn &turn);
    void open(const Opening &opening);
    Status bringAhead(std::int32_t microBatch);
    Status inferAll(const CallList &list, PassHooks &hooks);
    void runCall(const CallList &list, const Call &call, device::Mode mode, const std::int64_t *pooled = nullptr);
    /// Of operator @p op without training; nullptr: tensors do not change their places.
    [[nodiscard]] const std::int64_t *placesOfInference(std::size_t op) const;
    Status bringParameters(std::int32_t op);
    void accumulate(const CallList &list, std::int32_t first, std::int32_t last);
    [[nodiscard]] Communication communicationOf(const CallList &list, std::int32_t op) const;
    /// Of the call that ran last.
    [[nodiscard]] device::ScoredRows scoredRows(const CallList &list, const Call &call) const;

    const program::Program &m_program;
    const program::Body &m_body;
    ComputeContext m_context;
    std::int64_t m_globalBatch;
    std::int64_t m_seed;
    std::int64_t m_step = 0; ///< of the passes at hand
    SlotAddresses m_addresses;
    Feeder m_feeder;
    LossReader m_losses;
    std::unique_ptr<device::Event> m_event;
    std::vector<SizedPasses> m_passes;
    std::vector<std::int32_t> m_passesOf; ///< per micro-batch: index into m_passes, -1 for an empty slice
    std::vector<std::int32_t> m_slotsOf;  ///< per micro-batch: the first one whose tensors lie at the same places
    std::int32_t m_slots = 0;             ///< of the micro-batch at hand
    std::int32_t m_measured = -1;         ///< micro-batch whose operators are measured now, -1: none
    PassGraphs m_graphs;
    bool m_captures = false; ///< some kernel can be captured
    Place m_loss;            ///< area -1: not counted here
    Place m_lossGradient;
    Place m_figures; ///< area -1: there are none
    device::Memory m_figuresRead;
    std::vector<const void *> m_inputPointers;
    std::vector<void *> m_outputPointers;
};

} // namespace planloom::runtime

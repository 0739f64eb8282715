// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/data/data_set.h"
#include "executor/data/order.h"
#include "executor/runtime/arena.h"
#include "executor/runtime/script.h"

#include <memory>
#include <vector>

namespace planloom::runtime {

/// Samples for the model's inputs: what is read, and which of it.
struct Feed {
    const data::DataSet *data = nullptr;
    data::Needs needs;
    data::SampleOrder order;
};

/// Loss and hits of some samples.
struct Scores {
    double loss = 0;   ///< summed up, each as often as weight says
    double weight = 0; ///< labels that count; samples where the model's loss is more than the cross-entropy of its labels
    double right = 0;
    double rows = 0; ///< labels that are right or wrong
};

/// Called between two operators, so that communication moves on while this rank computes.
class Between {
public:
    virtual ~Between() = default;
    virtual void betweenOperators() = 0;
    /// Does what communicating operator @p op of the stage says, and waits for it. False: it failed.
    virtual bool communicate(std::int32_t /*op*/, const Communication & /*what*/) { return false; }
};

/// A run of operators of a pass, and whether the pass begins or ends with it.
struct Part {
    std::int32_t first = 0;
    std::int32_t last = 0;
    bool opens = true;
    bool closes = true;
};

/// How this step updates parameters.
struct Update {
    std::int64_t step = 0;      ///< from 0
    double learningRate = 0;    ///< of this step, before the groups' factors
    double gradientScale = 1;
};

/// Runs the operators of one stage replica. Made before the first step; passes allocate nothing.
/// Thread contract: one thread.
class BodyRunner {
public:
    /// @p arena and @p feed must outlive it. Errors: Unsupported (an operator without kernel, an input that nothing feeds), Failed.
    static Result<std::unique_ptr<BodyRunner>> create(const program::Program &program, const program::Body &body, Arena &arena, const Feed &feed);

    /// First values of parameters, states and constants, as @p subject's tensors of the same name say.
    Status initialize(const graph::Graph &subject, std::int64_t seed, const std::string &modelFolder);

    void forward(std::int32_t microBatch, std::int64_t step, const Part &part, Between &between);
    void recompute(std::int32_t microBatch, const Part &part, Between &between);
    void backward(std::int32_t microBatch, const Part &part, Between &between);
    /// The rest of the backward pass, where the schedule cuts it.
    void weightGradient(std::int32_t microBatch, const Part &part, Between &between);
    /// Whole passes, of stages without boxing.
    void forward(std::int32_t microBatch, std::int64_t step, Between &between) { forward(microBatch, step, forwardPart(), between); }
    void backward(std::int32_t microBatch, Between &between) { backward(microBatch, backwardPart(), between); }

    /// What communicating operator @p op of pass @p pass moves for @p microBatch; nothing (no bytes) for an empty slice.
    Communication communication(program::Pass pass, std::int32_t microBatch, std::int32_t op);
    /// To be called once it is done.
    void communicated(program::Pass pass, std::int32_t microBatch, std::int32_t op);

    /// Sets up the groups of @p how; before the first optimize().
    void prepareUpdate(const plan::Optimizer &how);
    void optimize(const plan::Optimizer &how, const Update &update);
    /// The squared gradients that this rank answers for, summed up.
    [[nodiscard]] double squaredGradientNorm() const;

    /// Forward over held-out samples with the shapes of micro-batch 0; @p first is the number of the first held-out sample of the
    /// whole micro-batch. Samples past the last are fed from the start again and not counted.
    Scores score(std::int64_t first, Between &between);

    [[nodiscard]] std::int64_t heldOut() const { return m_feed.order.heldOut(); }
    /// This replica's part of the step's mean loss so far; reading it clears it.
    double takeLoss();

private:
    /// A model input of this stage.
    struct InputTensor {
        Place place; ///< for one sample
        bool labels = false;
        std::size_t index = 0; ///< among the feed's inputs, if it is not the labels
    };

    /// What a forward pass over held-out samples counts.
    struct Scoring {
        Scores scores;
        std::int64_t counted = 0; ///< the first so many samples of the slice
        std::int64_t samples = 0; ///< of the slice
    };

    BodyRunner(const program::Program &program, const program::Body &body, Arena &arena, const Feed &feed);
    [[nodiscard]] Part forwardPart() const { return {0, static_cast<std::int32_t>(m_body.training.forwardOps), true, true}; }
    [[nodiscard]] Part backwardPart() const
    {
        return {static_cast<std::int32_t>(m_body.training.forwardOps), static_cast<std::int32_t>(m_body.training.graph.ops().size()), true, true};
    }
    [[nodiscard]] const Script *scriptOf(program::Pass pass, std::int32_t microBatch) const;
    Status initializeHeld(const program::Held &held, const graph::Tensor &described, std::int64_t seed, const std::string &modelFolder);
    Status prepareInputs();
    Status prepareScripts();
    [[nodiscard]] const SizedScripts *scriptsFor(std::int32_t microBatch) const;
    void setSlots(std::int32_t microBatch);
    std::byte *at(const Place &place) { return m_arena.use(m_base[place.area] + place.offset, place.bytes); }
    template <class IndexOf>
    void fillInputs(std::int64_t samples, const IndexOf &indexOf);
    void drawFor(const SizedScripts &scripts, std::int32_t microBatch, bool training);
    void run(const Script &script, const Part &part, Between &between, Scoring *scoring = nullptr);
    void runCall(const Script &script, const Call &call, device::Kernel &kernel);
    Communication communicationOf(const Script &script, std::int32_t op);
    void countHits(const Script &script, const Call &loss, Scoring &scoring);
    void add(const Accumulation &accumulation);

    const program::Body &m_body;
    Arena &m_arena;
    const Feed &m_feed;
    std::int64_t m_globalBatch;
    std::int64_t m_seed = 0;
    std::int64_t m_step = 0; ///< of the passes at hand
    std::vector<SizedScripts> m_scripts;
    std::vector<std::int32_t> m_scriptOf; ///< per micro-batch: index into m_scripts, -1 for an empty slice
    std::vector<InputTensor> m_inputs;
    Place m_loss;         ///< area -1: the loss lies in another stage
    Place m_lossGradient;
    bool m_scoresLabels = false; ///< the loss is the mean over labels: it is summed up label by label
    std::int64_t m_base[program::kAreas] = {}; ///< arena offset of each area's slot of the micro-batch at hand
    /// One entry per Held that this rank updates.
    std::vector<device::UpdateRange> m_updates;
    std::vector<device::UpdateRange> m_normRanges; ///< those that no other rank counts
    std::vector<float> m_rateFactors;
    bool m_countsLoss = true; ///< ranks that share a slice all have its loss: one of them counts
    std::vector<const void *> m_inputPointers;
    std::vector<float> m_widened; ///< a row of bfloat16 logits that is scored
    std::vector<void *> m_outputPointers;
    double m_lossSum = 0;
};

} // namespace planloom::runtime

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
    double loss = 0;
    double right = 0;
    double rows = 0; ///< labels counted; those of -100 are not
};

/// Called between two operators, so that communication moves on while this rank computes.
class Between {
public:
    virtual ~Between() = default;
    virtual void betweenOperators() = 0;
};

/// Runs the operators of one stage replica. Made before the first step; passes allocate nothing.
/// Thread contract: one thread.
class BodyRunner {
public:
    /// @p arena and @p feed must outlive it. Errors: Unsupported (an operator without kernel, an input that nothing feeds), Failed.
    static Result<std::unique_ptr<BodyRunner>> create(const program::Program &program, const program::Body &body, Arena &arena, const Feed &feed);

    /// First values of parameters, states and constants, as @p subject's tensors of the same name say.
    Status initialize(const graph::Graph &subject, std::int64_t seed, const std::string &modelFolder);

    void forward(std::int32_t microBatch, std::int64_t step, Between &between);
    void recompute(std::int32_t microBatch, Between &between);
    void backward(std::int32_t microBatch, Between &between);
    void optimize(const plan::Optimizer &how, std::int64_t step);

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
    };

    /// What a forward pass over held-out samples counts.
    struct Scoring {
        Scores scores;
        std::int64_t counted = 0; ///< the first so many samples of the slice
        std::int64_t samples = 0; ///< of the slice
    };

    BodyRunner(const program::Program &program, const program::Body &body, Arena &arena, const Feed &feed);
    Status prepareInputs();
    Status prepareScripts();
    [[nodiscard]] const SizedScripts *scriptsFor(std::int32_t microBatch) const;
    void setSlots(std::int32_t microBatch);
    std::byte *at(const Place &place) { return m_arena.use(m_base[place.area] + place.offset, place.bytes); }
    template <class IndexOf>
    void fillInputs(std::int64_t samples, const IndexOf &indexOf);
    void run(const Script &script, Between &between, Scoring *scoring = nullptr);
    void countHits(const Script &script, const Call &loss, Scoring &scoring) const;
    void add(const Accumulation &accumulation);

    const program::Body &m_body;
    Arena &m_arena;
    const Feed &m_feed;
    std::int64_t m_globalBatch;
    std::vector<SizedScripts> m_scripts;
    std::vector<std::int32_t> m_scriptOf; ///< per micro-batch: index into m_scripts, -1 for an empty slice
    std::vector<InputTensor> m_inputs;
    Place m_loss;         ///< area -1: the loss lies in another stage
    Place m_lossGradient;
    std::int64_t m_base[program::kAreas] = {}; ///< arena offset of each area's slot of the micro-batch at hand
    std::vector<const void *> m_inputPointers;
    std::vector<void *> m_outputPointers;
    double m_lossSum = 0;
};

} // namespace planloom::runtime

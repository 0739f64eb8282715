// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/local_costs.h"
#include "engine/compile/layout.h"
#include "engine/compile/stage_tensors.h"
#include "engine/compile/vocabulary.h"
#include "engine/compile/stage_alike.h"
#include "engine/compile/zero.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace planloom::compile {

class FoldedTeams;
struct Buckets;

/// The results of compile() that all replicas of a stage share.
class StageModel {
public:
    /// @p before: the stage in front, whose outputs this one takes as they leave there; nullptr for the first.
    /// Error: Unsupported if the stage cannot be differentiated and @p mustRun; otherwise memory is estimated from
    /// activations. Errors of sharding.
    static Result<StageModel> make(const plan::Plan &plan, const plan::Subject &subject, StageId stage,
                                   const StageModel *before, bool mustRun);

    /// Stage @p stage, which is this one again with other tensors (stage_alike.h): for programs without bodies. Before
    /// applyZero.
    [[nodiscard]] StageModel again(const plan::Plan &plan, StageId stage, const Renaming &names) const;

    /// The same stage in another plan for the same subject: everything that does not depend on devices is shared with
    /// this one.
    [[nodiscard]] StageModel copyFor(const plan::Plan &plan, const plan::Subject &subject, StageId stage) const;

    /// The operators of every device of the stage.
    [[nodiscard]] const std::shared_ptr<const graph::TrainingGraph> &training() const { return m_training; }
    [[nodiscard]] const plan::Stage &stage() const { return *m_stage; }
    /// True if parts of forward run again within the backward pass.
    [[nodiscard]] bool repeats() const
    {
        return m_training
            && (m_stage->recompute == plan::Recompute::Selective || m_stage->recompute == plan::Recompute::Layers);
    }
    /// True if forward runs again as a whole before backward. A stage without operators cannot do it a layer at a time.
    [[nodiscard]] bool runsAgain() const
    {
        return m_stage->recompute == plan::Recompute::Full
            || (m_stage->recompute == plan::Recompute::Layers && !m_training);
    }
    [[nodiscard]] const sharding::Mesh &mesh() const { return m_tensors.mesh; }
    [[nodiscard]] const StageTensors &tensors() const { return m_tensors; }
    /// What a device that shares the stage's tensors does of a forward (or backward) pass of @p samples, 0..1: its own
    /// operators against the whole ones. Operators that nothing splits are done by every device in full.
    [[nodiscard]] double share(bool backward, double samples, std::size_t type) const;
    /// How activations leave, per entry of training()->outputs.
    [[nodiscard]] const std::vector<sharding::NdSbp> &outputs() const { return m_outputs; }

    /// Cuts parameters and gradients as the buckets say (ZeRO 2 and 3), of which those of @p rank, one of the stage's,
    /// are as all others'.
    Status applyZero(RankId rank, const Buckets &buckets, const FoldedTeams &teams);

    /// True if gradients of weights are a pass of their own.
    [[nodiscard]] bool splits() const { return m_splits; }
    /// Cuts the backward pass there, if it is: after applyZero, as the exchange of gradients goes with them.
    Status applySplit();
    /// True if that pass reads what goes back to the stage in front, so that it cannot be given away before.
    [[nodiscard]] bool keepsSentGradients() const;

    /// Shards of buckets among the tensors of training().
    struct Shards {
        std::vector<BucketTensor> parameters, gradients;
    };
    [[nodiscard]] const Shards &shards() const { return m_shards; }

    /// Places and slot sizes for slices of @p samples (rounded up where operators are known); remembered per size.
    [[nodiscard]] const StageLayout &layout(double samples) const;
    /// True if a gradient comes back over the cut after this stage.
    [[nodiscard]] bool returnsGradient() const;

private:
    StageModel() = default;
    Status shardStage(const plan::Plan &plan, const StageModel *before, graph::TrainingGraph logical);
    void adopt(graph::TrainingGraph training);
    void describeParameters(const graph::TrainingGraph &logical, const std::vector<sharding::ParameterShare> &shares);

    const plan::Subject *m_subject = nullptr;
    const plan::Stage *m_stage = nullptr; ///< of the plan that is compiled, which outlives this, as the subject does
    bool m_splits = false;
    std::shared_ptr<const graph::TrainingGraph> m_training; ///< shared with what is alike
    StageTensors m_tensors;
    std::vector<sharding::NdSbp> m_outputs;
    /// Times of a graph's forward operators, and of all.
    struct Work {
        std::shared_ptr<const cost::LocalCosts> costs; ///< null: everything is whole
        std::size_t forwardOps = 0;
        std::size_t ops = 0;
    };
    [[nodiscard]] Work workOf(const graph::TrainingGraph &training) const;
    Work m_whole, m_own;
    Shards m_shards;
    /// By samples; shared with what is alike, which may be on other threads.
    struct Layouts {
        std::mutex guard;
        std::map<std::pair<double, bool>, StageLayout> made; ///< and whether a memory policy places tensors
    };
    std::shared_ptr<Layouts> m_layouts = std::make_shared<Layouts>();
};

/// The operator that makes @p gradient; -1: none; LocalParameter::kMadeTogether: one that communicates.
std::int32_t readyAt(const graph::TrainingGraph &training, TensorId gradient);

} // namespace planloom::compile

// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/cost/operator_times.h"
#include "engine/plan/plan.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace planloom::ui {

/// What the operators of a box compute and hold, on one replica of their stages.
struct BoxFigures {
    double forwardFlops = 0;
    double backwardFlops = 0;         ///< of the gradients; 0 where there are none
    std::int64_t activationBytes = 0; ///< outputs; a view of another tensor has no bytes of its own
    std::int64_t parameterBytes = 0;  ///< a parameter that several operators read counts once
    std::int64_t parameters = 0;      ///< values in them
    double forwardSeconds = 0;        ///< 0 without a plan
    double backwardSeconds = 0;

    [[nodiscard]] double flops() const { return forwardFlops + backwardFlops; }
    [[nodiscard]] double seconds() const { return forwardSeconds + backwardSeconds; }
    [[nodiscard]] std::int64_t bytes() const { return activationBytes + parameterBytes; }
};

/// Figures of every operator of a model: of one sample without a plan; with one, of the largest slice of a micro-batch
/// that a replica of the operator's stage gets, with the times that the plan's costs give it (of devices that share a
/// slice, as if they shared all of it evenly; of a plan that trains by ADMM the forward pass alone). Immutable, to be
/// made and read on any thread.
class ModelFigures {
public:
    using DocumentPtr = std::shared_ptr<const plan::Document>;

    /// @p document: may be null; else a plan for @p graph. What @p before has computed of the same graph and costs is
    /// taken over. Cost: O(operators).
    ModelFigures(std::shared_ptr<const graph::Graph> graph, DocumentPtr document, const ModelFigures *before = nullptr);

    [[nodiscard]] BoxFigures of(std::span<const OpId> ops) const; ///< cost: O(operators of the box)
    [[nodiscard]] bool timed() const { return m_times != nullptr; }
    /// Samples of stage @p stage's largest slice of a micro-batch; 1 without a plan.
    [[nodiscard]] std::int64_t samplesOf(std::optional<std::size_t> stage) const;
    /// The stages that @p ops lie on, ascending; none without a plan.
    [[nodiscard]] std::vector<std::size_t> stagesOf(std::span<const OpId> ops) const;
    [[nodiscard]] const DocumentPtr &document() const { return m_document; }
    [[nodiscard]] const graph::Graph &graph() const { return *m_graph; }

private:
    struct PerSample {
        cost::Affine forward, backward, bytes;
    };
    void measure();
    void predict();
    void predict(OpId op, std::size_t stage, const std::vector<std::size_t> &types);

    std::shared_ptr<const graph::Graph> m_graph;
    DocumentPtr m_document;
    std::shared_ptr<const std::vector<PerSample>> m_perSample; ///< by operator
    std::shared_ptr<const cost::OperatorTimes> m_times;        ///< null without a plan
    std::vector<std::int64_t> m_samples;                       ///< by stage
    std::vector<int> m_stageOf;                                ///< by operator; empty without a plan
    std::vector<double> m_forward, m_backward;                 ///< seconds by operator; empty without a plan
};

} // namespace planloom::ui

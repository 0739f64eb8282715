// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/layout.h"
#include "engine/program/persistent.h"
#include "engine/program/program.h"
#include "engine/program/schedule.h"

#include <map>
#include <optional>
#include <vector>

namespace planloom::program {

/// What compile() works out once per stage, for all of its replicas.
class StageModel {
public:
    /// Error: Unsupported if the stage cannot be differentiated and @p mustRun; otherwise memory is estimated from activations.
    static Result<StageModel> make(const plan::Plan &plan, const plan::Subject &subject, StageId stage, bool mustRun);

    [[nodiscard]] const std::optional<graph::TrainingGraph> &training() const { return m_training; }
    StageHoldings &holdings() { return m_holdings; }
    [[nodiscard]] const StageHoldings &holdings() const { return m_holdings; }

    /// Places and slot sizes for slices of @p samples (rounded up where operators are known); remembered per size.
    const StageLayout &layout(double samples);
    /// True if a gradient comes back over the cut after this stage.
    [[nodiscard]] bool returnsGradient();

private:
    StageModel() = default;
    const plan::Subject *m_subject = nullptr;
    plan::Stage m_stage;
    std::optional<graph::TrainingGraph> m_training;
    StageHoldings m_holdings;
    std::map<double, StageLayout> m_layouts;
};

/// True if the graph is a layer profile: it has times and sizes but nothing to execute, and slices of it need not be whole samples.
bool isLayerProfile(const graph::Graph &graph);

} // namespace planloom::program

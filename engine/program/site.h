// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "engine/program/schedule.h"
#include "engine/program/slots.h"
#include "engine/program/stage_model.h"

#include <vector>

namespace planloom::program {

/// A rank's place in the plan: one replica of one stage, and what it does in which order.
struct RankSite {
    StageId stage;
    std::size_t replica = 0;
    std::size_t device = 0; ///< in the stage's mesh
    std::vector<PassStep> order;
    SlotPlan slotPlan;
};

/// How many samples pass where. A layer profile's times are linear and nothing of it is executed: there micro-batches are all
/// alike and slices are exact shares; elsewhere both are whole samples.
class Samples {
public:
    Samples(const plan::Plan &plan, const graph::Graph &graph) : m_plan(plan), m_proportional(isLayerProfile(graph)) {}
    [[nodiscard]] double microBatch(std::int64_t m) const;
    [[nodiscard]] double slice(const RankSite &site, std::int64_t m) const;
    [[nodiscard]] double largestSlice(const RankSite &site) const;

private:
    const plan::Plan &m_plan;
    bool m_proportional;
};

/// What the steps of compile() share. `program` grows from step to step.
struct Compilation {
    const plan::Plan &plan;
    const plan::Subject &subject;
    Samples samples;
    Program program;
    std::vector<StageModel> stages;
    std::vector<RankSite> sites; ///< per rank

    [[nodiscard]] const plan::Stage &stageOf(const RankSite &site) const { return plan.stages[site.stage.index()]; }
    [[nodiscard]] bool isFirst(const RankSite &site) const { return site.stage.value == 0; }
    [[nodiscard]] bool isLast(const RankSite &site) const { return site.stage.index() + 1 == plan.stages.size(); }
    [[nodiscard]] const std::vector<RankId> &ranksOf(std::size_t stage) const { return stages[stage].holdings().ranks; }
};

/// Lays out the arena of @p rank and appends its Body; operators, places and messages only if @p complete.
void buildBody(Compilation &all, RankId rank, bool complete);

/// Appends every rank's tasks with dependencies and groups, and the bounds on time.
void buildTasks(Compilation &all);

} // namespace planloom::program

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/shape.h"
#include "engine/compile/compile.h"
#include "engine/compile/fold.h"
#include "engine/compile/vocabulary.h"
#include "engine/compile/slots.h"
#include "engine/compile/stage_memory.h"
#include "engine/compile/stage_model.h"
#include "engine/compile/teams.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace planloom::compile {

/// A body's place in the plan: one replica of one stage, or a shard of it, on one rank.
struct RankSite {
    StageId stage;
    RankId rank;
    std::size_t replica = 0;
    std::size_t device = 0; ///< in the stage's mesh
    SlotPlan slotPlan;
};

/// How many samples pass where. A layer profile's times are linear and nothing of it is executed: there micro-batches
/// are all alike and slices are exact shares; elsewhere both are whole samples.
class Samples {
public:
    Samples(const plan::Plan &plan, const graph::Graph &graph) : m_plan(plan), m_proportional(isLayerProfile(graph)) {}
    [[nodiscard]] double microBatch(std::int64_t m) const;
    [[nodiscard]] double slice(const RankSite &site, std::int64_t m) const;
    [[nodiscard]] double largestSlice(const RankSite &site) const;

private:
    [[nodiscard]] const std::vector<std::int64_t> &sizes(std::size_t stage, std::int64_t samples) const;

    const plan::Plan &m_plan;
    bool m_proportional;
    mutable std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::int64_t>>
        m_sizes; ///< of the replicas' slices, by stage and samples
};

/// The state that the steps of compile() share. `program` grows from step to step.
struct Compilation {
    Compilation(const plan::Plan &thePlan, const plan::Subject &theSubject)
        : plan(thePlan),
          subject(theSubject),
          samples(thePlan, *theSubject.graph),
          sets({}),
          shapes(*theSubject.cluster)
    {
    }

    const plan::Plan &plan;
    const plan::Subject &subject;
    Samples samples;
    Program program;
    std::vector<StageModel> stages;
    std::vector<RankSite> sites;                             ///< per body
    std::vector<std::vector<PassStep>> orders;               ///< per rank
    std::vector<std::vector<std::size_t>> sitesOf;           ///< per stage, in the order of its mesh
    std::vector<std::unordered_set<std::string>> parameters; ///< per stage: their names
    /// Per site: the buckets that its body updates, those of its rank whose parameters no earlier stage there has.
    std::vector<std::vector<BucketId>> bucketsAt;
    std::vector<std::optional<StageMemory>> memory; ///< per site; empty: no stage has a policy
    TeamSets sets;
    cluster::Shapes shapes;
    Fold fold;
    std::optional<FoldedTeams> teams;

    [[nodiscard]] const plan::Stage &stageOf(const RankSite &site) const { return plan.stages[site.stage.index()]; }
    [[nodiscard]] const StageMemory *memoryOf(std::size_t site) const
    {
        return site < memory.size() && memory[site] ? &*memory[site] : nullptr;
    }
    [[nodiscard]] bool isFirst(const RankSite &site) const { return site.stage.value == 0; }
    [[nodiscard]] bool isLast(const RankSite &site) const { return site.stage.index() + 1 == plan.stages.size(); }
    [[nodiscard]] const std::vector<RankId> &ranksOf(std::size_t stage) const { return stages[stage].holdings().ranks; }
    /// True if nothing has to travel from stage @p stage to the next: both lie on the same devices.
    [[nodiscard]] bool staysOnDevice(std::size_t stage) const
    {
        return stage + 1 < plan.stages.size() && plan.stages[stage].devices == plan.stages[stage + 1].devices;
    }
    [[nodiscard]] bool splits(std::size_t stage) const { return stages[stage].splits(); }
    [[nodiscard]] bool hasParameter(std::size_t stage, const std::string &name) const
    {
        return parameters[stage].contains(name);
    }
};

/// True if replicas of a stage have several devices, among which passes communicate.
inline bool sharesTensors(const plan::Plan &plan)
{
    return std::any_of(plan.stages.begin(), plan.stages.end(),
                       [](const plan::Stage &stage) { return stage.shards() > 1; });
}

/// Fills in everything of @p all, which has a plan and a subject, up to what bodies and tasks are made from. @p roomy:
/// with a place for every micro-batch wherever stages meet, so that an order runs if it can.
Status prepare(Compilation &all, const Options &options, bool roomy = false);

/// Makes the body of every site, in their order, and lays out the ranks' arenas; operators, places and messages only if
/// @p complete.
void buildBodies(Compilation &all, bool complete);

/// Appends every rank's tasks with dependencies and groups, and the bounds on time.
void buildTasks(Compilation &all);

} // namespace planloom::compile

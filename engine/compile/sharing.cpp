// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/sharing.h"

#include "engine/plan/replica_machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace planloom::compile {
namespace {

/// One use of a parameter by a stage.
struct Use {
    std::size_t stage = 0;
    const LocalParameter *parameter = nullptr;
};

/// Finds out who shares which parameters.
class Sharing {
public:
    Sharing(const std::vector<StageModel> &stages, const PlannedRanks &ranks, const Source &source, TeamSets &sets)
        : m_exchange(source.plan.exchange),
          m_ranks(ranks),
          m_sets(sets)
    {
        if (m_exchange.averages() && m_exchange.averaging.inside == plan::Inside::Machine)
            m_machines = plan::replicaMachines(source.plan, *source.subject.cluster);
        for (const StageModel &stage : stages)
            m_stages.push_back(&stage.tensors());
    }

    Result<std::vector<SharedParameter>> find()
    {
        for (std::size_t s = 0; s < m_stages.size(); ++s) {
            for (const LocalParameter &parameter : m_stages[s]->parameters) {
                auto &uses = m_uses[parameter.name];
                if (uses.empty())
                    m_names.push_back(&parameter.name);
                uses.push_back({s, &parameter});
            }
        }
        for (const std::string *name : m_names)
            if (const Status added = add(m_uses[*name]); !added)
                return added.error();
        return std::move(m_shared);
    }

private:
    Status add(const std::vector<Use> &uses)
    {
        if (Status averaged = checkAveraged(uses); !averaged)
            return averaged;
        std::vector<TeamSets::Use> joined;
        for (const Use &use : uses) {
            if (uses.size() > 1 && !fit(uses.front(), use))
                return unsupported("parameter " + use.parameter->name + " is used by stages "
                                   + std::to_string(uses.front().stage) + " and " + std::to_string(use.stage)
                                   + ", which cut it differently; give both the same mesh beyond its first dimension "
                                     "and the same sharding, or put both uses into one stage");
            joined.emplace_back(use.stage, use.parameter->reduceOver);
        }
        const std::int32_t set = m_sets.add(joined);
        const bool alone = m_sets.set(set).team(0).size() < 2;
        const bool cut = alone || uses.front().parameter->table != nullptr;
        const int zero = cut ? 0 : std::min(m_stages[uses.front().stage]->zero, uses.size() > 1 ? 1 : 3);
        // What one gather brings is what one layer needs.
        m_shared.push_back({uses.front().parameter, set, zero, zero >= 2 ? uses.front().parameter->layer + 1 : 0,
                            insideOf(uses.front(), set)});
        return {};
    }

    /// An averaged parameter has one use (checkAveraged).
    std::int32_t insideOf(const Use &use, std::int32_t set)
    {
        if (m_machines.empty() || policyOf(*use.parameter) != plan::ExchangePolicy::DelayedAveraging)
            return -1;
        std::vector<std::int32_t> machineOf(m_ranks.devices.size(), -1);
        const std::vector<RankId> &ranks = m_ranks.ofStage[use.stage];
        for (std::size_t device = 0; device < ranks.size(); ++device)
            machineOf[ranks[device].index()] = m_machines[device * m_machines.size() / ranks.size()];
        return m_sets.divide(set, machineOf);
    }

    [[nodiscard]] plan::ExchangePolicy policyOf(const LocalParameter &parameter) const
    {
        return m_exchange.policyOf(m_exchange.groupOf(parameter.name, parameter.sizes.size()));
    }

    /// Local steps sum up no gradients: a replica must make those of an averaged parameter by itself, on one device.
    [[nodiscard]] Status checkAveraged(const std::vector<Use> &uses) const
    {
        const LocalParameter &parameter = *uses.front().parameter;
        if (policyOf(parameter) != plan::ExchangePolicy::DelayedAveraging)
            return {};
        if (uses.size() > 1)
            return unsupported(
                fmt::format("parameter {} is used by stages {} and {}, which sum up its gradients in every "
                            "step; exchange dasgd needs both uses in one stage",
                            parameter.name, uses[0].stage, uses[1].stage));
        const sharding::Mesh &mesh = m_stages[uses.front().stage]->mesh;
        for (const int dimension : parameter.reduceOver)
            if (dimension > 0 && mesh.sizes[static_cast<std::size_t>(dimension)] > 1)
                return unsupported(
                    fmt::format("the devices of each replica of stage {} sum up the gradients of "
                                "parameter {}, which exchange dasgd does not do yet; cut the stage without "
                                "sequence parallelism, or exchange by all-reduce",
                                uses.front().stage, parameter.name));
        return {};
    }

    [[nodiscard]] bool fit(const Use &first, const Use &use) const
    {
        return m_sets.teamsOver({first.stage, first.parameter->reduceOver})
            == m_sets.teamsOver({use.stage, use.parameter->reduceOver})
            && use.parameter->elements == first.parameter->elements && use.parameter->type == first.parameter->type
            && sameParts(first, use);
    }

    /// Each team's part of the parameter is that of its first device.
    [[nodiscard]] bool sameParts(const Use &first, const Use &use) const { return partsOf(first) == partsOf(use); }

    [[nodiscard]] std::vector<sharding::Region> partsOf(const Use &use) const
    {
        const sharding::Mesh &mesh = m_stages[use.stage]->mesh;
        std::vector<sharding::Region> parts;
        const std::vector<std::int32_t> teamOf = teamOfDevices(mesh, use.parameter->reduceOver);
        for (std::size_t device = 0; device < teamOf.size(); ++device)
            if (static_cast<std::size_t>(teamOf[device]) == parts.size())
                parts.push_back(
                    sharding::regionOf(use.parameter->sizes, use.parameter->sbp, mesh, static_cast<int>(device)));
        return parts;
    }

    const plan::Exchange &m_exchange;
    const PlannedRanks &m_ranks;
    TeamSets &m_sets;
    std::vector<std::int32_t> m_machines; ///< per replica; empty: none sums up with others in local steps
    std::vector<const StageTensors *> m_stages;
    std::vector<const std::string *> m_names; ///< in the order of first appearance
    std::unordered_map<std::string, std::vector<Use>> m_uses;
    std::vector<SharedParameter> m_shared;
};

} // namespace

Result<Communication> findCommunication(const std::vector<StageModel> &stages, const PlannedRanks &ranks,
                                        const Source &source)
{
    std::vector<sharding::Mesh> meshes;
    for (const StageModel &stage : stages)
        meshes.push_back(stage.mesh());
    Communication found{TeamSets(std::move(meshes), ranks.ofStage), {}};
    auto shared = Sharing(stages, ranks, source, found.sets).find();
    if (!shared)
        return shared.error();
    found.parameters = *std::move(shared);
    for (std::size_t s = 0; s < stages.size(); ++s)
        if (stages[s].training())
            for (const graph::Op &op : stages[s].training()->graph.ops())
                if (op.traits().communicates())
                    found.sets.add({{s, dimensionsOf(op)}});
    return found;
}

} // namespace planloom::compile

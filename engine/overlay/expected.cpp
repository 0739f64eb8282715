// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/expected.h"

#include "engine/cost/operator_times.h"

#include <algorithm>
#include <set>
#include <utility>

namespace planloom::overlay {
namespace {

using program::Compute;
using program::Pass;
using program::Program;
using program::Task;

/// "h/0/attn" and "h.0.attn" are one scope.
std::string normalised(std::string_view scope)
{
    std::string made(scope);
    std::ranges::replace(made, '/', '.');
    return made;
}

bool isParameter(const graph::Graph &graph, TensorId id)
{
    return id.valid() && graph.tensor(id).role == graph::TensorRole::Parameter;
}

/// The addition of a bias to what @p before makes.
bool isBiasOf(const graph::Graph &graph, const graph::Op &op, const graph::Op &before)
{
    if (op.type != "Add" || op.inputs.size() != 2 || before.outputs.empty())
        return false;
    const TensorId product = before.outputs.front();
    return (op.inputs[0] == product && isParameter(graph, op.inputs[1]))
        || (op.inputs[1] == product && isParameter(graph, op.inputs[0]));
}

} // namespace

Expected::Expected(const plan::Document &document, const Program &program) : m_document(document), m_program(program)
{
    makeUnits();
    makeCandidates();
    for (std::size_t i = 0; i < program.tasks.size(); ++i) {
        const Task &task = program.tasks[i];
        const auto *run = task.as<Compute>();
        if (run != nullptr && (run->pass == Pass::Forward || run->pass == Pass::Backward))
            m_tasks[{task.rank.value, run->pass == Pass::Backward, task.stage.index(), task.microBatch}].emplace_back(
                static_cast<std::int64_t>(i));
    }
    predict();
}

void Expected::makeUnits()
{
    const graph::Graph &graph = *m_document.subject.graph;
    const graph::LayerView &layers = m_document.subject.layers();
    m_ofStage.resize(m_document.plan.stages.size());
    std::size_t layer = 0;
    std::size_t stage = 0;
    const graph::Op *before = nullptr;
    for (const graph::Op &op : graph.ops()) {
        while (layer + 1 < layers.size() && op.id >= layers.layers[layer].last)
            ++layer;
        while (stage + 1 < m_ofStage.size() && layer >= m_document.plan.stages[stage].lastLayer)
            ++stage;
        const OpKind kind = kindOf(op);
        const bool joins = before != nullptr && isBiasOf(graph, op, *before)
            && (m_units.back().kind == OpKind::Product || m_units.back().kind == OpKind::Convolution)
            && m_units.back().stage == stage;
        before = &op;
        if (joins) {
            m_units.back().ops.push_back(op.id);
        } else if (op.traits().cost != graph::CostClass::View) {
            m_ofStage[stage].push_back(m_units.size());
            Unit unit;
            unit.ops = {op.id};
            unit.kind = kind;
            unit.layer = layer;
            unit.stage = stage;
            m_units.push_back(std::move(unit));
        } else {
            before = nullptr;
            continue;
        }
        const std::string scope = normalised(op.scope);
        for (std::size_t end = 0; end < scope.size();) {
            end = std::min(scope.find('.', end + 1), scope.size());
            m_scopes[scope.substr(0, end)].push_back(m_units.size() - 1);
        }
        m_scopes[normalised(op.name)].push_back(m_units.size() - 1);
    }
}

void Expected::makeCandidates()
{
    std::vector<std::set<std::size_t>> stages(m_program.ranks.size());
    m_rankOfStage.assign(m_ofStage.size(), -1);
    for (const Task &task : m_program.tasks) {
        if (task.as<Compute>() == nullptr || !task.stage.valid())
            continue;
        stages[task.rank.index()].insert(task.stage.index());
        std::int32_t &first = m_rankOfStage[task.stage.index()];
        first = first < 0 ? task.rank.value : std::min(first, task.rank.value);
    }
    for (std::size_t rank = 0; rank < stages.size(); ++rank)
        m_candidates.push_back({false, {static_cast<std::int32_t>(rank)}, {stages[rank].begin(), stages[rank].end()}});
    Candidate whole{true, {}, {}};
    for (std::size_t stage = 0; stage < m_ofStage.size(); ++stage) {
        whole.stages.push_back(stage);
        whole.ranks.push_back(m_rankOfStage[stage]);
    }
    if (!m_candidates.empty() && m_candidates.front().stages.size() < whole.stages.size())
        m_candidates.push_back(std::move(whole));
}

void Expected::predict()
{
    const cost::OperatorTimes times(*m_document.subject.costs);
    const plan::Plan &plan = m_document.plan;
    std::vector<double> forward(m_ofStage.size()), backward(m_ofStage.size());
    for (const Task &task : m_program.tasks) {
        const auto *run = task.as<Compute>();
        if (run == nullptr || task.rank.value != m_rankOfStage[task.stage.index()])
            continue;
        if (run->pass == Pass::Forward)
            forward[task.stage.index()] += task.duration.value();
        else if (run->pass != Pass::Recompute)
            backward[task.stage.index()] += task.duration.value();
    }
    for (std::size_t stage = 0; stage < m_ofStage.size(); ++stage) {
        const plan::Stage &of = plan.stages[stage];
        const auto samples = static_cast<double>(
            std::max<std::int64_t>(1, plan::replicaRange(of, 0, plan::microBatchRange(plan, 0).size).size));
        const std::size_t type =
            of.devices.empty() ? 0 : m_document.subject.cluster->devices()[of.devices.front().index()].type;
        double forwardSum = 0, backwardSum = 0;
        for (const std::size_t at : m_ofStage[stage]) {
            Unit &unit = m_units[at];
            for (const OpId op : unit.ops) {
                unit.forward += times.forward(op, samples, type).value();
                unit.backward += times.backward(op, samples, type).value();
            }
            unit.trained = unit.backward > 0;
            forwardSum += unit.forward;
            backwardSum += unit.backward;
        }
        for (const std::size_t at : m_ofStage[stage]) {
            m_units[at].forward *= forwardSum > 0 ? forward[stage] / forwardSum : 0;
            m_units[at].backward *= backwardSum > 0 ? backward[stage] / backwardSum : 0;
        }
    }
}

std::vector<PassOf> Expected::passes(const Candidate &candidate, std::int64_t microBatches) const
{
    std::vector<PassOf> made;
    const auto add = [&](bool backward, std::int64_t microBatch, std::vector<std::size_t> stages) {
        PassOf pass{backward, static_cast<std::int32_t>(microBatch), {}};
        for (const std::size_t stage : stages)
            pass.units.insert(pass.units.end(), m_ofStage[stage].begin(), m_ofStage[stage].end());
        if (backward) {
            std::ranges::reverse(pass.units);
            std::erase_if(pass.units, [this](std::size_t unit) { return !m_units[unit].trained; });
        }
        made.push_back(std::move(pass));
    };
    if (!candidate.whole && microBatches == m_document.plan.microBatches) {
        const program::Rank &rank = m_program.ranks[static_cast<std::size_t>(candidate.ranks.front())];
        for (const TaskId id : rank.computeOrder()) {
            const Task &task = m_program.task(id);
            const auto *run = task.as<Compute>();
            if (run != nullptr && run->opens && (run->pass == Pass::Forward || run->pass == Pass::Backward))
                add(run->pass == Pass::Backward, task.microBatch, {task.stage.index()});
        }
        return made;
    }
    for (std::int64_t m = 0; m < microBatches; ++m) {
        add(false, m, candidate.stages);
        add(true, m, candidate.stages);
    }
    return made;
}

TaskId Expected::task(std::int32_t rank, bool backward, std::size_t stage, std::int32_t microBatch) const
{
    const auto found = m_tasks.find({rank, backward, stage, microBatch});
    return found == m_tasks.end() || found->second.size() != 1 ? TaskId() : found->second.front();
}

std::int32_t Expected::rankOf(const Candidate &candidate, std::size_t stage) const
{
    return candidate.whole ? m_rankOfStage[stage] : candidate.ranks.front();
}

std::string Expected::scopeOf(std::string_view range) const
{
    std::string name = normalised(range);
    return m_scopes.contains(name) ? name : std::string();
}

void Expected::numberScopes(const std::vector<std::string> &scopes)
{
    for (std::size_t number = 0; number < scopes.size(); ++number) {
        const auto found = m_scopes.find(scopes[number]);
        if (found == m_scopes.end())
            continue;
        for (const std::size_t unit : found->second)
            if (m_units[unit].scopes.empty() || m_units[unit].scopes.back() != static_cast<std::int32_t>(number))
                m_units[unit].scopes.push_back(static_cast<std::int32_t>(number));
    }
}

} // namespace planloom::overlay

// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/stage_model.h"

#include "engine/admm/training_graph.h"
#include "engine/graph/rewrite/recompute.h"
#include "engine/graph/rewrite/split_backward.h"
#include "engine/compile/lower.h"
#include "engine/compile/zero.h"
#include "engine/sharding/shard.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace planloom::compile {
namespace {

using graph::TensorRole;

void holdOther(const graph::Tensor &tensor, StageTensors &tensors)
{
    if (tensor.role == TensorRole::State || tensor.role == TensorRole::Constant)
        tensors.others.push_back({tensor.id, tensor.name, tensor.type, tensor.shape.at(1), tensor.bytes(1).value(),
                                  tensor.role == TensorRole::Constant, tensor.shape.batched()});
}

LocalParameter wholeParameter(const graph::Tensor &tensor, const sharding::Mesh &mesh)
{
    LocalParameter held{tensor.id,
                        tensor.name,
                        tensor.type,
                        tensor.shape.at(1),
                        sharding::NdSbp(mesh.sizes.size()),
                        {},
                        tensor.shape.elements(1),
                        true,
                        0};
    if (mesh.sizes.front() > 1)
        held.reduceOver.push_back(0);
    return held;
}

/// For stages without operators that run: everything whole on every device.
void holdWhole(const graph::Graph &graph, OpId first, OpId last, StageTensors &tensors)
{
    std::set<TensorId> seen;
    for (OpId op = first; op < last; op = OpId(op.value + 1)) {
        for (const TensorId id : graph.op(op).inputs) {
            if (!id.valid() || !seen.insert(id).second)
                continue;
            if (graph.tensor(id).role == TensorRole::Parameter)
                tensors.parameters.push_back(wholeParameter(graph.tensor(id), tensors.mesh));
            else
                holdOther(graph.tensor(id), tensors);
        }
    }
}

std::size_t layerOf(const graph::TrainingGraph &training, TensorId parameter, const graph::LayerView &layers,
                    const graph::Graph &model)
{
    const auto readers = training.graph.consumers(parameter);
    if (readers.empty())
        return 0;
    // Operators keep their scope whatever rewrites make of them, and a layer is a scope.
    const std::string &inside = training.graph.op(readers.front()).scope;
    for (std::size_t l = 0; l < layers.size(); ++l) {
        const std::string &scope = model.op(layers.layers[l].first).scope;
        if (scope.empty() || !inside.starts_with(scope))
            continue;
        if (inside.size() == scope.size() || inside[scope.size()] == '/') // h/1 is not around h/10
            return l;
    }
    return 0;
}

sharding::Mesh meshOf(const plan::Stage &stage)
{
    sharding::Mesh mesh;
    mesh.sizes = stage.mesh.empty() ? std::vector<int>{static_cast<int>(stage.devices.size())} : stage.mesh;
    return mesh;
}

/// What runs again within the backward pass. The layer of the loss does not: its backward follows at once.
std::vector<graph::Rerun> rerunsOf(const plan::Stage &stage, const graph::LayerView &layers,
                                   const graph::TrainingGraph &training)
{
    if (stage.recompute == plan::Recompute::Selective)
        return graph::attentionCores(training);
    std::vector<graph::Rerun> runs;
    const std::size_t begin = layers.layers[stage.firstLayer].first.index();
    for (std::size_t l = stage.firstLayer; stage.recompute == plan::Recompute::Layers && l < stage.lastLayer; ++l) {
        const graph::Rerun run{layers.layers[l].first.index() - begin, layers.layers[l].last.index() - begin, false};
        const OpId loss = training.loss.valid() ? training.graph.tensor(training.loss).producer : OpId();
        if (!loss.valid() || loss.index() < run.first || loss.index() >= run.last)
            runs.push_back(run);
    }
    return runs;
}

/// True if every operator has its own time on every device (stage_parts.cpp), so that a device's share of a layer's
/// time is not needed.
bool timesOperators(const plan::Subject &subject)
{
    const auto profile = subject.costs->profile();
    const auto types = subject.cluster->types();
    return (!profile || profile->ops.empty())
        && std::all_of(types.begin(), types.end(),
                       [](const cluster::DeviceType &type) { return cost::DeviceModel::of(type).has_value(); });
}

/// The dimensions behind the data-parallel one.
std::vector<int> inner(const sharding::Mesh &mesh) { return {mesh.sizes.begin() + 1, mesh.sizes.end()}; }

} // namespace

std::int32_t readyAt(const graph::TrainingGraph &training, TensorId gradient)
{
    const OpId producer = gradient.valid() ? training.graph.tensor(gradient).producer : OpId();
    const bool together = producer.valid() && training.graph.op(producer).traits().communicates();
    return together ? LocalParameter::kMadeTogether : producer.value;
}

Result<StageModel> StageModel::make(const plan::Plan &plan, const plan::Subject &subject, StageId stage,
                                    const StageModel *before, bool mustRun)
{
    StageModel model;
    model.m_subject = &subject;
    model.m_stage = &plan.stages[stage.index()];
    model.m_tensors.mesh = meshOf(*model.m_stage);
    model.m_tensors.zero = model.m_stage->zero;
    if (plan.admm)
        for (std::size_t device = 0; device < model.m_stage->devices.size(); ++device)
            model.m_tensors.samples.push_back(
                plan::replicaRange(*model.m_stage, device / model.m_stage->shards(), plan.globalBatch));
    model.m_splits = plan::splitsBackward(plan.schedule, stage.index());
    const graph::LayerView &layers = subject.layers();
    const OpId first = layers.layers[model.m_stage->firstLayer].first;
    const OpId last = layers.layers[model.m_stage->lastLayer - 1].last;
    const std::vector<TensorId> none;
    const auto &incoming = model.m_stage->firstLayer > 0 ? layers.cuts[model.m_stage->firstLayer] : none;
    const auto &outgoing = model.m_stage->lastLayer < layers.size() ? layers.cuts[model.m_stage->lastLayer] : none;
    if (mustRun || !isLayerProfile(*subject.graph)) {
        auto training = plan.admm
            ? admm::trainingGraph(*subject.graph, *plan.admm, static_cast<std::int64_t>(model.m_stage->replicas()))
            : graph::differentiate(*subject.graph, first, last, incoming, outgoing);
        if (!training && (mustRun || training.error().code != ErrorCode::Unsupported))
            return training.error();
        if (training) {
            if (const auto runs = rerunsOf(*model.m_stage, layers, *training); !runs.empty())
                training = graph::rerun(*training, runs);
            if (!training)
                return training.error();
            if (plan.admm)
                model.m_tensors.stateName = admm::stateNames(*subject.graph, *plan.admm);
            if (const Status sharded = model.shardStage(plan, before, *std::move(training)); !sharded)
                return sharded.error();
            return model;
        }
    }
    holdWhole(*subject.graph, first, last, model.m_tensors);
    return model;
}

StageModel StageModel::copyFor(const plan::Plan &plan, const plan::Subject &subject, StageId stage) const
{
    StageModel model = *this;
    model.m_subject = &subject;
    model.m_stage = &plan.stages[stage.index()];
    return model;
}

StageModel StageModel::again(const plan::Plan &plan, StageId stage, const Renaming &names) const
{
    StageModel model = *this;
    const auto rename = [&names](std::string &name) {
        if (const auto found = names.find(name); found != names.end())
            name = found->second;
    };
    model.m_stage = &plan.stages[stage.index()];
    for (LocalParameter &parameter : model.m_tensors.parameters) {
        rename(parameter.name);
        parameter.layer += model.m_stage->firstLayer - m_stage->firstLayer;
    }
    for (LocalTensor &other : model.m_tensors.others)
        rename(other.name);
    // What is cut later on, bucket by bucket, is laid out for itself.
    if (m_splits || m_stage->zero > 1)
        model.m_layouts = std::make_shared<Layouts>();
    return model;
}

Status StageModel::shardStage(const plan::Plan &plan, const StageModel *before, graph::TrainingGraph logical)
{
    const sharding::NdSbp whole(mesh().sizes.size());
    std::vector<sharding::ParameterShare> shares;
    graph::TrainingGraph local;
    // Data parallel only, or written for the mesh: every device runs the stage as it is.
    if (mesh().devices() == mesh().sizes.front() || plan.admm) {
        for (const TensorId id : logical.parameters)
            shares.push_back({whole, logical.graph.tensor(id).shape,
                              mesh().sizes.front() > 1 && !plan.admm ? std::vector<int>{0} : std::vector<int>{}});
        m_outputs.assign(logical.outputs.size(), whole);
        local = logical;
    } else {
        sharding::Request request;
        request.mesh = mesh();
        for (const auto &[tensor, text] : m_stage->shardings) {
            // Often the shardings of a whole model are given to each of its stages.
            if (tensor.find('*') == std::string::npos && !logical.graph.find(tensor).valid())
                continue;
            auto sbp = sharding::fromText(text);
            if (!sbp)
                return sbp.error();
            request.pins[tensor] = *std::move(sbp);
        }
        request.inputs.assign(logical.inputs.size(), whole);
        if (before != nullptr && inner(before->mesh()) == inner(mesh()))
            request.inputs = before->outputs();
        // Behind the last stage of the same inner mesh everything leaves whole: the next one cuts it as it likes.
        const bool last = m_stage->lastLayer == m_subject->layers().size();
        const plan::Stage *next = nullptr;
        for (const plan::Stage &stage : plan.stages)
            if (!last && stage.firstLayer == m_stage->lastLayer)
                next = &stage;
        const bool alike = next != nullptr && inner(meshOf(*next)) == inner(mesh());
        request.outputs.assign(logical.outputs.size(), alike ? sharding::NdSbp{} : whole);
        auto sharded = sharding::shard(logical, request);
        if (!sharded)
            return sharded.error();
        shares = std::move(sharded->parameters);
        m_outputs = std::move(sharded->outputs);
        local = std::move(sharded->local);
        if (!timesOperators(*m_subject)) {
            m_whole = workOf(logical);
            m_own = workOf(local);
        }
    }
    const bool onProcessors = std::any_of(m_stage->devices.begin(), m_stage->devices.end(), [&](DeviceId device) {
        return m_subject->cluster->typeOf(device).isProcessor();
    });
    auto lowered = lower(std::move(local), plan, onProcessors);
    if (!lowered)
        return lowered.error();
    std::vector<RowTable> tables;
    if (plan.exchange.hasTables()) {
        auto rows = useRows(*std::move(lowered), plan, *m_stage);
        if (!rows)
            return rows.error();
        lowered = std::move(rows->training);
        tables = std::move(rows->tables);
    }
    m_training = std::make_shared<const graph::TrainingGraph>(*std::move(lowered));
    describeParameters(logical, shares);
    for (RowTable &table : tables)
        for (LocalParameter &held : m_tensors.parameters)
            if (held.name == table.parameter) {
                held.elements = table.window * table.columns;
                held.table = std::make_shared<const RowTable>(std::move(table));
                break;
            }
    for (const graph::Tensor &tensor : m_training->graph.tensors())
        holdOther(tensor, m_tensors);
    for (LocalTensor &other : m_tensors.others)
        other.ofTraining = plan.admm && !other.constant && !m_subject->graph->find(other.name).valid();
    return {};
}

StageModel::Work StageModel::workOf(const graph::TrainingGraph &training) const
{
    return {std::make_shared<const cost::LocalCosts>(*m_subject->costs, training.graph), training.forwardOps,
            training.graph.ops().size()};
}

double StageModel::share(bool backward, double samples, std::size_t type) const
{
    const double even = 1.0 / static_cast<double>(m_stage->shards());
    if (!m_whole.costs)
        return even;
    const auto seconds = [&](const Work &work) {
        return work.costs->seconds(backward ? work.forwardOps : 0, backward ? work.ops : work.forwardOps, samples, type)
            .value();
    };
    const double whole = seconds(m_whole);
    return whole > 0 ? seconds(m_own) / whole : even;
}

void StageModel::describeParameters(const graph::TrainingGraph &logical,
                                    const std::vector<sharding::ParameterShare> &shares)
{
    const graph::Graph &graph = m_training->graph;
    for (std::size_t p = 0; p < m_training->parameters.size(); ++p) {
        const graph::Tensor &tensor = graph.tensor(m_training->parameters[p]);
        LocalParameter held;
        held.id = tensor.id;
        held.name = logical.graph.tensor(logical.parameters[p]).name;
        held.type = tensor.type;
        held.sizes = shares[p].logical.at(1);
        held.sbp = shares[p].sbp;
        held.reduceOver = shares[p].reduceOver;
        held.elements = tensor.shape.elements(1);
        held.trains = m_training->gradients[p].valid();
        held.layer = layerOf(*m_training, tensor.id, m_subject->layers(), *m_subject->graph);
        held.ready = readyAt(*m_training, m_training->gradients[p]);
        m_tensors.parameters.push_back(std::move(held));
    }
}

Status StageModel::applyZero(RankId rank, const Buckets &buckets, const FoldedTeams &teams)
{
    if (!m_training || m_stage->zero < 2)
        return {};
    auto cut = cutParameters(*m_training, m_tensors, rank, buckets, teams);
    if (!cut)
        return cut.error();
    m_shards = {std::move(cut->parameters), std::move(cut->gradients)};
    adopt(std::move(cut->training));
    return {};
}

Status StageModel::applySplit()
{
    if (!m_training || !m_splits)
        return {};
    auto split = graph::splitBackward(*m_training);
    if (!split)
        return split.error();
    for (auto *shards : {&m_shards.parameters, &m_shards.gradients})
        for (BucketTensor &shard : *shards)
            shard.id = split->graph.find(m_training->graph.tensor(shard.id).name);
    adopt(*std::move(split));
    return {};
}

bool StageModel::keepsSentGradients() const
{
    if (!m_training || !m_splits)
        return false;
    const auto isRead = [this](TensorId id) {
        const auto readers = id.valid() ? m_training->graph.consumers(id) : std::span<const OpId>();
        return !readers.empty() && readers.back().index() >= m_training->weightsBegin();
    };
    return std::any_of(m_training->inputGradients.begin(), m_training->inputGradients.end(), isRead);
}

/// Takes @p training, whose parameters are listed as before, for what devices run.
void StageModel::adopt(graph::TrainingGraph training)
{
    m_training = std::make_shared<const graph::TrainingGraph>(std::move(training));
    m_layouts = std::make_shared<Layouts>();
    for (std::size_t p = 0; p < m_tensors.parameters.size(); ++p)
        m_tensors.parameters[p].id = m_training->parameters[p];
    m_tensors.others.clear();
    for (const graph::Tensor &tensor : m_training->graph.tensors())
        holdOther(tensor, m_tensors);
}

const StageLayout &StageModel::layout(double samples) const
{
    const bool pooled = m_training && m_stage->memory.limits();
    const std::pair key(m_training ? std::ceil(samples) : samples, pooled);
    {
        const std::lock_guard lock(m_layouts->guard);
        if (const auto found = m_layouts->made.find(key); found != m_layouts->made.end())
            return found->second;
    }
    StageLayout made;
    if (m_training)
        made = layoutStage(*m_training, static_cast<std::int64_t>(key.first), runsAgain(), pooled);
    else
        made.slotBytes = estimateSlots(*m_subject->graph, m_subject->layers(), m_stage->firstLayer, m_stage->lastLayer,
                                       key.first, runsAgain(), m_splits);
    const std::lock_guard lock(m_layouts->guard);
    return m_layouts->made.emplace(key, std::move(made)).first->second;
}

bool StageModel::returnsGradient() const
{
    return layout(1).slotBytes[static_cast<std::size_t>(Area::GradientInbox)] > 0;
}

} // namespace planloom::compile

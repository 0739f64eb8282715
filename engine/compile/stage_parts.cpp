// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/stage_parts.h"

#include "engine/cost/work.h"
#include "engine/graph/operators/operators.h"

#include <algorithm>
#include <set>
#include <utility>

namespace planloom::compile {
namespace {

/// Operations and traffic of a run in one measure: a byte of memory traffic weighs as much as ten operations on today's
/// devices.
double weightOf(const graph::TrainingGraph &training, const PassPart &part)
{
    constexpr double kOperationsPerByte = 10;
    double weight = 0;
    for (std::int32_t op = part.first; !part.boxing && op < part.last; ++op) {
        const graph::OpCostFigures cost = graph::figures(training.graph, OpId(op), 1);
        weight += cost.forward.value() + kOperationsPerByte * static_cast<double>(cost.forwardBytes.value());
    }
    return weight;
}

/// Shares the time of a pass out among its runs, in the order of @p passes, unless operators have @p costs of their
/// own.
void shareTime(const graph::TrainingGraph &training, const std::vector<std::vector<PassPart> *> &passes,
               const cost::LocalCosts *costs)
{
    std::size_t parts = 0;
    double sum = 0;
    for (const std::vector<PassPart> *pass : passes)
        parts += pass->size();
    if (parts == 1 || costs != nullptr)
        return;
    for (std::vector<PassPart> *pass : passes)
        for (PassPart &part : *pass)
            sum += part.share = weightOf(training, part);
    for (std::vector<PassPart> *pass : passes)
        for (PassPart &part : *pass)
            part.share = sum > 0 ? part.share / sum : 0;
}

/// Where operators are not known half of a backward pass makes the gradients of weights; all of it where no gradient
/// goes further back.
StageParts roughParts(const StageModel &model, std::size_t stage)
{
    const double weights = !model.splits() ? 0 : stage == 0 ? 1 : 0.5;
    StageParts parts;
    parts.forward = parts.backward = parts.weights = {PassPart{}};
    parts.backward.front().share = 1 - weights;
    parts.weights.front().share = weights;
    return parts;
}

/// True if every one of @p devices has a model of its GPU.
bool modelled(const cluster::Cluster &cluster, const std::vector<DeviceId> &devices)
{
    std::set<std::size_t> types;
    for (const DeviceId device : devices)
        types.insert(cluster.device(device).type);
    return std::all_of(types.begin(), types.end(),
                       [&](std::size_t type) { return cost::DeviceModel::of(cluster.types()[type]).has_value(); });
}

/// Used where the profile knows the stage's own operators, where nothing is measured and its GPUs have models, and
/// where operators run again within the backward pass or are those of ADMM, which the times of layers do not tell. Else
/// null. @p onModels: all of its devices have models.
std::shared_ptr<const cost::LocalCosts> localCosts(const Source &source, const StageModel &stage, bool onModels)
{
    const auto profile = source.subject.costs->profile();
    const bool byKernel = profile && !profile->kernels.empty();
    const bool byLayer = profile && !profile->ops.empty();
    const bool wanted = stage.repeats() || source.plan.admm || (!byLayer && onModels);
    if (!wanted && !byKernel)
        return nullptr;
    auto costs = std::make_shared<const cost::LocalCosts>(*source.subject.costs, stage.training()->graph);
    return wanted || costs->measured() ? std::move(costs) : nullptr;
}

/// True if several stages on @p rank have the parameters of @p bucket.
bool usedTwice(const PartsInput &in, RankId rank, const Bucket &bucket)
{
    const std::vector<BodyId> &bodies = in.instances.ofRank[rank.index()];
    return bodies.size() > 1
        && std::count_if(bodies.begin(), bodies.end(),
                         [&](BodyId b) {
                             return in.owners.hasParameter(in.instances[b].stage.index(),
                                                           bucket.entries.front().parameter);
                         })
        > 1;
}

/// True if an exchange within the last pass would hold up other stages: they wait for the gradient that the pass sends
/// on, and its collectives among the devices that share tensors would stand behind the exchange on the collective lane.
bool keepsOthersWaiting(const PartsInput &in, std::size_t index)
{
    const graph::TrainingGraph &training = *in.stages[index].training();
    const auto &ops = training.graph.ops();
    return index > 0 && in.stages[index - 1].returnsGradient()
        && std::any_of(ops.begin() + static_cast<std::ptrdiff_t>(training.forwardOps), ops.end(),
                       [](const graph::Op &op) { return op.traits().communicates(); });
}

/// Where the buckets of stage @p index that need not wait for the end of the last pass are complete: by their first
/// parameter, the operator.
std::map<std::string, std::int32_t> completions(const PartsInput &in, std::size_t index)
{
    const StageModel &stage = in.stages[index];
    if (in.source.bucketBytes() == 0 || keepsOthersWaiting(in, index))
        return {};
    std::map<std::string, std::int32_t> ready;
    for (std::size_t p = 0; p < stage.training()->parameters.size(); ++p)
        ready[stage.tensors().parameters[p].name] = readyAt(*stage.training(), stage.training()->gradients[p]);
    std::map<std::string, std::int32_t> complete;
    const std::size_t instance = in.instances.ofStage[index].front();
    std::int32_t end = -1;
    for (const BucketId b : in.owners.ofInstance[instance]) {
        const Bucket &bucket = in.buckets.at(b);
        std::int32_t last = -1;
        for (const Bucket::Entry &entry : bucket.entries)
            last = std::max(last, ready.at(entry.parameter));
        end = std::max(end, last);
        const bool exchanged = bucket.zero == 0 && in.teams.team(bucket.team).size() > 1;
        if (exchanged && last != LocalParameter::kMadeTogether && !usedTwice(in, in.instances[instance].rank, bucket))
            complete.emplace(bucket.entries.front().parameter, last);
    }
    // What comes last may as well wait for the end of the pass.
    std::erase_if(complete, [end](const auto &entry) { return entry.second == end; });
    return complete;
}

void cutLast(const PartsInput &in, std::size_t index, StageParts &parts)
{
    const graph::TrainingGraph &training = *in.stages[index].training();
    const std::map<std::string, std::int32_t> complete = completions(in, index);
    if (complete.empty())
        return;
    const bool splits = in.stages[index].splits();
    const auto begin = static_cast<std::int32_t>(splits ? training.weightsBegin() : training.forwardOps);
    std::vector<std::int32_t> ends;
    for (const auto &[parameter, op] : complete)
        if (op >= begin)
            ends.push_back(op);
    std::sort(ends.begin(), ends.end());
    parts.last = partsOf(training, begin, static_cast<std::int32_t>(training.graph.ops().size()), ends);
    std::vector<PassPart> before = splits ? parts.backward : std::vector<PassPart>();
    shareTime(training, {&before, &parts.last}, parts.costs.get());
    for (const auto &[parameter, op] : complete) {
        std::size_t run = 0;
        for (std::size_t i = 0; i < parts.last.size(); ++i)
            if (!parts.last[i].boxing && parts.last[i].first <= op)
                run = i;
        parts.complete.emplace(parameter, run);
    }
}

/// Where the first forward pass reads the buckets of stage @p index that are updated on their own, and rows of tables.
void cutFirst(const PartsInput &in, std::size_t index, StageParts &parts)
{
    const StageModel &stage = in.stages[index];
    const graph::TrainingGraph &training = *stage.training();
    const std::size_t instance = in.instances.ofStage[index].front();
    const auto forwardEnd = static_cast<std::int32_t>(training.forwardOps);
    std::map<std::string, std::int32_t> readers; // by parameter
    for (std::size_t p = 0; p < training.parameters.size(); ++p) {
        if (!training.parameters[p].valid()) // gathered from shards
            continue;
        for (const OpId reader : training.graph.consumers(training.parameters[p])) {
            std::int32_t &first = readers.try_emplace(stage.tensors().parameters[p].name, forwardEnd).first->second;
            first = std::min(first, reader.value);
        }
    }
    std::map<std::string, std::int32_t> first; // by a bucket's first parameter
    std::vector<std::int32_t> ends;
    for (const BucketId b : in.owners.ofInstance[instance]) {
        const Bucket &bucket = in.buckets.at(b);
        const bool late =
            in.source.plan.exchange.acrossSteps && endsLate(in.source.plan, bucket, in.teams.team(bucket.team).size());
        if ((!late && !bucket.table.valid()) || usedTwice(in, in.instances[instance].rank, bucket))
            continue;
        std::int32_t reader = forwardEnd;
        for (const Bucket::Entry &entry : bucket.entries)
            if (const auto known = readers.find(entry.parameter); known != readers.end())
                reader = std::min(reader, known->second);
        if (reader == forwardEnd)
            continue;
        first.emplace(bucket.entries.front().parameter, reader);
        if (reader > 0)
            ends.push_back(reader - 1);
    }
    if (first.empty())
        return;
    std::sort(ends.begin(), ends.end());
    parts.first = partsOf(training, 0, forwardEnd, ends);
    shareTime(training, {&parts.first}, parts.costs.get());
    for (const auto &[parameter, op] : first) {
        std::size_t run = 0;
        for (std::size_t i = 0; i < parts.first.size(); ++i)
            if (!parts.first[i].boxing && parts.first[i].first <= op)
                run = i;
        parts.readBy.emplace(parameter, run);
    }
}

CommunicatingOp describe(const graph::Graph &graph, const graph::Op &op)
{
    const cost::Collective collective = cost::collectiveOf(op);
    return {collective, -1, collective == cost::Collective::AllGather ? op.outputs.front() : op.inputs.front(),
            graph.tensor(op.inputs.front()).type, static_cast<std::int8_t>(op.integer("shift"))};
}

/// What depends on the operators of a stage and its kind of devices only; communicating operators have no teams yet.
StageParts plainParts(const Source &source, const StageModel &stage, bool onModels)
{
    const graph::TrainingGraph &training = *stage.training();
    const auto forwardEnd = static_cast<std::int32_t>(training.forwardOps);
    const auto backwardEnd = static_cast<std::int32_t>(training.weightsBegin());
    const auto end = static_cast<std::int32_t>(training.graph.ops().size());
    StageParts parts;
    parts.costs = localCosts(source, stage, onModels);
    parts.forward = partsOf(training, 0, forwardEnd);
    parts.backward = partsOf(training, forwardEnd, backwardEnd);
    if (stage.splits())
        parts.weights = partsOf(training, backwardEnd, end);
    shareTime(training, {&parts.forward}, parts.costs.get());
    shareTime(training, {&parts.backward, &parts.weights}, parts.costs.get());
    for (const graph::Op &op : training.graph.ops())
        if (op.traits().communicates())
            parts.boxing.emplace(op.id.value, describe(training.graph, op));
    return parts;
}

} // namespace

bool endsLate(const plan::Plan &plan, const Bucket &bucket, std::size_t members)
{
    return plan.exchange.acrossSteps && !bucket.table.valid() && !bucket.isAveraged() && members > 1;
}

std::vector<StageParts> partsOfStages(const PartsInput &in)
{
    std::vector<StageParts> stages;
    std::map<std::pair<const graph::TrainingGraph *, bool>, StageParts> known;
    for (std::size_t s = 0; s < in.stages.size(); ++s) {
        const graph::TrainingGraph *training = in.stages[s].training().get();
        if (training == nullptr) {
            stages.push_back(roughParts(in.stages[s], s));
            continue;
        }
        const bool onModels = modelled(*in.source.subject.cluster, in.source.plan.stages[s].devices);
        const auto [plain, isNew] = known.try_emplace({training, onModels});
        if (isNew)
            plain->second = plainParts(in.source, in.stages[s], onModels);
        stages.push_back(plain->second);
        cutLast(in, s, stages.back());
        if (in.source.plan.exchange.acrossSteps || in.source.plan.exchange.hasTables())
            cutFirst(in, s, stages.back());
        for (auto &[op, boxing] : stages.back().boxing)
            boxing.set = in.sets.find({s, dimensionsOf(training->graph.op(OpId(op)))});
    }
    return stages;
}

} // namespace planloom::compile

// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/stage_memory.h"

#include "engine/compile/hosted_parts.h"
#include "engine/compile/persistent.h"
#include "engine/compile/stage_template.h"
#include "engine/compile/task_times.h"
#include "engine/cost/host_link.h"
#include "engine/graph/operators/operators.h"
#include "engine/memory/host_blocks.h"
#include "engine/plan/validate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace planloom::compile {
namespace {

using graph::TrainingGraph;

/// Seconds of the operators [first, last), which take @p whole together; in proportion to their work where they have no
/// times of their own.
std::vector<double> operatorSeconds(const TrainingGraph &training, const StageParts &parts, std::size_t first,
                                    std::size_t last, const TaskTimes::Slice &slice, double whole)
{
    constexpr double kOperationsPerByte = 10;
    std::vector<double> seconds;
    for (std::size_t op = first; op < last; ++op) {
        if (training.graph.ops()[op].traits().communicates()) {
            seconds.push_back(0);
        } else if (parts.costs) {
            seconds.push_back(parts.costs->seconds(op, op + 1, slice.samples, slice.type).value());
        } else {
            const graph::OpCostFigures cost = graph::figures(training.graph, OpId(static_cast<std::int64_t>(op)), 1);
            seconds.push_back(cost.forward.value()
                              + kOperationsPerByte * static_cast<double>(cost.forwardBytes.value()));
        }
    }
    const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    if (!parts.costs && sum > 0)
        for (double &each : seconds)
            each *= whole / sum;
    return seconds;
}

/// Those of @p stage that a memory policy with Memory::hostParameters has on the host: all of its operators'.
std::vector<const LocalParameter *> hostedParameters(const plan::Stage &stage, const StageModel &model)
{
    std::vector<const LocalParameter *> hosted;
    for (const LocalParameter &parameter : model.tensors().parameters)
        if (stage.memory.hostParameters && parameter.id.valid())
            hosted.push_back(&parameter);
    return hosted;
}

/// Makes the stream of one stage instance and walks it.
class InstancePlanner {
public:
    InstancePlanner(const MemoryInput &in, std::size_t index, TaskTimes &times)
        : m_in(in),
          m_index(index),
          m_instance(in.instances[index]),
          m_stage(in.source.plan.stages[m_instance.stage.index()]),
          m_training(*in.stages[m_instance.stage.index()].training()),
          m_times(times),
          m_largest(in.samples.largestSlice(m_instance.stage, m_instance.replica)),
          m_hosted(hostedParameters(m_stage, in.stages[m_instance.stage.index()])),
          m_template(m_training, in.stages[m_instance.stage.index()].layout(m_largest),
                     static_cast<std::int64_t>(std::ceil(m_largest)), m_hosted)
    {
    }

    Result<StageMemory> plan()
    {
        if (Status alone = checkReaders(); !alone)
            return alone.error();
        m_made.roots = m_template.roots;
        m_made.activations = static_cast<std::int32_t>(m_template.activations);
        for (const LocalParameter *parameter : m_hosted)
            m_made.parameters.push_back(parameter->name);
        makeStream();
        const cluster::DeviceType &type = m_in.source.subject.cluster->typeOf(m_stage.devices[m_instance.device]);
        const cost::HostLink link = cost::hostLink(type, m_in.source.subject.profile.get());
        memory::Limits limits = memory::limitsOf(m_stage.memory, m_stream, link.bandwidth);
        limits.copyLoad = link.load;
        limits.budget = std::max(limits.budget, updateBytes()); // for which the pool is there anyway
        if (Status kept = keepStates(limits); !kept)
            return kept.error();
        m_made.forwardOps = static_cast<std::int32_t>(m_training.forwardOps);
        m_made.weightsBegin = static_cast<std::int32_t>(m_training.weightsBegin());
        auto course = walked(limits);
        if (course && m_stage.memory.measures() && m_in.times != nullptr) {
            if (Status taken = takeMeasured(*course, limits); !taken)
                return taken.error();
            course = walked(limits);
        }
        if (!course)
            return course.error();
        m_made.course = *std::move(course);
        if (m_stage.memory.measures()) // what other seconds lead to has the same arena
            m_made.course.poolBytes = std::max(m_made.course.poolBytes, aligned(limits.budget));
        m_made.copies = limits.copies;
        m_made.copyLoad = limits.copyLoad;
        m_made.bytes = m_template.bytes;
        m_made.lastUse = m_template.lastUse;
        for (const TensorId root : m_template.roots)
            m_made.madeBy.push_back(m_training.graph.tensor(root).producer.value);
        m_made.arguments = m_template.arguments;
        m_made.firstArgument = m_template.firstArgument;
        for (const memory::Operator &op : m_stream.operators)
            m_made.seconds.push_back(op.seconds);
        cut();
        planInference();
        return std::move(m_made);
    }

private:
    [[nodiscard]] std::string nameOf(std::int32_t storage) const
    {
        if (storage == 0)
            return "what stays";
        const TensorId root = m_made.roots[static_cast<std::size_t>(m_made.rootOf(storage))];
        if (m_made.isParameter(storage))
            return m_training.graph.tensor(root).name;
        return fmt::format("{} of micro-batch {}", m_training.graph.tensor(root).name, m_made.microBatchOf(storage));
    }

    /// Collectives move what lies where it is without a policy.
    [[nodiscard]] Status checkReaders() const
    {
        for (const graph::Op &op : m_training.graph.ops())
            for (const TensorId id : op.inputs)
                if (op.traits().communicates() && m_template.isHosted(id))
                    return unsupported(
                        fmt::format("{} has its parameters on the host (memory.parameters), and collective {} reads "
                                    "{}; set memory.parameters to device",
                                    plan::stageLabel(m_in.source.plan, m_instance.stage.index()), op.name,
                                    m_training.graph.tensor(id).name));
        return {};
    }

    /// Parameters on the host, each in a part of its own.
    [[nodiscard]] HostedParts smallestParts() const
    {
        const std::int64_t states = m_in.source.plan.optimizer.rule.footprint().states;
        return hostParameters(m_in.owners.ofInstance[m_index], m_in.buckets, m_stage.memory.hostStates ? states : 0, 0,
                              {});
    }

    /// Of hostedTensors(), where parameters that operators read stay.
    [[nodiscard]] std::int64_t stateBytes() const
    {
        std::int64_t states = 0;
        for (const BucketId b : m_in.owners.ofInstance[m_index]) {
            const Bucket &bucket = m_in.buckets.at(b);
            const Team &team = m_in.teams.team(bucket.team);
            states += aligned(shardOf(bucket, team.size(), team.position(m_instance.rank), 1).count
                              * graph::sizeOf(graph::DType::F32))
                * hostedTensors(bucket, m_in.source.plan.optimizer.rule.footprint().states, m_stage.memory);
        }
        return states;
    }

    /// Of the pool, that an update needs at once.
    [[nodiscard]] std::int64_t updateBytes() const
    {
        return m_stage.memory.hostParameters ? smallestParts().poolBytes : m_stage.memory.hostStates ? stateBytes() : 0;
    }

    /// What tensors may take on the host beside parameters, the optimizer's states and what comes with them, all in
    /// whole blocks.
    Status keepStates(memory::Limits &limits) const
    {
        const std::int64_t most = limits.policy.hostBytes;
        if ((!limits.policy.hostStates && !limits.policy.hostParameters) || most == 0)
            return {};
        const std::int64_t states =
            limits.policy.hostParameters ? smallestParts().hostBytes : memory::wholeHostBlocks(stateBytes());
        const bool both = limits.policy.hostStates && limits.policy.hostParameters;
        if (states >= most)
            return badInput(fmt::format("{}: {} {} and host_bytes of its memory policy are {}; give more, or {}=device",
                                        plan::stageLabel(m_in.source.plan, m_instance.stage.index()),
                                        both                           ? "parameters and the optimizer's state take"
                                            : limits.policy.hostStates ? "the optimizer's state takes"
                                                                       : "parameters take",
                                        format(Bytes(states)), format(Bytes(most)),
                                        limits.policy.hostParameters ? "parameters" : "optimizer_state"));
        // Nothing fits in one byte; 0 would be no limit.
        limits.policy.hostBytes = std::max<std::int64_t>(1, (most - states) / memory::kHostBlock * memory::kHostBlock);
        return {};
    }

    [[nodiscard]] Result<memory::Course> walked(const memory::Limits &limits) const
    {
        auto course = memory::walk(m_stream, limits, [this](std::int32_t storage) { return nameOf(storage); });
        if (course)
            return course;
        Error error = course.error();
        error.message = plan::stageLabel(m_in.source.plan, m_instance.stage.index()) + ": " + error.message;
        return error;
    }

    /// The run's seconds take the place of the cost model's, whose @p course was measured: what its copies took from
    /// operators that they ran beside is not theirs.
    Status takeMeasured(const memory::Course &course, memory::Limits &limits)
    {
        const memory::RunTimes &times = *m_in.times;
        const std::size_t ops = m_training.graph.ops().size();
        const std::size_t rank = m_instance.rank.index();
        if (rank >= times.ranks.size()
            || times.ranks[rank].operators.size() != ops * static_cast<std::size_t>(m_in.source.plan.microBatches))
            return badInput(plan::stageLabel(m_in.source.plan, m_instance.stage.index())
                            + ": the measured times are of another plan; give those of a run of this one");
        const memory::MeasuredTimes &own = times.ranks[rank];
        for (std::size_t o = 0; o < m_stream.operators.size(); ++o)
            m_stream.operators[o].seconds = own.operators[static_cast<std::size_t>(m_microBatches[o]) * ops
                                                          + static_cast<std::size_t>(m_made.operators[o])];
        for (const memory::Event &event : course.events)
            if (event.kind == memory::Event::Kind::Run) {
                double &seconds = m_stream.operators[static_cast<std::size_t>(event.subject)].seconds;
                seconds = std::max(seconds - event.delay, seconds / 2); // by its own time at most (Limits::copyLoad)
            }
        if (m_stage.memory.bandwidthOut == 0 && own.secondsOut > 0)
            limits.copies.bandwidthOut = own.bandwidth(true, limits.copies.latency);
        if (m_stage.memory.bandwidthIn == 0 && own.secondsIn > 0)
            limits.copies.bandwidthIn = own.bandwidth(false, limits.copies.latency);
        m_made.measured = true;
        return {};
    }

    void makeStream()
    {
        const auto microBatches = static_cast<std::size_t>(m_in.source.plan.microBatches);
        m_stream.storages.assign(1 + m_template.activations * microBatches, {});
        for (std::size_t r = m_template.activations; r < m_template.roots.size(); ++r)
            m_stream.storages.push_back({m_template.bytes[r], -1, false, true});
        m_made.forward.assign(microBatches, -1);
        m_made.backward.assign(microBatches, -1);
        m_made.weights.assign(microBatches, -1);
        m_made.lastReader.assign(m_hosted.size(), -1);
        for (const PassStep &step : m_in.ranks.at(m_instance.rank).order) {
            const auto m = static_cast<std::size_t>(step.microBatch);
            const bool forward = step.forward();
            const bool weights = step.pass == Pass::WeightGradient;
            (forward       ? m_made.forward
                 : weights ? m_made.weights
                           : m_made.backward)[m] = static_cast<std::int32_t>(m_stream.operators.size());
            const std::size_t first = forward ? 0 : weights ? m_training.weightsBegin() : m_training.forwardOps;
            const std::size_t last = forward ? m_training.forwardOps
                : weights                    ? m_training.graph.ops().size()
                                             : m_training.weightsBegin();
            // The passes of a backward pass in two take the time of the whole together.
            const std::size_t begin = forward ? 0 : m_training.forwardOps;
            const std::size_t end = forward ? m_training.forwardOps : m_training.graph.ops().size();
            const TaskTimes::Slice slice = m_times.slice(m_instance, step.microBatch);
            const std::vector<double> seconds = operatorSeconds(m_training, m_in.parts[m_instance.stage.index()], begin,
                                                                end, slice, m_times.layers(slice, !forward).value());
            for (std::size_t op = first; op < last; ++op)
                addOperator(op, static_cast<std::int32_t>(step.microBatch), seconds[op - begin]);
        }
        for (std::size_t p = 0; p < m_hosted.size(); ++p)
            if (const std::int32_t last = m_made.lastReader[p]; last >= 0)
                m_stream.operators[static_cast<std::size_t>(last)].dies.push_back(m_made.firstParameter()
                                                                                  + static_cast<std::int32_t>(p));
    }

    void addOperator(std::size_t op, std::int32_t microBatch, double seconds)
    {
        const StageTemplate::Uses &uses = m_template.uses[op];
        const auto index = static_cast<std::int32_t>(m_stream.operators.size());
        memory::Operator made;
        made.seconds = seconds;
        made.scratchAgain = uses.scratch;
        for (const std::int32_t root : uses.inputs) {
            made.inputs.push_back(m_made.storageOf(root, microBatch));
            if (root >= m_made.activations)
                m_made.lastReader[static_cast<std::size_t>(root - m_made.activations)] = index;
        }
        for (const std::int32_t root : uses.outputs) {
            const std::int32_t storage = m_made.storageOf(root, microBatch);
            made.outputs.push_back(storage);
            const auto r = static_cast<std::size_t>(root);
            m_stream.storages[static_cast<std::size_t>(storage)] = {m_template.bytes[r], index,
                                                                    m_template.recomputable[r]};
        }
        for (const auto *used : {&uses.inputs, &uses.outputs})
            for (const std::int32_t root : *used)
                if (root < m_made.activations
                    && m_template.lastUse[static_cast<std::size_t>(root)] == static_cast<std::int32_t>(op))
                    made.dies.push_back(m_made.storageOf(root, microBatch));
        m_stream.operators.push_back(std::move(made));
        m_made.operators.push_back(static_cast<std::int32_t>(op));
        m_microBatches.push_back(microBatch);
    }

    void cut()
    {
        const std::vector<memory::Event> &events = m_made.course.events;
        m_made.cutBefore.assign(events.size(), false);
        m_made.cutAfter.assign(events.size(), false);
        m_made.firstEvent.assign(m_stream.operators.size() + 1, 0);
        for (std::size_t e = 0; e < events.size(); ++e) {
            const bool copies = events[e].kind == memory::Event::Kind::Out || events[e].kind == memory::Event::Kind::In;
            if (copies && events[e].after >= 0)
                m_made.cutAfter[static_cast<std::size_t>(events[e].after)] = true;
            m_made.cutBefore[e] = !copies && events[e].lastWait > events[e].firstWait;
            ++m_made.firstEvent[static_cast<std::size_t>(events[e].position) + 1];
        }
        std::partial_sum(m_made.firstEvent.begin(), m_made.firstEvent.end(), m_made.firstEvent.begin());
    }

    /// Without a backward pass a tensor is needed up to its last forward reader, and a parameter comes for each.
    void planInference()
    {
        std::vector<Interval> blocks;
        for (std::size_t r = 0; r < m_template.activations; ++r)
            blocks.push_back({m_template.bytes[r], m_training.graph.tensor(m_template.roots[r]).producer.value,
                              m_template.lastForwardUse[r], 0});
        for (std::int32_t op = 0; op < m_made.forwardOps; ++op)
            for (const std::int32_t root : m_template.uses[static_cast<std::size_t>(op)].inputs)
                if (root >= m_made.activations) {
                    m_made.inferenceParameters.push_back({op, root, 0});
                    blocks.push_back({m_template.bytes[static_cast<std::size_t>(root)], op, op, 0});
                }
        m_made.poolBytes = std::max(m_made.course.poolBytes, packIntervals(blocks));
        for (std::size_t b = 0; b < blocks.size(); ++b)
            if (b < m_template.activations)
                m_made.inference.push_back(blocks[b].offset);
            else
                m_made.inferenceParameters[b - m_template.activations].place = blocks[b].offset;
    }

    const MemoryInput &m_in;
    std::size_t m_index;
    const StageInstance &m_instance;
    const plan::Stage &m_stage;
    const TrainingGraph &m_training;
    TaskTimes &m_times;
    double m_largest; ///< samples of a micro-batch
    std::vector<const LocalParameter *> m_hosted;
    StageTemplate m_template;
    memory::Stream m_stream;
    std::vector<std::int32_t> m_microBatches; ///< per operator of the stream
    StageMemory m_made;
};

} // namespace

std::int32_t StageMemory::runOf(std::int32_t op, std::int32_t m) const
{
    const Pass pass = op < forwardOps ? Pass::Forward : op < weightsBegin ? Pass::Backward : Pass::WeightGradient;
    return runAt(op + offsetOf(pass, m));
}

std::int32_t StageMemory::runAt(std::int32_t index) const
{
    const auto at = static_cast<std::size_t>(index);
    for (std::int32_t e = firstEvent[at]; e < firstEvent[at + 1]; ++e)
        if (course.events[static_cast<std::size_t>(e)].kind == memory::Event::Kind::Run)
            return e;
    return -1;
}

std::int32_t StageMemory::firstCopyOf(std::int32_t storage) const
{
    const auto first = std::find_if(course.events.begin(), course.events.end(), [=](const memory::Event &event) {
        return event.kind == memory::Event::Kind::In && event.subject == storage;
    });
    return first == course.events.end() ? -1 : static_cast<std::int32_t>(first - course.events.begin());
}

void StageMemory::appendCall(const memory::Event &event, PooledCalls &pooled) const
{
    const auto op = static_cast<std::size_t>(operators[static_cast<std::size_t>(event.subject)]);
    const std::int64_t *places = course.places.data() + event.firstPlace;
    const auto first = static_cast<std::size_t>(firstArgument[op]);
    const auto last = static_cast<std::size_t>(firstArgument[op + 1]);
    pooled.calls.push_back(
        {static_cast<std::int32_t>(op), static_cast<std::int32_t>(pooled.places.size()), event.used, event.usedAfter});
    for (std::size_t a = first; a < last; ++a) {
        const Argument &argument = arguments[a];
        const bool again = event.kind == memory::Event::Kind::Again;
        pooled.places.push_back(argument.storage >= 0                ? places[argument.storage] + argument.offset
                                    : argument.scratch >= 0 && again ? event.scratch + argument.scratch
                                                                     : -1);
    }
}

std::int32_t StageMemory::appendInference(PooledCalls &pooled) const
{
    const auto first = static_cast<std::int32_t>(pooled.calls.size());
    auto parameter = inferenceParameters.begin();
    const auto placeOf = [&](const Argument &argument) {
        if (argument.root < activations)
            return inference[static_cast<std::size_t>(argument.root)] + argument.offset;
        const auto own = std::find_if(parameter, inferenceParameters.end(),
                                      [&](const InferenceParameter &each) { return each.root == argument.root; });
        return own->place + argument.offset;
    };
    for (std::size_t op = 0; op < static_cast<std::size_t>(forwardOps); ++op) {
        pooled.calls.push_back({static_cast<std::int32_t>(op), static_cast<std::int32_t>(pooled.places.size()), 0, 0});
        for (auto a = static_cast<std::size_t>(firstArgument[op]); a < static_cast<std::size_t>(firstArgument[op + 1]);
             ++a)
            pooled.places.push_back(arguments[a].root < 0 ? -1 : placeOf(arguments[a]));
        while (parameter != inferenceParameters.end() && parameter->op == static_cast<std::int32_t>(op))
            ++parameter;
    }
    return first;
}

Result<MemoryPlans> planMemory(const MemoryInput &in)
{
    const plan::Plan &plan = in.source.plan;
    const auto limits = [](const plan::Stage &stage) { return stage.memory.limits(); };
    MemoryPlans plans;
    if (std::none_of(plan.stages.begin(), plan.stages.end(), limits))
        return plans;
    TaskTimes times({in.source, in.samples, in.stages, in.ranks, in.teams, in.parts});
    plans.ofInstance.resize(in.instances.size());
    for (std::size_t i = 0; i < in.instances.size(); ++i) {
        const std::size_t stage = in.instances[i].stage.index();
        if (!limits(plan.stages[stage]))
            continue;
        if (!in.stages[stage].training())
            return unsupported(plan::stageLabel(plan, stage)
                               + " has a memory policy, and operators without known gradients; give it the policy "
                                 "none");
        auto planned = InstancePlanner(in, i, times).plan();
        if (!planned)
            return planned.error();
        plans.ofInstance[i] = *std::move(planned);
    }
    return plans;
}

} // namespace planloom::compile

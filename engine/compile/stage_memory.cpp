// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/stage_memory.h"

#include "engine/compile/persistent.h"
#include "engine/compile/pooled.h"
#include "engine/compile/task_times.h"
#include "engine/cost/host_link.h"
#include "engine/graph/operators/operators.h"
#include "engine/plan/validate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace planloom::compile {
namespace {

using graph::TrainingGraph;

/// True if @p op changes its input @p input, which stays from step to step, when it runs forward: running statistics.
bool tracksState(const graph::Op &op, std::size_t input)
{
    return op.traits().isState(input) && op.integer("training_mode", 1) != 0;
}

/// What one micro-batch's operators read and make of the pool, the same for all micro-batches.
class StageTemplate {
public:
    StageTemplate(const TrainingGraph &training, const StageLayout &layout, std::int64_t samples)
        : m_training(training),
          m_layout(layout),
          m_samples(samples),
          m_aliases(training, samples),
          m_pooled(pooledRoots(training, m_aliases)),
          m_rootIndex(training.graph.tensors().size(), -1)
    {
        for (const graph::Tensor &tensor : training.graph.tensors())
            if (m_pooled[tensor.id.index()]) {
                m_rootIndex[tensor.id.index()] = static_cast<std::int32_t>(roots.size());
                roots.push_back(tensor.id);
                bytes.push_back(aligned(tensor.bytes(samples).value()));
            }
        lastUse.assign(roots.size(), -1);
        lastForwardUse.assign(roots.size(), -1);
        firstArgument.push_back(0);
        for (const graph::Op &op : training.graph.ops())
            add(op);
        findRecomputable();
    }

    struct Uses {
        std::vector<std::int32_t> inputs, outputs; ///< roots
        std::int64_t scratch = 0;
    };
    std::vector<TensorId> roots;
    std::vector<std::int64_t> bytes;
    std::vector<std::int32_t> lastUse, lastForwardUse; ///< per root: operators
    std::vector<bool> recomputable;
    std::vector<Uses> uses; ///< per operator
    std::vector<StageMemory::Argument> arguments;
    std::vector<std::int32_t> firstArgument;

private:
    [[nodiscard]] std::int32_t rootOf(TensorId id) const { return m_rootIndex[m_aliases.home(id).root.index()]; }

    void add(const graph::Op &op)
    {
        Uses made;
        for (const TensorId id : op.inputs)
            if (id.valid() && rootOf(id) >= 0)
                note(made.inputs, rootOf(id), op.id);
        for (const TensorId id : op.outputs) {
            const std::int32_t root = id.valid() ? rootOf(id) : -1;
            if (root < 0)
                continue;
            const bool makes = m_training.graph.tensor(roots[static_cast<std::size_t>(root)]).producer == op.id;
            note(makes ? made.outputs : made.inputs, root, op.id);
        }
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            argument(made, op.inputs[i],
                     op.inputs[i].valid() && tracksState(op, i)
                         && m_training.graph.tensor(op.inputs[i]).role == graph::TensorRole::State);
        for (const TensorId id : op.outputs)
            argument(made, id, id.valid() && isTransient(id));
        firstArgument.push_back(static_cast<std::int32_t>(arguments.size()));
        uses.push_back(std::move(made));
    }

    void note(std::vector<std::int32_t> &list, std::int32_t root, OpId op)
    {
        if (std::find(list.begin(), list.end(), root) == list.end())
            list.push_back(root);
        lastUse[static_cast<std::size_t>(root)] = op.value;
        if (op.index() < m_training.forwardOps)
            lastForwardUse[static_cast<std::size_t>(root)] = op.value;
    }

    void argument(Uses &of, TensorId id, bool besides)
    {
        StageMemory::Argument made;
        const std::int32_t root = id.valid() ? rootOf(id) : -1;
        if (root >= 0) {
            const auto in = std::find(of.inputs.begin(), of.inputs.end(), root);
            const auto at = in != of.inputs.end() ? in - of.inputs.begin()
                                                  : std::find(of.outputs.begin(), of.outputs.end(), root)
                    - of.outputs.begin() + static_cast<std::ptrdiff_t>(of.inputs.size());
            made.storage = static_cast<std::int32_t>(at);
            made.root = root;
            made.offset = m_aliases.home(id).offset;
        } else if (besides) {
            made.scratch = of.scratch;
            of.scratch += aligned(m_training.graph.tensor(id).bytes(m_samples).value());
        }
        arguments.push_back(made);
    }

    /// True if the place of @p id may hold something else by the time of the backward pass, or of that for gradients of
    /// weights, before which the frame goes to another micro-batch.
    [[nodiscard]] bool isTransient(TensorId id) const
    {
        const Area area = m_layout.forwardPlaces[id.index()].area;
        return area == Area::Workspace || area == Area::Outbox || (area == Area::Frame && m_training.weightOps > 0);
    }

    /// An operator can run again if all that it reads is there until the end of the backward pass or can be made again.
    void findRecomputable()
    {
        recomputable.assign(roots.size(), false);
        for (std::size_t o = 0; o < m_training.forwardOps; ++o) {
            const graph::Op &op = m_training.graph.ops()[o];
            const bool can =
                !op.traits().communicates() && std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
                    if (!id.valid())
                        return true;
                    const std::int32_t root = rootOf(id);
                    return root >= 0 ? recomputable[static_cast<std::size_t>(root)] : !isTransient(id);
                });
            for (const std::int32_t root : uses[o].outputs)
                recomputable[static_cast<std::size_t>(root)] = can;
        }
    }

    const TrainingGraph &m_training;
    const StageLayout &m_layout;
    std::int64_t m_samples;
    Aliases m_aliases;
    std::vector<bool> m_pooled;
    std::vector<std::int32_t> m_rootIndex;
};

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
          m_template(m_training, in.stages[m_instance.stage.index()].layout(m_largest),
                     static_cast<std::int64_t>(std::ceil(m_largest)))
    {
    }

    Result<StageMemory> plan()
    {
        makeStream();
        const cluster::DeviceType &type = m_in.source.subject.cluster->typeOf(m_stage.devices[m_instance.device]);
        const cost::HostLink link = cost::hostLink(type, m_in.source.subject.profile.get());
        memory::Limits limits = memory::limitsOf(m_stage.memory, m_stream, link.bandwidth);
        limits.copyLoad = link.load;
        if (Status kept = keepStates(limits); !kept)
            return kept.error();
        m_made.roots = m_template.roots;
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
        return fmt::format("{} of micro-batch {}", m_training.graph.tensor(root).name, m_made.microBatchOf(storage));
    }

    /// What tensors may take on the host beside the optimizer's states and what comes with them.
    Status keepStates(memory::Limits &limits) const
    {
        const std::int64_t most = limits.policy.hostBytes;
        if (!limits.policy.hostStates || most == 0)
            return {};
        std::int64_t states = 0;
        for (const BucketId b : m_in.owners.ofInstance[m_index]) {
            const Bucket &bucket = m_in.buckets.at(b);
            const Team &team = m_in.teams.team(bucket.team);
            states += aligned(shardOf(bucket, team.size(), team.position(m_instance.rank), 1).count
                              * graph::sizeOf(graph::DType::F32))
                * hostedTensors(bucket, m_in.source.plan.optimizer.rule.footprint().states);
        }
        if (states >= most)
            return badInput(
                fmt::format("{}: the optimizer's state takes {} and host_bytes of its memory policy are {}; "
                            "give more, or optimizer_state=device",
                            plan::stageLabel(m_in.source.plan, m_instance.stage.index()), format(Bytes(states)),
                            format(Bytes(most))));
        limits.policy.hostBytes -= states;
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
        m_stream.storages.assign(1 + m_template.roots.size() * microBatches, {});
        m_made.forward.assign(microBatches, -1);
        m_made.backward.assign(microBatches, -1);
        m_made.weights.assign(microBatches, -1);
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
    }

    void addOperator(std::size_t op, std::int32_t microBatch, double seconds)
    {
        const std::int32_t base = 1 + microBatch * static_cast<std::int32_t>(m_template.roots.size()); // its storages
        const StageTemplate::Uses &uses = m_template.uses[op];
        const auto index = static_cast<std::int32_t>(m_stream.operators.size());
        memory::Operator made;
        made.seconds = seconds;
        made.scratchAgain = uses.scratch;
        for (const std::int32_t root : uses.inputs)
            made.inputs.push_back(base + root);
        for (const std::int32_t root : uses.outputs) {
            made.outputs.push_back(base + root);
            const auto r = static_cast<std::size_t>(root);
            m_stream.storages[static_cast<std::size_t>(base + root)] = {m_template.bytes[r], index,
                                                                        m_template.recomputable[r]};
        }
        for (const auto *used : {&uses.inputs, &uses.outputs})
            for (const std::int32_t root : *used)
                if (m_template.lastUse[static_cast<std::size_t>(root)] == static_cast<std::int32_t>(op))
                    made.dies.push_back(base + root);
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

    /// Without a backward pass a tensor is needed up to its last forward reader.
    void planInference()
    {
        std::vector<Interval> blocks;
        for (std::size_t r = 0; r < m_template.roots.size(); ++r)
            blocks.push_back({m_template.bytes[r], m_training.graph.tensor(m_template.roots[r]).producer.value,
                              m_template.lastForwardUse[r], 0});
        m_made.poolBytes = std::max(m_made.course.poolBytes, packIntervals(blocks));
        for (const Interval &block : blocks)
            m_made.inference.push_back(block.offset);
    }

    const MemoryInput &m_in;
    std::size_t m_index;
    const StageInstance &m_instance;
    const plan::Stage &m_stage;
    const TrainingGraph &m_training;
    TaskTimes &m_times;
    double m_largest; ///< samples of a micro-batch
    StageTemplate m_template;
    memory::Stream m_stream;
    std::vector<std::int32_t> m_microBatches; ///< per operator of the stream
    StageMemory m_made;
};

} // namespace

std::int32_t StageMemory::runOf(std::int32_t op, std::int32_t m) const
{
    const Pass pass = op < forwardOps ? Pass::Forward : op < weightsBegin ? Pass::Backward : Pass::WeightGradient;
    const auto index = static_cast<std::size_t>(op + offsetOf(pass, m));
    for (std::int32_t e = firstEvent[index]; e < firstEvent[index + 1]; ++e)
        if (course.events[static_cast<std::size_t>(e)].kind == memory::Event::Kind::Run)
            return e;
    return -1;
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
    for (std::size_t op = 0; op < static_cast<std::size_t>(forwardOps); ++op) {
        pooled.calls.push_back({static_cast<std::int32_t>(op), static_cast<std::int32_t>(pooled.places.size()), 0, 0});
        for (auto a = static_cast<std::size_t>(firstArgument[op]); a < static_cast<std::size_t>(firstArgument[op + 1]);
             ++a)
            pooled.places.push_back(arguments[a].root < 0
                                        ? -1
                                        : inference[static_cast<std::size_t>(arguments[a].root)] + arguments[a].offset);
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

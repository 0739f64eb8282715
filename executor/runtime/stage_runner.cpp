// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/stage_runner.h"

#include "engine/admm/training_graph.h"

#include <algorithm>
#include <bit>

namespace planloom::runtime {

using program::Body;

StageRunner::StageRunner(const program::Program &program, const Body &body, const ComputeContext &context,
                         Feeder feeder, LossReader losses, std::int64_t seed)
    : m_program(program),
      m_body(body),
      m_context(context),
      m_globalBatch(program.globalBatch),
      m_seed(seed),
      m_addresses(body, context.arena),
      m_feeder(std::move(feeder)),
      m_losses(std::move(losses))
{
}

Result<std::unique_ptr<StageRunner>> StageRunner::create(const program::Program &program, const Body &body,
                                                         const ComputeContext &context, const Feed &feed,
                                                         std::int64_t seed)
{
    auto feeder = Feeder::create(program, body, context, feed);
    if (!feeder)
        return feeder.error();
    auto losses = LossReader::create(context.device, body.slices.size(), program.globalBatch);
    if (!losses)
        return losses.error();
    std::unique_ptr<StageRunner> runner(
        new StageRunner(program, body, context, std::move(*feeder), std::move(*losses), seed));
    auto event = context.device.makeEvent();
    if (!event)
        return event.error();
    runner->m_event = std::move(*event);
    if (const Status status = runner->preparePasses(); !status)
        return status.error();
    runner->findLoss();
    if (const Status status = runner->findFigures(); !status)
        return status.error();
    return runner;
}

Status StageRunner::findFigures()
{
    const TensorId figures = m_body.training.graph.find(admm::kFigures);
    if (!figures.valid())
        return {};
    m_figures = placeOf(m_body, m_body.backwardPlaces, figures, 1);
    auto memory = m_context.device.allocate(device::Space::Host, m_figures.bytes);
    if (!memory)
        return memory.error();
    m_figuresRead = std::move(*memory);
    return {};
}

void StageRunner::findLoss()
{
    const graph::TrainingGraph &training = m_body.training;
    if (!training.loss.valid() || !training.graph.tensor(training.loss).producer.valid())
        return;
    if (countsLoss(m_body))
        m_loss = placeOf(m_body, m_body.forwardPlaces, training.loss, 1);
    if (const TensorId gradient = lossGradientOf(training); gradient.valid())
        m_lossGradient = placeOf(m_body, m_body.backwardPlaces, gradient, 1);
}

Status StageRunner::preparePasses()
{
    std::int32_t mostArguments = 0;
    for (const plan::SampleRange &slice : m_body.slices) {
        const auto same = std::find_if(m_passes.begin(), m_passes.end(),
                                       [&](const SizedPasses &p) { return p.samples == slice.size; });
        m_passesOf.push_back(slice.size == 0 ? -1 : static_cast<std::int32_t>(same - m_passes.begin()));
        if (slice.size == 0 || same != m_passes.end())
            continue;
        Result<SizedPasses> made = makePasses(m_context.device, m_body, slice.size);
        if (!made)
            return made.error();
        for (const CallList *list : {&made->forward, &made->recompute, &made->backward})
            mostArguments = std::max(mostArguments, list->mostArguments);
        m_passes.push_back(std::move(*made));
    }
    m_inputPointers.resize(static_cast<std::size_t>(mostArguments));
    m_outputPointers.resize(static_cast<std::size_t>(mostArguments));
    return {};
}

const SizedPasses *StageRunner::passesFor(std::int32_t microBatch) const
{
    const std::int32_t index = m_passesOf[static_cast<std::size_t>(microBatch)];
    return index < 0 ? nullptr : &m_passes[static_cast<std::size_t>(index)];
}

/// The slots of @p microBatch, and the seed of the kernels' random numbers: every pass of a micro-batch draws the
/// same. nullptr for an empty slice.
const SizedPasses *StageRunner::begin(std::int32_t microBatch, bool training)
{
    const SizedPasses *passes = passesFor(microBatch);
    if (passes == nullptr)
        return nullptr;
    m_addresses.select(microBatch);
    const std::int64_t first = m_body.slices[static_cast<std::size_t>(microBatch)].begin;
    for (device::DeviceKernel *kernel : passes->drawing)
        m_context.queue.begin(*kernel, {m_seed, m_step, first, passes->samples, training});
    return passes;
}

// --- Passes
// -----------------------------------------------------------------------------------------------------------

Status StageRunner::forward(std::int32_t microBatch, std::int64_t step, const Part &part, PassHooks &hooks)
{
    m_step = step;
    const SizedPasses *passes = begin(microBatch, true);
    if (passes == nullptr)
        return {};
    if (part.opens) {
        const std::int64_t first = m_body.slices[static_cast<std::size_t>(microBatch)].begin;
        if (const Status status = m_feeder.training(m_addresses, step, first, passes->samples); !status)
            return status;
    }
    if (part.calls.empty())
        run(passes->forward, part, hooks);
    else
        runPooled(*passes, part, hooks);
    if (part.closes && m_loss.area >= 0)
        m_losses.read(m_context.queue, microBatch, loss(), passes->samples);
    return {};
}

void StageRunner::recompute(std::int32_t microBatch, const Part &part, PassHooks &hooks)
{
    const SizedPasses *passes = begin(microBatch, true);
    if (passes == nullptr)
        return;
    if (part.calls.empty())
        run(passes->recompute, part, hooks);
    else
        runPooled(*passes, part, hooks);
}

void StageRunner::backward(std::int32_t microBatch, const Part &part, PassHooks &hooks)
{
    const SizedPasses *passes = begin(microBatch, true);
    if (passes == nullptr)
        return;
    if (part.opens && m_lossGradient.area >= 0)
        m_context.queue.fill(m_addresses.at(m_lossGradient),
                             std::bit_cast<std::uint32_t>(static_cast<float>(passes->samples)
                                                          / static_cast<float>(m_globalBatch)),
                             sizeof(float));
    if (part.calls.empty()) {
        run(passes->backward, part, hooks);
        if (part.closes && m_figures.area >= 0)
            m_context.queue.copyToHost(m_figuresRead.data(), m_addresses.at(m_figures), m_figures.bytes);
        return;
    }
    if (part.opens)
        accumulate(passes->backward, 0, passes->backward.accumulateFirst);
    runPooled(*passes, part, hooks);
}

void StageRunner::weightGradient(std::int32_t microBatch, const Part &part, PassHooks &hooks)
{
    const SizedPasses *passes = begin(microBatch, true);
    if (passes == nullptr)
        return;
    if (!part.calls.empty())
        return runPooled(*passes, part, hooks);
    Part rest = part;
    rest.opens = false; // incoming gradients were added when the pass before began
    run(passes->backward, rest, hooks);
}

void StageRunner::run(const CallList &list, const Part &part, PassHooks &hooks)
{
    if (part.opens)
        accumulate(list, 0, list.accumulateFirst);
    for (std::int32_t op = part.first; op < part.last; ++op) {
        const Call &call = list.calls[static_cast<std::size_t>(op - list.firstOp)];
        if (m_context.marks != nullptr)
            m_context.marks->atOperator(op - part.first);
        if (!call.idle)
            runCall(list, call, call.mode);
        accumulate(list, call.firstAccumulation, call.lastAccumulation);
        hooks.betweenOperators();
    }
    if (m_context.marks != nullptr)
        m_context.marks->afterOperators();
}

/// Operators of the forward pass, for the first time or again, or of the backward pass.
void StageRunner::runPooled(const SizedPasses &passes, const Part &part, PassHooks &hooks)
{
    for (const program::PooledCall &pooled : part.calls) {
        if (m_context.marks != nullptr)
            m_context.marks->atOperator(static_cast<std::int32_t>(&pooled - part.calls.data()));
        const bool forward = static_cast<std::size_t>(pooled.op) < m_body.training.forwardOps;
        const CallList &list = forward ? passes.forward : passes.backward;
        const Call &call = list.calls[static_cast<std::size_t>(pooled.op - list.firstOp)];
        if (!call.idle)
            runCall(list, call, call.mode, m_program.pooledPlaces.data() + pooled.firstPlace);
        accumulate(list, call.firstAccumulation, call.lastAccumulation);
        hooks.betweenOperators();
    }
    if (m_context.marks != nullptr)
        m_context.marks->afterOperators();
}

const std::int64_t *StageRunner::placesOfInference(std::size_t op) const
{
    if (m_body.firstInference < 0)
        return nullptr;
    const auto call = static_cast<std::size_t>(m_body.firstInference) + op;
    return m_program.pooledPlaces.data() + m_program.pooledCalls[call].firstPlace;
}

Status StageRunner::infer(std::int64_t begin, PassHooks &hooks)
{
    const SizedPasses *passes = this->begin(0, false);
    if (passes == nullptr)
        return {};
    if (const Status status = m_feeder.heldOut(m_addresses, begin, passes->samples); !status)
        return status;
    return inferAll(passes->forward, hooks);
}

Status StageRunner::inferAll(const CallList &list, PassHooks &hooks)
{
    for (std::size_t i = 0; i < list.calls.size(); ++i) {
        const Call &call = list.calls[i];
        const auto op = static_cast<std::int32_t>(i);
        if (call.kernel == nullptr) {
            if (const Status status = drain(m_context.queue, *m_event, m_context.deadline); !status)
                return status;
            if (!hooks.communicate(op, communicationOf(list, op)))
                return {};
        } else {
            runCall(list, call, device::Mode::Infer, placesOfInference(i));
        }
        if (call.scored)
            hooks.scored(scoredRows(list, call));
        hooks.betweenOperators();
    }
    return {};
}

/// @p pooled: per argument its place in the pool, -1: it lies where the list says; nullptr: all do.
void StageRunner::runCall(const CallList &list, const Call &call, device::Mode mode, const std::int64_t *pooled)
{
    const auto addressOf = [&](const Place &place, std::size_t argument) -> std::byte * {
        if (place.area < 0)
            return nullptr;
        if (pooled == nullptr || pooled[argument] < 0)
            return m_addresses.at(place);
        return m_addresses.at({static_cast<std::int32_t>(program::Area::Pool), pooled[argument], place.bytes});
    };
    const Place *place = list.places.data() + call.firstInput;
    const auto inputs = static_cast<std::size_t>(call.firstOutput - call.firstInput);
    const auto outputs = static_cast<std::size_t>(call.lastOutput - call.firstOutput);
    for (std::size_t i = 0; i < inputs; ++i, ++place)
        m_inputPointers[i] = addressOf(*place, i);
    for (std::size_t i = 0; i < outputs; ++i, ++place)
        m_outputPointers[i] = addressOf(*place, inputs + i);
    m_context.queue.run(*call.kernel, mode, {m_inputPointers.data(), inputs}, {m_outputPointers.data(), outputs});
}

void StageRunner::accumulate(const CallList &list, std::int32_t first, std::int32_t last)
{
    for (std::int32_t a = first; a < last; ++a) {
        const Accumulation &accumulation = list.accumulations[static_cast<std::size_t>(a)];
        m_context.queue.accumulate(reinterpret_cast<const float *>(m_addresses.at(accumulation.gradient)),
                                   reinterpret_cast<float *>(m_addresses.accumulator(accumulation)),
                                   accumulation.elements);
    }
}

device::ScoredRows StageRunner::scoredRows(const CallList &list, const Call &call) const
{
    const Place *places = list.places.data() + call.firstInput;
    const auto size = static_cast<std::int64_t>(
        *call.scored == device::ScoredRows::Form::HalfLogits ? sizeof(std::uint16_t) : sizeof(float));
    const std::int64_t rows = places[1].bytes / static_cast<std::int64_t>(sizeof(std::int64_t));
    return {.form = *call.scored,
            .values = m_inputPointers[0],
            .labels = static_cast<const std::int64_t *>(m_inputPointers[1]),
            .rows = rows,
            .width = places[0].bytes / size / rows,
            .ignored = call.ignored};
}

// --- Boxing
// -----------------------------------------------------------------------------------------------------------

Communication StageRunner::communicationOf(const CallList &list, std::int32_t op) const
{
    const Call &call = list.calls[static_cast<std::size_t>(op - list.firstOp)];
    const Place &input = list.places[static_cast<std::size_t>(call.firstInput)];
    const Place &output = list.places[static_cast<std::size_t>(call.firstOutput)];
    const graph::Op &boxing = m_body.training.graph.ops()[static_cast<std::size_t>(op)];
    return {m_addresses.at(input), m_addresses.at(output), input.bytes, output.bytes,
            m_body.training.graph.tensor(boxing.inputs.front()).type};
}

/// The calls of @p pass, with the slots of @p microBatch; nullptr for an empty slice.
const CallList *StageRunner::select(program::Pass pass, std::int32_t microBatch)
{
    const SizedPasses *passes = passesFor(microBatch);
    if (passes == nullptr)
        return nullptr;
    m_addresses.select(microBatch);
    if (pass == program::Pass::Forward)
        return &passes->forward;
    return pass == program::Pass::Recompute ? &passes->recompute : &passes->backward;
}

Communication StageRunner::communication(program::Pass pass, std::int32_t microBatch, std::int32_t op)
{
    const CallList *list = select(pass, microBatch);
    return list == nullptr ? Communication() : communicationOf(*list, op);
}

void StageRunner::communicated(program::Pass pass, std::int32_t microBatch, std::int32_t op)
{
    const CallList *list = select(pass, microBatch);
    if (list == nullptr)
        return;
    const Call &call = list->calls[static_cast<std::size_t>(op - list->firstOp)];
    accumulate(*list, call.firstAccumulation, call.lastAccumulation);
}

} // namespace planloom::runtime

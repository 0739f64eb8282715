// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/stage_runner.h"

#include "engine/admm/training_graph.h"
#include "executor/runtime/clock.h"

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
      m_losses(std::move(losses)),
      m_graphs(context.queue, context.marks)
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
        m_slotsOf.push_back(firstWithSlotsOf(m_slotsOf.size()));
        if (slice.size == 0 || same != m_passes.end())
            continue;
        Result<SizedPasses> made = makePasses(m_context.device, m_body, slice.size);
        if (!made)
            return made.error();
        for (const CallList *list : {&made->forward, &made->recompute, &made->backward})
            mostArguments = std::max(mostArguments, list->mostArguments);
        m_captures = m_captures || std::any_of(made->kernels.begin(), made->kernels.end(), [](const auto &kernel) {
                         return kernel != nullptr && kernel->has(device::DeviceKernel::kCaptures);
                     });
        m_passes.push_back(std::move(*made));
    }
    m_inputPointers.resize(static_cast<std::size_t>(mostArguments));
    m_outputPointers.resize(static_cast<std::size_t>(mostArguments));
    return {};
}

std::int32_t StageRunner::firstWithSlotsOf(std::size_t microBatch) const
{
    const auto &table = m_body.slotTable;
    std::size_t first = 0;
    while (first < microBatch && !std::ranges::equal(table[first].slot, table[microBatch].slot))
        ++first;
    return static_cast<std::int32_t>(first);
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
    m_slots = m_slotsOf[static_cast<std::size_t>(microBatch)];
    m_measured = training && m_context.times != nullptr && m_context.times->counts() ? microBatch : -1;
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
        run(passes->forward, part, {}, hooks);
    else
        runPooled(*passes, part, {}, hooks);
    if (part.closes && m_loss.area >= 0)
        m_losses.read(m_context.queue, microBatch, loss(), passes->samples);
    return part.closes ? bringAhead(microBatch) : Status();
}

/// Samples of the forward pass that follows.
Status StageRunner::bringAhead(std::int32_t microBatch)
{
    const auto count = static_cast<std::int32_t>(m_body.slices.size());
    for (std::int32_t i = 1; i <= count; ++i) {
        const std::int32_t next = (microBatch + i) % count;
        const plan::SampleRange &slice = m_body.slices[static_cast<std::size_t>(next)];
        if (slice.size > 0)
            return m_feeder.bringAhead(next > microBatch ? m_step : m_step + 1, slice.begin, slice.size);
    }
    return {};
}

void StageRunner::recompute(std::int32_t microBatch, const Part &part, PassHooks &hooks)
{
    const SizedPasses *passes = begin(microBatch, true);
    if (passes == nullptr)
        return;
    m_measured = -1; // each operator counts once
    if (part.calls.empty())
        run(passes->recompute, part, {}, hooks);
    else
        runPooled(*passes, part, {}, hooks);
}

void StageRunner::backward(std::int32_t microBatch, const Part &part, PassHooks &hooks)
{
    const SizedPasses *passes = begin(microBatch, true);
    if (passes == nullptr)
        return;
    const float gradient = static_cast<float>(passes->samples) / static_cast<float>(m_globalBatch);
    const Opening opening =
        part.opens ? Opening{&passes->backward, m_lossGradient.area >= 0 ? &gradient : nullptr} : Opening();
    if (part.calls.empty()) {
        run(passes->backward, part, opening, hooks);
        if (part.closes && m_figures.area >= 0)
            m_context.queue.copyToHost(m_figuresRead.data(), m_addresses.at(m_figures), m_figures.bytes);
        return;
    }
    runPooled(*passes, part, opening, hooks);
}

void StageRunner::weightGradient(std::int32_t microBatch, const Part &part, PassHooks &hooks)
{
    const SizedPasses *passes = begin(microBatch, true);
    if (passes == nullptr)
        return;
    // Incoming gradients were added when the pass before began.
    if (part.calls.empty())
        run(passes->backward, part, {}, hooks);
    else
        runPooled(*passes, part, {}, hooks);
}

void StageRunner::run(const CallList &list, const Part &part, Opening opening, PassHooks &hooks)
{
    const auto turnOf = [&](std::int32_t number) {
        return Turn{&list, &list.calls[static_cast<std::size_t>(part.first + number - list.firstOp)], nullptr};
    };
    giveAll({&list, nullptr, m_slots, part.first, part.last, opening.accumulates != nullptr}, opening,
            part.last - part.first, turnOf, hooks);
}

/// Operators of the forward pass, for the first time or again, or of the backward pass.
void StageRunner::runPooled(const SizedPasses &passes, const Part &part, const Opening &opening, PassHooks &hooks)
{
    const auto turnOf = [&](std::int32_t number) {
        const program::PooledCall &pooled = part.calls[static_cast<std::size_t>(number)];
        const bool forward = static_cast<std::size_t>(pooled.op) < m_body.training.forwardOps;
        const CallList &list = forward ? passes.forward : passes.backward;
        return Turn{&list, &list.calls[static_cast<std::size_t>(pooled.op - list.firstOp)],
                    m_program.pooledPlaces.data() + pooled.firstPlace};
    };
    const auto count = static_cast<std::int32_t>(part.calls.size());
    giveAll({&passes, part.calls.data(), m_slots, 0, count, opening.accumulates != nullptr}, opening, count, turnOf,
            hooks);
}

/// Piece 0 is the opening, the operators follow.
template <class TurnOf>
void StageRunner::giveAll(const PassGraphs::Key &key, const Opening &opening, std::int32_t count, const TurnOf &turnOf,
                          PassHooks &hooks)
{
    const auto captures = [&](std::int32_t piece) {
        const Call *call = piece == 0 ? nullptr : turnOf(piece - 1).call;
        return call == nullptr || call->idle || call->kernel->has(device::DeviceKernel::kCaptures);
    };
    const auto give = [&](std::int32_t piece) {
        if (piece == 0) {
            open(opening);
            return;
        }
        if (m_context.marks != nullptr)
            m_context.marks->atOperator(piece - 1);
        const Turn turn = turnOf(piece - 1);
        if (m_measured < 0)
            giveOperator(turn);
        else
            giveMeasured(turn);
    };
    const auto between = [&](std::int32_t piece) {
        if (piece > 0)
            hooks.betweenOperators();
    };
    if (m_captures && !hooks.seesEachOperator() && m_measured < 0) {
        m_graphs.run(key, count + 1, captures, give, between);
    } else {
        for (std::int32_t piece = 0; piece <= count; ++piece) {
            give(piece);
            between(piece);
        }
    }
    if (m_context.marks != nullptr)
        m_context.marks->afterOperators();
}

void StageRunner::giveOperator(const Turn &turn)
{
    if (!turn.call->idle)
        runCall(*turn.list, *turn.call, turn.call->mode, turn.pooled);
    accumulate(*turn.list, turn.call->firstAccumulation, turn.call->lastAccumulation);
}

/// Alone in its queue, from its launch to its end. An error of the device is that of the next poll, too.
void StageRunner::giveMeasured(const Turn &turn)
{
    const auto ended = [this] {
        if (!m_context.device.hostAddressable()) [[maybe_unused]]
            const Status drained = drain(m_context.queue, *m_event, m_context.deadline);
        return monotonicNanoseconds();
    };
    const std::int64_t begin = ended();
    giveOperator(turn);
    m_context.times->add(turn.op(), m_measured, static_cast<double>(ended() - begin) * 1e-9);
}

void StageRunner::open(const Opening &opening)
{
    if (opening.lossGradient != nullptr)
        m_context.queue.fill(m_addresses.at(m_lossGradient), std::bit_cast<std::uint32_t>(*opening.lossGradient),
                             sizeof(float));
    if (opening.accumulates != nullptr)
        accumulate(*opening.accumulates, 0, opening.accumulates->accumulateFirst);
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
            if (const Status status = bringParameters(op); !status)
                return status;
            runCall(list, call, device::Mode::Infer, placesOfInference(i));
        }
        if (call.scored)
            hooks.scored(scoredRows(list, call));
        hooks.betweenOperators();
    }
    return {};
}

/// Those on the host that operator @p op reads, to their places for it.
Status StageRunner::bringParameters(std::int32_t op)
{
    const auto &copies = m_body.inferenceCopies;
    const std::int64_t pool = m_body.pools[static_cast<std::size_t>(program::Area::Pool)].begin;
    for (auto each = std::lower_bound(copies.begin(), copies.end(), op,
                                      [](const program::InferenceCopy &copy, std::int32_t of) { return copy.op < of; });
         each != copies.end() && each->op == op; ++each) {
        const program::HostCopy &copy = each->copy;
        std::byte *to = m_context.arena.use(pool + copy.place, copy.bytes);
        if (!m_context.device.hostAddressable())
            m_context.queue.copyToDevice(to, m_context.host->memory(copy.host), copy.bytes);
        else if (const Status status = m_context.host->copyAnywhere(false, to, copy.host, copy.bytes); !status)
            return status;
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

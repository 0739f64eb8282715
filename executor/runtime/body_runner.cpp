// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/body_runner.h"

#include "engine/plan/training.h"
#include "executor/device/bfloat16.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace planloom::runtime {

using program::Area;
using program::Body;

BodyRunner::BodyRunner(const program::Program &program, const Body &body, Arena &arena, const Feed &feed)
    : m_body(body), m_arena(arena), m_feed(feed), m_globalBatch(program.globalBatch)
{
    for (std::size_t d = 1; d < body.coordinates.size(); ++d)
        m_countsLoss = m_countsLoss && body.coordinates[d] == 0;
}

Result<std::unique_ptr<BodyRunner>> BodyRunner::create(const program::Program &program, const Body &body, Arena &arena, const Feed &feed)
{
    std::unique_ptr<BodyRunner> runner(new BodyRunner(program, body, arena, feed));
    if (const Status status = runner->prepareInputs(); !status)
        return status.error();
    if (const Status status = runner->prepareScripts(); !status)
        return status.error();
    return runner;
}

namespace {

/// Whether the loss is what one operator says of logits and labels, moved about at most.
bool isMeanOverLabels(const graph::TrainingGraph &training)
{
    static const std::set<std::string_view> kMoves{"AllReduce", "Cast", "Identity", "KeepOnFirst", "Reshape", "Squeeze", "Unsqueeze"};
    TensorId value = training.loss;
    while (training.graph.tensor(value).producer.valid()) {
        const graph::Op &op = training.graph.op(training.graph.tensor(value).producer);
        if (scoredOf(training.graph, op) != Scored::Nothing)
            return value == op.outputs[0];
        if (!kMoves.contains(op.type))
            return false;
        value = op.inputs[0];
    }
    return false;
}

} // namespace

Status BodyRunner::prepareInputs()
{
    const graph::TrainingGraph &training = m_body.training;
    const auto received = [](const std::vector<TensorId> &ids, TensorId id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
    TensorId lossGradient;
    if (training.loss.valid())
        lossGradient = training.graph.find("grad/" + training.graph.tensor(training.loss).name);
    for (const graph::Tensor &tensor : training.graph.tensors()) {
        const bool fed = tensor.role == graph::TensorRole::Input && tensor.id != lossGradient && !received(training.inputs, tensor.id)
            && !received(training.outputGradients, tensor.id);
        if (!fed)
            continue;
        const auto &known = m_feed.needs.inputs;
        const auto need = std::find_if(known.begin(), known.end(), [&](const data::Needs::Input &input) { return input.name == tensor.name; });
        const bool labels = tensor.name == m_feed.needs.labels;
        if (need == known.end() && !labels)
            return unsupported("nothing feeds the model's input \"" + tensor.name + "\"; name it in the data, or export the model without it");
        m_inputs.push_back({placeOf(m_body, m_body.forwardPlaces, tensor.id, 1), labels, labels ? 0 : static_cast<std::size_t>(need - known.begin())});
    }
    const bool holdsLoss = training.loss.valid() && training.graph.tensor(training.loss).producer.valid();
    if (!holdsLoss)
        return {};
    m_loss = placeOf(m_body, m_body.forwardPlaces, training.loss, 1);
    m_scoresLabels = isMeanOverLabels(training);
    if (lossGradient.valid())
        m_lossGradient = placeOf(m_body, m_body.backwardPlaces, lossGradient, 1);
    return {};
}

Status BodyRunner::prepareScripts()
{
    std::int32_t mostArguments = 0;
    for (const plan::SampleRange &slice : m_body.slices) {
        const auto same = std::find_if(m_scripts.begin(), m_scripts.end(), [&](const SizedScripts &s) { return s.samples == slice.size; });
        m_scriptOf.push_back(slice.size == 0 ? -1 : static_cast<std::int32_t>(same - m_scripts.begin()));
        if (slice.size == 0 || same != m_scripts.end())
            continue;
        Result<SizedScripts> made = makeScripts(m_body, slice.size);
        if (!made)
            return made.error();
        for (const Script *script : {&made->forward, &made->recompute, &made->backward})
            mostArguments = std::max(mostArguments, script->mostArguments);
        m_scripts.push_back(std::move(*made));
    }
    m_inputPointers.resize(static_cast<std::size_t>(mostArguments));
    m_outputPointers.resize(static_cast<std::size_t>(mostArguments));
    return {};
}

Status BodyRunner::initialize(const graph::Graph &subject, std::int64_t seed, const std::string &modelFolder)
{
    m_seed = seed;
    for (const program::Held &held : m_body.held) {
        // The backward pass may have constants of its own: those are initialised as they say themselves.
        const TensorId original = subject.find(held.name);
        const graph::Graph &own = m_body.training.graph;
        const graph::Tensor &described = original.valid() ? subject.tensor(original) : own.tensor(own.find(held.name));
        if (const Status status = initializeHeld(held, described, seed, modelFolder); !status)
            return status;
    }
    return {};
}

namespace {

std::uint16_t toBFloat16(float value)
{
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffU) > 0x7f800000U)
        return static_cast<std::uint16_t>((bits >> 16U) | 0x40U); // stays a NaN
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

/// Calls take(from, to, count) for the runs of a row-major tensor of @p sizes that make up @p region, with where they lie in both.
template <class F>
void eachRun(const std::vector<std::int64_t> &sizes, const sharding::Region &region, std::size_t axis, std::int64_t from, std::int64_t &to, const F &take)
{
    if (axis == sizes.size()) {
        take(from, to, 1);
        ++to;
        return;
    }
    for (const sharding::Interval &interval : region[axis]) {
        if (axis + 1 == sizes.size()) {
            take(from * sizes[axis] + interval.begin, to, interval.end - interval.begin);
            to += interval.end - interval.begin;
            continue;
        }
        for (std::int64_t i = interval.begin; i < interval.end; ++i)
            eachRun(sizes, region, axis + 1, from * sizes[axis] + i, to, take);
    }
}

} // namespace

/// First values are drawn for the whole tensor, so that every layout starts from the same, and the own part is taken from them.
Status BodyRunner::initializeHeld(const program::Held &held, const graph::Tensor &described, std::int64_t seed, const std::string &modelFolder)
{
    const std::int64_t all = described.shape.elements(1);
    std::byte *place = m_arena.use(held.offset, held.count * graph::sizeOf(held.type));
    const bool plain = held.count == all && held.copy < 0;
    if (plain)
        return device::initialize(described, all, seed, modelFolder, place);
    const std::int64_t size = graph::sizeOf(held.type);
    std::vector<std::byte> whole(static_cast<std::size_t>(all * size));
    if (const Status status = device::initialize(described, all, seed, modelFolder, whole.data()); !status)
        return status;
    std::vector<std::byte> part(static_cast<std::size_t>(sharding::elements(held.region) * size));
    std::int64_t to = 0;
    eachRun(held.sizes, held.region, 0, 0, to, [&](std::int64_t from, std::int64_t at, std::int64_t count) {
        std::memcpy(part.data() + at * size, whole.data() + from * size, static_cast<std::size_t>(count * size));
    });
    std::memcpy(place, part.data() + held.begin * size, static_cast<std::size_t>(held.count * size));
    if (held.copy < 0)
        return {};
    auto *copy = reinterpret_cast<std::uint16_t *>(m_arena.use(held.copy, held.copyCount * 2));
    const auto *values = reinterpret_cast<const float *>(part.data()) + held.copyBegin;
    std::transform(values, values + held.copyCount, copy, toBFloat16);
    return {};
}

const SizedScripts *BodyRunner::scriptsFor(std::int32_t microBatch) const
{
    const std::int32_t index = m_scriptOf[static_cast<std::size_t>(microBatch)];
    return index < 0 ? nullptr : &m_scripts[static_cast<std::size_t>(index)];
}

void BodyRunner::setSlots(std::int32_t microBatch)
{
    const program::Slots &slots = m_body.slotTable[static_cast<std::size_t>(microBatch)];
    for (std::size_t area = 0; area < program::kAreas; ++area) {
        const program::Pool &pool = m_body.pools[area];
        m_base[area] = pool.begin + std::max(slots.slot[area], 0) * pool.slotBytes;
    }
}

template <class IndexOf>
void BodyRunner::fillInputs(std::int64_t samples, const IndexOf &indexOf)
{
    for (const InputTensor &input : m_inputs) {
        std::byte *data = at({input.place.area, input.place.offset, input.place.bytes * samples});
        for (std::int64_t i = 0; i < samples; ++i, data += input.place.bytes) {
            if (input.labels)
                m_feed.data->fillLabels(indexOf(i), reinterpret_cast<std::int64_t *>(data));
            else
                m_feed.data->fillInputAt(input.index, indexOf(i), data);
        }
    }
}

/// Tells kernels that draw what decides their numbers: every pass of a micro-batch draws the same.
void BodyRunner::drawFor(const SizedScripts &scripts, std::int32_t microBatch, bool training)
{
    const std::int64_t begin = m_body.slices[static_cast<std::size_t>(microBatch)].begin;
    for (device::RandomKernel *kernel : scripts.random)
        kernel->begin({m_seed, m_step, begin, scripts.samples, training});
}

void BodyRunner::run(const Script &script, const Part &part, Between &between, Scoring *scoring)
{
    for (std::int32_t a = 0; part.opens && a < script.accumulateFirst; ++a)
        add(script.accumulations[static_cast<std::size_t>(a)]);
    for (std::int32_t op = part.first; op < part.last; ++op) {
        const Call &call = script.calls[static_cast<std::size_t>(op - script.firstOp)];
        if (call.kernel == nullptr && !call.idle) {
            if (!between.communicate(op, communicationOf(script, op)))
                return;
        } else if (!call.idle) {
            runCall(script, call, scoring != nullptr ? *call.inference : *call.kernel);
        }
        for (std::int32_t a = call.firstAccumulation; a < call.lastAccumulation; ++a)
            add(script.accumulations[static_cast<std::size_t>(a)]);
        if (scoring != nullptr && call.scored != Scored::Nothing)
            countHits(script, call, *scoring);
        between.betweenOperators();
    }
}

void BodyRunner::runCall(const Script &script, const Call &call, device::Kernel &kernel)
{
    const Place *place = script.places.data() + call.firstInput;
    const auto inputs = static_cast<std::size_t>(call.firstOutput - call.firstInput);
    const auto outputs = static_cast<std::size_t>(call.lastOutput - call.firstOutput);
    for (std::size_t i = 0; i < inputs; ++i, ++place)
        m_inputPointers[i] = place->area < 0 ? nullptr : at(*place);
    for (std::size_t i = 0; i < outputs; ++i, ++place)
        m_outputPointers[i] = place->area < 0 ? nullptr : at(*place);
    if (call.adding != nullptr)
        call.adding->add({m_inputPointers.data(), inputs}, {m_outputPointers.data(), outputs});
    else
        kernel.run({m_inputPointers.data(), inputs}, {m_outputPointers.data(), outputs});
}

Communication BodyRunner::communicationOf(const Script &script, std::int32_t op)
{
    const Call &call = script.calls[static_cast<std::size_t>(op - script.firstOp)];
    const Place &input = script.places[static_cast<std::size_t>(call.firstInput)];
    const Place &output = script.places[static_cast<std::size_t>(call.firstOutput)];
    const graph::Op &boxing = m_body.training.graph.ops()[static_cast<std::size_t>(op)];
    return {at(input), at(output), input.bytes, output.bytes, m_body.training.graph.tensor(boxing.inputs.front()).type};
}

const Script *BodyRunner::scriptOf(program::Pass pass, std::int32_t microBatch) const
{
    const SizedScripts *scripts = scriptsFor(microBatch);
    if (scripts == nullptr)
        return nullptr;
    return pass == program::Pass::Forward ? &scripts->forward : pass == program::Pass::Recompute ? &scripts->recompute : &scripts->backward;
}

Communication BodyRunner::communication(program::Pass pass, std::int32_t microBatch, std::int32_t op)
{
    const Script *script = scriptOf(pass, microBatch);
    if (script == nullptr)
        return {};
    setSlots(microBatch);
    return communicationOf(*script, op);
}

void BodyRunner::communicated(program::Pass pass, std::int32_t microBatch, std::int32_t op)
{
    const Script *script = scriptOf(pass, microBatch);
    if (script == nullptr)
        return;
    setSlots(microBatch);
    const Call &call = script->calls[static_cast<std::size_t>(op - script->firstOp)];
    for (std::int32_t a = call.firstAccumulation; a < call.lastAccumulation; ++a)
        add(script->accumulations[static_cast<std::size_t>(a)]);
}

void BodyRunner::add(const Accumulation &accumulation)
{
    const auto *gradient = reinterpret_cast<const float *>(at(accumulation.gradient));
    const std::int64_t bytes = accumulation.elements * static_cast<std::int64_t>(sizeof(float));
    device::accumulate(gradient, reinterpret_cast<float *>(m_arena.use(accumulation.accumulator, bytes)), accumulation.elements);
}

void BodyRunner::forward(std::int32_t microBatch, std::int64_t step, const Part &part, Between &between)
{
    const SizedScripts *scripts = scriptsFor(microBatch);
    if (scripts == nullptr)
        return;
    setSlots(microBatch);
    const std::int64_t begin = m_body.slices[static_cast<std::size_t>(microBatch)].begin;
    m_step = step;
    drawFor(*scripts, microBatch, true);
    if (part.opens)
        fillInputs(scripts->samples, [&](std::int64_t i) { return m_feed.order.sampleIndex(step, m_globalBatch, begin + i); });
    run(scripts->forward, part, between);
    if (m_loss.area < 0 || !m_countsLoss || !part.closes)
        return;
    const float loss = *reinterpret_cast<const float *>(at(m_loss));
    m_lossSum += static_cast<double>(loss) * static_cast<double>(scripts->samples) / static_cast<double>(m_globalBatch);
}

void BodyRunner::recompute(std::int32_t microBatch, const Part &part, Between &between)
{
    const SizedScripts *scripts = scriptsFor(microBatch);
    if (scripts == nullptr)
        return;
    setSlots(microBatch);
    drawFor(*scripts, microBatch, true);
    run(scripts->recompute, part, between);
}

void BodyRunner::backward(std::int32_t microBatch, const Part &part, Between &between)
{
    const SizedScripts *scripts = scriptsFor(microBatch);
    if (scripts == nullptr)
        return;
    setSlots(microBatch);
    drawFor(*scripts, microBatch, true);
    if (part.opens && m_lossGradient.area >= 0)
        *reinterpret_cast<float *>(at(m_lossGradient)) = static_cast<float>(scripts->samples) / static_cast<float>(m_globalBatch);
    run(scripts->backward, part, between);
}

void BodyRunner::weightGradient(std::int32_t microBatch, const Part &part, Between &between)
{
    const SizedScripts *scripts = scriptsFor(microBatch);
    if (scripts == nullptr)
        return;
    setSlots(microBatch);
    drawFor(*scripts, microBatch, true);
    Part rest = part;
    rest.opens = false; // what comes in as a gradient was added when the pass before began
    run(scripts->backward, rest, between);
}

void BodyRunner::prepareUpdate(const plan::Optimizer &how)
{
    m_updates.clear();
    m_normRanges.clear();
    m_rateFactors.clear();
    for (const program::Held &held : m_body.held) {
        if (held.kind != program::Held::Kind::Parameter || held.gradient < 0 || held.updateCount == 0)
            continue;
        const auto floats = [&](std::int64_t offset) {
            return offset < 0 ? nullptr : reinterpret_cast<float *>(m_arena.use(offset, held.updateCount * static_cast<std::int64_t>(sizeof(float))));
        };
        device::UpdateRange range;
        range.parameter = floats(held.offset + (held.updateBegin - held.begin) * static_cast<std::int64_t>(sizeof(float)));
        range.gradient = floats(held.gradient);
        range.moment1 = floats(held.moments[0]);
        range.moment2 = floats(held.moments[1]);
        if (held.copy >= 0)
            range.copy = reinterpret_cast<std::uint16_t *>(m_arena.use(held.copy + (held.updateBegin - held.copyBegin) * 2, held.updateCount * 2));
        range.count = held.updateCount;
        const plan::ParameterSettings settings = plan::settingsOf(how, held.name, held.sizes.size());
        range.decay = static_cast<float>(settings.weightDecay);
        m_rateFactors.push_back(static_cast<float>(settings.learningRateFactor));
        m_updates.push_back(range);
        if (held.saves)
            m_normRanges.push_back(range);
    }
}

double BodyRunner::squaredGradientNorm() const { return device::squaredNorm(m_normRanges); }

void BodyRunner::optimize(const plan::Optimizer &how, const Update &update)
{
    for (std::size_t i = 0; i < m_updates.size(); ++i)
        m_updates[i].rate = static_cast<float>(update.learningRate) * m_rateFactors[i];
    if (how.kind == plan::Optimizer::Kind::AdamW) {
        device::AdamWStep step;
        step.beta1 = how.beta1;
        step.beta2 = how.beta2;
        step.epsilon = how.epsilon;
        step.step = update.step + 1;
        step.gradientScale = update.gradientScale;
        device::adamW(step, m_updates);
        return;
    }
    device::SgdStep step;
    step.momentum = how.momentum;
    step.gradientScale = update.gradientScale;
    device::sgd(step, m_updates);
}

Scores BodyRunner::score(std::int64_t first, Between &between)
{
    const SizedScripts *scripts = scriptsFor(0);
    if (scripts == nullptr)
        return {};
    setSlots(0);
    const std::int64_t heldOut = m_feed.order.heldOut();
    const std::int64_t begin = first + m_body.slices[0].begin;
    fillInputs(scripts->samples, [&](std::int64_t i) { return m_feed.order.heldOutIndex((begin + i) % heldOut); });
    drawFor(*scripts, 0, false);
    Scoring scoring;
    scoring.samples = scripts->samples;
    scoring.counted = std::clamp<std::int64_t>(heldOut - begin, 0, scripts->samples);
    run(scripts->forward, forwardPart(), between, &scoring);
    if (!m_countsLoss)
        return {};
    Scores scores = scoring.scores;
    if (m_loss.area >= 0 && !m_scoresLabels) { // of the whole slice: where held-out samples do not fill it, some count more than others
        scores.weight = static_cast<double>(scoring.counted);
        scores.loss = scoring.counted > 0 ? scores.weight * static_cast<double>(*reinterpret_cast<const float *>(at(m_loss))) : 0;
    }
    return scores;
}

namespace {

/// As LossStatistics has it; @p first says whether the label is the first of the largest.
struct RowStatistics {
    double most = 0;
    double sum = 0;
    double target = 0;
    bool first = false;
};

RowStatistics statisticsOf(std::span<const float> logits, std::int64_t label)
{
    const auto best = std::max_element(logits.begin(), logits.end());
    RowStatistics row{.most = *best, .target = logits[static_cast<std::size_t>(label)], .first = best - logits.begin() == label};
    for (const float logit : logits)
        row.sum += std::exp(static_cast<double>(logit) - row.most);
    return row;
}

} // namespace

void BodyRunner::countHits(const Script &script, const Call &loss, Scoring &scoring)
{
    const Place *places = script.places.data() + loss.firstInput;
    const auto *labels = static_cast<const std::int64_t *>(m_inputPointers[1]);
    const bool half = loss.scored == Scored::HalfLogits;
    const std::int64_t rows = places[1].bytes / static_cast<std::int64_t>(sizeof(std::int64_t));
    const std::int64_t width = places[0].bytes / static_cast<std::int64_t>(half ? sizeof(device::BFloat16Bits) : sizeof(float)) / rows;
    const std::int64_t counted = rows / scoring.samples * scoring.counted;
    m_widened.resize(half ? static_cast<std::size_t>(width) : 0);
    for (std::int64_t r = 0; r < counted; ++r) {
        if (labels[r] == loss.ignored)
            continue;
        const auto *values = static_cast<const float *>(m_inputPointers[0]) + (half ? 0 : r * width);
        if (half) {
            device::widenBFloat16(static_cast<const device::BFloat16Bits *>(m_inputPointers[0]) + r * width, m_widened.data(), width);
            values = m_widened.data();
        }
        const RowStatistics row = loss.scored == Scored::Statistics ? RowStatistics{values[0], values[1], values[2], values[2] >= values[0]}
                                                                    : statisticsOf({values, static_cast<std::size_t>(width)}, labels[r]);
        scoring.scores.weight += 1;
        scoring.scores.loss += std::log(row.sum) + row.most - row.target;
        scoring.scores.right += row.first ? 1 : 0;
        scoring.scores.rows += 1;
    }
}

double BodyRunner::takeLoss()
{
    return std::exchange(m_lossSum, 0.0);
}

} // namespace planloom::runtime

// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/body_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace planloom::runtime {

using program::Area;
using program::Body;

BodyRunner::BodyRunner(const program::Program &program, const Body &body, Arena &arena, const Feed &feed)
    : m_body(body), m_arena(arena), m_feed(feed), m_globalBatch(program.globalBatch)
{
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
        if (tensor.name != m_feed.needs.input && tensor.name != m_feed.needs.labels)
            return unsupported("nothing feeds the model's input \"" + tensor.name + "\"; training can feed \"" + m_feed.needs.input + "\" and \"" + m_feed.needs.labels + "\"");
        m_inputs.push_back({placeOf(m_body, m_body.forwardPlaces, tensor.id, 1), tensor.name == m_feed.needs.labels});
    }
    const bool holdsLoss = training.loss.valid() && training.graph.tensor(training.loss).producer.valid();
    if (!holdsLoss)
        return {};
    m_loss = placeOf(m_body, m_body.forwardPlaces, training.loss, 1);
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
    setSlots(0);
    for (const graph::Tensor &tensor : m_body.training.graph.tensors()) {
        const bool held = tensor.role == graph::TensorRole::Parameter || tensor.role == graph::TensorRole::State || tensor.role == graph::TensorRole::Constant;
        if (!held)
            continue;
        // The backward pass may have constants of its own: those are initialised as they say themselves.
        const TensorId original = subject.find(tensor.name);
        const graph::Tensor &described = original.valid() ? subject.tensor(original) : tensor;
        void *data = at(placeOf(m_body, m_body.forwardPlaces, tensor.id, 1));
        if (const Status status = device::initialize(described, tensor.shape.elements(1), seed, modelFolder, data); !status)
            return status;
    }
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
                m_feed.data->fillInput(indexOf(i), data);
        }
    }
}

void BodyRunner::run(const Script &script, Between &between, Scoring *scoring)
{
    for (std::int32_t a = 0; a < script.accumulateFirst; ++a)
        add(script.accumulations[static_cast<std::size_t>(a)]);
    for (const Call &call : script.calls) {
        const Place *place = script.places.data() + call.firstInput;
        const auto inputs = static_cast<std::size_t>(call.firstOutput - call.firstInput);
        const auto outputs = static_cast<std::size_t>(call.lastOutput - call.firstOutput);
        for (std::size_t i = 0; i < inputs; ++i, ++place)
            m_inputPointers[i] = place->area < 0 ? nullptr : at(*place);
        for (std::size_t i = 0; i < outputs; ++i, ++place)
            m_outputPointers[i] = place->area < 0 ? nullptr : at(*place);
        call.kernel->run({m_inputPointers.data(), inputs}, {m_outputPointers.data(), outputs});
        for (std::int32_t a = call.firstAccumulation; a < call.lastAccumulation; ++a)
            add(script.accumulations[static_cast<std::size_t>(a)]);
        if (scoring != nullptr && call.loss)
            countHits(script, call, *scoring);
        between.betweenOperators();
    }
}

void BodyRunner::add(const Accumulation &accumulation)
{
    const auto *gradient = reinterpret_cast<const float *>(at(accumulation.gradient));
    const std::int64_t bytes = accumulation.elements * static_cast<std::int64_t>(sizeof(float));
    const Place accumulator{static_cast<std::int32_t>(Area::Persistent), accumulation.accumulator, bytes};
    device::accumulate(gradient, reinterpret_cast<float *>(at(accumulator)), accumulation.elements);
}

void BodyRunner::forward(std::int32_t microBatch, std::int64_t step, Between &between)
{
    const SizedScripts *scripts = scriptsFor(microBatch);
    if (scripts == nullptr)
        return;
    setSlots(microBatch);
    const std::int64_t begin = m_body.slices[static_cast<std::size_t>(microBatch)].begin;
    fillInputs(scripts->samples, [&](std::int64_t i) { return m_feed.order.sampleIndex(step, m_globalBatch, begin + i); });
    run(scripts->forward, between);
    if (m_loss.area < 0)
        return;
    const float loss = *reinterpret_cast<const float *>(at(m_loss));
    m_lossSum += static_cast<double>(loss) * static_cast<double>(scripts->samples) / static_cast<double>(m_globalBatch);
}

void BodyRunner::recompute(std::int32_t microBatch, Between &between)
{
    const SizedScripts *scripts = scriptsFor(microBatch);
    if (scripts == nullptr)
        return;
    setSlots(microBatch);
    run(scripts->recompute, between);
}

void BodyRunner::backward(std::int32_t microBatch, Between &between)
{
    const SizedScripts *scripts = scriptsFor(microBatch);
    if (scripts == nullptr)
        return;
    setSlots(microBatch);
    if (m_lossGradient.area >= 0)
        *reinterpret_cast<float *>(at(m_lossGradient)) = static_cast<float>(scripts->samples) / static_cast<float>(m_globalBatch);
    run(scripts->backward, between);
}

void BodyRunner::optimize(const plan::Optimizer &how, std::int64_t step)
{
    const graph::TrainingGraph &training = m_body.training;
    for (std::size_t p = 0; p < training.parameters.size(); ++p) {
        const graph::Tensor &tensor = training.graph.tensor(training.parameters[p]);
        const std::int64_t elements = tensor.shape.elements(1);
        const auto floats = [&](std::int64_t offset) {
            return reinterpret_cast<float *>(at({static_cast<std::int32_t>(Area::Persistent), offset, tensor.bytes(1).value()}));
        };
        float *parameter = floats(m_body.parameterOffsets[p]);
        float *gradient = floats(m_body.gradientOffsets[p]);
        if (how.kind == plan::Optimizer::Kind::AdamW) {
            device::adamW({how.learningRate, how.beta1, how.beta2, how.epsilon, how.weightDecay, step + 1}, parameter, gradient, floats(m_body.stateOffsets[0][p]),
                          floats(m_body.stateOffsets[1][p]), elements);
            continue;
        }
        float *velocity = m_body.stateOffsets.empty() ? nullptr : floats(m_body.stateOffsets[0][p]);
        device::sgd({how.learningRate, how.momentum, how.weightDecay}, parameter, gradient, velocity, elements);
    }
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
    Scoring scoring;
    scoring.samples = scripts->samples;
    scoring.counted = std::clamp<std::int64_t>(heldOut - begin, 0, scripts->samples);
    run(scripts->forward, between, &scoring);
    return scoring.scores;
}

void BodyRunner::countHits(const Script &script, const Call &loss, Scoring &scoring) const
{
    const Place *places = script.places.data() + loss.firstInput;
    const auto *logits = static_cast<const float *>(m_inputPointers[0]);
    const auto *labels = static_cast<const std::int64_t *>(m_inputPointers[1]);
    const std::int64_t rows = places[1].bytes / static_cast<std::int64_t>(sizeof(std::int64_t));
    const std::int64_t classes = places[0].bytes / static_cast<std::int64_t>(sizeof(float)) / rows;
    const std::int64_t counted = rows / scoring.samples * scoring.counted;
    for (std::int64_t row = 0; row < counted; ++row, logits += classes) {
        if (labels[row] < 0)
            continue;
        const float *best = std::max_element(logits, logits + classes);
        double sum = 0;
        for (std::int64_t c = 0; c < classes; ++c)
            sum += std::exp(static_cast<double>(logits[c]) - *best);
        scoring.scores.loss += std::log(sum) + *best - logits[labels[row]];
        scoring.scores.right += best - logits == labels[row] ? 1 : 0;
        scoring.scores.rows += 1;
    }
}

double BodyRunner::takeLoss()
{
    return std::exchange(m_lossSum, 0.0);
}

} // namespace planloom::runtime

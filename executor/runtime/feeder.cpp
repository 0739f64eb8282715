// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/feeder.h"

#include <algorithm>

namespace planloom::runtime {

namespace {

constexpr std::size_t kBuffers = 2;
constexpr std::int64_t kHeldOut = -1; ///< in the place of a step

} // namespace

Result<Feeder> Feeder::create(const program::Program &program, const program::Body &body, const ComputeContext &context,
                              const Feed &feed)
{
    Feeder feeder(program.globalBatch, context, feed);
    if (const Status status = feeder.findInputs(body); !status)
        return status.error();
    if (const Status status = feeder.makeBuffers(body.maxSamples); !status)
        return status.error();
    return feeder;
}

Status Feeder::findInputs(const program::Body &body)
{
    const graph::TrainingGraph &training = body.training;
    const auto received = [](const std::vector<TensorId> &ids, TensorId id) {
        return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    const TensorId lossGradient = lossGradientOf(training);
    for (const graph::Tensor &tensor : training.graph.tensors()) {
        const bool fed = tensor.role == graph::TensorRole::Input && tensor.id != lossGradient
            && !received(training.inputs, tensor.id) && !received(training.outputGradients, tensor.id);
        if (!fed)
            continue;
        const std::int32_t table = m_feed->places == nullptr ? -1 : m_feed->places->tableOf(tensor.name);
        const std::string &name = table < 0 ? tensor.name : m_feed->places->idsOf(table);
        const auto &known = m_feed->needs.inputs;
        const auto need = std::find_if(known.begin(), known.end(),
                                       [&](const data::Needs::Input &input) { return input.name == name; });
        const bool labels = tensor.name == m_feed->needs.labels;
        if (need == known.end() && !labels)
            return unsupported("there is no data for the model's input \"" + tensor.name
                               + "\"; name it in the data, or export the model without it");
        m_inputs.push_back({placeOf(body, body.forwardPlaces, tensor.id, 1), labels,
                            labels ? 0 : static_cast<std::size_t>(need - known.begin()), table});
    }
    return {};
}

Status Feeder::makeBuffers(std::int64_t maxSamples)
{
    m_samples.reserve(static_cast<std::size_t>(maxSamples));
    m_joined.resize(m_feed->needs.inputs.size());
    if (m_context.device.hostAddressable() || m_inputs.empty())
        return {};
    constexpr std::int64_t kAlignment = 256;
    std::int64_t bytes = 0;
    for (const Input &input : m_inputs) {
        m_offsets.push_back(bytes);
        bytes += (input.place.bytes * maxSamples + kAlignment - 1) / kAlignment * kAlignment;
    }
    m_buffers.resize(kBuffers);
    for (Buffer &buffer : m_buffers) {
        for (const Input &input : m_inputs) {
            auto staging = Staging::create(m_context.device, input.place.bytes * maxSamples);
            if (!staging)
                return staging.error();
            buffer.staging.push_back(std::move(*staging));
        }
        auto ahead = m_context.device.allocate(device::Space::Device, bytes);
        if (!ahead)
            return ahead.error();
        buffer.ahead = std::move(*ahead);
        for (auto *event : {&buffer.copied, &buffer.taken}) {
            auto made = m_context.device.makeEvent();
            if (!made)
                return made.error();
            *event = std::move(*made);
        }
    }
    return {};
}

Feeder::Buffer::~Buffer()
{
    if (copied != nullptr) [[maybe_unused]]
        const Status ended = waitFor(*copied, std::chrono::seconds(60));
}

Status Feeder::training(const SlotAddresses &addresses, std::int64_t step, std::int64_t begin, std::int64_t count)
{
    if (m_feed->places != nullptr)
        m_feed->places->enter(step);
    const Status fetched = m_feed->arrivals != nullptr ? m_feed->arrivals->fetch(step, begin, count) : Status();
    return fetched ? give(addresses, {step, begin, count}) : fetched;
}

Status Feeder::heldOut(const SlotAddresses &addresses, std::int64_t begin, std::int64_t count)
{
    const Status fetched = m_feed->arrivals != nullptr ? m_feed->arrivals->fetchHeldOut(begin, count) : Status();
    return fetched ? give(addresses, {kHeldOut, begin, count}) : fetched;
}

Status Feeder::bringAhead(std::int64_t step, std::int64_t begin, std::int64_t count)
{
    if (m_buffers.empty() || m_feed->arrivals != nullptr || m_feed->places != nullptr)
        return {};
    return fill(m_buffers[m_next], {step, begin, count});
}

/// Their numbers in the data, or among what has arrived. A place in the order of samples costs a permutation: of a
/// batch that is the last one again they are known.
void Feeder::find(const Batch &batch)
{
    const data::SampleOrder &order = m_feed->order;
    const bool arrived = m_feed->arrivals != nullptr;
    const bool held = batch.step == kHeldOut;
    const std::int64_t first = arrived || held ? -1 : order.ordinal(batch.step, m_globalBatch, batch.begin);
    if (first >= 0 && first == m_firstOfSamples && batch.count == static_cast<std::int64_t>(m_samples.size()))
        return;
    m_firstOfSamples = first;
    m_samples.clear();
    for (std::int64_t i = 0; i < batch.count; ++i)
        m_samples.push_back(arrived    ? i
                                : held ? order.heldOutIndex((batch.begin + i) % order.heldOut())
                                       : order.sampleIndex(batch.step, m_globalBatch, batch.begin + i));
}

Status Feeder::give(const SlotAddresses &addresses, const Batch &batch)
{
    if (m_inputs.empty())
        return {};
    if (m_buffers.empty()) {
        read(batch, [&](std::size_t k) {
            const Place &place = m_inputs[k].place;
            return addresses.at({place.area, place.offset, place.bytes * batch.count});
        });
        return {};
    }
    Buffer &buffer = m_buffers[m_next];
    m_next = (m_next + 1) % kBuffers;
    if (const Status filled = fill(buffer, batch); !filled)
        return filled;
    take(buffer, addresses);
    return {};
}

/// Nothing to do where it is filled with @p batch already.
Status Feeder::fill(Buffer &buffer, const Batch &batch)
{
    if (buffer.batch == batch)
        return {};
    if (const Status status = waitFor(*buffer.copied, m_context.deadline); !status)
        return status;
    device::Queue &queue = m_context.copies != nullptr ? *m_context.copies : m_context.queue;
    queue.wait(*buffer.taken);
    const auto aheadOf = [&](std::size_t k) { return buffer.ahead.data() + m_offsets[k]; };
    read(batch, [&](std::size_t k) { return buffer.staging[k].host(aheadOf(k)); });
    for (std::size_t k = 0; k < m_inputs.size(); ++k)
        buffer.staging[k].upload(queue, aheadOf(k), m_inputs[k].place.bytes * batch.count);
    queue.record(*buffer.copied);
    buffer.batch = batch;
    return {};
}

template <class HostOf>
void Feeder::read(const Batch &batch, const HostOf &hostOf)
{
    find(batch);
    const bool joined = m_feed->data->joinsBatches();
    if (joined)
        join(hostOf);
    for (std::size_t k = 0; k < m_inputs.size(); ++k) {
        const Input &input = m_inputs[k];
        std::byte *const first = hostOf(k);
        std::byte *data = first;
        for (const std::int64_t sample : m_samples) {
            if (input.labels)
                m_feed->data->fillLabels(sample, reinterpret_cast<std::int64_t *>(data));
            else if (!joined)
                m_feed->data->fillInputAt(input.index, sample, data);
            data += input.place.bytes;
        }
        if (input.table >= 0)
            m_feed->places->toPlaces(input.table, reinterpret_cast<std::int64_t *>(first),
                                     input.place.bytes * batch.count / static_cast<std::int64_t>(sizeof(std::int64_t)));
    }
}

template <class HostOf>
void Feeder::join(const HostOf &hostOf)
{
    std::fill(m_joined.begin(), m_joined.end(), nullptr);
    for (std::size_t k = 0; k < m_inputs.size(); ++k)
        if (!m_inputs[k].labels)
            m_joined[m_inputs[k].index] = hostOf(k);
    m_feed->data->fillBatch(m_samples, m_joined);
}

void Feeder::take(Buffer &buffer, const SlotAddresses &addresses)
{
    m_context.queue.wait(*buffer.copied);
    for (std::size_t k = 0; k < m_inputs.size(); ++k) {
        const Place &place = m_inputs[k].place;
        const std::int64_t bytes = place.bytes * buffer.batch.count;
        m_context.queue.copy(addresses.at({place.area, place.offset, bytes}), buffer.ahead.data() + m_offsets[k],
                             bytes);
    }
    m_context.queue.record(*buffer.taken);
    buffer.batch = {};
}

} // namespace planloom::runtime

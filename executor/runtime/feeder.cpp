// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/feeder.h"

#include <algorithm>

namespace planloom::runtime {

namespace {

constexpr std::size_t kBuffers = 2;

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
    m_buffers.resize(kBuffers);
    m_samples.reserve(static_cast<std::size_t>(maxSamples));
    m_joined.resize(m_feed->needs.inputs.size());
    for (Buffer &buffer : m_buffers) {
        for (const Input &input : m_inputs) {
            auto staging = Staging::create(m_context.device, input.place.bytes * maxSamples);
            if (!staging)
                return staging.error();
            buffer.staging.push_back(std::move(*staging));
        }
        auto event = m_context.device.makeEvent();
        if (!event)
            return event.error();
        buffer.copied = std::move(*event);
    }
    return {};
}

Status Feeder::training(const SlotAddresses &addresses, std::int64_t step, std::int64_t begin, std::int64_t count)
{
    if (m_feed->places != nullptr)
        m_feed->places->enter(step);
    if (m_feed->arrivals != nullptr)
        return fillFetched(m_feed->arrivals->fetch(step, begin, count), addresses, count);
    return fill(addresses, count,
                [&](std::int64_t i) { return m_feed->order.sampleIndex(step, m_globalBatch, begin + i); });
}

Status Feeder::heldOut(const SlotAddresses &addresses, std::int64_t begin, std::int64_t count)
{
    if (m_feed->arrivals != nullptr)
        return fillFetched(m_feed->arrivals->fetchHeldOut(begin, count), addresses, count);
    return fill(addresses, count,
                [&](std::int64_t i) { return m_feed->order.heldOutIndex((begin + i) % m_feed->order.heldOut()); });
}

Status Feeder::fillFetched(const Status &fetched, const SlotAddresses &addresses, std::int64_t count)
{
    return fetched ? fill(addresses, count, [](std::int64_t i) { return i; }) : fetched;
}

template <class IndexOf>
void Feeder::fillJoined(Buffer &buffer, const SlotAddresses &addresses, std::int64_t count, const IndexOf &indexOf)
{
    m_samples.clear();
    for (std::int64_t i = 0; i < count; ++i)
        m_samples.push_back(indexOf(i));
    std::fill(m_joined.begin(), m_joined.end(), nullptr);
    for (std::size_t k = 0; k < m_inputs.size(); ++k) {
        const Place &place = m_inputs[k].place;
        if (!m_inputs[k].labels)
            m_joined[m_inputs[k].index] =
                buffer.staging[k].host(addresses.at({place.area, place.offset, place.bytes * count}));
    }
    m_feed->data->fillBatch(m_samples, m_joined);
}

template <class IndexOf>
Status Feeder::fill(const SlotAddresses &addresses, std::int64_t count, const IndexOf &indexOf)
{
    if (m_inputs.empty())
        return {};
    Buffer &buffer = m_buffers[m_next];
    m_next = (m_next + 1) % kBuffers;
    if (const Status status = waitFor(*buffer.copied, m_context.deadline); !status)
        return status;
    const bool joined = m_feed->data->joinsBatches();
    if (joined)
        fillJoined(buffer, addresses, count, indexOf);
    for (std::size_t k = 0; k < m_inputs.size(); ++k) {
        const Input &input = m_inputs[k];
        const std::int64_t bytes = input.place.bytes * count;
        std::byte *address = addresses.at({input.place.area, input.place.offset, bytes});
        std::byte *data = buffer.staging[k].host(address);
        for (std::int64_t i = 0; i < count; ++i, data += input.place.bytes) {
            if (input.labels)
                m_feed->data->fillLabels(indexOf(i), reinterpret_cast<std::int64_t *>(data));
            else if (!joined)
                m_feed->data->fillInputAt(input.index, indexOf(i), data);
        }
        if (input.table >= 0)
            m_feed->places->toPlaces(input.table, reinterpret_cast<std::int64_t *>(data - bytes),
                                     bytes / static_cast<std::int64_t>(sizeof(std::int64_t)));
        buffer.staging[k].upload(m_context.queue, address, bytes);
    }
    m_context.queue.record(*buffer.copied);
    return {};
}

} // namespace planloom::runtime

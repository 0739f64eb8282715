// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/initializer.h"

#include "engine/weights/convert.h"
#include "executor/device/kernel.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace planloom::runtime {

namespace {

/// Calls take(from, to, count) for the runs of a row-major tensor of @p sizes that make up @p region, with where they
/// lie in both.
template <class F>
void eachRun(const std::vector<std::int64_t> &sizes, const sharding::Region &region, std::size_t axis,
             std::int64_t from, std::int64_t &to, const F &take)
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

class Initializer {
public:
    Initializer(const ComputeContext &context, device::Event &event, std::int64_t seed, const std::string &modelFolder)
        : m_context(context),
          m_event(event),
          m_seed(seed),
          m_modelFolder(modelFolder)
    {
    }

    Status initialize(const program::PersistentTensor &held, const graph::Tensor &described)
    {
        const std::int64_t all = held.ofSamples ? held.count : described.shape.elements(1); // those are zeros
        const std::int64_t size = graph::sizeOf(held.type);
        if (held.count == all && held.copy < 0)
            return put(held, held.offset, held.count * size,
                       [&](std::byte *data) { return draw(described, all, data); });
        std::vector<std::byte> whole(static_cast<std::size_t>(all * size));
        if (const Status status = draw(described, all, whole.data()); !status)
            return status;
        const std::vector<std::byte> part = partOf(held, whole);
        const Status status = put(held, held.offset, held.count * size, [&](std::byte *data) {
            std::memcpy(data, part.data() + held.begin * size, static_cast<std::size_t>(held.count * size));
            return Status();
        });
        if (!status || held.copy < 0)
            return status;
        return put(held, held.copy, held.copyCount * graph::sizeOf(graph::DType::BF16), [&](std::byte *data) {
            const auto *values = reinterpret_cast<const float *>(part.data()) + held.copyBegin;
            std::transform(values, values + held.copyCount, reinterpret_cast<std::uint16_t *>(data),
                           weights::toBFloat16);
            return Status();
        });
    }

private:
    Status draw(const graph::Tensor &described, std::int64_t elements, std::byte *data) const
    {
        return device::initialize(described, elements, m_seed, m_modelFolder, data);
    }

    static std::vector<std::byte> partOf(const program::PersistentTensor &held, const std::vector<std::byte> &whole)
    {
        const std::int64_t size = graph::sizeOf(held.type);
        std::vector<std::byte> part(static_cast<std::size_t>(sharding::elements(held.region) * size));
        std::int64_t to = 0;
        eachRun(held.sizes, held.region, 0, 0, to, [&](std::int64_t from, std::int64_t at, std::int64_t count) {
            std::memcpy(part.data() + at * size, whole.data() + from * size, static_cast<std::size_t>(count * size));
        });
        return part;
    }

    /// Copies @p fill's output from host memory to @p bytes at @p offset of the arena, or where @p held has them on the
    /// host.
    template <class Fill>
    Status put(const program::PersistentTensor &held, std::int64_t offset, std::int64_t bytes, const Fill &fill)
    {
        if (const std::int64_t host = m_context.hostPlaceOf(held, offset); host >= 0) {
            std::vector<std::byte> data(static_cast<std::size_t>(bytes));
            if (const Status status = fill(data.data()); !status)
                return status;
            return m_context.host->copyAnywhere(true, data.data(), host, bytes);
        }
        std::byte *address = m_context.arena.use(offset, bytes);
        const auto staging = Staging::create(m_context.device, bytes);
        if (!staging)
            return staging.error();
        if (const Status status = fill(staging->host(address)); !status)
            return status;
        staging->upload(m_context.queue, address, bytes);
        return drain(m_context.queue, m_event, m_context.deadline);
    }

    const ComputeContext &m_context;
    device::Event &m_event;
    std::int64_t m_seed;
    const std::string &m_modelFolder;
};

} // namespace

Status initializeBody(const program::Body &body, const ComputeContext &context, const graph::Graph &subject,
                      std::int64_t seed, const std::string &modelFolder)
{
    const auto event = context.device.makeEvent();
    if (!event)
        return event.error();
    Initializer initializer(context, **event, seed, modelFolder);
    const graph::Graph &own = body.training.graph;
    for (const program::PersistentTensor &held : body.persistent) {
        const TensorId original = subject.find(held.name);
        const graph::Tensor &described = original.valid()
            ? subject.tensor(original)
            : own.tensor(own.find(held.local.empty() ? held.name : held.local));
        if (const Status status = initializer.initialize(held, described); !status)
            return status;
    }
    return {};
}

} // namespace planloom::runtime

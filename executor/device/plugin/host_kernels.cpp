// SPDX-License-Identifier: Apache-2.0
#include "executor/device/plugin/host_kernels.h"

#include "executor/device/cpu/cpu_device.h"

#include <algorithm>
#include <cstdint>

namespace planloom::device {

namespace {

std::int64_t bytesOf(const Argument &argument)
{
    return argument.present ? argument.elements() * graph::sizeOf(argument.type) : 0;
}

/// Images that the device has with channels last are computed in channel by channel.
std::vector<Argument> asRows(std::span<const Argument> arguments, bool lastChannels)
{
    std::vector<Argument> made(arguments.begin(), arguments.end());
    for (Argument &argument : made)
        argument.layout = lastChannels ? graph::Layout::RowMajor : argument.layout;
    return made;
}

/// Offsets are kept in pointers, one more than they are: nullptr stays none.
template <class T>
T *keptOffset(std::int64_t offset)
{
    return reinterpret_cast<T *>(static_cast<std::uintptr_t>(offset + 1));
}
template <class T>
T *inStaging(T *kept, std::byte *staging)
{
    return kept == nullptr
        ? nullptr
        : reinterpret_cast<T *>(staging + static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(kept)) - 1);
}

} // namespace

// --- Operators ------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<HostKernel>> HostKernel::make(HostWork &work, const graph::Op &op,
                                                     std::span<const Argument> inputs,
                                                     std::span<const Argument> outputs, bool lastChannels)
{
    const std::vector<Argument> inputRows = asRows(inputs, lastChannels);
    const std::vector<Argument> outputRows = asRows(outputs, lastChannels);
    auto kernel = cpuDevice().makeKernel(op, inputRows, outputRows);
    if (!kernel)
        return kernel.error();
    auto queue = cpuDevice().makeQueue();
    if (!queue)
        return queue.error();
    std::unique_ptr<HostKernel> made(new HostKernel(std::move(*kernel), std::move(*queue)));
    StagingLayout layout;
    const auto add = [&](const Argument &argument, bool reads, bool writes) {
        const std::int64_t bytes = bytesOf(argument);
        const std::int64_t offset = layout.add(bytes);
        made->m_ranges.push_back({nullptr, offset, bytes, reads, writes});
        made->m_places.push_back({offset, false});
        if (argument.layout != graph::Layout::Blocked || !lastChannels)
            return;
        const std::vector<std::int64_t> &dims = argument.dims;
        Place &place = made->m_places.back();
        place.half = argument.type == graph::DType::BF16;
        place.samples = dims[0];
        place.channels = dims[1];
        place.pixels = argument.elements() / std::max<std::int64_t>(1, dims[0] * dims[1]);
        made->m_turned.resize(std::max(made->m_turned.size(), static_cast<std::size_t>(argument.elements())));
    };
    for (std::size_t i = 0; i < inputs.size(); ++i)
        add(inputs[i], true, op.traits().isState(i)); // states are written where they are read
    for (const Argument &output : outputs)
        add(output, false, true);
    made->m_inputs.resize(inputs.size());
    made->m_outputs.resize(outputs.size());
    if (const Status reserved = work.reserve(layout.bytes(), op.type.name()); !reserved)
        return reserved.error();
    return made;
}

std::uint32_t HostKernel::capabilities() const
{
    std::uint32_t all = 0;
    for (const auto each : {DeviceKernel::kAdds, DeviceKernel::kDraws, DeviceKernel::kInfers})
        all |= m_kernel->has(each) ? each : 0U;
    return all;
}

void HostKernel::give(HostWork &work, PlanloomQueue *queue, Mode mode, std::span<const void *const> inputs,
                      std::span<void *const> outputs)
{
    for (std::size_t i = 0; i < m_ranges.size(); ++i) {
        void *address = i < inputs.size() ? const_cast<void *>(inputs[i]) : outputs[i - inputs.size()];
        m_ranges[i].device = address;
        if (const bool given = address != nullptr; m_places[i].given != given)
            m_places[i].given = given;
        if (i >= inputs.size())
            m_ranges[i].reads = mode == Mode::Add;
    }
    HostWork::Task task;
    task.work = HostKernel::work;
    task.object = this;
    task.mode = mode;
    task.draws = m_draws;
    task.draw = m_draw;
    work.give(queue, task, m_ranges);
}

void HostKernel::work(const HostWork::Task &task, std::byte *staging)
{
    auto &own = *static_cast<HostKernel *>(task.object);
    const std::size_t inputs = own.m_inputs.size();
    for (std::size_t i = 0; i < own.m_places.size(); ++i) {
        std::byte *at = own.m_places[i].given ? staging + own.m_places[i].offset : nullptr;
        if (i < inputs)
            own.m_inputs[i] = at;
        else
            own.m_outputs[i - inputs] = at;
    }
    own.turn(staging, true, task.mode == Mode::Add);
    if (task.draws)
        own.m_queue->begin(*own.m_kernel, task.draw);
    own.m_queue->run(*own.m_kernel, task.mode, own.m_inputs, own.m_outputs);
    own.turn(staging, false, true);
}

void HostKernel::turn(std::byte *staging, bool toRows, bool outputs)
{
    for (std::size_t i = toRows ? 0 : m_inputs.size(); i < (outputs ? m_places.size() : m_inputs.size()); ++i) {
        const Place &place = m_places[i];
        if (place.samples == 0 || !place.given)
            continue;
        const std::int64_t inner = toRows ? place.channels : place.pixels;
        const std::int64_t middle = toRows ? place.pixels : place.channels;
        const auto turnAll = [&]<class Element>(Element *all) {
            auto *before = reinterpret_cast<Element *>(m_turned.data());
            std::copy_n(all, place.samples * inner * middle, before);
            for (std::int64_t sample = 0; sample < place.samples; ++sample)
                for (std::int64_t a = 0; a < middle; ++a)
                    for (std::int64_t b = 0; b < inner; ++b)
                        all[(sample * inner + b) * middle + a] = before[(sample * middle + a) * inner + b];
        };
        if (place.half)
            turnAll(reinterpret_cast<std::uint16_t *>(staging + place.offset));
        else
            turnAll(reinterpret_cast<float *>(staging + place.offset));
    }
}

// --- Updates --------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<HostUpdates>> HostUpdates::make(HostWork &work, const update::Formula &formula,
                                                       std::span<const UpdateRange> ranges)
{
    std::unique_ptr<HostUpdates> made(new HostUpdates(formula));
    StagingLayout layout;
    const auto add = [&](auto *device, std::int64_t bytes) {
        using Element = std::remove_pointer_t<decltype(device)>;
        if (device == nullptr)
            return static_cast<Element *>(nullptr);
        const std::int64_t offset = layout.add(bytes);
        made->m_all.push_back({device, offset, bytes, true, true});
        return keptOffset<Element>(offset);
    };
    constexpr std::int64_t kFloat = sizeof(float);
    for (const UpdateRange &range : ranges) {
        UpdateRange kept = range;
        kept.parameter = add(range.parameter, range.count * kFloat);
        kept.gradient = add(range.gradient, range.count * kFloat);
        made->m_gradients.push_back(made->m_all.back());
        made->m_gradients.back().writes = false;
        for (std::size_t s = 0; s < kept.states.size(); ++s)
            kept.states[s] = add(range.states[s], range.count * kFloat);
        kept.copy = add(range.copy, range.count * static_cast<std::int64_t>(sizeof(std::uint16_t)));
        made->m_ranges.push_back(kept);
    }
    // Errors of the rule show now.
    auto checked = cpuDevice().makeUpdates(formula, made->m_ranges);
    auto queue = cpuDevice().makeQueue();
    if (!checked || !queue)
        return !checked ? checked.error() : queue.error();
    made->m_queue = std::move(*queue);
    if (const Status reserved = work.reserve(layout.bytes(), formula.rule); !reserved)
        return reserved.error();
    return made;
}

void HostUpdates::update(HostWork &work, PlanloomQueue *queue, const UpdateStep &how)
{
    HostWork::Task task;
    task.work = updateNow;
    task.object = this;
    task.step = how;
    work.give(queue, task, m_all);
}

void HostUpdates::squaredNorm(HostWork &work, PlanloomQueue *queue, double *host)
{
    HostWork::Task task;
    task.work = normNow;
    task.object = this;
    task.result = host;
    work.give(queue, task, m_gradients);
}

Updates &HostUpdates::at(std::byte *staging)
{
    if (m_base == staging)
        return *m_updates;
    std::vector<UpdateRange> ranges = m_ranges;
    for (UpdateRange &range : ranges) {
        range.parameter = inStaging(range.parameter, staging);
        range.gradient = inStaging(range.gradient, staging);
        for (float *&state : range.states)
            state = inStaging(state, staging);
        range.copy = inStaging(range.copy, staging);
    }
    m_updates = std::move(*cpuDevice().makeUpdates(m_formula, ranges)); // made once before, without an error
    m_base = staging;
    return *m_updates;
}

void HostUpdates::updateNow(const HostWork::Task &task, std::byte *staging)
{
    auto &own = *static_cast<HostUpdates *>(task.object);
    own.m_queue->update(own.at(staging), task.step);
}

void HostUpdates::normNow(const HostWork::Task &task, std::byte *staging)
{
    auto &own = *static_cast<HostUpdates *>(task.object);
    own.m_queue->squaredNorm(own.at(staging), static_cast<double *>(task.result));
}

// --- Scores ---------------------------------------------------------------------------------------------------------

void scoreOnHost(HostWork &work, PlanloomQueue *queue, const ScoredRows &rows, RowScores *host)
{
    const std::int64_t element = rows.form == ScoredRows::Form::HalfLogits ? 2 : 4;
    StagingLayout layout;
    const std::int64_t valueBytes = rows.rows * rows.width * element;
    const std::int64_t labelBytes = rows.rows * static_cast<std::int64_t>(sizeof(std::int64_t));
    const std::int64_t values = layout.add(valueBytes);
    const std::int64_t labels = layout.add(labelBytes);
    if (!work.reserve(layout.bytes(), "score")) { // the device is out of memory: the scores stay those of no rows
        *host = {};
        return;
    }
    HostWork::Task task;
    task.rows = rows;
    task.result = host;
    task.rows.values = nullptr;
    task.rows.labels = keptOffset<const std::int64_t>(labels);
    task.work = [](const HostWork::Task &given, std::byte *staging) {
        ScoredRows staged = given.rows;
        staged.values = staging;
        staged.labels = inStaging(staged.labels, staging);
        const auto cpu = cpuDevice().makeQueue();
        (*cpu)->score(staged, static_cast<RowScores *>(given.result));
    };
    const std::array<StagedRange, 2> ranges{
        StagedRange{const_cast<void *>(rows.values), values, valueBytes, true, false},
        StagedRange{const_cast<std::int64_t *>(rows.labels), labels, labelBytes, true, false}};
    work.give(queue, task, ranges);
}

} // namespace planloom::device

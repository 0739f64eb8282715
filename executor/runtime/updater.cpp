// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/updater.h"

#include <string_view>
#include <utility>

namespace planloom::runtime {

namespace {

device::UpdateRange rangeOf(const program::PersistentTensor &held, Arena &arena, const plan::Optimizer &how,
                            const UpdateNorms &norms)
{
    const std::int64_t whole = graph::sizeOf(graph::DType::F32), half = graph::sizeOf(graph::DType::BF16);
    const auto floats = [&](std::int64_t offset) {
        return offset < 0 ? nullptr : reinterpret_cast<float *>(arena.use(offset, held.updateCount * whole));
    };
    const plan::ParameterSettings settings = plan::settingsOf(how, held.name, held.sizes.size());
    device::UpdateRange range;
    range.parameter = floats(held.offset + (held.updateBegin - held.begin) * whole);
    range.gradient = floats(held.gradient);
    for (std::size_t state = 0; state < held.states.size(); ++state)
        range.states[state] = floats(held.states[state]);
    if (held.copy >= 0)
        range.copy = reinterpret_cast<std::uint16_t *>(
            arena.use(held.copy + (held.updateBegin - held.copyBegin) * half, held.updateCount * half));
    range.count = held.updateCount;
    range.rateFactor = static_cast<float>(settings.learningRateFactor);
    range.decay = static_cast<float>(settings.weightDecay);
    range.tensor = norms.rowOf(held.name);
    range.counts = held.saves;
    return range;
}

/// By parameter: the bucket that @p body updates on its own.
std::map<std::string_view, BucketId> ownBuckets(const program::Program &program, const program::Body &body)
{
    std::map<std::string_view, BucketId> buckets;
    for (const TaskId id : program.ranks[body.rank.index()].tasks) {
        const program::Task &task = program.task(id);
        const auto *update = task.as<program::Update>();
        if (update == nullptr || !update->bucket.valid() || task.stage != body.stage)
            continue;
        for (const program::Bucket::Entry &entry : program.bucket(update->bucket).entries)
            buckets.emplace(entry.parameter, update->bucket);
    }
    return buckets;
}

} // namespace

Result<Updater> Updater::create(const program::Program &program, const program::Body &body,
                                const ComputeContext &context, const plan::Optimizer &how, const UpdateNorms &norms)
{
    const std::map<std::string_view, BucketId> buckets = ownBuckets(program, body);
    std::map<BucketId, std::vector<device::UpdateRange>> apart;
    std::map<std::int32_t, std::vector<device::UpdateRange>> parts;
    const update::Formula &formula = how.rule.formula();
    std::vector<device::UpdateRange> ranges;
    std::vector<device::UpdateRange> averaged;
    std::vector<device::UpdateRange> counted;
    for (const program::PersistentTensor &held : body.persistent) {
        if (held.kind != program::PersistentTensor::Kind::Parameter || held.gradient < 0 || held.updateCount == 0
            || held.served)
            continue;
        if (static_cast<int>(held.states.size()) != formula.states)
            return badInput("the program was compiled for another optimizer than " + std::string(how.rule.name())
                            + "; compile the plan with the optimizer that trains");
        const auto bucket = buckets.find(held.name);
        std::vector<device::UpdateRange> &to = held.part >= 0 ? parts[held.part]
            : bucket != buckets.end()                         ? apart[bucket->second]
            : held.average >= 0                               ? averaged
                                                              : ranges;
        to.push_back(rangeOf(held, context.arena, how, norms));
        if (held.saves)
            counted.push_back(to.back());
    }
    Updater updater(context, norms, formula.phases());
    auto updates = context.device.makeUpdates(formula, ranges);
    auto countedUpdates = context.device.makeUpdates(formula, counted);
    auto norm = context.device.allocate(device::Space::Host, sizeof(double));
    auto event = context.device.makeEvent();
    if (!updates || !countedUpdates)
        return updates ? countedUpdates.error() : updates.error();
    if (!norm || !event)
        return norm ? event.error() : norm.error();
    if (!averaged.empty()) {
        auto own = context.device.makeUpdates(formula, averaged);
        if (!own)
            return own.error();
        updater.m_averaged = std::move(*own);
    }
    for (const auto &[bucket, own] : apart) {
        auto made = context.device.makeUpdates(formula, own);
        if (!made)
            return made.error();
        updater.m_own[bucket].updates = std::move(*made);
    }
    for (const auto &[part, own] : parts) {
        auto made = context.device.makeUpdates(formula, own);
        if (!made)
            return made.error();
        updater.m_parts[part] = std::move(*made);
    }
    updater.m_updates = std::move(*updates);
    updater.m_counted = std::move(*countedUpdates);
    updater.m_norm = std::move(*norm);
    updater.m_event = std::move(*event);
    return updater;
}

Result<double> Updater::squaredGradientNorm()
{
    auto *sum = reinterpret_cast<double *>(m_norm.data());
    m_context.queue.squaredNorm(*m_counted, sum);
    if (const Status status = drain(m_context.queue, *m_event, m_context.deadline); !status)
        return status.error();
    return *sum;
}

Status Updater::updateAlone(Update update)
{
    for (update.phase = 0; update.phase < m_phases; ++update.phase) {
        if (update.phase > 0) {
            if (const Status status = drain(m_context.queue, *m_event, m_context.deadline); !status)
                return status;
            m_norms->beginAll();
        }
        this->update(update);
        for (const BucketId bucket : ownUpdates()) {
            Update own = update;
            own.bucket = bucket;
            this->update(own);
        }
    }
    return {};
}

void Updater::summed(BucketId bucket, std::int64_t step)
{
    if (const auto own = m_own.find(bucket); own != m_own.end())
        own->second.summedIn = step;
}

std::optional<std::int64_t> Updater::takeSummed(BucketId bucket)
{
    return std::exchange(m_own.at(bucket).summedIn, std::nullopt);
}

std::vector<BucketId> Updater::ownUpdates() const
{
    std::vector<BucketId> buckets;
    for (const auto &[bucket, own] : m_own)
        buckets.push_back(bucket);
    return buckets;
}

void Updater::update(const Update &update)
{
    device::UpdateStep how{.learningRate = update.learningRate,
                           .step = update.step + 1,
                           .gradientScale = update.gradientScale,
                           .phase = update.phase,
                           .squares = m_norms->own(),
                           .allSquares = m_norms->all()};
    if (update.part >= 0) {
        if (const auto part = m_parts.find(update.part); part != m_parts.end())
            m_context.queue.update(*part->second, how);
        return;
    }
    m_context.queue.update(update.bucket.valid() ? *m_own.at(update.bucket).updates : *m_updates, how);
    if (update.bucket.valid())
        return;
    if (m_averaged == nullptr)
        return;
    how.gradientScale *= update.ownScale;
    m_context.queue.update(*m_averaged, how);
}

} // namespace planloom::runtime

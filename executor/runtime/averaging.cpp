// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/averaging.h"

#include "engine/update/expression.h"

#include <algorithm>
#include <limits>

namespace planloom::runtime {
namespace {

using update::Draft;
using update::Value;

/// w by the rule; the gradient is the sum of all snapshots, its scale makes it their mean.
update::Formula mergeFormula(const program::Merge &merge)
{
    const bool corrected = merge.rule == plan::Merge::Corrected;
    Draft draft({}, corrected ? std::vector<std::string_view>{"snapshot"} : std::vector<std::string_view>{});
    const double own = merge.localWeight;
    const Value average = draft.gradient();
    if (corrected)
        draft.setWeight(draft.weight() + (1 - own) * (average - draft.state("snapshot")));
    else
        draft.setWeight(own * draft.weight() + (1 - own) * average);
    return draft.take();
}

update::Formula assignFormula()
{
    Draft draft({}, {});
    draft.setWeight(draft.gradient());
    return draft.take();
}

update::Formula weighFormula(double factor)
{
    Draft draft({}, {});
    draft.setWeight(factor * draft.weight());
    return draft.take();
}

float *floats(std::byte *data) { return reinterpret_cast<float *>(data); }

} // namespace

Status Averaging::prepare(RankParts &parts)
{
    m_parts = &parts;
    for (const program::Task &task : parts.program.tasks)
        if (task.as<program::Merge>() != nullptr)
            m_anyMerge = &task;
    for (const TaskId id : parts.own().tasks)
        if (const auto *merge = parts.program.task(id).as<program::Merge>())
            if (Status added = add(*merge); !added)
                return added;
    return {};
}

Status Averaging::add(const program::Merge &task)
{
    const program::Bucket &bucket = m_parts->program.bucket(task.bucket);
    const program::Team &team = m_parts->program.team(bucket.team);
    const auto use = [&](std::int64_t offset) {
        return offset < 0 ? nullptr : m_parts->arena.use(offset, bucket.bytes());
    };
    Member made;
    made.at = team.position(m_parts->rank);
    made.bytes = bucket.bytes();
    made.parameters = use(bucket.parameters[made.at]);
    made.gradients = use(bucket.gradients[made.at]);
    made.averages = use(bucket.averages[made.at]);
    made.snapshots = use(bucket.snapshots[made.at]);
    made.oneOfAll = 1.0 / static_cast<double>(team.size());
    made.weight = shareOf(bucket) * static_cast<double>(team.size());

    device::UpdateRange range;
    range.parameter = floats(made.parameters);
    range.count = bucket.elements;
    if (bucket.copies[made.at] >= 0)
        range.copy = reinterpret_cast<std::uint16_t *>(
            m_parts->arena.use(bucket.copies[made.at], bucket.elements * graph::sizeOf(graph::DType::BF16)));
    device::UpdateRange merged = range;
    merged.gradient = floats(made.averages);
    merged.states[0] = floats(made.snapshots);
    device::UpdateRange assigned = range;
    assigned.gradient = floats(made.gradients);
    device::UpdateRange weighed[2];
    for (const bool gradients : {false, true}) { // what the formula leaves out is cleared
        weighed[gradients].parameter = floats(gradients ? made.gradients : made.averages);
        weighed[gradients].gradient = floats(gradients ? made.parameters : made.gradients);
        weighed[gradients].count = bucket.elements;
    }
    const auto updates = [this](const update::Formula &formula, const device::UpdateRange &over,
                                std::unique_ptr<device::Updates> &to) -> Status {
        auto result = m_parts->device.makeUpdates(formula, {&over, 1});
        if (!result)
            return result.error();
        to = std::move(*result);
        return {};
    };
    if (Status status = updates(mergeFormula(task), merged, made.merge); !status)
        return status;
    if (Status status = updates(assignFormula(), assigned, made.assign); !status)
        return status;
    for (const bool gradients : {false, true})
        if (Status status = updates(weighFormula(made.weight), weighed[gradients], made.weigh[gradients]); !status)
            return status;
    if (Status status = addNorms(bucket, made); !status)
        return status;
    m_members.emplace(task.bucket, std::move(made));
    return {};
}

Status Averaging::addNorms(const program::Bucket &bucket, Member &member)
{
    std::vector<device::UpdateRange> counted;
    for (const program::Bucket::Entry &entry : bucket.entries) {
        if (!countsHere(entry.parameter))
            continue;
        device::UpdateRange range;
        range.parameter = floats(member.parameters) + entry.at;
        range.gradient = floats(member.averages) + entry.at;
        range.count = entry.elements;
        counted.push_back(range);
    }
    auto updates = m_parts->device.makeUpdates(assignFormula(), counted);
    if (!updates)
        return updates.error();
    auto norms = m_parts->device.allocate(device::Space::Host, kKept * sizeof(Norms));
    if (!norms)
        return norms.error();
    member.counted = std::move(*updates);
    member.norms = std::move(*norms);
    return {};
}

/// False where another rank of the replica has the parameter, too, and counts it.
bool Averaging::countsHere(std::string_view parameter) const
{
    for (const BodyId index : m_parts->own().bodies)
        for (const program::PersistentTensor &held : m_parts->program.body(index).persistent)
            if (held.name == parameter)
                return held.saves;
    return false;
}

/// Of the replica that has the bucket here.
double Averaging::shareOf(const program::Bucket &bucket) const
{
    for (const BodyId index : m_parts->own().bodies) {
        const program::Body &body = m_parts->program.body(index);
        const bool holds =
            std::any_of(body.persistent.begin(), body.persistent.end(), [&](const program::PersistentTensor &held) {
                return held.name == bucket.entries.front().parameter;
            });
        if (!holds)
            continue;
        std::int64_t samples = 0;
        for (const plan::SampleRange &slice : body.slices)
            samples += slice.size;
        return static_cast<double>(samples) / static_cast<double>(m_parts->program.globalBatch);
    }
    return 0;
}

/// The sum over the replicas counts each of them once; with unequal shares by its share.
void Averaging::weigh(Member &member, bool gradients)
{
    constexpr double kRounding = 1e-12;
    if (std::abs(member.weight - 1) > kRounding)
        queue().update(*member.weigh[gradients], {});
}

void Averaging::takeSnapshot(const program::Snapshot &task)
{
    Member &here = member(task.bucket);
    queue().copy(here.averages, here.parameters, here.bytes);
    queue().squaredNorm(*here.counted, &norms(here, here.taken++).snapshot);
    if (here.snapshots != nullptr)
        queue().copy(here.snapshots, here.parameters, here.bytes);
    weigh(here, false);
}

void Averaging::merge(const program::Merge &task, std::int64_t step)
{
    Member &here = member(task.bucket);
    queue().squaredNorm(*here.counted, &norms(here, std::max<std::int64_t>(here.taken - 1, 0)).sum);
    here.merges.push_back({step, here.taken - 1});
    queue().update(*here.merge, {.gradientScale = here.oneOfAll});
}

bool Averaging::mergesIn(std::int64_t step) const
{
    return m_anyMerge != nullptr && m_parts->program.runsIn(*m_anyMerge, step);
}

double Averaging::takeSquaredDistance(std::int64_t step)
{
    double sum = 0;
    for (auto &[bucket, here] : m_members) {
        const double share = here.weight * here.oneOfAll;
        const auto isBefore = [step](const Merged &merge) { return merge.step < step; };
        for (const Merged &merge : here.merges) {
            if (!isBefore(merge))
                continue;
            const Norms &of = norms(here, std::max<std::int64_t>(merge.snapshot, 0));
            const double average = here.oneOfAll * here.oneOfAll * of.sum;
            sum += merge.snapshot < 0 ? std::numeric_limits<double>::quiet_NaN() : share * (of.snapshot - average);
        }
        std::erase_if(here.merges, isBefore);
    }
    return sum;
}

Averaging::Norms &Averaging::norms(const Member &member, std::int64_t snapshot)
{
    return reinterpret_cast<Norms *>(member.norms.data())[snapshot % kKept];
}

Status Averaging::useMean(RankCollectives &collectives)
{
    for (auto &[bucket, here] : m_members) {
        if (here.own.data() == nullptr) { // kept: commands of putBack() read it
            auto own = m_parts->device.allocate(device::Space::Device, here.bytes);
            if (!own)
                return own.error();
            here.own = std::move(*own);
        }
        queue().copy(here.own.data(), here.parameters, here.bytes);
        queue().copy(here.gradients, here.parameters, here.bytes); // accumulators are empty between steps
        weigh(here, true);
        if (Status done = m_parts->drain(program::Lane::Compute); !done)
            return done;
        if (Status summed = collectives.sumGradientsNow(bucket); !summed)
            return summed;
        queue().update(*here.assign, {.gradientScale = here.oneOfAll});
    }
    return {};
}

void Averaging::putBack()
{
    for (auto &[bucket, here] : m_members) {
        queue().copy(here.gradients, here.own.data(), here.bytes);
        queue().update(*here.assign, {});
    }
}

} // namespace planloom::runtime

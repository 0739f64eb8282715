// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/rank_collectives.h"

#include "executor/runtime/boxing.h"

#include <algorithm>

namespace planloom::runtime {

using cost::Collective;

Status RankCollectives::prepare(RankParts &parts)
{
    m_parts = &parts;
    for (const program::Team &team : parts.program.teams) {
        std::vector<int> ranks;
        for (const RankId rank : team.ranks)
            ranks.push_back(rank.value);
        Result<comm::Group> group = ranks.size() > 1 ? parts.comm.makeGroup(ranks) : Result<comm::Group>(comm::Group{});
        if (!group)
            return group.error();
        m_groups.push_back(*group);
    }
    for (const TaskId id : parts.own().tasks)
        expect(parts.program.task(id));
    return {};
}

/// Of what start() does. Rows of tables are exchanged in numbers that no one knows before.
void RankCollectives::expect(const program::Task &task)
{
    using Expected = comm::Communicator::Expected;
    if (const auto *boxing = task.as<program::Boxing>(); boxing != nullptr && !boxing->served) {
        const Communication what =
            m_parts->stage(task.body).runner->communication(boxing->pass, task.microBatch, boxing->op);
        const comm::Group group = m_groups[boxing->team.index()];
        const bool inPlace = boxing->shift == 0 && boxing->collective == Collective::AllReduce;
        const Expected ranges[]{{-1, false, group, what.outputBytes}, {-1, false, group, what.inputBytes}};
        m_parts->comm.expect(std::span(ranges, inPlace ? 1 : 2));
    }
    const auto *exchange = task.as<program::Exchange>();
    if (exchange != nullptr && exchange->team.valid() && m_groups[exchange->team.index()].index >= 0) {
        const program::Bucket &bucket = m_parts->program.bucket(exchange->bucket);
        const auto members = static_cast<std::int64_t>(m_parts->program.team(exchange->team).ranks.size());
        const comm::Group group = m_groups[exchange->team.index()];
        const Expected ranges[]{{-1, false, group, bucket.bytes()}, {-1, false, group, bucket.bytes() / members}};
        m_parts->comm.expect(std::span(ranges, exchange->collective == Collective::ReduceScatter ? 2 : 1));
    }
}

Result<comm::Request> RankCollectives::start(const program::Task &task)
{
    if (const auto *boxing = task.as<program::Boxing>()) {
        const Communication what =
            m_parts->stage(task.body).runner->communication(boxing->pass, task.microBatch, boxing->op);
        if (!boxing->served)
            return box(*boxing, what);
        const Status started = serve(what);
        return started ? Result<comm::Request>(comm::Request{}) : started.error();
    }
    return exchange(*task.as<program::Exchange>());
}

Result<bool> RankCollectives::test(const program::Task &task, comm::Request &request)
{
    const auto *boxing = task.as<program::Boxing>();
    return boxing != nullptr && boxing->served ? m_parts->link->test() : m_parts->comm.test(request);
}

/// A message to the parameter server, in whose place its answer comes.
Status RankCollectives::serve(const Communication &what)
{
    const Status placed = intoPlace(what);
    return placed ? m_parts->link->start(m_parts->device.transportAddress(what.output)) : placed;
}

/// What goes out lies where the result comes.
Status RankCollectives::intoPlace(const Communication &what)
{
    if (what.input == what.output)
        return {};
    m_parts->queue(program::Lane::Collective).copy(what.output, what.input, what.inputBytes);
    return m_parts->drain(program::Lane::Collective);
}

/// Gradients of a bucket before the optimizer, or its parameters behind it.
Result<comm::Request> RankCollectives::exchange(const program::Exchange &task)
{
    const program::Bucket &bucket = m_parts->program.bucket(task.bucket);
    const program::Team &team = m_parts->program.team(task.team);
    const std::size_t at = m_parts->program.team(bucket.team).position(m_parts->rank);
    const comm::Group group = m_groups[task.team.index()];
    const auto members = static_cast<std::int64_t>(team.ranks.size());
    comm::Communicator &comm = m_parts->comm;
    if (task.collective == Collective::AllReduce)
        return comm.allReduce(group, comm::Element::Float32,
                              m_parts->forTransport(task.averages ? bucket.averages[at] : bucket.gradients[at],
                                                    bucket.bytes()),
                              bucket.elements);
    if (task.collective == Collective::ReduceScatter)
        return comm.reduceScatter(group, comm::Element::Float32,
                                  m_parts->forTransport(bucket.gradients[at], bucket.bytes()),
                                  m_parts->forTransport(bucket.sums[at], bucket.bytes() / members),
                                  bucket.elements / members);
    const bool copied = bucket.type == graph::DType::BF16;
    const std::int64_t bytes = bucket.elements * graph::sizeOf(bucket.type);
    std::byte *all = m_parts->forTransport(copied ? bucket.copies[at] : bucket.parameters[at], bytes);
    return comm.allGather(group, all + static_cast<std::int64_t>(at) * (bytes / members), all, bytes / members);
}

Result<comm::Request> RankCollectives::box(const program::Boxing &boxing, const Communication &what)
{
    const program::Team &team = m_parts->program.team(boxing.team);
    const BoxingMember member{m_parts->comm, m_groups[boxing.team.index()], team.ranks.size(),
                              team.position(m_parts->rank)};
    if (beginsInPlace(boxing, member))
        if (const Status placed = intoPlace(what); !placed)
            return placed.error();
    Communication there = what;
    there.input = m_parts->device.transportAddress(what.input);
    there.output = m_parts->device.transportAddress(what.output);
    return startBoxing(boxing, there, member);
}

void RankCollectives::ended(const program::Task &task)
{
    if (const auto *boxing = task.as<program::Boxing>()) {
        m_parts->stage(task.body).runner->communicated(boxing->pass, task.microBatch, boxing->op);
        return;
    }
    const program::Exchange &exchange = *task.as<program::Exchange>();
    if (exchange.collective != Collective::ReduceScatter)
        return;
    // The sums lie apart; the accumulators begin the next step empty.
    const program::Bucket &bucket = m_parts->program.bucket(exchange.bucket);
    const std::size_t at = m_parts->program.team(exchange.team).position(m_parts->rank);
    m_parts->queue(program::Lane::Compute)
        .fill(m_parts->arena.use(bucket.gradients[at], bucket.bytes()), 0, bucket.bytes());
}

Status RankCollectives::sumGradientsNow(BucketId index)
{
    const program::Bucket &bucket = m_parts->program.bucket(index);
    const std::size_t at = m_parts->program.team(bucket.team).position(m_parts->rank);
    Result<comm::Request> request =
        m_parts->comm.allReduce(m_groups[bucket.team.index()], comm::Element::Float32,
                                m_parts->forTransport(bucket.gradients[at], bucket.bytes()), bucket.elements);
    if (!request)
        return request.error();
    return m_parts->comm.wait(*request, m_parts->deadline, "the other replicas' parameters");
}

Status RankCollectives::boxNow(BodyId body, std::int32_t op, const Communication &what)
{
    const auto &tasks = m_parts->own().tasks;
    const auto boxes = [&](TaskId id) {
        const program::Task &task = m_parts->program.task(id);
        const auto *boxing = task.as<program::Boxing>();
        return boxing != nullptr && task.body == body && boxing->op == op;
    };
    const auto found = std::find_if(tasks.begin(), tasks.end(), boxes);
    if (found == tasks.end())
        return failed("operator " + std::to_string(op) + " communicates, but no task names its group");
    const auto &boxing = *m_parts->program.task(*found).as<program::Boxing>();
    Result<comm::Request> request = box(boxing, what);
    if (!request)
        return request.error();
    return m_parts->comm.wait(*request, m_parts->deadline, "the other ranks' part of a tensor");
}

} // namespace planloom::runtime

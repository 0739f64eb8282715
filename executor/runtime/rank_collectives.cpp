// SPDX-License-Identifier: Apache-2.0
// What a rank does together with others, and not with one of them: the exchange of gradients and parameters, boxing, and agreeing on a step.
#include "executor/runtime/rank_executor.h"

#include <cstring>

namespace planloom::runtime {

using trace::Kind;

Status RankExecutor::prepareGroups()
{
    for (const program::Team &team : m_program.teams) {
        std::vector<int> ranks;
        for (const RankId rank : team.ranks)
            ranks.push_back(rank.value);
        Result<comm::Group> group = ranks.size() > 1 ? m_comm.makeGroup(ranks) : Result<comm::Group>(comm::Group{});
        if (!group)
            return group.error();
        m_groups.push_back(*group);
    }
    return {};
}

void RankExecutor::startCollective(std::int32_t index)
{
    const LocalTask &task = m_tasks[static_cast<std::size_t>(index)];
    const auto team = static_cast<std::size_t>(task.team);
    const Result<comm::Request> request = task.bucket >= 0
        ? exchange(task)
        : box(task.kind, m_groups[team], m_program.teams[team].ranks.size(),
              m_bodies[static_cast<std::size_t>(task.body)]->communication(task.pass, task.microBatch, task.part.first));
    if (!request)
        m_failure = request.error();
    else
        m_collectives[static_cast<std::size_t>(index)] = *request;
}

/// Gradients of a bucket before the optimizer, or its parameters behind it.
Result<comm::Request> RankExecutor::exchange(const LocalTask &task)
{
    const program::Bucket &bucket = m_program.buckets[static_cast<std::size_t>(task.bucket)];
    const program::Team &team = m_program.teams[static_cast<std::size_t>(task.team)];
    const std::size_t at = team.position(m_rank);
    const comm::Group group = m_groups[static_cast<std::size_t>(task.team)];
    const auto members = static_cast<std::int64_t>(team.ranks.size());
    if (task.kind == Kind::AllReduce)
        return m_comm.allReduce(group, comm::Element::Float32, m_arena.use(bucket.gradients[at], bucket.bytes()), bucket.elements);
    if (task.kind == Kind::ReduceScatter)
        return m_comm.reduceScatter(group, comm::Element::Float32, m_arena.use(bucket.gradients[at], bucket.bytes()),
                                    m_arena.use(bucket.sums[at], bucket.bytes() / members), bucket.elements / members);
    const bool copied = bucket.type == graph::DType::BF16;
    const std::int64_t bytes = bucket.elements * graph::sizeOf(bucket.type);
    std::byte *all = m_arena.use(copied ? bucket.copies[at] : bucket.parameters[at], bytes);
    return m_comm.allGather(group, all + static_cast<std::int64_t>(at) * (bytes / members), all, bytes / members);
}

Result<comm::Request> RankExecutor::box(Kind kind, comm::Group group, std::size_t members, const Communication &what)
{
    const auto parts = static_cast<std::int64_t>(members);
    const comm::Element element = what.type == graph::DType::BF16 ? comm::Element::BFloat16 : comm::Element::Float32;
    switch (kind) {
    case Kind::AllGather:
        return m_comm.allGather(group, what.input, what.output, what.inputBytes);
    case Kind::ReduceScatter:
        return m_comm.reduceScatter(group, element, what.input, what.output, what.outputBytes / comm::bytesOf(element));
    case Kind::AllToAll:
        return m_comm.allToAll(group, what.input, what.output, what.inputBytes / parts);
    default:
        if (what.input != what.output)
            std::memcpy(what.output, what.input, static_cast<std::size_t>(what.inputBytes));
        return m_comm.allReduce(group, element, what.output, what.outputBytes / comm::bytesOf(element));
    }
}

/// What is left to do once a collective has ended.
void RankExecutor::collected(const LocalTask &task)
{
    if (task.bucket < 0) {
        m_bodies[static_cast<std::size_t>(task.body)]->communicated(task.pass, task.microBatch, task.part.first);
        return;
    }
    if (task.kind != Kind::ReduceScatter)
        return;
    // The sums lie apart; the accumulators begin the next step empty.
    const program::Bucket &bucket = m_program.buckets[static_cast<std::size_t>(task.bucket)];
    const std::size_t at = m_program.teams[static_cast<std::size_t>(task.team)].position(m_rank);
    std::memset(m_arena.use(bucket.gradients[at], bucket.bytes()), 0, static_cast<std::size_t>(bucket.bytes()));
}

/// Boxing of a forward pass that is no task: evaluation.
bool RankExecutor::communicate(std::int32_t op, const Communication &what)
{
    const LocalTask &task = m_tasks[static_cast<std::size_t>(m_boxingTasks[m_scoring][static_cast<std::size_t>(op)])];
    const auto team = static_cast<std::size_t>(task.team);
    Result<comm::Request> request = box(task.kind, m_groups[team], m_program.teams[team].ranks.size(), what);
    if (!request) {
        m_failure = request.error();
        return false;
    }
    m_failure = m_comm.wait(*request, m_options.deadline, "the other ranks' part of a tensor");
    return static_cast<bool>(m_failure);
}

/// Sums up @p sums over all ranks, while no task communicates.
Status RankExecutor::agree(std::span<float> sums, std::string_view what)
{
    const std::int64_t before = m_comm.bytesSent();
    Result<comm::Request> request = m_comm.allReduce(m_comm.world(), sums.data(), static_cast<std::int64_t>(sums.size()));
    if (!request)
        return request.error();
    const Status status = m_comm.wait(*request, m_options.deadline, what);
    m_agreedBytes += m_comm.bytesSent() - before;
    return status;
}

/// The step's loss, and whether anybody wants to stop, summed over all ranks: nobody begins a step that another rank does not.
Status RankExecutor::agreeOnStep(StepResult &result, bool &stop)
{
    double loss = 0;
    for (const auto &body : m_bodies)
        loss += body->takeLoss();
    float sums[2] = {static_cast<float>(loss), m_options.stop != nullptr && m_options.stop->load(std::memory_order_relaxed) ? 1.0F : 0.0F};
    if (const Status status = agree(sums, "the other ranks to end the step"); !status)
        return status;
    result.loss = static_cast<double>(sums[0]);
    result.learningRate = learningRate();
    result.gradientNorm = m_gradientNorm;
    stop = sums[1] > 0;
    return {};
}

} // namespace planloom::runtime

// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/rank_executor.h"

#include "executor/runtime/clock.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace planloom::runtime {

using trace::Kind;

namespace {

bool isCompute(Kind kind)
{
    return kind == Kind::Forward || kind == Kind::Backward || kind == Kind::WeightGradient || kind == Kind::Recompute || kind == Kind::Optimizer;
}

} // namespace

Result<std::unique_ptr<RankExecutor>> RankExecutor::create(const program::Program &program, const graph::Graph &subject, comm::Communicator &communicator,
                                                           const Feed &feed, trace::Sink &sink, ExecutorOptions options)
{
    if (communicator.size() != static_cast<int>(program.ranks.size()))
        return badInput("the plan has " + std::to_string(program.ranks.size()) + " ranks and the run " + std::to_string(communicator.size())
                        + " processes; start one process per rank");
    std::unique_ptr<RankExecutor> executor(new RankExecutor(program, communicator, sink, std::move(options)));
    if (const Status status = executor->prepare(subject, feed); !status)
        return status.error();
    return executor;
}

// --- Before the first step ------------------------------------------------------------------------------------------

Status RankExecutor::prepare(const graph::Graph &subject, const Feed &feed)
{
    Result<Arena> arena = Arena::allocate(m_program.ranks[m_rank.index()].arenaBytes);
    if (!arena)
        return arena.error();
    m_arena = std::move(*arena);
    if (const Status status = prepareBodies(subject, feed); !status)
        return status;
    if (const Status status = prepareTasks(); !status)
        return status;
    // Making groups blocks until all ranks do it: see that they are all here first.
    if (const Status status = m_comm.barrier(m_options.deadline); !status)
        return status;
    if (const Status status = prepareGroups(); !status)
        return status;
    const Result<std::int64_t> origin = agreeOnOrigin(m_comm, m_options.deadline);
    if (!origin)
        return origin.error();
    m_origin = *origin;
    m_agreedBytes = m_comm.bytesSent();
    return {};
}

Status RankExecutor::prepareBodies(const graph::Graph &subject, const Feed &feed)
{
    for (const std::int32_t index : m_program.ranks[m_rank.index()].bodies) {
        auto body = BodyRunner::create(m_program, m_program.bodies[static_cast<std::size_t>(index)], m_arena, feed);
        if (!body)
            return body.error();
        if (const Status status = (*body)->initialize(subject, m_options.seed, m_options.modelFolder); !status)
            return status;
        (*body)->prepareUpdate(m_options.optimizer);
        const auto &held = m_program.bodies[static_cast<std::size_t>(index)].held;
        m_held.insert(m_held.end(), held.begin(), held.end());
        m_bodies.push_back(std::move(*body));
    }
    return {};
}

Status RankExecutor::prepareTasks()
{
    const program::Rank &rank = m_program.ranks[m_rank.index()];
    std::vector<std::int32_t> localIndex(m_program.tasks.size(), -1);
    for (std::size_t i = 0; i < rank.tasks.size(); ++i)
        localIndex[rank.tasks[i].index()] = static_cast<std::int32_t>(i);
    m_tasks.resize(rank.tasks.size());
    for (std::size_t i = 0; i < rank.tasks.size(); ++i) {
        const program::Task &task = m_program.task(rank.tasks[i]);
        LocalTask &local = m_tasks[i];
        local.id = rank.tasks[i];
        local.kind = task.kind;
        local.lane = static_cast<std::int16_t>(task.lane);
        local.microBatch = task.microBatch;
        local.body = static_cast<std::int32_t>(std::find(rank.bodies.begin(), rank.bodies.end(), task.body) - rank.bodies.begin());
        local.bucket = task.bucket;
        local.team = task.team;
        local.pass = task.pass;
        local.part = {task.firstOp, task.lastOp, task.opens, task.closes};
        if (task.team >= 0 && task.bucket < 0) {
            m_boxingTasks.resize(rank.bodies.size());
            std::vector<std::int32_t> &boxing = m_boxingTasks[static_cast<std::size_t>(local.body)];
            boxing.resize(std::max(boxing.size(), static_cast<std::size_t>(task.firstOp) + 1), -1);
            boxing[static_cast<std::size_t>(task.firstOp)] = static_cast<std::int32_t>(i);
        }
        for (const TaskId before : m_program.dependenciesOf(task)) {
            ++local.dependencies;
            m_tasks[static_cast<std::size_t>(localIndex[before.index()])].successors.push_back(static_cast<std::int32_t>(i));
        }
    }
    for (const TaskId id : rank.order)
        m_order.push_back(localIndex[id.index()]);
    Result<TransferTable> transfers = makeTransfers(m_program, m_rank, m_comm.maxTag());
    if (!transfers)
        return transfers.error();
    m_transfers = std::move(*transfers);
    m_requests.resize(m_transfers.transfers.size());
    m_stamps.resize(static_cast<std::size_t>(m_transfers.stamps));
    m_collectives.resize(m_tasks.size());
    m_open.resize(m_tasks.size());
    m_state.resize(m_tasks.size());
    m_started.resize(m_tasks.size());
    m_running.reserve(m_tasks.size());
    return {};
}

// --- Steps ----------------------------------------------------------------------------------------------------------

std::int64_t RankExecutor::now() const
{
    return monotonicNanoseconds() - m_origin;
}

Status RankExecutor::run()
{
    bool stop = false;
    std::int64_t begin = now();
    for (m_step = m_options.firstStep; m_step < m_options.steps && !stop; ++m_step) {
        if (const Status status = runStep(); !status)
            return status;
        StepResult result;
        result.step = m_step;
        if (const Status status = agreeOnStep(result, stop); !status)
            return status;
        const std::int64_t end = now();
        result.seconds = static_cast<double>(end - begin) * 1e-9;
        begin = end;
        ++m_stepsDone;
        if (m_options.onStep)
            m_options.onStep(result);
        if (!m_options.afterStep)
            continue;
        const std::int64_t before = m_comm.bytesSent();
        if (const Status status = m_options.afterStep(result, stop); !status)
            return status;
        m_agreedBytes += m_comm.bytesSent() - before;
        begin = now();
    }
    return {};
}

Status RankExecutor::runStep()
{
    m_done = 0;
    m_scaled = false;
    m_lastProgress = now();
    for (std::size_t i = 0; i < m_tasks.size(); ++i) {
        m_open[i] = m_tasks[i].dependencies;
        m_state[i] = State::Waiting;
    }
    for (std::size_t i = 0; i < m_tasks.size(); ++i)
        startReady(static_cast<std::int32_t>(i));
    for (std::size_t next = 0; m_done < m_tasks.size() && m_failure;) {
        if (next < m_order.size() && m_open[static_cast<std::size_t>(m_order[next])] == 0) {
            compute(m_order[next++]);
            poll();
            continue;
        }
        if (poll())
            continue;
        if (const Status status = waitWhileIdle(); !status)
            return status;
    }
    // A rank without parameters has no optimizer task, and still is one of those that agree on the norm.
    if (m_failure && !m_scaled)
        m_failure = scaleGradients();
    return m_failure;
}

void RankExecutor::compute(std::int32_t index)
{
    const LocalTask &task = m_tasks[static_cast<std::size_t>(index)];
    BodyRunner &body = *m_bodies[static_cast<std::size_t>(task.body)];
    m_started[static_cast<std::size_t>(index)] = now();
    switch (task.kind) {
    case Kind::Forward:
        body.forward(task.microBatch, m_step, task.part, *this);
        break;
    case Kind::Recompute:
        body.recompute(task.microBatch, task.part, *this);
        break;
    case Kind::Backward:
        body.backward(task.microBatch, task.part, *this);
        break;
    case Kind::WeightGradient:
        body.weightGradient(task.microBatch, task.part, *this);
        break;
    default:
        if (!m_scaled)
            m_failure = scaleGradients();
        if (!m_failure)
            return;
        body.optimize(m_options.optimizer, {m_step, learningRate(), m_gradientScale});
        break;
    }
    finish(index);
}

/// Starts a communication task whose dependencies are done.
void RankExecutor::startReady(std::int32_t index)
{
    const auto i = static_cast<std::size_t>(index);
    if (isCompute(m_tasks[i].kind) || m_open[i] != 0 || m_state[i] != State::Waiting)
        return;
    m_state[i] = State::Running;
    m_started[i] = now();
    m_running.push_back(index);
    if (m_tasks[i].team >= 0)
        startCollective(index);
    else
        startTransfers(index);
}

void RankExecutor::startTransfers(std::int32_t index)
{
    const auto i = static_cast<std::size_t>(index);
    const bool sends = m_tasks[i].kind == Kind::Send;
    for (auto t = static_cast<std::size_t>(m_transfers.first[i]); t < static_cast<std::size_t>(m_transfers.first[i + 1]); ++t) {
        const Transfer &transfer = m_transfers.transfers[t];
        void *data = nullptr;
        if (transfer.stamp) {
            std::int64_t &stamp = m_stamps[static_cast<std::size_t>(transfer.offset)];
            stamp = sends ? m_started[i] : stamp;
            data = &stamp;
        } else {
            data = m_arena.use(transfer.offset, transfer.bytes);
        }
        if (transfer.from >= 0) {
            std::memcpy(data, m_arena.use(transfer.from, transfer.bytes), static_cast<std::size_t>(transfer.bytes));
            continue;
        }
        if (transfer.peer < 0) {
            std::memset(data, 0, static_cast<std::size_t>(transfer.bytes));
            continue;
        }
        const Result<comm::Request> request = sends ? m_comm.isend(data, transfer.bytes, transfer.peer, transfer.tag)
                                                    : m_comm.irecv(data, transfer.bytes, transfer.peer, transfer.tag);
        if (!request) {
            m_failure = request.error();
            return;
        }
        m_requests[t] = *request;
    }
}

double RankExecutor::learningRate() const
{
    const plan::Optimizer &how = m_options.optimizer;
    return how.learningRate * plan::learningRateFactor(how.schedule, m_step, m_options.steps);
}

/// Agrees on the norm of all gradients and by how much it is too long.
Status RankExecutor::scaleGradients()
{
    m_scaled = true;
    const double most = m_options.optimizer.clipNorm;
    if (most <= 0)
        return {};
    double square = 0;
    for (const auto &body : m_bodies)
        square += body->squaredGradientNorm();
    // In two floats: their sums keep the precision of a double.
    float sums[2] = {static_cast<float>(square), 0};
    sums[1] = static_cast<float>(square - static_cast<double>(sums[0]));
    if (const Status status = agree(sums, "the other ranks' gradients"); !status)
        return status;
    m_gradientNorm = std::sqrt(static_cast<double>(sums[0]) + static_cast<double>(sums[1]));
    m_gradientScale = m_gradientNorm > most ? most / m_gradientNorm : 1;
    return {};
}

/// Moves communication on; true if a task ended.
bool RankExecutor::poll()
{
    bool moved = false;
    for (std::size_t r = 0; r < m_running.size() && m_failure;) {
        const std::int32_t index = m_running[r];
        if (!finished(index)) {
            ++r;
            continue;
        }
        m_running[r] = m_running.back();
        m_running.pop_back();
        finish(index);
        moved = true;
    }
    return moved;
}

bool RankExecutor::finished(std::int32_t index)
{
    const auto i = static_cast<std::size_t>(index);
    const auto test = [this](comm::Request &request) {
        const Result<bool> done = m_comm.test(request);
        if (!done && m_failure)
            m_failure = done.error();
        return done && *done;
    };
    if (m_tasks[i].team >= 0)
        return test(m_collectives[i]);
    bool all = true;
    for (auto t = static_cast<std::size_t>(m_transfers.first[i]); t < static_cast<std::size_t>(m_transfers.first[i + 1]); ++t) {
        if (m_requests[t].pending())
            all = test(m_requests[t]) && all;
    }
    return all;
}

void RankExecutor::finish(std::int32_t index)
{
    const auto i = static_cast<std::size_t>(index);
    m_state[i] = State::Done;
    ++m_done;
    m_lastProgress = now();
    const LocalTask &task = m_tasks[i];
    if (task.team >= 0)
        collected(task);
    if (task.kind == Kind::Receive) {
        // A transfer begins when both ends are ready, not when the receiver begins to wait.
        for (auto t = static_cast<std::size_t>(m_transfers.first[i]); t < static_cast<std::size_t>(m_transfers.first[i + 1]); ++t) {
            if (m_transfers.transfers[t].stamp)
                m_started[i] = std::max(m_started[i], m_stamps[static_cast<std::size_t>(m_transfers.transfers[t].offset)]);
        }
    }
    record(task, m_lastProgress);
    for (const std::int32_t successor : task.successors) {
        --m_open[static_cast<std::size_t>(successor)];
        startReady(successor);
    }
}

void RankExecutor::record(const LocalTask &task, std::int64_t end)
{
    const auto i = static_cast<std::size_t>(&task - m_tasks.data());
    // Transfers of one lane overlap here and take turns in a trace: each is shown from where the one before it ended.
    std::int64_t &laneEnd = m_laneEnd[task.lane];
    const std::int64_t start = std::min(std::max(m_started[i], laneEnd), end);
    laneEnd = end;
    trace::Record record;
    record.start = start;
    record.duration = end - start;
    record.task = task.id.value;
    record.step = static_cast<std::int32_t>(m_step);
    record.rank = static_cast<std::int16_t>(m_rank.value);
    record.lane = task.lane;
    m_sink.write(record);
}

void RankExecutor::betweenOperators()
{
    if (!m_running.empty())
        poll();
}

Status RankExecutor::waitWhileIdle()
{
    if (now() - m_lastProgress > m_options.deadline.count())
        return failed(whatWaits());
    sched_yield();
    return {};
}

std::string RankExecutor::whatWaits() const
{
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(m_options.deadline).count();
    std::string tasks;
    for (const std::int32_t index : m_running)
        tasks += (tasks.empty() ? "" : ", ") + program::idOf(m_program.task(m_tasks[static_cast<std::size_t>(index)].id));
    return "rank " + std::to_string(m_rank.value) + " saw no communication end for " + std::to_string(seconds) + " s in step " + std::to_string(m_step)
        + (tasks.empty() ? "" : "; waiting: " + tasks) + "; look at the other ranks' messages and at the network between the machines";
}

} // namespace planloom::runtime

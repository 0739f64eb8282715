// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/task_loop.h"

#include "engine/simulate/clock.h"
#include "executor/device/meanwhile.h"
#include "executor/runtime/parameter_server.h"

#include <chrono>
#include <utility>

namespace planloom::runtime {

Status TaskLoop::prepare()
{
    Result<dispatch::LaneOrders> orders = simulate::laneOrders(m_parts.program, m_parts.rank);
    if (!orders)
        return orders.error();
    m_orders = std::move(*orders);
    const auto policy = dispatch::findLanePolicy(m_parts.program.lanePolicy);
    if (!policy)
        return policy.error();
    m_dispatcher.emplace(m_parts.program, **policy, m_parts.rank, m_orders,
                         m_parts.program.spansSteps() ? dispatch::Steps::Many : dispatch::Steps::One);
    m_progress.resize(static_cast<std::size_t>(m_dispatcher->units()));
    for (Progress &progress : m_progress) {
        auto event = m_parts.device.makeEvent();
        if (!event)
            return event.error();
        progress.ended = std::move(*event);
    }
    m_running.reserve(m_progress.size());
    return {};
}

Status TaskLoop::run(std::int64_t step)
{
    enter(step);
    m_dispatcher->begin(static_cast<double>(m_lastProgress));
    return runUntilDone();
}

Status TaskLoop::runUntilDone()
{
    startReady();
    while (m_status && !m_dispatcher->done()) {
        if (poll())
            continue;
        if (const Status status = waitWhileIdle(); !status)
            return status;
    }
    return m_status;
}

/// Starts whatever may start. Operators are given to the device one by one, in between of which communication goes on;
/// a processor runs them in place, so that a compute task starts behind all that may run beside it.
void TaskLoop::startReady()
{
    std::optional<Unit> computes;
    while (m_status) {
        if (m_hooks != nullptr) {
            m_status = m_hooks->beforeTask();
            if (!m_status)
                return;
        }
        const auto unit = m_dispatcher->next(static_cast<double>(m_parts.now()));
        if (unit && task(*unit).lane == program::Lane::Compute)
            computes = unit;
        else if (unit)
            start(*unit);
        else if (computes)
            start(*std::exchange(computes, std::nullopt));
        else
            return;
    }
}

void TaskLoop::start(Unit unit)
{
    Progress &progress = progressOf(unit);
    progress.started = m_parts.now();
    const program::Task &started = task(unit);
    const MarkScope marked(m_parts.marks, markOf(unit));
    if (started.lane == program::Lane::Compute) {
        const device::Meanwhile meanwhile([this] { betweenOperators(); });
        if (Status status = m_compute.run(started, stepOf(unit), *this); !status && m_status)
            m_status = std::move(status);
        m_parts.queue(started.lane).record(*progress.ended);
        if (m_status && finished(unit))
            finish(unit);
        else
            m_running.push_back(unit);
        return;
    }
    progress.communicates = true;
    m_running.push_back(unit);
    m_status = m_communication.start(started, indexOf(unit), stepOf(unit), progress.request);
}

/// Makes progress on communication, and starts tasks whose dependencies ended; true if a task ended.
bool TaskLoop::poll()
{
    bool moved = false;
    for (std::size_t r = 0; r < m_running.size() && m_status;) {
        const Unit unit = m_running[r];
        if (!finished(unit)) {
            ++r;
            continue;
        }
        m_running[r] = m_running.back();
        m_running.pop_back();
        finish(unit);
        moved = true;
    }
    if (moved) {
        m_rest.moved();
        startReady();
    }
    return moved;
}

/// Communication first, then the remaining work on the device.
bool TaskLoop::finished(Unit unit)
{
    Progress &progress = progressOf(unit);
    if (progress.communicates && !communicated(unit))
        return false;
    const Result<bool> ended = progress.ended->poll();
    if (!ended && m_status)
        m_status = ended.error();
    return ended && *ended;
}

/// True once all that the task sends and receives is done; then enqueues the remaining work.
bool TaskLoop::communicated(Unit unit)
{
    const program::Task &running = task(unit);
    Progress &progress = progressOf(unit);
    const Result<bool> done = m_communication.test(running, indexOf(unit), progress.request);
    if (!done && m_status)
        m_status = done.error();
    if (!done || !*done)
        return false;
    const MarkScope marked(m_parts.marks, markOf(unit));
    progress.communicates = false;
    m_parts.queue(m_communication.ended(running, stepOf(unit))).record(*progress.ended);
    return true;
}

void TaskLoop::finish(Unit unit)
{
    m_lastProgress = m_parts.now();
    const program::Task &ended = task(unit);
    trace::Record record;
    record.start = progressOf(unit).started;
    record.duration = m_lastProgress - record.start;
    record.task = taskOf(unit).value;
    record.step = static_cast<std::int32_t>(stepOf(unit));
    record.rank = m_parts.rank.value;
    record.lane = static_cast<std::int32_t>(ended.lane);
    m_sink.write(record);
    m_dispatcher->ended(unit, static_cast<double>(m_lastProgress));
    const auto *agreement = ended.as<program::Agreement>();
    if (m_hooks != nullptr && agreement != nullptr && agreement->subject == program::Agreement::Subject::Step)
        m_hooks->stepsAgreed();
}

void TaskLoop::betweenOperators()
{
    if (!m_running.empty())
        poll();
}

Status TaskLoop::waitWhileIdle()
{
    const std::int64_t idle = m_parts.now() - m_lastProgress;
    if (idle > m_options.deadline.count())
        return failed(whatWaits());
    if (m_options.served != nullptr && m_parts.own().hostBytes > 0)
        restWhileIdle(idle); // copies to the host tier end without a sign
    else if (m_options.served != nullptr)
        m_options.served->rest();
    else if (sleeps()) // others need the core
        m_rest.idle(idle);
    else
        m_rest.look();
    return {};
}

std::string TaskLoop::whatWaits() const
{
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(m_options.deadline).count();
    std::string tasks;
    for (const Unit unit : m_running)
        tasks += (tasks.empty() ? "" : ", ") + program::idOf(task(unit));
    std::string calls = m_parts.comm.underWay();
    if (m_options.served != nullptr && calls.empty())
        calls = m_options.served->underWay();
    return "rank " + std::to_string(m_parts.rank.value) + " saw no communication end for " + std::to_string(seconds)
        + " s in step " + std::to_string(m_step) + (tasks.empty() ? "" : "; waiting: " + tasks)
        + (calls.empty() ? "" : " (" + calls + ")")
        + "; look at the other ranks' messages and at the network between the machines";
}

} // namespace planloom::runtime

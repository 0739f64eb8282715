// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/collectives.h"

namespace planloom::comm {

namespace {

bool isStepDone(const Pipe &pipe, const SendStep &step) { return pipe.sendsDone() > step.number; }

bool isStepDone(const Pipe &pipe, const ReceiveStep &step) { return pipe.receivesDone() > step.number; }

/// Whether step @p index of @p steps, of which @p begun were begun, is done; -1 stands for nothing.
template <class Step>
bool isStepDone(const std::vector<std::unique_ptr<Pipe>> &pipes, const std::vector<Step> &steps, std::size_t begun,
                std::int32_t index)
{
    if (index < 0)
        return true;
    const auto i = static_cast<std::size_t>(index);
    return i < begun && isStepDone(*pipes[static_cast<std::size_t>(steps[i].peer)], steps[i]);
}

} // namespace

std::int32_t Collectives::addGroup(std::vector<std::unique_ptr<Pipe>> pipes, int position)
{
    m_groups.push_back({std::move(pipes), position, 0, {}});
    return groups() - 1;
}

std::int32_t Collectives::takeOperation()
{
    if (m_free.empty()) {
        m_free.push_back(static_cast<std::int32_t>(m_operations.size()));
        m_operations.push_back(std::make_unique<Operation>());
    }
    const std::int32_t slot = m_free.back();
    m_free.pop_back();
    return slot;
}

Result<Request> Collectives::start(Group group, const Call &call)
{
    Members &members = m_groups[static_cast<std::size_t>(group.index)];
    const std::int32_t slot = takeOperation();
    Operation &operation = *m_operations[static_cast<std::size_t>(slot)];
    Call numbered = call;
    numbered.label.sequence = members.started++;
    operation.label = numbered.label;
    operation.script.write(numbered, static_cast<int>(members.pipes.size()), members.position);
    operation.sendsBegun = operation.sendsDone = operation.receivesBegun = operation.receivesDone = 0;
    operation.done = false;
    m_sent[static_cast<std::size_t>(call.label.kind)] += operation.script.bytesSent();
    members.queue.push_back(slot);
    ++m_underWay;
    if (const Status status = advance(members); !status)
        return status.error();
    return Request{slot, true};
}

Status Collectives::progress()
{
    if (m_underWay == 0)
        return {};
    for (Members &members : m_groups) {
        if (const Status status = advance(members); !status)
            return status;
    }
    return {};
}

/// Moves the group's first collective on, and the next ones if it ends.
Status Collectives::advance(Members &members)
{
    while (!members.queue.empty()) {
        for (const auto &pipe : members.pipes) {
            if (!pipe)
                continue;
            if (const Status status = pipe->progress(); !status)
                return status;
        }
        Operation &operation = *m_operations[static_cast<std::size_t>(members.queue.front())];
        if (const Status status = beginSteps(members, operation); !status)
            return status;
        if (operation.sendsDone < operation.script.sends().size()
            || operation.receivesDone < operation.script.receives().size())
            return {};
        operation.done = true;
        members.queue.erase(members.queue.begin());
        --m_underWay;
    }
    return {};
}

/// Gives steps to the pipes as long as that goes on.
Status Collectives::beginSteps(Members &members, Operation &operation)
{
    const auto state = [&] {
        return operation.sendsBegun + operation.sendsDone + operation.receivesBegun + operation.receivesDone;
    };
    for (std::size_t before = state() + 1; before != state();) {
        before = state();
        if (const Status status = beginReceives(members, operation); !status)
            return status;
        if (const Status status = beginSends(members, operation); !status)
            return status;
    }
    return {};
}

Status Collectives::beginReceives(Members &members, Operation &operation)
{
    auto &steps = operation.script.receives();
    const auto &sends = operation.script.sends();
    for (; operation.receivesBegun < steps.size(); ++operation.receivesBegun) {
        ReceiveStep &step = steps[operation.receivesBegun];
        Pipe &pipe = *members.pipes[static_cast<std::size_t>(step.peer)];
        if (pipe.receivesGiven() - pipe.receivesDone() == Pipe::kWindow
            || !isStepDone(members.pipes, steps, operation.receivesBegun, step.after)
            || !isStepDone(members.pipes, sends, operation.sendsBegun, step.afterSend))
            break;
        step.number = pipe.receivesGiven();
        if (const Status status = pipe.receive(step.piece, operation.label); !status)
            return status;
        if (const Status status = pipe.progress(); !status)
            return status;
    }
    while (
        operation.receivesDone < operation.receivesBegun
        && isStepDone(members.pipes, steps, operation.receivesBegun, static_cast<std::int32_t>(operation.receivesDone)))
        ++operation.receivesDone;
    return {};
}

Status Collectives::beginSends(Members &members, Operation &operation)
{
    auto &steps = operation.script.sends();
    const auto &receives = operation.script.receives();
    for (; operation.sendsBegun < steps.size(); ++operation.sendsBegun) {
        SendStep &step = steps[operation.sendsBegun];
        Pipe &pipe = *members.pipes[static_cast<std::size_t>(step.peer)];
        if (pipe.sendsGiven() - pipe.sendsDone() == Pipe::kWindow
            || !isStepDone(members.pipes, receives, operation.receivesBegun, step.after))
            break;
        step.number = pipe.sendsGiven();
        if (const Status status = pipe.send(step.data, step.bytes, operation.label); !status)
            return status;
    }
    while (operation.sendsDone < operation.sendsBegun
           && isStepDone(members.pipes, steps, operation.sendsBegun, static_cast<std::int32_t>(operation.sendsDone)))
        ++operation.sendsDone;
    return {};
}

} // namespace planloom::comm

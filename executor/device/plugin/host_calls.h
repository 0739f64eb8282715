// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace planloom::device {

/// A queue that can call back. Queues that run commands during the call need not be one.
class HostCalls {
public:
    virtual ~HostCalls() = default;
    /// @p function(@p data) on a thread of the host, in the queue's order. It gives no commands.
    virtual void call(void (*function)(void *), void *data) = 0;
};

} // namespace planloom::device

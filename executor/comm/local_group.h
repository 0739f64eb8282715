// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"

#include <memory>

namespace planloom::comm {

/// Ranks that are threads of one process. Transfers are copied directly from the sender's buffer to the receiver's once
/// both have called (a sender is never done before): the strictest reading of Communicator. Collectives go through
/// RingPipes. Thread contract: the group is shared by all threads, each end belongs to one.
class LocalGroup {
public:
    explicit LocalGroup(int size);
    ~LocalGroup();
    LocalGroup(const LocalGroup &) = delete;
    LocalGroup &operator=(const LocalGroup &) = delete;

    /// The end of @p rank; once per rank. It keeps the group's state alive.
    [[nodiscard]] std::unique_ptr<Communicator> end(int rank);

private:
    struct State;
    class End;
    std::shared_ptr<State> m_state;
};

} // namespace planloom::comm

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"

#include <memory>
#include <vector>

namespace planloom::comm {

class Collectives;
class Pipe;
struct Call;

/// A Communicator whose collectives are scripts over pipes between the members of a group: of host memory. Transports
/// derive from it and bring messages and pipes.
class PipeCommunicator : public Communicator {
public:
    ~PipeCommunicator() override;

    using Communicator::allReduce;
    Result<Request> allReduce(Group group, Element element, void *data, std::int64_t count) final;
    Result<Request> reduceScatter(Group group, Element element, const void *all, void *mine,
                                  std::int64_t countEach) final;
    Result<Request> allGather(Group group, const void *mine, void *all, std::int64_t bytesEach) final;
    Result<Request> allToAll(Group group, const void *from, void *to, std::int64_t bytesEach) final;
    Result<Request> allToAll(Group group, const void *from, std::span<const std::int64_t> bytesTo, void *to,
                             std::span<const std::int64_t> bytesFrom) final;
    Result<Request> broadcast(Group group, int root, void *data, std::int64_t bytes) final;
    Result<bool> test(Request &request) final;
    Result<Group> makeGroup(std::span<const int> ranks) final;
    using Communicator::bytesSent;
    [[nodiscard]] std::int64_t bytesSent(Collective kind) const final;
    Status barrier(std::chrono::nanoseconds deadline) final;

protected:
    PipeCommunicator();

    virtual Result<bool> testMessage(Request &request) = 0;
    /// Moves messages on while only collectives are tested. Error: why everything stopped.
    virtual Status progressMessages() = 0;
    /// Pipes to the members of the group that will have index @p group, this rank among them; nullptr for itself.
    virtual Result<std::vector<std::unique_ptr<Pipe>>> makePipes(std::int32_t group, std::span<const int> ranks) = 0;

    /// Releases the pipes' resources before the transport is destroyed.
    void dropCollectives();

private:
    friend class SwitchedCommunicator; ///< which makes its pipes of another's
    Result<Request> start(Group group, const Call &call);

    std::unique_ptr<Collectives> m_collectives;
    std::vector<std::uint8_t> m_marks; ///< of a barrier
};

} // namespace planloom::comm

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/pipe.h"
#include "executor/comm/script.h"

#include <array>
#include <memory>
#include <vector>

namespace planloom::comm {

/// The collectives of one rank: state machines that hand the steps of their scripts to pipes. Knows groups and order,
/// not transports. Each group has one collective at work; later ones wait.
class Collectives {
public:
    /// @p pipes: per position; nullptr at the rank's own. All empty: this rank is no member.
    std::int32_t addGroup(std::vector<std::unique_ptr<Pipe>> pipes, int position);
    [[nodiscard]] std::int32_t groups() const { return static_cast<std::int32_t>(m_groups.size()); }
    [[nodiscard]] bool isMember(Group group) const
    {
        return !m_groups[static_cast<std::size_t>(group.index)].pipes.empty();
    }
    [[nodiscard]] int members(Group group) const
    {
        return static_cast<int>(m_groups[static_cast<std::size_t>(group.index)].pipes.size());
    }

    [[nodiscard]] int position(Group group) const { return m_groups[static_cast<std::size_t>(group.index)].position; }

    Result<Request> start(Group group, const Call &call);
    [[nodiscard]] bool isDone(Request request) const
    {
        return m_operations[static_cast<std::size_t>(request.slot)]->done;
    }
    void release(Request request) { m_free.push_back(request.slot); }
    Status progress();

    [[nodiscard]] std::int64_t bytesSent(Collective kind) const { return m_sent[static_cast<std::size_t>(kind)]; }

private:
    struct Operation {
        Label label;
        Script script;
        std::size_t sendsBegun = 0;
        std::size_t sendsDone = 0; ///< all before it are
        std::size_t receivesBegun = 0;
        std::size_t receivesDone = 0;
        bool done = false;
    };
    struct Members {
        std::vector<std::unique_ptr<Pipe>> pipes;
        int position = 0;
        std::int64_t started = 0;
        std::vector<std::int32_t> queue; ///< operations in the order started; the first is at work
    };

    std::int32_t takeOperation();
    Status advance(Members &members);
    Status beginSteps(Members &members, Operation &operation);
    Status beginSends(Members &members, Operation &operation);
    Status beginReceives(Members &members, Operation &operation);

    std::vector<Members> m_groups;
    std::vector<std::unique_ptr<Operation>> m_operations;
    std::vector<std::int32_t> m_free;
    std::size_t m_underWay = 0;
    std::array<std::int64_t, cost::kCollectives> m_sent{};
};

} // namespace planloom::comm

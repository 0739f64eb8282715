// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/trainer_communicator.h"

#include <numeric>
#include <vector>

namespace planloom::runtime {

Result<std::unique_ptr<TrainerCommunicator>> TrainerCommunicator::create(comm::Communicator &inner, int trainers)
{
    std::unique_ptr<TrainerCommunicator> made(new TrainerCommunicator(inner, trainers));
    std::vector<int> ranks(static_cast<std::size_t>(trainers));
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto group = inner.makeGroup(ranks);
    if (!group)
        return group.error();
    made->m_world = *group;
    return made;
}

Status TrainerCommunicator::barrier(std::chrono::nanoseconds deadline)
{
    const std::uint8_t mine = 1;
    std::vector<std::uint8_t> marks(static_cast<std::size_t>(m_trainers));
    auto request = allGather(world(), &mine, marks.data(), 1);
    return request ? wait(*request, deadline, "the other trainers") : Status(request.error());
}

} // namespace planloom::runtime

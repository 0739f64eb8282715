// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/communicator.h"

#include "engine/base/backoff.h"

namespace planloom::comm {

std::int64_t Communicator::bytesSent() const
{
    std::int64_t sum = 0;
    for (std::size_t kind = 0; kind < cost::kCollectives; ++kind)
        sum += bytesSent(static_cast<Collective>(kind));
    return sum;
}

Status Communicator::wait(Request &request, std::chrono::nanoseconds deadline, std::string_view what)
{
    const auto end = std::chrono::steady_clock::now() + deadline;
    for (Backoff backoff;; backoff.pause()) {
        const Result<bool> done = test(request);
        if (!done)
            return done.error();
        if (*done)
            return {};
        if (std::chrono::steady_clock::now() > end) {
            const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(deadline).count();
            return failed("rank " + std::to_string(rank()) + " waited " + std::to_string(seconds) + " s for "
                          + std::string(what)
                          + "; look at the other ranks' messages and at the network between the machines");
        }
    }
}

} // namespace planloom::comm

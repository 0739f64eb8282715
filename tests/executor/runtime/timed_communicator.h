// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/clock.h"
#include "executor/runtime/observed_communicator.h"

#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace planloom::test {

/// Notes when another communicator's calls begin, and when they are seen to be done.
class TimedCommunicator final : public ObservedCommunicator {
public:
    /// Nanoseconds of the steady clock.
    struct Call {
        std::int64_t before = 0; ///< when the communicator's last call before it returned
        std::int64_t begin = 0;
        std::int64_t done = -1; ///< after the test() that found it done; -1: never
        std::int64_t after = std::numeric_limits<std::int64_t>::max(); ///< when the next call behind that test() began
    };

    /// @p calls gets them in the order of their beginnings. Both must outlive it.
    TimedCommunicator(comm::Communicator &inner, std::vector<Call> &calls) : ObservedCommunicator(inner), m_calls(calls)
    {
    }

private:
    void begins(std::initializer_list<Range>) override
    {
        const std::int64_t before = m_returned;
        m_calls.push_back({.before = before, .begin = enter()});
    }
    Result<comm::Request> begun(Result<comm::Request> request) override
    {
        m_returned = runtime::monotonicNanoseconds();
        if (request)
            m_underWay[{request->slot, request->collective}] = m_calls.size() - 1;
        return request;
    }
    void testBegins() override { enter(); }
    Result<bool> tested(const comm::Request &request, Result<bool> done) override
    {
        m_returned = runtime::monotonicNanoseconds();
        if (const auto found = m_underWay.find({request.slot, request.collective});
            done && *done && found != m_underWay.end()) {
            m_calls[found->second].done = m_returned;
            m_ended = found->second;
            m_underWay.erase(found);
        }
        return done;
    }

    /// Now; whatever has ended is behind it.
    std::int64_t enter()
    {
        const std::int64_t now = runtime::monotonicNanoseconds();
        if (m_ended)
            m_calls[*m_ended].after = now;
        m_ended.reset();
        return now;
    }

    std::vector<Call> &m_calls;
    std::map<std::pair<std::int32_t, bool>, std::size_t> m_underWay;
    std::int64_t m_returned = 0;        ///< from the last call
    std::optional<std::size_t> m_ended; ///< by the last test()
};

} // namespace planloom::test

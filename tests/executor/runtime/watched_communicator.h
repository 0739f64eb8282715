// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/recording_device.h"
#include "executor/runtime/observed_communicator.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace planloom::test {

/// Tells a RecordingDevice what another communicator reads and writes, from each call until its request is done.
/// Neither its own allocations nor those of a call are counted.
class WatchedCommunicator final : public ObservedCommunicator {
public:
    WatchedCommunicator(comm::Communicator &inner, RecordingDevice &device)
        : ObservedCommunicator(inner),
          m_device(device)
    {
    }

private:
    void begins(std::initializer_list<Range> ranges) override
    {
        m_pause.emplace();
        std::vector<RecordingDevice::TransportRange> watched;
        for (const Range &range : ranges)
            watched.push_back({range.data, range.bytes, range.writes});
        m_begun = m_device.transportBegins(watched);
    }
    Result<comm::Request> begun(Result<comm::Request> request) override
    {
        if (request)
            m_underWay[{request->slot, request->collective}] = m_begun;
        m_pause.reset();
        return request;
    }
    void testBegins() override { m_pause.emplace(); }
    Result<bool> tested(const comm::Request &request, Result<bool> done) override
    {
        if (const auto found = m_underWay.find({request.slot, request.collective});
            done && *done && found != m_underWay.end()) {
            m_device.transportEnds(found->second);
            m_underWay.erase(found);
        }
        m_pause.reset();
        return done;
    }

    RecordingDevice &m_device;
    std::optional<PauseCounting> m_pause;
    std::int64_t m_begun = 0; ///< the device's number of the last call
    std::map<std::pair<std::int32_t, bool>, std::int64_t> m_underWay;
};

} // namespace planloom::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/run/summary.h"
#include "engine/trace/trace.h"
#include "executor/agent/client.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace planloom::agent {

/// A run enters a state; the message says why, where there is a reason.
struct StateChange {
    RunState state = RunState::Starting;
    std::string message;
};
using RunEvent = std::variant<StateChange, run::StepMetrics, run::Validation, run::Summary>;

/// The next message to a client.
struct RunNews {
    std::vector<RunEvent> events;
    std::vector<trace::Record> records;
    std::int64_t dropped = 0; ///< records lost so far on the way to this client
    bool last = false;        ///< nothing follows
};

/// Messages of a run to its client, until the client has read them. Thread-safe; m_mutex guards every member.
class EventQueue {
public:
    void publish(RunEvent event);
    /// @p lost: records that were lost so far before they came here. A client that lags behind by more than 32 MB of
    /// records loses the newest.
    void add(std::span<const trace::Record> records, std::int64_t lost);
    /// Nothing follows.
    void close();
    /// Waits until there is something to tell: records are collected for up to 50 ms or until there are 256.
    RunNews next();

private:
    std::mutex m_mutex;
    std::condition_variable m_changed;
    std::vector<RunEvent> m_events;
    std::vector<trace::Record> m_records;
    std::int64_t m_lost = 0;
    std::int64_t m_dropped = 0; ///< here
    bool m_closed = false;
};

} // namespace planloom::agent

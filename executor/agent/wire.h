// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent.pb.h"
#include "executor/agent/client.h"
#include "executor/agent/run.h"

#include <span>

namespace planloom::agent {

/// No message may be larger: plans embed their model, records come in batches far below.
inline constexpr int kLargestMessage = 64 << 20;

// Values to and from the messages of agent.proto.
wire::TrainRequest toWire(const TrainRequest &request);
TrainRequest fromWire(const wire::TrainRequest &message);
wire::Tables toWire(const trace::Tables &tables);
trace::Tables fromWire(const wire::Tables &message);
wire::Records toWire(std::span<const trace::Record> records, std::int64_t dropped);
std::vector<trace::Record> fromWire(const wire::Records &message);
wire::TrainEvent toWire(const RunEvent &event);
run::StepMetrics fromWire(const wire::Step &message);
wire::Step toWire(const run::StepMetrics &step);
wire::Validation toWire(const run::Validation &validation);
run::Validation fromWire(const wire::Validation &message);
run::Summary fromWire(const wire::Summary &message);
RunState stateFromWire(int state);
ErrorCode codeFromWire(int code);
wire::Outcome toWire(const Status &status);
Status fromWire(const wire::Outcome &message);

} // namespace planloom::agent

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
wire::Tables toWire(const std::vector<trace::RankInfo> &ranks, const std::vector<trace::TaskInfo> &tasks);
void fromWire(const wire::Tables &message, std::vector<trace::RankInfo> &ranks, std::vector<trace::TaskInfo> &tasks);
wire::Records toWire(std::span<const trace::Record> records, std::int64_t dropped);
std::vector<trace::Record> fromWire(const wire::Records &message);
wire::TrainEvent toWire(const RunEvent &event);
StepMetrics fromWire(const wire::Step &message);
wire::Validation toWire(const Validation &validation);
Validation fromWire(const wire::Validation &message);
RunSummary fromWire(const wire::Summary &message);
RunState stateFromWire(int state);
ErrorCode codeFromWire(int code);
wire::Outcome toWire(const Status &status);
Status fromWire(const wire::Outcome &message);

} // namespace planloom::agent

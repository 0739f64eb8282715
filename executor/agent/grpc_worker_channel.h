// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/worker_channel.h"

#include <memory>
#include <string>

namespace planloom::agent {

/// A worker's channel to the agent at @p socketPath, as the run that @p token belongs to. Connects at hello(). A
/// connection that breaks, or never comes about, asks the worker to stop; later reports are lost, and it is not
/// held up. Sends a heartbeat each second, from stopRequested().
std::unique_ptr<runtime::WorkerChannel> connectWorkerChannel(const std::string &socketPath, const std::string &token);

} // namespace planloom::agent

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "engine/program/program.h"
#include "engine/run/metrics.h"
#include "engine/run/settings.h"
#include "engine/trace/trace.h"
#include "executor/comm/communicator.h"

#include <atomic>
#include <functional>
#include <string>

namespace planloom::runtime {

/// What the process of a parameter server works with (program::ParameterServer); all is borrowed.
struct VersionServerContext {
    const plan::Plan &plan;
    const plan::Subject &subject;
    const run::Request &request;
    comm::Communicator &comm; ///< all processes; this one is the last
    std::string runFolder;    ///< gets arrivals.csv; empty: nothing is written
    std::function<void(const run::StepMetrics &)> onVersion;
    const std::atomic<bool> *stop = nullptr; ///< set by any thread: the next version is the last
    /// Whose rows (program::ServerRows) the records in `sink` are of; nullptr: nothing is recorded.
    const program::Program *program = nullptr;
    trace::Sink *sink = nullptr;
    std::int64_t origin = 0; ///< time zero of records, on this machine's monotonic clock
};

/// Makes versions of the parameters from ranks' messages, as dispatch::Versions says, until the run's last step, and
/// returns when all ranks have left. Behind versions at which checkpoints or validations are due, and behind the last
/// one, all ranks get that version and begin together. Run::Settings::arrivals: versions are made again as they are
/// recorded there. Errors: Failed (communication; no version for the run's deadline: names those that it waits for),
/// BadInput (what is recorded, sums without a Cholesky factor), Io.
Status runVersionServer(const VersionServerContext &context);

} // namespace planloom::runtime

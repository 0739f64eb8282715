// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/store/store.h"
#include "executor/agent/client.h"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace planloom::agent {

/// A run's steps and validations in RUN/metrics.db (engine/store's format, one run), for whoever wants to ask questions of them. Written in
/// batches, so that a run with short steps is not held up. Thread contract: one thread at a time.
class RunMetrics {
public:
    /// Opens or makes the file. Error: Io, BadInput (damaged).
    static Result<RunMetrics> open(const std::string &path, const store::Run &run);
    /// What metrics.jsonl has and the data base does not, as an agent that was killed had no time for it. Errors: those of store::Workspace.
    Status catchUp(std::span<const StepMetrics> steps, std::span<const Validation> validations);
    void add(const StepMetrics &step);
    void add(const Validation &validation);
    /// Writes what was added if a second has passed since the last time, or now. Error: Io; what was added is then forgotten.
    Status flush(bool now);
    /// The run goes on from @p step.
    Status forgetFrom(std::int64_t step);
    /// The run's state and figures.
    Status end(store::Run run);

private:
    explicit RunMetrics(store::Workspace workspace) : m_workspace(std::move(workspace)) {}
    store::Workspace m_workspace;
    std::int64_t m_run = 0;
    std::vector<store::Step> m_steps;
    std::vector<store::Validation> m_validations;
    std::chrono::steady_clock::time_point m_flushed;
};

} // namespace planloom::agent

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

/// A run's steps and validations in RUN/metrics.db (engine/store's format, one run), for queries
/// of them. Written in batches, so that a run with short steps is not held up. Thread contract: one thread at a time.
class MetricsDatabase {
public:
    /// Opens or makes the file. Error: Io, BadInput (damaged).
    static Result<MetricsDatabase> open(const std::string &path, const store::Run &run);
    /// Adds the rows of metrics.jsonl that the data base lacks after an agent was killed. Errors: those
    /// of store::Workspace.
    Status addMissing(std::span<const run::StepMetrics> steps, std::span<const run::Validation> validations);
    void add(const run::StepMetrics &step);
    void add(const run::Validation &validation);
    /// Writes new rows if a second has passed since the last time, or now. Error: Io; the new rows are then
    /// forgotten.
    Status flush(bool now);
    /// The run goes on from @p step.
    Status forgetFrom(std::int64_t step);
    /// The run's state and figures.
    Status end(store::Run run);

private:
    explicit MetricsDatabase(store::Workspace workspace) : m_workspace(std::move(workspace)) {}
    store::Workspace m_workspace;
    std::int64_t m_run = 0;
    std::vector<run::StepMetrics> m_steps;
    std::vector<run::Validation> m_validations;
    std::chrono::steady_clock::time_point m_flushed;
};

} // namespace planloom::agent

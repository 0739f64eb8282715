// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/metrics_database.h"

namespace planloom::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kFlushEvery = 1s;
constexpr std::size_t kMostWaiting = 4096; ///< rows; some milliseconds to write

} // namespace

Result<MetricsDatabase> MetricsDatabase::open(const std::string &path, const store::Run &run)
{
    auto workspace = store::Workspace::open(path);
    if (!workspace)
        return workspace.error();
    MetricsDatabase metrics(std::move(*workspace));
    const auto before = metrics.m_workspace.listRuns();
    if (!before)
        return before.error();
    if (!before->empty()) { // the run goes on
        metrics.m_run = before->front().id;
        return metrics;
    }
    const auto id = metrics.m_workspace.recordRun(run);
    if (!id)
        return id.error();
    metrics.m_run = *id;
    return metrics;
}

Status MetricsDatabase::addMissing(std::span<const run::StepMetrics> steps,
                                   std::span<const run::Validation> validations)
{
    const auto stored = m_workspace.steps(m_run);
    if (!stored)
        return stored.error();
    const auto seen = m_workspace.validations(m_run);
    if (!seen)
        return seen.error();
    // Both were written in the order of steps.
    for (const run::StepMetrics &step : steps) {
        if (stored->empty() || step.step > stored->back().step)
            add(step);
    }
    for (const run::Validation &validation : validations) {
        if (seen->empty() || validation.step > seen->back().step)
            add(validation);
    }
    return flush(true);
}

void MetricsDatabase::add(const run::StepMetrics &step) { m_steps.push_back(step); }

void MetricsDatabase::add(const run::Validation &validation) { m_validations.push_back(validation); }

Status MetricsDatabase::flush(bool now)
{
    const auto time = std::chrono::steady_clock::now();
    if (m_steps.empty() && m_validations.empty())
        return {};
    if (!now && time - m_flushed < kFlushEvery && m_steps.size() < kMostWaiting)
        return {};
    m_flushed = time;
    const Status done = m_workspace.record(m_run, m_steps, m_validations);
    m_steps.clear();
    m_validations.clear();
    return done;
}

Status MetricsDatabase::forgetFrom(std::int64_t step) { return m_workspace.forgetFrom(m_run, step); }

Status MetricsDatabase::end(store::Run run)
{
    run.id = m_run;
    return m_workspace.updateRun(run);
}

} // namespace planloom::agent

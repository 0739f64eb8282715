// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/run/summary.h"
#include "engine/simulate/prediction.h"
#include "executor/agent/metrics_database.h"
#include "executor/agent/run_folder.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace planloom::agent {

/// Writes the reports of a run's workers into its folder: trace, metrics.jsonl, metrics.db, log. Reports come from any
/// thread and wait in memory; one thread, the supervisor's, calls everything else and alone touches the files. m_mutex
/// guards waiting reports and the list of steps.
class RunRecorder {
public:
    /// @p folder must outlive it.
    explicit RunRecorder(RunFolder &folder) : m_folder(folder) {}

    // Any thread.
    void add(const run::StepMetrics &step);
    void add(const run::Validation &validation);
    /// @p lost: records that were lost so far before they came here. More than 4 M that wait are lost, too.
    void add(std::span<const trace::Record> records, std::int64_t lost);
    /// The metrics of the steps before @p steps are to be written; write() returns when they are.
    void askFor(std::int64_t steps);
    /// Of the run, those before it was resumed included.
    [[nodiscard]] std::vector<run::StepMetrics> steps() const;
    /// The newest step's number and one more.
    [[nodiscard]] std::int64_t stepsDone() const;
    /// The longest step of a usual round among the newest ones (run::longestSeconds); 0 without one.
    [[nodiscard]] double longestSeconds() const;
    [[nodiscard]] std::int64_t lostRecords() const;

    // The supervisor's thread.
    /// Makes the files; of a run that is @p resumed the steps are read. A metrics.db that cannot be written stops no
    /// run. Errors: Io, BadInput (damaged).
    Status open(const simulate::Prediction &prediction, bool resumed);
    /// The run goes on from @p step: later reports, written or waiting, are forgotten. Errors: Io, BadInput (damaged).
    Status goOnFrom(std::int64_t step);
    /// Writes waiting reports; metrics.db about once a second or, if @p last, now. Returns the number of leading steps
    /// whose metrics were asked for and are now in metrics.jsonl; 0: none were. Error: Io, but for metrics.db.
    Result<std::int64_t> write(bool last);
    void appendLog(std::string_view text) { m_folder.appendLog(text); }
    /// A line of our own in the log, and in the process's.
    void note(const std::string &text);
    /// The trace has its last block.
    Status closeTrace();
    /// The end of a run that stands: metrics.jsonl has exactly the run's steps, summary.json is @p summary.
    Status writeSummary(const run::Summary &summary);
    /// The end of a run that did no step: its folder is as it was before.
    void discard(bool resumed);
    /// metrics.db's state and figures of the run; closes it.
    void conclude(const Status &outcome, const std::optional<run::Summary> &summary);

private:
    using Line = std::variant<run::StepMetrics, run::Validation>;
    [[nodiscard]] store::Run databaseRow() const;
    Result<std::vector<run::StepMetrics>> readMetrics();
    void giveUpDatabase(const Error &why);
    Status writeTrace();
    Status writeLines(const std::vector<Line> &lines);

    RunFolder &m_folder;
    std::string m_model;
    std::atomic<std::size_t> m_period = 1; ///< steps of a round
    std::optional<trace::TraceWriter> m_trace;
    std::optional<MetricsDatabase> m_database; ///< none: it could not be written

    mutable std::mutex m_mutex;
    std::vector<run::StepMetrics> m_steps;
    std::int64_t m_firstStep = 0; ///< of the group of workers at hand
    std::vector<Line> m_lines;
    std::int64_t m_askedFor = 0; ///< steps; 0: none
    std::vector<trace::Record> m_records;
    std::int64_t m_lost = 0;    ///< records, before they came here
    std::int64_t m_dropped = 0; ///< records, here
};

} // namespace planloom::agent

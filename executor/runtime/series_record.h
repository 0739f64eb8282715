// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "engine/program/program.h"
#include "executor/runtime/executor_options.h"

#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::runtime {

/// A file of a run's folder to which this process adds a line a step. Lines wait in the file's buffer for some tenths
/// of a second, so that few steps pay for a call of the system; from the second line on adding allocates nothing. A run
/// goes on without a file that cannot be written. Thread contract: one thread.
class SeriesFile {
public:
    /// With the first line the file becomes @p head and what it has of steps before @p firstStep, if it begins with
    /// that head now.
    SeriesFile(std::string path, const std::string &head, std::int64_t firstStep);
    void add(std::string_view line);

private:
    void begin();

    std::string m_path;
    std::string m_kept; ///< what is in front of the first line; empty: it is written
    std::ofstream m_file;
    std::chrono::steady_clock::time_point m_flushed;
};

/// What this rank notes of each step in files of its own (engine/run/series.h): the loss of its replica where
/// parameters are averaged, rows of the tables of whose team it is the first. Thread contract: one thread.
class SeriesRecord {
public:
    /// Sets the calls of @p options, which this outlives, for rank @p rank of @p program. @p profile, which may be
    /// null, has what the plan expects of tables.
    SeriesRecord(const program::Program &program, int rank, const cost::Profile *profile, const std::string &folder,
                 ExecutorOptions &options);

private:
    void recordLosses(const program::Program &program, int rank, const std::string &folder, ExecutorOptions &options);
    void recordRows(const program::Program &program, int rank, const cost::Profile *profile, const std::string &folder,
                    ExecutorOptions &options);

    std::optional<SeriesFile> m_losses;
    std::vector<std::optional<SeriesFile>> m_rows; ///< per table of the Program; none: another rank's
};

} // namespace planloom::runtime
